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

from optik.data import data_folder
from optik.errors import ProblemSetError, unknown_name
from optik.pose import Array, frozen
from optik.problem import Posture, Problem, Target, Tolerance
from optik.robot import Robot

Start = Literal["home", "mid"]
STARTS: tuple[Start, ...] = ("home", "mid")
POSITION_COLUMNS = ("px", "py", "pz")
QUATERNION_COLUMNS = ("qw", "qx", "qy", "qz")
AXIS_COLUMNS = ("bx", "by", "bz", "wx", "wy", "wz")


class SetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `problems/<set>.toml` says."""

    title: str
    robot: str
    stratum: str
    target: Literal["position", "axis", "pose"]
    generator: str
    seed: int
    count: int
    digest: str
    start: Start = "home"
    position_tolerance: float = 1e-4
    rotation_tolerance: float = 1e-3
    reachable: bool = True
    options: dict[str, float | str] = {}
    notes: str = ""


@dataclass(frozen=True, eq=False)
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
    """

    name: str
    spec: SetFile
    robot: Robot
    ids: Array
    positions: Array
    quaternions: Array | None
    axes: Array | None
    witnesses: Array | None

    def __len__(self) -> int:
        return len(self.positions)

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
        )

    def target(self, i: int) -> Target:
        """The i-th target."""
        if self.quaternions is not None:
            return Target(self.positions[i], quaternion=self.quaternions[i])
        if self.axes is not None:
            return Target(self.positions[i], axis=(self.axes[i, :3], self.axes[i, 3:]))
        return Target(self.positions[i])

    def start(self, start: Start | None = None) -> Array:
        """The common start, shape (n,): "home" (nominal) or "mid" (middle of the ranges)."""
        start = self.spec.start if start is None else start
        if start not in STARTS:
            raise unknown_name("start", start, STARTS)
        return self.robot.q_nominal if start == "home" else self.robot.q_mid

    def problem(
        self, i: int, *, start: Start | None = None, posture: Posture | None = None
    ) -> Problem:
        """The i-th problem."""
        tolerance = Tolerance(self.spec.position_tolerance, self.spec.rotation_tolerance)
        return Problem(
            self.robot,
            (self.target(i),),
            q_init=self.start(start),
            posture=posture,
            tolerance=tolerance,
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
        ProblemSetError: if a field is missing, misspelt or of the wrong type; names the file.
    """
    place = data_folder("problems") if folder is None else folder
    path = place / f"{name}.toml"
    if not path.is_file():
        raise unknown_name("problem set", name, [p.stem for p in place.glob("*.toml")])
    try:
        return msgspec.toml.decode(path.read_bytes(), type=SetFile)
    except msgspec.DecodeError as error:
        raise ProblemSetError(f"{path}: {error}") from None


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
    robot = Robot.load(spec.robot)
    columns, rows = _rows(path, content, expected_columns(spec.target, robot))
    digest = digest_of(content)
    if digest != spec.digest:
        raise ProblemSetError(
            f"{path} does not match the digest in {name}.toml ({digest} against {spec.digest}): "
            f"restore the file, or run `optik generate {name}` if the change is meant"
        )
    if len(rows) != spec.count:
        raise ProblemSetError(f"{path} has {len(rows)} problems, {name}.toml says {spec.count}")
    table = np.array(rows).reshape(len(rows), len(columns))
    part = {c: table[:, i] for i, c in enumerate(columns)}

    def take(names: tuple[str, ...]) -> Array | None:
        if not all(n in part for n in names):
            return None
        return frozen(np.stack([part[n] for n in names], axis=1))

    positions = take(POSITION_COLUMNS)
    assert positions is not None
    return ProblemSet(
        name=name,
        spec=spec,
        robot=robot,
        ids=frozen(part["id"]),
        positions=positions,
        quaternions=take(QUATERNION_COLUMNS),
        axes=take(AXIS_COLUMNS),
        witnesses=take(tuple(f"witness_{j}" for j in robot.joint_names)),
    )


def expected_columns(target: str, robot: Robot) -> list[str]:
    """The columns that a set's CSV must have; witness columns may be left out altogether."""
    columns = ["id", *POSITION_COLUMNS]
    if target == "pose":
        columns += QUATERNION_COLUMNS
    if target == "axis":
        columns += AXIS_COLUMNS
    return columns + [f"witness_{j}" for j in robot.joint_names]


def digest_of(content: bytes) -> str:
    """SHA-256 of a file's bytes, as the TOML writes it."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _rows(path: Path, content: bytes, expected: list[str]) -> tuple[list[str], list[list[float]]]:
    lines = csv.reader(content.decode("utf-8").splitlines())
    header = next(lines, [])
    bare = [c for c in expected if not c.startswith("witness_")]
    extra = [c for c in header if c not in expected and c != "pool_index"]
    missing = [
        c for c in (expected if any("witness_" in c for c in header) else bare) if c not in header
    ]
    if missing or extra:
        raise ProblemSetError(f"{path}, line 1: missing columns {missing}, unknown columns {extra}")
    rows = []
    for number, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise ProblemSetError(
                f"{path}, line {number}: {len(line)} fields, the header has {len(header)}"
            )
        try:
            values = [float(v) for v in line]
        except ValueError:
            bad = next(i for i, v in enumerate(line) if not _is_number(v))
            raise ProblemSetError(
                f"{path}, line {number}, column {header[bad]!r}: {line[bad]!r} is not a number"
            ) from None
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ProblemSetError(
                f"{path}, line {number}, column {header[bad]!r}: {line[bad]!r} is not finite"
            )
        rows.append(values)
    return header, rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
