"""Problem sets: named, frozen lists of problems, read from `problems/`.

A set is two files.  `<set>.toml` says what it is (robot, generator, seed, count, tolerance) and
holds the digest of `<set>.csv`, which holds one problem a row.  The committed CSV *is* the set: a
set is never generated again behind a user's back, and a changed file is refused.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from optik.checks import LARGEST
from optik.data import data_folder, field_line, is_file, read_toml
from optik.errors import OptikError, ProblemSetError, unknown_name
from optik.pose import Array, frozen
from optik.problem import Posture, Problem, Target, Tolerance
from optik.robot import Robot

Start = Literal["home", "mid"]
STARTS: tuple[Start, ...] = ("home", "mid")
POSITION_COLUMNS = ("px", "py", "pz")
QUATERNION_COLUMNS = ("qw", "qx", "qy", "qz")
AXIS_COLUMNS = ("bx", "by", "bz", "wx", "wy", "wz")


class PoolRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many candidates were drawn for a set that a solver's outcome selected."""

    size: int
    selected: int
    rate: float


class SetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `problems/<set>.toml` says.

    `joints` narrows the robot to some of its joints, the others being held at home.  `start` is
    "given" for a set whose rows carry their own starts.
    """

    title: str
    robot: str
    stratum: str
    target: Literal["position", "axis", "pose"]
    generator: str
    seed: int
    count: int
    digest: str = ""
    start: Literal["home", "mid", "given"] = "home"
    position_tolerance: float = 1e-4
    rotation_tolerance: float = 1e-3
    reachable: bool = True
    joints: list[str] | None = None
    options: dict[str, float | str | list[float]] = {}
    pool: PoolRecord | None = None
    notes: str = ""

    def tolerance(self) -> Tolerance:
        """When a problem of the set counts as solved."""
        return Tolerance(self.position_tolerance, self.rotation_tolerance)

    def load_robot(self) -> Robot:
        """The set's robot, narrowed to `joints`."""
        return Robot.load(self.robot, joints=self.joints)


@dataclass(frozen=True, eq=False, repr=False)
class ProblemSet:
    """A named list of problems on one robot.

    Attributes:
        name: the file's stem.
        spec: what the TOML says.
        robot: the robot.
        ids: each problem's number, shape (N,).
        positions: shape (N, 3) [m].
        quaternions: shape (N, 4) wxyz, or None.
        axes: shape (N, 6), body axis then world axis, or None.
        witnesses: a configuration that reaches each target, shape (N, n) [rad or m], or None where
            none is known.
        starts: each problem's own start, shape (N, n) [rad or m], or None where all share one.
    """

    name: str
    spec: SetFile
    robot: Robot
    ids: Array
    positions: Array
    quaternions: Array | None
    axes: Array | None
    witnesses: Array | None
    starts: Array | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        """One line: name, count, kind and robot."""
        return (
            f"<ProblemSet {self.name}: {len(self)} {self.spec.target} problems, {self.robot.name}>"
        )

    def first(self, count: int) -> ProblemSet:
        """The same set cut down to its first `count` problems."""
        cut = slice(0, count)
        return replace(
            self,
            ids=self.ids[cut],
            positions=self.positions[cut],
            quaternions=None if self.quaternions is None else self.quaternions[cut],
            axes=None if self.axes is None else self.axes[cut],
            witnesses=None if self.witnesses is None else self.witnesses[cut],
            starts=None if self.starts is None else self.starts[cut],
        )

    def target(self, i: int) -> Target:
        """The i-th target."""
        if self.quaternions is not None:
            return Target(self.positions[i], quaternion=self.quaternions[i])
        if self.axes is not None:
            return Target(self.positions[i], axis=(self.axes[i, :3], self.axes[i, 3:]))
        return Target(self.positions[i])

    def start(self, start: Start | None = None, *, problem: int = 0) -> Array:
        """Where a problem starts, shape (n,) [rad or m].

        Args:
            start: "home" (nominal) or "mid" (middle of the ranges); the set's own if None.
            problem: its index, which matters where every row carries its own start.
        """
        if start is None and self.starts is not None:
            return self.starts[problem]
        start = self.spec.start if start is None else start  # type: ignore[assignment]
        if start not in STARTS:
            raise unknown_name("start", str(start), STARTS)
        return self.robot.q_nominal if start == "home" else self.robot.q_mid

    def problem(
        self, i: int, *, start: Start | None = None, posture: Posture | None = None
    ) -> Problem:
        """The i-th problem."""
        return Problem(
            self.robot,
            (self.target(i),),
            q_init=self.start(start, problem=i),
            posture=posture,
            tolerance=self.spec.tolerance(),
        )

    def problems(
        self, *, start: Start | None = None, posture: Posture | None = None
    ) -> Iterator[Problem]:
        """All problems in order."""
        for i in range(len(self)):
            yield self.problem(i, start=start, posture=posture)


def problem_set_names() -> list[str]:
    """Names of the bundled problem sets."""
    return sorted(p.stem for p in data_folder("problems").glob("*.toml"))


def read_spec(name: str, folder: Path | None = None) -> SetFile:
    """Reads `<folder>/<name>.toml`; the bundled folder if None.

    Raises:
        UnknownNameError: if there is no such set.
        ProblemSetError: if a field is missing, misspelt or of the wrong type or value; names the
            file, the line and the field.
    """
    place = data_folder("problems") if folder is None else Path(folder)
    path = place / f"{name}.toml"
    # A set is a name, no path: "../models/x" is not in the folder.
    if not isinstance(name, str) or Path(name).name != name or not is_file(path):
        raise unknown_name("problem set", name, [p.stem for p in place.glob("*.toml")])
    spec = read_toml(path, SetFile, ProblemSetError)
    for field in ("position_tolerance", "rotation_tolerance"):
        if not 0 < getattr(spec, field) < np.inf:
            raise ProblemSetError(f"{field_line(path, field)}: needs a positive number")
    if spec.count < 1:
        raise ProblemSetError(f"{field_line(path, 'count')}: needs at least 1")
    return spec


def load_problem_set(name: str, folder: Path | None = None) -> ProblemSet:
    """Reads a problem set and checks its digest.

    Args:
        name: a bundled set's name, or one in `folder`.
        folder: where to look; the bundled problems if None.

    Raises:
        UnknownNameError: if there is no such set.
        ProblemSetError: for a broken row (file, line and column are named) or a wrong digest.
    """
    place = data_folder("problems") if folder is None else folder
    spec = read_spec(name, place)
    path = place / f"{name}.csv"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ProblemSetError(f"{path}: {error.strerror}; run `optik generate {name}`") from None
    try:
        robot = spec.load_robot()
    except OptikError as error:
        line = field_line(place / f"{name}.toml", "robot" if spec.joints is None else "joints")
        raise ProblemSetError(f"{line}: {error}") from None
    part = read_columns(path, content, spec, robot)
    digest = digest_of(content)
    if digest != spec.digest:
        raise ProblemSetError(
            f"{path} does not match the digest in {name}.toml ({digest} against {spec.digest}): "
            f"restore the file, or run `optik generate {name} --write` if the change is meant"
        )
    count = len(part["id"])
    if count != spec.count:
        raise ProblemSetError(f"{path} has {count} problems, {name}.toml says {spec.count}")
    return ProblemSet(
        name=name,
        spec=spec,
        robot=robot,
        ids=frozen(part["id"]),
        positions=_required(part, POSITION_COLUMNS),
        quaternions=_taken(part, QUATERNION_COLUMNS),
        axes=_taken(part, AXIS_COLUMNS),
        witnesses=_taken(part, joint_columns("witness", robot)),
        starts=_taken(part, joint_columns("start", robot)) if spec.start == "given" else None,
    )


def joint_columns(kind: Literal["witness", "start"], robot: Robot) -> tuple[str, ...]:
    """Names of the columns that hold a configuration: one a joint."""
    return tuple(f"{kind}_{joint}" for joint in robot.joint_names)


def expected_columns(spec: SetFile, robot: Robot) -> list[str]:
    """The columns that a set's CSV must have, without the witness and pool columns."""
    columns = ["id", *POSITION_COLUMNS]
    if spec.target == "pose":
        columns += QUATERNION_COLUMNS
    if spec.target == "axis":
        columns += AXIS_COLUMNS
    return columns + list(joint_columns("start", robot) if spec.start == "given" else ())


def digest_of(content: bytes) -> str:
    """SHA-256 of a file's bytes, as the TOML writes it."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def read_columns(path: Path, content: bytes, spec: SetFile, robot: Robot) -> dict[str, Array]:
    """Reads a set's CSV into columns, shape (N,) each.

    Raises:
        ProblemSetError: for a missing or unknown column, or a field that cannot be a target;
            names the file, the line and the column.
    """
    header, rows = _table(path, content)
    expected = expected_columns(spec, robot)
    witness = joint_columns("witness", robot)
    wanted = expected + (list(witness) if any(c in header for c in witness) else [])
    missing = [c for c in wanted if c not in header]
    extra = [c for c in header if c not in (*expected, *witness, "pool_index")]
    if missing or extra:
        raise ProblemSetError(f"{path}, line 1: missing columns {missing}, unknown columns {extra}")
    if len(set(header)) < len(header):
        raise ProblemSetError(f"{path}, line 1: a column stands there twice: {', '.join(header)}")
    try:
        table = np.array([[float(v) for v in row] for row in rows]).reshape(len(rows), len(header))
        sound = bool((np.abs(table) <= LARGEST).all())
        # Python reads "1_0" and digits of other scripts as numbers; nobody means them.
        sound &= all(v.isascii() and "_" not in v for row in rows for v in row)
    except ValueError:
        sound = False
    if not sound:
        raise _broken_row(path, header, rows)
    part = {c: table[:, i] for i, c in enumerate(header)}
    ids = part["id"]
    if (ids < 0).any() or (ids % 1 != 0).any() or len(np.unique(ids)) < len(ids):
        raise ProblemSetError(f"{path}, column 'id': needs whole numbers from 0, each once")
    for columns, low, high in (
        (QUATERNION_COLUMNS, 1.0 - 1e-3, 1.0 + 1e-3),
        (AXIS_COLUMNS[:3], 1e-9, np.inf),
        (AXIS_COLUMNS[3:], 1e-9, np.inf),
    ):
        norms = None if columns[0] not in part else np.linalg.norm(_required(part, columns), axis=1)
        if norms is not None and not ((norms >= low) & (norms <= high)).all():
            i = int(np.flatnonzero((norms < low) | (norms > high))[0])
            raise ProblemSetError(
                f"{path}, line {i + 2}, columns {', '.join(columns)}: norm {norms[i]:.4g}; a "
                "quaternion (w x y z) needs norm 1 to within 1e-3, an axis must not be zero"
            )
    return part


def _table(path: Path, content: bytes) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV in UTF-8, with or without a byte order mark."""
    try:
        lines = list(csv.reader(content.decode("utf-8-sig").splitlines()))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ProblemSetError(f"{path}, line {line}: is not UTF-8, at byte {error.start}") from None
    except csv.Error as error:
        raise ProblemSetError(f"{path}: is no table of comma-separated values: {error}") from None
    return (lines[0], lines[1:]) if lines else ([], [])


def _broken_row(path: Path, header: list[str], rows: list[list[str]]) -> ProblemSetError:
    """The error for the first field that is no finite number, or the first row of wrong length."""
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            return ProblemSetError(
                f"{path}, line {number}: {len(row)} fields, the header has {len(header)}"
            )
        for column, text in zip(header, row, strict=True):
            try:
                plain = text.isascii() and "_" not in text
                value = float(text) if plain else np.nan
                problem = "is not a number" if not plain else "is not finite"
                if abs(value) <= LARGEST:
                    problem = ""
                elif np.isfinite(value):
                    problem = f"is beyond {LARGEST:g}"
            except ValueError:
                problem = "is not a number"
            if problem:
                return ProblemSetError(
                    f"{path}, line {number}, column {column!r}: {text!r} {problem}"
                )
    return ProblemSetError(f"{path} holds no table of numbers")


def _taken(part: dict[str, Array], names: tuple[str, ...]) -> Array | None:
    return _required(part, names) if all(n in part for n in names) else None


def _required(part: dict[str, Array], names: tuple[str, ...]) -> Array:
    return frozen(np.stack([part[n] for n in names], axis=1))
