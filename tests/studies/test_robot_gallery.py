"""The gallery in its short form: no renderer, and the committed text is what it would write."""

import os
import re
import subprocess
import sys
from pathlib import Path

from optik.data import data_folder
from optik.robot import bundled_robots

ROOT = Path(__file__).parents[2]


def lines_of(path):
    """The lines without what the width of a table changes, and without the rows of pictures."""
    lines = path.read_text().splitlines()
    return {re.sub(r"[\s:]+|--+", "", x) for x in lines if "![" not in x}


def test_short_form_needs_no_renderer_and_the_readme_is_current():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("MUJOCO_GL", None)
    done = subprocess.run(
        [sys.executable, "studies/robot_gallery.py", "--quick"],
        cwd=ROOT,
        env=environment | {"COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in bundled_robots())
    folder = Path(re.search(r"written to (\S+)", done.stderr)[1])
    made = lines_of(folder / "models" / "README.md")
    # A robot that is added has no picture yet; of the others every word is as it was.
    assert lines_of(data_folder("models") / "README.md") <= made
    assert (folder / "results" / "robots.csv").is_file()


def test_every_picture_in_the_readme_is_there():
    models = data_folder("models")
    pictures = re.findall(r"!\[\w+\]\(([^)]+)\)", (models / "README.md").read_text())
    assert pictures
    for picture in pictures:
        assert (models / picture).read_bytes().startswith(b"\x89PNG")
