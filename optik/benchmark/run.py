"""Runs solvers over problem sets and judges every answer: one row a solve.

Same targets, start, tolerance, budget and judge for all solvers; a failure stays in the table.

The parts, each readable alone:

    plan.py        what is to be done, numbered; interleaved order
    own.py         what may stand for a solver
    solving.py     one solve: set-up, warm-up, solve, judge, timed apart
    cell.py        the process in which that happens; supervisor.py watches it
    executors.py   one process, several, any concurrent.futures executor, a Dask cluster
    journal.py     the run's folder: rows as they finish, resume, `read_run`
    columns.py     what a row holds; rows.py writes and reads them
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from optik.benchmark.columns import COLUMNS, Row
from optik.benchmark.environment import environment, now, write_json
from optik.benchmark.executors import Crew, crew
from optik.benchmark.journal import Journal, read_run, with_attributes
from optik.benchmark.plan import Plan, make_plan
from optik.benchmark.progress import progress
from optik.benchmark.rows import to_frame, to_table
from optik.benchmark.supervisor import Block
from optik.errors import BenchmarkError
from optik.problem import Budget, Posture
from optik.problem_sets import ProblemSet, Start

__all__ = ["COLUMNS", "read_run", "run"]


def run(
    problem_sets: Sequence[str | ProblemSet],
    solvers: Sequence[Any],
    *,
    start: Start | None = None,
    budget: Budget | None = None,
    posture: Posture | None = None,
    repeats: int = 1,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    workers: int = 1,
    executor: Executor | None = None,
    scheduler: str | None = None,
    isolate: bool = True,
    kill_after: float | None = None,
    batch: bool = False,
    title: str = "solving",
) -> pd.DataFrame:
    """Solves every problem with every solver and judges the answers.

    Args:
        problem_sets: names or sets.
        solvers: names with options, `path.py:Name`, solvers, or functions of a problem; see
            `optik.benchmark.own`.
        start: "home" or "mid"; each set's own if None.
        budget: the same for all; 200 iterations if None.
        posture: a posture objective for every problem, or None.
        repeats: how often everything is repeated; a repeat has the next seed.
        seed: of the restarts.
        out: the run's folder (see `optik.benchmark.journal`); nothing is written if None.
        resume: go on with the run in `out`; it may gain sets, solvers and repeats.
        workers: local processes that solve at once; with more than one, times are marked as not
            comparable.
        executor: any `concurrent.futures` executor, instead of `workers`.
        scheduler: address of a Dask scheduler, instead of `workers` (extra `cluster`).
        isolate: solve in processes of their own, so that a solver that hangs or dies costs one row;
            off, everything happens in this process (or the executor's), where a debugger sees it.
        kill_after: seconds after which a solve is ended from outside; ten times the budget's
            seconds and at least 5 more than them if None, 120 where the budget has no seconds.
        batch: let compiled solvers take whole sets at once (`solve_batch`): their times are then
            averages over a batch.
        title: what the progress bar says.

    Returns:
        One row a solve, in the order of sets, problems and solvers, with the columns `COLUMNS`
        (`optik.benchmark.columns.MEANINGS` says what each holds).

    Raises:
        BenchmarkError: for arguments that cannot be, a folder that holds another run, or a full
            disk.
        UnknownNameError: for a set, solver, option or start that does not exist.
        KeyboardInterrupt: after the rows so far have been made safe.
    """
    if sum((workers != 1, executor is not None, scheduler is not None)) > 1:
        raise BenchmarkError("give one of workers=, executor= and scheduler=")
    if workers < 1:
        raise BenchmarkError(f"workers must be at least 1, got {workers}")
    if resume and out is None:
        raise BenchmarkError("resume needs the folder of the run: out=")
    if kill_after is not None and not kill_after > 0:
        raise BenchmarkError(f"kill_after must be positive [s], got {kill_after!r}")
    parallel = workers > 1 or executor is not None or scheduler is not None
    plan = make_plan(
        problem_sets, solvers, start=start, budget=budget, posture=posture, repeats=repeats,
        seed=seed, batch=batch, timing="parallel" if parallel else "alone",
    )  # fmt: skip
    patience = _patience(plan.budget, kill_after)
    folder = None if out is None else Path(out)
    with _Sink(plan, folder, resume=resume) as sink:
        log = None if folder is None else folder / "log.txt"
        with crew(
            plan, workers=workers, executor=executor, scheduler=scheduler, isolate=isolate,
            kill_after=patience, log=log,
        ) as hands:  # fmt: skip
            sink.begin()
            with progress(title, total=len(plan), done=sink.done) as advance:
                _drive(hands, sink, advance)
            sink.threads = hands.threads
        return sink.finish()


def _drive(hands: Crew, sink: _Sink, advance: Callable[[int], None]) -> None:
    for block in hands.work(sink.missing()):
        sink.add(block)
        advance(len(block[0]))


def _patience(budget: Budget, kill_after: float | None) -> float:
    if kill_after is not None:
        return kill_after
    if budget.seconds is None:
        return 120.0
    return max(10 * budget.seconds, budget.seconds + 5.0)


class _Sink(contextlib.AbstractContextManager["_Sink"]):
    """Where rows go: a folder, or memory."""

    def __init__(self, plan: Plan, folder: Path | None, *, resume: bool) -> None:
        self.plan, self.folder = plan, folder
        self.journal = None if folder is None else Journal(folder, plan, resume=resume)
        self.threads: dict[str, int] = {}
        self._tables: list[pa.Table] = []
        self._rows: list[Row] = []
        self._numbers: list[pa.Array] = []
        self._lost: dict[tuple[str, str], int] = {}

    @property
    def done(self) -> int:
        """Rows that were there before."""
        return 0 if self.journal is None else self.journal.rows

    def missing(self) -> Iterator[range]:
        """The solves that have no row, as ranges of numbers in rising order."""
        if self.journal is None:
            yield range(len(self.plan))
            return
        edges = np.flatnonzero(np.diff(np.concatenate(([1], self.journal.done, [1]))))
        for first, last in edges.reshape(-1, 2).tolist():
            yield range(first, last)

    def begin(self) -> None:
        """Writes what is known before the first solve."""
        if self.journal is None:
            return
        self._write_environment(finished=False)
        self._say(f"{self.done} of {len(self.plan)} rows are there; begins")

    def add(self, block: Block) -> None:
        """Takes rows."""
        numbers, rows = block
        if not isinstance(rows, bytes):
            self._notice(rows)
        if self.journal is not None:
            self.journal.append(_table(rows))
            return
        self._numbers.append(pa.array(numbers, type=pa.int64()))
        # A table a block would cost more than the rows in it: they are gathered.
        if isinstance(rows, bytes):
            self._gather()
            self._tables.append(_table(rows))
        else:
            self._rows += rows
            if len(self._rows) > 5000:
                self._gather()

    def finish(self) -> pd.DataFrame:
        """Folds, and returns all rows in order."""
        for (solver, reason), count in self._lost.items():
            solves = "1 solve" if count == 1 else f"{count} solves"
            self._say(f"{solver}: {solves} without a usable answer: {reason}", aloud=True)
        if self.journal is not None:
            assert self.folder is not None
            self.journal.fold()
            self._write_environment(finished=True)
            self._say(f"all {len(self.plan)} rows are there; finished")
            return read_run(self.folder)
        self._gather()
        numbers = pa.chunked_array(self._numbers)
        order = pa.compute.sort_indices(numbers)
        table = pa.concat_tables(self._tables).take(order)
        self._tables.clear()
        return with_attributes(to_frame(table), self.plan.settings)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.journal is None:
            return
        if kind is not None and self.journal.folder.is_dir():
            said = (
                f"stopped by {kind.__name__} with {self.journal.rows} of {len(self.plan)} rows in "
                f"{self.folder}; resume goes on from there"
            )
            with contextlib.suppress(OSError):
                self._say(said, aloud=issubclass(kind, KeyboardInterrupt))
        with contextlib.suppress(OSError):
            self.journal.close()

    def _gather(self) -> None:
        if self._rows:
            self._tables.append(to_table(self._rows))
            self._rows = []

    def _notice(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Counts solves without a usable answer, so that a broken solver is not overlooked."""
        claim, solver, reason, violation = (
            COLUMNS.index(c) for c in ("claim", "solver", "reason", "limit_violation")
        )
        for row in rows:
            if not row[claim] or row[violation] == np.inf:
                key = (row[solver], row[reason])
                if key in self._lost or len(self._lost) < 20:
                    self._lost[key] = self._lost.get(key, 0) + 1

    def _say(self, what: str, *, aloud: bool = False) -> None:
        if aloud:
            print(f"optik: {what}", file=sys.stderr)
        if self.folder is not None:
            with (self.folder / "log.txt").open("a") as log:
                log.write(f"{now()} {what}\n")

    def _write_environment(self, *, finished: bool) -> None:
        assert self.folder is not None
        path = self.folder / "environment.json"
        found = environment(
            solvers=self.plan.solvers, budget=self.plan.budget, settings=self.plan.settings
        )
        if self.threads:
            found["blas_threads"] = self.threads
        session = {k: found[k] for k in ("date", "cpu", "git", "optik", "packages")}
        found["sessions"] = _sessions(path)
        if not finished:
            found["sessions"].append(session | {"rows_before": self.done})
        found["finished"] = finished
        write_json(path, found)


def _table(rows: list[Row] | bytes) -> pa.Table:
    if isinstance(rows, bytes):
        with pa.ipc.open_stream(rows) as reader:
            return reader.read_all()
    return to_table(rows)


def _sessions(path: Path) -> list[Any]:
    try:
        return list(json.loads(path.read_text())["sessions"])
    except (OSError, KeyError, ValueError):
        return []
