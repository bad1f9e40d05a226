"""The fast path: whole arrays through a compiled solver, no object a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optik.benchmark.solving import Bench


def bulk_block(
    bench: Bench, numbers: Sequence[int]
) -> tuple[list[int], tuple[list[int], bytes] | None]:
    """Does what a solver can do in bulk; returns the numbers left over and a block of the rest."""
    return list(numbers), None
