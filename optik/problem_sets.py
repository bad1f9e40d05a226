"""Problem sets: named, frozen lists of problems, read from `problems/`.

A set is two files.  `<set>.toml` says what it is (robot, generator, seed, count, tolerance) and
holds the digest of `<set>.csv`, which holds one problem a row.  The committed CSV *is* the set: a
set is never generated again behind a user's back, and a changed file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from optik.data import data_folder, field_line
from optik.errors import OptikError, ProblemSetError, unknown_name
from optik.pose import Array, frozen
from optik.problem import Posture, Problem, Target
from optik.robot import Robot
from optik.set_files import (
    AXIS_COLUMNS,
    POSITION_COLUMNS,
    QUATERNION_COLUMNS,
    SetFile,
    columns_if_there,
    digest_of,
    joint_columns,
    read_columns,
    read_spec,
    stacked,
)

Start = Literal["home", "mid"]
STARTS: tuple[Start, ...] = ("home", "mid")


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
        positions=stacked(part, POSITION_COLUMNS),
        quaternions=columns_if_there(part, QUATERNION_COLUMNS),
        axes=columns_if_there(part, AXIS_COLUMNS),
        witnesses=columns_if_there(part, joint_columns("witness", robot)),
        starts=columns_if_there(part, joint_columns("start", robot))
        if spec.start == "given"
        else None,
    )
