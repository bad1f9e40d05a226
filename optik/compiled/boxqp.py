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
        r: workspace, shape (2 n,).
        L: workspace, shape (n n,).
        free: workspace, shape (n,).
        n: number of variables.

    Returns:
        Factorisations used; negative if the safeguard was needed.
    """
    scale = 1.0
    for i in range(n):
        scale = max(scale, 1.0 + abs(g[i]))
        d[i] = 0.0
        r[n + i] = -g[i]
        free[i] = i
    tolerance = QP_TOLERANCE * scale
    m = n
    # From d = 0, which lies in the box, the first step frees every variable; it is only clipped.
    for iteration in range(QP_STEPS):
        for a in range(m):
            r[a] = -r[n + int(free[a])]
        reduced_newton(H, r, L, free, m, n)
        if iteration == 0:
            inside = True
            for i in range(n):
                d[i] = min(max(r[i], lo[i]), hi[i])
                inside = inside and d[i] == r[i]
            if inside:
                return 1
        elif not arc(H, lo, hi, d, r, L, free, m, n):
            break
        m = 0
        worst = 0.0
        for i in range(n):
            s = -g[i]
            for j in range(i + 1):
                s += H[i * n + j] * d[j]
            for j in range(i + 1, n):
                s += H[j * n + i] * d[j]
            r[n + i] = s
            if not ((d[i] <= lo[i] and s >= 0.0) or (d[i] >= hi[i] and s <= 0.0) or lo[i] == hi[i]):
                free[m] = i
                m += 1
                worst = max(worst, abs(s))
        if worst <= tolerance:
            return iteration + 1
    return -sweeps(H, g, lo, hi, d, tolerance, n)


def reduced_newton(H: Array, x: Array, L: Array, free: Array, m: int, n: int) -> None:
    """Solves H_FF x = x in place for the m free variables, by an L D L^T factorisation."""
    for a in range(m):
        row = int(free[a]) * n
        for b in range(a + 1):
            s = H[row + int(free[b])]
            for k in range(b):
                s -= L[a * n + k] * L[b * n + k] * L[k * n + k]
            L[a * n + b] = s
            if b < a:
                L[a * n + b] = s / L[b * n + b]
    for a in range(m):
        s = x[a]
        for b in range(a):
            s -= L[a * n + b] * x[b]
        x[a] = s
    for a in range(m):
        x[a] /= L[a * n + a]
    for a in range(m - 1, -1, -1):
        s = x[a]
        for b in range(a + 1, m):
            s -= L[b * n + a] * x[b]
        x[a] = s


def arc(
    H: Array, lo: Array, hi: Array, d: Array, r: Array, L: Array, free: Array, m: int, n: int
) -> bool:
    """Moves d along the projection of d + t p, p = r[:m] on the free variables; False if it fails.

    The change of d is kept in the first row of L, which the factorisation no longer needs.
    """
    t = 1.0
    for _ in range(30):
        cut = False
        slope = 0.0
        for a in range(m):
            i = int(free[a])
            x = d[i] + t * r[a]
            if x < lo[i]:
                x = lo[i]
                cut = True
            elif x > hi[i]:
                x = hi[i]
                cut = True
            L[a] = x - d[i]
            slope += L[a] * r[n + i]
        accept = t == 1.0 and not cut
        if not accept:
            curve = 0.0
            for a in range(m):
                i = int(free[a])
                s = 0.5 * H[i * n + i] * L[a]
                for b in range(a):
                    s += H[i * n + int(free[b])] * L[b]
                curve += s * L[a]
            accept = slope < 0.0 and slope + curve <= 1e-4 * slope
        if accept:
            for a in range(m):
                i = int(free[a])
                d[i] = min(max(d[i] + t * r[a], lo[i]), hi[i])
            return True
        t *= 0.5
    return False


def sweeps(H: Array, g: Array, lo: Array, hi: Array, d: Array, tolerance: float, n: int) -> int:
    """Minimises over one coordinate after the other until optimal; returns the sweeps used."""
    for sweep in range(QP_SWEEPS):
        worst = 0.0
        for i in range(n):
            s = -g[i]
            for j in range(i + 1):
                s += H[i * n + j] * d[j]
            for j in range(i + 1, n):
                s += H[j * n + i] * d[j]
            x = min(max(d[i] - s / H[i * n + i], lo[i]), hi[i])
            worst = max(worst, abs(x - d[i]) * H[i * n + i])
            d[i] = x
        if worst <= tolerance:
            return sweep + 1
    return QP_SWEEPS


def projected_step(
    H: Array, g: Array, lo: Array, hi: Array, d: Array, r: Array, L: Array, free: Array, n: int
) -> int:
    """Two-metric projection (Bertsekas 1982): one Newton step on the joints not held, then clipped.

    Joints on a bound (lo = 0 or hi = 0) that the gradient pushes against it are held; the rest is as
    in `box_qp`, without its iterations.  Returns 1, the number of factorisations.
    """
    m = 0
    for i in range(n):
        d[i] = 0.0
        held = (lo[i] >= 0.0 and g[i] <= 0.0) or (hi[i] <= 0.0 and g[i] >= 0.0)
        if not held:
            free[m] = i
            r[m] = g[i]
            m += 1
    reduced_newton(H, r, L, free, m, n)
    for a in range(m):
        i = int(free[a])
        d[i] = min(max(r[a], lo[i]), hi[i])
    return 1
