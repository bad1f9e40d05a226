"""Where a peer's files are, and the environment that is made for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optik.data
from optik.errors import SolverError, unknown_name

ENVIRONMENT_VARIABLE = "OPTIK_PEERS"


def peer_folder(peer: str, folder: str | None = None) -> Path:
    """The folder of a peer: requirements and worker.

    Raises:
        SolverError: if there is no folder of peers, as in an installed wheel.
        UnknownNameError: for a peer that is not in it.
    """
    place = Path(folder) if folder else Path(optik.data.__file__).parents[1] / "studies" / "peers"
    if not place.is_dir():
        raise SolverError(f"there is no folder {place}: peers need a checkout, or folder=")
    known = [p.parent.name for p in place.glob("*/worker.py")]
    if peer not in known:
        raise unknown_name("peer", peer, known)
    return place / peer


def peer_environment(place: Path) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there yet.

    It lies under $OPTIK_PEERS, or the user's cache folder, and is named after the requirements'
    digest and the Python version, so that a changed file makes a new one.

    Raises:
        SolverError: with the installer's last line, if it cannot be made.
    """
    requirements = (place / "requirements.txt").read_bytes()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(requirements + version.encode()).hexdigest()[:12]
    root = Path(os.environ.get(ENVIRONMENT_VARIABLE) or Path.home() / ".cache" / "optik" / "peers")
    final = root / f"{place.name}-{digest}"
    interpreter = final / "bin" / "python"
    if interpreter.exists():
        return interpreter
    root.mkdir(parents=True, exist_ok=True)
    with _removed_on_error(Path(tempfile.mkdtemp(prefix=".making-", dir=root))) as making:
        _run([sys.executable, "-m", "venv", str(making)], place)
        pip = [str(making / "bin" / "python"), "-m", "pip", "install", "-q"]
        _run([*pip, "--disable-pip-version-check", "-r", "requirements.txt"], place)
        try:
            making.rename(final)
        except OSError:  # someone else was faster
            if not interpreter.exists():
                raise
            shutil.rmtree(making)
    return interpreter


@contextmanager
def _removed_on_error(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [s for s in done.stderr.splitlines() if "error" in s.lower()]
        said = (errors or done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise SolverError(f"the environment of peer {place.name!r} cannot be made: {said}")
