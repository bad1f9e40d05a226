"""Does the bench cost little, scale, and lose nothing?

    python studies/bench_check.py [--quick]

1. Overhead: a solver that takes one millisecond, by the clock; what a row costs beyond the solve
   and the judgement, start-up apart.
2. Scale: random reachable targets on five robots through `box-lm` in bulk: run, judged, folded to
   Parquet and tabulated; rows a second and the memory of all processes together.
3. Killed at random moments and resumed, against an undisturbed run.
4. A Dask cluster of two workers, one of them killed half-way, against one process.

Times on a shared machine are noisy: the figures say what this run saw.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import optik
from optik.benchmark.columns import TIMES
from optik.benchmark.environment import environment_line
from optik.benchmark.journal import read_run
from optik.benchmark.tables import Column, Table, summary_table, to_terminal, write_tables
from optik.problem_sets import SetFile
from optik.result import Claim, Result
from optik.solvers import Solver

RESULTS = Path(__file__).parent / "results" / "bench_check"
ROBOTS = ("arm7", "panda", "iiwa14", "ur5e", "so101")
SOLVER = "box-lm"


@dataclass(frozen=True, kw_only=True)
class OneMillisecond(Solver):
    """Waits for a millisecond and hands back the start."""

    name: ClassVar[str] = "one-millisecond"
    summary: ClassVar[str] = "waits"
    family: ClassVar[str] = "own"

    def prepare(self, robot, shape, budget):
        def solve(problem, *, trace=False, deadline=None):
            end = time.perf_counter() + 1e-3
            while time.perf_counter() < end:
                pass
            return Result(problem.q_start, Claim.NO_PROGRESS, "waited", 1, 1)

        return solve


def reachable(name: str, count: int, seed: int) -> optik.ProblemSet:
    """Targets reached by uniformly drawn configurations, made in memory."""
    robot = optik.Robot.load(name)
    rng = np.random.default_rng(seed)
    q = rng.uniform(robot.sampling_lower, robot.sampling_upper, (count, robot.n))
    kinematics, frame = robot.kinematics(), robot.frame_ref
    positions, quaternions = np.empty((count, 3)), np.empty((count, 4))
    for i, row in enumerate(q):
        kinematics.update(row)
        positions[i] = kinematics.position(frame)
        quaternions[i] = kinematics.quaternion(frame)
    kind = "pose" if robot.n >= 6 else "position"
    spec = SetFile(
        title=f"{count} reachable targets", robot=name, stratum="reachable", target=kind,
        generator="reachable", seed=seed, count=count,
    )  # fmt: skip
    return optik.ProblemSet(
        f"{name}_{count}", spec, robot, np.arange(count), positions,
        quaternions if kind == "pose" else None, None, None,
    )  # fmt: skip


def overhead(rows: int, folder: Path) -> Table:
    """What a row costs beyond the solve and the judgement."""
    problems = optik.load_problem_set("arm7_reachable")
    lines = []
    for label, options in (
        ("a process of its own, into a folder", {"out": folder}),
        ("a process of its own, in memory", {}),
        ("this process", {"isolate": False}),
    ):
        # The difference of two lengths: starting a process and folding are not a row's.
        walls, inside = [], []
        for k, count in enumerate((rows // 5, rows)):
            given = dict(options)
            if "out" in given:
                given["out"] = folder / f"overhead_{k}"
            began = time.perf_counter()
            frame = optik.run(
                [problems.first(min(count, len(problems)))], [OneMillisecond()],
                repeats=max(1, count // len(problems)), **given,
            )  # fmt: skip
            walls.append(time.perf_counter() - began)
            inside.append(frame[["solve_time", "judge_time"]].to_numpy().sum())
            counted = len(frame) if k == 0 else len(frame) - counted
        spent, work = walls[1] - walls[0], inside[1] - inside[0]
        lines.append(
            {
                "how": label,
                "rows": counted,
                "row": spent / counted,
                "beyond": (spent - work) / counted,
                "share": 100 * (spent - work) / work,
                "start": walls[0] - inside[0] - (spent - work) / counted * (rows // 5),
            }
        )
    columns = (
        Column("how", "solves in"),
        Column("rows", "rows", "count"),
        Column("row", "a row", "seconds"),
        Column("beyond", "beyond solving and judging", "seconds"),
        Column("share", "overhead [%]", "number"),
        Column("start", "start and end of a run", "seconds"),
    )
    return Table("overhead", "Overhead of a row whose solve takes 1 ms", columns, tuple(lines))


class Memory(threading.Thread):
    """Watches the resident memory of this process and its children together."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.2):
            self.peak = max(self.peak, sum(map(_resident, _family(os.getpid()))))


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        threads = [p for p in Path(f"/proc/{pid}/task").iterdir() if p.name != str(pid)]
        for thread in threads:
            children += (thread / "children").read_text().split()
    except OSError:
        children = []
    return [pid, *(p for child in children for p in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def scale(rows: int, workers: int, folder: Path) -> tuple[Table, Table]:
    """Many rows through the compiled solver."""
    sets = [reachable(name, rows // len(ROBOTS), 1000 + k) for k, name in enumerate(ROBOTS)]
    # Compiling and the start tables are set-up, kept on disk; the figures are of a warm cache.
    optik.run([s.first(100) for s in sets], [SOLVER], batch=True)
    memory = Memory()
    memory.start()
    began = time.perf_counter()
    frame = optik.run(sets, [SOLVER], batch=True, workers=workers, out=folder / "scale")
    ran = time.perf_counter() - began
    summary = summary_table(frame, name="scale_solved", title="What was run")
    tabulated = time.perf_counter() - began - ran
    memory.over.set()
    memory.join()
    size = (folder / "scale").stat().st_size + sum(
        p.stat().st_size for p in (folder / "scale").iterdir()
    )
    line = {
        "rows": len(frame),
        "workers": workers,
        "ran": ran,
        "tabulated": tabulated,
        "rate": len(frame) / ran,
        "bulk": 100 * float((frame["timing"] == "batch").mean()),
        "memory": memory.peak / 1e9,
        "size": size / 1e6,
    }
    columns = (
        Column("rows", "rows", "count"),
        Column("workers", "processes", "count"),
        Column("ran", "run, judged, folded", "seconds"),
        Column("tabulated", "tabulated", "seconds"),
        Column("rate", "rows a second", "number"),
        Column("bulk", "in bulk [%]", "number"),
        Column("memory", "memory, all processes [GB]", "number"),
        Column("size", "folder [MB]", "number"),
    )
    return Table("scale", f"{SOLVER} on five robots, in bulk", columns, (line,)), summary


SCRIPT = """
    import sys
    import optik

    problems = optik.load_problem_set("arm7_reachable").first(int(sys.argv[2]))
    optik.run([problems], ["clamped-dls", "clamped-dls:damping=0.1"], out=sys.argv[1], resume=True)
"""


def kills(count: int, problems: int, folder: Path) -> Table:
    """Kills a run at random moments and resumes it until it is done."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    out = folder / "killed"
    rng = np.random.default_rng(0)

    def start() -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(p for p in sys.path if p)
        return subprocess.Popen(
            [sys.executable, script, out, str(problems)],
            env=os.environ | {"PYTHONPATH": paths}, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    killed, before, kept = 0, [], {}
    while killed < count:
        process = start()
        # From before the first row to the middle of things, whatever the machine does.
        moment = rng.uniform(0.3, 4.0)
        try:
            process.wait(moment)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        killed += 1
        try:
            there = read_run(out)
        except optik.OptikError:
            there = None
        before.append(0 if there is None else len(there))
        for row in () if there is None else there.itertuples():
            kept.setdefault((row.problem, row.solver), row.solve_time)
    if start().wait() != 0:
        raise SystemExit("the resumed run did not finish")
    frame = read_run(out)
    whole = optik.run(
        [optik.load_problem_set("arm7_reachable").first(problems)],
        ["clamped-dls", "clamped-dls:damping=0.1"],
    )
    line = {
        "kills": killed,
        "rows": len(frame),
        "saved": " ".join(map(str, before)),
        "different": _different(frame, whole),
        "redone": sum(
            kept.get((r.problem, r.solver), r.solve_time) != r.solve_time
            for r in frame.itertuples()
        ),
    }
    columns = (
        Column("kills", "kills", "count"),
        Column("rows", "rows at the end", "count"),
        Column("different", "rows unlike an undisturbed run's", "count"),
        Column("redone", "saved rows done again", "count"),
        Column("saved", "rows saved at each kill"),
    )
    return Table("kills", "Killed at random moments and resumed", columns, (line,))


def cluster(problems: int) -> Table:
    """One process against a Dask cluster, one of whose workers is killed half-way."""
    from distributed import LocalCluster

    given = optik.load_problem_set("arm7_reachable").first(problems)
    solvers = ["clamped-dls", "clamped-dls:damping=0.1"]
    whole = optik.run([given], solvers)
    lines = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local:
        for label, kill in (("undisturbed", False), ("a worker killed half-way", True)):
            if kill:
                worker = next(iter(local.workers.values()))
                timer = threading.Timer(1.0, lambda pid=worker.pid: os.kill(pid, 9))
                timer.start()
            frame = optik.run([given], solvers, scheduler=local.scheduler_address)
            if kill:
                timer.join()
            lines.append({"how": label, "rows": len(frame), "different": _different(frame, whole)})
    columns = (
        Column("how", "cluster of two workers"),
        Column("rows", "rows", "count"),
        Column("different", "rows unlike one process's", "count"),
    )
    return Table("cluster", "A Dask cluster", columns, tuple(lines))


def _different(a: pd.DataFrame, b: pd.DataFrame) -> int:
    if len(a) != len(b):
        return abs(len(a) - len(b))
    drop = [*TIMES, "timing"]
    return int((a.drop(columns=drop) != b.drop(columns=drop)).any(axis=1).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes; writes no results")
    quick = parser.parse_args().quick
    workers = min(2, multiprocessing.cpu_count())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = [overhead(300 if quick else 5000, folder)]
        tables += scale(5_000 if quick else 1_000_000, workers, folder)
        tables.append(kills(2 if quick else 20, 40 if quick else 1000, folder))
        tables.append(cluster(40 if quick else 1000))
    for table in tables:
        print(to_terminal(table), end="\n\n")
    if not quick:
        where = write_tables(
            RESULTS, tables, title="Does the bench cost little, scale, and lose nothing?",
            intro=f"Made by `python studies/bench_check.py`. {environment_line()}.",
        )  # fmt: skip
        print(f"written to {where.parent}")


if __name__ == "__main__":
    main()
