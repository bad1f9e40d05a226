"""The signs of life: said once where building takes long, and only to who listens."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import optik
from optik import notices

ROOT = Path(__file__).resolve().parent.parent
# A solver whose building ends only once the notice is out: nothing here depends on a clock.
SLOW = """
import logging, threading
import optik

said, handler = threading.Event(), logging.Handler()
handler.emit = lambda record: said.set()
logging.getLogger("optik").addHandler(handler)

class Slow(optik.Solver):
    name, summary, family = "slow", "waits until somebody is told", "own"

    def prepare(self, robot, shape, budget):
        if not said.wait(60):
            raise RuntimeError("nobody was told")
        return lambda problem, **_: optik.Result(problem.q_start, optik.Claim.NO_PROGRESS, "", 0, 1)
"""


class Heard(logging.Handler):
    """Keeps what is said, and lets a test wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.arrived = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        self.arrived.set()


@pytest.fixture
def heard():
    handler, level = Heard(), notices.LOGGER.level
    notices.LOGGER.addHandler(handler)
    notices.LOGGER.setLevel(logging.INFO)
    yield handler
    notices.LOGGER.removeHandler(handler)
    notices.LOGGER.setLevel(level)


def test_a_long_block_is_told_once(heard):
    with notices.told_if_slow("compiling", after=0.0):
        assert heard.arrived.wait(60)
    assert heard.said == ["compiling"]


def timers() -> set[threading.Timer]:
    return {t for t in threading.enumerate() if isinstance(t, threading.Timer)}


def test_a_short_block_says_nothing_and_leaves_no_thread(heard):
    before = timers()
    with notices.told_if_slow("compiling", after=3600.0):
        (mine,) = timers() - before
    mine.join(60)
    assert not mine.is_alive()
    assert heard.said == []


def test_nobody_listens_by_default():
    before = timers()
    with notices.told_if_slow("compiling", after=0.0):
        assert timers() <= before


def test_a_solve_tells_what_it_builds(heard, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "optik.api.told_if_slow",
        lambda message: asked.append(message) or notices.told_if_slow(message),
    )
    robot = optik.Robot.load("arm2")
    problem = optik.Problem(robot, optik.Target([0.5, 0.0, 0.3]))
    for _ in range(2):
        optik.solve(problem, solver="clamped-dls")
    assert len(asked) == 1
    assert all(word in asked[0] for word in ("clamped-dls", "arm2", "2 joints", "1 target"))


def test_command_line_tells_on_stderr(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    command = ["solve", "arm2", "--position", "0.5", "0", "0.3", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "optik", *command, "--solver", f"{tmp_path}/slow.py:Slow"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "still building slow for arm2" in done.stderr
    assert done.stdout.startswith("{")
