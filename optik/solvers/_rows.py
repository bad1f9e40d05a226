"""The rows of a bounded least-squares problem, as a general-purpose optimiser asks for them.

Posture, budget, bookkeeping and early exit are the same for every such optimiser, so they live
here: the optimiser's callback raises `Finished` as soon as the target is reached, the budget is
used up or a number is not finite, and nothing that the optimiser says of itself is believed.
"""

from __future__ import annotations

import numpy as np

from optik.pose import Array
from optik.residual import Linearization
from optik.result import Claim
from optik.solvers.base import Search


class Finished(Exception):  # noqa: N818  (not an error: how a callback leaves an optimiser)
    """Raised inside a callback when there is nothing left to do.

    Attributes:
        claim: how the solve ended.
    """

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim.value)
        self.claim = claim


class Rows:
    """Residual rows r(x) = [-e(x); w_post W (x - x_rest)] and their Jacobian, for one solve.

    Without a posture the first configuration within tolerance raises `Finished`.  With one, the
    optimiser goes on; the search keeps the configuration within tolerance that is closest to it.
    """

    def __init__(self, search: Search, *, trial_is_step: bool) -> None:
        """Starts the bookkeeping.

        Args:
            search: the solve.
            trial_is_step: whether every configuration evaluated after the start counts as an
                iteration; otherwise the caller counts (`step`).
        """
        problem, free = search.problem, search.residual.free
        self.search = search
        self.origin = search.x.copy()
        self.weights: Array | None = None
        if problem.posture is not None:
            self.weights = problem.posture.weight * problem.posture_weights[free]
        self.rest = problem.q_rest[free]
        self._trial_is_step = trial_is_step
        self._x = self.origin
        self._last: Linearization | None = None

    def start(self) -> None:
        """Evaluates the start itself, which an optimiser may move before it looks."""
        self._visit(self.origin)
        self.search.stand(self.origin)
        if not len(self.origin):
            raise Finished(Claim.NO_PROGRESS)

    def at(self, x: Array) -> Linearization:
        """Residual and Jacobian at `x`, shape (nf,), inside the limits; the last one is kept."""
        if self._last is None or not np.array_equal(x, self._x):
            # An optimiser that nudges the start off its bounds has taken no step yet.
            nudged = self.search.evaluations == 1 and float(np.abs(x - self.origin).max()) < 1e-9
            if not nudged:
                self._check_budget()
                if self._trial_is_step:
                    self.search.iterations += 1
            self._visit(x)
        assert self._last is not None
        return self._last

    def step(self, x: Array) -> None:
        """Counts an iteration that ended at `x`, shape (nf,)."""
        self.search.iterations += 1
        self.search.stand(x)
        self._check_budget()

    def residual(self, x: Array) -> Array:
        """r(x), shape (m,) or (m + nf,)."""
        e = self.at(x).e
        if self.weights is None:
            return -e
        return np.concatenate((-e, self.weights * (x - self.rest)))

    def jacobian(self, x: Array) -> Array:
        """dr/dx, shape (m, nf) or (m + nf, nf)."""
        J = self.at(x).J
        return J if self.weights is None else np.concatenate((J, np.diag(self.weights)))

    def cost(self, x: Array) -> tuple[float, Array]:
        """1/2 |r(x)|^2 and its gradient, shape (nf,)."""
        r = self.residual(x)
        return 0.5 * float(r @ r), self.jacobian(x).T @ r

    def _check_budget(self) -> None:
        limit = self.search.out_of_budget()
        if limit is not None:
            raise Finished(limit)

    def _visit(self, x: Array) -> None:
        posture_cost = None
        if self.weights is not None:
            offset = self.weights * (x - self.rest)
            posture_cost = 0.5 * float(offset @ offset)
        out = self.search.at(x, step=False, posture_cost=posture_cost)
        self._x, self._last = x.copy(), out
        if not out.cost < np.inf:
            # Kinematics are finite wherever x is; some optimisers never end on a NaN.
            raise Finished(Claim.NUMERICAL_FAILURE)
        if self.weights is None and self.search.solved(out):
            self.search.stand(x)
            raise Finished(Claim.CONVERGED)
