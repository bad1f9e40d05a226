"""Where a study's tables go: its folder of results, or a temporary one with --quick."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from optik.benchmark.environment import environment
from optik.benchmark.tables import Table, write_tables
from optik.problem import Budget
from optik.solvers import parse_solver

RESULTS = Path(__file__).parent / "results"
# The best box QP of baselines.py, as the other studies run it.
BEST_BOX_QP = (
    "box-qp:backend=mujoco,damping=0.001,error_damping=0.3,step_limit=0.5,residual=chordal,"
    "rotation_weight={rotation_weight:g}"
)


def write(
    study: str,
    tables: Sequence[Table],
    *,
    title: str,
    intro: str,
    quick: bool,
    extra: Mapping[str, str | bytes] | None = None,
    solvers: Sequence[str] = (),
    budget: Budget | None = None,
) -> Path:
    """Writes tables and environment.json, whole or not at all.

    Args:
        study: the script's name, and a folder inside its own after a slash.
        tables: in their order.
        title: of the page.
        intro: what stands above the tables.
        quick: write to a temporary folder and leave the committed results alone.
        extra: further files, by name.
        solvers: whose options environment.json is to tell.
        budget: the study's.

    Returns:
        The folder.
    """
    folder = (
        Path(tempfile.mkdtemp(prefix=f"{study.replace('/', '-')}-")) if quick else RESULTS / study
    )
    about = environment(solvers=[parse_solver(s) for s in solvers], budget=budget)
    files = dict(extra or {})
    files["environment.json"] = json.dumps(about, indent=1, default=str) + "\n"
    write_tables(folder, list(tables), title=title, intro=intro, extra=files)
    return folder
