"""Finds the bundled data: `models/` and `problems/`, in a checkout or in an installed wheel."""

from __future__ import annotations

from pathlib import Path

from optik.errors import OptikError


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
