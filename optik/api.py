"""The calls that a user makes: `solve` now, batches and paths beside it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from optik.evaluation import evaluate
from optik.problem import Budget, Problem, Shape
from optik.robot import Robot
from optik.solution import Solution
from optik.solvers import Prepared, Solver, parse_solver

DEFAULT_SOLVER = "clamped-dls"
_LOCAL = threading.local()
_KEPT = 32


def solve(
    problem: Problem,
    *,
    solver: str | Solver = DEFAULT_SOLVER,
    budget: Budget | None = None,
    time_limit: float | None = None,
    trace: bool = False,
) -> Solution:
    """Solves a problem and judges the answer; never raises because it did not converge.

    Args:
        problem: the problem.
        solver: a solver, or its name with options.
        budget: iterations, seconds and restarts.
        time_limit: seconds for the whole solve; overrides the budget's.
        trace: keep every configuration of the path.

    Returns:
        The best configuration found, judged by MuJoCo.

    Raises:
        UnknownNameError: for a solver or option that does not exist.
    """
    solver = parse_solver(solver)
    budget = Budget() if budget is None else budget
    if time_limit is not None:
        budget = Budget(budget.iterations, time_limit, budget.restarts)
    prepared, setup_time = prepared_solver(solver, problem.robot, problem.shape, budget)
    began = time.perf_counter()
    result = prepared(problem, trace=trace)
    solve_time = time.perf_counter() - began
    return Solution(
        problem=problem,
        solver=str(solver),
        result=result,
        evaluation=evaluate(problem, result.q),
        setup_time=setup_time,
        solve_time=solve_time,
    )


def prepared_solver(
    solver: Solver, robot: Robot, shape: Shape, budget: Budget
) -> tuple[Prepared, float]:
    """This thread's solver built for a robot and shape, and the seconds that building it took."""
    cache: OrderedDict[tuple[Solver, int, Shape, Budget], tuple[Robot, Prepared]] | None
    cache = getattr(_LOCAL, "cache", None)
    if cache is None:
        cache = _LOCAL.cache = OrderedDict()
    key = (solver, id(robot), shape, budget)
    kept = cache.get(key)
    if kept is not None and kept[0] is robot:
        return kept[1], 0.0
    began = time.perf_counter()
    prepared = solver.prepare(robot, shape, budget)
    setup_time = time.perf_counter() - began
    cache[key] = (robot, prepared)
    if len(cache) > _KEPT:
        cache.popitem(last=False)
    return prepared, setup_time
