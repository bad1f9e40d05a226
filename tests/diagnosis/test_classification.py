"""The kinds of a diagnosis against an independent check by MuJoCo and finite differences alone."""

from __future__ import annotations

import numpy as np
import pytest
from independent import Independent

import optik
from optik.diagnosis import descend, diagnose
from optik.problem import Problem, Target
from optik.result import Status
from optik.robot import Robot
from optik.solvers import parse_solver

CLAMPED = parse_solver("clamped-dls")
MINIMA = (Status.CONSTRAINED_MINIMUM, Status.SINGULAR)


def problems(name: str, seed: int, count: int) -> list[Problem]:
    robot, rng = Robot.load(name), np.random.default_rng(seed)
    made = []
    for _ in range(count):
        pose = robot.forward(robot.sample(rng))
        quaternion = pose.quaternion if robot.n >= 6 else None
        made.append(Problem(robot, Target(pose.position, quaternion=quaternion)))
    return made


@pytest.mark.parametrize("name", ["arm7", "panda", "ur5e", "so101"])
def test_failures_of_the_clamped_method(name):
    kinds = []
    for problem in problems(name, 29, 40):
        solution = optik.solve(problem, solver=CLAMPED)
        check = Independent(problem)
        assert solution.success == check.solved(solution.q)
        if solution.success:
            continue
        diagnosis = solution.diagnosis
        kinds.append(diagnosis.kind)
        facts = check.facts(solution.q)
        assert facts.relative == pytest.approx(solution.optimality, rel=1e-3, abs=1e-6)
        assert facts.stationary == (diagnosis.kind in MINIMA)
        if facts.stationary:
            continue
        assert solution.result.q_end is not None
        _, solved, lowest = check.clamped(np.array(solution.result.q_end), 800)
        # More of the same method solves it, exactly if the diagnosis says so.
        assert diagnosis.continuation is not None
        assert solved == (diagnosis.continuation.motion == "solved")
        if diagnosis.kind is Status.ITERATION_LIMIT:
            assert solved or lowest < (1 - 1e-3) * check.cost(solution.q)
        else:
            assert diagnosis.kind is Status.FALSE_STALL
            # A step down the projected gradient, inside the limits, does lower the cost.
            assert not solved
            robot = problem.robot
            downhill = solution.q - 1e-4 * solution.certificate.projected_gradient
            downhill = np.clip(downhill, robot.lower, robot.upper)
            assert check.cost(downhill) < check.cost(solution.q)
        descent = diagnosis.descent
        assert descent is not None
        assert descent.cost < check.cost(solution.q)
        assert check.solved(descent.q) == (descent.end == "solved")
    assert len(kinds) >= 3


@pytest.mark.parametrize("name", ["arm7", "panda", "ur5e", "so101"])
def test_minima_of_the_descent(name):
    seen = 0
    for problem in problems(name, 31, 60):
        descent = descend(problem, problem.robot.q_mid)
        if descent.end == "solved":
            continue
        seen += 1
        diagnosis = diagnose(problem, descent.q, solver=CLAMPED)
        facts = Independent(problem).facts(descent.q)
        assert facts.minimum
        holding = {(f.joint, f.side) for f in descent.certificate.holding}
        assert facts.holding == holding
        wanted = Status.CONSTRAINED_MINIMUM if holding else Status.SINGULAR
        assert diagnosis.kind is wanted
        assert diagnosis.continuation is None and diagnosis.descent is None
        for joint, _ in holding:
            assert joint in diagnosis.sentence
        if diagnosis.kind is Status.SINGULAR:
            assert descent.certificate.rank < len(Independent(problem).error(descent.q))
    assert seen >= 1


def test_a_fixed_point_of_the_clamped_map_is_one():
    found = 0
    for problem in problems("panda", 37, 30):
        solution = optik.solve(problem, solver=CLAMPED)
        if solution.success or solution.diagnosis.continuation is None:
            continue
        further = solution.diagnosis.continuation
        check = Independent(problem)
        if further.period:
            found += 1
            # Let it go on a long way, then once round.
            rest, solved, _ = check.clamped(np.array(further.q), 2000)
            assert not solved
            again, _, _ = check.clamped(rest, further.period - 1)
            assert np.abs(again - rest).max() < 1e-6
    assert found >= 2
