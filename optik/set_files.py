"""The two files of a problem set, `<set>.toml` and `<set>.csv`: what they say, and every check.

A broken file is refused by the name of the file, the line and the column.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from optik.checks import LARGEST
from optik.data import data_folder, field_line, is_file, read_toml
from optik.errors import ProblemSetError, unknown_name
from optik.pose import Array, frozen
from optik.problem import Tolerance
from optik.robot import Robot

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
        norms = None if columns[0] not in part else np.linalg.norm(stacked(part, columns), axis=1)
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


def columns_if_there(part: dict[str, Array], names: tuple[str, ...]) -> Array | None:
    """The named columns side by side, shape (N, k), or None if one is not there."""
    return stacked(part, names) if all(n in part for n in names) else None


def stacked(part: dict[str, Array], names: tuple[str, ...]) -> Array:
    """The named columns side by side, shape (N, k)."""
    return frozen(np.stack([part[n] for n in names], axis=1))
