r"""Damped least squares whose damping wakes up near singularities, clamped.

The idea.  Far from a singularity damping only slows the method down, so let it depend on how near
one is:

    law="manipulability"   lambda = damping_max (1 - w / w_0)          where w < w_0, else 0
                           w = sqrt(det(J J^T))
    law="singular-value"   lambda^2 = damping_max^2 (1 - (s / s_0)^2)  where s < s_0, else 0
                           s = the smallest singular value of J

(Nakamura and Hanafusa 1986, with Yoshikawa's measure of 1985; Maciejewski and Klein 1988,
Chiaverini, Siciliano and Egeland 1994).  `damping` is kept as a floor.  Both measures have the
units of the weighted Jacobian, so the threshold belongs to an arm and a rotation weight; the
defaults are for arms of about a metre.

It adapts to singularities, not to limits: it stalls where clamped DLS stalls.

The loop, the clipping and the stopping rules are in `_clamped`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from optik.pose import Array
from optik.solvers._clamped import Clamped, Here, damped_step
from optik.solvers.base import check_choice, check_positive

# Where each law starts to damp, if nothing is said.
_THRESHOLDS = {"manipulability": 0.02, "singular-value": 0.1}


@dataclass(frozen=True, kw_only=True)
class ClampedAdaptive(Clamped):
    """Singularity-adaptive damping, every joint clamped; further options as in `Clamped`.

    Attributes:
        law: what the damping follows: "singular-value" or "manipulability".
        threshold: s_0 or w_0, below which damping sets in [units of the weighted Jacobian, or of
            its determinant]; 0.1 or 0.02 if None.
        damping: floor of lambda [m/rad].
        damping_max: lambda at a singularity [m/rad].
    """

    name: ClassVar[str] = "clamped-adaptive"
    summary: ClassVar[str] = "damping that grows near singularities, every joint clamped"
    reference: ClassVar[str] = "Nakamura and Hanafusa 1986; Chiaverini, Siciliano and Egeland 1994"

    law: Literal["singular-value", "manipulability"] = "singular-value"
    threshold: float | None = None
    damping: float = 1e-3
    damping_max: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.name, "law", self.law, tuple(_THRESHOLDS))
        check_positive(self.name, "threshold", self.threshold)
        check_positive(self.name, "damping", self.damping)
        check_positive(self.name, "damping_max", self.damping_max)

    def step(self, here: Here) -> Array:
        """See `Clamped.step`."""
        J = here.at.J
        sigma = np.linalg.svd(J, compute_uv=False)
        start = _THRESHOLDS[self.law] if self.threshold is None else self.threshold
        if self.law == "manipulability":
            near = max(0.0, 1.0 - float(np.prod(sigma)) / start)
            grown = self.damping_max * near
        else:
            near = max(0.0, 1.0 - (float(sigma[-1]) / start) ** 2)
            grown = self.damping_max * float(np.sqrt(near))
        return damped_step(J, here.at.e, max(self.damping, grown))
