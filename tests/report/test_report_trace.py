"""What is computed along a path, against the definitions."""

from __future__ import annotations

import numpy as np
import pytest

import optik
from optik.benchmark.report_trace import LONGEST, limit_spells, percent, story, trace
from optik.diagnosis import certificate
from optik.problem import Budget, Problem, Target

CASES = [("arm7_lesson", 3), ("panda_at_limit_1", 0), ("so101_lesson", 22)]


def problem_of(name: str, index: int) -> Problem:
    return optik.load_problem_set(name).problem(index)


@pytest.mark.parametrize(("name", "index"), CASES)
@pytest.mark.parametrize("solver", ["clamped-dls", "box-qp"])
def test_a_trace_starts_at_the_start_and_ends_at_the_answer(
    name: str, index: int, solver: str
) -> None:
    problem = problem_of(name, index)
    found = trace(problem, solver)
    np.testing.assert_array_equal(found.path[0], problem.q_start)
    if found.solved:
        np.testing.assert_array_equal(found.path[-1], found.solution.q)
    for k in (0, found.steps // 2, found.steps):
        verdict = optik.evaluate(problem, found.path[k])
        assert found.position_error[k] == pytest.approx(verdict.position_error, rel=1e-9, abs=1e-12)
        assert found.rotation_error[k] == pytest.approx(verdict.rotation_error, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("name", "index"), CASES)
def test_room_is_the_certificates_projected_gradient(name: str, index: int) -> None:
    problem = problem_of(name, index)
    found = trace(problem, "clamped-dls")
    for k in (0, found.steps // 2, found.steps):
        expected = certificate(problem, found.path[k]).relative_optimality
        assert found.room[k] == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("name", "index"), CASES)
def test_what_clamping_wants_clipped_is_what_it_does(name: str, index: int) -> None:
    problem = problem_of(name, index)
    found = trace(problem, "clamped-dls")
    robot = problem.robot
    np.testing.assert_allclose(
        np.clip(found.path[:-1] + found.wanted[:-1], robot.lower, robot.upper),
        found.path[1:],
        atol=1e-12,
    )


def test_kept_and_promised_are_linear_predictions_of_the_cost() -> None:
    """Along a small step the share removed to first order is the share removed."""
    problem = problem_of("arm7_lesson", 3)
    found = trace(problem, "clamped-dls:step_limit=0.0001", budget=Budget(iterations=5))
    size = [np.sqrt(2 * optik.evaluate(problem, q).cost) for q in found.path]
    really = 1 - np.array(size[1:]) / np.array(size[:-1])
    np.testing.assert_allclose(found.kept[:-1], really, rtol=1e-3)
    np.testing.assert_allclose(found.promised[:-1], really, rtol=1e-3)  # no limit is near
    assert np.isnan(found.kept[-1])


def test_the_stall_promises_much_keeps_nothing_and_has_room() -> None:
    found = trace(problem_of("panda_at_limit_1", 0), "clamped-dls")
    assert not found.solved
    late = slice(found.steps - 20, found.steps)
    assert found.promised[late].min() > 0.3
    assert np.abs(found.kept[late]).max() < 1e-3
    assert found.room[late].min() > 1e-2
    assert all("L" in state for state in found.limits[late])


def test_letters_say_which_limit_and_whether_it_is_pressed() -> None:
    robot = optik.Robot.load("arm7")
    q = np.array(robot.lower)
    target = Target(robot.forward(q).position + np.array([0.01, 0.02, 0.03]))
    problem = Problem(robot, target, q_init=q)
    found = trace(problem, "box-qp")
    gradient = certificate(problem, q).gradient
    expected = "".join("L" if g > 0 else "l" for g in gradient)
    assert found.limits[0] == expected
    assert found.on_limit(0) == robot.joint_names


def test_spells_join_up_and_cover_the_letters() -> None:
    found = trace(problem_of("panda_at_limit_1", 0), "box-qp")
    names = found.solution.problem.robot.joint_names
    marked = {(n, k) for n, _, a, b in limit_spells(found) for k in range(a, b + 1)}
    assert marked == {
        (names[j], k) for k, s in enumerate(found.limits) for j, c in enumerate(s) if c != "."
    }
    assert marked


def test_a_solver_without_a_path_shows_its_start_and_its_answer(tmp_path: object) -> None:
    from optik.benchmark.own import as_solver

    problem = problem_of("arm7_lesson", 3)
    answer = 0.5 * (problem.robot.lower + problem.robot.upper)
    solver, _ = as_solver(lambda p: answer)
    found = trace(problem, solver)
    np.testing.assert_array_equal(found.path, [problem.q_start, answer])
    assert not found.solved and not found.cut


def test_a_path_too_long_is_cut_and_says_so() -> None:
    problem = problem_of("arm7_lesson", 14)
    found = trace(problem, "clamped-dls", budget=Budget(iterations=LONGEST + 50))
    assert found.cut == (found.solution.iterations > LONGEST)
    assert found.cut and len(found.path) == LONGEST
    found = trace(problem, "clamped-dls", budget=Budget(iterations=20))
    assert not found.cut


def test_stories_name_the_joint_and_the_shares() -> None:
    problem = problem_of("panda_at_limit_1", 0)
    stalled, solved = (trace(problem, s) for s in ("clamped-dls", "box-qp"))
    assert stalled.solution.message in story(stalled)
    assert percent(float(np.median(stalled.promised[-21:-1]))) in story(stalled)
    assert "joint4" in story(solved) and "lower" in story(solved)
    assert f"{solved.solution.iterations} iterations" in story(solved)
    easy = trace(problem_of("arm7_lesson", 3), "box-qp")
    assert "no joint meets a limit" in story(easy)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.5234, "52 %"), (0.0523, "5.2 %"), (-0.0113, "−1.1 %"), (-0.0001, "0 %"), (1.0, "100 %")],
)
def test_shares_are_written_with_two_digits(share: float, text: str) -> None:
    assert percent(share) == text
