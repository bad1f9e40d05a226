"""The targets of a run, found again: the same set, start and posture, or a note why not."""

from __future__ import annotations

import re
from typing import Literal

from optik.benchmark.plan import set_digest
from optik.benchmark.report_runs import Runs
from optik.benchmark.report_trace import Trace, trace
from optik.errors import OptikError
from optik.problem import Posture, Problem
from optik.problem_sets import STARTS, ProblemSet, load_problem_set

Key = tuple[str, int]  # a group and the number of a problem in its set


def problem_set_of(runs: Runs, group: str, notes: list[str]) -> ProblemSet | None:
    """A group's set, or None and a note where it is not the one that was run."""
    name = runs.sets[group]
    rows = runs.frame[runs.frame["problem_set"] == group]
    if "posture" in rows and _posture(str(rows["posture"].iloc[0])) is False:
        notes.append(f"Targets of {name} are not drawn: the run's posture cannot be made again.")
        return None
    try:
        found = load_problem_set(name)
    except OptikError as error:
        notes.append(f"Targets of {name} are not drawn, as the set is not at hand: {error}")
        return None
    for environment in runs.environments.values():
        was = (environment.get("settings") or {}).get("sets", {}).get(name, {}).get("digest")
        if was is not None and was != set_digest(found):
            count = len(rows.groupby("problem"))
            first = found.first(count) if count < len(found) else found
            if was != set_digest(first):
                notes.append(f"Targets of {name} are not drawn: the set has changed since the run.")
                return None
    return found


def problem_of(runs: Runs, problem_set: ProblemSet, group: str, index: int) -> Problem:
    """One problem as the run asked it: the same start and posture."""
    row = runs.frame[runs.frame["problem_set"] == group].iloc[0]
    start = str(row["start"])
    posture = _posture(str(row["posture"])) if "posture" in row else None
    assert posture is not False
    return problem_set.problem(index, start=start if start in STARTS else None, posture=posture)


def _posture(text: str) -> Posture | Literal[False] | None:
    """The posture that a row names; False where its numbers are not in the text."""
    if text == "none":
        return None
    found = re.fullmatch(r"mid-range, weight (\S+)", text)
    return Posture(weight=float(found[1])) if found else False


def traced(runs: Runs, key: Key, problem: Problem, label: str) -> Trace:
    """A solver on one target, under the run's budget and seed, with its path kept."""
    solver = runs.solver(label)
    assert solver is not None
    return trace(problem, solver, budget=runs.budget, seed=runs.seed(*key, label))
