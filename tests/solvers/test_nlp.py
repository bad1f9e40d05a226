"""IPOPT, FATROP and SQP: bounds kept strictly, silence, the backend's words, lifetime."""

from __future__ import annotations

import gc

import mujoco
import numpy as np
import pytest

from optik.evaluation import evaluate
from optik.problem import Budget, Posture, Problem, Target
from optik.problem_sets import load_problem_set
from optik.result import Claim
from optik.robot import Robot
from optik.solvers import parse_solver

NLP = ["ipopt", "ipopt-equality", "fatrop-equality", "sqp-equality"]


def slide(width: float) -> Robot:
    """A hinge and a slide whose range is `width` metres."""
    text = f"""
    <mujoco><compiler angle="radian"/><worldbody><body>
      <joint name="turn" type="hinge" axis="0 0 1" range="-2 2"/>
      <geom size=".01"/>
      <body pos=".3 0 0">
        <joint name="out" type="slide" axis="1 0 0" range="0 {width}"/>
        <geom size=".01"/><site name="tip"/>
      </body></body></worldbody></mujoco>"""
    return Robot.load(mujoco.MjModel.from_xml_string(text), frame="tip")


@pytest.mark.parametrize("name", NLP)
@pytest.mark.parametrize("width", [1e-6, 0.1])
@pytest.mark.parametrize("beyond", [0.0, 1e-6, 0.2])
def test_bounds_are_not_relaxed(name, width, beyond):
    """A goal exactly on a bound, just beyond it and far beyond it."""
    robot = slide(width)
    problem = Problem(robot, Target([0.3 + width + beyond, 0, 0], mask=[1, 1, 0, 0, 0, 0]))
    result = parse_solver(name).prepare(robot, problem.shape, Budget())(problem)
    assert (result.q >= robot.lower).all() and (result.q <= robot.upper).all()
    assert evaluate(problem, result.q).solved == (beyond < 1e-4)
    assert result.raw_violation <= 1e-12


def test_verbose_prints_and_silence_is_the_default(arm7, capfd):
    problem = Problem(arm7, Target([0.4, 0.1, 0.9]))
    parse_solver("ipopt:verbose=true").prepare(arm7, problem.shape, Budget())(problem)
    assert "iter" in capfd.readouterr().out
    parse_solver("ipopt").prepare(arm7, problem.shape, Budget())(problem)
    assert capfd.readouterr() == ("", "")


def test_infeasible_is_never_told_as_unreachable():
    """From the start alone the equality form calls targets infeasible that can be reached."""
    lesson = load_problem_set("arm7_lesson")
    solver = parse_solver("ipopt-equality:first=start")
    prepared = solver.prepare(lesson.robot, lesson.problem(0).shape, Budget())
    words = set()
    for problem in lesson.first(30).problems():
        result = prepared(problem)
        words.add(result.message)
        if "Infeasible" in result.message:
            assert result.status is Claim.NO_PROGRESS
    assert "Infeasible_Problem_Detected" in words


def test_program_survives_the_garbage_collector(arm7):
    problem = Problem(arm7, Target([0.4, 0.1, 0.9]))
    prepared = parse_solver("ipopt").prepare(arm7, problem.shape, Budget())
    first = prepared(problem)
    gc.collect()
    assert prepared(problem).q.tobytes() == first.q.tobytes()


@pytest.mark.parametrize("name", ["ipopt-equality", "fatrop-equality", "sqp-equality"])
def test_equality_form_finds_the_best_posture(name):
    """All agree on the distance to the posture to a milliradian, and beat plain least squares."""
    lesson = load_problem_set("arm7_lesson")
    problem = lesson.problem(0, posture=Posture())
    robot = lesson.robot

    def distance(solver: str) -> float:
        result = parse_solver(solver).prepare(robot, problem.shape, Budget())(problem)
        verdict = evaluate(problem, result.q)
        assert verdict.solved
        return verdict.posture_distance

    assert distance(name) == pytest.approx(distance("ipopt-equality"), abs=1e-3)
    plain = Problem(robot, problem.targets)
    free = parse_solver("ipopt").prepare(robot, plain.shape, Budget())(plain)
    assert distance(name) < evaluate(problem, free.q).posture_distance


def test_axis_target_stays_on_the_right_side(arm7):
    """The equations of an axis also hold at the opposite axis; the inequality excludes it."""
    rng = np.random.default_rng(2)
    solver = parse_solver("ipopt-equality")
    for _ in range(5):
        pose = arm7.forward(arm7.sample(rng))
        problem = Problem(arm7, Target(pose.position, axis=([0, 0, 1], pose.rotation[:, 2])))
        result = solver.prepare(arm7, problem.shape, Budget())(problem)
        if result.status is Claim.CONVERGED:
            assert evaluate(problem, result.q).rotation_error < 1e-3
