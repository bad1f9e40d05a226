"""What a run was made with: versions, processor, threads, options; the header of every result."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cpuinfo
from threadpoolctl import threadpool_info

import optik
from optik.problem import Budget
from optik.solvers import Solver

PACKAGES = ("numpy", "scipy", "mujoco", "casadi", "osqp", "cvxpy", "numba")


def environment(*, solvers: Sequence[Solver] = (), budget: Budget | None = None) -> dict[str, Any]:
    """Describes the machine, the libraries, and what was run."""
    return {
        "optik": optik.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpuinfo.get_cpu_info().get("brand_raw", platform.processor()),
        "cores": os.cpu_count(),
        "blas_threads": {t["internal_api"]: t["num_threads"] for t in threadpool_info()},
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "git": _git_state(),
        "solvers": [{"solver": str(s), "options": asdict(s)} for s in solvers],
        "budget": None if budget is None else asdict(budget),
    }


def write_environment(path: Path, **what: Any) -> None:
    """Writes `environment(...)` as JSON, whole or not at all."""
    text = json.dumps(environment(**what), indent=1, default=str) + "\n"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)


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
