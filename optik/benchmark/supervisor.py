"""Keeps a `cell` at work and charges each of its deaths to the solve that caused it."""

from __future__ import annotations

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

from optik.benchmark.plan import Plan
from optik.benchmark.rows import Row
from optik.benchmark.solving import IDLE, SETTING_UP, SOLVING, Bench
from optik.errors import BenchmarkError

# A block is rows with the numbers of their solves, or an Arrow table (as IPC bytes) of them.
Block = tuple[Sequence[int], list[Row] | bytes]
_POLL = 0.05
_SETUP_GRACE = 120.0
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class CellLostError(Exception):
    """A cell is gone; which solve it was at, in what phase, how, and after how long."""

    def __init__(self, number: int, phase: int, how: str, elapsed: float) -> None:
        super().__init__(how)
        self.number, self.phase, self.how, self.elapsed = number, phase, how, elapsed


class Cell:
    """The parent's end of one worker process.

    Attributes:
        threads: BLAS threads of the process, as it reports them.
    """

    def __init__(self, payload: bytes, *, kill_after: float, log: Path | None = None) -> None:
        self._payload, self._limit, self._log = payload, kill_after, log
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.threads: dict[str, int] = {}

    def work(self, numbers: Sequence[int], on_block: Callable[[Block], None]) -> None:
        """Has the solves done; hands blocks on as they arrive.

        Raises:
            CellLostError: when the process dies or is killed because a solve takes too long.
        """
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        try:
            pickle.dump(list(numbers), self._process.stdin)
            self._process.stdin.flush()
        except OSError:
            raise self._death(0.0) from None
        seen, since = self._status(), time.monotonic()
        while True:
            try:
                message = self._messages.get(timeout=_POLL)
            except queue.Empty:
                status, now = self._status(), time.monotonic()
                if status != seen:
                    seen, since = status, now
                elif now - since > self._allowed(status):
                    self._kill()
                    number, phase = divmod(status, 4)
                    how = f"killed: still running after {now - since:.3g} s"
                    raise CellLostError(number, phase, how, now - since) from None
                continue
            if message is None:
                raise self._death(time.monotonic() - since)
            if message[0] == "done":
                return
            if message[0] == "ready":
                self.threads = message[1]
            else:
                on_block((message[1], message[2]))
            seen, since = self._status(), time.monotonic()

    def stop(self) -> None:
        """Ends the process at once; from any thread."""
        self._stopped = True
        self._kill()

    def _allowed(self, status: int) -> float:
        """Seconds that the present phase may take."""
        return self._limit + (0.0 if status % 4 == SOLVING else _SETUP_GRACE)

    def _start(self) -> None:
        if self._stopped:
            raise BenchmarkError("this run has been stopped")
        self._clean()
        handle, name = tempfile.mkstemp(prefix="optik-cell-")
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<q", IDLE))
        self._status_path = Path(name)
        environment = os.environ | dict.fromkeys(_THREADS, "1")
        environment["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
        with contextlib.ExitStack() as stack:
            errors = None if self._log is None else stack.enter_context(self._log.open("ab"))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "optik.benchmark.cell"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                # Ctrl-C is for the parent alone, which then ends its cells.
                start_new_session=os.name == "posix",
            )
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(
            target=_receive, args=(self._process.stdout, self._messages), daemon=True
        ).start()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # dead already: `work` finds out why
            pickle.dump((name, self._payload, self._limit), self._process.stdin)
            self._process.stdin.flush()

    def _status(self) -> int:
        return int(struct.unpack("<q", self._status_path.read_bytes())[0])

    def _death(self, elapsed: float) -> CellLostError:
        assert self._process is not None
        code = self._process.wait()
        how = f"exited with code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"was killed by {signal.Signals(-code).name}"
        number, phase = divmod(self._status(), 4)
        return CellLostError(number, phase, f"its process {how}", elapsed)

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()

    def _clean(self) -> None:
        process = self._process
        if process is None:
            return
        self._kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._status_path.unlink(missing_ok=True)
        self._process = None

    def close(self) -> None:
        """Ends the process and removes what it left."""
        self.stop()
        self._clean()


def _receive(source: Any, messages: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            messages.put(pickle.load(source))
    except Exception:  # end of the stream, or a message cut short by a kill
        messages.put(None)


class Supervisor:
    """Has solves done in a cell; the deaths of the cell become rows of the solves that caused them.

    Attributes:
        cell: the worker process's parent end.
    """

    def __init__(
        self, plan: Plan, payload: bytes, *, kill_after: float, log: Path | None = None
    ) -> None:
        self.plan = plan
        self.cell = Cell(payload, kill_after=kill_after, log=log)
        self._failed = Bench(plan).failed
        self._broken: dict[tuple[int, int], str] = {}

    def work(self, numbers: Sequence[int], on_block: Callable[[Block], None]) -> None:
        """Has all of the solves done, whatever they do to the process.

        Raises:
            BenchmarkError: if the process dies before it has begun a solve.
        """
        left = dict.fromkeys(numbers)
        stillborn = 0

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
                self.cell.work(list(left), take)
                return
            except CellLostError as death:
                if death.phase == IDLE or death.number not in left:
                    stillborn += 1
                    if stillborn > 2:
                        raise BenchmarkError(
                            f"a worker process cannot be started: {death.how}; "
                            "what it printed is on standard error or in the run's log"
                        ) from death
                elif death.phase == SETTING_UP:
                    self._broken[self._kind(death.number)] = f"set-up {death.how}"
                else:
                    row = self._failed(death.number, death.how, death.elapsed)
                    take(([death.number], [row]))

    def _kind(self, number: int) -> tuple[int, int]:
        job = self.plan.job(number)
        return job.set, job.solver
