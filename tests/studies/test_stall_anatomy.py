"""The study of stalls in its short form: it runs, its parts add up, and its claims hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "studies"))

import stall_anatomy

from optik.benchmark.rendering import to_markdown


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("stall_anatomy")
    frame = stall_anatomy.main(["--quick", "--out", str(folder)])
    frame.attrs["folder"] = folder
    return frame


def test_every_failure_is_of_one_kind(failures):
    assert set(failures.robot) == {"arm7", "so101"}
    assert set(failures.outcome) <= set(stall_anatomy.OUTCOMES)
    assert (failures.outcome == "out of iterations").equals(failures.motion == "solved")
    repaired = failures.outcome == "repaired"
    assert (failures.descent_end[repaired] == "solved").all()
    limits = failures.outcome == "limits"
    assert (failures.held_by[limits] != "").all()
    assert (failures.held_by[failures.outcome == "singular"] == "").all()


def test_no_stall_is_stationary(failures):
    assert len(failures) >= 10
    stalls = failures[failures.outcome != "out of iterations"]
    assert (stalls.relative_gradient > stall_anatomy.STATIONARY).all()


def test_the_first_targets_are_the_committed_sets(failures):
    """The lesson of the study is about the same targets as the bundled problems."""
    import optik

    for name in ("arm7", "so101"):
        problems = optik.load_problem_set(f"{name}_reachable")
        part = failures[(failures.robot == name) & (failures.w_r == 1.0)]
        for i in range(40):
            solution = optik.solve(problems.problem(i), solver="clamped-dls")
            assert solution.success == (i not in set(part.target))


def test_everything_is_written(failures):
    names = {p.name for p in failures.attrs["folder"].iterdir()}
    assert {
        "tables.md",
        "failures.csv",
        "environment.json",
        "anatomy.svg",
        "gradients.svg",
    } <= names
    text = (failures.attrs["folder"] / "tables.md").read_text()
    for name in stall_anatomy.WEIGHTS:
        assert f"{name:g}" in text


def test_the_committed_rows_give_the_committed_table():
    rows = pd.read_csv(stall_anatomy.RESULTS / "failures.csv", keep_default_na=False)
    table = stall_anatomy.anatomy_table(rows, list(stall_anatomy.ROBOTS), stall_anatomy.TARGETS)
    assert to_markdown(table).strip() in (stall_anatomy.RESULTS / "tables.md").read_text()
    assert set(rows.descent_end) == {"solved", "minimum"}
