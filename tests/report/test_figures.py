"""Static figures: the same curves, files that do not change, text that stays text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import optik
from optik.benchmark.figures import COLOURS, curves_figure, rendered, write_figures
from optik.benchmark.figures_arm import View, best_view, draw_arm, extent
from optik.benchmark.figures_stall import stall_figure
from optik.benchmark.report import report
from optik.benchmark.report_charts import ALL, all_curves
from optik.benchmark.report_runs import gather
from optik.benchmark.report_scene import scene_of
from optik.benchmark.report_trace import trace


def texts(svg: bytes) -> str:
    return " ".join(ET.fromstring(svg).itertext())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one set."""
    folder = tmp_path_factory.mktemp("small")
    problems = optik.load_problem_set("arm7_lesson").first(6)
    optik.run([problems], ["clamped-dls", "box-qp"], out=folder, isolate=False)
    return folder


def test_figures_of_every_set_and_cost_are_written(small: Path, tmp_path: Path) -> None:
    report([small], out=tmp_path / "r.html", cases=0, figures=tmp_path / "figures")
    names = {p.name for p in (tmp_path / "figures").iterdir()}
    costs = ("evaluations", "time")
    assert names == {f"arm7_lesson_{c}.{k}" for c in costs for k in ("svg", "pdf")}
    svg = (tmp_path / "figures" / "arm7_lesson_time.svg").read_bytes()
    assert all(s in texts(svg) for s in ("clamped-dls", "box-qp", "time allowed", "arm7_lesson"))
    assert (tmp_path / "figures" / "arm7_lesson_time.pdf").read_bytes().startswith(b"%PDF")


def test_a_figure_shows_the_curves_and_is_the_same_twice(small: Path) -> None:
    charts = all_curves(gather([small]))["arm7_lesson"]
    before = dict(mpl.rcParams)
    figure = curves_figure(charts, title="one")
    budget = figure.axes[1]
    for line, (solver, y) in zip(
        budget.get_lines(), charts["budget"]["evaluations"].y.items(), strict=True
    ):
        assert line.get_label() == solver
        np.testing.assert_array_equal(line.get_ydata(), y)
    once = rendered(figure, "x", formats=("svg",))
    assert rendered(curves_figure(charts, title="one"), "x", formats=("svg",)) == once
    assert dict(mpl.rcParams) == before  # the caller's style is left alone


def test_a_sets_name_becomes_a_file_name(small: Path, tmp_path: Path) -> None:
    charts = all_curves(gather([small]))["arm7_lesson"]
    written = write_figures({"a b/c": {"budget": charts["budget"]}}, tmp_path, formats=("svg",))
    assert {p.name for p in written} == {"a_b_c_evaluations.svg", "a_b_c_time.svg"}
    assert all(p.is_file() for p in written)


def test_several_sets_are_shown_together_and_apart(run_folder: Path) -> None:
    assert list(all_curves(gather([run_folder]))) == [ALL, "arm7_lesson", "panda_at_limit_1"]


def test_more_than_eight_solvers_are_told_apart_by_dashes() -> None:
    from optik.benchmark.summary import Curves

    x = np.array([1.0, 10.0])
    curves = Curves(x, {f"s{i}": x / 10 for i in range(10)}, 5)
    charts = {n: {"evaluations": curves} for n in ("tolerance", "budget", "performance", "data")}
    lines = curves_figure(charts).axes[0].get_lines()
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(looks) == 10 and lines[0].get_color() == COLOURS[0]


def test_a_projection_keeps_lengths_in_its_plane() -> None:
    view = View.of(0.7, 0.3)
    np.testing.assert_allclose(view.axes @ view.axes.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(view.axes) == pytest.approx(1)
    up = view.project(np.array([0.0, 0.0, 1.0]))
    assert up[0] == pytest.approx(0) and up[1] == pytest.approx(np.cos(0.3))
    # What is nearer to the viewer has the larger depth.
    back = np.array([np.cos(0.7), np.sin(0.7), 0.0])
    assert view.project(back)[2] > view.project(-back)[2]


def test_the_drawn_arm_stands_where_the_robot_does() -> None:
    from matplotlib.figure import Figure

    robot = optik.Robot.load("arm7")
    scene = scene_of(robot)
    q = robot.q_nominal
    target = robot.forward(q).position
    view = best_view(scene, [q[None]], target)
    ax = Figure().add_subplot()
    draw_arm(ax, scene, q, view, limits="L.....U")
    drawn = np.vstack([p.vertices for p in ax.collections[0].get_paths()])
    left, right, bottom, top = extent(scene, q[None], view)
    assert drawn[:, 0].min() == pytest.approx(left, abs=0.02)
    assert drawn[:, 1].max() == pytest.approx(top, abs=0.02)
    tip = view.project(target)[:2]
    assert np.linalg.norm(drawn - tip, axis=1).min() < 0.03
    assert left <= tip[0] <= right and bottom <= tip[1] <= top


# A pose and a position: the second has no rotation error to show.
@pytest.mark.parametrize(("name", "index"), [("panda_at_limit_1", 0), ("so101_lesson", 22)])
def test_the_stall_figure_tells_both_stories(name: str, index: int) -> None:
    problem = optik.load_problem_set(name).problem(index)
    stalled, solved = (trace(problem, s) for s in ("clamped-dls", "box-qp"))
    files = rendered(stall_figure(stalled, solved), "stall", formats=("svg",))
    svg = files["stall.svg"]
    assert isinstance(svg, bytes)
    told = texts(svg)
    assert "clamped-dls stalls with" in told and "box-qp slides along the limit of" in told
    assert f"and arrives in {solved.solution.iterations} iterations" in told
    assert "on its lower limit" in told and "iteration" in told
