"""Where clamped DLS stops, what is true there, and what a step inside the limits makes of it.

    python studies/stall_anatomy.py [--quick] [--targets N] [--robots NAME...] [--out DIR]

For each arm: reachable targets, one start (home), the clamped method with its defaults.  Every
target that it fails is taken apart:

    out of iterations    with five times the iterations (1000) the same method solves it
    repaired             a monotone descent inside the limits, from where the method stopped, solves
                         it: there was no minimum, the stall was false
    limits               that descent ends in a minimum which at least one joint limit holds
    singular             that descent ends in a minimum that no limit holds
    other                that descent was cut off or ended in a saddle

Prints (a) this anatomy, (b) what the clamped map does there and how far the stops are from being
stationary, at rotation weights 1 and 0.2 m/rad, (c) what the descent makes of the failures from
home and from mid-range.  Writes tables, rows and figures to studies/results/stall_anatomy/ (with
--quick: 40 targets of two arms, to a temporary folder).
"""

from __future__ import annotations

import argparse
import io
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
from optik.diagnosis import Certificate, certificate, continue_method, descend
from optik.diagnosis.certificate import STATIONARY
from optik.pose import Array
from optik.result import Claim
from optik.set_files import read_spec
from optik.solvers import parse_solver

ROBOTS = ("panda", "iiwa14", "ur5e", "arm7", "so101")
WEIGHTS = (1.0, 0.2)
TARGETS = 4000
SOLVER = "clamped-dls"
BUDGET = optik.Budget(iterations=200)
MORE = 800
OUTCOMES = ("out of iterations", "repaired", "limits", "singular", "other")
RESULTS = Path(__file__).parent / "results" / "stall_anatomy"


def main(args: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="40 targets of two arms, thrown away")
    parser.add_argument("--targets", type=int, default=TARGETS, help="targets an arm")
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS), help="arms")
    parser.add_argument("--out", type=Path, help="folder instead of the usual one")
    options = parser.parse_args(args)
    robots, count = options.robots, options.targets
    if options.quick:
        robots, count = ["arm7", "so101"], 40
    began = time.perf_counter()
    frames = []
    for name in robots:
        # A position target has no rotation weight to vary.
        weights = WEIGHTS if read_spec(f"{name}_reachable").target == "pose" else WEIGHTS[:1]
        with progress(name, total=count * len(weights)) as advance:
            for weight in weights:
                for row in anatomy(name, count, weight):
                    if row:
                        frames.append(row)
                    advance()
    failures = pd.DataFrame(frames)
    tables = [
        anatomy_table(failures, robots, count),
        stall_table(failures, robots),
        rescue_table(failures, robots),
    ]
    print()
    for table in tables:
        print(to_terminal(table))
    folder = options.out or (Path(tempfile.mkdtemp()) if options.quick else RESULTS)
    # The rows of the other weight are left out of the committed file: they say nothing new.
    rows = failures[failures.w_r == 1.0].to_csv(index=False, float_format="%.4g")
    write_tables(
        folder,
        tables,
        title="Where clamped DLS stops",
        intro=(
            "Made by `python studies/stall_anatomy.py"
            + ("" if count == TARGETS else f" --targets {count}")
            + f"`: {count} reachable targets an arm, start home, 200 iterations, tolerance 1e-4 m "
            f"and 1e-3 rad. Versions and processor in environment.json."
            "\n\n![What the failures are](anatomy.svg)"
            "\n\n![How far the stops are from being stationary](gradients.svg)"
        ),
        extra={
            "failures.csv": rows,
            "anatomy.svg": anatomy_figure(failures, robots, count),
            "gradients.svg": gradient_figure(failures, robots),
        },
    )
    write_environment(folder / "environment.json", solvers=[parse_solver(SOLVER)], budget=BUDGET)
    print(f"{time.perf_counter() - began:.0f} s; written to {folder}")
    return failures


def anatomy(name: str, count: int, weight: float) -> Iterator[dict[str, Any]]:
    """Solves the targets one by one; yields a row for each failure, an empty one otherwise."""
    spec = read_spec(f"{name}_reachable")
    robot = optik.Robot.load(spec.robot)
    solver = parse_solver(SOLVER)
    tolerance = optik.Tolerance(spec.position_tolerance, spec.rotation_tolerance)
    # The committed set continued: the same generator, the same seed, more draws.
    witnesses = robot.sample(np.random.default_rng(spec.seed), count)
    prepared = None
    for i, witness in enumerate(witnesses):
        pose = robot.forward(witness)
        quaternion = pose.quaternion if spec.target == "pose" else None
        target = optik.Target(pose.position, quaternion=quaternion, rotation_weight=weight)
        problem = optik.Problem(robot, target, tolerance=tolerance)
        if prepared is None:
            prepared = solver.prepare(robot, problem.shape, BUDGET)
        result = prepared(problem)
        if optik.evaluate(problem, result.q).solved:
            yield {}
            continue
        assert result.q_end is not None
        yield {"robot": name, "w_r": weight, "target": i} | take_apart(
            problem, result.q_end, result.status
        )


def take_apart(problem: optik.Problem, stop: Array, claim: Claim) -> dict[str, Any]:
    """What is true where the method stopped, and what follows from there."""
    robot = problem.robot
    at, facts = optik.evaluate(problem, stop), certificate(problem, stop)
    further = continue_method(problem, stop, parse_solver(SOLVER), iterations=MORE, cost=at.cost)
    descent = descend(problem, stop)
    outcome = (
        "out of iterations"
        if further.motion == "solved"
        else {"solved": "repaired", "minimum": _minimum(descent.certificate)}.get(
            descent.end, "other"
        )
    )
    held = descent.certificate.holding if descent.end == "minimum" else ()
    return {
        "claim": claim.value,
        "outcome": outcome,
        "motion": further.motion,
        "period": further.period,
        "more_iterations": further.iterations,
        "position_error": at.position_error,
        "rotation_error": at.rotation_error,
        "joints_at_limit": int((facts.active_lower | facts.active_upper).sum()),
        "relative_gradient": facts.relative_optimality,
        "relative_gradient_later": certificate(problem, further.q).relative_optimality,
        "descent_end": descent.end,
        "descent_steps": descent.steps,
        "held_by": " ".join(f"{f.joint}:{f.side}" for f in held),
        "solved_from_home": descend(problem, problem.q_start).end == "solved",
        "solved_from_mid": descend(problem, robot.q_mid).end == "solved",
    }


def _minimum(facts: Certificate) -> str:
    return "limits" if facts.holding else "singular"


def anatomy_table(failures: pd.DataFrame, robots: list[str], count: int) -> Table:
    """(a) What the failures are, at the default weight."""
    rows = []
    for name in robots:
        part = failures[(failures.robot == name) & (failures.w_r == 1.0)]
        n = len(part)
        outcomes = part.outcome.value_counts()
        minima = int(part.outcome.isin(["limits", "singular"]).sum())
        rows.append(
            {"robot": name, "failed": (n, count), "minima": (minima, n)}
            | {o: int(outcomes.get(o, 0)) for o in OUTCOMES}
        )
    columns = (
        Column("robot", "robot"),
        Column("failed", "failed", "share"),
        Column("out of iterations", "out of\niterations", "count"),
        Column("repaired", "false stall,\nrepaired", "count"),
        Column("limits", "to a minimum\nheld by limits", "count"),
        Column("singular", "to a singular\nminimum", "count"),
        Column("other", "other", "count"),
        Column("minima", "true minimum\nunder descent", "share"),
    )
    notes = (
        "Failed: clamped-dls from home, 200 iterations, w_r = 1 m/rad. Out of iterations: 1000 "
        "solve it. The others: where a monotone descent inside the limits leads from the stop.",
    )
    return Table("anatomy", "(a) What the failures are", columns, tuple(rows), notes)


def stall_table(failures: pd.DataFrame, robots: list[str]) -> Table:
    """(b) The clamped map where it does not solve, and the projected gradient there."""
    rows = []
    for name in robots:
        for weight in WEIGHTS:
            part = failures[(failures.robot == name) & (failures.w_r == weight)]
            stalls = part[part.outcome != "out of iterations"]
            n = len(stalls)
            if not n:
                continue
            rows.append(
                {
                    "robot": name,
                    "w_r": f"{weight:g}" if part.rotation_error.any() else "none",
                    "stalls": n,
                    "fixed": int((stalls.period == 1).sum()),
                    "two": int((stalls.period == 2).sum()),
                    "longer": int((stalls.period > 2).sum()),
                    "moving": int((stalls.period == 0).sum()),
                    "kkt": (int((stalls.relative_gradient <= STATIONARY).sum()), n),
                    "kkt_later": (int((stalls.relative_gradient_later <= STATIONARY).sum()), n),
                    "median": float(stalls.relative_gradient.median()),
                    "smallest": float(stalls.relative_gradient.min()),
                }
            )
    columns = (
        Column("robot", "robot"),
        Column("w_r", "w_r\n[m/rad]"),
        Column("stalls", "stalls", "count"),
        Column("fixed", "fixed\npoints", "count"),
        Column("two", "2-cycles", "count"),
        Column("longer", "cycles\nof 3 to 8", "count"),
        Column("moving", "still\nmoving", "count"),
        Column("kkt", "stationary\nafter 200", "share"),
        Column("kkt_later", "stationary\nafter 1000", "share"),
        Column("median", "relative gradient\nmedian", "number"),
        Column("smallest", "smallest", "number"),
    )
    notes = (
        "Stalls: failures that 1000 iterations do not solve. A fixed point or cycle repeats to "
        "1e-9 rad within those 1000 (or shrinks geometrically to one out of reach of the target). Stationary: projected gradient of the problem's own cost at "
        "most 1e-6 of |J| |e|; the medians are after 200 iterations.",
    )
    return Table(
        "stalls", "(b) Where the clamped map stops", columns, tuple(rows), notes, group="robot"
    )


def rescue_table(failures: pd.DataFrame, robots: list[str]) -> Table:
    """(c) The same failures, given to the descent from the common starts."""
    rows = []
    for name in robots:
        for weight in WEIGHTS:
            part = failures[(failures.robot == name) & (failures.w_r == weight)]
            n = len(part)
            if not n:
                continue
            stop = part.descent_end == "solved"
            rows.append(
                {
                    "robot": name,
                    "w_r": f"{weight:g}" if part.rotation_error.any() else "none",
                    "stop": (int(stop.sum()), n),
                    "home": (int(part.solved_from_home.sum()), n),
                    "mid": (int(part.solved_from_mid.sum()), n),
                    "any": (int((stop | part.solved_from_home | part.solved_from_mid).sum()), n),
                }
            )
    columns = (
        Column("robot", "robot"),
        Column("w_r", "w_r\n[m/rad]"),
        Column("stop", "from where\nit stopped", "share"),
        Column("home", "from home", "share"),
        Column("mid", "from mid-range", "share"),
        Column("any", "from any\nof the three", "share"),
    )
    notes = (
        "Box steps alone: the monotone descent of the problem's own cost inside the limits. The "
        "targets were chosen because clamping fails on them from home, which flatters any other "
        "method; see failure_at_limits for unfiltered sets.",
    )
    return Table(
        "rescued", "(c) Failures that box steps solve", columns, tuple(rows), notes, group="robot"
    )


_COLOURS = dict(zip(OUTCOMES, ("#4878a8", "#6aa56e", "#c8553d", "#e0a458", "#999999"), strict=True))
_SAID = {
    "out of iterations": "out of iterations",
    "repaired": "false stall: a descent solves it",
    "limits": "drains to a minimum held by limits",
    "singular": "drains to a singular minimum",
    "other": "other",
}


def anatomy_figure(failures: pd.DataFrame, robots: list[str], count: int) -> bytes:
    """Stacked bars: what the failures are, in percent of the targets."""
    figure, axes = plt.subplots(figsize=(7.2, 0.55 * len(robots) + 1.5), layout="constrained")
    part = failures[failures.w_r == 1.0]
    left = np.zeros(len(robots))
    for outcome in OUTCOMES:
        n = np.array([((part.robot == r) & (part.outcome == outcome)).sum() for r in robots])
        if not n.sum():
            continue
        width = 100 * n / count
        axes.barh(robots, width, left=left, color=_COLOURS[outcome], label=_SAID[outcome])
        for y, (w, x, k) in enumerate(zip(width, left, n, strict=True)):
            if w > 1.0:
                axes.text(x + w / 2, y, str(k), ha="center", va="center", color="white", size=8)
        left += width
    axes.invert_yaxis()
    axes.set_xlabel(f"share of {count} reachable targets that clamped DLS fails from home [%]")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return _svg(figure)


def gradient_figure(failures: pd.DataFrame, robots: list[str]) -> bytes:
    """Distribution of the relative projected gradient at the stalls, one line an arm."""
    figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    for name in robots:
        part = failures[(failures.robot == name) & (failures.w_r == 1.0)]
        part = part[part.outcome != "out of iterations"]
        values = np.sort(np.maximum(part.relative_gradient.to_numpy(), 1e-9))
        if len(values):
            share = np.arange(len(values) + 1) / len(values)
            axes.step([values[0], *values], share, where="post", label=name)
    axes.axvline(STATIONARY, color="black", linestyle="--", linewidth=0.8)
    axes.text(STATIONARY * 1.3, 0.93, "stationary\nleft of this", size=8, va="top")
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_xlabel("relative projected gradient where clamped DLS stopped")
    axes.set_ylabel("share of the stalls")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(0.15, 0.5))
    return _svg(figure)


def _svg(figure: plt.Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    plt.close(figure)
    return stream.getvalue()


if __name__ == "__main__":
    main()
