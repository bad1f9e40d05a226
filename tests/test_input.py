"""Wrong input: each an OptikError whose message says what would have been right."""

from __future__ import annotations

import numpy as np
import pytest

import optik
from optik import OptikError, Posture, Problem, Robot, Target, Tolerance
from optik.solvers import parse_solver


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Robot.load("arm6"), "'arm7'"),
        (lambda: Robot.load("nowhere/arm.xml"), "no model file"),
        (lambda: Robot.load(3), "MjModel"),
        (lambda: Robot.load("arm7", frame="ex"), "'ee'"),
        (lambda: Robot.load("arm7", joints=["j1", "j9"]), "Valid: j1"),
        (lambda: Robot.load("arm7", joints=["j1", "j1"]), "twice"),
        (lambda: Robot.load("arm7", joints=[]), "no joint"),
        (lambda: Robot.load("arm7", q_nominal="hom"), "'home'"),
        (lambda: Robot.load("arm7", q_nominal=[0, 0]), "7"),
        (lambda: parse_solver("box-pq"), "'box-qp'"),
        (lambda: parse_solver("box-qp:dampin=1"), "'damping'"),
        (lambda: parse_solver("box-qp:damping=much"), "damping"),
        (lambda: parse_solver("box-qp:damping=-1"), "damping"),
        (lambda: parse_solver("box-qp:backend=osqpp"), "osqp"),
        (lambda: parse_solver("box-qp:damping"), "damping=VALUE"),
        (lambda: parse_solver("nofile.py:Mine"), "nofile.py"),
        (lambda: Target([0, 0, np.nan]), "finite"),
        (lambda: Target([0, 0]), "3 numbers"),
        (lambda: Target("here"), "3 numbers"),
        (lambda: Target([0, 0, 1], quaternion=[0, 0, 0, 0]), "norm"),
        (lambda: Target([0, 0, 1], quaternion=[2, 0, 0, 0]), "norm 1"),
        (lambda: Target([0, 0, 1], quaternion=[1, 0, 0]), "w x y z"),
        (lambda: Target([0, 0, 1], quaternion=[np.nan, 0, 0, 1]), "finite"),
        (lambda: Target([0, 0, 1], rotation=np.diag([1, 1, -1])), "determinant +1"),
        (lambda: Target([0, 0, 1], rotation=2 * np.eye(3)), "orthonormal"),
        (lambda: Target([0, 0, 1], rotation=np.eye(4)), "3 by 3"),
        (lambda: Target([0, 0, 1], axis=[0, 0, 1]), "body_axis"),
        (lambda: Target([0, 0, 1], axis=([0, 0, 0], [0, 0, 1])), "zero"),
        (lambda: Target([0, 0, 1], quaternion=[1, 0, 0, 0], rotation=np.eye(3)), "at most one"),
        (lambda: Target([0, 0, 1], position_weight=0), "positive"),
        (lambda: Target([0, 0, 1], mask=[True] * 3), "6 booleans"),
        (lambda: Target([0, 0, 1], mask=[False] * 6), "no row"),
        (lambda: Tolerance(position=0), "positive"),
        (lambda: optik.Budget(iterations=0), "from 1"),
        (lambda: optik.Budget(seconds=-1), "positive"),
        (lambda: optik.Budget(restarts=-1), "from 0"),
        (lambda: optik.load_problem_set("arm7_leson"), "'arm7_lesson'"),
    ],
)
def test_message_says_what_would_be_right(call, says):
    with pytest.raises(OptikError) as caught:
        call()
    assert says in str(caught.value)


def test_start_of_the_wrong_length_names_the_joints(arm7):
    with pytest.raises(OptikError, match="j1, j2, j3"):
        Problem(arm7, Target([0, 0, 1]), q_init=np.zeros(6))


def test_unknown_frame_in_a_target_is_reported_where_it_is_written(arm7):
    with pytest.raises(OptikError, match="flange"):
        Problem(arm7, Target([0, 0, 1], frame="flnge"))


@pytest.mark.parametrize(
    "posture",
    [Posture(q_rest=np.zeros(3)), Posture(joint_weights={"j8": 1.0}), Posture(weight=-1.0)],
)
def test_posture_is_checked(arm7, posture):
    with pytest.raises(OptikError):
        Problem(arm7, Target([0, 0, 1]), posture=posture)


@pytest.mark.parametrize("targets", [[], "ee", [1], None])
def test_targets_are_checked(arm7, targets):
    with pytest.raises(OptikError):
        Problem(arm7, targets)


def test_start_outside_the_limits_is_projected_and_told(arm7):
    q = arm7.q_nominal.copy()
    q[3] = 4.0
    solution = optik.solve(Problem(arm7, Target([0.4, 0.1, 0.9]), q_init=q))
    assert solution.start_projected
    assert solution.success


def test_arrays_are_read_only(arm7):
    target = Target([0, 0, 1], quaternion=[-1, 0, 0, 0])
    assert target.quaternion.tolist() == [1, 0, 0, 0]
    for array in (target.position, target.quaternion, arm7.lower, arm7.q_nominal):
        with pytest.raises(ValueError):
            array[0] = 1.0


def test_keywords_only(arm7):
    with pytest.raises(TypeError):
        Target([0, 0, 1], [1, 0, 0, 0])
    with pytest.raises(TypeError):
        Problem(arm7, Target([0, 0, 1]), arm7.q_nominal)
    with pytest.raises(TypeError):
        optik.solve(Problem(arm7, Target([0, 0, 1])), "box-qp")
