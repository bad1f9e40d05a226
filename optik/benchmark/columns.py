"""What one row of a run holds.

A row is one solve.  Rows travel as tuples in the order of `COLUMNS`; how they are written and read
is in `optik.benchmark.rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optik.problem import Budget

if TYPE_CHECKING:
    from optik.problem import Posture

# Name, Arrow type, meaning.  Times in seconds, errors in m and rad.
FIELDS: tuple[tuple[str, str, str], ...] = (
    ("problem_set", "string", "name of the problem set"),
    ("problem", "int64", "index in the set"),
    ("robot", "string", "name of the robot"),
    ("stratum", "string", "the set's stratum: reachable, at_limit_1, near_singular, ..."),
    ("solver", "string", "NAME[:option=value,...]"),
    ("start", "string", "home, mid or given"),
    ("repeat", "int64", "0 for the first time"),
    ("seed", "int64", "of the restarts: `optik.solve(problem, seed=...)` finds the same answer"),
    ("solved", "bool", "what MuJoCo says"),
    ("claim", "string", "what the solver says; empty if it never answered"),
    ("false_claim", "bool", "claimed to have converged, and has not solved"),
    ("reason", "string", "why not solved; empty where solved"),
    ("position_error", "float64", "[m], infinite where nothing usable came back"),
    ("rotation_error", "float64", "[rad]"),
    ("limit_violation", "float64", "how far the worst joint is outside its range [rad or m]"),
    ("cost", "float64", "the problem's own cost"),
    ("posture_distance", "float64", "|W (q - q_rest)| [rad or m]"),
    ("joints_at_limit", "int64", "joints on or outside a limit"),
    ("iterations", "int64", "steps; the whole budget where the solver never answered"),
    ("evaluations", "int64", "forward kinematics calls; the same"),
    ("restarts", "int64", "starts used after the given one"),
    ("setup_time", "float64", "building the solver, once for a set and process [s]"),
    ("solve_time", "float64", "the solve alone [s]"),
    ("judge_time", "float64", "the judgement [s]"),
    ("timing", "string", "alone, parallel (not comparable) or batch (divided by its size)"),
    ("message", "string", "the solver's own sentence"),
    ("q", "string", "the configuration, numbers separated by spaces [rad or m]"),
    ("position_tolerance", "float64", "[m]"),
    ("rotation_tolerance", "float64", "[rad]"),
    ("budget", "string", "iterations, restarts, seconds"),
    ("posture", "string", "none, or the posture objective"),
)
COLUMNS = tuple(name for name, _, _ in FIELDS)
MEANINGS = {name: meaning for name, _, meaning in FIELDS}
TIMES = ("setup_time", "solve_time", "judge_time")

Row = tuple[Any, ...]


def one_line(text: str, limit: int = 300) -> str:
    """A text as one line: a row is one line of the journal."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def budget_text(budget: Budget) -> str:
    """How a budget reads in a row and under a table."""
    parts = [f"{budget.iterations} iterations"]
    if budget.restarts:
        parts.append(f"{budget.restarts} restarts")
    if budget.seconds is not None:
        parts.append(f"{budget.seconds:g} s")
    return ", ".join(parts)


def posture_text(posture: Posture | None) -> str:
    """How a posture objective reads in a row."""
    if posture is None:
        return "none"
    rest = "mid-range" if posture.q_rest is None else "given"
    weighted = "" if posture.joint_weights is None else ", weighted joints"
    return f"{rest}, weight {posture.weight:g}{weighted}"
