r"""The box-constrained quadratic program of one step, solved exactly.

    minimise over d    1/2 d^T H d - g^T d    subject to  lo <= d <= hi,    H positive definite

Projected Newton (Bertsekas 1982).  With gradient r = H d - g, the variables that sit on a bound and
are pushed against it by r are held; the others take the Newton step of the reduced problem, and the
whole is projected onto the box.  A step that the projection cut short must lower the objective
enough (Armijo, along the projection arc), else it is halved.  Once the right bounds are held, one
step is exact: most programs of a solve end after one to three factorisations.

Safeguard: should the arc fail, or 50 iterations not do, coordinate minimisation takes over, which
cannot cycle and converges linearly for every positive definite H (Luo and Tseng 1992).

Stopping: every free |r_i|, and every |r_i| of the wrong sign on a bound, below 1e-11 (1 + |g|).
"""

from __future__ import annotations

from optik.pose import Array

QP_TOLERANCE = 1e-11
QP_STEPS = 50
QP_SWEEPS = 20000


def box_qp(
    H: Array, g: Array, lo: Array, hi: Array, d: Array, r: Array, L: Array, free: Array, n: int
) -> int:
    """Solves the box QP.

    Args:
        H: lower triangle is read, shape (n n,), row by row.
        g: shape (n,).
        lo: lower bounds, shape (n,), not above `hi`.
        hi: upper bounds, shape (n,).
        d: the solution is written here, shape (n,).
        r: workspace, shape (2 n,): a step, and the gradient after it.
        L: workspace, shape (n n,).
        free: workspace, shape (n,): 1 for variables that may move, 0 for those that are held.
        n: number of variables.

    Returns:
        Factorisations used; negative if the safeguard was needed.
    """
    n = fixed_size(n)
    scale = 1.0
    for i in range(n):
        scale = max(scale, 1.0 + abs(g[i]))
        d[i] = 0.0
        r[n + i] = -g[i]
        free[i] = 1.0
    tolerance = QP_TOLERANCE * scale
    # From d = 0, which lies in the box, the first step frees every variable; it is only clipped.
    for iteration in range(QP_STEPS):
        for i in range(n):
            r[i] = -r[n + i] * free[i]
        masked_newton(H, r, L, free, n)
        if iteration == 0:
            inside = True
            for i in range(n):
                d[i] = min(max(r[i], lo[i]), hi[i])
                inside = inside and d[i] == r[i]
            if inside:
                return 1
        elif not arc(H, lo, hi, d, r, L, n):
            break
        worst = 0.0
        for i in range(n):
            s = -g[i]
            for j in range(i + 1):
                s += H[i * n + j] * d[j]
            for j in range(i + 1, n):
                s += H[j * n + i] * d[j]
            r[n + i] = s
            held = (d[i] <= lo[i] and s >= 0.0) or (d[i] >= hi[i] and s <= 0.0) or lo[i] == hi[i]
            free[i] = 0.0 if held else 1.0
            worst = max(worst, abs(s) * free[i])
        if worst <= tolerance:
            return iteration + 1
    return -sweeps(H, g, lo, hi, d, tolerance, n)


def masked_newton(H: Array, x: Array, L: Array, free: Array, n: int) -> None:
    """Solves H_FF x_F = x_F in place for the free variables; x is 0 elsewhere, before and after.

    L D L^T with the rows and columns of held variables left out.  A folded module has its own.
    """
    for a in range(n):
        if free[a] == 0.0:
            continue
        for b in range(a + 1):
            if free[b] == 0.0:
                L[a * n + b] = 0.0
                continue
            s = H[a * n + b]
            for k in range(b):
                if free[k] != 0.0:
                    s -= L[a * n + k] * L[b * n + k] * L[k * n + k]
            L[a * n + b] = s / L[b * n + b] if b < a else s
    for a in range(n):
        if free[a] != 0.0:
            s = x[a]
            for b in range(a):
                s -= L[a * n + b] * x[b]
            x[a] = s
    for a in range(n - 1, -1, -1):
        if free[a] != 0.0:
            s = x[a] / L[a * n + a]
            for b in range(a + 1, n):
                if free[b] != 0.0:
                    s -= L[b * n + a] * x[b]
            x[a] = s


def arc(H: Array, lo: Array, hi: Array, d: Array, r: Array, L: Array, n: int) -> bool:
    """Moves d along the projection of d + t p, p = r[:n]; False if nothing is gained.

    The change of d is kept in the first row of L, which the factorisation no longer needs.
    """
    n = fixed_size(n)
    t = 1.0
    for _ in range(30):
        cut = False
        slope = 0.0
        for i in range(n):
            x = d[i] + t * r[i]
            y = min(max(x, lo[i]), hi[i])
            cut = cut or x != y
            L[i] = y - d[i]
            slope += L[i] * r[n + i]
        accept = t == 1.0 and not cut
        if not accept:
            curve = 0.0
            for i in range(n):
                s = 0.5 * H[i * n + i] * L[i]
                for j in range(i):
                    s += H[i * n + j] * L[j]
                curve += s * L[i]
            accept = slope < 0.0 and slope + curve <= 1e-4 * slope
        if accept:
            for i in range(n):
                d[i] = min(max(d[i] + t * r[i], lo[i]), hi[i])
            return True
        t *= 0.5
    return False


def sweeps(H: Array, g: Array, lo: Array, hi: Array, d: Array, tolerance: float, n: int) -> int:
    """Minimises over one coordinate after the other until optimal; returns the sweeps used."""
    for sweep in range(QP_SWEEPS):
        worst = 0.0
        for i in range(n):
            s = -g[i]
            for j in range(n):
                s += H[max(i, j) * n + min(i, j)] * d[j]
            x = min(max(d[i] - s / H[i * n + i], lo[i]), hi[i])
            worst = max(worst, abs(x - d[i]) * H[i * n + i])
            d[i] = x
        if worst <= tolerance:
            return sweep + 1
    return QP_SWEEPS


def projected_step(
    H: Array, g: Array, lo: Array, hi: Array, d: Array, r: Array, L: Array, free: Array, n: int
) -> int:
    """Two-metric projection (Bertsekas 1982): a Newton step on the joints not held, clipped.

    Joints on a bound (lo = 0 or hi = 0) that the gradient pushes against it are held.  Returns
    1, the number of factorisations.
    """
    for i in range(n):
        held = (lo[i] >= 0.0 and g[i] <= 0.0) or (hi[i] <= 0.0 and g[i] >= 0.0)
        free[i] = 0.0 if held else 1.0
        r[i] = 0.0 if held else g[i]
    masked_newton(H, r, L, free, n)
    for i in range(n):
        d[i] = min(max(r[i], lo[i]), hi[i])
    return 1


def fixed_size(n: int) -> int:
    """The number of variables; a constant in a folded module."""
    return n
