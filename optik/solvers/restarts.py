r"""Restarts around any solver: the given start first, then seeded random ones, the best kept.

The idea.  A local method answers for the basin that its start lies in.  Started again from
configurations drawn uniformly between the limits, it samples basins; the chance that all k of them
fail falls like (1 - p)^k where p is the share of starts that lead to a solution (multistart;
Rinnooy Kan and Timmer 1987).

Starts.  The given start comes first, so that zero restarts change nothing.  Start k > 0 is one
`default_rng(seed).uniform` draw for each joint in order, drawn afresh for every solve: equal inputs
give equal answers.  An unlimited hinge is drawn from one turn around its nominal value.
`margin` keeps the draws away from the limits, where the margin at either end is that share of the
range.

Choosing.  Every start's answer is judged by MuJoCo on exactly the configuration that came back: a
solution inside the limits before anything else, then the lower cost.  A wrapped solver's claim is
not asked.

Budget.  `iterations` holds for each start, `restarts` is how many follow the given one, `seconds`
is one deadline for all of them together.

Stopping.  The first solution; the last start; the deadline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from optik.errors import SolverError
from optik.evaluation import Evaluation, evaluate
from optik.pose import Array, frozen
from optik.problem import Budget, Problem, Shape
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Deadline, Prepared, Solver, option_text


@dataclass(frozen=True, kw_only=True)
class Restarts(Solver):
    """Any solver from the given start and then from random ones; the best answer is kept.

    Attributes:
        solver: the solver inside, or its string form; commas in it are written as semicolons.
        seed: seed of the random starts.
        margin: share of each range, at either end, that random starts keep clear of [1].
    """

    name: ClassVar[str] = "restarts"
    summary: ClassVar[str] = "any solver: the given start, then seeded random ones, best kept"
    family: ClassVar[str] = "wrapper"
    reference: ClassVar[str] = "Rinnooy Kan and Timmer 1987"
    restarts_itself: ClassVar[bool] = True

    solver: str | Solver = "clamped-dls"
    seed: int = 0
    margin: float = 0.0

    def __post_init__(self) -> None:
        from optik.solvers import parse_solver

        if not (0.0 <= self.margin < 0.5):
            raise SolverError(f"{self.name}: margin must be in [0, 0.5), got {self.margin!r}")
        if self.seed < 0:
            raise SolverError(f"{self.name}: seed must be zero or more, got {self.seed!r}")
        text = self.solver.replace(";", ",") if isinstance(self.solver, str) else self.solver
        inner = parse_solver(text)
        if isinstance(inner, Restarts):
            raise SolverError(f"{self.name}: cannot wrap another {self.name}; give its solver")
        object.__setattr__(self, "solver", inner)

    def __str__(self) -> str:
        """The `restarts:solver=NAME:option=value;option=value,...` form."""
        parts = ["solver=" + str(self.solver).replace(",", ";")]
        parts += [f"seed={self.seed}"] if self.seed else []
        parts += [f"margin={option_text(self.margin)}"] if self.margin else []
        return f"{self.name}:" + ",".join(parts)

    @property
    def uses_problem_cost(self) -> bool:
        """Whether the solver inside minimises the problem's own cost."""
        return self._inner.uses_problem_cost

    @property
    def _inner(self) -> Solver:
        assert isinstance(self.solver, Solver)  # __post_init__ has parsed it
        return self.solver

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> PreparedRestarts:
        """See `Solver.prepare`."""
        each = replace(budget, restarts=0)
        return PreparedRestarts(self, self._inner.prepare(robot, shape, each), robot, budget)


@dataclass(frozen=True, eq=False, slots=True)
class Attempt:
    """One start's answer, judged.

    Attributes:
        start: its number; 0 is the given start.
        problem: the problem with that start.
        result: what the solver inside claims.
        evaluation: what MuJoCo says.
    """

    start: int
    problem: Problem
    result: Result
    evaluation: Evaluation

    @property
    def key(self) -> tuple[bool, bool, float]:
        """Smaller is better: solved, then inside the limits, then the lower cost."""
        e = self.evaluation
        return (not e.solved, e.limit_violation > 0.0, e.cost)


class PreparedRestarts:
    """A solver with restarts, built for one robot and problem shape; for one thread."""

    def __init__(self, solver: Restarts, inner: Prepared, robot: Robot, budget: Budget) -> None:
        self.solver = solver
        self.inner = inner
        self.robot = robot
        self.budget = budget
        gap = solver.margin * (robot.sampling_upper - robot.sampling_lower)
        self._low = robot.sampling_lower + gap
        self._high = robot.sampling_upper - gap

    def __call__(
        self,
        problem: Problem,
        *,
        trace: bool = False,
        deadline: Deadline | None = None,
        seed: int | None = None,
    ) -> Result:
        """Solves one problem.

        Args:
            problem: as for every prepared solver.
            trace: keep every configuration of every start's path, one after the other.
            deadline: for all starts together; made from the budget's seconds if None.
            seed: of this solve's random starts; the solver's own if None.
        """
        attempts = []
        for attempt in self.attempts(problem, trace=trace, deadline=deadline, seed=seed):
            attempts.append(attempt)
            if attempt.evaluation.solved:
                break
        return self._summary(attempts, trace, deadline)

    def attempts(
        self,
        problem: Problem,
        *,
        trace: bool = False,
        deadline: Deadline | None = None,
        seed: int | None = None,
    ) -> Iterator[Attempt]:
        """Yields each start's judged answer, until the starts or the time are used up."""
        if deadline is None:
            deadline = Deadline(self.budget.seconds)
        rng = np.random.default_rng(self.solver.seed if seed is None else seed)
        begin = problem
        for start in range(self.budget.restarts + 1):
            if start > 0:
                if deadline.expired():
                    return
                begin = replace(problem, q_init=rng.uniform(self._low, self._high))
            result = self.inner(begin, trace=trace, deadline=deadline)
            yield Attempt(start, begin, result, evaluate(begin, result.q))

    def solutions(
        self,
        problem: Problem,
        *,
        count: int | None = None,
        separation: float = 0.1,
        deadline: Deadline | None = None,
        seed: int | None = None,
    ) -> tuple[Result, ...]:
        """Distinct solutions, the nearest to the start first.

            distance = |q - q_start|_2,   distinct: max_i |q_i - q'_i| > separation

        Unlimited hinges count modulo a whole turn when two solutions are compared.  All starts are
        used unless `count` solutions are found before.

        Args:
            problem: as for every prepared solver.
            count: stop at this many distinct solutions; use every start if None.
            separation: how far apart some joint of two solutions must be [rad or m].
            deadline: for all starts together; made from the budget's seconds if None.
            seed: of this solve's random starts; the solver's own if None.
        """
        found: list[Result] = []
        for attempt in self.attempts(problem, deadline=deadline, seed=seed):
            q = attempt.result.q
            if attempt.evaluation.solved and all(
                self._gap(q, other.q) > separation for other in found
            ):
                found.append(replace(attempt.result, restarts=attempt.start))
                if len(found) == count:
                    break
        start = problem.q_start
        return tuple(sorted(found, key=lambda r: float(np.linalg.norm(r.q - start))))

    def _gap(self, a: Array, b: Array) -> float:
        difference = a - b
        for i, kind in enumerate(self.robot.joint_kinds):
            free = np.isinf(self.robot.lower[i]) and np.isinf(self.robot.upper[i])
            if kind == "hinge" and free:
                difference[i] = np.remainder(difference[i] + np.pi, 2 * np.pi) - np.pi
        return float(np.abs(difference).max())

    def _summary(self, attempts: list[Attempt], trace: bool, deadline: Deadline | None) -> Result:
        best = min(attempts, key=lambda a: a.key)
        results = [a.result for a in attempts]
        status, message = best.result.status, best.result.message
        if best.evaluation.solved:
            status = Claim.CONVERGED
            message = best.result.message
        elif status is Claim.CONVERGED:
            status = Claim.NO_PROGRESS
            message = f"A claim that the judge does not confirm: {message}"
        if not best.evaluation.solved and len(attempts) <= self.budget.restarts:
            status, message = Claim.TIME_LIMIT, Claim.TIME_LIMIT.sentence
        if len(attempts) > 1:
            message += f" (Start {best.start} of 0 to {len(attempts) - 1} is kept.)"
        paths = [r.trace for r in results if r.trace is not None]
        return Result(
            q=best.result.q,
            status=status,
            message=message,
            iterations=sum(r.iterations for r in results),
            evaluations=sum(r.evaluations for r in results),
            restarts=len(attempts) - 1,
            trace=frozen(np.concatenate(paths)) if trace and paths else None,
            raw_violation=max(r.raw_violation for r in results),
            q_end=best.result.q_end,
        )
