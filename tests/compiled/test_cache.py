"""The kernel cache: found again, never stale, and not needed."""

from __future__ import annotations

import inspect

import pytest

from optik.compiled import boxqp, core, descent, entries, fold, general, module, posture, rows
from optik.problem import Problem, Target

TINY = """
import numba

@numba.njit("float64(float64)", cache=CACHED)
def twice(x):
    return {factor} * x
"""


_KERNELS = module._LOADED


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_LOADED", {})
    return tmp_path / "cache"


def load(factor: str) -> float:
    return module.load("tiny", TINY.format(factor=factor)).twice(1.5)


def test_a_changed_source_is_another_file(folder):
    assert load("2.0") == 3.0
    assert load("3.0") == 4.5
    assert len(list(folder.glob("optik_tiny_*.py"))) == 2
    assert len(list(folder.glob("__pycache__/*.nbi"))) == 2


def test_found_again_without_a_new_file(folder, monkeypatch):
    load("2.0")
    (kept,) = folder.glob("__pycache__/*.nbc")
    before = kept.stat().st_mtime_ns
    monkeypatch.setattr(module, "_LOADED", {})
    assert load("2.0") == 3.0
    assert [p.stat().st_mtime_ns for p in folder.glob("__pycache__/*.nbc")] == [before]


def test_another_version_of_numba_is_another_file(folder, monkeypatch):
    load("2.0")
    monkeypatch.setattr(module, "_LOADED", {})
    monkeypatch.setattr(module.importlib.metadata, "version", lambda name: "999")
    assert load("2.0") == 3.0
    assert len(list(folder.glob("optik_tiny_*.py"))) == 2


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OPTIK_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(module, "_LOADED", {})
    assert load("2.0") == 3.0


def test_a_damaged_cache_is_compiled_again(folder, monkeypatch):
    load("2.0")
    for path in folder.glob("__pycache__/*"):
        path.write_bytes(b"damaged")
    monkeypatch.setattr(module, "_LOADED", {})
    assert load("2.0") == 3.0


def test_every_kernel_is_part_of_what_is_hashed(arm7):
    """A kernel that the modules call but do not contain would be missing or stale."""
    pose = arm7.forward(arm7.q_nominal)
    shape = Problem(arm7, (Target(pose.position, quaternion=pose.quaternion),)).shape
    made = core.Core(arm7, shape, core.Settings(table_size=0), folded=False)
    text, relax = made._text, module.relax_text(made._front)
    clipped = core.Core(arm7, shape, core.Settings(table_size=0, projected=True), folded=False)
    straight = core.Core(arm7, shape, core.Settings(table_size=0), folded=True)
    everything = text + relax + clipped._text + straight._text
    for part in (boxqp, descent, general, rows):
        for name, function in inspect.getmembers(part, inspect.isfunction):
            if function.__module__ == part.__name__:
                assert f"def {name}(" in everything, name
    assert "def solve_rows(" in text and "def fill_goal(" in text
    assert inspect.getsource(entries.solve_rows) in text
    assert inspect.getsource(posture.relax) in relax
    folded = core.Core(arm7, shape, core.Settings(table_size=0), folded=True)
    lengths = [float(v) for j in folded.chains[0].joints for v in j.offset if abs(v) > 0.01]
    assert any(repr(v) in folded._text for v in lengths)
    assert fold.trig_count(folded.chains) == 8


def test_start_table_is_the_same_from_cache_and_built(arm7, folder):
    shape = Problem(arm7, (Target([0.4, 0.1, 0.9]),)).shape
    settings = core.Settings(table_size=20)
    # Only the table is built in the empty folder; the kernels of this process are used again.
    module._LOADED.update(_KERNELS)
    built = core.Core(arm7, shape, settings, folded=False)
    assert len(list(folder.glob("*.npy"))) == 1
    again = core.Core(arm7, shape, settings, folded=False)
    assert built.fixed.tobytes() == again.fixed.tobytes()
    (path,) = folder.glob("*.npy")
    path.write_bytes(b"damaged")
    assert core.Core(arm7, shape, settings, folded=False).fixed.tobytes() == built.fixed.tobytes()
