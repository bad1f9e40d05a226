"""Runs solvers over problem sets and judges every answer: one row a solve.

Same targets, start, tolerance, budget and judge for all solvers; a failure stays in the table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from optik.api import prepared_solver
from optik.benchmark.environment import write_environment
from optik.benchmark.progress import progress
from optik.evaluation import evaluate
from optik.problem import Budget, Posture, Problem
from optik.problem_sets import ProblemSet, Start, load_problem_set
from optik.result import Claim
from optik.solvers import Prepared, Solver, parse_solver

COLUMNS = (
    "problem_set",
    "problem",
    "robot",
    "solver",
    "start",
    "solved",
    "claim",
    "false_claim",
    "position_error",
    "rotation_error",
    "limit_violation",
    "cost",
    "posture_distance",
    "joints_at_limit",
    "iterations",
    "evaluations",
    "restarts",
    "setup_time",
    "solve_time",
    "judge_time",
    "message",
    "q",
)


def run(
    problem_sets: Sequence[str | ProblemSet],
    solvers: Sequence[str | Solver],
    *,
    start: Start | None = None,
    budget: Budget | None = None,
    posture: Posture | None = None,
    out: str | Path | None = None,
    title: str = "solving",
) -> pd.DataFrame:
    """Solves every problem with every solver and judges the answers.

    Args:
        problem_sets: names or sets.
        solvers: solvers, or their names with options.
        start: "home" or "mid"; each set's own if None.
        budget: the same for all.
        posture: a posture objective for every problem, or None.
        out: a folder for `rows.csv` and `environment.json`.
        title: what the progress bar says.

    Returns:
        One row a solve, with the columns `COLUMNS`; times in seconds, errors in m and rad, `q` the
        configuration as numbers separated by spaces.
    """
    sets = [load_problem_set(s) if isinstance(s, str) else s for s in problem_sets]
    parsed = [parse_solver(s) for s in solvers]
    budget = Budget() if budget is None else budget
    rows: list[dict[str, Any]] = []
    with progress(title, total=len(parsed) * sum(len(s) for s in sets)) as advance:
        for problem_set in sets:
            problems = list(problem_set.problems(start=start, posture=posture))
            prepared: list[tuple[Solver, Prepared, float]] = []
            for solver in parsed:
                built, setup_time = prepared_solver(
                    solver, problem_set.robot, problems[0].shape, budget
                )
                built(problems[0])  # a warm-up, thrown away
                prepared.append((solver, built, setup_time))
            for i, problem in enumerate(problems):
                # Solvers take turns on each problem, so that drift of the machine hits all alike.
                for solver, built, setup_time in prepared:
                    row = solve_row(problem, built)
                    row |= {
                        "problem_set": problem_set.name,
                        "problem": i,
                        "robot": problem_set.robot.name,
                        "solver": str(solver),
                        "start": start or problem_set.spec.start,
                        "setup_time": setup_time,
                    }
                    rows.append(row)
                    advance()
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    if out is not None:
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        frame.to_csv(folder / "rows.csv", index=False)
        write_environment(folder / "environment.json", solvers=parsed, budget=budget)
    return frame


def solve_row(problem: Problem, prepared: Prepared) -> dict[str, Any]:
    """Solves one problem, judges the answer and returns the measured part of a row."""
    began = time.perf_counter()
    result = prepared(problem)
    solved_at = time.perf_counter()
    verdict = evaluate(problem, result.q)
    judged_at = time.perf_counter()
    robot, q = problem.robot, result.q
    return {
        "solved": verdict.solved,
        "claim": result.status.value,
        "false_claim": result.status is Claim.CONVERGED and not verdict.solved,
        "position_error": verdict.position_error,
        "rotation_error": verdict.rotation_error,
        "limit_violation": verdict.limit_violation,
        "cost": verdict.cost,
        "posture_distance": verdict.posture_distance,
        "joints_at_limit": int(((q <= robot.lower) | (q >= robot.upper)).sum()),
        "iterations": result.iterations,
        "evaluations": result.evaluations,
        "restarts": result.restarts,
        "solve_time": solved_at - began,
        "judge_time": judged_at - solved_at,
        "message": result.message,
        "q": " ".join(repr(float(v)) for v in q),
    }
