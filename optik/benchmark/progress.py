"""A progress bar with rate and time left on a terminal; one line at each end in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress(title: str, *, total: int) -> Iterator[Callable[[], None]]:
    """Shows how far a run has come on standard error.

    Args:
        title: what is being done.
        total: how many steps there are.

    Yields:
        A function that counts one step.
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        print(f"{title}: {total} solves", file=sys.stderr, flush=True)
        yield lambda: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
