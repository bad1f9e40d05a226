"""Does the bench cost little, scale, and lose nothing?

    python studies/bench_check.py [--quick] [--part overhead scale kills cluster]

1. Overhead: a solver that computes for one millisecond; what a row costs beyond the solve and the
   judgement, start-up apart.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import optik
from optik.benchmark import solving
from optik.benchmark.columns import TIMES
from optik.benchmark.environment import environment_line
from optik.benchmark.journal import read_run
from optik.benchmark.plan import make_plan
from optik.benchmark.solving import Bench
from optik.benchmark.tables import Column, Table, summary_table, to_terminal, write_tables
from optik.result import Claim, Result
from optik.set_files import SetFile
from optik.solvers import Solver

RESULTS = Path(__file__).parent / "results" / "bench_check"
ROBOTS = ("arm7", "panda", "iiwa14", "ur5e", "so101")
SOLVER = "box-lm"


@dataclass(frozen=True, kw_only=True)
class OneMillisecond(Solver):
    """Computes for a millisecond of this thread's own time and hands back the start."""

    name: ClassVar[str] = "one-millisecond"
    summary: ClassVar[str] = "computes for a millisecond"
    family: ClassVar[str] = "own"

    def prepare(self, robot, shape, budget):
        """See `Solver.prepare`."""

        def solve(problem, *, trace=False, deadline=None):
            end = time.thread_time() + 1e-3
            while time.thread_time() < end:
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
    """What a row costs beyond the solve and the judgement, in processor time.

    The parts are taken from the same rows at the same time: on a busy machine the difference of
    two runs says nothing.
    """
    found = optik.load_problem_set("arm7_reachable").first(min(500, rows // 10))
    bench = Bench(make_plan([found], [OneMillisecond()], repeats=1 + rows // len(found)))
    bench.row(0)
    spent = {"solve": 0.0, "judge": 0.0}
    prepared = bench.prepared(0)[0]

    def counted(what: str, call: Callable[..., object]) -> Callable[..., object]:
        def counting(*arguments: object) -> object:
            began = time.thread_time()
            answer = call(*arguments)
            spent[what] += time.thread_time() - began
            return answer

        return counting

    with (
        mock.patch.object(solving, "judged", counted("judge", solving.judged)),
        mock.patch.object(bench, "prepared", lambda n: (counted("solve", prepared), 0.0, False)),
    ):
        began = time.thread_time()
        for number in range(rows):
            bench.row(number)
        total = time.thread_time() - began
    # What this process does while another one solves: takes the rows and writes them down.
    used, counts = [], []
    for k, repeats in enumerate((1, 1 + rows // len(found))):
        began = time.process_time()
        frame = optik.run(
            [found], [OneMillisecond()], repeats=repeats, out=folder / f"overhead_{k}"
        )
        used.append(time.process_time() - began)
        counts.append(len(frame))
    parent = (used[1] - used[0]) / (counts[1] - counts[0])
    solve, judge = spent["solve"] / rows, spent["judge"] / rows
    worker = total / rows - solve - judge
    line = {
        "rows": rows,
        "solve": solve,
        "judge": judge,
        "worker": worker,
        "parent": parent,
        "share": 100 * (worker + parent) / (solve + judge),
    }
    columns = (
        Column("rows", "rows", "count"),
        Column("solve", "solve", "seconds"),
        Column("judge", "judge", "seconds"),
        Column("worker", "all else, worker", "seconds"),
        Column("parent", "all else, parent", "seconds"),
        Column("share", "overhead [%]", "number"),
    )
    note = (
        "Processor time a row. The two processes work at the same time where there are two cores."
    )
    title = "Overhead of a row whose solve takes 1 ms"
    return Table("overhead", title, columns, (line,), (note,))


class Memory(threading.Thread):
    """Watches the memory of this process and its children together, shared pages once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Looks five times a second until it is over."""
        while not self.over.wait(0.2):
            self.peak = max(self.peak, sum(map(_resident, _family(os.getpid()))))


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    children: list[str] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += (thread / "children").read_text().split()
    except OSError:  # gone meanwhile
        pass
    return [pid, *(p for child in children for p in _family(int(child)))]


def _resident(pid: int) -> int:
    """Bytes of a process, with what it shares counted by its part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


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
        # Two in ten while it starts, the others once it has gone on: at a random moment then.
        if rng.random() > 0.2:
            _wait_for_growth(out / "journal.csv", process)
        try:
            process.wait(rng.uniform(0.0, 1.0))
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


def _wait_for_growth(path: Path, process: subprocess.Popen[bytes]) -> None:
    size = path.stat().st_size if path.exists() else 0
    while process.poll() is None and not (path.exists() and path.stat().st_size > size + 2000):
        time.sleep(0.005)


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


PARTS = ("overhead", "scale", "kills", "cluster")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes; writes no results")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=PARTS, help="all if left out")
    given = parser.parse_args()
    quick, workers = given.quick, min(2, multiprocessing.cpu_count())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in given.part:
            if part == "overhead":
                tables = [overhead(500 if quick else 5000, folder)]
            elif part == "scale":
                tables = list(scale(5_000 if quick else 1_000_000, workers, folder))
            elif part == "kills":
                tables = [kills(1 if quick else 20, 40 if quick else 1000, folder)]
            else:
                tables = [cluster(40 if quick else 1000)]
            for table in tables:
                print(to_terminal(table), end="\n\n", flush=True)
            if not quick:
                where = write_tables(
                    RESULTS / part, tables, title=f"The bench: {part}",
                    intro=f"Made by `python studies/bench_check.py`. {environment_line()}.",
                )  # fmt: skip
                print(f"written to {where.parent}\n")


if __name__ == "__main__":
    main()
