"""The curves of a report, as numbers for the page and for the static figures.

Success against tolerance and budget, performance and data profiles, for every set and for all of
them together.  Every curve is a share of *all* targets: a failure stays in the denominator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from optik.benchmark.report_runs import Runs
from optik.benchmark.summary import (
    Curves,
    budget_curves,
    data_profiles,
    performance_profiles,
    tolerance_curves,
)

ALL = "all sets together"
# What a chart is of, and what its x axis says for each cost: (label, unit of the read-out).
AXES = {
    "tolerance": {"evaluations": ("tolerance, as a multiple of the set's own", "× the tolerance")},
    "budget": {
        "evaluations": ("evaluations allowed", "evaluations"),
        "time": ("time allowed [s]", "s"),
    },
    "performance": {
        "evaluations": ("evaluations, as a multiple of the thriftiest solver's", "× the fewest"),
        "time": ("time, as a multiple of the fastest solver's", "× the fastest"),
    },
    "data": {
        "evaluations": ("groups of joints + 1 evaluations", "groups of evaluations"),
    },
}


def all_curves(runs: Runs) -> dict[str, dict[str, dict[str, Curves]]]:
    """Returns the curves by set, chart ("tolerance", ...) and cost ("evaluations", "time")."""
    groups = list(runs.groups) if len(runs.groups) == 1 else [ALL, *runs.groups]
    by_group = {str(g): rows for g, rows in runs.frame.groupby("problem_set", sort=False)}
    return {group: _curves(runs.frame if group == ALL else by_group[group]) for group in groups}


def _curves(rows: pd.DataFrame) -> dict[str, dict[str, Curves]]:
    return {
        "tolerance": {"evaluations": tolerance_curves(rows)},
        "budget": {
            "evaluations": budget_curves(rows, "evaluations"),
            "time": budget_curves(rows, "solve_time"),
        },
        "performance": {
            "evaluations": performance_profiles(rows, "evaluations"),
            "time": performance_profiles(rows, "solve_time"),
        },
        "data": {"evaluations": data_profiles(rows)},
    }


def for_page(
    runs: Runs, curves: dict[str, dict[str, dict[str, Curves]]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """The curves as plain lists, rounded to what a screen can show."""
    return {
        group: {
            name: {cost: _plain(runs, c, *AXES[name][cost]) for cost, c in by_cost.items()}
            for name, by_cost in charts.items()
        }
        for group, charts in curves.items()
    }


def _plain(runs: Runs, curves: Curves, label: str, unit: str) -> dict[str, Any]:
    x = np.asarray(curves.x, dtype=np.float64)
    if len(x) < 2:  # nothing was solved: an axis still needs two ends
        x = np.array([1.0, 10.0])
    return {
        "x": [float(f"{v:.4g}") for v in x],
        "y": [
            None
            if s not in curves.y
            else [round(float(v), 4) for v in np.resize(curves.y[s], len(x))]
            for s in runs.labels
        ],
        "label": label,
        "unit": unit,
        "n": curves.n,
    }
