from __future__ import annotations

from pathlib import Path

import pytest
from page_in_js import Page

import optik
from optik.benchmark.report import report

SOLVERS = ["clamped-dls", "box-qp", "trf"]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two sets on two robots, on which clamping fails some targets."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    sets = [
        optik.load_problem_set("arm7_lesson").first(20),
        optik.load_problem_set("panda_at_limit_1").first(15),
    ]
    optik.run(sets, SOLVERS, out=folder)
    return folder


@pytest.fixture(scope="session")
def html(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of that run."""
    out = tmp_path_factory.mktemp("report") / "page.html"
    assert report([run_folder], out=out, cases=4) == out
    return out.read_text(encoding="utf-8")


@pytest.fixture
def page(html: str) -> Page:
    """The report, opened afresh."""
    return Page(html)
