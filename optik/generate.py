"""Makes problem sets: what `problems/<set>.toml` asks for, as the rows of `problems/<set>.csv`.

Two kinds of set.  Those made by forward kinematics (`reachable`, `at_limit`, `near_singular`) come
out again to 1e-12 from their seed alone.  Those selected by a solver's outcome (`clamping_fails`,
`unreachable`) are picked from a pool of candidates that comes out again, row by row; each row says
which candidate it is (`pool_index`), and another platform may pick differently in a few rows.

    reachable       q uniform in the sampling ranges, target = FK(q)
    at_limit        the same, then `joints` of the limited joints put exactly on a limit, either end
    near_singular   the same, kept where the smallest singular value of the weighted Jacobian at q
                    is below `below`: position rows in m, rotation rows times `rotation_weight`
    clamping_fails  the pool is `reachable`; kept where `solver` fails from the start
    unreachable     position uniform in the bounding box of `box_samples` FK positions, rotation
                    uniform; kept where `solver` fails from `starts` starts: presumed, not proved
    starts          one target (`position`, and `axis`, or FK of `witness`), `count` random starts
    listed          nothing is generated: the rows are the source

A new generator is one function here and one line in `GENERATORS`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from optik.api import prepared_solver
from optik.data import data_folder
from optik.errors import ProblemSetError, unknown_name
from optik.evaluation import evaluate
from optik.pose import Array
from optik.problem import Budget, Problem, Target
from optik.problem_sets import (
    AXIS_COLUMNS,
    POSITION_COLUMNS,
    QUATERNION_COLUMNS,
    PoolRecord,
    SetFile,
    digest_of,
    joint_columns,
    read_columns,
    read_spec,
)
from optik.robot import Robot
from optik.solvers import parse_solver

FK_TOLERANCE = 1e-12
POOL_TOLERANCE = 0.01


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
        if not _solved(spec, robot, candidate, start, solver, restarts=0):
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
    seen = [robot.forward(robot.sample(rng)).position for _ in range(_box_samples(spec))]
    low, high = np.min(seen, axis=0), np.max(seen, axis=0)
    drawn = 0
    while len(rows) < spec.count:
        candidate = Rows()
        candidate.add(POSITION_COLUMNS, rng.uniform(low, high))
        quaternion = rng.normal(size=4)  # a normalised normal vector is uniform on the sphere
        if spec.target == "pose":
            candidate.add(QUATERNION_COLUMNS, quaternion / np.linalg.norm(quaternion))
        if not _solved(spec, robot, candidate, robot.q_nominal, solver, restarts=starts - 1):
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


@dataclass(frozen=True)
class Regeneration:
    """What came of generating a set.

    Attributes:
        name: the set.
        count: its number of problems.
        written: whether the CSV and the digest were written.
        largest_difference: largest absolute difference to the committed numbers; None if there was
            no committed file, or if rows were picked differently.
        different_rows: ids of committed rows that were not picked again.
        listed: whether the set has no generator but its rows.
    """

    name: str
    count: int
    written: bool
    largest_difference: float | None = None
    different_rows: tuple[int, ...] = ()
    listed: bool = False

    def __str__(self) -> str:
        """One or two sentences for the command line."""
        if self.listed:
            return f"{self.name}: {self.count} problems, listed as they are; nothing is generated."
        text = f"{self.name}: {self.count} problems"
        if self.different_rows:
            ids = ", ".join(map(str, self.different_rows))
            text += f"; {len(self.different_rows)} rows were not picked again: {ids}"
        if self.largest_difference is not None:
            text += f"; largest difference to the committed file {self.largest_difference:.1e}"
        return text + ("; written." if self.written else ".")


def generate(name: str, *, write: bool = False, folder: Path | None = None) -> Regeneration:
    """Generates a set from its TOML; writes it if it is new, else compares it with the committed.

    Args:
        name: the set; `<folder>/<name>.toml` must exist, its CSV need not.
        write: replace a committed file by what was generated.
        folder: where the set is; the bundled problems if None.

    Returns:
        How the generated rows compare with the committed ones.

    Raises:
        ProblemSetError: if a set made by forward kinematics does not come out again to 1e-12, or
            one selected by a solver differs in more than 1 % of its rows.
    """
    place = data_folder("problems") if folder is None else folder
    spec = read_spec(name, place)
    path = place / f"{name}.csv"
    if spec.generator == "listed":
        content = path.read_bytes()
        if write or not spec.digest:
            _record(place / f"{name}.toml", digest_of(content), None)
        return Regeneration(name, spec.count, write or not spec.digest, listed=True)
    if spec.generator not in GENERATORS:
        raise unknown_name("generator", spec.generator, (*GENERATORS, "listed"))
    robot = spec.load_robot()
    rows = GENERATORS[spec.generator](spec, robot)
    content = rows.csv()
    if write or not path.is_file():
        path.write_bytes(content)
        _record(place / f"{name}.toml", digest_of(content), rows.pool)
        return Regeneration(name, len(rows), True)
    committed = read_columns(path, path.read_bytes(), spec, robot)
    return _compared(name, spec, committed, read_columns(path, content, spec, robot))


def _compared(
    name: str, spec: SetFile, committed: dict[str, Array], made: dict[str, Array]
) -> Regeneration:
    count = len(made["id"])
    different: tuple[int, ...] = ()
    if spec.generator in SELECTED_BY_A_SOLVER:
        again = np.isin(committed["pool_index"], made["pool_index"])
        different = tuple(int(i) for i in committed["id"][~again])
        if len(different) > POOL_TOLERANCE * spec.count:
            raise ProblemSetError(
                f"{name}: {len(different)} of {spec.count} rows were not picked again, more than "
                f"{POOL_TOLERANCE:.0%}: {', '.join(map(str, different))}"
            )
        both = np.isin(made["pool_index"], committed["pool_index"])
        committed = {c: v[again] for c, v in committed.items()}
        made = {c: v[both] for c, v in made.items()}
    if count != spec.count or committed.keys() != made.keys():
        raise ProblemSetError(f"{name}: the generated columns or rows are not those committed")
    if QUATERNION_COLUMNS[0] in made:  # q and -q are the same rotation
        _same_signs(committed, made)
    columns = [c for c in made if c != "id"]
    worst = max(float(np.abs(made[c] - committed[c]).max()) for c in columns)
    if worst > FK_TOLERANCE:
        raise ProblemSetError(
            f"{name}: the generated numbers differ from the committed ones by {worst:.2e}, more "
            f"than {FK_TOLERANCE:.0e}; `optik generate {name} --write` replaces the file"
        )
    return Regeneration(name, count, False, worst, different)


def _same_signs(committed: dict[str, Array], made: dict[str, Array]) -> None:
    dot = np.sum([committed[c] * made[c] for c in QUATERNION_COLUMNS], axis=0)
    for c in QUATERNION_COLUMNS:
        made[c] = made[c] * np.where(dot < 0, -1.0, 1.0)


def _record(path: Path, digest: str, pool: PoolRecord | None) -> None:
    """Writes the digest and the pool into a set's TOML, and leaves everything else as it is."""
    text = path.read_text(encoding="utf-8")
    line = f'digest = "{digest}"'
    if re.search(r"^digest\s*=.*$", text, flags=re.M):
        text = re.sub(r"^digest\s*=.*$", line, text, count=1, flags=re.M)
    else:  # before the first table: below it the line would belong to that table
        head, bracket, tables = text.partition("\n[")
        text = head.rstrip("\n") + f"\n{line}\n" + (f"\n[{tables}" if bracket else "")
    text = re.sub(r"\n*^\[pool\]\n(?:(?!\[).*\n?)*", "\n", text, flags=re.M).rstrip("\n") + "\n"
    if pool is not None:
        rate = f"{pool.rate:.4f}"
        text += f"\n[pool]\nsize = {pool.size}\nselected = {pool.selected}\nrate = {rate}\n"
    path.write_text(text, encoding="utf-8")


def _solved(
    spec: SetFile, robot: Robot, rows: Rows, start: Array, solver: str, *, restarts: int
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
    budget = Budget(restarts=restarts)
    prepared, _ = prepared_solver(parse_solver(solver), robot, problem.shape, budget)
    return evaluate(problem, prepared(problem).q).solved


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
