"""The last steps on the problem's own cost."""

from __future__ import annotations

import numpy as np
import pytest
from made_problems import reachable_problem

from optik.diagnosis import certificate
from optik.evaluation import evaluate
from optik.problem import Budget
from optik.result import Claim
from optik.robot import Robot
from optik.solvers import Deadline, parse_solver
from optik.solvers.polish import STEPS, polish

OTHER_COST = (
    "box-qp:backend=mujoco,damping=0.001,error_damping=0.3,residual=chordal,rotation_weight=0.1"
)


def unsolved(robot: Robot, count: int, solver: str = OTHER_COST, seed: int = 61):
    rng = np.random.default_rng(seed)
    built = None
    for _ in range(count):
        problem = reachable_problem(robot, rng)
        if built is None:
            built = parse_solver(solver).prepare(robot, problem.shape, Budget(60))
        result = built(problem, trace=True)
        if result.status is not Claim.CONVERGED:
            yield problem, result


@pytest.mark.parametrize("name", ["arm7", "panda", "so101"])
def test_ends_at_a_first_order_point_of_the_problems_own_cost(name):
    robot = Robot.load(name)
    before, after, stationary = [], [], 0
    for problem, result in unsolved(robot, 80):
        polished = polish(problem, result)
        verdict = evaluate(problem, polished.q)
        assert verdict.limit_violation == 0.0
        assert verdict.cost <= evaluate(problem, result.q).cost
        assert (polished.status is Claim.CONVERGED) == verdict.solved
        assert result.iterations <= polished.iterations <= result.iterations + STEPS
        assert polished.evaluations > result.evaluations
        if polished.status is Claim.NO_PROGRESS:
            stationary += 1
            before.append(certificate(problem, result.q).relative_optimality)
            after.append(certificate(problem, polished.q).relative_optimality)
    assert max(after) < 1e-7
    assert stationary == len(after) >= 1
    assert max(before) > 1e-3  # where the other cost's minimum lies is not one of ours


def test_something_was_polished():
    assert sum(1 for _ in unsolved(Robot.load("panda"), 80)) >= 5


def test_a_converged_result_is_returned_as_it_is(arm7):
    problem = reachable_problem(arm7, np.random.default_rng(62))
    built = parse_solver("box-qp:backend=mujoco").prepare(arm7, problem.shape, Budget(200))
    result = built(problem)
    assert result.status is Claim.CONVERGED
    assert polish(problem, result) is result


def test_an_unfinished_path_is_finished(arm7):
    """A solver that ran out of iterations near the target: the target is reached after all."""
    problem = reachable_problem(arm7, np.random.default_rng(63))
    built = parse_solver("box-qp:backend=mujoco").prepare(arm7, problem.shape, Budget(2))
    result = built(problem, trace=True)
    assert result.status is Claim.ITERATION_LIMIT
    polished = polish(problem, result)
    assert polished.status is Claim.CONVERGED and evaluate(problem, polished.q).solved
    assert np.array_equal(polished.trace[: len(result.trace)], result.trace)
    assert np.array_equal(polished.trace[-1], polished.q)


def test_steps_and_time_are_kept(arm7):
    problem = reachable_problem(arm7, np.random.default_rng(64))
    built = parse_solver("box-qp:backend=mujoco").prepare(arm7, problem.shape, Budget(1))
    result = built(problem)
    one = polish(problem, result, steps=1)
    assert one.iterations == result.iterations + 1 and one.status is result.status
    ticks = iter(range(100))
    late = polish(problem, result, deadline=Deadline(0.5, clock=lambda: float(next(ticks))))
    assert late.iterations == result.iterations
    assert np.array_equal(late.q, result.q)


def test_nothing_is_remembered(arm7):
    problems = [reachable_problem(arm7, np.random.default_rng(s)) for s in (65, 66)]
    built = parse_solver("box-qp:backend=mujoco").prepare(arm7, problems[0].shape, Budget(3))
    a, b = (built(p) for p in problems)
    first = polish(problems[0], a)
    polish(problems[1], b)
    again = polish(problems[0], a)
    assert first.q.tobytes() == again.q.tobytes()
