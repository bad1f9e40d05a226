"""Turns what a user gives into plain numbers, or says what would have been right.

numpy alone is too lenient for a border: it drops imaginary parts and masks with a warning at most,
reads texts and booleans as numbers, and lets a number through whose square is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from optik.errors import OptikError, brief

LARGEST = 1e12  # [m or rad], or a weight: its fourth power still leaves room in a float64
MOST = 2**31 - 1  # what every backend's own counter can hold
_SEEDS = 2**63 - 1

Array = NDArray[np.float64]
T = TypeVar("T")


def numbers(values: Any, what: str, error: type[OptikError]) -> Array:
    """Returns a float64 copy of real numbers, of whatever shape, not yet known to be finite.

    Args:
        values: a number, or numbers in nested lists or an array.
        what: the beginning of the message: "NAME needs 3 numbers".
        error: what is raised.

    Raises:
        OptikError: of type `error`, for texts, booleans, complex numbers, masks, ragged lists.
    """
    try:
        array = np.asarray(values)
        kind = array.dtype.kind
        # Whole numbers beyond 64 bits come as objects; None would become a NaN.
        if kind == "O" and all(isinstance(v, (int, float, np.number)) for v in array.flat):
            array, kind = array.astype(np.float64), "f"
    except (TypeError, ValueError, OverflowError) as reason:
        raise error(f"{what}: {reason}") from None
    if kind not in "fiu":
        raise error(f"{what}: got {brief(values)}, which holds no real numbers")
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise error(f"{what}: got a masked array; fill what is masked")
    return np.array(array, dtype=np.float64)


def real(value: Any, what: str, error: type[OptikError]) -> float:
    """Returns one finite real number as a float.

    Raises:
        OptikError: of type `error`, "WHAT must be a finite number, got VALUE".
    """
    if type(value) is not float:
        number = isinstance(value, (int, float, np.integer, np.floating))
        if not number or isinstance(value, bool):
            raise error(f"{what} must be a number, got {brief(value)}")
        try:
            value = float(value)
        except OverflowError:
            value = np.inf
    if not -np.inf < value < np.inf:
        raise error(f"{what} must be a finite number, got {value}")
    return float(value)


def positive(value: Any, what: str, error: type[OptikError], *, largest: float = LARGEST) -> float:
    """Returns one positive number, from 1 / largest to largest.

    Raises:
        OptikError: of type `error`.
    """
    number = real(value, what, error)
    if not number > 0.0:
        raise error(f"{what} must be a positive number, got {value!r}")
    if not 1.0 / largest <= number <= largest:
        raise error(f"{what} must lie between {1.0 / largest:g} and {largest:g}, got {value!r}")
    return number


def whole(value: Any, what: str, error: type[OptikError], *, least: int, most: int = MOST) -> int:
    """Returns one whole number from `least` to `most`.

    Raises:
        OptikError: of type `error`.
    """
    if type(value) is not int:
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise error(f"{what} must be a whole number, got {brief(value)}")
        value = int(value)
    if not least <= value <= most:
        raise error(f"{what} must be a whole number from {least} to {most}, got {brief(value)}")
    return value


def seed_number(value: Any, error: type[OptikError]) -> int:
    """Returns a seed: a whole number from 0 to 2^63 - 1."""
    return whole(value, "seed", error, least=0, most=_SEEDS)


def instance(value: Any, kind: type[T], what: str, error: type[OptikError]) -> T:
    """Returns `value` if it is of the type that is asked for.

    Raises:
        OptikError: of type `error`, "WHAT must be a KIND, got TYPE".
    """
    if not isinstance(value, kind):
        raise error(f"{what} must be a {kind.__name__}, got {brief(value)}")
    return value


def listed(
    value: Any, what: str, error: type[OptikError], *, count: int | None = None
) -> list[Any]:
    """Returns the items of a list, tuple or array, of which there are `count`.

    Raises:
        OptikError: of type `error`, for texts, for anything without order or length, and for
            another number of items.
    """
    array = isinstance(value, np.ndarray) and value.ndim > 0
    if not (array or isinstance(value, Sequence)) or isinstance(value, (str, bytes)):
        raise error(f"{what}, got {brief(value)}")
    if count is not None and len(value) != count:
        raise error(f"{what}, got {len(value)}: {brief(value)}")
    return list(value)
