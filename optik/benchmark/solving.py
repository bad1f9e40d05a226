"""One solve after another: set up, warm up, solve, judge, each timed apart.

A `Bench` does the solves of a plan by number, in one thread.  It knows nothing of processes,
files or progress.  Whatever a solver does to it that Python can catch becomes that solve's row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from optik.benchmark.columns import Row, budget_text, one_line, posture_text
from optik.benchmark.own import drawn_for_each, seeded
from optik.benchmark.phases import SETTING_UP, SOLVING, WARMING_UP
from optik.benchmark.plan import Plan
from optik.evaluation import Evaluation, evaluate
from optik.pose import Array
from optik.problem import Problem
from optik.result import Claim, Result
from optik.solvers import Prepared, Solver

Mark = Callable[[int, int], None]


class Bench:
    """Does the solves of a plan; belongs to one thread.

    Attributes:
        plan: what is to be done.
        mark: is told the number and phase of what is being done.
    """

    def __init__(self, plan: Plan, mark: Mark = lambda number, phase: None) -> None:
        self.plan = plan
        self.mark = mark
        # For each set and solver: the repeat, the seeded solver, what it was built into, how long.
        self._prepared: dict[tuple[int, int], tuple[int, Solver, Prepared | str, float]] = {}
        self._problem: tuple[tuple[int, int], Problem] | None = None
        conditions = (budget_text(plan.budget), posture_text(plan.posture))
        self._heads = [(s.name, s.robot.name, s.spec.stratum) for s in plan.sets]
        self._starts = [plan.start_of(place) for place in range(len(plan.sets))]
        self._tails = [
            (s.spec.position_tolerance, s.spec.rotation_tolerance, *conditions) for s in plan.sets
        ]

    def row(self, number: int) -> Row:
        """Does one solve."""
        problem = self._problem_of(number)
        built, setup_time, fresh = self.prepared(number)
        if isinstance(built, str):
            return self.failed(number, built, 0.0)
        job = self.plan.job(number)
        each = drawn_for_each(self.plan.solvers[job.solver], self.plan.budget)
        drawn: dict[str, Any] = {"seed": self.plan.seed_of(job)} if each else {}
        began = time.perf_counter()
        try:
            if fresh:
                self.mark(number, WARMING_UP)
                # Thrown away: caches, lazy imports and compilation are not a solve.
                built(problem, **drawn)
            self.mark(number, SOLVING)
            began = time.perf_counter()
            result = built(problem, **drawn)
            solve_time = time.perf_counter() - began
            measured = judged(problem, result)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return self.failed(number, raised(error), time.perf_counter() - began, setup_time)
        return self._row(number, measured, setup_time, solve_time)

    def failed(self, number: int, reason: str, elapsed: float, setup_time: float = 0.0) -> Row:
        """The row of a solve that never answered: it is charged the whole budget."""
        budget = self.plan.budget
        steps = budget.iterations * (1 + budget.restarts)
        inf = float("inf")
        measured = (
            False, "", False, one_line(reason), inf, inf, 0.0, inf, inf, 0, steps, steps,
            budget.restarts, 0.0, "", "",
        )  # fmt: skip
        return self._row(number, measured, setup_time, max(elapsed, budget.seconds or 0.0))

    def prepared(self, number: int) -> tuple[Prepared | str, float, bool]:
        """The solver built for a solve's set, or why it could not be; its set-up time; if new."""
        plan = self.plan
        place, _, k, repeat = plan.job(number)
        kept = self._prepared.get((place, k))
        if kept is not None and kept[0] == repeat:
            return kept[2], kept[3], False
        solver = seeded(plan.solvers[k], plan.budget, plan.seed + repeat)
        if kept is not None and kept[1] == solver:
            self._prepared[place, k] = (repeat, *kept[1:])
            return kept[2], kept[3], False
        self.mark(number, SETTING_UP)
        shape = self._problem_of(number).shape
        began = time.perf_counter()
        built: Prepared | str
        try:
            built = solver.prepare(plan.sets[place].robot, shape, plan.budget)
        except Exception as error:
            built = f"set-up {raised(error)}"
        setup_time = time.perf_counter() - began
        # Backends bring their own BLAS, loaded only now.
        threadpool_limits(1)
        self._prepared[place, k] = (repeat, solver, built, setup_time)
        return built, setup_time, True

    def _problem_of(self, number: int) -> Problem:
        place, index, _, _ = self.plan.job(number)
        if self._problem is None or self._problem[0] != (place, index):
            problem = self.plan.sets[place].problem(
                index, start=self.plan.start, posture=self.plan.posture
            )
            self._problem = ((place, index), problem)
        return self._problem[1]

    def _row(
        self, number: int, measured: tuple[Any, ...], setup_time: float, solve_time: float
    ) -> Row:
        plan = self.plan
        job = plan.job(number)
        place, problem, k, repeat = job
        *head, judge_time, message, q = measured
        name, robot, stratum = self._heads[place]
        return (
            name, problem, robot, stratum, plan.names[k], self._starts[place], repeat,
            plan.seed_of(job), *head, setup_time, solve_time, judge_time, plan.timing, message, q,
            *self._tails[place],
        )  # fmt: skip


def judged(problem: Problem, result: Result) -> tuple[Any, ...]:
    """Judges an answer: the part of a row from `solved` to `restarts`, judge time, message, q."""
    began = time.perf_counter()
    robot = problem.robot
    q = np.asarray(result.q, dtype=np.float64)
    verdict = evaluate(problem, q)
    claim = result.status
    reason = "" if verdict.solved else reason_of(problem, q, verdict, claim)
    values, at_limit = q.ravel().tolist(), 0
    if len(values) == robot.n:
        bounds = zip(values, robot.lower.tolist(), robot.upper.tolist(), strict=True)
        at_limit = sum(value <= low or value >= high for value, low, high in bounds)
    posture_distance = verdict.posture_distance
    judge_time = time.perf_counter() - began
    return (
        verdict.solved,
        claim.value,
        claim is Claim.CONVERGED and not verdict.solved,
        reason,
        verdict.position_error,
        verdict.rotation_error,
        verdict.limit_violation,
        verdict.cost,
        posture_distance,
        at_limit,
        int(result.iterations),
        int(result.evaluations),
        int(result.restarts),
        judge_time,
        one_line(result.message),
        " ".join(map(repr, values)),
    )


def reason_of(problem: Problem, q: Array, verdict: Evaluation, claim: Claim) -> str:
    """Why an answer is not a solution, in a few words."""
    robot = problem.robot
    if q.shape != (robot.n,):
        return f"answered with shape {q.shape} instead of ({robot.n},)"
    if not np.isfinite(q).all():
        return "answered with numbers that are not finite"
    if verdict.limit_violation > 0:
        outside = np.flatnonzero((q < robot.lower) | (q > robot.upper))
        return "outside the limits: " + " ".join(robot.joint_names[i] for i in outside)
    return "false claim" if claim is Claim.CONVERGED else claim.value


def raised(error: BaseException) -> str:
    """An exception as a reason."""
    return one_line(f"raised {type(error).__name__}: {error}")
