"""Runs put together for a report: one frame, what each set is, and what each run was made with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optik.benchmark.own import as_solver
from optik.benchmark.run import read_run
from optik.errors import BenchmarkError, OptikError
from optik.problem import Budget
from optik.set_files import SetFile, read_spec
from optik.solvers import Solver


@dataclass(frozen=True, eq=False)
class Runs:
    """One or several runs as one table.

    Attributes:
        frame: the rows; "solver" holds labels (the solver, with its run where two runs hold the
            same one) and "problem_set" groups (the set, with the start where it was run from
            several), so that every table and curve of the bench can be made from it.
        labels: the solvers, in the order of the runs.
        groups: the sets, in the order of the runs.
        sets: the problem set behind each group.
        environments: what `environment.json` says, by the run's name.
        budget: of the first run; what a target is solved again with.
        specs: what is known of each group's problem set; None where its files are not at hand.
        solvers: the string form behind each label.
    """

    frame: pd.DataFrame
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    sets: dict[str, str]
    environments: dict[str, dict[str, Any]]
    budget: Budget
    specs: dict[str, SetFile | None]
    solvers: dict[str, str]

    def solver(self, label: str) -> Solver | None:
        """The solver behind a label; None where it cannot be built here, or failed to answer.

        What raised, hung or answered with no configuration in the run would do so here again.
        """
        rows = self.frame[self.frame["solver"] == label]
        if (rows["claim"].fillna("") == "").any() or np.isinf(rows["limit_violation"]).any():
            return None
        try:
            return as_solver(self.solvers[label])[0]
        except (OptikError, OSError):
            return None

    def seed(self, group: str, index: int, label: str) -> int:
        """The seed of a solver's restarts on one target."""
        if "seed" not in self.frame:
            return 0
        frame = self.frame
        rows = frame[(frame["problem_set"] == group) & (frame["problem"] == index)]
        rows = rows[rows["solver"] == label]
        return int(rows["seed"].iloc[0])


def gather(folders: Sequence[Path]) -> Runs:
    """Reads runs and puts them together.

    Args:
        folders: folders written by `optik.run(..., out=folder)`.

    Raises:
        BenchmarkError: for no folder, one that holds no run, or one without a row.
    """
    if not folders:
        raise BenchmarkError("a report needs the folder of at least one run")
    names = _names(folders)
    frames, environments = [], {}
    for name, folder in zip(names, folders, strict=True):
        rows = read_run(folder)
        if rows.empty:
            raise BenchmarkError(f"{folder} holds no rows: the run has not finished a solve yet")
        if "repeat" not in rows:
            rows = rows.assign(repeat=0)
        frames.append(rows.assign(run=name))
        environments[name] = _environment(Path(folder))
    frame = pd.concat(frames, ignore_index=True)
    labels, groups = _labels(frame), _groups(frame)
    solvers = dict(zip(labels, frame["solver"].astype(str), strict=True))
    sets = dict(zip(groups, frame["problem_set"].astype(str), strict=True))
    frame = frame.assign(
        solver=pd.Categorical(labels, categories=list(solvers)),
        problem_set=pd.Categorical(groups, categories=list(sets)),
    )
    budget = next(iter(environments.values())).get("budget")
    return Runs(
        frame=frame,
        labels=tuple(solvers),
        groups=tuple(sets),
        sets=sets,
        environments=environments,
        budget=Budget() if not budget else Budget(**budget),
        specs={group: _spec(name) for group, name in sets.items()},
        solvers=solvers,
    )


def _environment(folder: Path) -> dict[str, Any]:
    path = folder / "environment.json"
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise BenchmarkError(f"{path} is not JSON: {error}") from None
    return found if isinstance(found, dict) else {}


def _names(folders: Sequence[Path]) -> list[str]:
    names: list[str] = []
    for folder in folders:
        name = Path(folder).resolve().name
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return names


def _labels(frame: pd.DataFrame) -> pd.Series[str]:
    runs_of = frame.groupby("solver", sort=False)["run"].nunique()
    several = frame["solver"].map(runs_of) > 1
    return frame["solver"].where(~several, frame["solver"] + " [" + frame["run"] + "]")


def _groups(frame: pd.DataFrame) -> pd.Series[str]:
    starts_of = frame.groupby("problem_set", sort=False)["start"].nunique()
    several = frame["problem_set"].map(starts_of) > 1
    text = frame["problem_set"] + " from " + frame["start"].astype(str)
    return frame["problem_set"].where(~several, text)


def _spec(name: str) -> SetFile | None:
    try:
        return read_spec(name)
    except OptikError:
        return None
