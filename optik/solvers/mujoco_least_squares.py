r"""MuJoCo's own bounded nonlinear least squares, `mujoco.minimize.least_squares`.

The idea.  Gauss-Newton with a regulariser: each step solves

    d = argmin 1/2 d^T (J^T J + mu I) d - e^T J d    subject to    lower - x <= d <= upper - x

as a box QP (mju_boxQP), accepts it by Armijo's rule, and raises or lowers mu by the ratio of the
true to the predicted reduction (Fletcher 1971).  It starts with mu = 0: as long as the model is
good these are pure Gauss-Newton steps, which far from the target may be long, so that it finds
solutions in few steps and in far-away basins.

The library asks for finite bounds: an unlimited joint gets 1000 rad (or m) to either side of its
start, which no step comes near.

Stopping.  Solved within tolerance; the iteration or time limit (a trial step is an iteration); the
library's own tests, reported as no progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.pose import Array
from optik.solvers._nlls import BoundedNLLS
from optik.solvers._rows import Rows
from optik.solvers.base import check_positive

_FAR = 1000.0


@dataclass(frozen=True, kw_only=True)
class MujocoLeastSquares(BoundedNLLS):
    """MuJoCo's bounded Gauss-Newton; options as in `BoundedNLLS`.

    Attributes:
        mu_min: smallest non-zero regulariser [m^2/rad^2].
        mu_factor: factor by which it is raised or lowered [1].
    """

    name: ClassVar[str] = "mujoco-least-squares"
    summary: ClassVar[str] = "regularised Gauss-Newton with box QP steps (mujoco.minimize)"
    reference: ClassVar[str] = "Fletcher 1971; Tassa, Mansard and Todorov 2014"
    descends: ClassVar[bool] = True

    mu_min: float = 1e-6
    mu_factor: float = 10**0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, "mu_min", self.mu_min)
        check_positive(self.name, "mu_factor - 1", self.mu_factor - 1.0)

    def load(self) -> None:
        """See `BoundedNLLS.load`."""
        import mujoco.minimize  # noqa: F401

    def minimise(self, rows: Rows) -> str:
        """See `BoundedNLLS.minimise`."""
        from mujoco import minimize

        box, start = rows.search.residual, rows.origin
        lower = np.where(np.isfinite(box.lower), box.lower, start - _FAR)
        upper = np.where(np.isfinite(box.upper), box.upper, start + _FAR)

        def joints(x: Array) -> Array:
            return np.clip(x[:, 0], box.lower, box.upper)

        def jacobian(x: Array, r: Array) -> Array:
            rows.search.stand(joints(x))  # asked for only where the method stands
            return rows.jacobian(joints(x))

        _, trace = minimize.least_squares(
            start,
            lambda x: rows.residual(joints(x))[:, None],
            bounds=[lower, upper],
            jacobian=jacobian,
            mu_min=self.mu_min,
            mu_factor=self.mu_factor,
            xtol=self.tolerance,
            gtol=self.tolerance,
            max_iter=10**9,  # the search counts
            verbose=minimize.Verbosity.SILENT,
        )
        return f"its own stopping tests held after {len(trace) - 1} accepted steps"
