r"""The box-constrained quadratic program of one step, solved exactly.

    minimise over d    1/2 d^T H d - g^T d    subject to  lo <= d <= hi,    H positive definite

The Newton step of all variables, where it stays inside the box, is the answer: so it is for most
steps of a solve.  Clipped, it is the first guess of what is held, and a primal active-set method
goes on from there (Nocedal and Wright 2006, section 16.5): to the minimum over the free variables,
or to the first bound on the way, which is held from then on; at a minimum the held variable that
its gradient r = H d - g pushes hardest into the box is let go.  The bounds of a box are always
linearly independent, so that this cannot cycle.  It ends after finitely many changes of one bound,
some tens for 30 variables, however close to singular H is; a solve's programs need one or two.

The two-metric projection (Bertsekas 1982) is here for comparison: one step with what is held chosen
beforehand, which is not the minimum.

The program stands in `w` from place `o` on, as optik.compiled.layout lays it out: g, the bounds and
the step as vectors, then the lower triangle of H row by row, then room for its factors.

Stopping: every free |r_i|, and every |r_i| of the wrong sign on a bound, below 1e-11 (1 + |g|).
"""

from __future__ import annotations

import numpy as np

from optik.compiled.layout import W_D, W_FREE, W_G, W_HI, W_LO, W_R, W_VECTORS
from optik.pose import Array

QP_TOLERANCE = 1e-11
QP_CHANGES = 20  # of the active set, for each variable; only rounding could reach it


def box_qp(w: Array, o: int, n: int) -> int:
    """Solves the box QP.

    Args:
        w: holds the program from place `o` on; the step is written there.
        o: place of the program.
        n: number of variables; no lower bound lies above its upper one.

    Returns:
        Factorisations used.
    """
    if free_step(w, o, n):
        return 1
    return 1 + active_set(w, o, n)


def free_step(w: Array, o: int, n: int) -> bool:
    """The Newton step of all variables, clipped to the box; returns whether no bound was met."""
    n = fixed_size(n)
    for i in range(n):
        w[o + W_FREE * n + i] = 1.0
        w[o + W_R * n + i] = w[o + W_G * n + i]
    masked_newton(w, o, n)
    inside = True
    for i in range(n):
        x = w[o + W_R * n + i]
        y = min(max(x, w[o + W_LO * n + i]), w[o + W_HI * n + i])
        w[o + W_D * n + i] = y
        inside = inside and x == y
    return inside


def gradient(w: Array, o: int, n: int) -> None:
    """Writes the gradient H d - g after the Newton step (W_R).  A straight module has its own."""
    g, d, H = o + W_G * n, o + W_D * n, o + W_VECTORS * n
    for i in range(n):
        s = -w[g + i]
        for j in range(i + 1):
            s += w[H + i * n + j] * w[d + j]
        for j in range(i + 1, n):
            s += w[H + j * n + i] * w[d + j]
        w[o + (W_R + 1) * n + i] = s


def masked_newton(w: Array, o: int, n: int) -> None:
    """Solves H_FF r_F = r_F in place for the free variables; r is 0 elsewhere, before and after.

    L D L^T with the rows and columns of held variables left out; D is on the diagonal of L.  A
    straight module has its own, which keeps its factors to itself.
    """
    r, free, H = o + W_R * n, o + W_FREE * n, o + W_VECTORS * n
    L = H + n * n
    for a in range(n):
        if w[free + a] == 0.0:
            continue
        for b in range(a + 1):
            if w[free + b] == 0.0:
                w[L + a * n + b] = 0.0
                continue
            s = w[H + a * n + b]
            for k in range(b):
                if w[free + k] != 0.0:
                    s -= w[L + a * n + k] * w[L + b * n + k] * w[L + k * n + k]
            w[L + a * n + b] = s / w[L + b * n + b] if b < a else s
    for a in range(n):
        if w[free + a] != 0.0:
            s = w[r + a]
            for b in range(a):
                s -= w[L + a * n + b] * w[r + b]
            w[r + a] = s
    for a in range(n - 1, -1, -1):
        if w[free + a] != 0.0:
            s = w[r + a] / w[L + a * n + a]
            for b in range(a + 1, n):
                if w[free + b] != 0.0:
                    s -= w[L + b * n + a] * w[r + b]
            w[r + a] = s


def active_set(w: Array, o: int, n: int) -> int:
    """Goes on from a point d in the box until it is optimal; returns the factorisations used.

    What lies on a bound at the beginning is held.  W_R takes -r_F, then the way to the minimum over
    the free variables, of which the share t ends at the first bound.
    """
    n = fixed_size(n)
    g, lo, hi, d = o + W_G * n, o + W_LO * n, o + W_HI * n, o + W_D * n
    r, free = o + W_R * n, o + W_FREE * n
    scale = 1.0
    for i in range(n):
        scale = max(scale, 1.0 + abs(w[g + i]))
        w[free + i] = 1.0 if w[lo + i] < w[d + i] < w[hi + i] else 0.0
    tolerance = QP_TOLERANCE * scale
    before = np.inf  # what the free gradients were when the last whole step began
    for count in range(QP_CHANGES * n):
        gradient(w, o, n)
        worst = 0.0
        for i in range(n):
            worst = max(worst, abs(w[r + n + i]) * w[free + i])
        # A step repeated is a refinement; one that no longer halves the gradient is at rounding.
        if worst <= tolerance or worst > 0.5 * before:
            let_go, most = -1, tolerance
            for i in range(n):
                # Variables with lo = hi are never let go.
                inward = -w[r + n + i] if w[d + i] <= w[lo + i] else w[r + n + i]
                if w[free + i] == 0.0 and w[lo + i] < w[hi + i] and inward > most:
                    let_go, most = i, inward
            if let_go < 0:
                return count
            w[free + let_go] = 1.0
            worst = np.inf  # a new set begins: its first step is no repetition
        before = worst
        for i in range(n):
            w[r + i] = -w[r + n + i] * w[free + i]
        masked_newton(w, o, n)
        t, met = 1.0, -1
        for i in range(n):
            x = w[d + i] + w[r + i]
            if w[free + i] != 0.0 and not w[lo + i] <= x <= w[hi + i]:
                bound = w[lo + i] if w[r + i] < 0.0 else w[hi + i]
                s = (bound - w[d + i]) / w[r + i]
                if met < 0 or s < t:
                    t, met = s, i
        # To the bound itself, not to where rounding puts it.
        for i in range(n):
            w[d + i] = min(max(w[d + i] + t * w[r + i], w[lo + i]), w[hi + i])
        if met >= 0:
            w[d + met] = w[lo + met] if w[r + met] < 0.0 else w[hi + met]
            w[free + met] = 0.0
            before = np.inf
    return QP_CHANGES * n


def projected_step(w: Array, o: int, n: int) -> None:
    """Two-metric projection (Bertsekas 1982): a Newton step on the joints not held, clipped.

    Joints on a bound (lo = 0 or hi = 0) that the gradient pushes against it are held.
    """
    g, lo, hi, d = o + W_G * n, o + W_LO * n, o + W_HI * n, o + W_D * n
    r, free = o + W_R * n, o + W_FREE * n
    for i in range(n):
        held = (w[lo + i] >= 0.0 and w[g + i] <= 0.0) or (w[hi + i] <= 0.0 and w[g + i] >= 0.0)
        w[free + i] = 0.0 if held else 1.0
        w[r + i] = 0.0 if held else w[g + i]
    masked_newton(w, o, n)
    for i in range(n):
        w[d + i] = min(max(w[r + i], w[lo + i]), w[hi + i])


def fixed_size(n: int) -> int:
    """The number of variables; a constant in a folded module."""
    return n
