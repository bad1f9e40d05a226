"""Can it be proved that a target is out of reach, how close to the edge, and is it ever wrong?

    python studies/unreachable.py [--quick] [--targets N] [--pushed N] [--controls N] [--out DIR]

(a) The bundled sets of targets that 200 starts did not solve, and positions in the plane of the
    two-link arms outside the ring that they reach: how many `prove_unreachable` proves beyond the
    tolerances, by what, and how long finding and verifying take.
(b) The same targets pushed towards the best configuration known, until only a given gap is left:
    how small a gap can be proved.  The gap is sqrt(|dp|^2 + (1 m/rad)^2 |r|^2) at that
    configuration; the true one can only be smaller, and some of these targets may be reachable.
(c) Reachable targets, every second with half of its joints exactly on a limit.  The proofs are
    attempted on all of them, without the search for a witness that usually ends the attempt: the
    gap stage (or 2000 boxes and the gap stage) on all, the pose stage on every tenth.

Writes tables and rows to studies/results/unreachable/ (with --quick: a few targets of two arms, to
a temporary folder).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import optik
from optik.benchmark.environment import write_environment
from optik.benchmark.progress import progress
from optik.benchmark.rendering import Column, Table, to_terminal, write_tables
from optik.pose import Array, quaternion_from_matrix, rotation_vector
from optik.problem_sets import ProblemSet, load_problem_set
from optik.reachability import Proof, prove_unreachable
from optik.reachability.boxes import search
from optik.reachability.exact import check
from optik.reachability.goal import path_and_goal
from optik.reachability.relaxation import build, stages
from optik.reachability.search import find
from optik.set_files import read_spec

PLANAR = {"planar2_2_1": (1.0, 3.0), "planar2_05_05": (0.0, 1.0)}  # inner and outer reach [m]
ROBOTS = ("panda", "iiwa14", "ur5e", "so101")
GAPS = (0.03, 0.01, 0.003, 0.001)
MEANS = ("boxes", "gap", "pose", "cut", "undecided")
BEST = "box-lm"
RESULTS = Path(__file__).parent / "results" / "unreachable"


def main(args: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few targets of two arms")
    parser.add_argument("--targets", type=int, default=300, help="targets a set in (a)")
    parser.add_argument("--pushed", type=int, default=40, help="targets an arm and gap in (b)")
    parser.add_argument("--controls", type=int, default=10_000, help="targets an arm in (c)")
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS), help="arms")
    parser.add_argument("--out", type=Path, help="folder instead of the usual one")
    options = parser.parse_args(args)
    robots, sizes = options.robots, (options.targets, options.pushed, options.controls)
    if options.quick:
        robots, sizes = ["ur5e", "so101"], (10, 2, 20)
    began = time.perf_counter()
    proofs, edges, controls = [], [], []
    for name in robots:
        problems = load_problem_set(f"{name}_unreachable")
        prove_unreachable(problems.problem(0))  # compiles
        proofs += _gathered(f"{name}: proofs", sizes[0], prove_set(name, problems, sizes[0]))
        edges += _gathered(f"{name}: near the edge", sizes[1], push_set(name, problems, sizes[1]))
        controls += _gathered(f"{name}: controls", sizes[2], control(name, sizes[2]))
    for name in PLANAR:
        proofs += _gathered(f"{name}: proofs", sizes[0], prove_planar(name, sizes[0]))
    rows, edge, wrong = pd.DataFrame(proofs), pd.DataFrame(edges), pd.DataFrame(controls)
    tables = [
        proof_table(rows, [*robots, *PLANAR]),
        edge_table(edge, robots),
        control_table(wrong, robots),
    ]
    print()
    for table in tables:
        print(to_terminal(table))
    folder = options.out or (Path(tempfile.mkdtemp()) if options.quick else RESULTS)
    asked = "".join(
        f" --{option} {size}"
        for option, size, usual in zip(
            ("targets", "pushed", "controls"), sizes, (300, 40, 10_000), strict=True
        )
        if size != usual and not options.quick
    )
    write_tables(
        folder,
        tables,
        title="Targets that are proved to be out of reach",
        intro=(
            f"Made by `python studies/unreachable.py{asked}`. Tolerances 1e-4 m and 1e-3 rad. Times "
            "are processor time of one thread. Versions and processor in environment.json."
        ),
        extra={
            "proofs.csv": rows.to_csv(index=False, float_format="%.4g"),
            "edge.csv": edge.to_csv(index=False, float_format="%.4g"),
            "edge.svg": edge_figure(edge, robots),
        },
    )
    write_environment(folder / "environment.json")
    print(f"{time.perf_counter() - began:.0f} s; written to {folder}")
    return rows


def _gathered(
    title: str, total: int, batches: Iterator[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    out = []
    with progress(title, total=total) as advance:
        for batch in batches:
            out += batch
            advance()
    return out


def means_of(proof: Proof | None) -> str:
    """Which of MEANS gave the proof."""
    if proof is None:
        return "undecided"
    if proof.kind == "boxes":
        return "boxes"
    return "cut" if len(proof.leaves) > 1 else proof.stages[0]


def attempt(problem: optik.Problem) -> dict[str, Any]:
    """One proof, found and verified, with the processor time of both."""
    began = time.process_time()
    proof = prove_unreachable(problem)
    found = time.process_time()
    row: dict[str, Any] = {"means": means_of(proof), "find_ms": 1e3 * (found - began)}
    if proof is not None:
        row["verified"] = proof.verify()
        row["verify_ms"] = 1e3 * (time.process_time() - found)
        row["bound"] = proof.bound
        row["kind"] = proof.kind
    return row


def prove_set(name: str, problems: ProblemSet, count: int) -> Iterator[list[dict[str, Any]]]:
    """(a) The targets of the bundled set."""
    for i in range(min(count, len(problems))):
        yield [{"robot": name, "target": i} | attempt(problems.problem(i))]


def prove_planar(name: str, count: int) -> Iterator[list[dict[str, Any]]]:
    """(a) Positions uniform in a square, outside the ring that a two-link arm reaches."""
    robot, rng = optik.Robot.load(name), np.random.default_rng(0)
    inner, outer = PLANAR[name]
    done = 0
    while done < count:
        x, y = rng.uniform(-1.5 * outer, 1.5 * outer, 2)
        problem = optik.Problem(robot, optik.Target([x, y, 0.0]))
        beyond = max(inner - np.hypot(x, y), np.hypot(x, y) - outer)
        if beyond > problem.tolerance.position:
            if not done:
                prove_unreachable(problem)  # folds the chain
            yield [{"robot": name, "target": done} | attempt(problem)]
            done += 1


def push_set(name: str, problems: ProblemSet, count: int) -> Iterator[list[dict[str, Any]]]:
    """(b) The set's first targets, pushed to each gap."""
    for i in range(min(count, len(problems))):
        problem = problems.problem(i)
        best = optik.solve(problem, solver=BEST, budget=optik.Budget(restarts=200))
        whole = float(np.sqrt(2.0 * best.evaluation.cost))
        rows = []
        for gap in GAPS:
            if gap >= whole:
                continue
            near = pushed(problem, best.q, gap / whole)
            if optik.solve(near, solver=BEST, budget=optik.Budget(restarts=200)).success:
                continue
            rows.append({"robot": name, "target": i, "gap": gap} | attempt(near))
        yield rows


def pushed(problem: optik.Problem, q: Array, share: float) -> optik.Problem:
    """The problem with its target moved towards the tool at `q` until `share` of the way is left."""
    target, tool = problem.targets[0], problem.robot.forward(q)
    position = tool.position + share * (target.position - tool.position)
    quaternion = None
    if target.quaternion is not None:
        turn = share * rotation_vector(target.quaternion, tool.quaternion)
        angle = float(np.linalg.norm(turn))
        K = np.cross(np.eye(3), turn / max(angle, 1e-12))
        turned = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * K @ K
        quaternion = quaternion_from_matrix(turned @ tool.rotation)
    return optik.Problem(
        problem.robot, optik.Target(position, quaternion=quaternion), tolerance=problem.tolerance
    )


def control(name: str, count: int) -> Iterator[list[dict[str, Any]]]:
    """(c) Reachable targets on which every method is let loose."""
    robot = optik.Robot.load(name)
    posed = read_spec(f"{name}_unreachable").target == "pose"
    rng = np.random.default_rng(0)
    for i in range(count):
        q = robot.sample(rng)
        if i % 2:
            edge = rng.permutation(robot.n) < (robot.n + 1) // 2
            side = np.where(rng.random(robot.n) < 0.5, robot.sampling_lower, robot.sampling_upper)
            q = np.where(edge, side, q)
        tool = robot.forward(q)
        target = optik.Target(tool.position, quaternion=tool.quaternion if posed else None)
        problem = optik.Problem(robot, target)
        path, goal = path_and_goal(problem, 0)
        rows: list[dict[str, Any]] = []
        if goal.position_only and len(path.steps) <= 5:
            cut = search(path, goal, most=2000)
            rows.append({"robot": name, "means": "boxes", "wrong": cut.tree is not None})
        for stage in stages(path, goal):
            if stage == "pose" and i % 10:
                continue
            program = build(path, goal, stage)
            found = find(program, problem.tolerance)
            margin = None
            if found.multipliers is not None:
                margin = check(program, goal, found.multipliers)
            # Not only "beyond the tolerances": even with no tolerance at all it must not be proved.
            wrong = margin is not None and margin.excludes(0.0, 0.0)
            rows.append({"robot": name, "means": stage, "wrong": wrong})
        yield rows


def proof_table(rows: pd.DataFrame, robots: list[str]) -> Table:
    """(a) What is proved, by what, and in what time."""
    out = []
    for name in robots:
        part = rows[rows.robot == name]
        proved = part[part.means != "undecided"]
        counts = part.means.value_counts()
        out.append(
            {
                "robot": name,
                "proved": (len(proved), len(part)),
                "verified": (int(proved.verified.sum()), len(proved)),
                "median": float(part.find_ms.median()),
                "p95": float(part.find_ms.quantile(0.95)),
                "verify": float(proved.verify_ms.median()),
                "verify95": float(proved.verify_ms.quantile(0.95)),
            }
            | {m: int(counts.get(m, 0)) for m in MEANS}
        )
    columns = (
        Column("robot", "robot"),
        Column("proved", "proved", "share"),
        *(Column(m, m, "count") for m in MEANS),
        Column("verified", "verified", "share"),
        Column("median", "find\n[ms]", "number"),
        Column("p95", "p95", "number"),
        Column("verify", "verify\n[ms]", "number"),
        Column("verify95", "p95", "number"),
    )
    notes = (
        "The first targets of the sets NAME_unreachable: random in the bounding box of reached "
        "positions, poses with a uniform rotation (so101: positions), not solved from 200 starts; for "
        "the planar arms positions outside the ring that the links reach. "
        "Boxes: branch and bound. Gap, pose: the two stages of the relaxation over the whole "
        "ranges; cut: the last stage over ranges cut in two. Undecided ones may be reachable.",
    )
    return Table("proofs", "(a) Proved to be out of reach", columns, tuple(out), notes)


def edge_table(rows: pd.DataFrame, robots: list[str]) -> Table:
    """(b) How small a gap is proved."""
    out = []
    for name in robots:
        for gap in GAPS:
            part = rows[(rows.robot == name) & (rows.gap == gap)] if len(rows) else rows
            if not len(part):
                continue
            counts = part.means.value_counts()
            out.append(
                {
                    "robot": name,
                    "left": f"{1e3 * gap:g}",
                    "proved": (int((part.means != "undecided").sum()), len(part)),
                    "median": float(part.find_ms.median()),
                    "p95": float(part.find_ms.quantile(0.95)),
                }
                | {m: int(counts.get(m, 0)) for m in MEANS}
            )
    columns = (
        Column("robot", "robot"),
        Column("left", "gap left\n[mm]"),
        Column("proved", "proved", "share"),
        *(Column(m, m, "count") for m in MEANS),
        Column("median", "find\n[ms]", "number"),
        Column("p95", "p95", "number"),
    )
    notes = (
        "The targets of (a) pushed towards the best configuration known until this gap is left, "
        "those that 200 starts then solve left out. A pose gap counts 1 rad as 1 m.",
    )
    return Table("edge", "(b) Near the edge", columns, tuple(out), notes, group="robot")


def control_table(rows: pd.DataFrame, robots: list[str]) -> Table:
    """(c) Reachable targets that were proved away."""
    out = []
    for name in robots:
        for means in ("boxes", "gap", "pose"):
            part = rows[(rows.robot == name) & (rows.means == means)]
            if len(part):
                out.append(
                    {"robot": name, "means": means, "wrong": (int(part.wrong.sum()), len(part))}
                )
    columns = (
        Column("robot", "robot"),
        Column("means", "by"),
        Column("wrong", "wrongly proved", "share"),
    )
    notes = (
        "Poses (so101: positions) of random configurations, every second one with half of its "
        "joints exactly on a limit. Wrong: excluded even at tolerances of zero.",
    )
    return Table("controls", "(c) Reachable targets", columns, tuple(out), notes, group="robot")


def edge_figure(rows: pd.DataFrame, robots: list[str]) -> bytes:
    """Share proved against the gap, one line an arm."""
    import io

    figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for name in robots:
        part = rows[rows.robot == name] if len(rows) else rows
        if not len(part):
            continue
        share = part.assign(proved=part.means != "undecided").groupby("gap").proved.mean()
        axes.plot(1e3 * share.index, 100 * share, marker="o", label=name)
    axes.set_xscale("log")
    axes.set_xticks([1e3 * g for g in GAPS], [f"{1e3 * g:g}" for g in GAPS])
    axes.set_xticks([], minor=True)
    axes.set_ylim(-3, 103)
    axes.set_xlabel("gap that is left at the best configuration known [mm]")
    axes.set_ylabel("proved out of reach [%]")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    out = io.BytesIO()
    with plt.rc_context({"svg.hashsalt": "optik"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    plt.close(figure)
    return out.getvalue()


if __name__ == "__main__":
    main()
