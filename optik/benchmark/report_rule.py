"""Which two solvers, and which targets, a report looks at closely: a rule that is stated.

The rule.  The pair is the clamped solver that solves most against the other solver that solves
most.  Among the targets that the second solves and the first does not, every set in turn, one robot
after another, gives one: first those on whose solving path a joint is pressed against a limit, for
there clamping and the constrained step part ways, and of those the one that the failing solver
leaves farthest from the target; one of the first four at which it stands still (a false stall) goes
before the others, which may only have run out of iterations.  One place in six goes to the targets
that only the first solves, so that the page does not tell one side of the story.
"""

from __future__ import annotations

from collections.abc import Sequence

from optik.benchmark.report_runs import Runs
from optik.benchmark.report_targets import Key, problem_of, traced
from optik.benchmark.summary import matrix
from optik.errors import BenchmarkError, unknown_name
from optik.problem_sets import ProblemSet
from optik.result import Status

CANDIDATES = 12  # targets of a set whose solving path is looked at: those with the lowest numbers
DIAGNOSED = 4  # of a set's candidates, how many are asked whether the other solver stands still


def story_pair(runs: Runs, wanted: Sequence[str] | None = None) -> tuple[str, str] | None:
    """The two solvers whose difference the report looks at: (baseline, challenger).

    Args:
        runs: the runs.
        wanted: two labels, to choose them by hand.

    Returns:
        The best clamped solver and the best of the others; the worst and the best solver that
        answered where none, or every one, is clamped; None where there is only one.

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
    able = [s for s in order if runs.solver(s) is not None]
    order = able if len(able) > 1 else order
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


def _family(runs: Runs, label: str) -> str | None:
    solver = runs.solver(label)
    return None if solver is None else solver.family


def spread(
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
    for group, problem_set in _in_turn(sets, keys)[:count]:
        mine = [k for k in keys if k[0] == group][:CANDIDATES]
        order = []
        for key in mine:
            problem = problem_of(runs, problem_set, group, key[1])
            path = traced(runs, key, problem, label)
            if any("L" in state or "U" in state for state in path.limits):
                slides.add(key)
            order.append((key not in slides, -float(loser[key]), key))
        queues.append([key for *_, key in sorted(order)])
    picked: list[Key] = []
    while len(picked) < count and any(queues):
        for queue in queues:
            if queue and len(picked) < count:
                picked.append(queue.pop(_first_stall(runs, queue, sets, other)))
    return sorted(picked, key=lambda key: key not in slides)


def _in_turn(sets: dict[str, ProblemSet | None], keys: list[Key]) -> list[tuple[str, ProblemSet]]:
    """The sets with targets to choose from, one robot after another, then each robot's next."""
    named = {group for group, _ in keys}
    seen: dict[str, int] = {}
    placed = []
    for group, problem_set in sets.items():
        if problem_set is not None and group in named:
            name = problem_set.robot.name
            seen[name] = seen.get(name, 0) + 1
            placed.append((seen[name], (group, problem_set)))
    return [entry for _, entry in sorted(placed, key=lambda p: p[0])]


def _first_stall(
    runs: Runs, queue: list[Key], sets: dict[str, ProblemSet | None], loser: str
) -> int:
    """Place of the first target at which the loser stands still, among the first few; else 0."""
    for i, key in enumerate(queue[:DIAGNOSED]):
        problem_set = sets[key[0]]
        assert problem_set is not None
        path = traced(runs, key, problem_of(runs, problem_set, *key), loser)
        if path.solution.status is Status.FALSE_STALL:
            return i
    return 0
