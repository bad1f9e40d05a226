"""The layers, the lazy imports, and the data that a wheel must carry."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("casadi", "osqp", "cvxpy", "pandas", "matplotlib")


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return done.stdout


def test_layers_are_kept():
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout


def test_import_pulls_in_nothing_heavy(capsys):
    began = time.perf_counter()
    loaded = python(
        "import sys, optik.api, optik.solvers\n"
        "print(*sorted(m for m in sys.modules if '.' not in m))"
    ).split()
    seconds = time.perf_counter() - began
    assert [name for name in HEAVY if name in loaded] == []
    with capsys.disabled():
        print(f"\nimport optik, interpreter included: {seconds:.2f} s")


def test_help_imports_no_numerics():
    loaded = python(
        "import sys\n"
        "from optik.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted(m for m in sys.modules if '.' not in m))"
    )
    names = loaded.split("LOADED")[1].split()
    assert [n for n in (*HEAVY, "scipy", "mujoco") if n in names] == []


@pytest.mark.parametrize("folder", ["models", "problems"])
def test_data_is_mapped_into_the_wheel(folder):
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    mapped = config["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert mapped[folder] == f"optik/_data/{folder}"


def test_every_file_can_be_read_in_one_sitting():
    """Kernels may be longer where splitting costs inlining; nothing else may."""
    long = {
        str(p.relative_to(ROOT)): n
        for p in (ROOT / "optik").rglob("*.py")
        if "compiled" not in p.parts and (n := len(p.read_text().splitlines())) > 360
    }
    assert long == {}


def test_no_solver_prints_or_times_itself():
    for path in (ROOT / "optik" / "solvers").rglob("*.py"):
        text = path.read_text()
        assert "perf_counter" not in text, path
        assert "print(" not in text, path


def test_every_public_name_is_there():
    import optik

    assert sorted(optik.__all__) == sorted(optik._PUBLIC)
    for name in optik.__all__:
        assert getattr(optik, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'solv'"):
        optik.solv  # noqa: B018
