"""Every study in its short form: it runs, prints, and leaves the committed results alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted(
    p.stem for p in (ROOT / "studies").glob("*.py") if '"--quick"' in p.read_text()
    or "lesson.arguments(" in p.read_text()
)  # fmt: skip
# Short studies that print no times: run twice, they must print the same.
WITHOUT_TIMES = ("lesson_two_link", "lesson_six_axis", "lesson_humanoid_foot")


def test_studies_are_found():
    assert {"failure_at_limits", "lesson_so101", "constrained_or_clamped"} <= set(STUDIES)


@pytest.mark.parametrize("study", [s for s in STUDIES if s != "lesson"])
def test_quick(study):
    before = _results(study)
    printed = _run(study)
    assert len(printed) > 3
    assert _results(study) == before
    if study in WITHOUT_TIMES:
        assert _run(study) == printed


def _run(study: str) -> list[str]:
    """The lines that the short form prints, without where it wrote its files."""
    done = subprocess.run(
        [sys.executable, f"studies/{study}.py", "--quick"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if not line.startswith("written to")]


def _results(study: str) -> dict[str, bytes]:
    folder = ROOT / "studies" / "results" / study
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_readme_shows_what_the_studies_found():
    done = subprocess.run(
        [sys.executable, "studies/update_readme.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_study_is_in_the_index():
    index = (ROOT / "studies" / "README.md").read_text()
    missing = [s for s in STUDIES if f"{s}.py" not in index and s != "lesson"]
    assert missing == []


def test_every_table_that_answers_an_exercise_is_there():
    text = (ROOT / "studies" / "README.md").read_text().split("## Check your exercise")[1]
    named = re.findall(r"\[([^]]+)\]\((results/lesson_\w+/tables.md)\)", text)
    answers = [(title, path) for title, path in named if title != "tables"]
    assert len(answers) > 20
    for title, path in answers:
        assert f"**{title}**" in (ROOT / "studies" / path).read_text(), (title, path)
