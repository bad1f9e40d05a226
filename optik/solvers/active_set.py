r"""Active-set damped least squares: joints that would leave their ranges are frozen.

The idea.  Clamping drops the part of the step that leaves the box.  Here the joints that leave are
moved to their limits and taken out, the others are asked again for what is still missing,

    d_F = argmin |J_F d_F - (e - J_C d_C)|^2 + lambda^2 |d_F|^2,    d_C = limit - x_C,

until no free joint leaves (Baerlocher and Boulic 2004; the same thought, on velocities, is in
Flacco, De Luca and Khatib 2012).  A joint once frozen stays frozen for this step: it is not asked
whether it would rather move back.  The step is therefore feasible but not always the best one in
the box, which is what the box QP adds.  The set is empty again at the next step.

Which joints are frozen in one round is `freeze`: "all" that leave, or the "worst" alone, which is
slower and frees joints that left only because of another.

Holding the step.  The step is held before the limits are asked, so that a joint leaves by what it
would really move.  `hold="trust"` makes the trust box part of the limits instead.

The loop and the stopping rules are in `_clamped`.  Without a posture nothing is left for its clip
to cut; the posture's part is added through the null space of the whole J, and clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from optik.pose import Array
from optik.solvers._clamped import Clamped, Here, damped_step
from optik.solvers.base import check_choice, check_positive


@dataclass(frozen=True, kw_only=True)
class ActiveSetDLS(Clamped):
    """Damped step whose leaving joints are frozen; further options as in `Clamped`.

    Attributes:
        damping: lambda [m/rad, in the units of the weighted Jacobian].
        error_damping: what lambda^2 grows by per unit of cost [1/rad^2].
        freeze: which leaving joints are frozen in one round: "all" or the "worst".
    """

    name: ClassVar[str] = "active-set-dls"
    summary: ClassVar[str] = "damped least squares, leaving joints frozen and the step re-solved"
    reference: ClassVar[str] = "Baerlocher and Boulic 2004"

    damping: float = 0.01
    error_damping: float = 0.0
    freeze: Literal["all", "worst"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, "damping", self.damping)
        check_positive(self.name, "error_damping", self.error_damping, zero=True)
        check_choice(self.name, "freeze", self.freeze, ("all", "worst"))

    def step(self, here: Here) -> Array:
        """See `Clamped.step`."""
        J, e, low, high = here.at.J, here.at.e, here.low, here.high
        damping = float(np.sqrt(self.damping**2 + self.error_damping * here.at.cost))
        if self.hold == "trust":
            low, high = np.maximum(low, -self.step_limit), np.minimum(high, self.step_limit)
        free = np.ones(len(low), dtype=bool)
        d = np.zeros(len(low))
        while free.any():
            d[free] = damped_step(J[:, free], e - J[:, ~free] @ d[~free], damping)
            if self.hold == "scale":
                d[free] = _held(d[free], d[~free], self.step_limit)
            excess = np.where(free, np.maximum(low - d, d - high), 0.0)
            if excess.max() <= 0.0:
                break
            leaving = excess > 0.0
            if self.freeze == "worst":
                leaving = np.arange(len(d)) == int(excess.argmax())
            d[leaving] = np.clip(d[leaving], low[leaving], high[leaving])
            free &= ~leaving
        return d


def _held(moving: Array, frozen: Array, limit: float) -> Array:
    """Scales `moving` so that the whole step, with the `frozen` part, keeps norm `limit`."""
    room = np.sqrt(max(0.0, limit**2 - float(frozen @ frozen)))
    norm = float(np.linalg.norm(moving))
    return moving if norm <= room else moving * (room / norm)
