"""The robots in `models/`: one folder each, with a `robot.toml` that says what the model is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from optik.data import data_folder, field_line, is_file, read_toml
from optik.errors import OptikError, RobotError, unknown_name


class RobotFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `models/<robot>/robot.toml` says.

    `frame` is the controlled frame, `joints` those that move, in order; `q_nominal` is the home
    configuration, a keyframe's name or one number a joint; `sampling` says where random values of
    joints without limits are drawn from.
    """

    title: str
    model: str
    frame: str
    joints: list[str]
    q_nominal: str | list[float]
    source: str
    licence: str
    notes: str = ""
    sampling: dict[str, tuple[float, float]] = {}


def bundled_robots() -> list[str]:
    """Names of the robots in `models/`."""
    return sorted(p.parent.name for p in data_folder("models").glob("*/robot.toml"))


def robot_path(name: str) -> Path:
    """Where `models/<name>/robot.toml` is.

    Raises:
        UnknownNameError: if there is no such robot.
    """
    path = data_folder("models") / name / "robot.toml"
    if Path(name).name != name or not is_file(path):
        raise unknown_name("robot", name, bundled_robots())
    return path


def robot_file(name: str | Path) -> RobotFile:
    """Reads `models/<name>/robot.toml`, or a robot.toml anywhere by its path.

    Raises:
        UnknownNameError: if there is no such robot.
        RobotError: if a field is missing, misspelt or of the wrong type; names the file, the line
            and the field.
    """
    path = name if isinstance(name, Path) else robot_path(name)
    if not is_file(path):
        raise RobotError(f"there is no robot file {str(path)!r}")
    file = read_toml(path, RobotFile, RobotError)
    for field in ("source", "licence"):
        if not getattr(file, field).strip():
            raise RobotError(f"{field_line(path, field)}: says nothing; where is the robot from?")
    if not is_file(path.parent / file.model):
        raise RobotError(f"{field_line(path, 'model')}: there is no file {file.model!r} beside it")
    return file


@contextmanager
def blamed_on(path: Path | None, field: str) -> Iterator[None]:
    """Names a robot file's line and field in whatever error its value causes.

    Args:
        path: the robot.toml that the value came from; None if the user gave it.
        field: which field.
    """
    try:
        yield
    except OptikError as error:
        if path is None:
            raise
        raise RobotError(f"{field_line(path, field)}: {error}") from None
