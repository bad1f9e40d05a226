"""Which targets a report looks at closely, by a rule that is stated, and what it shows of each.

The rule.  The pair is the clamped solver that solves most against the other solver that solves
most.  Among the targets that the second solves and the first does not, every set in turn gives one:
first those on whose solving path a joint is pressed against a limit, for there clamping and the
constrained step part ways, and of those the one that the failing solver leaves farthest from the
target.  One place in six goes to the targets that only the first solves, so that the page does not
tell one side of the story.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from optik.benchmark.plan import set_digest
from optik.benchmark.report_runs import Runs
from optik.benchmark.report_scene import Scene, scene_of
from optik.benchmark.report_trace import Trace, trace
from optik.benchmark.summary import matrix
from optik.errors import BenchmarkError, OptikError, unknown_name
from optik.problem import Posture, Problem
from optik.problem_sets import STARTS, ProblemSet, load_problem_set

CANDIDATES = 12  # targets of a set whose solving path is looked at: those with the lowest numbers
MOST_CANDIDATES = 120  # of all sets together
MOST_TRACED = 4  # solvers that are traced on each target
Key = tuple[str, int]  # a group and the number of a problem in its set
SLOW = 0.05  # [s]; solvers that take longer are traced only when they are one of the pair


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


def story_pair(runs: Runs, wanted: Sequence[str] | None = None) -> tuple[str, str] | None:
    """The two solvers whose difference the report looks at: (baseline, challenger).

    Args:
        runs: the runs.
        wanted: two labels, to choose them by hand.

    Returns:
        The best clamped solver and the best of the others; the worst and the best solver where no
        solver, or every one, is clamped; None where there is only one.

    Raises:
        BenchmarkError: unless `wanted` is two different labels.
        UnknownNameError: for a label that the runs do not hold.
    """
    if wanted is not None:
        for label in wanted:
            if label not in runs.labels:
                raise unknown_name("solver in these runs", label, runs.labels)
        if len(wanted) != 2 or wanted[0] == wanted[1]:
            raise BenchmarkError("the pair to look at is two different solvers")
        return wanted[0], wanted[1]
    if len(runs.labels) < 2:
        return None
    rate = runs.frame.groupby("solver", observed=True)["solved"].mean()
    order = sorted(runs.labels, key=lambda s: -float(rate[s]))  # the first of equals stays first
    clamped = [s for s in order if _family(runs, s) == "clamped"]
    others = [s for s in order if s not in clamped]
    if clamped and others:
        return clamped[0], others[0]
    return order[-1], order[0]


def discordant(runs: Runs, pair: tuple[str, str]) -> tuple[list[Key], list[Key]]:
    """Targets that only the second solver of a pair solves, and those that only the first does."""
    solved = matrix(runs.frame[runs.frame["solver"].isin(pair)], "solved").astype(bool)
    a, b = (solved[s].to_numpy() for s in pair)
    keys = [(str(k[0]), int(k[1])) for k in solved.index]
    return (
        [k for k, only in zip(keys, b & ~a, strict=True) if only],
        [k for k, only in zip(keys, a & ~b, strict=True) if only],
    )


def choose(runs: Runs, *, count: int = 6, pair: Sequence[str] | None = None) -> Cases:
    """Chooses targets by the rule above and solves them again with their paths kept.

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
        sets[group] = _problem_set(runs, group, notes)
    traced = _traced(runs, labels, notes)
    if not set(labels) <= set(traced):
        gone = ", ".join(s for s in labels if s not in traced)
        notes.append(f"No paths are shown: {gone} cannot be built here.")
        return Cases(labels, tuple(gained), tuple(lost), (), {}, tuple(notes))
    keep_lost = min(len(lost), max(1, count // 6)) if count > 1 else 0
    picked = _spread(runs, gained, sets, (labels[1], labels[0]), count - keep_lost)
    picked += _spread(runs, lost, sets, labels, count - len(picked))
    known = set(gained)
    chosen: list[Case] = []
    scenes: dict[str, Scene] = {}
    for key in picked:
        group, index = key
        problem_set = sets[group]
        assert problem_set is not None
        problem = _problem(runs, problem_set, group, index)
        scenes.setdefault(problem.robot.name, scene_of(problem.robot))
        traces = {s: _trace(runs, key, problem, s) for s in traced}
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


def _family(runs: Runs, label: str) -> str | None:
    solver = runs.solver(label)
    return None if solver is None else solver.family


def _trace(runs: Runs, key: Key, problem: Problem, label: str) -> Trace:
    solver = runs.solver(label)
    assert solver is not None
    return trace(problem, solver, budget=runs.budget, seed=runs.seed(*key))


def _problem_set(runs: Runs, group: str, notes: list[str]) -> ProblemSet | None:
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


def _problem(runs: Runs, problem_set: ProblemSet, group: str, index: int) -> Problem:
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


def _traced(runs: Runs, pair: tuple[str, str], notes: list[str]) -> list[str]:
    rows = runs.frame.groupby("solver", observed=True)
    rate, seconds = rows["solved"].mean(), rows["solve_time"].median()
    others = sorted(
        (s for s in runs.labels if s not in pair and float(seconds[s]) < SLOW),
        key=lambda s: -float(rate[s]),
    )[: MOST_TRACED - 2]
    traced = []
    for label in [*pair, *others]:
        if runs.solver(label) is not None:
            traced.append(label)
    left = [s for s in runs.labels if s not in traced]
    if left:
        notes.append(f"Paths are not shown for {', '.join(left)}.")
    return traced


def _spread(
    runs: Runs,
    keys: list[Key],
    sets: dict[str, ProblemSet | None],
    pair: tuple[str, str],
    count: int,
) -> list[Key]:
    """Takes targets from every set in turn, in the rule's order; `pair`: winner, loser."""
    label, other = pair
    frame = runs.frame[runs.frame["solver"] == other]
    first = frame.drop_duplicates(["problem_set", "problem"])
    names, numbers = first["problem_set"].astype(str), first["problem"].astype(int)
    loser = dict(zip(zip(names, numbers, strict=True), first["cost"].astype(float), strict=True))
    queues: list[list[Key]] = []
    slides: set[Key] = set()
    for group, problem_set in sets.items():
        mine = [k for k in keys if k[0] == group][
            : max(2, min(CANDIDATES, MOST_CANDIDATES // len(sets)))
        ]
        if problem_set is None or not mine or count < 1:
            continue
        order = []
        for key in mine:
            problem = _problem(runs, problem_set, group, key[1])
            path = _trace(runs, key, problem, label)
            if any("L" in state or "U" in state for state in path.limits):
                slides.add(key)
            order.append((key not in slides, -float(loser[key]), key))
        queues.append([key for *_, key in sorted(order)])
    picked: list[Key] = []
    while len(picked) < count and any(queues):
        for queue in queues:
            if queue and len(picked) < count:
                picked.append(queue.pop(0))
    return sorted(picked, key=lambda key: key not in slides)


def _outcomes(runs: Runs, key: Key) -> pd.Series[Any]:
    frame = runs.frame
    rows = frame[(frame["problem_set"] == key[0]) & (frame["problem"] == key[1])]
    return rows.groupby("solver", observed=True)["solved"].mean() >= 0.5


def _rounded(vector: Any) -> list[float]:
    return [float(f"{v:.9g}") for v in vector]
