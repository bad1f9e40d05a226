r"""Damped least squares with a backtracking line search on the clamped point.

The idea.  The full clamped step may raise the error; a shorter one need not.  With d the held
damped step, the trial points t(s) = clip(x + s d), s = 1, 1/2, 1/4, ... are tried until one
satisfies Armijo's rule on the cost 1/2 |e|^2,

    cost(t) <= cost(x) + c g^T (t - x),    g = -J^T e,

for the clipped displacement (Armijo 1966; Bertsekas 1976).

What it cures and what it does not.  Cycles and overshoot are gone: the cost never rises.  The stall
is not: d is a descent direction, its clipped version need not be, and then no s helps.  The search
gives up there, after `shrinks` halvings, and says so; `steepest=true` lets it fall back on the
clipped gradient, a descent direction wherever the bounded problem is not stationary.

The loop's options are in `_clamped`; a backtracked trial counts as a forward evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.errors import SolverError
from optik.pose import Array
from optik.residual import Linearization
from optik.result import Claim, Result
from optik.solvers._clamped import Clamped, Here, damped_step
from optik.solvers.base import Search, check_positive


@dataclass(frozen=True, kw_only=True)
class ClampedLineSearch(Clamped):
    """Damped step, clamped, shortened until the error falls; further options as in `Clamped`.

    Attributes:
        damping: lambda [m/rad, in the units of the weighted Jacobian].
        armijo: c, the share of the promised fall that is asked for [1].
        shrinks: how often a step is halved before it is given up [1].
        steepest: whether the clipped gradient is tried when the damped step fails.
    """

    name: ClassVar[str] = "clamped-line-search"
    summary: ClassVar[str] = "damped least squares, clamped, backtracking until the error falls"
    reference: ClassVar[str] = "Armijo 1966; Bertsekas 1976"
    descends: ClassVar[bool] = True

    damping: float = 0.01
    armijo: float = 1e-4
    shrinks: int = 30
    steepest: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, "damping", self.damping)
        check_positive(self.name, "shrinks", self.shrinks)
        if not 0.0 < self.armijo < 1.0:
            raise SolverError(f"{self.name}: armijo must be in (0, 1), got {self.armijo!r}")
        if self.clamp != "each-step":
            raise SolverError(f"{self.name}: clamp must be each-step: the search needs the clip")

    def step(self, here: Here) -> Array:
        """See `Clamped.step`."""
        return damped_step(here.at.J, here.at.e, self.damping)

    def run(self, search: Search) -> Result:
        """Solves one problem."""
        box, x = search.residual, search.x
        at = search.at(x)
        while True:
            if search.solved(at):
                return search.result(Claim.CONVERGED)
            limit = search.out_of_budget()
            if limit is not None:
                return search.result(limit)
            here = Here(at, box.lower - x, box.upper - x, box.shape)
            search.iterations += 1
            found = self._backtrack(search, at, x, self.held_step(search, here, x))
            if found is None and self.steepest and len(x):
                g = at.J.T @ at.e
                motion = at.J @ g
                length = float(g @ g) / max(float(motion @ motion), 1e-300)
                found = self._backtrack(search, at, x, length * g)
            if found is None and search.deadline.expired():
                return search.result(Claim.TIME_LIMIT)
            if found is None:
                message = "No shorter step lowers the error once it is clipped to the limits."
                return search.result(Claim.NO_PROGRESS, message)
            x, at = found
            search.stand(x)

    def _backtrack(
        self, search: Search, at: Linearization, x: Array, d: Array
    ) -> tuple[Array, Linearization] | None:
        box, slope = search.residual, -at.J.T @ at.e
        for shrink in range(self.shrinks):
            t = np.clip(x + 0.5**shrink * d, box.lower, box.upper)
            promised = float(slope @ (t - x))
            if float(np.abs(t - x).max(initial=0.0)) < 1e-14 or search.deadline.expired():
                return None
            if promised >= 0.0:
                continue  # the clipped step climbs at first order; no need to look
            out = search.at(t, step=False)
            if search.solved(out) or out.cost <= at.cost + self.armijo * promised:
                return t, out
        return None
