r"""Damped least squares with every joint clamped to its range after the step.

The idea.  Linearise the pose error and take the damped least-squares step

    d = argmin |J d - e|^2 + lambda^2 |d|^2 = J^T (J J^T + lambda^2 I)^-1 e,

whose gain sigma / (sigma^2 + lambda^2) stays below 1 / (2 lambda) at a singularity (Wampler 1986;
Nakamura and Hanafusa 1986).  The whole step is scaled to norm `step_limit`, added, and each joint
is clipped to its range.  This is what most people write, and the baseline of every study here.

Why it stalls.  Clipping drops the part of the step that would leave the box without asking the
other joints to make up for it.  The map q -> clip(q + d(q)) therefore has fixed points that are
not stationary points of the bounded problem.

Damping.  lambda^2 = damping^2 + error_damping * 1/2 |e|^2: with `error_damping` the step is
careful far away and Gauss-Newton near the target (Chan and Lawrence 1988; Sugihara 2011).

The posture.  `projector="exact"` is N = I - V_r V_r^T from the singular vectors, J N = 0.
`projector="damped"` reuses the damped inverse, N = I - J^T (J J^T + lambda^2 I)^-1 J, which leaks
into the task: J N = lambda^2 (J J^T + lambda^2 I)^-1 J.  It is kept because it is widely used.

The loop, the clipping and the stopping rules are in `_clamped`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from optik.pose import Array
from optik.solvers._clamped import Clamped, Here, damped_step, exact_projector
from optik.solvers.base import check_choice, check_positive


@dataclass(frozen=True, kw_only=True)
class ClampedDLS(Clamped):
    """Damped least-squares step, scaled to a norm, every joint clamped after the step.

    Attributes:
        damping: lambda [m/rad, in the units of the weighted Jacobian].
        error_damping: what lambda^2 grows by per unit of cost [1/rad^2].
        projector: "exact" or "damped" null-space projector for the posture.
    """

    name: ClassVar[str] = "clamped-dls"
    summary: ClassVar[str] = "damped least squares, every joint clamped after the step"
    reference: ClassVar[str] = "Wampler 1986; Nakamura and Hanafusa 1986"

    damping: float = 0.01
    error_damping: float = 0.0
    projector: Literal["exact", "damped"] = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, "damping", self.damping)
        check_positive(self.name, "error_damping", self.error_damping, zero=True)
        check_choice(self.name, "projector", self.projector, ("exact", "damped"))

    def step(self, here: Here) -> Array:
        """See `Clamped.step`."""
        return damped_step(here.at.J, here.at.e, self._damping(here))

    def null_space(self, here: Here) -> Array:
        """See `Clamped.null_space`."""
        J = here.at.J
        if self.projector == "exact":
            return exact_projector(J)
        damped = J @ J.T + self._damping(here) ** 2 * np.eye(len(J))
        return np.eye(J.shape[1]) - J.T @ np.linalg.solve(damped, J)

    def _damping(self, here: Here) -> float:
        if self.error_damping == 0.0:
            return self.damping
        return float(np.sqrt(self.damping**2 + self.error_damping * here.at.cost))
