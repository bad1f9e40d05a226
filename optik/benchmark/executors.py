"""Who does the solves: one process, several, any concurrent.futures executor, a Dask cluster.

Every way ends in the same function, `_work`: a list of solve numbers in, blocks of rows out.  With
isolation, whoever is asked keeps a worker process of its own (`supervisor.py`), so a solver that
hangs or dies never takes an executor's worker with it.

Solves are handed out in chunks of about half a second, rising numbers first, never more of them at
once than keeps every worker busy; so an interrupted run has done the first part of its plan.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from optik.benchmark.cell import EVERY
from optik.benchmark.columns import Row
from optik.benchmark.own import portable
from optik.benchmark.plan import Plan
from optik.benchmark.solving import Bench
from optik.benchmark.supervisor import Block, Supervisor
from optik.errors import BenchmarkError

_CHUNK_SECONDS = 0.5
_SMALLEST, _SMALLEST_BULK, _LARGEST = 8, 2000, 20_000
_LOCAL = threading.local()


class Crew(ABC):
    """Does solves by number and hands back blocks of rows as they come.

    Attributes:
        threads: BLAS threads of the workers, once one has reported them.
    """

    def __init__(self) -> None:
        self.threads: dict[str, int] = {}

    @abstractmethod
    def work(self, ranges: Iterator[range]) -> Iterator[Block]:
        """Does all of the solves, in chunks."""


class Here(Crew):
    """This process and thread, without isolation."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._bench = Bench(plan)

    def work(self, ranges: Iterator[range]) -> Iterator[Block]:
        """See `Crew.work`."""
        chunks = _Chunks(ranges, self._bench.plan, workers=1)
        while chunk := chunks.next():
            for block in _blocks(self._bench, chunk):
                chunks.count(len(block[0]))
                yield block


class Pool(Crew):
    """Any executor; rows come back when a chunk is done, or as they are finished if `live`."""

    def __init__(
        self,
        plan: Plan,
        executor: Executor,
        *,
        workers: int,
        task: Callable[[list[int]], tuple[Any, ...]],
        live: queue.SimpleQueue[Block] | None = None,
    ) -> None:
        super().__init__()
        self.plan, self.executor, self.workers = plan, executor, workers
        self._task, self._live = task, live

    def work(self, ranges: Iterator[range]) -> Iterator[Block]:
        """See `Crew.work`."""
        chunks = _Chunks(ranges, self.plan, workers=self.workers)
        pending: dict[Future[list[Block]], list[int]] = {}
        lost: BenchmarkError | None = None
        try:
            while True:
                # One chunk waits for each that is worked on, so that nobody is ever idle.
                while lost is None and len(pending) < 2 * self.workers and (chunk := chunks.next()):
                    function, *arguments = self._task(chunk)
                    pending[self.executor.submit(function, *arguments)] = chunk
                finished, _ = wait(pending, timeout=0.05, return_when=FIRST_COMPLETED)
                blocks: list[Block] = []
                for future in finished:
                    chunk = pending.pop(future)
                    try:
                        blocks += future.result()
                    except Exception as error:
                        lost = lost or _lost(chunk, error)
                # After the results: whatever a finished chunk has put there is there by now.
                for block in [*self._drain(), *blocks]:
                    chunks.count(len(block[0]))
                    yield block
                if not pending and lost is not None:  # what the others were doing is safe now
                    raise lost
                if not pending and not chunks.more:
                    return
        finally:
            for future in pending:
                future.cancel()

    def _drain(self) -> list[Block]:
        blocks: list[Block] = []
        while self._live is not None:
            try:
                blocks.append(self._live.get_nowait())
            except queue.Empty:
                break
        return blocks


def _lost(chunk: list[int], error: Exception) -> BenchmarkError:
    if isinstance(error, BenchmarkError):
        return error
    found = BenchmarkError(
        f"the executor lost {len(chunk)} solves ({type(error).__name__}: {error}); the rows of a "
        "run with out= are safe, and resume does the missing ones"
    )
    found.__cause__ = error
    return found


class _Chunks:
    """Cuts ranges of solve numbers into chunks that take about half a second each."""

    def __init__(self, ranges: Iterator[range], plan: Plan, *, workers: int) -> None:
        self._ranges, self._solvers, self._workers = ranges, len(plan.solvers), workers
        self._least = _SMALLEST_BULK if plan.batch else _SMALLEST
        self._range: range | None = None
        self._began, self._done = time.monotonic(), 0
        self.more = True

    def count(self, rows: int) -> None:
        """Learns how fast rows come."""
        if self._done == 0:  # set-up is not a rate
            self._began = time.monotonic()
        self._done += rows

    def next(self) -> list[int]:
        """The next chunk; empty when there is none left."""
        while not self._range:
            self._range = next(self._ranges, None)
            if self._range is None:
                self.more = False
                return []
        seconds = time.monotonic() - self._began
        rate = self._done / seconds if self._done and seconds > 0.1 else 0.0
        size = int(rate / self._workers * _CHUNK_SECONDS)
        # Whole problems, so that the solvers of one problem stay together.
        size = (
            max(self._least, min(size, _LARGEST)) // self._solvers * self._solvers or self._solvers
        )
        first = self._range.start
        cut = min(len(self._range), size - first % self._solvers)
        chunk, self._range = self._range[:cut], self._range[cut:]
        return list(chunk)


@contextmanager
def crew(
    plan: Plan,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    scheduler: str | None = None,
    isolate: bool = True,
    kill_after: float = 120.0,
    log: Path | None = None,
) -> Iterator[Crew]:
    """Brings together who does a plan's solves; lets go of them at the end.

    Args:
        plan: what is to be done.
        workers: local processes.
        executor: any `concurrent.futures` executor, left open.
        scheduler: address of a Dask scheduler.
        isolate: whether every worker solves in a process of its own.
        kill_after: seconds after which a solve is ended.
        log: where local worker processes write what solvers print; standard error if None.
    """
    if executor is None and scheduler is None and not isolate and workers == 1:
        yield Here(plan)
        return
    payload = portable(plan)
    key = hashlib.sha256(payload).hexdigest()
    if scheduler is not None:
        with _dask(scheduler) as client:
            # Sent to every worker once, instead of with every chunk.
            shared = client.scatter(payload, broadcast=True)
            count = max(1, sum(client.nthreads().values()))
            yield Pool(
                plan, client.get_executor(pure=False), workers=count,
                task=lambda chunk: (_work, shared, key, chunk, isolate, kill_after),
            )  # fmt: skip
    elif executor is not None:
        yield Pool(
            plan, executor, workers=getattr(executor, "_max_workers", None) or os.cpu_count() or 1,
            task=lambda chunk: (_work, payload, key, chunk, isolate, kill_after),
        )  # fmt: skip
    else:
        with _LocalCrew(plan, payload, workers, isolate, kill_after, log) as pool:
            yield pool


class _LocalCrew(Pool, AbstractContextManager["_LocalCrew"]):
    """Threads of this process, each with a worker process (or, without isolation, alone)."""

    def __init__(
        self, plan: Plan, payload: bytes, workers: int, isolate: bool, kill_after: float,
        log: Path | None,
    ) -> None:  # fmt: skip
        live: queue.SimpleQueue[Block] = queue.SimpleQueue()
        threads = ThreadPoolExecutor(workers, thread_name_prefix="optik")
        super().__init__(
            plan, threads, workers=workers, live=live, task=lambda chunk: (self._one, chunk)
        )
        self._queue = live
        self._make: Callable[[], Supervisor] = lambda: Supervisor(
            plan, payload, kill_after=kill_after, log=log
        )
        self._isolate = isolate
        self._supervisors: list[Supervisor] = []
        self._mine: Any = threading.local()

    def _one(self, chunk: list[int]) -> list[Block]:
        if not self._isolate:
            bench = getattr(self._mine, "bench", None)
            if bench is None:
                bench = self._mine.bench = Bench(self.plan)
            for block in _blocks(bench, chunk):
                self._queue.put(block)
            return []
        supervisor: Supervisor | None = getattr(self._mine, "supervisor", None)
        if supervisor is None:
            supervisor = self._mine.supervisor = self._make()
            self._supervisors.append(supervisor)
        supervisor.work(chunk, self._queue.put)
        self.threads = supervisor.threads
        return []

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # Killed first: a thread that waits for a hanging solve would never come back.
        for supervisor in self._supervisors:
            supervisor.stop()
        self.executor.shutdown(wait=True, cancel_futures=True)
        for supervisor in self._supervisors:
            supervisor.close()


def _work(
    payload: bytes, key: str, chunk: list[int], isolate: bool, kill_after: float
) -> list[Block]:
    """Does a chunk in an executor's worker, which keeps its solvers for the next one."""
    kept = getattr(_LOCAL, "kept", None)
    if kept is None or kept[0] != (key, isolate, kill_after):
        if kept is not None and isinstance(kept[1], Supervisor):
            kept[1].close()
        plan: Plan = pickle.loads(payload)
        worker = Supervisor(plan, payload, kill_after=kill_after) if isolate else Bench(plan)
        kept = _LOCAL.kept = ((key, isolate, kill_after), worker)
    worker = kept[1]
    if isinstance(worker, Bench):
        return list(_blocks(worker, chunk))
    blocks: list[Block] = []
    worker.work(chunk, blocks.append)
    return blocks


def _blocks(bench: Bench, chunk: Sequence[int]) -> Iterator[Block]:
    from optik.benchmark.bulk import bulk_block

    numbers = list(chunk)
    if bench.plan.batch:
        numbers, block = bulk_block(bench, numbers)
        if block is not None:
            yield block
    done: list[int] = []
    rows: list[Row] = []
    since = time.monotonic()
    for number in bench.plan.in_turn(numbers):
        rows.append(bench.row(number))
        done.append(number)
        if time.monotonic() - since > EVERY:
            yield done, rows
            done, rows, since = [], [], time.monotonic()
    if done:
        yield done, rows


@contextmanager
def _dask(address: str) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise BenchmarkError(
            "a Dask scheduler needs the extra `cluster`: pip install 'optik[cluster]'"
        ) from None
    client: Any = distributed
    try:
        client = client.Client(address, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise BenchmarkError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        yield client
