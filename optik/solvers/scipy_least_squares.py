r"""Bounded nonlinear least squares by SciPy: `trf` and `dogbox`.

The idea.  Hand the whole problem, limits included, to a solver that was written for it:

    minimise over x    1/2 |e(x)|^2 + 1/2 w_post^2 |W (x - x_rest)|^2
    subject to         lower <= x <= upper.

`trf` is an interior trust-region method: it rescales the variables by their distance to the bound
that the gradient points at, solves the trust-region subproblem there and reflects the step at the
bounds (Branch, Coleman and Li 1999).  It never touches a bound, and crawls along one.  `dogbox` is
an active-set method: it intersects a rectangular trust region with the box and takes Powell's
dogleg step inside (Voglis and Lagaris 2004).  Both get the analytic Jacobian.

The variables.  SciPy takes the norm of the start for its first trust radius, so that a start near
zero ends at once, and claims success.  Here the unknown is z = x - x_start + 1: its norm at the
start is sqrt(n), whatever the joints' values, zeros and limits are.

The posture enters as further rows with weight w_post (at most 1e-3 m/rad).  Without one, the search
ends at the first configuration within tolerance; with one, it goes on to SciPy's own convergence
and hands back the configuration within tolerance that is closest to the posture.

Stopping.  Solved within tolerance; the iteration or time limit (a trial step is an iteration);
SciPy's own tests, which are never believed: its claim of success is reported as no progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from optik.pose import Array
from optik.solvers._nlls import BoundedNLLS
from optik.solvers._rows import Rows

_OFFSET = 1.0


@dataclass(frozen=True, kw_only=True)
class ScipyLeastSquares(BoundedNLLS):
    """What `trf` and `dogbox` share; options as in `BoundedNLLS`."""

    method: ClassVar[Literal["trf", "dogbox"]]
    descends: ClassVar[bool] = True

    def load(self) -> None:
        """See `BoundedNLLS.load`."""
        import scipy.optimize  # noqa: F401  (half a second)

    def minimise(self, rows: Rows) -> str:
        """See `BoundedNLLS.minimise`."""
        from scipy.optimize import least_squares

        box, start, search = rows.search.residual, rows.origin, rows.search

        def joints(z: Array) -> Array:
            return np.clip(start + (z - _OFFSET), box.lower, box.upper)

        def residual(z: Array) -> Array:
            return rows.residual(joints(z))

        def jacobian(z: Array) -> Array:
            x = joints(z)
            J = rows.jacobian(x)
            search.stand(x)  # SciPy asks for a Jacobian only where it stands
            return J

        lower, upper = box.lower - start + _OFFSET, box.upper - start + _OFFSET
        # SciPy wants lower < upper strictly; a range of one rounding error collapses here.
        upper = np.maximum(upper, np.nextafter(lower, np.inf))
        out: Any = least_squares(
            residual,
            np.full(len(start), _OFFSET),
            jac=jacobian,
            bounds=(lower, upper),
            method=self.method,
            ftol=self.tolerance,
            xtol=self.tolerance,
            gtol=self.tolerance,
            max_nfev=10**9,  # the search counts
        )
        return str(out.message)


@dataclass(frozen=True, kw_only=True)
class TRF(ScipyLeastSquares):
    """SciPy's trust-region reflective method; options as in `BoundedNLLS`."""

    name: ClassVar[str] = "trf"
    summary: ClassVar[str] = "bounded least squares, interior trust region (SciPy)"
    reference: ClassVar[str] = "Branch, Coleman and Li 1999"
    method: ClassVar[Literal["trf", "dogbox"]] = "trf"


@dataclass(frozen=True, kw_only=True)
class Dogbox(ScipyLeastSquares):
    """SciPy's dogleg method in a rectangular trust region; options as in `BoundedNLLS`."""

    name: ClassVar[str] = "dogbox"
    summary: ClassVar[str] = "bounded least squares, dogleg in a box (SciPy)"
    reference: ClassVar[str] = "Voglis and Lagaris 2004"
    method: ClassVar[Literal["trf", "dogbox"]] = "dogbox"
