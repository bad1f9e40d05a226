"""The second level: nearer to the posture, the task untouched."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from optik.api import solve
from optik.errors import UnknownNameError
from optik.evaluation import evaluate
from optik.problem import Budget, Posture, Problem, Target, Tolerance
from optik.problem_sets import load_problem_set
from optik.robot import Robot
from optik.solvers.qp import BACKENDS, QPStatus, make_backend
from optik.solvers.qp.null_space import keep_task

PLANAR = """
<mujoco><worldbody>
  <body><joint name="j1" axis="0 0 1" limited="true" range="-170 170"/>
    <geom type="capsule" fromto="0 0 0 .4 0 0" size=".02"/>
    <body pos=".4 0 0"><joint name="j2" axis="0 0 1" limited="true" range="-150 150"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02"/>
      <body pos=".3 0 0"><joint name="j3" axis="0 0 1" limited="true" range="-150 150"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02"/>
        <site name="tip" pos=".2 0 0"/>
      </body></body></body>
</worldbody></mujoco>
"""


def second_level(rng: np.random.Generator, rows: int, n: int = 7):
    # A small task leaves room in the box; a large one often just a corner of it.
    J, e = rng.normal(size=(rows, n)), rng.choice([0.05, 1.0]) * rng.normal(size=rows)
    lower, upper = -rng.uniform(0.0, 0.3, n), rng.uniform(0.0, 0.3, n)
    d = make_backend("mujoco", rows, n).step(J, e, 0.01, lower, upper).d
    return J, d, rng.uniform(0.2, 2.0, n), rng.normal(size=n), lower, upper


@pytest.mark.parametrize("name", list(BACKENDS))
@pytest.mark.parametrize("rows", [3, 6])
def test_keeps_the_task_and_agrees_with_an_independent_method(name, rows):
    rng = np.random.default_rng(51)
    backend, reference = make_backend(name, rows, 7), make_backend("daqp", rows, 7)
    moved = 0.0
    for _ in range(25):
        J, d, weights, wanted, lower, upper = second_level(rng, rows)
        out = backend.keep(J, d, weights, wanted, lower, upper)
        assert out.status is QPStatus.SOLVED
        assert (out.d >= lower).all() and (out.d <= upper).all()
        assert np.abs(J @ (out.d - d)).max() <= 1e-7
        away = float(np.linalg.norm(weights * (out.d - wanted)))
        best = reference.keep(J, d, weights, wanted, lower, upper).d
        assert away <= float(np.linalg.norm(weights * (best - wanted))) + 1e-6
        assert away <= float(np.linalg.norm(weights * (d - wanted))) + 1e-9
        moved = max(moved, float(np.abs(out.d - d).max()))
    assert moved > 1e-3  # there was something to gain


def test_active_set_is_exact():
    """Against DAQP, which shares no line with it, where many bounds are active."""
    rng = np.random.default_rng(52)
    for _ in range(200):
        rows = int(rng.integers(1, 6))
        J, d, weights, wanted, lower, upper = second_level(rng, rows)
        E = np.linalg.svd(J, full_matrices=False)[2]
        ours = keep_task(E, d, weights, wanted, lower, upper)
        theirs, status, _ = make_backend("daqp", rows, 7)._keep(E, d, weights, wanted, lower, upper)
        assert status is QPStatus.SOLVED
        assert np.abs(ours - theirs).max() <= 1e-7
        assert np.abs(E @ (ours - d)).max() <= 1e-12


def test_square_task_leaves_no_room():
    rng = np.random.default_rng(53)
    J, lower, upper = rng.normal(size=(6, 6)), np.full(6, -0.2), np.full(6, 0.2)
    d = rng.uniform(-0.1, 0.1, 6)
    out = make_backend("osqp", 6, 6).keep(J, d, np.ones(6), np.ones(6), lower, upper)
    assert np.array_equal(out.d, d)


def test_feasible_set_of_one_point():
    """Every joint shut: splitting methods give up here, and the exact method answers."""
    J = np.random.default_rng(54).normal(size=(6, 7))
    d = np.full(7, 0.1)
    for name in BACKENDS:
        out = make_backend(name, 6, 7).keep(J, d, np.ones(7), np.zeros(7), d, d)
        assert out.status is QPStatus.SOLVED
        assert np.array_equal(out.d, d)


@pytest.fixture(scope="module")
def lesson():
    return load_problem_set("arm7_lesson")


def outcomes(solver: str, problems, budget: Budget):
    rows = []
    for problem in problems:
        verdict = solve(problem, solver=solver, budget=budget).evaluation
        rows.append((verdict.solved, verdict.posture_distance, verdict.position_error))
    return np.array(rows)


def test_two_levels_keep_the_success_and_come_closer_than_the_projector(lesson):
    plain = outcomes("box-qp:backend=mujoco", lesson.problems(), Budget(200))
    asked = [p for p in lesson.problems(posture=Posture())]
    two = outcomes("box-qp:backend=mujoco", asked, Budget(200))
    exact = outcomes("clamped-dls", asked, Budget(299))
    assert two[:, 0].sum() >= plain[:, 0].sum()
    assert exact[:, 0].sum() == 81
    both = (two[:, 0] == 1) & (exact[:, 0] == 1)
    assert two[both, 1].mean() < exact[both, 1].mean() < plain[both & (plain[:, 0] == 1), 1].mean()
    assert two[two[:, 0] == 1, 1].mean() < exact[exact[:, 0] == 1, 1].mean()


def test_pose_is_met_to_the_last_digit_and_the_posture_is_nearer(arm7):
    """Field log F40: in the strict form the posture costs no accuracy."""
    rng = np.random.default_rng(55)
    tight = Tolerance(1e-9, 1e-9)
    nearer = 0
    for _ in range(12):
        pose = arm7.forward(arm7.sample(rng))
        target = Target(pose.position, quaternion=pose.quaternion)
        plain = Problem(arm7, (target,), tolerance=tight)
        asked = Problem(arm7, (target,), tolerance=tight, posture=Posture(q_rest=arm7.q_mid))
        a = solve(plain, solver="box-qp:backend=mujoco")
        b = solve(asked, solver="box-qp:backend=mujoco")
        if a.success and b.success:
            assert b.position_error <= 1e-9
            nearer += evaluate(asked, b.q).posture_distance < evaluate(asked, a.q).posture_distance
    assert nearer >= 8


@pytest.fixture(scope="module")
def planar():
    model = mujoco.MjModel.from_xml_string(PLANAR)
    return Robot.load(model, frame="tip", q_nominal=[0.3, 0.4, 0.5])


@pytest.mark.parametrize("order", [("j1", "j2", "j3"), ("j3", "j2", "j1")])
@pytest.mark.parametrize("backend", ["mujoco", "osqp"])
def test_joint_weights_by_name_whatever_the_order(planar, order, backend):
    """Field log F41: the joint with the large weight moves least, in every order of the joints."""
    robot = Robot.load(
        planar.model,
        frame="tip",
        joints=list(order),
        q_nominal=planar.q_nominal[[planar.joint_names.index(j) for j in order]],
    )
    position = planar.forward(planar.q_nominal).position + np.array([-0.15, 0.1, 0.0])
    q = {}
    for heavy in planar.joint_names:
        posture = Posture(q_rest=robot.q_nominal, joint_weights={heavy: 100.0})
        problem = Problem(robot, (Target(position),), posture=posture)
        solution = solve(problem, solver=f"box-qp:backend={backend}")
        assert solution.success
        moved = dict(zip(order, np.abs(solution.q - robot.q_nominal), strict=True))
        assert min(moved, key=moved.__getitem__) == heavy
        q[heavy] = np.array([moved[j] for j in planar.joint_names])
    reference = solve(
        Problem(
            planar,
            (Target(position),),
            posture=Posture(q_rest=planar.q_nominal, joint_weights={"j2": 100.0}),
        ),
        solver=f"box-qp:backend={backend}",
    )
    assert np.allclose(q["j2"], np.abs(reference.q - planar.q_nominal), atol=1e-6)


def test_unknown_joint_in_the_weights(planar):
    with pytest.raises(UnknownNameError, match="j4"):
        Problem(planar, (Target([0.5, 0.2, 0.0]),), posture=Posture(joint_weights={"j4": 1.0}))


def test_joint_of_weight_zero_is_free_but_not_idle(planar):
    """Only the weighted joints are pulled; the others move as the task needs."""
    position = planar.forward(planar.q_nominal).position + np.array([-0.1, 0.05, 0.0])
    moved = {}
    for weights in ((1.0, 1.0, 1.0), (0.0, 1.0, 1.0)):
        posture = Posture(q_rest=planar.q_nominal, joint_weights=weights)
        problem = Problem(planar, (Target(position),), posture=posture)
        solution = solve(problem, solver="box-qp:backend=mujoco")
        assert solution.success
        moved[weights[0]] = np.abs(solution.q - planar.q_nominal)
    assert moved[0.0][0] > moved[1.0][0]
    assert np.linalg.norm(moved[0.0][1:]) < np.linalg.norm(moved[1.0][1:])


def test_posture_never_keeps_the_task_from_being_met(planar, lesson):
    """A heavy joint whose pull would make the steps jump to and fro gives way."""
    position = planar.forward(planar.q_nominal).position + np.array([-0.15, 0.1, 0.0])
    posture = Posture(q_rest=planar.q_nominal, joint_weights={"j1": 100.0})
    for gain in (1.0, 0.3):
        problem = Problem(planar, (Target(position),), posture=posture)
        assert solve(problem, solver=f"box-qp:backend=mujoco,posture_gain={gain}").success
    plain = outcomes("box-qp:backend=mujoco", lesson.problems(), Budget(200))
    asked = outcomes("box-qp:backend=mujoco", lesson.problems(posture=Posture()), Budget(200))
    assert plain[:, 0].sum() == asked[:, 0].sum() == 92


def test_the_weighted_sum_pays_with_the_pose_and_two_levels_do_not(arm7):
    """Field log F40: the pose error grows with the weight; in the strict form it does not."""
    pose = arm7.forward(arm7.q_nominal + np.array([0.3, -0.2, 0.4, 0.3, -0.3, 0.2, 0.5]))
    target = Target(pose.position, quaternion=pose.quaternion)
    tight = Tolerance(1e-9, 1e-9)
    errors = []
    for weight in (1e-4, 1e-2, 1.0):
        problem = Problem(arm7, (target,), posture=Posture(weight=weight), tolerance=tight)
        errors.append(solve(problem, solver="trf", budget=Budget(500)).position_error)
    assert errors[0] < errors[1] < errors[2]
    assert errors[2] > 1e-3  # centimetres to millimetres: the pose is given up
    strict = Problem(arm7, (target,), posture=Posture(weight=1.0), tolerance=tight)
    plain = solve(Problem(arm7, (target,), tolerance=tight), solver="box-qp:backend=mujoco")
    two = solve(strict, solver="box-qp:backend=mujoco")
    assert two.success and two.position_error <= 1e-9
    assert evaluate(strict, two.q).posture_distance < evaluate(strict, plain.q).posture_distance
