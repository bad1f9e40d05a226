"""What a run was made with: versions, processor, threads, options; the header of every result."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

import optik
from optik.problem import Budget
from optik.solvers import Solver

PACKAGES = (
    "numpy", "scipy", "mujoco", "casadi", "osqp", "cvxpy", "numba", "qpsolvers", "daqp", "piqp",
    "proxsuite", "mink", "pin-pink",
)  # fmt: skip


def environment(
    *,
    solvers: Sequence[Solver] = (),
    budget: Budget | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Describes the machine, the libraries, and what was run.

    Args:
        solvers: whose options are to be told.
        budget: the run's.
        settings: everything else that decides what the rows say.
    """
    return {
        "optik": optik.__version__,
        "date": now(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "blas_threads": {t["internal_api"]: t["num_threads"] for t in threadpool_info()},
        "packages": {name: v for name in PACKAGES if (v := _version(name)) is not None},
        "git": _git_state(),
        "solvers": [{"solver": str(s), "options": _options(s)} for s in solvers],
        "budget": None if budget is None else asdict(budget),
        "settings": {} if settings is None else dict(settings),
    }


def environment_line() -> str:
    """The machine and the libraries in one line, for the head of a results file."""
    found = environment()
    packages = ", ".join(
        f"{name} {found['packages'][name]}" for name in ("mujoco", "numpy", "scipy")
    )
    git = f" ({found['git']})" if found["git"] else ""
    return (
        f"optik {found['optik']}{git}, Python {found['python']}, {packages}; {found['cpu']}, "
        f"{found['cores']} cores; {found['date'][:10]}"
    )


def write_environment(path: Path, **what: Any) -> None:
    """Writes `environment(...)` as JSON, whole or not at all."""
    write_json(path, environment(**what))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file, whole or not at all."""
    text = json.dumps(content, indent=1, default=str) + "\n"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def now() -> str:
    """The time, as results write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _options(solver: Solver) -> dict[str, Any]:
    # Not `asdict`, which would copy whatever a researcher's own solver holds.
    return {f.name: getattr(solver, f.name) for f in fields(solver)}


@cache
def _cpu() -> str:
    import cpuinfo  # takes a second: it starts a process of its own

    return str(cpuinfo.get_cpu_info().get("brand_raw", platform.processor()))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_state() -> str | None:
    folder = Path(optik.__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
