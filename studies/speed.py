"""How fast is the default solver, what does it solve, and where does the time go?

    python studies/speed.py [--quick] [--targets N] [--million]

One thread unless a table says otherwise; kernels compiled and warm before anything is timed.  Times
are of this process's processor time, so that a busy machine disturbs them less; ratios are taken
within one run.  --million adds a batch of 1 000 000 targets, every answer re-judged by MuJoCo.
Writes studies/results/speed/ (with --quick: to a temporary folder).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from peers import ENTRIES
from tabulate import tabulate

import optik
from optik.api import prepared_solver
from optik.batch import solve_batch
from optik.benchmark.environment import write_environment
from optik.benchmark.statistics import wilson
from optik.problem_sets import problem_set_names
from optik.solvers import parse_solver
from optik.solvers.box_lm import BoxLM

ROBOTS = ("panda", "iiwa14", "ur5e", "arm7", "so101")
STRATA = ("reachable", "at_limit_1", "at_limit_2", "at_limit_3", "clamping_fails")
RESULTS = Path(__file__).parent / "results" / "speed"
OWN = ("clamped DLS", "box QP", "box QP, error-damped, chordal")
SEED = 20260501  # of this study's own targets; no problem set uses it
BASELINE = "clamped-dls"
PLENTY = optik.Budget(iterations=200, restarts=24)

Section = tuple[str, pd.DataFrame, str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two robots, few targets, thrown away")
    parser.add_argument("--targets", type=int, default=100_000, help="reachable targets a robot")
    parser.add_argument("--million", action="store_true", help="add the 1 000 000-target batch")
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS))
    parser.add_argument("--cold", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--batch", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cold:
        print(json.dumps(first_call(*arguments.cold)))
        return
    if arguments.batch:
        print(json.dumps(large_batch(arguments.batch[0], int(arguments.batch[1]))))
        return
    quick = arguments.quick
    robots = ["arm7", "so101"] if quick else arguments.robots
    targets = 300 if quick else arguments.targets
    timed = 60 if quick else 1000
    sections: list[Section] = []

    def add(section: Section) -> None:
        sections.append(section)
        print(text_of(section), file=sys.stderr, flush=True)

    add(reachable(robots, targets))
    add(sets(robots, 40 if quick else None))
    add(times(robots, timed, quick))
    add(breakdown(robots[0], timed))
    add(loading())
    add(posture(robots, 10 if quick else 200))
    add(scaling(robots[0], 500 if quick else 200_000))
    add(peers(robots, 5 if quick else 60, workers=not quick))
    if not quick:
        add(cold(["ur5e", "arm7", "30 joints"]))
    if arguments.million:
        add(million(robots[0], 1_000_000))
    folder = Path(tempfile.mkdtemp()) if quick else RESULTS
    options = f"--targets {targets}" + " --million" * arguments.million
    write(folder, sections, options)
    print((folder / "tables.md").read_text())


def drawn(robot: optik.Robot, count: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Targets reached by uniform configurations: positions, and quaternions for six joints up."""
    kinematics = robot.kinematics()
    positions, quaternions = np.empty((count, 3)), np.empty((count, 4))
    for i, q in enumerate(robot.sample(np.random.default_rng(SEED), count)):
        kinematics.update(q)
        positions[i] = kinematics.position(robot.frame_ref)
        quaternions[i] = kinematics.quaternion(robot.frame_ref)
    return positions, quaternions if robot.n >= 6 else None


def problems_of(robot: optik.Robot, count: int) -> list[optik.Problem]:
    positions, quaternions = drawn(robot, count)
    return [
        optik.Problem(
            robot,
            optik.Target(p, quaternion=None if quaternions is None else quaternions[i]),
        )
        for i, p in enumerate(positions)
    ]


def reachable(robots: Sequence[str], count: int) -> Section:
    """Every target of large uniform samples: solved, and how many within 200 iterations."""
    rows = []
    for name in robots:
        robot = optik.Robot.load(name)
        positions, quaternions = drawn(robot, count)
        for start, q_init in (("home", robot.q_nominal), ("table", None)):
            solve_batch(robot, positions[:10], _first(quaternions, 10), q_init=q_init, threads=1)
            began = time.process_time()
            batch = solve_batch(
                robot, positions, quaternions, q_init=q_init, budget=PLENTY, threads=1
            )
            seconds = time.process_time() - began
            judged = batch.judge()
            outside = (batch.q < robot.lower) | (batch.q > robot.upper)
            within = batch.solved & (batch.iterations <= 200)
            few = min(count, 20_000)
            alone = solve_batch(
                robot, positions[:few], _first(quaternions, few), q_init=robot.q_nominal,
                solver=BoxLM(starts="given"), budget=optik.Budget(), threads=1,
            )  # fmt: skip
            rows.append(
                {
                    "robot": name,
                    "first start": start,
                    "targets": count,
                    "solved %": 100.0 * judged.mean(),
                    "unsolved": int((~judged).sum()),
                    "within 200 iterations %": f"{100.0 * within.mean():.3f}",
                    "iterations, mean": batch.iterations.mean(),
                    "false claims": int((batch.solved & ~judged).sum()),
                    "outside limits": int(outside.any(axis=1).sum()),
                    "home only %": 100.0 * alone.judge().mean() if start == "home" else None,
                    "us a solve, batch, one core": seconds / count * 1e6,
                }
            )
    return (
        "Solved: uniform reachable targets",
        pd.DataFrame(rows),
        "Every answer is judged by MuJoCo. `table` begins with the nearest row of the start table, "
        "which is what `solve_batch` does when no start is given. At most 5000 iterations a target. `home "
        "only` is `box-lm:starts=given` on the first 20 000 of them, with 200 iterations.",
    )


def sets(robots: Sequence[str], most: int | None) -> Section:
    """The committed problem sets: with the start table, and from home alone."""
    rows = []
    known = problem_set_names()
    for name in robots:
        for stratum in STRATA:
            if f"{name}_{stratum}" not in known:
                continue
            problems = optik.load_problem_set(f"{name}_{stratum}")
            problems = problems if most is None else problems.first(most)
            robot, count = problems.robot, len(problems)
            row: dict[str, object] = {"robot": name, "set": stratum, "targets": count}
            for title, solver, budget in (
                ("solved %", BoxLM(), PLENTY),
                ("home only %", BoxLM(starts="given"), optik.Budget()),
            ):
                batch = solve_batch(
                    robot,
                    problems.positions,
                    problems.quaternions,
                    q_init=robot.q_nominal,
                    solver=solver,
                    budget=budget,
                    threads=1,
                )
                judged = batch.judge()
                share = wilson(int(judged.sum()), count)
                row[title] = 100.0 * judged.mean()
                if title == "home only %":
                    row["home only, 95 %"] = f"[{100 * share.lo:.1f}, {100 * share.hi:.1f}]"
            rows.append(row)
    return (
        "Solved: the committed sets, from home",
        pd.DataFrame(rows),
        "`home only` is `box-lm:starts=given`: one start, 200 iterations, nothing given up. The "
        "clamping_fails sets were chosen because clamped DLS fails on them.",
    )


def times(robots: Sequence[str], count: int, quick: bool) -> Section:
    """One call: kinematics, raw arrays, `optik.solve`, against clamped DLS in the same run."""
    rows = []
    for name in robots:
        robot = optik.Robot.load(name)
        problems = problems_of(robot, count)
        solver = BoxLM()
        prepared = solver.prepare(robot, problems[0].shape, PLENTY)
        core = prepared.core
        repeats = 20_000 if quick else 2_000_000
        kernels = core.forward_kernels
        q = np.array(robot.q_nominal)
        kernels.repeat_forward(q, core.fixed, 10)
        began = time.thread_time()
        kernels.repeat_forward(q, core.fixed, repeats)
        floor = (time.thread_time() - began) / repeats

        q_out = np.empty(robot.n)
        arrays = [
            (np.array(p.targets[0].position), _array(p.targets[0].quaternion)) for p in problems
        ]
        solve_into = prepared.solve_into

        def raw(arrays=arrays, solve_into=solve_into, q=q, q_out=q_out) -> None:
            for position, quaternion in arrays:
                solve_into(position, quaternion, q, q_out)

        raw()
        call = min(spent(raw) for _ in range(3)) / count
        iterations = float(np.mean([prepared(p).iterations for p in problems]))
        optik.solve(problems[0])
        whole = [spent(lambda p=p: optik.solve(p)) for p in fresh(problems)]
        few = fresh(problems)[: max(20, count // 10)]
        optik.solve(few[0], solver=BASELINE)
        clamped = [spent(lambda p=p: optik.solve(p, solver=BASELINE)) for p in few]
        rows.append(
            {
                "robot": name,
                "joints": robot.n,
                "FK + Jacobian, ns": floor * 1e9,
                "raw call, us": call * 1e6,
                "iterations": iterations,
                "FK + Jacobian in a call, %": 100.0 * floor * (iterations + 1) / call,
                "optik.solve median, us": float(np.median(whole)) * 1e6,
                "clamped-dls mean, us": float(np.mean(clamped)) * 1e6,
                "ratio, raw call": float(np.mean(clamped)) / call,
                "ratio, optik.solve": float(np.mean(clamped)) / float(np.mean(whole)),
            }
        )
    return (
        "Time of one call, from home",
        pd.DataFrame(rows),
        "The raw call is `prepared.solve_into` on arrays, mean over all targets, hard ones included. "
        "`optik.solve` is the whole call: found, judged by MuJoCo, `Solution` built. Ratios divide "
        f"the mean of `optik.solve(problem, solver='{BASELINE}')` (NumPy on MuJoCo, 200 iterations).",
    )


def loading() -> Section:
    """What it takes to load a robot and a problem set, digest and checks included."""
    work: dict[str, Callable[[], object]] = {
        "robot panda": lambda: optik.Robot.load("panda"),
        "robot g1": lambda: optik.Robot.load("g1"),
        "problem set panda_reachable, 1000 problems": lambda: optik.load_problem_set(
            "panda_reachable"
        ),
    }
    rows = []
    for what, load in work.items():
        load()
        rows.append(
            {"loaded": what, "median, ms": 1e3 * float(np.median([wall(load) for _ in range(9)]))}
        )
    return "Loading", pd.DataFrame(rows), "Wall time, files in the system's cache."


def breakdown(name: str, count: int) -> Section:
    """Where `optik.solve` spends its time."""
    robot = optik.Robot.load(name)
    problems = problems_of(robot, count)
    solver = BoxLM()
    prepared, _ = prepared_solver(solver, robot, problems[0].shape, optik.Budget())
    optik.solve(problems[0])
    results = [prepared(p) for p in problems]
    q_out, q = np.empty(robot.n), np.array(robot.q_nominal)
    pairs = list(zip(problems, results, strict=True))

    def mean(work: Callable[[optik.Problem, optik.Result], object]) -> float:
        best = np.inf
        for _ in range(3):
            began = time.process_time()
            for p, r in pairs:
                work(p, r)
            best = min(best, (time.process_time() - began) / count)
        return best * 1e6

    parts = {
        "Target and Problem built (before the call)": mean(
            lambda p, r: optik.Problem(
                robot, optik.Target(p.targets[0].position, quaternion=p.targets[0].quaternion)
            )
        ),
        "kernel on raw arrays": mean(
            lambda p, r: prepared.solve_into(
                p.targets[0].position, p.targets[0].quaternion, q, q_out
            )
        ),
        "solver: Problem in, Result out": mean(lambda p, r: prepared(p)),
        "judgement by MuJoCo": mean(lambda p, r: optik.evaluate(p, r.q)),
        "optik.solve whole": mean(lambda p, r: optik.solve(p)),
    }
    frame = pd.DataFrame([{"part": k, "mean, us": v} for k, v in parts.items()])
    return (
        f"Where the time of `optik.solve` goes ({name})",
        frame,
        "The solver's line holds the kernel's; `optik.solve` holds the solver's and the judgement.",
    )


def posture(robots: Sequence[str], count: int) -> Section:
    """The second phase against IPOPT started from the same solution."""
    rows = []
    for name in robots:
        problems = optik.load_problem_set(f"{name}_reachable").first(count)
        wanted = optik.Posture()
        solver = BoxLM()
        plain = solver.prepare(problems.robot, problems.problem(0).shape, PLENTY)
        asked = problems.problem(0, posture=wanted)
        prepared = solver.prepare(problems.robot, asked.shape, PLENTY)
        ipopt = parse_solver("ipopt").prepare(problems.robot, asked.shape, optik.Budget())
        near = compared = 0
        spans = []
        for i in range(len(problems)):
            problem = problems.problem(i, posture=wanted)
            first = plain(problems.problem(i))
            began = time.process_time()
            prepared.relaxed(problem, first.q)
            spans.append(time.process_time() - began)
            own = optik.evaluate(problem, prepared(problem).q)
            other = optik.evaluate(problem, ipopt(replace(problem, q_init=first.q)).q)
            if not (own.solved and other.solved):
                continue
            compared += 1
            near += own.posture_distance**2 <= other.posture_distance**2 * (1 + 1e-4) + 1e-12
        rows.append(
            {
                "robot": name,
                "compared": compared,
                "objective within 1e-4 of IPOPT's or below, %": 100.0 * near / max(compared, 1),
                "posture phase, us": float(np.mean(spans)) * 1e6,
            }
        )
    return (
        "Posture: the second phase, towards mid-range",
        pd.DataFrame(rows),
        "Both start from the same solution; IPOPT minimises the posture with the targets as "
        "equalities. Targets that both solve are compared.",
    )


def scaling(name: str, count: int) -> Section:
    """A batch over 1, 2, ... cores, and whether the answers stay the same."""
    robot = optik.Robot.load(name)
    positions, quaternions = drawn(robot, count)
    rows = []
    reference = b""
    for threads in sorted({1, 2, os.cpu_count() or 1}):
        solve_batch(robot, positions[:10], _first(quaternions, 10), threads=threads)
        began = time.perf_counter()
        batch = solve_batch(robot, positions, quaternions, budget=PLENTY, threads=threads)
        seconds = time.perf_counter() - began
        reference = reference or batch.q.tobytes()
        rows.append(
            {
                "threads": threads,
                "wall, us a solve": seconds / count * 1e6,
                "speed-up": rows[0]["wall, us a solve"] / (seconds / count * 1e6) if rows else 1.0,
                "same answers": batch.q.tobytes() == reference,
            }
        )
    return (
        f"Batches over the cores ({name}, {count} targets, wall time)",
        pd.DataFrame(rows),
        f"{os.cpu_count()} cores. Speed-up is of wall time, and falls when the machine is busy.",
    )


def peers(robots: Sequence[str], count: int, *, workers: bool) -> Section:
    """Every peer, as studies/peers.py tunes it, on the same targets, warm and set-up apart."""
    shown = [
        e for e in ENTRIES
        if e.name not in OWN and "as it comes" not in e.name and "as documented" not in e.name
        and (workers or not e.in_worker)
    ]  # fmt: skip
    rows = []
    for name in robots:
        robot = optik.Robot.load(name)
        problems = problems_of(robot, count)
        own = _solver_times("box-lm", problems, optik.Budget(restarts=24))
        base = own[0]
        rows.append(_peer_row(name, "box-lm", own, base))
        clamped = _solver_times(BASELINE, problems, optik.Budget())
        rows.append(_peer_row(name, BASELINE, clamped, base))
        for entry in shown:
            try:
                found = _solver_times(entry.solver, problems, optik.Budget())
            except Exception as error:  # a peer may fail in any way: the row says how
                rows.append({"robot": name, "solver": entry.name, "not run": str(error)[:60]})
                continue
            rows.append(_peer_row(name, entry.name, found, base))
    return (
        f"Against the peers ({count} reachable targets, from home)",
        pd.DataFrame(rows),
        "Mean wall time of the solver alone, warm, its set-up apart; a peer in a worker is timed "
        "inside the worker, without the pipe.  Settings as in studies/peers.py, tightened to 0.1 mm "
        "and 1 mrad; judged by MuJoCo with no slack.",
    )


def _solver_times(
    solver: str, problems: Sequence[optik.Problem], budget: optik.Budget
) -> tuple[float, float]:
    """Mean seconds of a solve and the share solved."""
    prepared, _ = prepared_solver(
        parse_solver(solver), problems[0].robot, problems[0].shape, budget
    )
    prepared(problems[0])
    seconds, solved = [], 0
    for problem in problems:
        began = time.perf_counter()
        result = prepared(problem)
        spent = time.perf_counter() - began
        inside = re.search(r"\(([0-9.]+) ms in the worker\)", result.message)
        seconds.append(float(inside[1]) / 1e3 if inside else spent)
        solved += optik.evaluate(problem, result.q).solved
    return float(np.mean(seconds)), solved / len(problems)


def _peer_row(
    robot: str, solver: str, found: tuple[float, float], base: float
) -> dict[str, object]:
    return {
        "robot": robot,
        "solver": solver,
        "solved %": 100.0 * found[1],
        "mean, us": 1e6 * found[0],
        "times box-lm": found[0] / base,
        "not run": "",
    }


def first_call(name: str, folder: str) -> dict[str, float]:
    """In a fresh process: seconds from importing numba to the first answer."""
    os.environ["OPTIK_CACHE_DIR"] = folder
    robot = thirty_joints() if name == "30 joints" else optik.Robot.load(name)
    problem = problems_of(robot, 1)[0]
    began = time.perf_counter()
    cpu = time.process_time()
    optik.solve(problem)
    return {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu}


def cold(names: Sequence[str]) -> Section:
    """The first call in a fresh process: with an empty cache folder, and again with a full one."""
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            for state in ("cold", "from cache"):
                done = subprocess.run(
                    [sys.executable, __file__, "--cold", name, folder],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                rows.append({"robot": name, "cache": state, **json.loads(done.stdout)})
    frame = pd.DataFrame(rows).rename(columns={"wall": "wall, s", "cpu": "processor, s"})
    return (
        "The first call, Numba's import included",
        frame,
        "`optik.solve` of one problem in a fresh process; reported to users as `setup_time`. "
        "The chain of 30 joints uses the general kernel.",
    )


def million(name: str, count: int) -> Section:
    """A large batch in a process of its own: memory, and every answer judged by MuJoCo."""
    done = subprocess.run(
        [sys.executable, __file__, "--batch", name, str(count)],
        capture_output=True,
        text=True,
        check=True,
    )
    return (
        "A batch of a million, judged row by row",
        pd.DataFrame([json.loads(done.stdout)]),
        f"On {os.cpu_count()} cores; the memory is that of a process that does nothing else, "
        "interpreter, libraries and targets included.",
    )


def large_batch(name: str, count: int) -> dict[str, object]:
    """One large batch over all cores."""
    robot = optik.Robot.load(name)
    positions, quaternions = drawn(robot, count)
    solve_batch(robot, positions[:10], _first(quaternions, 10))
    began = time.perf_counter()
    batch = solve_batch(robot, positions, quaternions, budget=PLENTY)
    span = time.perf_counter() - began
    peak = peak_memory()
    judged = batch.judge()
    return {
        "robot": name,
        "targets": count,
        "solved %": 100.0 * judged.mean(),
        "unsolved": int((~judged).sum()),
        "false claims": int((batch.solved & ~judged).sum()),
        "outside limits": int(((batch.q < robot.lower) | (batch.q > robot.upper)).any(1).sum()),
        "wall, us a solve": span / count * 1e6,
        "peak memory, MB": peak,
    }


def peak_memory() -> float:
    """Largest resident memory of this process [MB]; a child's usage would hold its parent's too."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found:
            return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def thirty_joints() -> optik.Robot:
    """A spatial chain of 30 hinges with alternating axes, 0.1 m apart."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    body = spec.worldbody
    for i in range(30):
        body = body.add_body(pos=[0.0, 0.0, 0.1])
        body.add_geom(size=[0.01, 0, 0])
        joint = body.add_joint(name=f"j{i}", axis=np.eye(3)[i % 3])
        joint.limited, joint.range = mujoco.mjtLimited.mjLIMITED_TRUE, [-0.5, 0.5]
    body.add_site(name="tip", pos=[0.0, 0.0, 0.1])
    return optik.Robot.load(spec, frame="tip", name="thirty")


def fresh(problems: Sequence[optik.Problem]) -> list[optik.Problem]:
    """Copies without cached values, as a user's program makes them."""
    return [replace(p) for p in problems]


def spent(work: Callable[[], object]) -> float:
    """Processor seconds of this thread."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def wall(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _first(array: np.ndarray | None, count: int) -> np.ndarray | None:
    return None if array is None else array[:count]


def _array(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None else np.array(array)


def text_of(section: Section) -> str:
    title, frame, note = section
    written = [i for i, name in enumerate(frame) if isinstance(frame[name].iloc[0], str)]
    body = tabulate(
        frame.astype(object).where(frame.notna(), None),  # a missing number is left blank
        headers="keys", tablefmt="pipe", showindex=False, floatfmt=".4g",
        disable_numparse=written,  # numbers that are text already keep their digits
    )  # fmt: skip
    return f"## {title}\n\n{body}\n\n{note}\n"


def write(folder: Path, sections: Sequence[Section], options: str) -> None:
    """Writes tables.md, one CSV a table and environment.json, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    header = (
        "# The default solver: what it solves and how fast\n\n"
        f"Made by `python studies/speed.py {options}`; versions and processor in "
        "environment.json.\n\n"
    )
    files = {"tables.md": header + "\n".join(text_of(s) for s in sections)}
    for i, (_, frame, _) in enumerate(sections, start=1):
        files[f"table_{i}.csv"] = frame.to_csv(index=False)
    for name, content in files.items():
        temporary = folder / f"{name}.tmp"
        temporary.write_text(content)
    write_environment(folder / "environment.json", solvers=[BoxLM()], budget=PLENTY)
    for name in files:
        (folder / f"{name}.tmp").replace(folder / name)


if __name__ == "__main__":
    main()
