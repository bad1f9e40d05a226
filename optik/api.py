"""The calls that a user makes: `solve` here, `solve_batch` in batch.py."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import fields, replace
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from optik import diagnosis
from optik.checks import instance, numbers, seed_number
from optik.diagnosis import Diagnosis
from optik.errors import ProblemError, RobotError
from optik.evaluation import evaluate
from optik.notices import told_if_slow
from optik.pose import frozen
from optik.problem import Budget, Problem, Shape
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solution import Solution, judged
from optik.solvers import Prepared, Solver, parse_solver
from optik.solvers.restarts import PreparedRestarts, Restarts
from optik.windings import can_turn_around, nearest_winding

DEFAULT_SOLVER = "box-lm"
_DEFAULT_BUDGET = Budget()
# The default solver's starts share one budget; with this much it misses no reachable target of the
# bundled arms (studies/speed.py), and an unreachable one costs milliseconds.
_PLENTY = Budget(restarts=24)
_LOCAL = threading.local()
_KEPT = 32


def solve(
    problem: Problem,
    *,
    solver: str | Solver | None = None,
    budget: Budget | None = None,
    restarts: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    trace: bool = False,
    prove: bool = False,
) -> Solution:
    """Solves a problem and judges the answer; never raises because it did not converge.

    A solver that works inside with another residual or weight, and does not succeed, is continued
    by box steps on the problem's own cost, so that a failure always speaks of that cost.  Hinges
    that turn further than once are left in the winding nearest to the start, or to the posture.

    Args:
        problem: the problem.
        solver: a solver, or its name with options; the default solver if None.
        budget: iterations, seconds and restarts; if None 200, unlimited and 0, or 24 restarts for
            the default solver, whose starts all come from its own table and sequence.
        restarts: further starts after the given one; overrides the budget's.
        seed: of the restarts.
        time_limit: seconds for the whole solve, all starts together; overrides the budget's.
        trace: keep every configuration of the path.
        prove: if the first start fails, try to prove that the target cannot be reached; with a
            proof no further start is made and the status is "unreachable".

    Returns:
        The best configuration found, judged by MuJoCo.

    Raises:
        UnknownNameError: for a solver or option that does not exist.
        ProblemError: for a budget, seed or limit that is none.
    """
    if type(problem) is not Problem:
        instance(problem, Problem, "the first argument", ProblemError)
    chosen = _default_solver() if solver is None else parse_solver(solver)
    if budget is None:
        budget = _PLENTY if solver is None else _DEFAULT_BUDGET
    else:
        instance(budget, Budget, "budget=", ProblemError)
    seed = seed_number(seed, ProblemError)
    if restarts is not None:
        budget = replace(budget, restarts=restarts)
    if time_limit is not None:
        budget = replace(budget, seconds=time_limit)
    if prove:
        single = replace(budget, restarts=0)
        solution = _solve(problem, _with_starts(chosen, single, seed), single, trace)
        if solution.success or solution.prove(time_limit=time_limit) or not budget.restarts:
            return solution
    return _solve(problem, _with_starts(chosen, budget, seed), budget, trace)


def diagnose(
    problem: Problem,
    q: ArrayLike,
    *,
    solver: str | Solver | None = None,
    budget: Budget | None = None,
    claim: Claim | None = None,
    proof: Any = None,
) -> Diagnosis:
    """Finds out why a configuration, from wherever it comes, does not solve a problem.

    What `solution.diagnosis` says of a solve's own answer.  Deterministic; a few ms, more where
    hundreds of further iterations of the solver have to be run to tell.

    Args:
        problem: the problem.
        q: the configuration, shape (n,) [rad or m].
        solver: the method that ended there, or its name with options: it is let go on to see
            whether it stands still; without it nothing is said about that.
        budget: what the method was given; going on means four times its iterations.
        claim: how the method said it ended.
        proof: a proof of unreachability; without one nothing is ever called unreachable.

    Raises:
        UnknownNameError: for a solver or option that does not exist.
        RobotError: if q is not n numbers.
    """
    instance(problem, Problem, "the first argument", ProblemError)
    values = numbers(q, f"a configuration is {problem.robot.n} numbers", RobotError)
    method = None if solver is None else parse_solver(solver)
    if budget is not None:
        instance(budget, Budget, "budget=", ProblemError)
    if claim is not None:
        instance(claim, Claim, "claim=", ProblemError)
    if proof is not None:
        from optik.reachability import Proof

        instance(proof, Proof, "proof=", ProblemError)
    return diagnosis.diagnose(
        problem, values, solver=method, budget=budget, claim=claim, proof=proof
    )


@cache
def _default_solver() -> Solver:
    return parse_solver(DEFAULT_SOLVER)


def _with_starts(solver: Solver, budget: Budget, seed: int) -> Solver:
    if solver.restarts_itself:
        seeded = seed and any(f.name == "seed" for f in fields(solver))
        return replace(solver, seed=seed) if seeded else solver  # type: ignore[call-arg]
    return Restarts(solver=solver, seed=seed) if budget.restarts else solver


def _solve(problem: Problem, solver: Solver, budget: Budget, trace: bool) -> Solution:
    # The starts are drawn by each call, so one built solver serves every seed.
    built = replace(solver, seed=0) if isinstance(solver, Restarts) else solver
    prepared, setup_time = prepared_solver(built, problem.robot, problem.shape, budget)
    began = time.perf_counter()
    if isinstance(prepared, PreparedRestarts):
        result = prepared(problem, trace=trace, seed=cast(Restarts, solver).seed)
    else:
        result = prepared(problem, trace=trace)
    if not solver.uses_problem_cost and result.status is not Claim.CONVERGED:
        result = _finish(problem, result)
    result = _nearest(problem, result)
    solve_time = time.perf_counter() - began
    return judged(
        problem,
        result,
        solver=_text(solver),
        setup_time=setup_time,
        solve_time=solve_time,
        method=solver,
        budget=budget,
    )


@lru_cache(maxsize=256)
def _text(solver: Solver) -> str:
    return str(solver)


def _finish(problem: Problem, result: Result) -> Result:
    from optik.solvers.polish import polish

    return polish(problem, result)


def _nearest(problem: Problem, result: Result) -> Result:
    """The same answer with no hinge a whole turn further from the start than it need be."""
    if result.status is not Claim.CONVERGED or not can_turn_around(problem.robot):
        return result
    # No winding can be nearer; moving the start into the limits would bring it closer still.
    near = problem.q_init if problem.posture is None else problem.q_rest
    if np.abs(result.q - near).max() <= np.pi:
        return result
    reference = problem.q_start if problem.posture is None else problem.q_rest
    q = nearest_winding(problem.robot, result.q, reference)
    # Equal to rounding only: an answer at the edge of the tolerance stays where it is.
    if np.array_equal(q, result.q) or not evaluate(problem, q).solved:
        return result
    return replace(result, q=frozen(q))


def prepared_solver(
    solver: Solver, robot: Robot, shape: Shape, budget: Budget
) -> tuple[Prepared, float]:
    """This thread's solver built for a robot and shape, and the seconds that building it took."""
    built: OrderedDict[tuple[Solver, int, Shape, Budget], tuple[Robot, Prepared]] | None
    built = getattr(_LOCAL, "cache", None)
    if built is None:
        built = _LOCAL.cache = OrderedDict()
    key = (solver, id(robot), shape, budget)
    kept = built.get(key)
    if kept is not None and kept[0] is robot:
        return kept[1], 0.0
    targets = "1 target" if len(shape.targets) == 1 else f"{len(shape.targets)} targets"
    began = time.perf_counter()
    with told_if_slow(
        f"still building {solver.name} for {robot.name} ({robot.n} joints, {targets}); "
        "this is done once for each kind of problem"
    ):
        prepared = solver.prepare(robot, shape, budget)
    setup_time = time.perf_counter() - began
    built[key] = (robot, prepared)
    if len(built) > _KEPT:
        built.popitem(last=False)
    return prepared, setup_time
