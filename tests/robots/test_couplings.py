"""Joints that follow others, and the constraints that are refused by name (F31)."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optik
from optik import Robot, Target
from optik.errors import RobotError
from optik.joint_limits import feasible_intervals
from optik.kinematics import Coupling
from optik.residual import Residual
from optik.solvers import SOLVERS

MIMIC = """
<mujoco><compiler angle="radian"/>
  <worldbody>
    <body><joint name="a" axis="0 0 1" ref="0.2" range="-2 2"/><geom size="0.03"/>
      <body name="fore" pos="0.5 0 0">
        <joint name="b" axis="0 0 1" ref="0.5" range="{b_range}"/>
        <geom size="0.03"/><site name="tip" pos="0.4 0 0"/>
      </body>
    </body>
  </worldbody>
  <equality>
    <joint name="mimic" joint1="b" joint2="a" polycoef="{poly}" active="{active}"/>
  </equality>
</mujoco>"""


def mimic(poly="0 -1 0 0 0", b_range="-2 2", active="true"):
    return mujoco.MjModel.from_xml_string(MIMIC.format(poly=poly, b_range=b_range, active=active))


def constraint_residual(model, qpos):
    """What MuJoCo itself says of its equality constraints at `qpos`."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    return np.abs(data.efc_pos[: data.ne])


@pytest.mark.parametrize("poly", ["0 -1 0 0 0", "0.1 0.5 0.3 0 0", "0 0.2 0 -0.4 0.1"])
def test_the_follower_obeys_mujocos_equality(poly):
    model = mimic(poly)
    robot = Robot.load(model, frame="tip")
    assert robot.joint_names == ("a",)
    for q in np.linspace(-0.7, 0.7, 9):
        assert constraint_residual(model, robot.qpos([q])).max() < 1e-15
    # offsets from the reference count, not the values
    if poly == "0 -1 0 0 0":
        np.testing.assert_allclose(robot.qpos([0.3]), [0.3, 0.4], atol=1e-15)


@pytest.mark.parametrize("poly", ["0 -1 0 0 0", "0.1 0.5 0.3 0 0"])
def test_the_jacobian_carries_the_follower(poly):
    robot = Robot.load(mimic(poly), frame="tip")
    q, h = np.array([0.37]), 1e-6
    plus, minus = robot.forward(q + h), robot.forward(q - h)
    column = (plus.position - minus.position) / (2 * h)
    np.testing.assert_allclose(robot.jacobian(q)[:3, 0], column, atol=1e-9)


def test_goals_with_the_coupling_are_reached_and_others_are_not():
    model = mimic()
    robot = Robot.load(model, frame="tip")
    coupled = Target(robot.forward([0.3]).position)
    free = Robot.load(mimic(active="false"), frame="tip")
    assert free.joint_names == ("a", "b")
    uncoupled = Target(free.forward([0.3, -0.6]).position)
    for name in SOLVERS:
        if name in ("clamped-dls", "box-qp"):
            good = optik.solve(optik.Problem(robot, coupled), solver=name)
            assert good.success
            qpos = robot.qpos(good.q)
            assert abs((qpos[1] - 0.5) + (qpos[0] - 0.2)) <= 1e-12
            assert constraint_residual(model, qpos).max() < 1e-12
            assert not optik.solve(optik.Problem(robot, uncoupled), solver=name).success
    assert optik.solve(optik.Problem(free, uncoupled), solver="box-qp").success


def test_the_followers_limits_bind():
    """b = 0.5 - (a - 0.2) in [0, 1.5] leaves a in [-0.8, 0.7]."""
    robot = Robot.load(mimic(b_range="0 1.5"), frame="tip")
    np.testing.assert_allclose([robot.lower[0], robot.upper[0]], [-0.8, 0.7], atol=1e-12)
    for end in (robot.lower, robot.upper):
        assert 0 <= robot.qpos(end)[1] <= 1.5
    row = robot.limits_table()[0]
    assert row["origin"] == "coupled joint b" and (row["model_lower"], row["model_upper"]) == (
        -2,
        2,
    )
    wider = Robot.load(mimic(b_range="0 1.5"), frame="tip", limits={"b": (-9, 9)}, unit="rad")
    assert (wider.lower[0], wider.upper[0]) == (-2, 2)


def test_a_curved_coupling_keeps_the_interval_around_home():
    """b - 0.5 = (a - 0.2)^2 in [0.25 - 0.5, 1.0 - 0.5] + 0.5 leaves two intervals of a."""
    model = mimic(poly="0 0 1 0 0", b_range="0.75 1.5")
    right = Robot.load(model, frame="tip", q_nominal=[1.0])
    left = Robot.load(model, frame="tip", q_nominal=[-0.5])
    np.testing.assert_allclose([right.lower[0], right.upper[0]], [0.7, 1.2], atol=1e-12)
    np.testing.assert_allclose([left.lower[0], left.upper[0]], [-0.8, -0.3], atol=1e-12)
    for robot in (left, right):
        for end in (robot.lower, robot.upper):
            assert 0.75 <= robot.qpos(end)[1] <= 1.5
    with pytest.raises(RobotError, match=r"'b' follows 'a', but no value.*widen"):
        Robot.load(mimic(poly="0 0 1 0 0", b_range="-2 -1"), frame="tip")


def test_moving_a_follower_by_itself_is_refused():
    with pytest.raises(
        RobotError, match="'b' follows joint 'a' by a joint equality; name 'a' instead"
    ):
        Robot.load(mimic(), frame="tip", joints=["a", "b"])


def test_moving_a_joint_that_is_fixed_is_refused():
    model = chain_of_couplings(("d", "", "0.3 0 0 0 0"))
    with pytest.raises(RobotError, match="'d' is fixed by a joint equality"):
        Robot.load(model, frame="tip", joints=["a", "d"])
    robot = Robot.load(model, frame="tip", joints=["a"])
    assert robot.qpos([0.5])[3] == pytest.approx(0.3 + 0.3)


def test_a_follower_of_a_held_joint_is_held_where_it_has_to_stand():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><compiler angle="radian"/><worldbody>
        <body><joint name="a" axis="0 0 1"/><geom size="0.03"/>
        <body pos="0.5 0 0"><joint name="b" axis="0 0 1"/><geom size="0.03"/>
        <body pos="0.5 0 0"><joint name="c" axis="0 0 1"/><geom size="0.03"/>
        <site name="tip" pos="0.4 0 0"/></body></body></body></worldbody>
        <equality><joint joint1="b" joint2="a" polycoef="0.1 2 0 0 0"/></equality></mujoco>"""
    )
    robot = Robot.load(model, frame="tip", joints=["c"], qpos=[0.3, 99.0, 0.0])
    np.testing.assert_allclose(robot.qpos([0.5]), [0.3, 0.7, 0.5], atol=1e-15)


def chain_of_couplings(*equalities):
    joints = "".join(
        f'<body pos="0.3 0 0"><joint name="{n}" axis="0 0 1" ref="{0.1 * i}"/><geom size="0.03"/>'
        for i, n in enumerate("abcd")
    )
    eq = "".join(
        f'<joint joint1="{d}" {follow} polycoef="{p}"/>'
        for d, s, p in equalities
        for follow in [f'joint2="{s}"' if s else ""]
    )
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><compiler angle="radian"/><worldbody>{joints}
        <site name="tip" pos="0.3 0 0"/>{"</body>" * 4}</worldbody>
        <equality>{eq}</equality></mujoco>"""
    )


def test_chains_of_couplings_fold():
    model = chain_of_couplings(
        ("b", "a", "0.1 2 0 0 0"), ("c", "b", "0.2 1 0.5 0 0"), ("d", "", "0.3 0 0 0 0")
    )
    robot = Robot.load(model, frame="tip")
    assert robot.joint_names == ("a",)
    for q in (-0.4, 0.0, 0.8):
        assert constraint_residual(model, robot.qpos([q])).max() < 1e-14
    h = 1e-6
    column = (robot.forward([0.2 + h]).position - robot.forward([0.2 - h]).position) / (2 * h)
    np.testing.assert_allclose(robot.jacobian([0.2])[:3, 0], column, atol=1e-8)


@pytest.mark.parametrize(
    ("equalities", "says"),
    [
        ([("a", "b", "0 1 0 0 0"), ("b", "a", "0 1 0 0 0")], "circle: a, b"),
        ([("b", "a", "0 1 0 0 0"), ("b", "c", "0 1 0 0 0")], "'b' follows two joints"),
        ([("b", "a", "0 1 0 1 0"), ("c", "b", "0 0 1 0 0")], "degree 6"),
    ],
)
def test_couplings_that_cannot_be_folded_are_refused(equalities, says):
    with pytest.raises(RobotError, match=says):
        Robot.load(chain_of_couplings(*equalities), frame="tip")


LOOP = """
<mujoco><compiler angle="radian"/>
  <worldbody>
    <body name="target" mocap="true" pos="1 0 0"><site name="there"/></body>
    <body name="l1"><joint name="a" axis="0 0 1"/><geom size="0.03"/><site name="near"/>
      <body name="l2" pos="0.5 0 0"><joint name="b" axis="0 0 1"/><geom size="0.03"/>
        <body name="l3" pos="0.5 0 0"><joint name="c" axis="0 0 1"/><geom size="0.03"/>
          <site name="tip" pos="0.4 0 0"/></body></body></body>
    <body name="other" pos="0 1 0"><joint name="o" axis="0 0 1"/><geom size="0.03"/></body>
  </worldbody>
  <tendon>
    <fixed name="strap" {limit}><joint joint="a" coef="1"/><joint joint="b" coef="1"/></fixed>
    <fixed name="far"><joint joint="o" coef="1"/></fixed>
    <spatial name="rope"><site site="near"/><site site="tip"/></spatial>
  </tendon>
  <equality>{equality}</equality>
  <actuator><motor name="motor_a" joint="a"/></actuator>
</mujoco>"""


def loop(equality="", limit=""):
    return mujoco.MjModel.from_xml_string(LOOP.format(equality=equality, limit=limit))


@pytest.mark.parametrize(
    ("equality", "limit", "says"),
    [
        (
            '<connect name="pin" body1="l3" body2="other" anchor="0 0 0"/>',
            "",
            "connect equality 'pin' between the bodies 'l3' and 'other' closes a loop over the "
            "joints a, b, c",
        ),
        ('<weld name="grip" body1="l3" body2="target"/>', "", "weld equality 'grip'"),
        ('<weld name="sites" site1="tip" site2="there"/>', "", "weld equality 'sites'"),
        ('<connect name="in" body1="l1" body2="l3" anchor="0 0 0"/>', "", "over the joints b, c"),
        ('<tendon name="t" tendon1="strap"/>', "", "tendon 'strap' ties the joints a, b"),
        ('<tendon name="t" tendon1="rope" tendon2="far"/>', "", "'rope' and 'far' ties .* b, c"),
        ("", 'limited="true" range="-1 1"', "range of the tendon 'strap' ties the joints a, b"),
    ],
)
def test_loops_and_tendons_are_refused_and_told_what_to_do(equality, limit, says):
    with pytest.raises(RobotError, match=says) as caught:
        Robot.load(loop(equality, limit), frame="tip")
    assert "leaving them out of joints=" in str(caught.value)


@pytest.mark.parametrize(
    ("equality", "joints"),
    [
        ('<connect body1="l3" body2="other" anchor="0 0 0" active="false"/>', None),
        ('<connect body1="l2" body2="l1" anchor="0 0 0"/>', ["c"]),  # both held
        ('<connect body1="l3" body2="l2" anchor="0 0 0"/>', ["a", "b"]),  # both carried alike
        ('<tendon tendon1="far"/>', None),
        ("", None),  # tendons without limits or equalities tie nothing
    ],
)
def test_constraints_that_do_not_matter_are_no_obstacle(equality, joints):
    assert Robot.load(loop(equality), frame="tip", joints=joints).n >= 1


@pytest.mark.parametrize(("name", "kind"), [("strap", "tendon"), ("motor_a", "actuator")])
def test_moving_what_is_no_joint_is_refused_by_name(name, kind):
    with pytest.raises(RobotError, match=f"'{name}' is a {kind}.*a, b, c, o"):
        Robot.load(loop(), frame="tip", joints=[name])


def test_the_residual_is_differentiated_through_the_coupling():
    robot = Robot.load(mimic("0.1 0.5 0.3 0 0"), frame="tip")
    problem = optik.Problem(robot, Target([0.6, 0.3, 0.0]), q_init=[0.3])
    residual = Residual(robot, problem.shape)
    x, h = residual.load(problem), 1e-6
    J = residual.at(x).J[:, 0]
    difference = (residual.value(x + h).e - residual.value(x - h).e) / (2 * h)
    np.testing.assert_allclose(-difference, J, atol=1e-9)


numbers = st.floats(-2, 2).map(lambda x: round(x, 3))


@given(
    coefficients=st.lists(numbers, min_size=5, max_size=5),
    low=numbers,
    width=st.floats(0.01, 3),
    references=st.tuples(numbers, numbers),
    source=st.tuples(st.floats(-3, -0.01), st.floats(0.01, 3)),
)
@settings(max_examples=300, deadline=None)
def test_intervals_are_all_and_only_what_the_follower_allows(
    coefficients, low, width, references, source
):
    c = Coupling("b", 0, 0, 0, references[0], references[1], tuple(coefficients))
    kept = feasible_intervals(c, low, low + width, *source)
    for a, b in kept:
        assert source[0] <= a <= b <= source[1]
        for q in np.linspace(a, b, 41):
            assert low - 1e-9 <= c.value(float(q)) <= low + width + 1e-9
        for end in (a, b):  # the ends are inside without any slack
            assert low <= c.value(end) <= low + width or a == b
    for q in np.linspace(*source, 301):
        if low + 1e-6 < c.value(float(q)) < low + width - 1e-6:
            assert any(a - 1e-9 <= q <= b + 1e-9 for a, b in kept)
