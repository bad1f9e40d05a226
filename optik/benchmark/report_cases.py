"""The targets that a report looks at closely, solved again with their paths kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from optik.benchmark.report_rule import discordant, spread, story_pair
from optik.benchmark.report_runs import Runs
from optik.benchmark.report_scene import Scene, scene_of
from optik.benchmark.report_targets import Key, problem_of, problem_set_of, traced
from optik.benchmark.report_trace import Trace
from optik.problem import Problem
from optik.problem_sets import ProblemSet

MOST_TRACED = 4  # solvers that are traced on each target
SLOW = 0.5  # [s]; solvers that take longer are traced only when they are one of the pair


@dataclass(frozen=True, eq=False)
class Case:
    """One target, solved again by several solvers with their paths kept.

    Attributes:
        group: the set.
        index: the problem's number in the set.
        problem: the problem.
        gained: whether the second solver of the pair solves it and the first does not.
        pair: the labels of the two solvers that are shown first.
        traces: by label.
        differing: labels whose outcome now is not what the run's row says.
    """

    group: str
    index: int
    problem: Problem
    gained: bool
    pair: tuple[str, str]
    traces: dict[str, Trace]
    differing: tuple[str, ...]

    def as_dict(self, scene: Scene) -> dict[str, Any]:
        """What the page needs of it."""
        problem = self.problem
        return {
            "group": self.group,
            "problem": self.index,
            "robot": problem.robot.name,
            "pair": list(self.pair),
            "gained": self.gained,
            "tolerance": {
                "position": problem.tolerance.position,
                "rotation": problem.tolerance.rotation,
            },
            "targets": [
                {
                    "position": _rounded(t.position),
                    "quaternion": None if t.quaternion is None else _rounded(t.quaternion),
                    "axis": None if t.axis is None else [_rounded(v) for v in t.axis],
                }
                for t in problem.targets
            ],
            "runs": {label: t.as_dict(scene) for label, t in self.traces.items()},
        }


@dataclass(frozen=True, eq=False)
class Cases:
    """The targets chosen, and what could not be shown.

    Attributes:
        pair: the labels of the two solvers, or None where the runs hold only one.
        gained: targets that only the second solves: in order.
        lost: targets that only the first solves.
        chosen: the cases.
        scenes: each robot's drawing, by name.
        notes: sentences on what was left out, and why.
    """

    pair: tuple[str, str] | None
    gained: tuple[Key, ...]
    lost: tuple[Key, ...]
    chosen: tuple[Case, ...]
    scenes: dict[str, Scene]
    notes: tuple[str, ...]


def choose(runs: Runs, *, count: int = 6, pair: Sequence[str] | None = None) -> Cases:
    """Chooses targets by the rule of `report_rule` and solves them again with their paths kept.

    Args:
        runs: the runs.
        count: how many targets to show.
        pair: the two labels to compare; chosen by the rule if None.
    """
    labels = story_pair(runs, pair)
    if labels is None:
        note = "The runs hold one solver only, so that there is nothing to compare."
        return Cases(None, (), (), (), {}, (note,))
    gained, lost = discordant(runs, labels)
    notes: list[str] = []
    sets: dict[str, ProblemSet | None] = {}
    for group in dict.fromkeys(k[0] for k in gained + lost):
        sets[group] = problem_set_of(runs, group, notes)
    shown = _solvers_shown(runs, labels, notes)
    if not set(labels) <= set(shown):
        gone = ", ".join(s for s in labels if s not in shown)
        notes.append(
            f"No paths are shown: {gone} cannot be built here, or gave no usable answer in the run."
        )
        return Cases(labels, tuple(gained), tuple(lost), (), {}, tuple(notes))
    keep_lost = min(len(lost), max(1, count // 6)) if count > 1 else 0
    picked = spread(runs, gained, sets, (labels[1], labels[0]), count - keep_lost)
    picked += spread(runs, lost, sets, labels, count - len(picked))
    known = set(gained)
    chosen: list[Case] = []
    scenes: dict[str, Scene] = {}
    for key in picked:
        group, index = key
        problem_set = sets[group]
        assert problem_set is not None
        problem = problem_of(runs, problem_set, group, index)
        scenes.setdefault(problem.robot.name, scene_of(problem.robot))
        traces = {s: traced(runs, key, problem, s) for s in shown}
        said = _outcomes(runs, key)
        differing = tuple(s for s, t in traces.items() if s in said and bool(said[s]) != t.solved)
        for s in differing:
            notes.append(
                f"{group} {index}: {s} solved again does not end as the run's row says "
                "(a time limit, another version, or a solver that is not deterministic)."
            )
        chosen.append(Case(group, index, problem, key in known, labels, traces, differing))
    return Cases(
        labels, tuple(gained), tuple(lost), tuple(chosen), scenes, tuple(dict.fromkeys(notes))
    )


def _solvers_shown(runs: Runs, pair: tuple[str, str], notes: list[str]) -> list[str]:
    rows = runs.frame.groupby("solver", observed=True)
    rate, seconds = rows["solved"].mean(), rows["solve_time"].median()
    others = sorted(
        (s for s in runs.labels if s not in pair and float(seconds[s]) < SLOW),
        key=lambda s: -float(rate[s]),
    )[: MOST_TRACED - 2]
    shown = []
    for label in [*pair, *others]:
        if runs.solver(label) is not None:
            shown.append(label)
    left = [s for s in runs.labels if s not in shown]
    if left:
        notes.append(f"Paths are not shown for {', '.join(left)}.")
    return shown


def _outcomes(runs: Runs, key: Key) -> pd.Series[Any]:
    frame = runs.frame
    rows = frame[(frame["problem_set"] == key[0]) & (frame["problem"] == key[1])]
    return rows.groupby("solver", observed=True)["solved"].mean() >= 0.5


def _rounded(vector: Any) -> list[float]:
    return [float(f"{v:.9g}") for v in vector]
