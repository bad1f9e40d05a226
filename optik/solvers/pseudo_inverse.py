r"""The Moore-Penrose pseudo-inverse step, clamped.

The idea.  The shortest joint step that removes the linearised error entirely,

    d = J^+ e = sum_i (u_i^T e / sigma_i) v_i,

summed over the singular values above `cutoff` times the largest (Whitney 1969).  Near a singularity
1 / sigma_i explodes, and the step limit alone keeps the arm from jumping: this is damped least
squares without the damping, and shows what damping is for.

The loop, the clipping and the stopping rules are in `_clamped`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.pose import Array
from optik.solvers._clamped import Clamped, Here
from optik.solvers.base import check_positive


@dataclass(frozen=True, kw_only=True)
class PseudoInverse(Clamped):
    """Pseudo-inverse step, every joint clamped; further options as in `Clamped`.

    Attributes:
        cutoff: singular values below this share of the largest count as zero [1].
    """

    name: ClassVar[str] = "pseudo-inverse"
    summary: ClassVar[str] = "undamped pseudo-inverse step, every joint clamped"
    reference: ClassVar[str] = "Whitney 1969"

    cutoff: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, "cutoff", self.cutoff)

    def step(self, here: Here) -> Array:
        """See `Clamped.step`."""
        u, sigma, vt = np.linalg.svd(here.at.J, full_matrices=False)
        kept = sigma > self.cutoff * sigma[0]
        return vt[kept].T @ ((u[:, kept].T @ here.at.e) / sigma[kept])
