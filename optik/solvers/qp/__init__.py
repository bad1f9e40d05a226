"""The quadratic programs behind a constrained step, one backend a file.

    minimise over d    |J d - e|^2 + lambda^2 |d|^2    subject to    lower <= d <= upper

`BACKENDS` maps a backend's name to the module and class that solve it.  A backend is built once for
the size (m, n) of J, then asked for one step after another; it remembers nothing between them.  Its
library is imported when it is built, never before.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from optik.errors import unknown_name
from optik.solvers.qp.base import Backend, QPStatus, QPStep

__all__ = ["BACKENDS", "Backend", "QPStatus", "QPStep", "make_backend"]

# name -> (module, class)
BACKENDS: Mapping[str, tuple[str, str]] = {
    "lsq-linear": ("lsq_linear", "LsqLinear"),
    "osqp": ("osqp", "Osqp"),
    "cvxpy": ("cvxpy", "Cvxpy"),
    "mujoco": ("mujoco", "Mujoco"),
    "daqp": ("daqp", "Daqp"),
    "piqp": ("qpsolvers", "Piqp"),
    "proxqp": ("qpsolvers", "Proxqp"),
    "clarabel": ("qpsolvers", "Clarabel"),
}


def make_backend(name: str, m: int, n: int) -> Backend:
    """Builds a backend for Jacobians of shape (m, n).

    Raises:
        UnknownNameError: for a backend that does not exist.
        SolverError: if its package is not installed; names the extra that brings it.
    """
    if name not in BACKENDS:
        raise unknown_name("QP backend", name, BACKENDS)
    module, cls = BACKENDS[name]
    backend: Backend = getattr(importlib.import_module(f"{__name__}.{module}"), cls)(m, n)
    return backend
