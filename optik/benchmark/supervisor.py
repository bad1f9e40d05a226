"""Keeps a worker process at work and charges each of its deaths to the solve that caused it."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from optik.benchmark.columns import Row
from optik.benchmark.phases import IDLE, IN_BULK, PHASES, SETTING_UP, SOLVING
from optik.benchmark.plan import Plan
from optik.benchmark.solving import Bench
from optik.errors import BenchmarkError

# A block is rows with the numbers of their solves, or an Arrow table (as IPC bytes) of them.
Block = tuple[Sequence[int], list[Row] | bytes]
_POLL = 0.05
_SETUP_GRACE = 120.0
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class CellLostError(Exception):
    """A worker process is gone: which solve it was at, in what phase, how, and after how long."""

    def __init__(self, number: int, phase: int, how: str, elapsed: float) -> None:
        super().__init__(how)
        self.number, self.phase, self.how, self.elapsed = number, phase, how, elapsed


class Cell:
    """A process that runs `cell.py`: orders go in, messages come out, its state can be looked at.

    Attributes:
        messages: what it has said; None at the end.
    """

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="optik-cell-")
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<q", IDLE))
        self._status = Path(name)
        environment = os.environ | dict.fromkeys(_THREADS, "1")
        environment["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "optik.benchmark.cell", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            # Ctrl-C is for the parent alone, which then ends its cells.
            start_new_session=os.name == "posix",
        )
        self.messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._receive, daemon=True)
        self._reader.start()

    def send(self, order: tuple[Any, ...]) -> None:
        """Gives an order; one that cannot be given shows as the end of the messages."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            pickle.dump(order, self._process.stdin)
            self._process.stdin.flush()

    def status(self) -> int:
        """Number of the solve it is at, and the phase; see `phases.py`."""
        return int(struct.unpack("<q", self._status.read_bytes())[0])

    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process at once; from any thread."""
        if self.alive():
            self._process.kill()
        self._process.wait()

    def exit_text(self) -> str:
        """How the process ended."""
        code = self._process.wait()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def close(self) -> None:
        """Ends the process and removes what it left."""
        self.kill()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        self._status.unlink(missing_ok=True)

    def _receive(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                self.messages.put(pickle.load(self._process.stdout))
        except Exception:  # end of the stream, or a message cut short by a kill
            self.messages.put(None)


class _Spare:
    """Processes that finished a run well, kept for the next one: starting one takes a second."""

    def __init__(self) -> None:
        self._cells: list[Cell] = []
        self._lock = threading.Lock()
        atexit.register(self.close)

    def take(self) -> Cell:
        with self._lock:
            while self._cells:
                cell = self._cells.pop()
                if cell.alive():
                    return cell
                cell.close()
        return Cell()

    def keep(self, cell: Cell) -> None:
        with self._lock:
            if len(self._cells) < (os.cpu_count() or 1) and cell.alive():
                self._cells.append(cell)
                return
        cell.close()

    def close(self) -> None:
        with self._lock:
            while self._cells:
                self._cells.pop().close()


_SPARE = _Spare()


class Supervisor:
    """Has solves done in a cell; the deaths of the cell become rows of the solves that caused them.

    Attributes:
        threads: BLAS threads of the cell, as it reports them.
    """

    def __init__(
        self, plan: Plan, payload: bytes, *, kill_after: float, log: Path | None = None
    ) -> None:
        """Gets ready; the process starts with the first solve.

        Args:
            plan: what is to be done.
            payload: the plan, pickled.
            kill_after: seconds after which a solve is ended.
            log: where what solvers print is appended; standard error if None.
        """
        self.plan, self._payload, self._kill_after, self._log = plan, payload, kill_after, log
        self.threads: dict[str, int] = {}
        self._failed = Bench(plan).failed
        self._broken: dict[tuple[int, int], str] = {}
        self._cell: Cell | None = None
        self._stopped = self._busy = False

    def work(self, numbers: Sequence[int], on_block: Callable[[Block], None]) -> None:
        """Has all of the solves done, whatever they do to the process.

        Args:
            numbers: of the solves.
            on_block: is given rows as they come.

        Raises:
            BenchmarkError: if the process dies before it has begun a solve.
        """
        left = dict.fromkeys(numbers)
        stillborn, bulk = 0, self.plan.batch

        def take(block: Block) -> None:
            for number in block[0]:
                left.pop(number, None)
            on_block(block)

        while left:
            broken = [n for n in left if self._kind(n) in self._broken]
            if broken:
                take((broken, [self._failed(n, self._broken[self._kind(n)], 0.0) for n in broken]))
                continue
            try:
                self._have_done(list(left), bulk, take)
            except CellLostError as lost:
                if lost.phase == IDLE or lost.number not in left:
                    stillborn += 1
                    if stillborn > 2:
                        raise BenchmarkError(
                            f"a worker process cannot be started: {lost.how}; "
                            "what it printed is on standard error or in the run's log"
                        ) from lost
                elif lost.phase == IN_BULK:
                    bulk = False  # one of many: the ordinary way finds out which
                elif lost.phase == SETTING_UP:
                    self._broken[self._kind(lost.number)] = f"set-up {lost.how}"
                else:
                    row = self._failed(lost.number, lost.how, lost.elapsed)
                    take(([lost.number], [row]))

    def stop(self) -> None:
        """Ends the process at once; from any thread."""
        self._stopped = True
        if self._cell is not None and self._busy:
            self._cell.kill()

    def close(self) -> None:
        """Lets go of the process; one that is well is kept for the next run."""
        cell, self._cell = self._cell, None
        if cell is None:
            return
        if self._busy:
            cell.close()
        else:
            _SPARE.keep(cell)

    def _have_done(self, numbers: list[int], bulk: bool, on_block: Callable[[Block], None]) -> None:
        """Has the solves done by the present process, or a new one if there is none.

        Raises:
            CellLostError: when it dies, or is killed because a solve takes too long.
        """
        cell = self._ready_cell()
        self._busy = True
        cell.send(("work", numbers, bulk))
        seen, since = cell.status(), time.monotonic()
        while True:
            try:
                message = cell.messages.get(timeout=_POLL)
            except queue.Empty:
                status, now = cell.status(), time.monotonic()
                if status != seen:
                    seen, since = status, now
                elif now - since > self._allowed(status):
                    how = f"killed: still running after {now - since:.3g} s"
                    raise self._lost(cell, how, now - since) from None
                continue
            if message is None:
                raise self._lost(cell, None, time.monotonic() - since)
            if message[0] == "done":
                self._busy = False
                return
            if message[0] == "ready":
                self.threads = message[1]
            else:
                on_block((message[1], message[2]))
            seen, since = cell.status(), time.monotonic()

    def _ready_cell(self) -> Cell:
        if self._stopped:
            raise BenchmarkError("this run has been stopped")
        if self._cell is not None and not self._cell.alive():  # nothing asked for a long time
            self._cell.close()
            self._cell = None
        if self._cell is None:
            self._cell = _SPARE.take()
            log = None if self._log is None else str(self._log)
            paths = [p or os.getcwd() for p in sys.path]
            self._cell.send(("plan", self._payload, self._kill_after, log, paths))
        return self._cell

    def _lost(self, cell: Cell, how: str | None, elapsed: float) -> CellLostError:
        number, phase = divmod(cell.status(), PHASES)
        if how is None:
            how = f"its process {cell.exit_text()}"
        cell.close()
        self._cell, self._busy = None, False
        return CellLostError(number, phase, how, elapsed)

    def _allowed(self, status: int) -> float:
        """Seconds that the present phase may take."""
        return self._kill_after + (0.0 if status % PHASES in (SOLVING, IN_BULK) else _SETUP_GRACE)

    def _kind(self, number: int) -> tuple[int, int]:
        job = self.plan.job(number)
        return job.set, job.solver
