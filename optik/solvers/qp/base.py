"""What a QP backend is, what it answers, and the checks that every answer passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import NamedTuple

import numpy as np

from optik.pose import Array


class QPStatus(Enum):
    """How a quadratic program ended; every backend's own words are mapped to these."""

    SOLVED = "solved"
    INACCURATE = "inaccurate"
    ITERATION_LIMIT = "iteration_limit"
    INFEASIBLE = "infeasible"
    FAILED = "failed"


class QPStep(NamedTuple):
    """The answer to one quadratic program.

    Attributes:
        d: the step, shape (n,) [rad or m], inside the box; zero where there is no usable answer.
        status: how the backend ended.
        raw_violation: how far the backend's own answer left the box before it was put back.
        message: the backend's own word for its status.
    """

    d: Array
    status: QPStatus
    raw_violation: float = 0.0
    message: str = ""


class Backend(ABC):
    """One way to solve the box QP, built for Jacobians of shape (m, n); for one thread."""

    def __init__(self, m: int, n: int) -> None:
        self.m, self.n = m, n

    def step(self, J: Array, e: Array, damping: float, lower: Array, upper: Array) -> QPStep:
        """Solves min |J d - e|^2 + damping^2 |d|^2 over lower <= d <= upper.

        Args:
            J: shape (m, n).
            e: shape (m,).
            damping: lambda, positive.
            lower: shape (n,) [rad or m]; -inf where there is no bound.
            upper: shape (n,) [rad or m]; inf where there is no bound.

        Returns:
            A step inside the box.  Numbers that are not finite never reach the backend and never
            come back from it: the step is then zero and the status FAILED.
        """
        if (lower > upper).any():
            return QPStep(np.zeros(self.n), QPStatus.INFEASIBLE, 0.0, "lower exceeds upper")
        if not (np.isfinite(J).all() and np.isfinite(e).all()):
            return QPStep(np.zeros(self.n), QPStatus.FAILED, 0.0, "J or e is not finite")
        d, status, message = self._step(J, e, damping, lower, upper)
        return checked(d, status, message, lower, upper)

    @abstractmethod
    def _step(
        self, J: Array, e: Array, damping: float, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        """The backend's own answer, its status, and its own word for that."""


def checked(d: Array | None, status: QPStatus, message: str, lower: Array, upper: Array) -> QPStep:
    """Puts a backend's answer into the box and reports how far it had left it."""
    if d is None or not np.isfinite(d).all():
        worse = QPStatus.FAILED if status in (QPStatus.SOLVED, QPStatus.INACCURATE) else status
        return QPStep(np.clip(0.0, lower, upper), worse, 0.0, message)
    violation = max(0.0, float((lower - d).max()), float((d - upper).max()))
    if violation > 0.0:
        d = np.minimum(np.maximum(d, lower), upper)
    return QPStep(d, status, violation, message)


def stacked(J: Array, e: Array, damping: float) -> tuple[Array, Array]:
    """Returns [J; lambda I], shape (m + n, n), and [e; 0], shape (m + n,)."""
    n = J.shape[1]
    return np.vstack((J, damping * np.eye(n))), np.concatenate((e, np.zeros(n)))
