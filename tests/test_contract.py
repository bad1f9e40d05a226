"""The promises that every solver keeps, tested over every solver and a robot of each kind."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from made_problems import reachable_problem

from optik.api import solve
from optik.chain import axis_rotation
from optik.evaluation import evaluate
from optik.pose import quaternion_from_matrix
from optik.problem import Budget, Problem, Target
from optik.result import Claim
from optik.robot import Robot
from optik.solvers import SOLVERS, Deadline, Solver, parse_solver

# Peers need libraries of their own and have their own tests.
CONTRACT_SOLVERS = [name for name, cls in SOLVERS.items() if cls.family != "peer"]
BUDGET = Budget(iterations=60)


@pytest.fixture(params=CONTRACT_SOLVERS)
def solver(request: pytest.FixtureRequest) -> Solver:
    return parse_solver(request.param)


@cache
def load(name: str) -> Robot:
    return Robot.load(name)


@cache
def prepared(solver: Solver, robot: Robot, kind: str, budget: Budget):
    """Built once for a robot and a kind of target, as a user's program would."""
    return solver.prepare(robot, _shape(robot, kind), budget)


@cache
def _shape(robot: Robot, kind: str):
    pose = robot.forward(robot.q_nominal)
    quaternion = pose.quaternion if kind == "pose" else None
    return Problem(robot, (Target(pose.position, quaternion=quaternion),)).shape


def run(solver: Solver, problem: Problem, budget: Budget = BUDGET, **options):
    kind = problem.targets[0].kind
    return prepared(solver, problem.robot, kind, budget)(problem, **options)


def assert_honest(problem: Problem, result) -> None:
    robot = problem.robot
    assert result.q.shape == (robot.n,)
    assert np.isfinite(result.q).all()
    assert (result.q >= robot.lower).all() and (result.q <= robot.upper).all()
    verdict = evaluate(problem, result.q)
    if result.status is Claim.CONVERGED:
        assert verdict.solved
    assert verdict.cost <= evaluate(problem, problem.q_start).cost + 1e-12 or verdict.solved


def test_inside_limits_true_claims_start_untouched(solver, contract_robot):
    robot, rng = load(contract_robot), np.random.default_rng(11)
    for _ in range(4):
        problem = reachable_problem(robot, rng)
        before = problem.q_init.copy()
        result = run(solver, problem)
        assert_honest(problem, result)
        assert np.array_equal(problem.q_init, before)
        assert result.evaluations >= 1 and result.iterations >= 0


def test_solved_start_takes_no_step(solver, contract_robot):
    robot = load(contract_robot)
    pose = robot.forward(robot.q_nominal)
    quaternion = pose.quaternion if robot.n >= 6 else None
    problem = Problem(robot, (Target(pose.position, quaternion=quaternion),))
    result = run(solver, problem)
    assert result.status is Claim.CONVERGED
    assert evaluate(problem, result.q).solved


def test_a_b_a_is_bit_equal(solver, contract_robot):
    robot, rng = load(contract_robot), np.random.default_rng(12)
    a, b = reachable_problem(robot, rng), reachable_problem(robot, rng)
    first, _, third = run(solver, a), run(solver, b), run(solver, a)
    assert first.q.tobytes() == third.q.tobytes()
    assert (first.status, first.iterations, first.evaluations) == (
        third.status,
        third.iterations,
        third.evaluations,
    )


def test_picklable_and_equal_after(solver):
    again = pickle.loads(pickle.dumps(solver))
    assert again == solver and hash(again) == hash(solver)
    assert parse_solver(str(solver)) == solver


def test_trace_ends_where_the_method_stopped(solver, contract_robot):
    robot, rng = load(contract_robot), np.random.default_rng(13)
    problem = reachable_problem(robot, rng)
    plain, traced = run(solver, problem), run(solver, problem, trace=True)
    assert plain.trace is None
    assert traced.trace is not None and traced.trace.ndim == 2 and traced.trace.shape[1] == robot.n
    assert np.array_equal(plain.q, traced.q)
    assert (traced.trace >= robot.lower).all() and (traced.trace <= robot.upper).all()


def test_iterations_are_kept(solver, arm7):
    problem = Problem(arm7, (Target([1.6, 0.0, 0.5], quaternion=[1, 0, 0, 0]),))
    result = run(solver, problem, Budget(iterations=3))
    assert result.iterations <= 3
    assert_honest(problem, result)


def test_time_is_kept_by_an_injected_clock(solver, arm7):
    """Every look at the clock takes a second: a deadline of three ends the solve at once."""
    ticks = iter(range(10**9))
    deadline = Deadline(3.0, clock=lambda: float(next(ticks)))
    problem = Problem(arm7, (Target([1.6, 0.0, 0.5], quaternion=[1, 0, 0, 0]),))
    free = run(solver, problem)
    result = run(solver, problem, deadline=deadline)
    assert_honest(problem, result)
    assert result.evaluations <= free.evaluations


def test_start_on_limits(solver, arm7):
    rng = np.random.default_rng(14)
    for start in (arm7.lower, arm7.upper):
        problem = reachable_problem(arm7, rng, q_init=start)
        assert_honest(problem, run(solver, problem))


def test_start_outside_is_projected(solver, arm7):
    problem = reachable_problem(arm7, np.random.default_rng(15), q_init=arm7.upper + 0.3)
    assert problem.start_projected
    assert_honest(problem, run(solver, problem))


def test_locked_joint_keeps_its_value(solver, arm7):
    lower, upper = arm7.lower.copy(), arm7.upper.copy()
    lower[2] = upper[2] = 0.7
    robot = arm7.replace(lower=lower, upper=upper, sampling_lower=lower, sampling_upper=upper)
    problem = reachable_problem(robot, np.random.default_rng(16))
    result = solver.prepare(robot, problem.shape, BUDGET)(problem)
    assert result.q[2] == 0.7
    assert_honest(problem, result)


def test_every_joint_locked(solver, arm7):
    q = arm7.q_nominal
    robot = arm7.replace(lower=q, upper=q, sampling_lower=q, sampling_upper=q)
    problem = Problem(robot, (Target([0.4, 0.1, 0.9]),))
    result = solver.prepare(robot, problem.shape, BUDGET)(problem)
    assert np.array_equal(result.q, q)
    assert result.status is not Claim.CONVERGED


def test_half_turn(solver, arm7):
    pose = arm7.forward(arm7.q_nominal)
    turned = quaternion_from_matrix(pose.rotation @ axis_rotation(np.array([1.0, 0, 0]), np.pi))
    problem = Problem(arm7, (Target(pose.position, quaternion=turned),))
    assert evaluate(problem, arm7.q_nominal).rotation_error == pytest.approx(np.pi, abs=1e-9)
    assert_honest(problem, run(solver, problem))


def test_unreachable_is_never_claimed(solver, arm7):
    problem = Problem(arm7, (Target([3.0, 0.0, 0.5]),))
    result = run(solver, problem)
    assert result.status is not Claim.CONVERGED
    assert_honest(problem, result)


def test_negated_quaternion_is_the_same_target(solver, arm7):
    rng = np.random.default_rng(17)
    pose = arm7.forward(arm7.sample(rng))
    one, other = (
        Problem(arm7, (Target(pose.position, quaternion=s * pose.quaternion),)) for s in (1, -1)
    )
    assert run(solver, one).q.tobytes() == run(solver, other).q.tobytes()


def test_silent(solver, arm7, capfd):
    problem = reachable_problem(arm7, np.random.default_rng(18))
    solver.prepare(arm7, problem.shape, BUDGET)(problem)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_solve_judges_the_same_configuration(solver, arm7):
    problem = reachable_problem(arm7, np.random.default_rng(19))
    solution = solve(problem, solver=solver, budget=BUDGET)
    assert solution.success == evaluate(problem, solution.q).solved
    assert not solution.false_claim
