"""From kernel sources to a compiled module, cached on disk under a key that cannot go stale.

Numba's disk cache watches one source file: it would miss a change in a kernel that lives in another
file, and in every constant.  So the kernels are written out, with their constants, into one file
whose name holds the SHA-256 of its text (which contains the chain, when that is folded in) and of
the versions of Numba, llvmlite, NumPy and Python.  A changed kernel, chain or library is another
file; an old one is never read again.

The folder is `$OPTIK_CACHE_DIR`, or `optik` in the user's cache folder.  Where it cannot be written
the kernels are compiled in memory, which costs the compilation at every start and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import os
import platform
import sys
import tempfile
import threading
import types
from collections.abc import Sequence
from pathlib import Path

from optik.compiled import boxqp, descent, entries, layout, pointers, posture, trig
from optik.compiled.fronts import Kernel, source_of, sources

TRIG: tuple[Kernel, ...] = (trig.sincos,)
SEARCH: tuple[Kernel, ...] = (
    descent.bend,
    descent.rank_table,
    descent.nearest_row,
    descent.pass_over,
    descent.place_start,
    entries.keep,
    entries.fill_goal,
    entries.load_row,
    entries.begin_descent,
    entries.code_of,
    entries.unload_row,
)
POSTURE: tuple[Kernel, ...] = (
    boxqp.box_qp,
    entries.keep,
    entries.fill_goal,
)
_IN = "Array(float64, 1, 'C', readonly=True)"
_OUT = "float64[::1]"
_OUT2 = "float64[:, ::1]"
SOLVE: tuple[Kernel, str] = (
    entries.solve_rows,
    f"void({_IN}, {_IN}, {_IN}, {_IN}, {_OUT}, int64[::1], {_OUT}, {_OUT2}, {_IN}, "
    "int64, int64, int64)",
)
FORWARD: tuple[tuple[Kernel, str], ...] = (
    (entries.forward, f"void({_IN}, {_IN}, {_OUT2}, float64[:, :, ::1])"),
    (entries.repeat_forward, f"float64({_IN}, {_IN}, int64)"),
)
RELAX: tuple[Kernel, str] = (
    posture.relax,
    f"int64({_IN}, {_IN}, {_IN}, {_IN}, {_IN}, {_OUT}, {_OUT}, {_IN}, int64)",
)
_CONSTANT_MODULES = (layout, trig, boxqp, descent)
_HEADER = '''"""Written by optik.compiled.module; safe to delete, made again when needed."""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.types import Array, float64, int64, void

# No reassociation and no assumption about infinities: only fused multiply-add and signed zeros.
inner = numba.njit(
    nogil=True, error_model="numpy", fastmath={"contract", "nsz"}, no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
'''
_LOCK = threading.Lock()
_LOADED: dict[str, types.ModuleType] = {}


def solve_text(front: str) -> str:
    """Writes out the module that solves: constants, `front`, the shared kernels, the entry.

    Args:
        front: what depends on the chain and the problem's shape (optik.compiled.fronts).
    """
    return _text(front, SEARCH, (SOLVE,))


def relax_text(front: str) -> str:
    """Writes out the module of the posture phase; `front` is that of one lane."""
    return _text(_constants(posture) + "\n\n" + front, POSTURE, (RELAX,))


def forward_text(front: str) -> str:
    """Writes out the module that only gives poses and Jacobians."""
    return _text(front, (entries.keep,), FORWARD)


def _text(front: str, kernels: Sequence[Kernel], entry: Sequence[tuple[Kernel, str]]) -> str:
    parts = [_HEADER, _constants(*_CONSTANT_MODULES), _intrinsics(), sources(*TRIG), front]
    parts.append(sources(*kernels))
    for kernel, signature in entry:
        parts.append(
            f"@numba.njit({signature}, nogil=True, error_model='numpy', cache=CACHED)\n"
            + source_of(kernel)
        )
    return "\n\n".join(parts)


def load(name: str, text: str) -> types.ModuleType:
    """Compiles a module's text, or takes it from memory or from the cache folder.

    Args:
        name: what its file is called, before the digest.
        text: the module's source.
    """
    libraries = ("numba", "llvmlite", "numpy")
    versions = f"{[importlib.metadata.version(name) for name in libraries]} {sys.version_info[:2]}"
    digest = hashlib.sha256(f"{versions}\n{text}".encode()).hexdigest()[:32]
    with _LOCK:
        module = _LOADED.get(digest)
        if module is None:
            module = _LOADED[digest] = _load(f"optik_{name}_{digest}", text)
    return module


def cache_folder() -> Path:
    """Where compiled kernels and start tables are kept."""
    chosen = os.environ.get("OPTIK_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:  # no HOME and no such user: a folder that cannot be made, so no cache
        return Path(os.devnull) / "optik"
    if platform.system() == "Windows":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "optik" / "cache"
    if platform.system() == "Darwin":
        return home / "Library" / "Caches" / "optik"
    return Path(os.environ.get("XDG_CACHE_HOME", home / ".cache")) / "optik"


def keep(path: Path, content: bytes) -> bool:
    """Writes a cache file whole or not at all; returns whether it is there.

    A file that is there already is left alone: its name holds the digest of what made it, and a
    new modification time would make Numba compile again.
    """
    try:
        if path.is_file() and path.read_bytes() == content:
            return True
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".optik-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError:
        return False
    return True


def _load(name: str, text: str) -> types.ModuleType:
    path = cache_folder() / f"{name}.py"
    for _ in range(2 if keep(path, text.encode()) else 0):
        try:
            return _execute(name, text, path, cached=True)
        except Exception:  # a damaged cache file raises whatever its bytes lead pickle to
            sys.modules.pop(name, None)
            for damaged in path.parent.glob(f"__pycache__/{name}.*"):
                with contextlib.suppress(OSError):
                    damaged.unlink()
    return _execute(name, text, None, cached=False)


def _execute(name: str, text: str, path: Path | None, *, cached: bool) -> types.ModuleType:
    file = f"<{name}>" if path is None else str(path)
    module = types.ModuleType(name)
    module.__file__ = file
    module.__dict__["CACHED"] = cached
    # Numba pickles references to a function's module by name.
    sys.modules[name] = module
    exec(compile(text, file, "exec"), module.__dict__)
    return module


def _intrinsics() -> str:
    """The pointers' source but for its imports: intrinsics, which are not compiled like kernels."""
    source = inspect.getsource(pointers)
    return source[source.index("def _pointer") :]


def _constants(*modules: types.ModuleType) -> str:
    lines = []
    for module in modules:
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, (int, float)):
                lines.append(f"{name} = {value!r}")
    return "\n".join(lines)
