"""What a run is going to do: every solve has a number, the same in every process.

    number = ((repeat * problems of all sets + problem) * solvers + solver)

Numbers rise in the order in which solves are made, so a machine that slows down or warms up hits
every solver alike: all solvers work on one problem before the next one is touched, and their turn
rotates from problem to problem.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from optik.benchmark.columns import budget_text, posture_text
from optik.benchmark.own import as_solver, drawn_for_each
from optik.errors import BenchmarkError
from optik.problem import Budget, Posture
from optik.problem_sets import STARTS, ProblemSet, Start, load_problem_set
from optik.solvers import Solver

_SEEDS_APART = 1_000_003  # between the seeds of two problems: further than any run has repeats


class Job(NamedTuple):
    """One solve: indices of the set, the problem in it, the solver and the repeat."""

    set: int
    problem: int
    solver: int
    repeat: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Problem sets x solvers x repeats, and the conditions that all of them share."""

    sets: tuple[ProblemSet, ...]
    solvers: tuple[Solver, ...]
    names: tuple[str, ...]
    start: Start | None
    budget: Budget
    posture: Posture | None
    repeats: int
    seed: int
    batch: bool
    timing: str

    @cached_property
    def offsets(self) -> list[int]:
        """Where each set begins in the row of all problems; one more at the end."""
        return [0, *np.cumsum([len(s) for s in self.sets]).tolist()]

    def __len__(self) -> int:
        return self.repeats * self.offsets[-1] * len(self.solvers)

    def job(self, number: int) -> Job:
        """The solve with a number."""
        rest, solver = divmod(number, len(self.solvers))
        repeat, problem = divmod(rest, self.offsets[-1])
        place = bisect_right(self.offsets, problem) - 1
        return Job(place, problem - self.offsets[place], solver, repeat)

    def seed_of(self, job: Job) -> int:
        """The seed of a solve's restarts: `optik.solve(problem, seed=...)` finds the same answer.

        Restarts around a solver are drawn anew for every problem, so that one lucky draw does not
        count for a whole set.  A solver that makes its own starts is built once for a set.
        """
        seed = self.seed + job.repeat
        own = drawn_for_each(self.solvers[job.solver], self.budget)
        return seed + _SEEDS_APART * job.problem if own else seed

    def in_turn(self, numbers: Sequence[int]) -> list[int]:
        """The numbers in the order in which they are worked: the first solver rotates."""
        k = len(self.solvers)
        return sorted(numbers, key=lambda n: (n // k, (n % k - n // k) % k))

    def start_of(self, place: int) -> str:
        """What a row of a set says of its start."""
        return str(self.start or self.sets[place].spec.start)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All that decides what the rows say; what `resume` compares."""
        return {
            "sets": {
                s.name: {
                    "problems": len(s),
                    "digest": set_digest(s),
                    "seed": s.spec.seed,
                    "stratum": s.spec.stratum,
                    "robot": s.robot.name,
                    "position_tolerance": s.spec.position_tolerance,
                    "rotation_tolerance": s.spec.rotation_tolerance,
                }
                for s in self.sets
            },
            "solvers": list(self.names),
            "start": self.start,
            "budget": budget_text(self.budget),
            "posture": posture_text(self.posture),
            "repeats": self.repeats,
            "seed": self.seed,
        }


def make_plan(
    problem_sets: Iterable[str | ProblemSet],
    solvers: Iterable[object],
    *,
    start: Start | None = None,
    budget: Budget | None = None,
    posture: Posture | None = None,
    repeats: int = 1,
    seed: int = 0,
    batch: bool = False,
    timing: str = "alone",
) -> Plan:
    """Checks what was asked for and lays the run out.

    Raises:
        BenchmarkError: for no set or solver, two of one name, or a number below its least.
        UnknownNameError: for a set, solver or start that does not exist.
    """
    for label, given in (("problem_sets", problem_sets), ("solvers", solvers)):
        if isinstance(given, (str, ProblemSet, Solver)):
            raise BenchmarkError(
                f"{label} is a list; write [{given if isinstance(given, str) else '...'!r}]"
            )
    sets = tuple(load_problem_set(s) if isinstance(s, str) else s for s in problem_sets)
    parsed = [as_solver(s) for s in solvers]
    names = [name for _, name in parsed]
    for label, found in (("problem set", [s.name for s in sets]), ("solver", names)):
        if not found:
            raise BenchmarkError(f"a run needs at least one {label}")
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise BenchmarkError(f"two of the {label}s are called {', '.join(map(repr, twice))}")
    if repeats < 1:
        raise BenchmarkError(f"repeats must be at least 1, got {repeats}")
    if seed < 0:
        raise BenchmarkError(f"a seed is zero or more, got {seed}")
    if start is not None and start not in STARTS:
        sets[0].start(start)  # raises, naming the valid ones
    return Plan(
        sets, tuple(s for s, _ in parsed), tuple(names), start,
        Budget() if budget is None else budget, posture, repeats, seed, batch, timing,
    )  # fmt: skip


def set_digest(problem_set: ProblemSet) -> str:
    """A digest of the problems themselves, for sets made in memory as for committed ones."""
    digest = hashlib.sha256(problem_set.robot.name.encode())
    parts = (
        problem_set.positions, problem_set.quaternions, problem_set.axes, problem_set.starts,
        problem_set.robot.lower, problem_set.robot.upper, problem_set.robot.q_nominal,
    )  # fmt: skip
    for part in parts:
        digest.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
    return "sha256:" + digest.hexdigest()
