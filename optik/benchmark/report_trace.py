r"""One solve, iteration by iteration: what a picture of it needs.

At every configuration q_k of a path, with e and J of the problem's own cost:

    limits      which joints sit on which limit, and whether the gradient presses them against it
    wanted      d, the damped least-squares step that knows no limits, held to a norm
    promised    1 - |e - J d| / |e|: the share of the error that d would remove, to first order
    kept        1 - |e - J (q_{k+1} - q_k)| / |e|: the share that the step really taken removes
    room        |P| / (|J|_F |e|): the relative projected gradient, 0 where no small motion inside
                the limits lowers the error

A clamped method stands still where much is promised and nothing is kept although there is room;
the constrained step keeps nearly everything, because the joints that are free make up for those
that are not.  None of this is used by a solver: it is computed afterwards, from the path alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from optik.api import solve
from optik.benchmark.report_scene import Scene, packed
from optik.diagnosis.words import count, listed
from optik.evaluation import problem_residual
from optik.pose import Array, frozen
from optik.problem import Budget, Problem
from optik.solution import Solution
from optik.solvers import Solver, parse_solver

ON_LIMIT = 1e-6  # [rad or m]; interior methods stop just short of a limit
DAMPING, STEP_LIMIT = 0.01, 0.2  # of the step without limits, where the solver has none of its own
LONGEST = 400  # configurations of a path that are kept


@dataclass(frozen=True, eq=False)
class Trace:
    """A path and what was computed along it.

    Attributes:
        solver: the solver's string form.
        solution: what it handed back, judged.
        path: shape (k, n) [rad or m], the start first.
        position_error: shape (k,) [m].
        rotation_error: shape (k,) [rad].
        limits: one string a configuration, one letter a joint: "L" on the lower and "U" on the
            upper limit and pressed against it by the gradient, "l" and "u" on it but not pressed,
            "." inside.
        wanted: the step without limits, shape (k, n) [rad or m].
        promised: share of the error it would remove, shape (k,).
        kept: share that the step taken removes, shape (k,); NaN after the last step.
        room: relative projected gradient, shape (k,).
        cut: whether the path was longer than what is kept.
    """

    solver: str
    solution: Solution
    path: Array
    position_error: Array
    rotation_error: Array
    limits: tuple[str, ...]
    wanted: Array
    promised: Array
    kept: Array
    room: Array
    cut: bool

    @property
    def solved(self) -> bool:
        """The judge's word."""
        return self.solution.success

    @property
    def steps(self) -> int:
        """Steps along the path that is kept."""
        return len(self.path) - 1

    def on_limit(self, k: int) -> tuple[str, ...]:
        """Names of the joints on a limit at configuration k."""
        names = self.solution.problem.robot.joint_names
        return tuple(n for n, c in zip(names, self.limits[k], strict=True) if c != ".")

    def as_dict(self, scene: Scene) -> dict[str, Any]:
        """What the page needs: arrays packed as base64, curves rounded to five digits."""
        return {
            "solved": self.solved,
            "status": outcome(self.solution),
            "iterations": self.solution.iterations,
            "restarts": self.solution.restarts,
            "cut": self.cut,
            "story": story(self),
            "steps": self.steps,
            "frames": packed(scene.frames(self.path)),
            "q": packed(self.path),
            "wanted": packed(self.wanted),
            "position": _numbers(self.position_error),
            "rotation": _numbers(self.rotation_error),
            "promised": _numbers(self.promised),
            "kept": _numbers(self.kept),
            "room": _numbers(self.room),
            "limits": list(self.limits),
        }


def trace(
    problem: Problem, solver: str | Solver, *, budget: Budget | None = None, seed: int = 0
) -> Trace:
    """Solves a problem again, keeping the path, and computes what happens along it.

    Args:
        problem: the problem.
        solver: the solver, or its string form.
        budget: what the solve may take.
        seed: of the restarts.

    Returns:
        The trace; of a solver that keeps no path, only its start and its answer.
    """
    solver = parse_solver(solver)
    solution = solve(problem, solver=solver, budget=budget, seed=seed, trace=True)
    path = solution.trace
    if path is None or len(path) == 0:
        path = np.stack((problem.q_start, solution.q))
    cut = len(path) > LONGEST
    path = path[:LONGEST]
    robot = problem.robot
    k, n = path.shape
    residual = problem_residual(robot, problem.shape)
    residual.load(problem)
    damping, step_limit = _step_options(solver)
    position, rotation, promised, room = (np.empty(k) for _ in range(4))
    kept = np.full(k, np.nan)
    wanted = np.zeros((k, n))
    limits = []
    for i, q in enumerate(path):
        at = residual.evaluate(q, jacobian=True)
        e, J = at.e, at.J
        position[i], rotation[i] = at.position_error, at.rotation_error
        size = math.sqrt(float(e @ e))
        d = J.T @ np.linalg.solve(J @ J.T + damping**2 * np.eye(len(e)), e)
        d *= min(1.0, step_limit / max(float(np.linalg.norm(d)), 1e-300))
        wanted[i, residual.free] = d
        promised[i] = _removed(e, J @ d, size)
        if i + 1 < k:
            kept[i] = _removed(e, J @ (path[i + 1] - q)[residual.free], size)
        gradient = np.zeros(n)
        gradient[residual.free] = -(J.T @ e)
        on_lower, on_upper = q <= robot.lower + ON_LIMIT, q >= robot.upper - ON_LIMIT
        projected = np.where(
            (on_lower & (gradient > 0)) | (on_upper & (gradient < 0)), 0.0, gradient
        )
        scale = float(np.linalg.norm(J)) * size
        room[i] = float(np.linalg.norm(projected)) / scale if scale > 0 else 0.0
        limits.append(_letters(on_lower, on_upper, gradient))
    return Trace(
        solver=str(solver),
        solution=solution,
        path=frozen(path),
        position_error=frozen(position),
        rotation_error=frozen(rotation),
        limits=tuple(limits),
        wanted=frozen(wanted),
        promised=frozen(promised),
        kept=frozen(kept),
        room=frozen(room),
        cut=cut,
    )


def outcome(solution: Solution) -> str:
    """The judged status, as a word for people."""
    return solution.status.value.replace("_", " ")


def story(trace: Trace) -> str:
    """Tells in two or three sentences what happened along a path."""
    if trace.solved:
        return _story_of_success(trace)
    last = trace.steps
    parts = [trace.solution.message]
    tail = slice(max(0, last - 20), last)
    promised, kept = trace.promised[tail], trace.kept[tail]
    if np.isfinite(kept).any() and trace.on_limit(last):
        parts.append(
            "Over its last steps the step without limits promises to remove "
            f"{percent(float(np.median(promised)))} of the error; the step taken removes "
            f"{percent(float(np.nanmedian(kept)))}."
        )
    return " ".join(parts)


def _story_of_success(trace: Trace) -> str:
    iterations = count(trace.solution.iterations, "iteration")
    spells = limit_spells(trace)
    if not spells:
        return (
            f"{trace.solver} reaches the target in {iterations}; no joint meets a limit on the way."
        )
    joints = listed(tuple(dict.fromkeys(name for name, *_ in spells)))
    longest = max(spells, key=lambda s: s[3] - s[2])
    name, side, first, last = longest
    touched = [i for i in range(trace.steps) if set(trace.limits[i]) & set("LU")]
    text = (
        f"{trace.solver} reaches the target in {iterations}. On the way {joints} {_verb(joints)} "
        f"on a limit ({name} on its {side} one at iterations {first} to {last})"
    )
    if touched:
        promised = float(np.median(trace.promised[touched]))
        kept = float(np.median(trace.kept[touched]))
        text += (
            f"; there the step without limits promises {percent(promised)} of the error, and the "
            f"step taken removes {percent(kept)}"
        )
    return text + "."


def limit_spells(trace: Trace) -> list[tuple[str, str, int, int]]:
    """Every stay of a joint on a limit: (joint, "lower" or "upper", first, last configuration)."""
    spells = []
    for j, name in enumerate(trace.solution.problem.robot.joint_names):
        letters = [state[j].upper() for state in trace.limits]
        begin = 0
        for i in range(1, len(letters) + 1):
            if i == len(letters) or letters[i] != letters[begin]:
                if letters[begin] != ".":
                    side = "lower" if letters[begin] == "L" else "upper"
                    spells.append((name, side, begin, i - 1))
                begin = i
    return spells


def _verb(joints: str) -> str:
    return "sit" if " and " in joints else "sits"


def percent(share: float) -> str:
    """Writes a share with two digits; 0 where it rounds to that."""
    value = 100 * share
    text = f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
    return ("0" if float(text) == 0 else text.replace("-", "−")) + " %"


def _step_options(solver: Solver) -> tuple[float, float]:
    """Damping and norm of the step without limits: a clamped solver's own, so that it is its."""
    if solver.family == "clamped":
        damping, step_limit = getattr(solver, "damping", None), getattr(solver, "step_limit", None)
        if isinstance(damping, float) and isinstance(step_limit, float):
            return damping, step_limit
    return DAMPING, STEP_LIMIT


def _removed(e: Array, moved: Array, size: float) -> float:
    rest = e - moved
    return 1.0 - math.sqrt(float(rest @ rest)) / size if size > 0 else 0.0


def _letters(on_lower: Array, on_upper: Array, gradient: Array) -> str:
    return "".join(
        ("L" if g > 0 else "l") if lo else ("U" if g < 0 else "u") if up else "."
        for lo, up, g in zip(on_lower, on_upper, gradient, strict=True)
    )


def _numbers(values: Array) -> list[float | None]:
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values]
