"""The page's own script, run in an embedded JavaScript engine on the page's own document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from page_in_js import Page, nodes, parse, text_of

import optik
from optik.benchmark.report_trace import Trace, limit_spells, trace
from optik.benchmark.run import read_run
from optik.benchmark.summary import budget_curves, tolerance_curves

SOLVERS = ("clamped-dls", "box-qp", "trf")
SPHERE, CAPSULE = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)
FLOAT32 = 2e-6  # [m]; poses travel in single precision
_TRACES: dict[tuple[str, int, str], Trace] = {}


def traced(case: dict[str, Any], solver: str) -> Trace:
    key = (case["group"], case["problem"], solver)
    if key not in _TRACES:
        problem = optik.load_problem_set(case["group"]).problem(case["problem"])
        _TRACES[key] = trace(problem, solver)
    return _TRACES[key]


def cases(page: Page) -> list[dict[str, Any]]:
    found = page(
        "optik.data.cases.map(({group, problem, pair, gained}) => ({group, problem, pair, gained}))"
    )
    assert isinstance(found, list)
    return found


# ---------------------------------------------------------------- tables


def column(page: Page, table: str, i: int) -> list[str]:
    rows = f"document.getElementById('table-{table}').all((e) => e.tag === 'tbody')[0].rows"
    value = page(f"{rows}.map((r) => optik.cellKey(r.cells[{i}]))")
    assert isinstance(value, list)
    return value


def click(page: Page, table: str, i: int) -> None:
    page(
        f"document.getElementById('table-{table}').all((e) => e.tag === 'th')[{i}]"
        ".firstElementChild.click()"
    )


def sorting(page: Page, table: str, i: int) -> str:
    value = page(
        f"document.getElementById('table-{table}').all((e) => e.tag === 'th')[{i}]"
        ".getAttribute('aria-sort')"
    )
    return str(value)


def test_a_click_on_a_heading_sorts_a_table_by_number(page: Page) -> None:
    printed = column(page, "summary", 6)
    numbers = [float(v) for v in printed]
    assert len(numbers) == 6 and numbers != sorted(numbers)
    click(page, "summary", 6)
    assert [float(v) for v in column(page, "summary", 6)] == sorted(numbers)
    assert sorting(page, "summary", 6) == "ascending"
    click(page, "summary", 6)
    assert [float(v) for v in column(page, "summary", 6)] == sorted(numbers, reverse=True)
    click(page, "summary", 6)
    assert column(page, "summary", 6) == printed
    assert sorting(page, "summary", 6) == "none"


def test_shares_start_with_the_largest_and_missing_cells_go_last(page: Page) -> None:
    click(page, "summary", 2)
    shares = [float(v) for v in column(page, "summary", 2)]
    assert shares == sorted(shares, reverse=True)
    gained = column(page, "summary", 3)
    assert gained.count("") == 2  # the baseline, once a set
    click(page, "summary", 3)
    assert column(page, "summary", 3)[-2:] == ["", ""]
    assert sorting(page, "summary", 2) == "none"


def test_rows_stay_whole_when_they_are_sorted(page: Page) -> None:
    body = "document.getElementById('table-summary').all((e) => e.tag === 'tbody')[0]"
    whole = f"{body}.rows.map((r) => r.textContent)"
    before = page(whole)
    click(page, "summary", 1)
    after = page(whole)
    assert sorted(before) == sorted(after) and before != after


def test_sorting_by_text_knows_numbers_in_it(page: Page) -> None:
    assert page("optik.order(['a10', 'a9', 'b1', ''], false)") == [1, 0, 2, 3]
    assert page("optik.order(['3', '', '20', '1e999'], true)") == [3, 2, 0, 1]


# ---------------------------------------------------------------- the slider and the arm


def move_slider(page: Page, k: int) -> None:
    page.context.eval(
        f"document.getElementById('slider').value = '{k}';"
        "document.getElementById('slider').dispatch('input')"
    )


def test_the_sliders_frames_are_forward_kinematics(page: Page) -> None:
    for i, case in enumerate(cases(page)):
        page(f"document.getElementById('case-{i}').click()")
        page("document.getElementById('zoom').click()")  # all iterations
        assert page("optik.explorer.state.index") == i
        for side, solver in enumerate(case["pair"]):
            found = traced(case, solver)
            robot = found.solution.problem.robot
            for k in sorted({0, 1, found.steps // 3, found.steps - 1, found.steps}):
                move_slider(page, k)
                assert page("optik.explorer.state.t") == k
                assert page("document.getElementById('iteration').textContent") == str(k)
                poses = (
                    f"optik.posesAt(optik.explorer.robot, optik.explorer.runs[{side}],"
                    " optik.explorer.state.t)"
                )
                tool = page(f"optik.toolPose(optik.explorer.robot, {poses})")
                pose = robot.forward(found.path[k])
                np.testing.assert_allclose(tool["p"], pose.position, atol=FLOAT32)
                assert abs(np.dot(tool["q"], pose.quaternion)) > 1 - 1e-6
                shapes = page(
                    f"optik.worldShapes(optik.explorer.robot, {poses}).map(({{a, b}}) => [a, b])"
                )
                np.testing.assert_allclose(shapes, capsules(robot, found.path[k]), atol=FLOAT32)


def capsules(robot: optik.Robot, q: np.ndarray) -> np.ndarray:
    """Both ends of every capsule, from MuJoCo itself, shape (geoms, 2, 3)."""
    model, data = robot.model, mujoco.MjData(robot.model)
    data.qpos[:] = robot.joint_map.qpos_held
    data.qpos[robot.joint_map.qpos_addresses] = q
    for coupling in robot.joint_map.couplings:
        data.qpos[coupling.qpos_address] = coupling.value(float(q[coupling.joint]))
    mujoco.mj_kinematics(model, data)
    ends = []
    for g in range(model.ngeom):
        # MuJoCo's enums do not compare equal to the integers in its arrays.
        kind = int(model.geom_type[g])
        assert kind in (SPHERE, CAPSULE)
        half = model.geom_size[g, 1] if kind == CAPSULE else 0.0
        along = data.geom_xmat[g].reshape(3, 3)[:, 2] * half
        ends.append([data.geom_xpos[g] - along, data.geom_xpos[g] + along])
    return np.array(ends)


def test_the_slider_moves_the_drawn_arm(page: Page) -> None:
    drawn = []
    for k in (0, 3, 6):
        page.context.eval("document.getElementById('arm-0').getContext('2d').calls.length = 0")
        move_slider(page, k)
        drawn.append(page("document.getElementById('arm-0').getContext('2d').calls"))
    assert all(len(calls) > 300 for calls in drawn)
    assert drawn[0] != drawn[1] != drawn[2]
    for calls in drawn:
        points = [v for c in calls if c[0] in ("arc", "lineTo", "moveTo") for v in c[1:3]]
        assert all(isinstance(v, (int, float)) for v in points)


def test_between_two_iterations_the_arm_is_rigid_and_between_them(page: Page) -> None:
    poses = "optik.posesAt(optik.explorer.robot, optik.explorer.runs[1], {})"
    a, m, b = (
        page(f"optik.toolPose(optik.explorer.robot, {poses.format(t)}).p") for t in (2, 2.5, 3)
    )
    np.testing.assert_allclose(m, (np.array(a) + b) / 2, atol=0.02)
    q = page(f"{poses.format(2.5)}.map((p) => p.q)")
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1, atol=1e-12)


def test_the_numbers_beside_the_arm_are_those_of_the_path(page: Page) -> None:
    case = cases(page)[0]
    page("document.getElementById('case-0').click()")
    for side, solver in enumerate(case["pair"]):
        found = traced(case, solver)
        run = f"optik.explorer.runs[{side}]"
        for name, values in (
            ("position", found.position_error),
            ("rotation", found.rotation_error),
            ("promised", found.promised),
            ("kept", found.kept[:-1]),
        ):
            shown = page(f"{run}.{name}")[: len(values)]
            np.testing.assert_allclose(shown, values, rtol=1e-4, atol=1e-12)
        assert page(f"{run}.limits") == list(found.limits)
        move_slider(page, 2)
        text = page(f"document.getElementById('numbers-{side}').textContent")
        assert page(f"optik.length({float(found.position_error[2])!r})") in text
        assert page(f"optik.percent({float(found.kept[2])!r})") in text


def test_the_strip_has_a_bar_for_every_stay_on_a_limit(page: Page) -> None:
    for i, case in enumerate(cases(page)):
        page(f"document.getElementById('case-{i}').click()")
        page("optik.explorer.state.whole || document.getElementById('zoom').click()")
        for solver in case["pair"]:
            found = traced(case, solver)
            stays = page(f"optik.stays({list(found.limits)!r})")
            merged: list[list[object]] = []
            names = found.solution.problem.robot.joint_names
            for stay in stays:
                side = "lower" if stay["letter"].upper() == "L" else "upper"
                name = names[stay["joint"]]
                if merged and merged[-1][:2] == [name, side] and merged[-1][3] == stay["first"] - 1:
                    merged[-1][3] = stay["last"]
                else:
                    merged.append([name, side, stay["first"], stay["last"]])
            assert [tuple(m) for m in merged] == limit_spells(found)
        strips = page(
            "document.getElementById('timeline').all((e) => e.tag === 'rect')"
            ".map((e) => e.className)"
        )
        bars = [c for c in strips if c != "track"]
        assert len(bars) == sum(
            len(page(f"optik.stays({list(traced(case, s).limits)!r})")) for s in case["pair"]
        )


def test_the_cursor_stands_where_the_slider_is(page: Page) -> None:
    move_slider(page, 0)
    left = float(page("optik.explorer.cursor.style.left")[:-2])
    move_slider(page, 5)
    right = float(page("optik.explorer.cursor.style.left")[:-2])
    assert right > left
    # A press on the timeline moves the slider there.
    page(f"document.getElementById('timeline').dispatch('pointerdown', {{ clientX: {left} }})")
    assert page("document.getElementById('slider').value") == "0"


def test_play_runs_to_the_end_and_stops(page: Page) -> None:
    move_slider(page, 0)
    page("document.getElementById('play').click()")
    assert page("optik.explorer.state.playing")
    times = []
    for i in range(2000):
        if not page(f"nextFrame({100 * i})"):
            break
        times.append(page("optik.explorer.state.t"))
    assert times == sorted(times)
    assert times[-1] == page("optik.explorer.last")
    assert not page("optik.explorer.state.playing")


def test_another_solver_can_be_chosen_on_either_side(page: Page) -> None:
    case = cases(page)[0]
    page.context.eval(
        "document.getElementById('pick-0').value = 'trf';"
        "document.getElementById('pick-0').dispatch('change')"
    )
    found = traced(case, "trf")
    assert page("optik.explorer.runs[0].steps") == found.steps
    badge = page("document.getElementById('badge-0').textContent")
    assert badge == (
        f"solved in {found.solution.iterations}"
        if found.solved
        else found.solution.status.value.replace("_", " ")
    )


def test_a_click_on_a_target_in_the_table_shows_it(page: Page) -> None:
    page("document.querySelectorAll('[data-case]')[2].click()")
    assert page("optik.explorer.state.index") == 2
    assert page("document.getElementById('case-2').getAttribute('aria-pressed')") == "true"
    assert page("document.getElementById('explorer').scrolled")


def test_it_opens_where_one_arm_slides_and_the_other_does_not_get_on(page: Page) -> None:
    t = page("optik.explorer.state.t")
    case = cases(page)[0]
    sliding = traced(case, case["pair"][1])
    assert case["gained"] and sliding.solved
    stalled = traced(case, case["pair"][0])
    on_limit = [k for k in range(1, sliding.steps) if sliding.limits[k].strip(".")]
    ahead = {k: sliding.kept[k] - stalled.kept[k] for k in on_limit}
    assert ahead[t] == max(ahead.values()) > 0


# ---------------------------------------------------------------- charts


def test_curves_are_those_of_the_statistics(page: Page, run_folder: Path) -> None:
    frame = read_run(run_folder)
    for name, curves in (
        ("tolerance", tolerance_curves(frame)),
        ("budget", budget_curves(frame, "evaluations")),
    ):
        chart = f"optik.data.charts['all sets together'].{name}.evaluations"
        for i, solver in enumerate(SOLVERS):
            np.testing.assert_allclose(page(f"{chart}.y[{i}]"), curves.y[solver], atol=5e-5)
        x = curves.x[len(curves.x) // 2]
        shown = page(f"optik.valueAt({{x: {chart}.x, y: {chart}.y[1]}}, {x * 1.001})")
        assert shown == pytest.approx(curves.y["box-qp"][len(curves.x) // 2], abs=5e-5)


def test_a_solver_can_be_taken_out_of_the_curves(page: Page) -> None:
    lines = "document.getElementById('chart-budget').all((e) => e.tag === 'path').length"
    assert page(lines) == 3
    page("document.getElementById('key-1').click()")
    assert page(lines) == 2
    assert page("document.getElementById('key-1').getAttribute('aria-pressed')") == "false"


def test_the_read_out_tells_every_solvers_share(page: Page) -> None:
    plot = "document.getElementById('chart-tolerance')"
    page(f"{plot}.dispatch('pointermove', {{ clientX: 300 }})")
    readout = f"{plot}.children[2]"
    assert page(f"{readout}.hidden") is False
    text = page(f"{readout}.textContent")
    assert all(solver in text for solver in SOLVERS) and text.count("%") == 3
    page(f"{plot}.dispatch('pointerleave')")
    assert page(f"{readout}.hidden") is True


def test_another_set_and_cost_change_the_curves(page: Page) -> None:
    def svg() -> str:
        return str(
            page(
                "document.getElementById('chart-budget').all((e) => e.tag === 'path')"
                ".map((e) => e.getAttribute('d'))"
            )
        )

    seen = [svg()]
    for pick, value in (("chart-set", "arm7_lesson"), ("chart-cost", "time")):
        page.context.eval(
            f"document.getElementById('{pick}').value = '{value}';"
            f"document.getElementById('{pick}').dispatch('change')"
        )
        seen.append(svg())
    assert len(set(seen)) == 3


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("optik.ticks('linear', 0, 42, 6)", [0, 10, 20, 30, 40]),
        ("optik.ticks('log', 1e-5, 1, 8)", [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1]),
        ("optik.ticks('log', 3, 40, 8)", [5, 10, 20]),
        ("optik.digits(0.0123456)", "0.0123"),
        ("optik.digits(1234567)", "1.2·10⁶"),
        ("optik.digits(-0.5)", "−0.5"),
        ("optik.length(0.0539)", "5.39 cm"),
        ("optik.length(0.000161)", "0.161 mm"),
        ("optik.angle(Math.PI)", "180°"),
        ("optik.percent(-0.0004)", "0 %"),
        ("optik.percent(0.523)", "52 %"),
        ("Array.from(optik.unpack('AACAPwAAAMA='))", [1, -2]),
        ("optik.escape('<a & \"b\">')", "&lt;a &amp; &quot;b&quot;&gt;"),
    ],
)
def test_small_functions(page: Page, expression: str, expected: object) -> None:
    value = page(expression)
    if isinstance(expected, list):
        np.testing.assert_allclose(value, expected)
    else:
        assert value == expected


def test_the_page_is_parsed_by_the_same_rules_as_its_parts(page: Page) -> None:
    """The engine's document is the page's own: what Python reads is what the script sees."""
    ids = [n[1]["id"] for n in nodes(page.tree) if "id" in n[1]]
    assert page("document.all((e) => e.id !== undefined).length") >= len(ids)
    title = text_of(nodes(page.tree, "title")[0])
    assert title == "small · optik report"
    assert parse("<p>a<b>c</b></p>") == [["p", {}, ["a", ["b", {}, ["c"]]]]]
