r"""Selectively damped least squares, clamped.

The idea.  One damping for all singular directions is a compromise.  Buss and Kim (2005) damp each
direction by itself, by asking how far the joints may turn before the frame has moved further than
that direction's share of the error.  With J = U S V^T and alpha_i = u_i^T e,

    N_i     = sum_k |u_i restricted to block k|             how far the frames are asked to move
    M_i     = 1/sigma_i sum_j |v_ji| sum_k |J_kj|           how far they could move meanwhile
    gamma_i = min(1, N_i / M_i) gamma_max
    phi_i   = ClampMaxAbs(alpha_i / sigma_i v_i, gamma_i)
    d       = ClampMaxAbs(sum_i phi_i, gamma_max),

where a block k is the three position rows, or the rotation rows, of one target and J_kj is joint
j's column of that block.  ClampMaxAbs scales a vector until no entry exceeds the bound.  Directions
with little authority over the frame get small steps, the others full Gauss-Newton ones; no
parameter has to be tuned to the arm.

The loop, the clipping and the stopping rules are in `_clamped`; the method holds its own steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.pose import Array
from optik.problem import Shape
from optik.residual import ResidualKind
from optik.solvers._clamped import Clamped, Here, Hold
from optik.solvers.base import check_positive


@dataclass(frozen=True, kw_only=True)
class SDLS(Clamped):
    """Selectively damped least squares, every joint clamped; further options as in `Clamped`.

    Attributes:
        gamma_max: largest motion of a joint in one step [rad or m].
    """

    name: ClassVar[str] = "sdls"
    summary: ClassVar[str] = "selectively damped least squares, every joint clamped"
    reference: ClassVar[str] = "Buss and Kim 2005"

    gamma_max: float = np.pi / 4
    hold: Hold = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, "gamma_max", self.gamma_max)

    def step(self, here: Here) -> Array:
        """See `Clamped.step`."""
        J = here.at.J
        blocks = row_blocks(here.shape, self.residual)
        u, sigma, vt = np.linalg.svd(J, full_matrices=False)
        reach = sum(np.linalg.norm(J[b], axis=0) for b in blocks)  # (nf,)
        d = np.zeros(J.shape[1])
        for i in range(len(sigma)):
            if sigma[i] <= 1e-12 * sigma[0]:
                break
            asked = sum(float(np.linalg.norm(u[b, i])) for b in blocks)
            could = float(np.abs(vt[i]) @ reach) / sigma[i]
            gamma = self.gamma_max * (min(1.0, asked / could) if could > 0 else 1.0)
            d += clamp_max_abs((u[:, i] @ here.at.e) / sigma[i] * vt[i], gamma)
        return clamp_max_abs(d, self.gamma_max)


def clamp_max_abs(v: Array, bound: float) -> Array:
    """Scales `v` until no entry exceeds `bound` in absolute value."""
    largest = float(np.abs(v).max(initial=0.0))
    return v if largest <= bound else v * (bound / largest)


def row_blocks(shape: Shape, kind: ResidualKind) -> list[slice]:
    """The rows of each target's position and rotation in the residual, as slices."""
    sizes = []
    for target in shape.targets:
        sizes.append(sum(target.mask[:3]))
        if target.kind == "axis":
            sizes.append(3)
        elif target.kind == "pose":
            chordal = kind == "chordal" and all(target.mask)
            sizes.append(9 if chordal else sum(target.mask[3:]))
    ends = np.cumsum(sizes)
    return [slice(int(b - n), int(b)) for b, n in zip(ends, sizes, strict=True) if n]
