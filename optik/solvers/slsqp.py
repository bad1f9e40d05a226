r"""SLSQP: sequential least-squares quadratic programming within the joint limits, by SciPy.

The idea.  Each step minimises a quadratic model of the cost, with a dense BFGS matrix in LDL^T form
for its curvature, subject to the bounds, as a constrained linear least-squares problem; a line
search on a merit function follows (Kraft 1988).  Like L-BFGS-B it sees the cost and its gradient
alone, so that it has to learn the curvature that Gauss-Newton reads off J.

Stopping.  Solved within tolerance; the iteration or time limit (an iteration is one QP with its
line search); SciPy's own tests, reported as no progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from optik.pose import Array
from optik.solvers._nlls import BoundedNLLS
from optik.solvers._rows import Rows


@dataclass(frozen=True, kw_only=True)
class SLSQP(BoundedNLLS):
    """Sequential quadratic programming within the limits; options as in `BoundedNLLS`."""

    name: ClassVar[str] = "slsqp"
    summary: ClassVar[str] = "sequential quadratic programming, dense BFGS (SciPy)"
    reference: ClassVar[str] = "Kraft 1988"
    trial_is_step: ClassVar[bool] = False

    def load(self) -> None:
        """See `BoundedNLLS.load`."""
        import scipy.optimize  # noqa: F401  (half a second)

    def minimise(self, rows: Rows) -> str:
        """See `BoundedNLLS.minimise`."""
        from scipy import optimize

        # Any: scipy-stubs has no overload for jac=True with a bound callback.
        minimize: Any = optimize.minimize
        box, search = rows.search.residual, rows.search

        def inside(x: Array) -> Array:
            # Its steps overshoot a bound by rounding.
            moved = np.clip(x, box.lower, box.upper)
            search.raw_violation = max(search.raw_violation, float(np.abs(moved - x).max()))
            return moved

        out = minimize(
            lambda x: rows.cost(inside(x)),
            rows.origin,
            jac=True,
            method="SLSQP",
            bounds=optimize.Bounds(box.lower, box.upper),
            callback=lambda x: rows.step(inside(x)),
            options={"ftol": self.tolerance**2, "maxiter": 10**9},  # the search counts
        )
        return str(out.message)
