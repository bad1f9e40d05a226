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
from optik.problem import Budget, Problem, Shape
from optik.residual import RESIDUALS, Linearization, Residual, ResidualKind
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Deadline, Prepared, Search, Solver, check_choice, check_positive

_OFFSET = 1.0


@dataclass(frozen=True, kw_only=True)
class ScipyLeastSquares(Solver):
    """What `trf` and `dogbox` share.

    Attributes:
        residual: rotation residual, "log" or "chordal".
        rotation_weight: w_r [m/rad]; the problem's own if none.
        tolerance: SciPy's ftol, xtol and gtol [1].
    """

    family: ClassVar[str] = "bounded-nlls"
    descends: ClassVar[bool] = True
    method: ClassVar[Literal["trf", "dogbox"]]

    residual: ResidualKind = "log"
    rotation_weight: float | None = None
    tolerance: float = 1e-12

    def __post_init__(self) -> None:
        check_choice(self.name, "residual", self.residual, RESIDUALS)
        check_positive(self.name, "rotation_weight", self.rotation_weight)
        check_positive(self.name, "tolerance", self.tolerance)

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""
        import scipy.optimize  # noqa: F401  (half a second, paid here)

        residual = Residual(robot, shape, kind=self.residual, rotation_weight=self.rotation_weight)

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            return self._run(Search(residual, problem, budget, trace=trace, deadline=deadline))

        return run

    def _run(self, search: Search) -> Result:
        from scipy.optimize import least_squares

        rows = _Rows(search)
        start = search.x
        try:
            rows.start()
            lower = search.residual.lower - start + _OFFSET
            upper = search.residual.upper - start + _OFFSET
            # SciPy wants lower < upper strictly; a range of one rounding error collapses here.
            upper = np.maximum(upper, np.nextafter(lower, np.inf))
            with np.errstate(all="ignore"):
                out: Any = least_squares(
                    rows.residual,
                    np.full(len(start), _OFFSET),
                    jac=rows.jacobian,
                    bounds=(lower, upper),
                    method=self.method,
                    ftol=self.tolerance,
                    xtol=self.tolerance,
                    gtol=self.tolerance,
                    max_nfev=10**9,  # the search counts
                )
        except _Finished as finished:
            return search.result(finished.claim)
        except (ValueError, np.linalg.LinAlgError) as error:
            return search.result(Claim.NUMERICAL_FAILURE, f"SciPy: {error}")
        if search.found:
            return search.result(Claim.CONVERGED)
        return search.result(Claim.NO_PROGRESS, f"SciPy {self.method}: {out.message}")


class _Finished(Exception):  # noqa: N818  (not an error: how a callback leaves SciPy)
    def __init__(self, claim: Claim) -> None:
        super().__init__(claim.value)
        self.claim = claim


class _Rows:
    """The rows of one solve as SciPy asks for them; keeps the last point's Jacobian."""

    def __init__(self, search: Search) -> None:
        problem, free = search.problem, search.residual.free
        self.search = search
        self.origin = search.x.copy()
        self.posture: Array | None = None
        if problem.posture is not None:
            self.posture = problem.posture.weight * problem.posture_weights[free]
        self.rest = problem.q_rest[free]
        self._x = self.origin
        self._last: Linearization | None = None

    def start(self) -> None:
        """Evaluates the start itself, which SciPy may move off a bound before it looks."""
        self._visit(self.origin, step=True)
        if not len(self.origin):
            raise _Finished(Claim.NO_PROGRESS)

    def residual(self, z: Array) -> Array:
        x = self._joints(z)
        if self._last is None or not np.array_equal(x, self._x):
            # SciPy's own first evaluation is no step: it only moved the start off its bounds.
            first = self.search.evaluations == 1 and float(np.abs(x - self.origin).max()) < 1e-9
            if not first:
                limit = self.search.out_of_budget()
                if limit is not None:
                    raise _Finished(limit)
                self.search.iterations += 1
            self._visit(x, step=False)
        assert self._last is not None
        if self.posture is None:
            return -self._last.e
        return np.concatenate((-self._last.e, self.posture * (x - self.rest)))

    def jacobian(self, z: Array) -> Array:
        x = self._joints(z)
        if self._last is None or not np.array_equal(x, self._x):
            self._visit(x, step=False)
        assert self._last is not None
        self.search.stand(x)  # SciPy asks for a Jacobian only where it stands
        if self.posture is None:
            return self._last.J
        return np.concatenate((self._last.J, np.diag(self.posture)))

    def _joints(self, z: Array) -> Array:
        box = self.search.residual
        return np.clip(self.origin + (z - _OFFSET), box.lower, box.upper)

    def _visit(self, x: Array, *, step: bool) -> None:
        rows = 0.0 if self.posture is None else self.posture * (x - self.rest)
        cost = None if self.posture is None else 0.5 * float(np.sum(rows * rows))
        out = self.search.at(x, step=step, posture_cost=cost)
        self._x, self._last = x, out
        if self.posture is None and self.search.solved(out):
            self.search.stand(x)
            raise _Finished(Claim.CONVERGED)


@dataclass(frozen=True, kw_only=True)
class TRF(ScipyLeastSquares):
    """SciPy's trust-region reflective method; options as in `ScipyLeastSquares`."""

    name: ClassVar[str] = "trf"
    summary: ClassVar[str] = "bounded least squares, interior trust region (SciPy)"
    reference: ClassVar[str] = "Branch, Coleman and Li 1999"
    method: ClassVar[Literal["trf", "dogbox"]] = "trf"


@dataclass(frozen=True, kw_only=True)
class Dogbox(ScipyLeastSquares):
    """SciPy's dogleg method in a rectangular trust region; options as in `ScipyLeastSquares`."""

    name: ClassVar[str] = "dogbox"
    summary: ClassVar[str] = "bounded least squares, dogleg in a box (SciPy)"
    reference: ClassVar[str] = "Voglis and Lagaris 2004"
    method: ClassVar[Literal["trf", "dogbox"]] = "dogbox"
