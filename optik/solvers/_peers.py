"""What all peers share: which problems they take, and the loop around one that goes step by step.

A peer is another library's solver, judged like everyone.  What it hands back is not put inside the
limits: `Result.q` is the peer's own number, and the judge counts how far it lies outside.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import ClassVar

import numpy as np

from optik.errors import SolverError
from optik.pose import Array, frozen
from optik.problem import Budget, Problem, Shape
from optik.residual import Residual
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Deadline, Prepared, Solver, check_positive

Step = Callable[[Array], Array]


@dataclass(frozen=True, kw_only=True)
class DifferentialIK(Solver):
    """What mink and Pink have in common: weighted tasks, limits in a QP, one small step at a time.

    Attributes:
        position_cost: weight of a metre [cost/m].
        orientation_cost: weight of a radian [cost/rad].
        lm_damping: damping per squared error [1].
        damping: damping of every joint [cost^2 s/rad].
        posture_cost: weight of staying where the start is; none if 0 [cost/rad].
        limit_gain: share of the way to a limit that one step may go [1].
        step_limit: largest step of a joint [rad or m]; none if None.
        backend: the QP solver, by qpsolvers' name.
        primal_tolerance: how far DAQP may leave the limits; its own 1e-6 if None [rad or m].
    """

    family: ClassVar[str] = "peer"

    position_cost: float = 1.0
    orientation_cost: float = 1.0
    lm_damping: float = 1.0
    damping: float = 1e-6
    posture_cost: float = 0.0
    limit_gain: float = 1.0
    step_limit: float | None = None
    backend: str = "daqp"
    primal_tolerance: float | None = None

    def __post_init__(self) -> None:
        for option in (
            "position_cost",
            "orientation_cost",
            "limit_gain",
            "step_limit",
            "primal_tolerance",
        ):
            check_positive(self.name, option, getattr(self, option))
        for option in ("lm_damping", "damping", "posture_cost"):
            check_positive(self.name, option, getattr(self, option), zero=True)

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""
        check_shape(shape, solver=self.name)
        residual = Residual(robot, shape)
        start = self.stepper(robot, shape)

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            return iterate(
                problem, residual, budget, start(problem), trace=trace, deadline=deadline
            )

        return run

    @abstractmethod
    def stepper(self, robot: Robot, shape: Shape) -> Callable[[Problem], Step]:
        """Builds the peer's model and tasks once.

        Returns:
            A function that puts them at a problem's start and target and hands back the step: the
            next whole configuration from the present one, as `iterate` takes it.
        """

    def accuracy(self) -> dict[str, float]:
        """What the QP solver is told of its tolerance.

        Raises:
            SolverError: for a backend whose tolerance has another name.
        """
        if self.primal_tolerance is None:
            return {}
        if self.backend != "daqp":
            raise SolverError(f"{self.name}: primal_tolerance= is for backend=daqp")
        return {"primal_tol": self.primal_tolerance}

    @property
    def uses_problem_cost(self) -> bool:
        """See `Solver.uses_problem_cost`; a peer's answer is never taken further."""
        return True


def peer_module(package: str, *, solver: str) -> ModuleType:
    """Imports a peer that runs in this environment.

    Raises:
        SolverError: naming the extra that brings it.
    """
    try:
        return import_module(package)
    except ImportError:
        raise SolverError(
            f"{solver} needs the package {package!r}, which is not installed: "
            "pip install 'optik[peers]'"
        ) from None


def check_shape(shape: Shape, *, solver: str) -> None:
    """Raises SolverError unless the problem is one pose or position of the robot's own frame."""
    target = shape.targets[0]
    if (
        len(shape.targets) > 1
        or target.kind == "axis"
        or target.relative_to is not None
        or not all(target.mask)
    ):
        raise SolverError(
            f"{solver} takes one target in the world, a pose or a position without a mask"
        )


def violation(lower: Array, upper: Array, q: Array) -> float:
    """How far the worst joint lies outside [rad or m]."""
    return float(max(0.0, (lower - q).max(initial=0.0), (q - upper).max(initial=0.0)))


def iterate(
    problem: Problem,
    residual: Residual,
    budget: Budget,
    step: Step,
    *,
    trace: bool,
    deadline: Deadline | None,
) -> Result:
    """Repeats a peer's step until MuJoCo's errors are within tolerance.

    Args:
        problem: the problem.
        residual: of the problem's shape, to tell when the target is reached.
        budget: iterations and seconds.
        step: the next whole configuration from the present one, shape (n,); raises
            `ArithmeticError` or `RuntimeError` where the peer gives up.
        trace: keep the path.
        deadline: when to stop; from the budget if None.
    """
    robot = problem.robot
    deadline = Deadline(budget.seconds) if deadline is None else deadline
    residual.load(problem)
    q = np.array(problem.q_start)
    best, best_key, worst = q, (True, np.inf), 0.0
    path = [q]
    iterations, evaluations = 0, 0
    status, message = Claim.ITERATION_LIMIT, None
    while True:
        at = residual.evaluate(q, jacobian=False)
        evaluations += 1
        solved = (
            at.position_error <= problem.tolerance.position
            and at.rotation_error <= problem.tolerance.rotation
        )
        if (not solved, at.cost) < best_key:
            best, best_key = q, (not solved, at.cost)
        if solved:
            status = Claim.CONVERGED
            break
        if iterations >= budget.iterations:
            break
        if deadline.expired():
            status = Claim.TIME_LIMIT
            break
        try:
            moved = step(q)
        except (ArithmeticError, RuntimeError) as error:
            status, message = Claim.NUMERICAL_FAILURE, f"{type(error).__name__}: {error}"
            break
        if not np.isfinite(moved).all():
            status, message = Claim.NUMERICAL_FAILURE, "the peer's step is not finite"
            break
        iterations += 1
        worst = max(worst, violation(robot.lower, robot.upper, moved))
        still = float(np.abs(moved - q).max(initial=0.0)) < 1e-10
        q = moved
        path.append(q)
        if still:
            status = Claim.NO_PROGRESS
            break
    return Result(
        q=frozen(best),
        status=status,
        message=status.sentence if message is None else message,
        iterations=iterations,
        evaluations=evaluations,
        trace=frozen(np.array(path)) if trace else None,
        raw_violation=worst,
    )
