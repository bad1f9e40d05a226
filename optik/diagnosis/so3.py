r"""How the rotation residuals turn with the frame: the inverse right Jacobian and its derivative.

For r = log(R* R^T) and a turn w of the frame in world axes, dr/dw = -J_r(r)^-1 with

    J_r^-1 = 1 + [r]/2 + k(t) [r]^2,   k(t) = 1/t^2 - cot(t/2)/(2 t),   t = |r|

(Chirikjian 2012; Sola, Deray and Atchuthan 2018).  For the shortest rotation that turns one vector
onto another the same question has its own closed form.  own_cost.py says what they are used for.
"""

from __future__ import annotations

import numpy as np

from optik.pose import Array
from optik.residual import skew

EYE = np.eye(3)


def pose_curvature(r: Array, M: Array, masked: bool) -> tuple[Array, Array, Array]:
    """The gradient v of 1/2 r^T M r over turns of the frame, and how it turns with them.

        v = J_r^-T M r,   -dv/dw = (dv/dr) J_r^-1

    Args:
        r: log(R* R^T), shape (3,) [rad].
        M: diagonal mask of the rows that count, shape (3, 3).
        masked: whether M is anything but the identity, for which v is r.

    Returns:
        v (3,), -dv/dw (3, 3) and J_r^-1 (3, 3).
    """
    k, k_slope = right_jacobian_coefficient(float(np.sqrt(r @ r)))
    X = skew(r)
    X2 = X @ X
    inverse = EYE + 0.5 * X + k * X2
    if not masked:
        return r, inverse, inverse
    w = M @ r
    v = inverse.T @ w
    double = (float(r @ w) * EYE + np.outer(r, w) - 2.0 * np.outer(w, r)) + X2 @ M
    slope = M - 0.5 * (X @ M - skew(w)) + k * double + np.outer(X2 @ w, k_slope * r)
    return v, slope @ inverse, inverse


def right_jacobian_coefficient(angle: float) -> tuple[float, float]:
    """k(t) = 1/t^2 - cot(t/2)/(2 t) of the inverse right Jacobian, and k'(t)/t, at t = `angle`.

    Both are even in t and finite on [0, pi]; below 0.05 the power series is exact to rounding.
    """
    t = angle
    if t < 0.05:
        t2 = t * t
        return 1 / 12 + t2 * (1 / 720 + t2 / 30240), 1 / 360 + t2 * (1 / 7560 + t2 / 201600)
    half = 0.5 * t
    cot = float(np.cos(half) / np.sin(half))
    k = 1 / (t * t) - cot / (2 * t)
    slope = -2 / t**3 + cot / (2 * t * t) + 1 / (4 * t * float(np.sin(half)) ** 2)
    return k, slope / t


def axis_curvature(x: Array, t: Array) -> Array:
    """Returns -dr/dw, shape (3, 3), w a turn of the frame that carries x along.

        r = f n,  n = x x t,  f = a / sin(a);   -dr/dw = -f [t][x] - f' n n^T,
        f' = df/d(cos a) = (a cos(a) - sin(a)) / sin(a)^3

    Args:
        x: the controlled axis, unit, shape (3,).
        t: where it should point, unit, shape (3,); a is the angle between them.
    """
    normal = np.cross(x, t)
    sine, cosine = float(np.sqrt(normal @ normal)), float(x @ t)
    angle = float(np.arctan2(sine, cosine))
    if cosine > 0 and sine < 1e-3:
        ratio, slope = 1 + angle**2 / 6, -1 / 3 - 2 * angle**2 / 15
    else:
        sine = max(sine, 1e-9)  # opposite axes: the cost has a cone there, its curvature is -inf
        ratio, slope = angle / sine, (angle * cosine - sine) / sine**3
    return -(ratio * (skew(t) @ skew(x)) + slope * np.outer(normal, normal))
