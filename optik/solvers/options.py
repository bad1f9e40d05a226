"""Checks a solver's options against their annotations, once, for every solver there is.

A dataclass takes whatever it is given.  Here each field of a plain type (a number, a yes or no, a
text, one of some words, or None) is held to it, and a numpy number becomes Python's own, so that
equal options make equal solvers and one string form.
"""

from __future__ import annotations

import types
from dataclasses import fields
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from optik.checks import MOST
from optik.errors import SolverError, brief

_SMALLEST, _LARGEST = 1e-300, 1e12  # below and above, products are no numbers any more
_EPSILON = 2.3e-16  # a relative tolerance below it is none, as scipy warns
_SEED = 2**63 - 1
_WORDS = {float: "a finite number", int: "a whole number", bool: "true or false", str: "a text"}
_WRONG = object()


def check_options(solver: Any) -> None:
    """Holds every option of a solver to its annotation.

    Raises:
        SolverError: "NAME: OPTION must be ..., got VALUE".
    """
    for name, kinds in _kinds(solver.__class__).items():
        value = getattr(solver, name)
        choices = [c for k in kinds if get_origin(k) is Literal for c in get_args(k)]
        for kind in kinds:
            fitting = _fitted(value, kind, name)
            if fitting is not _WRONG:
                object.__setattr__(solver, name, fitting)
                break
        else:
            if choices:
                valid = ", ".join(map(str, choices))
                raise SolverError(f"{solver.name}: {name}={brief(value)}; valid: {valid}")
            words = " or ".join(_WORDS.get(k, "none") for k in kinds)
            raise SolverError(f"{solver.name}: {name} must be {words}, got {brief(value)}")


@lru_cache(maxsize=256)
def _kinds(cls: Any) -> dict[str, tuple[Any, ...]]:
    """The plain types that each option may have; options of other types are left out."""
    hints = get_type_hints(cls)
    out = {}
    for field in fields(cls):
        hint = hints[field.name]
        kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        plain = (float, int, bool, str, type(None))
        if all(k in plain or get_origin(k) is Literal for k in kinds):
            out[field.name] = kinds
    return out


def _fitted(value: Any, kind: Any, name: str) -> Any:
    """The value as that type, or `_WRONG`."""
    if get_origin(kind) is Literal:
        known = isinstance(value, (str, int)) and value in get_args(kind)
        return value if known else _WRONG
    truth = isinstance(value, (bool, np.bool_))
    if kind is bool:
        return bool(value) if truth else _WRONG
    if kind is float and isinstance(value, (int, float, np.integer, np.floating)) and not truth:
        try:
            number = float(value)
        except OverflowError:
            return _WRONG
        smallest = _EPSILON if name == "tolerance" else _SMALLEST
        return number if number == 0.0 or smallest <= abs(number) <= _LARGEST else _WRONG
    if kind is int and isinstance(value, (int, np.integer)) and not truth:
        return int(value) if abs(int(value)) <= (_SEED if name == "seed" else MOST) else _WRONG
    if kind is str or kind is type(None):
        return value if isinstance(value, kind) else _WRONG
    return _WRONG
