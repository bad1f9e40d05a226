"""The constrained step: the published counts, its fixed points, and how it ends."""

from __future__ import annotations

import numpy as np
import pytest

from optik.api import solve
from optik.diagnosis import certificate
from optik.errors import SolverError
from optik.evaluation import evaluate
from optik.problem import Budget, Problem, Target, Tolerance
from optik.problem_sets import load_problem_set
from optik.residual import RESIDUALS, Residual
from optik.result import Claim
from optik.robot import Robot
from optik.solvers import SOLVERS, Deadline, parse_solver
from optik.solvers.box_qp import BoxQP, residual_rows
from optik.solvers.qp import QPStatus, QPStep, make_backend

BEST = "box-qp:backend=mujoco,damping=0.001,error_damping=0.3,step_limit=0.5,residual=chordal"


@pytest.fixture(scope="module")
def lesson():
    return load_problem_set("arm7_lesson")


def solved_by(solver: str, problems, budget: Budget) -> set[int]:
    built = None
    solved = set()
    for i, problem in enumerate(problems):
        if built is None:
            built = parse_solver(solver).prepare(problem.robot, problem.shape, budget)
        result = built(problem)
        verdict = evaluate(problem, result.q)
        assert verdict.limit_violation == 0.0
        assert (result.status is Claim.CONVERGED) == verdict.solved
        if verdict.solved:
            solved.add(i)
    return solved


@pytest.fixture(scope="module")
def clamped(lesson):
    return solved_by("clamped-dls", lesson.problems(), Budget(200))


@pytest.fixture(scope="module")
def exact(lesson):
    return solved_by("box-qp:backend=lsq-linear", lesson.problems(), Budget(200))


def test_published_counts_of_the_trust_box(exact, clamped):
    assert len(exact) == 92
    assert len(exact - clamped) == 11 and len(clamped - exact) == 4


def test_published_counts_of_the_scaled_step(lesson, clamped):
    solved = solved_by("box-qp:backend=lsq-linear,hold=scale", lesson.problems(), Budget(200))
    assert len(solved) == 89
    assert len(solved - clamped) == 9 and len(clamped - solved) == 5


@pytest.mark.parametrize("backend", ["osqp", "mujoco", "daqp"])
def test_backends_solve_the_same_targets(backend, lesson, exact):
    solved = solved_by(f"box-qp:backend={backend}", lesson.problems(), Budget(200))
    assert abs(len(solved) - 92) <= 1
    assert len(exact ^ solved) <= 2


@pytest.mark.parametrize(
    ("backend", "count", "accuracy"), [("osqp", 1000, 1e-7), ("cvxpy", 100, 1e-6)]
)
def test_recorded_steps_agree_with_bounded_least_squares(backend, count, accuracy, lesson):
    steps = recorded_steps(lesson, count)
    other = make_backend(backend, 6, 7)
    for arguments, d in steps:
        out = other.step(*arguments)
        assert out.status is QPStatus.SOLVED
        assert np.abs(out.d - d).max() <= accuracy


def recorded_steps(lesson, count: int):
    """The QPs that box-qp meets on the lesson's targets, with the exact answers."""
    residual = Residual(lesson.robot, lesson.problem(0).shape)
    exact = make_backend("lsq-linear", 6, 7)
    steps = []
    for problem in lesson.problems():
        x = residual.load(problem)
        for _ in range(15):
            at = residual.at(x)
            box = (np.maximum(residual.lower - x, -0.2), np.minimum(residual.upper - x, 0.2))
            d = exact.step(at.J, at.e, 0.01, *box).d
            steps.append(((at.J, at.e, 0.01, *box), d))
            x = np.clip(x + d, residual.lower, residual.upper)
            if len(steps) == count:
                return steps
    return steps


def test_where_it_stands_still_the_problem_is_stationary(lesson):
    """Fixed points of the box step are first-order points: clamping's mostly are not."""
    standing = 0
    for problem in lesson.problems():
        solution = solve(problem, solver="box-qp")
        if solution.result.status is Claim.NO_PROGRESS and "fro" not in solution.result.message:
            standing += 1
            assert certificate(problem, solution.q).relative_optimality < 1e-6
    assert standing >= 3


def test_a_path_that_repeats_itself_is_told(lesson):
    told = [
        i
        for i in (20, 81)
        if "to and fro" in parse_and_run("box-qp", lesson.problem(i), Budget(200)).message
    ]
    assert told == [20, 81]


def parse_and_run(solver: str, problem: Problem, budget: Budget):
    return parse_solver(solver).prepare(problem.robot, problem.shape, budget)(problem)


@pytest.mark.parametrize("hold", ["trust", "scale", "none"])
def test_hold_keeps_its_limit(hold, lesson):
    solver = BoxQP(backend="mujoco", hold=hold, step_limit=0.2)
    longest = 0.0
    for i in range(10):
        problem = lesson.problem(i)
        result = solver.prepare(problem.robot, problem.shape, Budget(50))(problem, trace=True)
        steps = np.diff(result.trace, axis=0)
        size = np.abs(steps).max(axis=1) if hold == "trust" else np.linalg.norm(steps, axis=1)
        longest = max(longest, float(size.max(initial=0.0)))
    assert longest > 0.2 + 1e-6 if hold == "none" else longest == pytest.approx(0.2)


def test_error_damping_shortens_far_steps_only(lesson):
    problem = lesson.problem(3)
    shape, budget = problem.shape, Budget(1)
    plain = BoxQP(backend="mujoco", hold="none").prepare(problem.robot, shape, budget)(
        problem, trace=True
    )
    damped = BoxQP(backend="mujoco", hold="none", error_damping=1.0).prepare(
        problem.robot, shape, budget
    )(problem, trace=True)
    far = [float(np.linalg.norm(np.diff(r.trace, axis=0))) for r in (plain, damped)]
    assert far[1] < far[0]
    assert len(solved_by("box-qp:error_damping=1.0", [problem], Budget(200))) <= 1


@pytest.mark.parametrize("weight", [0.1, 0.2, 0.3])
def test_the_step_that_wins_beats_clamping(weight, lesson, clamped):
    solved = solved_by(f"{BEST},rotation_weight={weight}", lesson.problems(), Budget(200))
    assert len(solved) >= 94
    assert len(solved - clamped) >= 10


def test_residual_rows_matches_the_residual(arm7):
    pose = arm7.forward(arm7.q_nominal)
    targets = {
        "pose": Target(pose.position, quaternion=pose.quaternion),
        "position": Target(pose.position),
        "axis": Target(pose.position, axis=([0, 0, 1], [0, 0, -1])),
        "masked": Target(
            pose.position, quaternion=pose.quaternion, mask=[True, True, False, True, False, True]
        ),
    }
    for kind in RESIDUALS:
        for target in targets.values():
            problem = Problem(arm7, (target, target))
            residual = Residual(arm7, problem.shape, kind=kind)
            x = residual.load(problem)
            assert len(residual.at(x).e) == residual_rows(problem.shape, kind)


@pytest.mark.parametrize("status", [s for s in QPStatus if s is not QPStatus.SOLVED])
def test_a_backend_that_fails_ends_the_solve_with_its_word(status, lesson, monkeypatch):
    """Field log F13: q unchanged, no exception, the reason told."""
    from optik.solvers.qp.mujoco import Mujoco

    def fails(self, J, e, damping, lower, upper):
        return QPStep(np.full(7, 0.1), status, 0.0, "as the backend says")

    monkeypatch.setattr(Mujoco, "step", fails)
    problem = lesson.problem(0)
    result = parse_and_run("box-qp:backend=mujoco", problem, Budget(50))
    assert result.status is Claim.NUMERICAL_FAILURE
    assert "as the backend says" in result.message and status.value in result.message
    assert np.array_equal(result.q, problem.q_start)
    assert result.iterations == 0


def test_iteration_cap_inside_osqp_ends_the_solve(lesson, monkeypatch):
    """Field log F13: OSQP with one iteration on a seven-joint step."""
    from optik.solvers.qp import osqp

    monkeypatch.setitem(osqp._SETTINGS, "max_iter", 1)
    problem = lesson.problem(0)
    result = parse_and_run("box-qp:backend=osqp", problem, Budget(50))
    assert result.status is Claim.NUMERICAL_FAILURE
    assert "maximum iterations reached" in result.message
    assert np.array_equal(result.q, problem.q_start)


def test_time_is_kept(lesson):
    ticks = iter(range(10**9))
    deadline = Deadline(3.0, clock=lambda: float(next(ticks)))
    problem = lesson.problem(20)
    built = BoxQP(backend="mujoco").prepare(problem.robot, problem.shape, Budget(200))
    result = built(problem, deadline=deadline)
    assert result.status is Claim.TIME_LIMIT
    assert result.iterations <= 3


def test_robot_without_a_free_joint(arm7):
    q = arm7.q_nominal
    robot = arm7.replace(lower=q, upper=q, sampling_lower=q, sampling_upper=q)
    problem = Problem(robot, (Target([0.4, 0.1, 0.9]),))
    for backend in ("lsq-linear", "mujoco"):
        result = parse_and_run(f"box-qp:backend={backend}", problem, Budget(5))
        assert result.status is Claim.NO_PROGRESS
        assert np.array_equal(result.q, q)


def test_all_joints_unlimited_equals_plain_damped_least_squares():
    robot = Robot.load("arm7")
    inf = np.full(robot.n, np.inf)
    free = robot.replace(lower=-inf, upper=inf)
    pose = robot.forward(robot.q_nominal + 0.1)
    problem = Problem(free, (Target(pose.position, quaternion=pose.quaternion),))
    box = BoxQP(hold="scale", backend="mujoco").prepare(free, problem.shape, Budget(50))
    plain = SOLVERS["clamped-dls"]().prepare(free, problem.shape, Budget(50))
    a, b = box(problem), plain(problem)
    assert a.status is b.status is Claim.CONVERGED
    assert np.allclose(a.q, b.q, atol=1e-8)


def test_tight_tolerance_is_reached(lesson):
    problem = lesson.problem(0)
    tight = Problem(
        problem.robot, problem.targets, q_init=problem.q_init, tolerance=Tolerance(1e-10, 1e-10)
    )
    assert solve(tight, solver="box-qp:backend=mujoco").success


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "quadprog"},
        {"damping": 0.0},
        {"damping": float("nan")},
        {"error_damping": -1.0},
        {"hold": "clip"},
        {"step_limit": 0.0},
        {"residual": "euler"},
        {"rotation_weight": -0.1},
        {"posture_gain": -0.1},
    ],
)
def test_options_outside_their_range(options):
    with pytest.raises(SolverError, match=next(iter(options))):
        BoxQP(**options)
