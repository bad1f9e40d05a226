"""What a QP backend is, what it answers, and the checks that every answer passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import ClassVar, NamedTuple

import numpy as np

from optik.errors import SolverError
from optik.pose import Array
from optik.solvers.qp.null_space import keep_task

# Stands for "no bound" where a backend wants finite numbers [rad or m].
FAR = 1e6
# Many libraries write "no bound" as a number at least this large.
NO_BOUND = 1e20


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
    """One way to solve the box QP, built for Jacobians of shape (m, n); for one thread.

    Class attributes:
        noise: a step shorter than this is the backend's own inaccuracy [rad or m].
    """

    noise: ClassVar[float] = 1e-10

    def __init__(self, m: int, n: int) -> None:
        self.m, self.n = m, n

    def step(self, J: Array, e: Array, damping: float, lower: Array, upper: Array) -> QPStep:
        """Solves min |J d - e|^2 + damping^2 |d|^2 over lower <= d <= upper.

        Args:
            J: shape (m, n).
            e: shape (m,).
            damping: lambda, positive.
            lower: shape (n,) [rad or m]; -inf (or beyond -1e20) where there is no bound.
            upper: shape (n,) [rad or m]; inf (or beyond 1e20) where there is no bound.

        Returns:
            A step inside the box.  Numbers that are not finite never reach the backend and never
            come back from it: the step is then zero and the status FAILED.
        """
        if (lower > upper).any():
            return QPStep(np.zeros(self.n), QPStatus.INFEASIBLE, 0.0, "lower exceeds upper")
        if not (np.isfinite(J).all() and np.isfinite(e).all()):
            return QPStep(np.zeros(self.n), QPStatus.FAILED, 0.0, "J or e is not finite")
        lower = np.where(lower <= -NO_BOUND, -np.inf, lower)
        upper = np.where(upper >= NO_BOUND, np.inf, upper)
        d, status, message = self._step(J, e, damping, lower, upper)
        return checked(d, status, message, lower, upper)

    def keep(
        self, J: Array, d: Array, weights: Array, wanted: Array, lower: Array, upper: Array
    ) -> QPStep:
        """Solves the second level: the step nearest to a wanted one that keeps the task's J d.

            minimise |W (d' - wanted)|^2    subject to    J d' = J d,   lower <= d' <= upper

        The equality is asked for on an orthonormal basis of J's rows, which leaves out rows that
        repeat others and directions in which J does next to nothing (singular values below 1e-6 of
        the largest).

        Args:
            J: shape (m, n).
            d: the task's step, inside the box, shape (n,) [rad or m].
            weights: W, shape (n,), zero or more.
            wanted: the step towards the posture, shape (n,) [rad or m].
            lower: shape (n,) [rad or m].
            upper: shape (n,) [rad or m].

        Returns:
            A step inside the box.  The feasible set is often a short segment or a single point,
            where splitting methods run out of iterations or call it infeasible; what a backend
            cannot solve is solved by `keep_task`, and its message says so.
        """
        _, singular, vt = np.linalg.svd(J)
        rank = int((singular > 1e-6 * singular[0]).sum())
        if rank == self.n:
            return QPStep(d, QPStatus.SOLVED)
        E = vt[:rank]
        out = checked(*self._keep(E, d, weights, wanted, lower, upper), lower, upper)
        if out.status is QPStatus.SOLVED:
            return out
        d = keep_task(E, d, weights, wanted, lower, upper)
        return QPStep(d, QPStatus.SOLVED, out.raw_violation, f"{out.message}; active set instead")

    def _keep(
        self, E: Array, d: Array, weights: Array, wanted: Array, lower: Array, upper: Array
    ) -> tuple[Array | None, QPStatus, str]:
        """The second level for orthonormal rows E; here for backends that know bounds alone."""
        return keep_task(E, d, weights, wanted, lower, upper), QPStatus.SOLVED, "active set"

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


def finite_bounds(e: Array, damping: float, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Replaces infinite bounds by ones that cannot bind, for backends that want finite numbers.

    d = 0, or the point of the box nearest to it, costs at least as much as the best step, which
    therefore has lambda^2 |d|^2 <= |e|^2 whenever the box holds 0; the bound doubles that.
    """
    reach = 2.0 * float(np.sqrt(e @ e)) / damping + 1.0
    return np.maximum(lower, -reach), np.minimum(upper, reach)


def extra(package: str, *, backend: str) -> ModuleType:
    """Imports a package that an extra brings.

    Raises:
        SolverError: naming the extra, if the package is not installed.
    """
    try:
        return import_module(package)
    except ImportError:
        raise SolverError(
            f"the QP backend {backend!r} needs the package {package!r}, which is not installed: "
            f"pip install 'optik[qp]'"
        ) from None


def condensed(J: Array, e: Array, damping: float, *, power: int = 2) -> tuple[Array, Array]:
    """Returns H = c (J^T J + lambda^2 I), shape (n, n), and g = -c J^T e, shape (n,).

    With c = 1 / lambda^power.  At power 2 the least curvature is 1, and a backend's tolerance on
    the gradient bounds the error of the step by the same number of radians; at power 0 a gradient
    of 1e-10 may hide an error of 1e-6 rad.
    """
    scale = damping**-power
    H = scale * (J.T @ J)
    H[np.diag_indices_from(H)] += scale * damping**2
    return H, -scale * (J.T @ e)
