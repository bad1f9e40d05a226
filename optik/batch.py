"""Many targets at once: `solve_batch`, over all cores, without an object for each row.

Each row is solved by the compiled kernels of `optik.solvers.box_lm`, several rows at once where the
problem's shape allows it, and depends on that row alone, so that the number of threads changes the
time and nothing else.  The kernels release the GIL.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optik.checks import LARGEST, instance, numbers, whole
from optik.compiled.layout import unpacked
from optik.errors import ProblemError, SolverError, TargetError
from optik.pose import Array, canonical_quaternions, unit_rows
from optik.problem import Budget, Problem, Target, Tolerance
from optik.residual import Residual
from optik.result import Claim
from optik.robot import Robot
from optik.solvers import parse_solver
from optik.solvers._prepared_box_lm import MOST_STEPS
from optik.solvers.box_lm import BoxLM
from optik.windings import can_turn_around, nearest_windings

if TYPE_CHECKING:
    from optik.compiled.core import Core

_MOST, _LEAST = 2048, 64  # rows that a thread takes at once
_CODES = (Claim.CONVERGED, Claim.NO_PROGRESS, Claim.ITERATION_LIMIT, Claim.NUMERICAL_FAILURE)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Batch:
    """The answers to N targets, as arrays.

    Attributes:
        robot: the robot.
        q: configurations, shape (N, n) [rad or m], all inside the limits.
        solved: whether the target is within tolerance, shape (N,), by the compiled kinematics.
        codes: index into `claims`, shape (N,), uint8.
        iterations: steps taken, all starts together, shape (N,), int32.
        restarts: starts used after the first, shape (N,), int32.
        position_errors: shape (N,) [m], by the compiled kinematics.
        rotation_errors: shape (N,) [rad], by the compiled kinematics.
        tolerance: what `solved` means.
    """

    robot: Robot
    q: Array
    solved: NDArray[np.bool_]
    codes: NDArray[np.uint8]
    iterations: NDArray[np.int32]
    restarts: NDArray[np.int32]
    position_errors: Array
    rotation_errors: Array
    tolerance: Tolerance
    _positions: Array = field(repr=False)
    _rotations: Array = field(repr=False)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the codes stand for."""
        return _CODES

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        """One line: the robot, how many targets, how many solved."""
        return f"<Batch {self.robot.name}: {int(self.solved.sum())} of {len(self)} targets solved>"

    def judge(self) -> NDArray[np.bool_]:
        """Judges every row by MuJoCo: errors within tolerance, inside every limit; shape (N,)."""
        out = np.empty(len(self), dtype=bool)
        robot, tolerance = self.robot, self.tolerance
        inside = np.all((self.q >= robot.lower) & (self.q <= robot.upper), axis=1)
        residual: Residual | None = None
        for i in range(len(self)):
            target = _target(self._positions[i], self._rotations[i])
            problem = Problem(robot, (target,), tolerance=tolerance)
            if residual is None:
                residual = Residual(robot, problem.shape)
            residual.load(problem)
            position, rotation = residual.errors(self.q[i])
            out[i] = (
                bool(inside[i])
                and position <= tolerance.position
                and rotation <= tolerance.rotation
            )
        return out


def solve_batch(
    robot: Robot,
    positions: ArrayLike,
    quaternions: ArrayLike | None = None,
    *,
    axes: ArrayLike | None = None,
    q_init: ArrayLike | None = None,
    frame: str | None = None,
    solver: str | BoxLM | None = None,
    tolerance: Tolerance | None = None,
    budget: Budget | None = None,
    threads: int | None = None,
) -> Batch:
    """Solves N targets with the compiled solver.

    Args:
        robot: the robot.
        positions: shape (N, 3) [m].
        quaternions: shape (N, 4) wxyz, norm 1 to within 1e-3, or None for positions alone.
        axes: shape (N, 6), body axis then world axis, instead of quaternions.
        q_init: starts, shape (N, n), or (n,) for all [rad or m], moved into the limits; with None
            every row begins with the nearest row of the start table, which takes the fewest
            iterations, or at the robot's home where the solver has no table.
        frame: the controlled frame; the robot's own if None.
        solver: the method, "box-lm" with options or a `BoxLM`; `BoxLM()` if None.
        tolerance: when a target counts as reached; `Tolerance()` if None.
        budget: `iterations * (1 + restarts)` steps for each row; 200 and 24 restarts if None.  Its
            `seconds` are not asked for here.
        threads: how many; every core if None.  The answers do not depend on it.

    Returns:
        The answers as arrays; rows that are not solved hold the best configuration found, without
        the box steps by which `solve` finishes a failed search.  Hinges that turn further than once
        are left in the winding nearest to the start, as by `solve`.

    Raises:
        TargetError: for targets of the wrong shape, not finite, or not unit quaternions.
        ProblemError: for starts of the wrong shape, or a number of threads below 1.
        SolverError: for a solver other than box-lm.
    """
    instance(robot, Robot, "the first argument", ProblemError)
    if isinstance(solver, str):
        solver = cast(BoxLM, parse_solver(solver))
    solver = BoxLM() if solver is None else instance(solver, BoxLM, "solver=", SolverError)
    tolerance = Tolerance() if tolerance is None else tolerance
    instance(tolerance, Tolerance, "tolerance=", ProblemError)
    budget = Budget(restarts=24) if budget is None else budget
    instance(budget, Budget, "budget=", ProblemError)
    places = _rows(positions, 3, "positions")
    total = len(places)
    rotations = np.empty((total, 0))
    if quaternions is not None and axes is not None:
        raise TargetError("give quaternions or axes=, not both")
    if quaternions is not None:
        rotations = _rows(quaternions, 4, "quaternions", total)
        off = np.abs(np.linalg.norm(rotations, axis=1) - 1.0)
        if total and off.max() > 1e-3:
            raise TargetError(
                f"quaternions (w x y z) need norm 1 to within 1e-3; row {int(off.argmax())} is off "
                f"by {off.max():.2g}"
            )
        rotations = canonical_quaternions(rotations) if total else rotations
    if axes is not None:
        rotations = _rows(axes, 6, "axes", total)
        short = np.minimum(
            np.linalg.norm(rotations[:, :3], axis=1), np.linalg.norm(rotations[:, 3:], axis=1)
        )
        if total and short.min() < 1e-9:
            raise TargetError(f"axes: row {int(short.argmin())} holds an axis of length 0")
        rotations = unit_rows(rotations.reshape(-1, 3)).reshape(-1, 6) if total else rotations
    starts = _starts(robot, q_init, total)
    threads = (os.cpu_count() or 1) if threads is None else threads
    threads = whole(threads, "threads", ProblemError, least=1)

    q = np.empty((total, robot.n))
    words = np.empty(total, dtype=np.int64)
    values = np.empty((total, 3))
    if total:
        sample = _target(places[0], rotations[0], frame)
        problem = Problem(robot, (sample,), tolerance=tolerance)
        core = solver.core(robot, problem.shape)
        weight = 1.0 if solver.rotation_weight is None else solver.rotation_weight
        asked = solver.asked(problem, rotation_weight=weight)
        steps = min(budget.iterations * (1 + budget.restarts), MOST_STEPS)
        from_table = q_init is None and solver.starts == "table" and solver.table_size > 0
        first = 1 if from_table else 0
        last = 1 if solver.starts == "given" else first + steps

        piece = min(_MOST, max(_LEAST, -(-total // threads)))

        def part(begin: int) -> None:
            end = min(begin + piece, total)
            own = starts if starts.ndim == 1 else starts[begin:end].reshape(-1)
            core.solve_rows(
                places[begin:end].reshape(-1),
                rotations[begin:end].reshape(-1),
                asked,
                own,
                q[begin:end].reshape(-1),
                words[begin:end],
                values[begin:end].reshape(-1),
                first=first,
                last=last,
                steps=steps,
                abreast=True,
            )

        begins = range(0, total, piece)
        if threads == 1 or len(begins) == 1:
            for begin in begins:
                part(begin)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for _ in pool.map(part, begins):
                    pass
        if can_turn_around(robot):
            _turn(core, places, rotations, asked, starts, q, words, values)
    codes, iterations, restarts = unpacked(words)
    return Batch(
        robot=robot if frame is None else robot.replace(frame_ref=robot.frame_named(frame)),
        q=q,
        solved=codes == 0,
        codes=codes.astype(np.uint8),
        iterations=iterations.astype(np.int32),
        restarts=restarts.astype(np.int32),
        position_errors=np.ascontiguousarray(values[:, 1]),
        rotation_errors=np.ascontiguousarray(values[:, 2]),
        tolerance=tolerance,
        _positions=places,
        _rotations=rotations,
    )


def _turn(
    core: Core,
    places: Array,
    rotations: Array,
    asked: Array,
    starts: Array,
    q: Array,
    words: NDArray[np.int64],
    values: Array,
) -> None:
    """Turns hinges of solved rows to the windings nearest to their starts, as `solve` does.

    The pose is equal to rounding only, so that a row is kept as it was unless the kernel, asked
    for no step, finds it solved after the turn as well.
    """
    robot = core.robot
    reference = np.clip(starts, robot.lower, robot.upper)
    turned = nearest_windings(robot, q, reference)
    rows = np.flatnonzero((unpacked(words)[0] == 0) & (turned != q).any(axis=1))
    if not len(rows):
        return
    found = np.empty((len(rows), robot.n))
    codes, errors = np.empty(len(rows), dtype=np.int64), np.empty((len(rows), 3))
    core.solve_rows(
        places[rows].reshape(-1),
        rotations[rows].reshape(-1),
        asked,
        turned[rows].reshape(-1),
        found.reshape(-1),
        codes,
        errors.reshape(-1),
        last=1,
        steps=0,
    )
    good = unpacked(codes)[0] == 0
    q[rows[good]], values[rows[good]] = found[good], errors[good]


def _rows(values: ArrayLike, width: int, what: str, total: int | None = None) -> Array:
    array = np.ascontiguousarray(numbers(values, f"{what} need shape (N, {width})", TargetError))
    if array.ndim != 2 or array.shape[1] != width or total not in (None, len(array)):
        count = "N" if total is None else str(total)
        raise TargetError(f"{what} need shape ({count}, {width}), got {array.shape}")
    good = np.abs(array) <= LARGEST  # false for a NaN
    if not good.all():
        bad = int(np.flatnonzero(~good.all(axis=1))[0])
        raise TargetError(
            f"{what} need finite numbers up to {LARGEST:g}; row {bad} is {array[bad].tolist()}"
        )
    return array


def _starts(robot: Robot, q_init: ArrayLike | None, total: int) -> Array:
    if q_init is None:
        return np.array(robot.q_nominal)
    array = np.ascontiguousarray(numbers(q_init, "q_init", ProblemError))
    if array.shape not in ((robot.n,), (total, robot.n)) or not np.isfinite(array).all():
        raise ProblemError(
            f"q_init needs finite numbers of shape ({robot.n},) or ({total}, {robot.n}), "
            f"got shape {array.shape}"
        )
    # With one row there is no telling a common start from a row's own, nor any need to.
    return array.reshape(-1) if len(array) == 1 else array


def _target(position: Array, rotation: Array, frame: str | None = None) -> Target:
    if len(rotation) == 4:
        return Target(position, quaternion=rotation, frame=frame)
    if len(rotation) == 6:
        return Target(position, axis=(rotation[:3], rotation[3:]), frame=frame)
    return Target(position, frame=frame)
