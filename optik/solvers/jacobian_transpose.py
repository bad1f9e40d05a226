r"""The Jacobian transpose, clamped: steepest descent with the best step length of the linear model.

The idea.  Pull at the frame with the force e and let the joints follow the torques (Balestrino, De
Maria and Sciavicco 1984; Wolovich and Elliott 1984):

    d = alpha J^T e,    alpha = e^T J J^T e / |J J^T e|^2,

where alpha minimises |e - J d| along that direction (Buss 2004).  No matrix is inverted, nothing
explodes at a singularity, and convergence is linear with the square of J's condition number: on
six-dimensional targets it usually runs out of iterations.

The loop, the clipping and the stopping rules are in `_clamped`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optik.pose import Array
from optik.solvers._clamped import Clamped, Here


@dataclass(frozen=True, kw_only=True)
class JacobianTranspose(Clamped):
    """Jacobian-transpose step with optimal length, every joint clamped; options as in `Clamped`."""

    name: ClassVar[str] = "jacobian-transpose"
    summary: ClassVar[str] = "steepest descent with the linear model's best step length, clamped"
    reference: ClassVar[str] = "Wolovich and Elliott 1984; Buss 2004"

    def step(self, here: Here) -> Array:
        """See `Clamped.step`."""
        torque = here.at.J.T @ here.at.e
        motion = here.at.J @ torque
        square = float(motion @ motion)
        if square == 0.0:
            return torque  # zero, or too small for its square to be a number
        return torque * (float(here.at.e @ motion) / square)
