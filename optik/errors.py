"""One tree for every error that wrong input can cause.

A solve that does not converge is a result, never an exception.  What is raised here always
says what was wrong, what would have been right and, for a name, which valid names come close.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OptikError(Exception):
    """Base of everything that optik raises on purpose."""


class UnknownNameError(OptikError, LookupError):
    """A robot, frame, joint, solver, problem set or option that does not exist."""


class RobotError(OptikError, ValueError):
    """A model that cannot be turned into a robot, or a broken robot file."""


class TargetError(OptikError, ValueError):
    """A target whose numbers are not a position, an orientation or an axis."""


class ProblemError(OptikError, ValueError):
    """A start, posture, tolerance or budget that does not fit the robot."""


class SolverError(OptikError, ValueError):
    """A solver option with a value outside its range, or a missing backend."""


class ProblemSetError(OptikError, ValueError):
    """A problem set whose files are broken or do not match their digest."""


class BenchmarkError(OptikError, ValueError):
    """A run, a report or a comparison that was asked for with unusable arguments."""


def unknown_name(kind: str, name: object, valid: Iterable[str]) -> UnknownNameError:
    """Builds the error for a name that is not among the valid ones.

    Args:
        kind: what the name stands for, in the singular ("robot", "frame", ...).
        name: the name that was asked for; anything that is no text is no name.
        valid: the names that exist.

    Returns:
        An error whose message lists the close matches first, then every valid name.
    """
    names = sorted(set(valid))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) if isinstance(name, str) else []
    hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    known = ", ".join(names) if names else "none"
    return UnknownNameError(f"unknown {kind} {brief(name)}.{hint} Valid: {known}.")


def brief(value: object) -> str:
    """A value for a message, on one line and not long."""
    if hasattr(value, "dtype") and getattr(value, "shape", None):
        return f"an array of {value.dtype} of shape {value.shape}"  # type: ignore[attr-defined]
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to write out a whole number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
