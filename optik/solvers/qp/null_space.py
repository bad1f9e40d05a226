r"""The posture step for backends that know bounds alone: a primal active-set method of our own.

    minimise |W (d - d_w)|^2    subject to    E d = E d_0,   lower <= d <= upper

with E's rows orthonormal and d_0 feasible.  From d_0, with the bounds that are held so far as
equalities, the best direction lies in the null space of E's free columns:

    p_F = N z,     z = argmin |W_F (N z - (d_w - d)_F)|.

The step goes along p until a bound blocks it, which is then held.  Where p = 0, the gradient
r = W^2 (d - d_w) + E^T nu, with nu such that r_F = 0, says which held bound pushes the wrong way;
it is let go, and where there is none d is the answer (Nocedal and Wright 2006, algorithm 16.3).
Every iterate is feasible, and a blocking bound is always independent of those held, so that for a
seven-joint arm and a full pose at most one bound is held at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optik.pose import Array

# A joint with posture weight 0 makes the cost flat; this much pull keeps its answer unique.
LEAST_WEIGHT = 1e-6


def keep_task(
    E: Array, d0: Array, weights: Array, wanted: Array, lower: Array, upper: Array
) -> Array:
    """Returns the step nearest to the wanted one that keeps E d = E d0 inside the box.

    Args:
        E: orthonormal rows, shape (r, n), r < n.
        d0: a step inside the box, shape (n,).
        weights: W, shape (n,), zero or more.
        wanted: d_w, shape (n,).
        lower: shape (n,).
        upper: shape (n,).
    """
    n = len(d0)
    W = np.maximum(weights, LEAST_WEIGHT)
    d = d0.copy()
    held = np.zeros(n, dtype=bool)
    for _ in range(10 * n):
        free = np.flatnonzero(~held)
        N = _null_space(E[:, free])
        p = np.zeros(n)
        if N.shape[1]:
            target = W[free] * (wanted - d)[free]
            p[free] = N @ np.linalg.lstsq(W[free, None] * N, target, rcond=None)[0]
        if float(np.abs(p).max()) <= 1e-12:
            released = _wrong_side(E, W, d, wanted, held, upper)
            if released is None:
                break
            held[released] = False
            continue
        room = np.full(n, np.inf)
        up, down = p > 1e-15, p < -1e-15
        room[up] = (upper - d)[up] / p[up]
        room[down] = (lower - d)[down] / p[down]
        blocking = int(np.argmin(room))
        length = float(room[blocking])
        if length >= 1.0:
            d = d + p
            continue
        d = d + max(length, 0.0) * p
        d[blocking] = upper[blocking] if p[blocking] > 0.0 else lower[blocking]
        held[blocking] = True
    return d


def _null_space(E: Array) -> Array:
    """Orthonormal columns N with E N = 0, for E of shape (r, f)."""
    _, singular, vt = np.linalg.svd(E)
    return vt[int((singular > 1e-9).sum()) :].T


def _wrong_side(
    E: Array, W: Array, d: Array, wanted: Array, held: NDArray[np.bool_], upper: Array
) -> int | None:
    """The held bound whose multiplier is worst; None where all push inward."""
    gradient = W**2 * (d - wanted)
    nu = np.linalg.lstsq(E[:, ~held].T, -gradient[~held], rcond=None)[0]
    r = gradient + E.T @ nu
    push = np.where(held, np.where(d >= upper, r, -r), 0.0)
    worst = int(np.argmax(push))
    return worst if push[worst] > 1e-10 else None
