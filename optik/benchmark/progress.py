"""A progress bar with rate and time left on a terminal; one line at each end in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    """Solves a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


@contextmanager
def progress(title: str, *, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
    """Shows how far a run has come on standard error.

    Args:
        title: what is being done.
        total: how many solves there are.
        done: how many of them were done before.

    Yields:
        A function that counts one more, or so many.
    """
    console = Console(file=sys.stderr)
    before = f", {done} done before" if done else ""
    if not console.is_terminal:
        began, count = time.monotonic(), 0
        print(f"{title}: {total} solves{before}", file=sys.stderr, flush=True)

        def count_only(n: int = 1) -> None:
            nonlocal count
            count += n

        yield count_only
        seconds = time.monotonic() - began
        print(f"{title}: {count} solves in {seconds:.1f} s", file=sys.stderr, flush=True)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        refresh_per_second=4,
    )
    with bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda n=1: bar.advance(task, n)
