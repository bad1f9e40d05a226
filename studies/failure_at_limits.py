"""Clamped against constrained on the lesson's 100 targets: who solves what clamping fails on?

    python studies/failure_at_limits.py [--quick]

Prints (a) all solvers on all targets, (b) the targets that clamping fails, one by one, (c) what was
gained and lost over the whole set, (d) the same with a posture objective, and writes the tables to
studies/results/failure_at_limits/ (with --quick: to a temporary folder, on the first 25 targets).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from tabulate import tabulate

import optik
from optik.benchmark.environment import write_environment
from optik.benchmark.statistics import mcnemar, wilson
from optik.diagnosis import certificate
from optik.problem_sets import ProblemSet
from optik.solvers import parse_solver

SET = "arm7_lesson"
BASELINE = "clamped-dls"
SOLVERS = [
    BASELINE,
    "box-qp:hold=scale",
    "box-qp",
    "box-qp:backend=osqp",
    "box-qp:backend=cvxpy",
    "trf",
    "dogbox",
    "ipopt",
    "box-lm:starts=given",
    "box-lm",
]
BUDGET = optik.Budget(iterations=200)
RESULTS = Path(__file__).parent / "results" / "failure_at_limits"

Table = tuple[list[str], list[list[object]]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="25 targets, results thrown away")
    quick = parser.parse_args().quick
    problems = optik.load_problem_set(SET)
    if quick:
        problems = problems.first(25)
    say = Console(stderr=True).print
    say(
        f"{len(problems)} reachable poses of {problems.robot.name}, start home, {len(SOLVERS)} solvers"
    )
    rows = optik.run([problems], SOLVERS, budget=BUDGET, title="without a posture")
    posture = optik.Posture()
    with_posture = optik.run(
        [problems], SOLVERS, budget=BUDGET, posture=posture, title="with a posture"
    )
    stalls = one_by_one(problems, rows)
    sections = [
        (
            f"(a) all {len(problems)} targets, single start from home",
            head_to_head(rows),
            "Gained and lost count targets against clamped-dls; p is the exact McNemar test. "
            "Evaluations are forward kinematics calls, over the solved; iterations over all. "
            "A violation is a joint outside its range by any amount; a false claim is a solver that "
            "says solved where MuJoCo does not agree. All start from home once, except the last row: "
            "box-lm goes on from a table of starts of its own.",
        ),
        (
            f"(b) the {len(stalls)} targets that clamped-dls fails: the same solvers, same start",
            head_to_head(only_failed(rows)),
            "This set was chosen because clamping fails on it, so clamping scores 0 by construction.",
        ),
        (
            "(b) one by one: where clamping stopped, and who solves the target from the same start",
            stall_table(stalls),
            "P is the projected gradient of the bounded problem, relative to |J| |e|; it is 0 at a "
            f"true constrained minimum. {int((stalls.relative_projected_gradient < 1e-6).sum())} of "
            f"{len(stalls)} stops are one (P below 1e-6); the smallest P is "
            f"{stalls.relative_projected_gradient.min():.2g}.",
        ),
        (
            "(c) contingency over the unfiltered set",
            contingency(rows),
            selection_sentence(rows),
        ),
        (
            "(d) with the posture objective: stay close to mid-range",
            posture_table(with_posture, rows),
            "Distance |q - q_mid| over the solved. clamped-dls uses its exact null-space projector, "
            "box-qp a second QP that keeps the task's J d, box-lm a second phase from a solution, the "
            f"others weighted rows with w_post^2 = {posture.weight**2:g}.",
        ),
    ]
    header = (
        f"Problem set {SET}, {len(problems)} targets, start home, tolerance 1e-4 m and 1e-3 rad, "
        f"{BUDGET.iterations} iterations, no restarts.\n"
        "Made by `python studies/failure_at_limits.py`; versions and processor in environment.json.\n"
        "Times are of one thread, the solver built before, and compare implementations, not methods."
    )
    text = "# Clamped against constrained at the joint limits\n\n" + header + "\n"
    for title, (columns, body), note in sections:
        print(f"\n{title}\n{tabulate(body, columns, tablefmt='simple', disable_numparse=True)}")
        print(note)
        table = tabulate(body, columns, tablefmt="github", disable_numparse=True)
        text += f"\n## {title}\n\n{table}\n\n{note}\n"
    folder = Path(tempfile.mkdtemp()) if quick else RESULTS
    write(folder, text, rows, with_posture, stalls)
    say(f"written to {folder}")


def head_to_head(rows: pd.DataFrame) -> Table:
    columns = [
        "solver",
        "solved",
        "95 % interval",
        "gained",
        "lost",
        "p",
        "eval. median",
        "p95",
        "iterations mean",
        "ms median",
        "worst mm",
        "worst deg",
        "violations",
        "false claims",
    ]
    base = rows[rows.solver == BASELINE].set_index("problem").solved
    body = []
    for name, part in by_solver(rows):
        solved = part.set_index("problem").solved
        won = part[part.solved]
        gained, lost = int((solved & ~base).sum()), int((base & ~solved).sum())
        lo, hi = wilson(int(solved.sum()), len(solved))
        paired = [str(gained), str(lost), f"{mcnemar(gained, lost):.2g}"]
        body.append(
            [
                name,
                f"{int(solved.sum())}/{len(solved)}",
                f"{100 * lo:.0f} to {100 * hi:.0f} %",
                *(["", "", ""] if name == BASELINE else paired),
                _number(won.evaluations.median(), ".0f"),
                _number(won.evaluations.quantile(0.95), ".0f"),
                f"{part.iterations.mean():.1f}",
                f"{1e3 * part.solve_time.median():.2f}",
                _number(1e3 * won.position_error.max(), ".3f"),
                _number(np.degrees(won.rotation_error.max()), ".3f"),
                str(int((part.limit_violation > 0).sum())),
                str(int(part.false_claim.sum())),
            ]
        )
    return columns, body


def one_by_one(problems: ProblemSet, rows: pd.DataFrame) -> pd.DataFrame:
    """Solves clamping's failures again with the path kept, and looks at where it stopped."""
    failed = rows[(rows.solver == BASELINE) & ~rows.solved].problem
    solver = parse_solver(BASELINE)
    stops = []
    for i in failed:
        problem = problems.problem(int(i))
        solution = optik.solve(problem, solver=solver, budget=BUDGET, trace=True)
        assert solution.trace is not None
        q = solution.trace[-1]
        at, facts = optik.evaluate(problem, q), certificate(problem, q)
        active = facts.active_lower | facts.active_upper
        names = [n for n, a in zip(problem.robot.joint_names, active, strict=True) if a]
        solved = rows[(rows.problem == i) & rows.solved].solver
        stops.append(
            {
                "problem": int(i),
                "position_error": at.position_error,
                "rotation_error": at.rotation_error,
                "joints_at_limit": " ".join(names),
                "relative_projected_gradient": facts.relative_optimality,
                "solved_by": "; ".join(solved),
            }
        )
    return pd.DataFrame(stops)


def stall_table(stalls: pd.DataFrame) -> Table:
    marks = [s for s in SOLVERS if s != BASELINE]
    body = []
    for stop in stalls.itertuples():
        who = stop.solved_by.split("; ")
        body.append(
            [
                str(stop.problem),
                f"{1e3 * stop.position_error:.1f}",
                f"{np.degrees(stop.rotation_error):.1f}",
                stop.joints_at_limit or "none",
                f"{stop.relative_projected_gradient:.1e}",
                *("x" if s in who else "" for s in marks),
            ]
        )
    return ["target", "mm", "deg", "at a limit", "P", *marks], body


def only_failed(rows: pd.DataFrame) -> pd.DataFrame:
    failed = rows[(rows.solver == BASELINE) & ~rows.solved].problem
    return rows[rows.problem.isin(failed)]


def contingency(rows: pd.DataFrame) -> Table:
    base = rows[rows.solver == BASELINE].set_index("problem").solved
    body = []
    for name, part in by_solver(rows):
        if name != BASELINE:
            other = part.set_index("problem").solved
            counts = (base & other, ~base & other, base & ~other, ~base & ~other)
            body.append([name, *(str(int(c.sum())) for c in counts)])
    return ["solver", "both", "only it", "only clamped-dls", "neither"], body


def selection_sentence(rows: pd.DataFrame) -> str:
    base = rows[rows.solver == BASELINE].set_index("problem").solved
    lost = {
        name: int((base & ~part.set_index("problem").solved).sum())
        for name, part in by_solver(rows)
        if name != BASELINE
    }
    worst, best = max(lost, key=lost.get), min(lost, key=lost.get)
    return (
        "Counting only the targets that clamping fails would hide the column 'only clamped-dls': "
        f"each other solver also loses some that clamping solves, from {lost[best]} ({best}) to "
        f"{lost[worst]} ({worst}), so the fair gain is the difference over the whole set."
    )


def posture_table(rows: pd.DataFrame, without: pd.DataFrame) -> Table:
    columns = [
        "solver",
        "solved",
        "95 % interval",
        "without posture",
        "distance [rad]",
        "without posture ",
        "largest pose error mm",
        "deg",
        "violations",
        "false claims",
    ]
    body = []
    for name, part in by_solver(rows):
        plain = without[without.solver == name]
        won, k = part[part.solved], int(part.solved.sum())
        lo, hi = wilson(k, len(part))
        body.append(
            [
                name,
                f"{k}/{len(part)}",
                f"{100 * lo:.0f} to {100 * hi:.0f} %",
                str(int(plain.solved.sum())),
                _number(won.posture_distance.mean(), ".2f"),
                _number(plain[plain.solved].posture_distance.mean(), ".2f"),
                _number(1e3 * won.position_error.max(), ".3f"),
                _number(np.degrees(won.rotation_error.max()), ".3f"),
                str(int((part.limit_violation > 0).sum())),
                str(int(part.false_claim.sum())),
            ]
        )
    return columns, body


def by_solver(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(name, rows[rows.solver == name]) for name in SOLVERS]


def _number(value: float, form: str) -> str:
    return "" if np.isnan(value) else format(value, form)


def write(folder: Path, text: str, *frames: pd.DataFrame) -> None:
    """Writes every file beside its place first, then moves all of them: whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("rows.csv", "rows_with_posture.csv", "stalls.csv")
    (folder / "tables.md.tmp").write_text(text)
    for name, frame in zip(names, frames, strict=True):
        frame.to_csv(folder / f"{name}.tmp", index=False)
    write_environment(
        folder / "environment.json", solvers=[parse_solver(s) for s in SOLVERS], budget=BUDGET
    )
    for name in ("tables.md", *names):
        (folder / f"{name}.tmp").replace(folder / name)


if __name__ == "__main__":
    main()
