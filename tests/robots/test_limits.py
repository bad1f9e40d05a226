"""Limits come from the compiled model, with a unit, and are kept (F03, F08, F10, F11, F28, F32)."""

import warnings

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optik
from optik import Robot, Target
from optik.errors import OptikError, RobotError
from optik.joint_limits import LimitWarning, sampling_ranges


def hinges(*joints, compiler='<compiler angle="radian"/>', default=""):
    """An arm in the plane, one link of 0.4 m a joint."""
    body = "".join(
        f'<body pos="{0.4 if i else 0} 0 0"><joint name="j{i + 1}" axis="0 0 1" {attributes}/>'
        '<geom size="0.03"/>'
        for i, attributes in enumerate(joints)
    )
    xml = f"""<mujoco>{compiler}<default>{default}</default><worldbody>{body}
      <site name="tip" pos="0.4 0 0"/>{"</body>" * len(joints)}</worldbody></mujoco>"""
    return mujoco.MjModel.from_xml_string(xml)


@pytest.mark.parametrize(
    ("attributes", "lower", "upper"),
    [
        ("", -np.inf, np.inf),
        ('range="0 0"', -np.inf, np.inf),
        ('range="-1 1" limited="false"', -np.inf, np.inf),
        ('range="-1 1"', -1, 1),
        ('range="-1 1" limited="true"', -1, 1),
        ('range="-100000000 100000000" limited="true"', -1e8, 1e8),
    ],
)
def test_the_flag_decides_not_the_numbers(attributes, lower, upper):
    """F28: goals 1.5 rad away are reached unless a limit really forbids it."""
    robot = Robot.load(hinges(attributes, 'range="-2 2"'), frame="tip")
    assert (robot.lower[0], robot.upper[0]) == (lower, upper)
    problem = optik.Problem(robot, Target(robot.forward([1.5, 0.6]).position), q_init=[0.3, 1.0])
    assert optik.solve(problem, solver="box-qp").success == (upper >= 1.5)
    rng = np.random.default_rng(0)
    samples = robot.sample(rng, 50)
    assert np.isfinite(samples).all() and np.ptp(samples[:, 0]) <= 2 * np.pi


def test_a_locked_range_is_a_locked_joint():
    model = hinges("", "", "")
    model.jnt_limited[1], model.jnt_range[1] = 1, (0.7, 0.7)
    robot = Robot.load(model, frame="tip")
    assert robot.lower[1] == robot.upper[1] == 0.7
    problem = optik.Problem(robot, Target(robot.forward([0.3, 0.7, -0.4]).position))
    solution = optik.solve(problem, solver="box-qp")
    assert solution.success and solution.q[1] == 0.7


def test_degrees_and_radians_give_the_same_robot():
    """F32: MuJoCo reads degrees unless told otherwise; a default class sets the range."""
    in_degrees = Robot.load(
        hinges("", 'range="-90 45"', compiler="", default='<joint range="-30 30"/>'), frame="tip"
    )
    low, high = np.radians([-30, -90]).tolist(), np.radians([30, 45]).tolist()
    in_radians = Robot.load(
        hinges(f'range="{low[0]!r} {high[0]!r}"', f'range="{low[1]!r} {high[1]!r}"'), frame="tip"
    )
    np.testing.assert_allclose(in_degrees.lower, low, atol=1e-12)
    np.testing.assert_allclose(in_degrees.upper, high, atol=1e-12)
    target = Target(in_degrees.forward([0.2, -0.5]).position)
    answers = [
        optik.solve(optik.Problem(r, target, q_init=[0.0, -0.1]), solver="box-qp").q
        for r in (in_degrees, in_radians)
    ]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-9)
    row = in_degrees.limits_table()[1]
    assert (row["joint"], row["kind"], row["unit"], row["limited"]) == ("j2", "hinge", "rad", True)
    assert (row["lower_degrees"], row["upper_degrees"]) == pytest.approx((-90, 45))


def test_range_without_a_flag_and_without_autolimits_is_a_plain_error(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(
        "<mujoco><compiler autolimits='false'/><worldbody><body><joint range='-30 30'/>"
        "<geom size='1'/><site name='tip'/></body></worldbody></mujoco>"
    )
    with pytest.raises(RobotError, match="limited"):
        Robot.load(path, frame="tip")


def test_swapped_ends_are_refused():
    model = hinges('range="-1 1"', "")
    model.jnt_range[0] = 1, -1
    with pytest.raises(RobotError, match=r"'j1'.*swapped"):
        Robot.load(model, frame="tip")
    assert Robot.load(model, frame="tip", limits={"j1": (-1, 1)}, unit="rad").upper[0] == 1


def test_limits_are_overridden_with_a_unit_only():
    model = hinges('range="-1 1"', 'range="-1 1"', 'type="slide" range="0 0.1"')
    robot = Robot.load(
        model, frame="tip", limits={"j1": (-30, 30), "j2": None, "j3": (0, 0.2)}, unit="deg"
    )
    np.testing.assert_allclose(robot.lower, [-np.pi / 6, -np.inf, 0])
    np.testing.assert_allclose(robot.upper, [np.pi / 6, np.inf, 0.2])
    rows = robot.limits_table()
    assert [r["origin"] for r in rows] == ["limits="] * 3
    assert rows[0]["model_upper"] == 1 and rows[1]["model_limited"] and not rows[1]["limited"]
    assert rows[2]["unit"] == "m" and rows[2]["lower_degrees"] is None
    one_sided = Robot.load(model, frame="tip", limits={"j1": (None, 0.5)}, unit="rad")
    assert (one_sided.lower[0], one_sided.upper[0]) == (-np.inf, 0.5)
    assert one_sided.sampling_lower[0] == pytest.approx(0.5 - 2 * np.pi)
    # slides need no unit
    assert Robot.load(model, frame="tip", limits={"j3": (0, 0.05)}).upper[2] == 0.05


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limits": {"j1": (-30, 30)}}, "unit='rad' or unit='deg'"),
        ({"limits": {"j1": (1, -1)}, "unit": "rad"}, "lower <= upper"),
        ({"limits": {"j1": 1}, "unit": "rad"}, r"needs \(lower, upper\)"),
        ({"limits": {"j7": (0, 1)}, "unit": "rad"}, "'j1'"),
        ({"limits": {"j1": (np.nan, 1)}, "unit": "rad"}, "finite"),
        ({"limit_margin": -0.1}, "distance"),
        ({"limit_margin": "5"}, "N%"),
        ({"limit_margin": {"j9": 0.1}}, "'j1'"),
    ],
)
def test_wrong_limits_are_refused(options, says):
    with pytest.raises(OptikError, match=says):
        Robot.load(hinges('range="-1 1"'), frame="tip", **options)


def test_margin_in_units_and_as_a_share():
    """F11."""
    model = hinges('range="-1 1"', 'range="0 2"', "")
    robot = Robot.load(model, frame="tip", limit_margin=0.05)
    np.testing.assert_allclose(robot.lower, [-0.95, 0.05, -np.inf])
    np.testing.assert_allclose(robot.upper, [0.95, 1.95, np.inf])
    share = Robot.load(model, frame="tip", limit_margin={"j2": "10%"})
    np.testing.assert_allclose(share.lower, [-1, 0.2, -np.inf])
    np.testing.assert_allclose(share.upper, [1, 1.8, np.inf])
    assert share.limits_table()[1]["origin"] == "model, margin"


def test_a_goal_beyond_the_margin_is_not_reached_and_the_margin_is_kept():
    model = hinges('range="-1 1"')
    robot = Robot.load(model, frame="tip", limit_margin=0.05)
    whole = Robot.load(model, frame="tip")
    target = Target(whole.forward([0.98]).position)
    narrow = optik.solve(optik.Problem(robot, target), solver="box-qp")
    assert not narrow.success and narrow.q[0] == 0.95
    assert optik.solve(optik.Problem(whole, target), solver="box-qp").success


def test_a_margin_wider_than_the_range_locks_the_middle_and_says_so():
    model = hinges('type="slide" range="0 0.001"', 'range="-1 1"')
    with pytest.warns(LimitWarning, match=r"'j1'.*locked at the middle, 0.0005"):
        robot = Robot.load(model, frame="tip", limit_margin=0.01)
    assert robot.lower[0] == robot.upper[0] == 0.0005
    np.testing.assert_allclose([robot.lower[1], robot.upper[1]], [-0.99, 0.99])


def test_samples_of_unlimited_joints_are_finite_and_near_home():
    """F10."""
    model = hinges("", 'range="-1 1"', "", 'type="slide"')
    robot = Robot.load(model, frame="tip", q_nominal=[3.0, 0.0, -2.0, 0.1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples = robot.sample(np.random.default_rng(0), 500)
    assert np.isfinite(samples).all()
    assert (np.abs(samples[:, [0, 2]] - [3.0, -2.0]) <= np.pi).all()
    assert np.ptp(samples[:, 0]) > 6  # a whole turn
    assert (np.abs(samples[:, 3] - 0.1) <= model.stat.extent).all()  # the model's extent
    narrow = Robot.load(model, frame="tip", sampling={"j4": (-0.2, 0.3), "j1": (0.0, 1.0)})
    chosen = narrow.sample(np.random.default_rng(0), 200)
    assert chosen[:, 3].min() >= -0.2 and chosen[:, 3].max() <= 0.3
    assert chosen[:, 0].min() >= 0.0 and chosen[:, 0].max() <= 1.0


def test_gen3_says_where_unlimited_joints_are_sampled():
    robot = Robot.load("gen3")
    unlimited = np.isinf(robot.lower)
    assert unlimited.tolist() == [True, False, True, False, True, False, True]
    np.testing.assert_allclose(robot.sampling_upper[unlimited], np.pi)
    np.testing.assert_allclose(robot.sampling_lower[unlimited], -np.pi)


@given(
    low=st.one_of(st.just(-np.inf), st.floats(-5, 5)),
    width=st.one_of(st.just(np.inf), st.floats(0, 10)),
    nominal=st.floats(-5, 5),
)
@settings(max_examples=200, deadline=None)
def test_sampling_ranges_are_finite_and_inside_the_limits(low, width, nominal):
    high = 5.0 + width if np.isinf(low) else low + width
    a, b = sampling_ranges(np.array([low]), np.array([high]), np.array([nominal]), np.array([6.0]))
    assert np.isfinite([a, b]).all() and a[0] <= b[0] and low <= a[0] and b[0] <= high


SOLVERS_OF_EVERY_FAMILY = ("clamped-dls", "box-qp")


@pytest.mark.parametrize("solver", SOLVERS_OF_EVERY_FAMILY)
@pytest.mark.parametrize("joints", [3, 6])
def test_no_answer_ever_leaves_the_limits(solver, joints):
    """F03: reachable and unreachable goals, strictly, on success and on failure."""
    attributes = ['range="-0.6 0.6"', 'type="slide" range="0 0.3"', 'range="-0.4 1.8"']
    robot = Robot.load(hinges(*(attributes * 2)[:joints]), frame="tip")
    rng = np.random.default_rng(3)
    for k in range(40):
        beyond = np.array([0.3 * (k % 2), 0, 0])
        position = robot.forward(robot.sample(rng)).position + beyond
        q_init = robot.sample(rng)
        solution = optik.solve(optik.Problem(robot, Target(position), q_init=q_init), solver=solver)
        assert (solution.q >= robot.lower).all() and (solution.q <= robot.upper).all()


@pytest.mark.parametrize("start", [-1e-9, -0.3, 2.0])
@pytest.mark.parametrize("solver", SOLVERS_OF_EVERY_FAMILY)
def test_a_start_outside_is_projected_and_told(start, solver):
    """F07."""
    robot = Robot.load(hinges('range="0 1"', 'range="-1 1"'), frame="tip")
    target = Target(robot.forward([0.5, 0.4]).position)
    solution = optik.solve(optik.Problem(robot, target, q_init=[start, 0.1]), solver=solver)
    assert solution.start_projected and solution.success
    assert (solution.q >= robot.lower).all() and (solution.q <= robot.upper).all()


@pytest.mark.parametrize("solver", SOLVERS_OF_EVERY_FAMILY)
def test_a_model_whose_own_home_lies_outside_its_limits(solver):
    """F07: shipped models do that; qpos0 is 0 here, and a keyframe beyond its range."""
    ranges = [(0.82, 5.4), (0.33, 5.9), (0.52, 5.7)]
    model = hinges(*(f'range="{a} {b}"' for a, b in ranges))
    robot = Robot.load(model, frame="tip")
    np.testing.assert_array_equal(robot.q_nominal, [0, 0, 0])
    target = Target(robot.forward([1.0, 1.2, 0.9]).position)
    solution = optik.solve(optik.Problem(robot, target), solver=solver)
    assert solution.start_projected
    assert (solution.q >= robot.lower).all() and (solution.q <= robot.upper).all()


def test_changed_limits_change_where_samples_come_from():
    robot = Robot.load("panda")
    lower, upper = np.array(robot.lower), np.array(robot.upper)
    lower[3] = upper[3] = -1.0
    upper[0] = 0.5
    locked = robot.replace(lower=lower, upper=upper)
    samples = locked.sample(np.random.default_rng(0), 100)
    assert (samples >= locked.lower).all() and (samples <= locked.upper).all()
    assert (samples[:, 3] == -1.0).all()
    with pytest.raises(ValueError, match="read-only"):
        locked.lower[0] = 0.0
