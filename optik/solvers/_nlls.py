"""What the bounded nonlinear least-squares solvers share: options, and how a solve ends."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.problem import Budget, Problem, Shape
from optik.residual import RESIDUALS, Residual, ResidualKind
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers._rows import Finished, Rows
from optik.solvers.base import Deadline, Prepared, Search, Solver, check_choice, check_positive


@dataclass(frozen=True, kw_only=True)
class BoundedNLLS(Solver):
    """A general optimiser on 1/2 |e(x)|^2 + 1/2 w_post^2 |W (x - x_rest)|^2 within the limits.

    Attributes:
        residual: rotation residual, "log" or "chordal".
        rotation_weight: w_r for every target [m/rad]; each target's own if None.
        tolerance: the optimiser's own stopping tolerances [1].
    """

    family: ClassVar[str] = "bounded-nlls"
    # Whether every trial point counts as an iteration, or `minimise` counts them itself.
    trial_is_step: ClassVar[bool] = True

    residual: ResidualKind = "log"
    rotation_weight: float | None = None
    tolerance: float = 1e-12

    def __post_init__(self) -> None:
        check_choice(self.name, "residual", self.residual, RESIDUALS)
        check_positive(self.name, "rotation_weight", self.rotation_weight)
        check_positive(self.name, "tolerance", self.tolerance)

    @abstractmethod
    def minimise(self, rows: Rows) -> str:
        """Runs the optimiser from `rows.origin` and returns its own closing word."""

    def load(self) -> None:
        """Imports the backend, so that the first solve does not pay for it."""

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""
        self.load()
        residual = Residual(robot, shape, kind=self.residual, rotation_weight=self.rotation_weight)

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            search = Search(residual, problem, budget, trace=trace, deadline=deadline)
            rows = Rows(search, trial_is_step=self.trial_is_step)
            try:
                rows.start()
                with np.errstate(all="ignore"):
                    word = self.minimise(rows)
            except Finished as finished:
                claim = Claim.CONVERGED if search.found else finished.claim
                return search.result(claim)
            except (ValueError, np.linalg.LinAlgError) as error:
                return search.result(Claim.NUMERICAL_FAILURE, f"{self.name}: {error}")
            if search.found:
                return search.result(Claim.CONVERGED)
            return search.result(Claim.NO_PROGRESS, f"{self.name}: {word}")

        return run
