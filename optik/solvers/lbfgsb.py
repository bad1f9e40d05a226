r"""L-BFGS-B: limited-memory BFGS within the joint limits, by SciPy.

The idea.  A general bounded minimiser that sees only the cost and its gradient,

    f(x)      = 1/2 |e(x)|^2 + 1/2 w_post^2 |W (x - x_rest)|^2
    grad f(x) = -J^T e + w_post^2 W^2 (x - x_rest),

builds its curvature from the last few steps.  It follows the projected gradient to find which
bounds are active, minimises the quadratic model over the others, and searches along the line (Byrd,
Lu, Nocedal and Zhu 1995).  It is here to show what is lost when the sum-of-squares structure is not
used: Gauss-Newton has J^T J for nothing, L-BFGS-B has to learn it.

Stopping.  Solved within tolerance; the iteration or time limit (an iteration is one line search);
SciPy's own tests, reported as no progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from optik.pose import Array
from optik.solvers._nlls import BoundedNLLS
from optik.solvers._rows import Rows
from optik.solvers.base import check_positive


@dataclass(frozen=True, kw_only=True)
class LBFGSB(BoundedNLLS):
    """Limited-memory BFGS within the limits; options as in `BoundedNLLS`.

    Attributes:
        memory: how many past steps the curvature is built from [1].
    """

    name: ClassVar[str] = "l-bfgs-b"
    summary: ClassVar[str] = "bounded quasi-Newton on cost and gradient alone (SciPy)"
    reference: ClassVar[str] = "Byrd, Lu, Nocedal and Zhu 1995"
    descends: ClassVar[bool] = True
    trial_is_step: ClassVar[bool] = False

    memory: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, "memory", self.memory)

    def load(self) -> None:
        """See `BoundedNLLS.load`."""
        import scipy.optimize  # noqa: F401  (half a second)

    def minimise(self, rows: Rows) -> str:
        """See `BoundedNLLS.minimise`."""
        from scipy import optimize

        # Any: scipy-stubs has no overload for jac=True with a bound callback.
        minimize: Any = optimize.minimize
        box = rows.search.residual

        def step(intermediate_result: Any) -> None:
            rows.step(inside(intermediate_result.x))

        def inside(x: Array) -> Array:
            return np.clip(x, box.lower, box.upper)

        out = minimize(
            lambda x: rows.cost(inside(x)),
            rows.origin,
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(box.lower, box.upper),
            callback=step,
            options={
                "maxcor": self.memory,
                "ftol": self.tolerance * np.finfo(np.float64).eps,
                "gtol": self.tolerance,
                "maxiter": 10**9,  # the search counts
                "maxfun": 10**9,
            },
        )
        return str(out.message)
