"""How far a tool that is within the tolerances can miss the equations of the relaxation."""

from __future__ import annotations


def slack(name: str, position: float, rotation: float, *, reach: float, span: float) -> float:
    """How far a group's equations can be missed by a tool within the tolerances of the target.

    With d the position error, E the rotation that takes the target's orientation to the tool's, X
    the cut frame and P = |p_X|:  |E - I|_2 = 2 sin(angle / 2) and |E - I|_F = sqrt(2) |E - I|_2, so

        rotation   |dM|_F <= sqrt(2) r                  position  |dp| <= d + reach r =: e
        square     e (P + e / 2)                        dot       |d(M^T p)| <= d + |p*| r
        cross      sqrt(2) (e + P r)                    inversion sqrt(3) 1.5 e (2 P + e) + P^2 r
        axis       r

    (the last two in the Frobenius norm of a 3 by 3 matrix).

    Args:
        name: the group.
        position: d [m].
        rotation: r [rad].
        reach: bound on the distance from the tool to the cut frame [m].
        span: bound on P and on |p*| [m].
    """
    e = position + reach * rotation
    P = span + e
    match name:
        case "rotation":
            return 1.4142136 * rotation
        case "axis":
            return rotation
        case "position":
            return e
        case "square":
            return e * (P + 0.5 * e)
        case "dot":
            return position + span * rotation
        case "cross":
            return 1.4142136 * (e + P * rotation)
        case "inversion":
            return 1.7320509 * 1.5 * e * (2.0 * P + e) + P * P * rotation
    raise ValueError(name)
