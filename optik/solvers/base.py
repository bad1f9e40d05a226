"""What a solver is, and the bookkeeping that all NumPy solvers share.

A solver is an immutable value: a method and its options.  `prepare` builds whatever can be built
once for a robot and a problem's shape (a workspace, a compiled function); the callable it returns
solves one problem after another, remembers nothing between them, and neither times nor scores
itself.  A new solver is one file in this folder with one subclass of `Solver`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from optik.errors import SolverError
from optik.pose import Array, frozen
from optik.problem import Budget, Problem, Shape
from optik.residual import Linearization, Residual
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.options import check_options


class Deadline:
    """A moment on a monotonic clock after which a solve should stop.

    Attributes:
        clock: returns seconds; replaced by tests.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._end = None if seconds is None else clock() + seconds

    def remaining(self) -> float | None:
        """Seconds left (not below 0), or None when there is no limit."""
        return None if self._end is None else max(0.0, self._end - self.clock())

    def expired(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and self.clock() >= self._end


class Prepared(Protocol):
    """A solver built for one robot and one problem shape; belongs to one thread."""

    def __call__(
        self, problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
    ) -> Result:
        """Solves one problem.

        Args:
            problem: of the shape this was prepared for; starts at `problem.q_start`.
            trace: keep every configuration of the path.
            deadline: when to stop; made from the budget's seconds if None.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A method and its options: a frozen dataclass with one method, `prepare`.

        @dataclass(frozen=True, kw_only=True)
        class Transpose(optik.Solver):
            name: ClassVar[str] = "transpose"
            summary: ClassVar[str] = "clipped steps along the transposed Jacobian"
            family: ClassVar[str] = "own"
            gain: float = 0.5  # an option: mine.py:Transpose:gain=2

            def prepare(self, robot, shape, budget):
                def solve(problem, *, trace=False, deadline=None):
                    target, q = problem.targets[0], problem.q_start.copy()
                    for k in range(budget.iterations):
                        error = target.position - robot.forward(q).position
                        if np.linalg.norm(error) <= problem.tolerance.position:
                            return optik.Result(q, optik.Claim.CONVERGED, "there", k, k + 1)
                        step = self.gain * robot.jacobian(q)[:3].T @ error
                        q = np.clip(q + step, robot.lower, robot.upper)
                    return optik.Result(q, optik.Claim.ITERATION_LIMIT, "", k + 1, k + 1)
                return solve

    A plain function of a problem that returns q serves too; see `optik.benchmark.own`.

    Class attributes:
        name: what a table and the command line call it.
        summary: one line for `optik list solvers`.
        family: "clamped", "box-qp", "bounded-nlls", "nlp", "compiled", "wrapper", "peer", or a word
            of one's own.
        reference: author and year of the method.
        descends: whether every accepted step lowers the cost (an accept/reject test or a line
            search), so that the cost history is non-increasing.
        restarts_itself: whether it makes the budget's restarts on its own.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    family: ClassVar[str]
    reference: ClassVar[str] = ""
    descends: ClassVar[bool] = False
    restarts_itself: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Has every option checked against its type before the class's own checks."""
        super().__init_subclass__(**options)
        own = cls.__dict__.get("__post_init__")

        def check(self: Solver) -> None:
            check_options(self)
            if own is not None:
                own(self)

        if own is not None or cls.__post_init__ is Solver.__post_init__:
            cls.__post_init__ = check  # type: ignore[method-assign]

    def __post_init__(self) -> None:  # noqa: B027
        """Checks what the types leave open; a subclass's own, if it has one."""

    @abstractmethod
    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """Builds everything that can be built once; never timed as part of a solve.

        Args:
            robot: the robot.
            shape: the structure of the problems to come.
            budget: what each solve may take.
        """

    @property
    def uses_problem_cost(self) -> bool:
        """Whether it minimises the problem's own cost (log residual, the targets' weights)."""
        return (
            getattr(self, "residual", "log") == "log"
            and getattr(self, "rotation_weight", None) is None
        )

    def __str__(self) -> str:
        """The `NAME:option=value,...` form, with the options that differ from their defaults."""
        changed = [
            f"{f.name}={option_text(getattr(self, f.name))}"
            for f in fields(self)
            if getattr(self, f.name) != f.default
        ]
        return self.name + (":" + ",".join(changed) if changed else "")


def option_text(value: Any) -> str:
    """An option's value as the string form of a solver has it, from which it can be read back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def check_choice(solver: str, option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises SolverError unless `value` is one of `choices`."""
    if value not in choices:
        raise SolverError(f"{solver}: {option}={value!r}; valid: {', '.join(choices)}")


def check_positive(solver: str, option: str, value: float | None, *, zero: bool = False) -> None:
    """Raises SolverError unless `value` is None or positive (or zero, where that is allowed)."""
    if value is None:
        return
    good = np.isfinite(value) and (value >= 0 if zero else value > 0)
    if not good:
        bound = "zero or more" if zero else "positive"
        raise SolverError(f"{solver}: {option} must be {bound}, got {value!r}")


class Search:
    """The bookkeeping of one solve: budget, counts, the best configuration, the path.

    A method calls `at` for every configuration it visits; whichever is the best of those (a
    solution before a non-solution, then the lower cost) is what `result` hands back, so that the
    answer is never worse than the start.

    Attributes:
        x: the start in the free joints, shape (nf,).
        iterations: steps taken.
        evaluations: forward kinematics calls.
    """

    def __init__(
        self,
        residual: Residual,
        problem: Problem,
        budget: Budget,
        *,
        trace: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        self.residual = residual
        self.problem = problem
        self.budget = budget
        self.deadline = Deadline(budget.seconds) if deadline is None else deadline
        self.x = residual.load(problem)
        self.iterations = 0
        self.evaluations = 0
        self.raw_violation = 0.0
        self._trace: list[Array] | None = [] if trace else None
        self._best_x = self.x
        self._best_key = (True, np.inf)
        self._last_x = self.x
        self._last_solved = False
        self._end_x = self.x

    def at(
        self,
        x: Array,
        *,
        jacobian: bool = True,
        step: bool = True,
        posture_cost: float | None = None,
    ) -> Linearization:
        """Evaluates the residual at `x`, shape (nf,), and remembers it if it is the best so far.

        Args:
            x: free joints, inside the limits.
            jacobian: whether the Jacobian is wanted.
            step: whether the method stands at `x`; False for a trial point that it may reject,
                which is counted but not part of the path.
            posture_cost: what ranks configurations that solve the problem, for a method that
                goes on towards the posture after the target is reached; the cost if None.
        """
        out = self.residual.at(x) if jacobian else self.residual.value(x)
        self.evaluations += 1
        if not np.isfinite(out.e).all():
            return out
        solved = self.solved(out)
        self._last_x, self._last_solved = x.copy(), solved
        rank = posture_cost if solved and posture_cost is not None else out.cost
        key = (not solved, rank)
        if key < self._best_key:
            self._best_key, self._best_x = key, x.copy()
        if step:
            self.stand(x)
        return out

    def stand(self, x: Array) -> None:
        """Adds `x`, shape (nf,), to the path: for trial points that turn out to be accepted."""
        self._end_x = x.copy()
        if self._trace is not None:
            full = self.residual.full(x)
            if not self._trace or (self._trace[-1] != full).any():
                self._trace.append(full)

    def solved(self, out: Linearization) -> bool:
        """Whether the errors are within the problem's tolerance, and numbers."""
        tolerance = self.problem.tolerance
        if not out.cost < np.inf:  # max(0, nan) is 0: the errors would not show it
            return False
        return out.position_error <= tolerance.position and out.rotation_error <= tolerance.rotation

    @property
    def found(self) -> bool:
        """Whether some configuration visited so far is a solution."""
        return not self._best_key[0]

    def best_q(self) -> Array:
        """The best configuration visited so far, shape (n,)."""
        return self.residual.full(self._best_x)

    def prefer_last(self) -> None:
        """Hands back the last visited configuration if it is a solution, whatever its cost.

        For a method that goes on from a solution to a better posture.
        """
        if self._last_solved:
            self._best_x = self._last_x

    def out_of_budget(self) -> Claim | None:
        """The limit that has been reached, if any."""
        if self.iterations >= self.budget.iterations:
            return Claim.ITERATION_LIMIT
        return Claim.TIME_LIMIT if self.deadline.expired() else None

    def result(self, status: Claim, message: str | None = None) -> Result:
        """The best configuration found, with the claim and the counts."""
        return Result(
            q=frozen(self.residual.full(self._best_x)),
            status=status,
            message=status.sentence if message is None else message,
            iterations=self.iterations,
            evaluations=self.evaluations,
            trace=None if self._trace is None else frozen(np.array(self._trace)),
            raw_violation=self.raw_violation,
            q_end=frozen(self.residual.full(self._end_x)),
        )
