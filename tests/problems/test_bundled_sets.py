"""Every problem set in `problems/`, one added tomorrow included: it is what its TOML says."""

import numpy as np
import pytest

import optik
from optik.data import data_folder
from optik.errors import UnknownNameError
from optik.evaluation import evaluate
from optik.generate import generate
from optik.generators import GENERATORS, smallest_singular_value
from optik.pose import rotation_vector
from optik.problem_sets import load_problem_set, problem_set_names
from optik.set_files import digest_of, joint_columns, read_columns, read_spec

NAMES = problem_set_names()
FIVE_ARMS = ("arm7", "so101", "panda", "iiwa14", "ur5e")
FK_MADE = [n for n in NAMES if read_spec(n).generator in ("reachable", "at_limit", "near_singular")]
SELECTED = [n for n in NAMES if read_spec(n).pool is not None and n not in FK_MADE]


def named(stratum):
    return [n for n in NAMES if read_spec(n).stratum == stratum]


@pytest.mark.parametrize("robot", FIVE_ARMS)
def test_the_five_arms_have_every_stratum(robot):
    counts = {n: read_spec(n).count for n in NAMES if read_spec(n).robot == robot}
    assert counts[f"{robot}_reachable"] == 1000
    for k in (1, 2, 3):
        assert counts[f"{robot}_at_limit_{k}"] == 500
    assert counts[f"{robot}_near_singular"] == 500
    assert counts[f"{robot}_unreachable"] == 300
    assert counts[f"{robot}_clamping_fails"] == 300


@pytest.mark.parametrize("name", NAMES)
def test_the_set_reads_and_its_first_problems_can_be_posed(name):
    problem_set = load_problem_set(name)
    spec = problem_set.spec
    assert len(problem_set) == spec.count
    np.testing.assert_array_equal(problem_set.ids, np.arange(spec.count))
    for i in range(min(3, spec.count)):
        problem = problem_set.problem(i)
        assert problem.targets[0].kind == spec.target
        assert problem.tolerance == spec.tolerance()
        assert not problem.start_projected or spec.start == "given"
    assert spec.generator == "listed" or spec.generator in GENERATORS


@pytest.mark.parametrize("name", NAMES)
def test_every_witness_reaches_its_target_inside_the_limits(name):
    problem_set = load_problem_set(name)
    if problem_set.witnesses is None:
        assert not problem_set.spec.reachable or problem_set.spec.generator == "starts"
        return
    assert problem_set.spec.reachable
    for i in range(0, len(problem_set), max(1, len(problem_set) // 100)):
        verdict = evaluate(problem_set.problem(i), problem_set.witnesses[i])
        assert verdict.limit_violation == 0.0
        assert verdict.position_error < 1e-12 and verdict.rotation_error < 1e-11


@pytest.mark.parametrize("name", named("at_limit_1") + named("at_limit_2") + named("at_limit_3"))
def test_exactly_so_many_joints_are_on_a_limit(name):
    problem_set = load_problem_set(name)
    robot, witnesses = problem_set.robot, problem_set.witnesses
    on_limit = (witnesses == robot.lower) | (witnesses == robot.upper)
    assert (on_limit.sum(axis=1) == int(name[-1])).all()
    assert (witnesses >= robot.lower).all() and (witnesses <= robot.upper).all()
    # every joint and both ends take their turn
    assert (witnesses == robot.lower).any(axis=0).all()
    assert (witnesses == robot.upper).any(axis=0).all()


@pytest.mark.parametrize("name", named("near_singular"))
def test_witnesses_are_near_a_singularity(name):
    problem_set = load_problem_set(name)
    for q in problem_set.witnesses:
        assert smallest_singular_value(problem_set.spec, problem_set.robot, q, 0.3) < 0.02


@pytest.mark.parametrize("name", named("unreachable"))
def test_unreachable_positions_fill_the_box_and_rotations_are_unit(name):
    problem_set = load_problem_set(name)
    robot = problem_set.robot
    rng = np.random.default_rng(problem_set.spec.seed)
    seen = np.array([robot.forward(robot.sample(rng)).position for _ in range(2000)])
    low, high = seen.min(axis=0), seen.max(axis=0)
    assert (problem_set.positions >= low).all() and (problem_set.positions <= high).all()
    if problem_set.quaternions is not None:
        np.testing.assert_allclose(np.linalg.norm(problem_set.quaternions, axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("name", SELECTED)
def test_selected_sets_record_their_pool(name):
    spec = read_spec(name)
    robot = spec.load_robot()
    path = data_folder("problems") / f"{name}.csv"
    index = read_columns(path, path.read_bytes(), spec, robot)["pool_index"]
    assert (np.diff(index) > 0).all() and index[0] >= 0
    assert index[-1] == spec.pool.size - 1 and spec.pool.selected == spec.count
    assert spec.pool.rate == pytest.approx(spec.count / spec.pool.size, abs=1e-4)


@pytest.mark.parametrize("name", [n for n in NAMES if "clamping_fails" in n])
def test_the_pool_of_clamping_fails_is_a_reachable_set(name):
    """Row k of the pool is draw k of the same generator: the index finds the witness again."""
    problem_set = load_problem_set(name)
    path = data_folder("problems") / f"{name}.csv"
    columns = read_columns(path, path.read_bytes(), problem_set.spec, problem_set.robot)
    index = columns["pool_index"].astype(int)
    rng = np.random.default_rng(problem_set.spec.seed)
    draws = problem_set.robot.sample(rng, problem_set.spec.pool.size)
    np.testing.assert_array_equal(draws[index], problem_set.witnesses)


@pytest.mark.parametrize("name", [n for n in NAMES if "clamping_fails" in n])
def test_clamping_fails_on_them(name):
    problem_set = load_problem_set(name)
    picked = range(0, len(problem_set), 30)
    failed = [not optik.solve(problem_set.problem(i), solver="clamped-dls").success for i in picked]
    assert sum(failed) >= len(failed) - 1  # another platform's rounding may save one


@pytest.mark.parametrize("name", FK_MADE)
def test_sets_made_by_forward_kinematics_come_out_again(name):
    again = generate(name)
    assert not again.written and again.largest_difference <= 1e-12 and not again.different_rows


@pytest.mark.parametrize("name", ["so101_clamping_fails", "so101_unreachable"])
def test_sets_selected_by_a_solver_come_out_again_but_for_a_row_in_a_hundred(name):
    again = generate(name)
    assert len(again.different_rows) <= 0.01 * again.count
    assert again.largest_difference <= 1e-12


def test_arm7_reachable_does_not_contain_the_lesson():
    lesson, reachable = load_problem_set("arm7_lesson"), load_problem_set("arm7_reachable")
    gap = np.abs(lesson.witnesses[:, None] - reachable.witnesses[None]).max(axis=2)
    assert gap.min() > 1e-3


def test_the_lesson_on_clamping_is_one_draw_of_seven_joints_a_target():
    lesson = load_problem_set("arm7_lesson")
    robot = lesson.robot
    draws = np.random.default_rng(0).uniform(robot.lower, robot.upper, (100, 7))
    np.testing.assert_array_equal(lesson.witnesses, draws)


def test_the_lesson_on_damping_is_one_draw_of_five_joints_a_target():
    lesson = load_problem_set("so101_lesson")
    robot = lesson.robot
    draws = np.random.default_rng(0).uniform(robot.lower, robot.upper, (500, 5))
    np.testing.assert_array_equal(lesson.witnesses, draws)
    np.testing.assert_array_equal(lesson.start(), np.zeros(5))
    assert lesson.spec.position_tolerance == 5e-4


def test_sets_with_their_own_starts_use_them_unless_told_otherwise():
    pointing = load_problem_set("so101_pointing_lesson")
    assert pointing.robot.joint_names == (
        "shoulder_pan",
        "shoulder_lift",
        "elbow_flex",
        "wrist_flex",
    )
    starts = np.random.default_rng(1).uniform(pointing.robot.lower, pointing.robot.upper, (100, 4))
    for i in (0, 57, 99):
        np.testing.assert_array_equal(pointing.problem(i).q_init, starts[i])
        np.testing.assert_array_equal(pointing.problem(i, start="home").q_init, np.zeros(4))
    cut = pointing.first(10)
    assert len(cut) == len(cut.starts) == 10
    with pytest.raises(UnknownNameError, match="home"):
        pointing.start("given")


def test_the_lesson_with_far_starts_starts_far():
    lesson = load_problem_set("poe6_lesson")
    far = np.linalg.norm(lesson.starts - lesson.witnesses, axis=1)
    assert far[0] < 0.5 and np.median(far[1:]) > 2.0
    assert joint_columns("start", lesson.robot)[0] == "start_q1"


def test_listed_sets_are_left_alone():
    again = generate("planar2_lesson")
    assert again.listed and "nothing is generated" in str(again)


def test_axis_targets_point_where_the_witness_points():
    axis = load_problem_set("so101_axis_reachable")
    for i in range(0, 500, 50):
        rotation = axis.robot.forward(axis.witnesses[i]).rotation
        np.testing.assert_allclose(rotation[:, 0], axis.axes[i, 3:], atol=1e-15)
        np.testing.assert_array_equal(axis.axes[i, :3], [1, 0, 0])


def test_quaternions_are_those_of_the_witnesses():
    problem_set = load_problem_set("panda_reachable")
    for i in range(0, 1000, 100):
        pose = problem_set.robot.forward(problem_set.witnesses[i])
        assert np.linalg.norm(rotation_vector(problem_set.quaternions[i], pose.quaternion)) < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_the_digest_is_of_the_committed_file(name):
    content = (data_folder("problems") / f"{name}.csv").read_bytes()
    assert digest_of(content) == read_spec(name).digest
