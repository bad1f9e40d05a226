"""The process in which other people's code is run: it may raise, hang or die, and costs one row.

The parent (`supervisor.py`) sends a plan, then lists of solve numbers; rows come back in blocks as
they are finished.  Which solve is being worked on, and in what phase, stands in eight bytes of a
shared file, so that the parent knows whom to charge when this process is gone.

Standard output belongs to the solver: whatever it prints goes where standard error goes, to the
run's log or the terminal, and the parent is answered through a descriptor of its own.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO

from optik.benchmark.phases import IDLE, PHASES

# Rows are handed over this often; a row is at risk of being done again for no longer than that.
EVERY = 0.2
# Nothing asked for this long: the parent has forgotten this process.
_FORGOTTEN = 600.0


def main() -> None:
    """Serves one parent until it closes standard input."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()
    try:
        with open(sys.argv[1], "r+b") as file:
            status = mmap.mmap(file.fileno(), 8)
        _serve(orders, answers, status)
    except (BrokenPipeError, queue.Empty):
        pass
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # No interpreter shutdown: a solver's threads or atexit hooks must not keep this alive.
    os._exit(0)


def _listen(source: BinaryIO, orders: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            orders.put(pickle.load(source))
    except BaseException:
        # The parent is gone, even if the solver at work never ends; it cannot tidy up any more.
        with contextlib.suppress(OSError):
            os.unlink(sys.argv[1])
        os._exit(0)


def _serve(orders: queue.SimpleQueue[Any], answers: BinaryIO, status: mmap.mmap) -> None:
    terminal = os.dup(sys.stderr.fileno())
    bench: Any = None
    while True:
        order, *rest = orders.get(timeout=_FORGOTTEN)
        if order == "work":
            numbers, bulk = rest
            _work(bench, numbers, bulk, answers)
            continue
        payload, limit, log, sys.path[:] = rest
        _redirect(terminal, log)
        from threadpoolctl import threadpool_info, threadpool_limits

        from optik.benchmark.solving import Bench

        bench = Bench(pickle.loads(payload), _marker(status, limit))
        threadpool_limits(1)
        _send(answers, ("ready", {t["internal_api"]: t["num_threads"] for t in threadpool_info()}))


def _work(bench: Any, numbers: list[int], bulk: bool, answers: BinaryIO) -> None:
    if bulk:
        from optik.benchmark.bulk import bulk_block

        numbers, block = bulk_block(bench, numbers)
        if block is not None:
            _send(answers, ("block", *block))
    done: list[int] = []
    rows: list[Any] = []
    sent = time.monotonic()
    for number in bench.plan.in_turn(numbers):
        rows.append(bench.row(number))
        done.append(number)
        if time.monotonic() - sent > EVERY:
            _send(answers, ("rows", done, rows))
            done, rows, sent = [], [], time.monotonic()
    bench.mark(0, IDLE)
    _send(answers, ("rows", done, rows))
    _send(answers, ("done",))


def _marker(status: mmap.mmap, limit: float) -> Any:
    """What writes the present solve where the parent sees it."""
    alarm = hasattr(signal, "setitimer")
    if alarm:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def mark(number: int, phase: int) -> None:
        struct.pack_into("<q", status, 0, number * PHASES + phase)
        if alarm:
            # The kernel ends this process if both a solver and the parent have stopped minding.
            signal.setitimer(signal.ITIMER_REAL, 3 * limit + 300 if phase else 0.0)

    return mark


def _redirect(terminal: int, log: str | None) -> None:
    """Sends what solvers print to the run's log, or to the terminal."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    target = terminal
    if log is not None:
        with contextlib.suppress(OSError):
            target = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(target, sys.stdout.fileno())
    os.dup2(target, sys.stderr.fileno())
    if target != terminal:
        os.close(target)


def _send(answers: BinaryIO, message: tuple[Any, ...]) -> None:
    pickle.dump(message, answers, protocol=pickle.HIGHEST_PROTOCOL)
    answers.flush()


if __name__ == "__main__":
    main()
