"""What a solver claims, and the closed sets of words in which outcomes are told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from optik.pose import Array


class Claim(StrEnum):
    """How a solver says it ended; each member equals and prints as its word."""

    CONVERGED = "converged"
    NO_PROGRESS = "no_progress"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"
    NUMERICAL_FAILURE = "numerical_failure"

    @property
    def sentence(self) -> str:
        """What the word means, for a person."""
        return _CLAIMS[self]


_CLAIMS = {
    Claim.CONVERGED: "The solver's own stopping test says that the target is reached.",
    Claim.NO_PROGRESS: "The solver stopped because its steps no longer changed anything.",
    Claim.ITERATION_LIMIT: "The solver used all the iterations it was allowed.",
    Claim.TIME_LIMIT: "The solver used all the time it was allowed.",
    Claim.NUMERICAL_FAILURE: "The solver's numerics broke down.",
}


class Status(StrEnum):
    """The judged outcome of a solve; the same words are the kinds of a diagnosis.

    Each member equals and prints as its word; `sentence` is what the word means.
    """

    SOLVED = "solved"
    FALSE_STALL = "false_stall"
    CONSTRAINED_MINIMUM = "constrained_minimum"
    SINGULAR = "singular"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"
    UNREACHABLE = "unreachable"
    NUMERICAL_FAILURE = "numerical_failure"

    @property
    def sentence(self) -> str:
        """What the word means, for a person."""
        return _STATUSES[self]


_STATUSES = {
    Status.SOLVED: "Every target is reached within tolerance, inside every limit.",
    Status.FALSE_STALL: (
        "The method stands still or goes in circles where a step inside the limits would still "
        "lower the error."
    ),
    Status.CONSTRAINED_MINIMUM: (
        "No small motion inside the limits lowers the error: joint limits hold the arm here."
    ),
    Status.SINGULAR: (
        "To first order no motion lowers the error although no limit holds the arm: it is singular "
        "here."
    ),
    Status.ITERATION_LIMIT: "The iterations ran out while the error was still falling.",
    Status.TIME_LIMIT: "The time ran out while the error was still falling.",
    Status.UNREACHABLE: "Proved: no configuration inside the limits reaches the target.",
    Status.NUMERICAL_FAILURE: "The solver's numerics broke down.",
}


@dataclass(frozen=True, eq=False, slots=True)
class Result:
    """What a solver claims; nothing here has been checked.

    Attributes:
        q: the best configuration found, shape (n,) [rad or m], inside the limits.
        status: how the solver says it ended.
        message: one sentence, with the backend's own word where there is one.
        iterations: steps taken; 0 when the start was already a solution.
        evaluations: forward kinematics calls.
        restarts: starts used after the given one.
        trace: every configuration of the path, shape (k, n), the last row where the method
            stopped; None unless asked for.
        raw_violation: how far a backend's own answer left the limits before it was put back
            [rad or m].
        q_end: where the method stopped, shape (n,), if it says so; it may be worse than q.
    """

    q: Array
    status: Claim
    message: str
    iterations: int
    evaluations: int
    restarts: int = 0
    trace: Array | None = None
    raw_violation: float = 0.0
    q_end: Array | None = None
