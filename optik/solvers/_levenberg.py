"""The accept-or-reject loop that both Levenberg-Marquardt methods run.

They differ in one thing only, the trial point: `clamped-lm` clips an unbounded step to the box,
`projected-lm` solves for the step inside the box.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.pose import Array
from optik.solvers._nlls import BoundedNLLS
from optik.solvers._rows import Rows
from optik.solvers.base import check_positive

_SMALLEST_MU = 1e-14


@dataclass(frozen=True, kw_only=True)
class LevenbergMarquardt(BoundedNLLS):
    """Gain-ratio Levenberg-Marquardt; further options as in `BoundedNLLS`.

    Attributes:
        damping: mu at the start, as a share of the largest diagonal entry of J^T J [1].
    """

    descends: ClassVar[bool] = True

    damping: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, "damping", self.damping)

    @abstractmethod
    def trial(self, H: Array, g: Array, low: Array, high: Array) -> Array:
        """The step to try, shape (nf,), with low <= step <= high.

        Args:
            H: J^T J + mu I, shape (nf, nf).
            g: gradient of the cost, J^T r, shape (nf,).
            low: lower limits minus x, shape (nf,).
            high: upper limits minus x, shape (nf,).
        """

    def minimise(self, rows: Rows) -> str:
        """See `BoundedNLLS.minimise`."""
        box, x = rows.search.residual, rows.origin
        r, J = rows.residual(x), rows.jacobian(x)
        mu = self.damping * max(float((J * J).sum(axis=0).max()), 1e-12)
        growth = 2.0
        while True:
            g = J.T @ r
            p = self.trial(J.T @ J + mu * np.eye(len(x)), g, box.lower - x, box.upper - x)
            new = np.clip(x + p, box.lower, box.upper)
            p = new - x
            if float(np.abs(p).max()) < self.tolerance:
                return "the step is too short to change anything"
            motion = J @ p
            predicted = -float(g @ p) - 0.5 * float(motion @ motion)
            new_r = rows.residual(new)
            reduction = 0.5 * (float(r @ r) - float(new_r @ new_r))
            if predicted > 0.0 and reduction > 0.0:
                ratio = reduction / predicted
                mu = max(_SMALLEST_MU, mu * max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3))
                growth = 2.0
                x, r, J = new, new_r, rows.jacobian(new)
                rows.search.stand(x)
            else:
                mu *= growth
                growth *= 2.0
