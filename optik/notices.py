"""Signs of life while something is built for long: a record of the logger "optik", never a print.

`logging.getLogger("optik")` says nothing unless the application lets records of level INFO through;
the command line does, on stderr.  Who does not listen pays nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("optik")
PATIENCE = 1.0  # [s]; what takes less needs no word


@contextmanager
def told_if_slow(message: str, *, after: float = PATIENCE) -> Iterator[None]:
    """Logs a message, once, if the block takes longer than `after`.

    Args:
        message: what is being done.
        after: how long to wait with it [s].
    """
    if not LOGGER.isEnabledFor(logging.INFO):
        yield
        return
    timer = threading.Timer(after, LOGGER.info, ("%s", message))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
