"""Finds the bundled data: `models/` and `problems/`, in a checkout or in an installed wheel."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import TypeVar

import msgspec

from optik.errors import OptikError

T = TypeVar("T")


def data_folder(name: str) -> Path:
    """Returns the folder of bundled data called `name`.

    In a checkout it stands beside the package, in a wheel inside it.

    Args:
        name: "models" or "problems".

    Raises:
        OptikError: if neither place has it.
    """
    package = Path(__file__).resolve().parent
    # A wheel carries the data inside the package, so that is asked first: a folder that
    # happens to be called "models" in site-packages is never taken for ours.
    for folder in (package / "_data" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise OptikError(f"the bundled folder {name!r} is missing; reinstall optik")


def is_file(path: Path) -> bool:
    """Whether there is a file at a path, which may be too long or otherwise impossible."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_toml(path: Path, kind: type[T], error_type: type[OptikError]) -> T:
    """Reads a TOML file into a msgspec struct.

    Args:
        path: the file.
        kind: the struct that says which fields there are and of which types.
        error_type: what is raised for a broken file.

    Raises:
        OptikError: of `error_type`, for a syntax error, a missing, misspelt or wrongly typed field;
            names the file, the line and the field.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise error_type(f"{path}: {error.strerror}") from None
    try:
        # A byte order mark, which some editors write, is no part of TOML.
        return msgspec.toml.decode(content.removeprefix(codecs.BOM_UTF8), type=kind)
    except msgspec.ValidationError as error:
        text = str(error)
        # "... - at `$.sampling[...]`" for a wrong type, "... unknown field `fram`" for a wrong name
        at = re.search(r"`\$\.(\w+)", text) or re.search(r"unknown field `(\w+)`", text)
        if at is None:  # a missing field stands on no line
            raise error_type(f"{path}: {text}") from None
        raise error_type(f"{field_line(path, at[1])}: {text}") from None
    # Its text names line and column; a file in another encoding has none.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise error_type(f"{path}: {error}") from None


def field_line(path: Path, field: str) -> str:
    """Says where in a TOML file a field stands: "FILE, line N, field 'NAME'"."""
    pattern = re.compile(rf"\s*(\[\s*)?[\"']?{re.escape(field)}[\"']?\s*[=.\]]")
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if pattern.match(line):
            return f"{path}, line {number}, field {field!r}"
    return f"{path}, field {field!r}"
