"""The two-link half of the lesson with a six-joint arm: worked Newton steps, exercises, answers.

Links of 0.5 m in their own plane, so that every number can be followed by hand; lesson_six_axis.py
prints the tables.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import lesson
import numpy as np

import optik
from optik.benchmark.tables import Table
from optik.closed_form import two_link

LENGTHS = (0.5, 0.5)
TARGET = (0.6, 0.3)


def wrapped(d: np.ndarray) -> float:
    """Distance in joint space modulo whole turns [rad]."""
    return float(np.linalg.norm(np.remainder(d + np.pi, 2 * np.pi) - np.pi))


def planar_jacobian(q: np.ndarray) -> np.ndarray:
    """Position Jacobian of the two-link arm with links of 0.5 m, shape (2, 2)."""
    a, b = LENGTHS
    s1, s12, c1, c12 = np.sin(q[0]), np.sin(q[0] + q[1]), np.cos(q[0]), np.cos(q[0] + q[1])
    return np.array([[-a * s1 - b * s12, -b * s12], [a * c1 + b * c12, b * c12]])


def planar_tip(q: np.ndarray) -> np.ndarray:
    a, b = LENGTHS
    return np.array(
        [a * np.cos(q[0]) + b * np.cos(q[0] + q[1]), a * np.sin(q[0]) + b * np.sin(q[0] + q[1])]
    )


def newton(
    start: Any, target: Any, steps: int, *, until: float = 0.0
) -> list[tuple[np.ndarray, float]]:
    """Pseudo-inverse steps on the two-link arm: every q and its error, up to the first below `until`."""
    q, path = np.array(start, dtype=float), []
    for _ in range(steps + 1):
        e = np.array(target) - planar_tip(q)
        path.append((q, float(np.linalg.norm(e))))
        if path[-1][1] < until:
            break
        q = q + np.linalg.pinv(planar_jacobian(q)) @ e
    return path


def worked_examples() -> dict[str, Any]:
    """The steps and gains that the text works through, under the document's keys."""
    first = newton((np.pi / 4, np.pi / 4), TARGET, 60)
    second = newton((2.5, -1.0), TARGET, 9)
    found: dict[str, Any] = {
        "WE-L.3.b: q1": first[1][0],
        "WE-L.3.b: errors": [first[0][1], first[1][1]],
        "SE8: final branch": _turned(first[-1][0]),
        "WE-L.3.c: iterates": [second[1][0], second[2][0]],
        "WE-L.3.c: errors": [error for _, error in second[:5]],
        "WE-L.3.c: [step, final error]": [
            next(k for k, (_, error) in enumerate(second) if error < 1e-12),
            second[9][1],
        ],
        "WE-L.3.c: final": _turned(second[9][0]),
        "WE-L.3.c: 47/400 and 59/400; 'a quarter to a third of converging seeds'": _far_branches(),
    }
    J = planar_jacobian(np.array([np.pi / 4, np.pi / 2]))
    sigma = np.linalg.svd(J, compute_uv=False)
    found["WE-L.4.b: [s1,s2,cond,1/smin,dls gain]"] = [
        *sigma,
        sigma[0] / sigma[1],
        1 / sigma[1],
        sigma[1] / (sigma[1] ** 2 + 0.01),
    ]
    near = float(np.linalg.svd(planar_jacobian(np.array([0.0, 0.1])), compute_uv=False)[-1])
    found["WE-L.4.b: q2=0.1[smin,1/smin,dls]"] = [near, 1 / near, near / (near**2 + 0.01)]
    e = np.array([0.1, 0.2])
    lams = (0.1, 0.05, 0.025)
    gaps = [
        float(
            np.linalg.norm(
                np.linalg.pinv(J) @ e - J.T @ np.linalg.solve(J @ J.T + lam**2 * np.eye(2), e)
            )
        )
        for lam in lams
    ]
    found["WE-L.4.d: gaps"] = gaps
    found["WE-L.4.d: ratios"] = [gaps[0] / gaps[1], gaps[1] / gaps[2]]
    found["WE-L.4.d: gap/lam^2"] = [g / lam**2 for g, lam in zip(gaps, lams, strict=True)]
    # The limit of gap / lambda^2 is |J^-1 (J J^T)^-1 e|, a vector's length, not one gain.
    found["WE-L.4.d: claim: coefficient approaches 1/sigma_min"] = float(
        np.linalg.norm(np.linalg.solve(J, np.linalg.solve(J @ J.T, e)))
    )
    found["checkpoint3b: claim: 100 pinv iterations from (0,0) to (0.6,0.3) leave q unchanged"] = (
        newton((0.0, 0.0), TARGET, 100)[-1][0]
    )
    return found


def _turned(q: np.ndarray) -> np.ndarray:
    """The same configuration with angles in [-pi, pi)."""
    return np.remainder(q + np.pi, 2 * np.pi) - np.pi


@cache
def _many_starts() -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Newton from 400 starts: start, last q, and the steps taken, 200 if none is below 1e-9 m."""
    runs = []
    for start in np.random.default_rng(0).uniform(-3, 3, (400, 2)):
        path = newton(start, TARGET, 200, until=1e-9)
        runs.append((start, path[-1][0], len(path) - 1 if path[-1][1] < 1e-9 else 200))
    return runs


def _far_branches() -> list[int]:
    """Of the many starts, how many nearer to one branch converge to the other."""
    both = two_link(TARGET, lengths=LENGTHS).branches
    counts = [0, 0]  # nearer to q-, found q+; nearer to q+, found q-
    for start, q, steps in _many_starts():
        if steps == 200:
            continue
        found = int(np.argmin([wrapped(q - b) for b in both]))
        near = int(np.argmin([wrapped(start - b) for b in both]))
        if found != near:
            counts[found] += 1
    return counts


def exercises() -> dict[str, Any]:
    """The numeric exercises, under the document's keys."""
    J = planar_jacobian(np.array([np.pi / 4, np.pi / 2]))
    K = planar_jacobian(np.array([0.0, np.pi / 3]))
    return {
        "exercises: E1": two_link((0.5, 0.2), lengths=(0.4, 0.4)).branches,
        "exercises: E3": np.linalg.solve(J, [0.1, 0.2]),
        "exercises: E4": float(np.sqrt(np.linalg.det(K @ K.T))),
        "exercises: E5": 0.01 / (0.01**2 + 0.1**2),
    }


def answers_table(found: dict[str, Any]) -> Table:
    """The exercises and worked examples one by one, each with what is measured."""
    plus = two_link(TARGET, lengths=LENGTHS).branches[0]
    steps = np.array([k for _, _, k in _many_starts()])
    near, far = newton(plus + 0.01, TARGET, 1), newton((np.pi / 4, np.pi / 4), TARGET, 1)
    pinv = np.linalg.pinv(planar_jacobian(np.zeros(2))) @ (
        np.array(TARGET) - planar_tip(np.zeros(2))
    )
    manipulability = [
        abs(float(np.linalg.det(planar_jacobian(np.array(q)))))
        for q in ((0.0, 0.0), (np.pi / 4, np.pi / 2), (0.0, np.pi / 2))
    ]
    rows = [
        ("WE-L.1.b: is (1.2, 0) inside the annulus?", _reach((1.2, 0.0), LENGTHS)),
        ("WE-L.2.d: arctan instead of atan2", _arctan()),
        (
            "WE-L.3.a: one step from (0, 0) to (0.6, 0.3)",
            f"J has rank 1, yet its pseudo-inverse exists: the step is {_text(pinv)} rad",
        ),
        (
            "WE-L.3.d: one step called the solution",
            f"from 0.01 rad off in both joints the error falls from {near[0][1]:.2e} to "
            f"{near[1][1]:.2e} m, from (pi/4, pi/4) only from {far[0][1]:.3f} to {far[1][1]:.3f} m",
        ),
        (
            "WE-L.4.a: manipulability at (0, 0), (pi/4, pi/2), (0, pi/2)",
            f"{_text(manipulability, 4)} m^2",
        ),
        ("WE-L.4.c, E 1.1.2.8: a secondary task in the null space of a 7-DOF arm", _null_space()),
        (
            "E 1.1.2.1: both branches for (0.5, 0.2), links of 0.4 m",
            "  ".join(_text(q) for q in found["exercises: E1"]) + " rad",
        ),
        ("E 1.1.2.2: (1.0, 0) with links of 0.4 m", _reach((1.0, 0.0), (0.4, 0.4))),
        (
            "E 1.1.2.3: the step at (pi/4, pi/2) for e = (0.1, 0.2)",
            f"{_text(found['exercises: E3'])} rad",
        ),
        ("E 1.1.2.4: manipulability at q2 = pi/3", f"{found['exercises: E4']:.4f} m^2"),
        (
            "E 1.1.2.5: effective inverse for sigma_min 0.01, lambda 0.1",
            f"{found['exercises: E5']:.3f}, against {1 / 0.01:.0f} without damping",
        ),
        ("E 1.1.2.6: (0.5, 0.3) for target A, (2.1, -1.4) for B next to it", _jump()),
        (
            "E 1.1.2.7: numerical where a closed form exists",
            f"Newton finds one branch from {int((steps < 200).sum())} of {len(steps)} starts, median "
            f"{np.median(steps[steps < 200]):.0f} steps; the closed form gives both",
        ),
    ]
    return lesson.text_table("answers", "Its examples and exercises", ["exercise", "answer"], rows)


def _text(values: Any, digits: int = 3) -> str:
    return "(" + ", ".join(f"{v:.{digits}f}" for v in values) + ")"


def _reach(target: tuple[float, float], lengths: tuple[float, float]) -> str:
    at = two_link(target, lengths=lengths)
    return f"no: {at.distance:.2f} m beyond the ring; the nearest point is {_text(at.nearest, 2)}"


def _arctan() -> str:
    """The near miss in the second quadrant, where arctan(y / x) is off by half a turn."""
    x, y = -TARGET[0], TARGET[1]
    q2 = float(two_link((x, y), lengths=LENGTHS).branches[0][1])
    a, b = LENGTHS
    q1 = np.arctan(y / x) - np.arctan(b * np.sin(q2) / (a + b * np.cos(q2)))
    return f"asked for {_text((x, y))} the tip is at {_text(planar_tip(np.array([q1, q2])))} m"


def _null_space() -> str:
    """Towards the nominal posture of arm7: what the two projectors do to the tool, to first order."""
    arm = optik.Robot.load("arm7")
    q = arm.q_nominal + 0.1
    J, wanted, n = arm.jacobian(q), -2.0 * (q - arm.q_nominal), arm.n
    exact = np.eye(n) - np.linalg.pinv(J) @ J
    damped = np.eye(n) - J.T @ np.linalg.solve(J @ J.T + 0.1**2 * np.eye(6), J)
    moved = [float(np.linalg.norm((J @ N @ wanted)[:3])) for N in (exact, damped)]
    return (
        f"on arm7 I - pinv(J) J moves the tool by {moved[0]:.0e} m, the damped form (lambda 0.1) by "
        f"{moved[1]:.0e} m for the same wish of {np.linalg.norm(wanted):.2f} rad; with limits use two "
        "QPs (posture.py)"
    )


def _jump() -> str:
    """How far apart the exercise's two configurations and their tips are."""
    a, b = np.array([0.5, 0.3]), np.array([2.1, -1.4])
    tips = float(np.linalg.norm(planar_tip(a) - planar_tip(b)))
    flip = float(np.linalg.norm(np.diff(two_link(planar_tip(a), lengths=LENGTHS).branches, axis=0)))
    return (
        f"{np.linalg.norm(a - b):.2f} rad apart, but with links of 0.5 m their tips are {tips:.2f} m "
        f"apart, so they are not two branches of one target; those of A are {flip:.2f} rad apart"
    )
