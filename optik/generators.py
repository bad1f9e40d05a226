"""The generators of problem sets: what each `generator` of a `problems/<set>.toml` makes.

    reachable       q uniform in the sampling ranges, target = FK(q)
    at_limit        the same, then `joints` of the limited joints put exactly on a limit, either end
    near_singular   the same, kept where the smallest singular value of the weighted Jacobian at q
                    is below `below`: position rows in m, rotation rows times `rotation_weight`
    clamping_fails  the pool is `reachable`; kept where `solver` fails from the start
    unreachable     position uniform in the bounding box of `box_samples` FK positions, rotation
                    uniform; kept where `solver` fails with `starts` times `iterations` steps,
                    at most `iterations` from one start: presumed, not proved
    starts          one position and axis, `count` random starts

A new generator is one function here and one line in `GENERATORS`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from optik.api import solve
from optik.errors import ProblemSetError
from optik.pose import Array
from optik.problem import Budget, Problem, Target
from optik.robot import Robot
from optik.set_files import (
    AXIS_COLUMNS,
    POSITION_COLUMNS,
    QUATERNION_COLUMNS,
    PoolRecord,
    SetFile,
    joint_columns,
)


@dataclass
class Rows:
    """The columns of a set in the making, by name, and what its pool was."""

    columns: dict[str, list[float]] = field(default_factory=dict)
    pool: PoolRecord | None = None

    def add(self, names: tuple[str, ...], values: Array) -> None:
        """Appends one value to each of the named columns."""
        for name, value in zip(names, values, strict=True):
            self.columns.setdefault(name, []).append(float(value))

    def add_witness(self, spec: SetFile, robot: Robot, q: Array) -> None:
        """Appends the target that configuration `q`, shape (n,), reaches, and `q` itself."""
        pose = robot.forward(q)
        self.add(POSITION_COLUMNS, pose.position)
        if spec.target == "pose":
            self.add(QUATERNION_COLUMNS, pose.quaternion)
        if spec.target == "axis":
            body = np.array(_vector(spec, "body_axis", (1.0, 0.0, 0.0)))
            self.add(AXIS_COLUMNS, np.concatenate((body, pose.rotation @ body)))
        self.add(joint_columns("witness", robot), q)

    def __len__(self) -> int:
        return len(self.columns.get(POSITION_COLUMNS[0], ()))

    def csv(self) -> bytes:
        """The file: numbers written so that they read back bit for bit."""
        text = io.StringIO()
        out = csv.writer(text, lineterminator="\n")
        out.writerow(["id", *self.columns])
        for i, row in enumerate(zip(*self.columns.values(), strict=True)):
            whole = ("pool_index",)
            cells = zip(self.columns, row, strict=True)
            out.writerow([i, *(str(int(v)) if c in whole else repr(v) for c, v in cells)])
        return text.getvalue().encode("utf-8")


def reachable(spec: SetFile, robot: Robot) -> Rows:
    """Targets of configurations drawn uniformly from the sampling ranges."""
    rng, rows = np.random.default_rng(spec.seed), Rows()
    for _ in range(spec.count):
        rows.add_witness(spec, robot, robot.sample(rng))
    return rows


def at_limit(spec: SetFile, robot: Robot) -> Rows:
    """Targets of configurations with exactly `joints` joints on a limit, the others inside."""
    rng, rows = np.random.default_rng(spec.seed), Rows()
    joints = int(_number(spec, "joints"))
    limited = np.flatnonzero(np.isfinite(robot.lower) & np.isfinite(robot.upper))
    if not 1 <= joints <= len(limited):
        raise ProblemSetError(f"{robot.name} has {len(limited)} limited joints, not {joints}")
    for _ in range(spec.count):
        q = robot.sample(rng)
        chosen = rng.permutation(limited)[:joints]
        at_upper = rng.integers(0, 2, joints).astype(bool)
        q[chosen] = np.where(at_upper, robot.upper[chosen], robot.lower[chosen])
        rows.add_witness(spec, robot, q)
    return rows


def near_singular(spec: SetFile, robot: Robot) -> Rows:
    """Targets of configurations whose weighted Jacobian has a singular value below `below`."""
    rng, rows = np.random.default_rng(spec.seed), Rows()
    below, weight = _number(spec, "below", 0.02), _number(spec, "rotation_weight", 0.3)
    drawn = 0
    while len(rows) < spec.count:
        q = robot.sample(rng)
        drawn += 1
        if smallest_singular_value(spec, robot, q, weight) < below:
            rows.add_witness(spec, robot, q)
    rows.pool = PoolRecord(size=drawn, selected=len(rows), rate=len(rows) / drawn)
    return rows


def smallest_singular_value(spec: SetFile, robot: Robot, q: Array, weight: float) -> float:
    """Smallest singular value [m/rad or m/m] of the task Jacobian at `q`, shape (n,).

    Rows: position in m; for a pose the rotation rows times `weight` [m/rad]; for an axis the two
    directions across it, times `weight`.
    """
    J = robot.jacobian(q)
    J[3:] *= weight
    if spec.target == "position":
        J = J[:3]
    elif spec.target == "axis":
        body = np.array(_vector(spec, "body_axis", (1.0, 0.0, 0.0)))
        across = np.linalg.svd((robot.forward(q).rotation @ body).reshape(1, 3))[2][1:]
        J = np.concatenate((J[:3], across @ J[3:]))
    return float(np.linalg.svd(J, compute_uv=False)[-1])


def clamping_fails(spec: SetFile, robot: Robot) -> Rows:
    """The first `count` targets of a `reachable` pool that defeat `solver` from the start."""
    rng, rows = np.random.default_rng(spec.seed), Rows()
    solver = _text(spec, "solver", "clamped-dls")
    start = robot.q_nominal if spec.start == "home" else robot.q_mid
    drawn = 0
    while len(rows) < spec.count:
        candidate = Rows()
        candidate.add_witness(spec, robot, robot.sample(rng))
        if not _solved(spec, robot, candidate, start, solver, Budget()):
            for name, values in candidate.columns.items():
                rows.add((name,), np.array(values))
            rows.add(("pool_index",), np.array([drawn]))
        drawn += 1
    rows.pool = PoolRecord(size=drawn, selected=len(rows), rate=len(rows) / drawn)
    return rows


def unreachable(spec: SetFile, robot: Robot) -> Rows:
    """Random poses near the robot that `solver` cannot reach from `starts` starts."""
    rng, rows = np.random.default_rng(spec.seed), Rows()
    solver, starts = _text(spec, "solver", "box-lm"), int(_number(spec, "starts", 200))
    budget = Budget(iterations=int(_number(spec, "iterations", 25)), restarts=starts - 1)
    seen = [robot.forward(robot.sample(rng)).position for _ in range(_box_samples(spec))]
    low, high = np.min(seen, axis=0), np.max(seen, axis=0)
    drawn = 0
    while len(rows) < spec.count:
        candidate = Rows()
        candidate.add(POSITION_COLUMNS, rng.uniform(low, high))
        quaternion = rng.normal(size=4)  # a normalised normal vector is uniform on the sphere
        if spec.target == "pose":
            candidate.add(QUATERNION_COLUMNS, quaternion / np.linalg.norm(quaternion))
        if not _solved(spec, robot, candidate, robot.q_nominal, solver, budget):
            for name, values in candidate.columns.items():
                rows.add((name,), np.array(values))
            rows.add(("pool_index",), np.array([drawn]))
        drawn += 1
    rows.pool = PoolRecord(size=drawn, selected=len(rows), rate=len(rows) / drawn)
    return rows


def starts(spec: SetFile, robot: Robot) -> Rows:
    """One target from `count` starts drawn uniformly from the sampling ranges."""
    rng, rows = np.random.default_rng(spec.seed), Rows()
    position = np.array(_vector(spec, "position"))
    axes = np.array([*_vector(spec, "body_axis"), *_vector(spec, "world_axis")])
    for _ in range(spec.count):
        rows.add(POSITION_COLUMNS, position)
        rows.add(AXIS_COLUMNS, axes)
        rows.add(joint_columns("start", robot), robot.sample(rng))
    return rows


GENERATORS: dict[str, Callable[[SetFile, Robot], Rows]] = {
    "reachable": reachable,
    "at_limit": at_limit,
    "near_singular": near_singular,
    "clamping_fails": clamping_fails,
    "unreachable": unreachable,
    "starts": starts,
}
SELECTED_BY_A_SOLVER = ("clamping_fails", "unreachable")


def _solved(
    spec: SetFile, robot: Robot, rows: Rows, start: Array, solver: str, budget: Budget
) -> bool:
    def last(names: tuple[str, ...]) -> list[float]:
        return [rows.columns[n][-1] for n in names]

    quaternion = last(QUATERNION_COLUMNS) if spec.target == "pose" else None
    axis = None
    if spec.target == "axis":
        values = last(AXIS_COLUMNS)
        axis = (values[:3], values[3:])
    target = Target(last(POSITION_COLUMNS), quaternion=quaternion, axis=axis)
    problem = Problem(robot, (target,), q_init=start, tolerance=spec.tolerance())
    return solve(problem, solver=solver, budget=budget).success


def _box_samples(spec: SetFile) -> int:
    return int(_number(spec, "box_samples", 2000))


def _number(spec: SetFile, option: str, default: float | None = None) -> float:
    value = spec.options.get(option, default)
    if not isinstance(value, (int, float)):
        raise ProblemSetError(f"the generator {spec.generator!r} needs the number options.{option}")
    return float(value)


def _text(spec: SetFile, option: str, default: str) -> str:
    value = spec.options.get(option, default)
    if not isinstance(value, str):
        raise ProblemSetError(f"the generator {spec.generator!r} needs the text options.{option}")
    return value


def _vector(
    spec: SetFile, option: str, default: tuple[float, ...] | None = None
) -> tuple[float, ...]:
    value = spec.options.get(option, default)
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        raise ProblemSetError(f"the generator {spec.generator!r} needs options.{option}: 3 numbers")
    return tuple(value)
