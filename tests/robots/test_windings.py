"""Equivalent windings (F26)."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optik
from optik import Robot
from optik.errors import RobotError
from optik.windings import can_turn_around, nearest_winding, windings

TURN = 2 * np.pi


def one_hinge(low, high, kind="hinge"):
    limit = "" if low is None else f'range="{low!r} {high!r}"'
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><compiler angle="radian"/><worldbody><body>
        <joint name="j" type="{kind}" axis="0 0 1" {limit}/><geom size="0.1"/>
        <site name="tip" pos="1 0 0"/></body></worldbody></mujoco>"""
    )
    return Robot.load(model, frame="tip")


def test_the_winding_nearest_to_the_start_is_found():
    robot = one_hinge(-TURN, TURN)
    shifted = nearest_winding(robot, [-0.1], [6.1])
    assert shifted[0] == pytest.approx(TURN - 0.1)
    np.testing.assert_allclose(
        robot.forward(shifted).position, robot.forward([-0.1]).position, atol=1e-15
    )


def test_a_value_outside_with_a_winding_inside_is_brought_in():
    robot = one_hinge(np.pi / 8, TURN)
    assert nearest_winding(robot, [-np.pi], [0.0])[0] == pytest.approx(np.pi)
    narrow = one_hinge(-0.5, 0.5)
    assert nearest_winding(narrow, [1.0], [0.0])[0] == 1.0  # there is none: left as it is
    assert len(windings(narrow, [1.0], [0.0])) == 0


def test_slides_are_never_shifted():
    robot = one_hinge(-20.0, 20.0, kind="slide")
    assert nearest_winding(robot, [0.3], [0.3 + TURN])[0] == 0.3
    np.testing.assert_array_equal(windings(robot, [0.3], [9.0]), [[0.3]])


def test_a_hinge_that_is_followed_is_not_shifted():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><compiler angle="radian"/><worldbody><body>
        <joint name="a" axis="0 0 1" range="-7 7"/><geom size="0.1"/>
        <body><joint name="b" axis="0 0 1"/><geom size="0.1"/><site name="tip" pos="1 0 0"/></body>
        </body></worldbody>
        <equality><joint joint1="b" joint2="a" polycoef="0 0.5 0 0 0"/></equality></mujoco>"""
    )
    robot = Robot.load(model, frame="tip")
    np.testing.assert_array_equal(windings(robot, [0.2], [TURN]), [[0.2]])


def test_all_windings_of_a_ur5e_reach_the_same_pose_nearest_first():
    robot = Robot.load("ur5e")
    q, reference = np.array([1.0, -1.5, 0.5, -1.0, 2.0, 0.3]), np.array([-5.0, 0, 0, 0, 0, 6.0])
    every = windings(robot, q, reference)
    assert len(every) == 2**5  # the elbow turns less than once
    assert len(np.unique(every.round(6), axis=0)) == len(every)
    assert ((every >= robot.lower) & (every <= robot.upper)).all()
    pose = robot.forward(q)
    for other in every:
        np.testing.assert_allclose(robot.forward(other).position, pose.position, atol=1e-14)
        np.testing.assert_allclose(robot.forward(other).rotation, pose.rotation, atol=1e-14)
    distance = np.linalg.norm(every - reference, axis=1)
    assert (np.diff(distance) >= 0).all()
    np.testing.assert_array_equal(every[0], nearest_winding(robot, q, reference))
    with pytest.raises(RobotError, match="32 windings"):
        windings(robot, q, reference, most=10)


@given(
    q=st.floats(-30, 30),
    near=st.floats(-30, 30),
    limits=st.one_of(st.none(), st.tuples(st.floats(-15, 0), st.floats(0.5, 15))),
)
@settings(max_examples=300, deadline=None)
def test_nearest_is_nearest_inside(q, near, limits):
    robot = one_hinge(*(limits or (None, None)))
    low, high = robot.lower[0], robot.upper[0]
    answer = float(nearest_winding(robot, [q], [near])[0])
    turns = (answer - q) / TURN
    assert abs(turns - round(turns)) < 1e-9
    candidates = [v for k in range(-16, 17) if low <= (v := q + k * TURN) <= high]
    if candidates:
        assert low <= answer <= high
        assert abs(answer - near) <= min(abs(v - near) for v in candidates) + 1e-9
    else:
        assert answer == q


@pytest.mark.parametrize("solver", ["box-lm", "box-qp", "clamped-dls"])
def test_solve_ends_in_the_winding_nearest_to_the_start(solver):
    robot = one_hinge(-TURN, TURN)
    target = optik.Target(robot.forward([-0.1]).position)
    solution = optik.solve(optik.Problem(robot, target, q_init=[6.1]), solver=solver)
    assert solution.success and solution.q[0] == pytest.approx(TURN - 0.1, abs=1e-3)
    backwards = optik.solve(optik.Problem(robot, target, q_init=[0.3]), solver=solver)
    assert backwards.success and backwards.q[0] == pytest.approx(-0.1, abs=1e-3)


def test_no_answer_of_a_ur5e_is_a_turn_further_away_than_it_need_be():
    robot = Robot.load("ur5e")
    rng = np.random.default_rng(6)
    for _ in range(20):
        pose = robot.forward(robot.sample(rng))
        target = optik.Target(pose.position, quaternion=pose.quaternion)
        solution = optik.solve(optik.Problem(robot, target))
        assert solution.success and solution.limit_violation == 0.0
        np.testing.assert_allclose(solution.q, solution.windings[0], atol=1e-12)
        from_rest = optik.Problem(robot, target, posture=optik.Posture(np.full(6, 3.0)))
        rested = optik.solve(from_rest)
        nearest = nearest_winding(robot, rested.q, np.full(6, 3.0))
        np.testing.assert_allclose(rested.q, nearest, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "turns"), [("ur5e", True), ("gen3", True), ("arm7", False), ("panda", False)]
)
def test_which_robots_have_windings(name, turns):
    assert can_turn_around(Robot.load(name)) is turns
