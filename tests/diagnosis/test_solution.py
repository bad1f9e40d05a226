"""A solution is cheap to make, tells the rest on demand, and reads well."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from inline_snapshot import snapshot
from random_models import random_chain

import optik
import optik.solution
from optik.errors import RobotError, UnknownNameError
from optik.evaluation import evaluate, limit_violation, problem_residual
from optik.explain import explain, to_json
from optik.problem import Posture, Problem, Target
from optik.result import Status
from optik.robot import Robot


@pytest.fixture(scope="module")
def lesson():
    return optik.load_problem_set("arm7_lesson")


def test_nothing_is_worked_out_before_it_is_asked_for(lesson, monkeypatch):
    calls = []
    diagnose = optik.solution.diagnose
    certificate = optik.solution.certificate
    monkeypatch.setattr(
        optik.solution, "diagnose", lambda *a, **k: calls.append("diagnose") or diagnose(*a, **k)
    )
    monkeypatch.setattr(
        optik.solution, "certificate", lambda *a: calls.append("certificate") or certificate(*a)
    )
    solution = optik.solve(lesson.problem(3), solver="clamped-dls")
    assert not solution.success and not solution.false_claim
    assert solution.position_error > 0.01 and solution.limit_violation == 0.0
    assert solution.active_upper.tolist() == [False] * 5 + [True, False]
    assert solution.active_lower.tolist() == [False] * 6 + [True]
    assert solution.posture_distance > 0.0
    assert calls == []
    assert solution.optimality > 0.1
    assert calls == ["certificate"]
    assert solution.status is Status.FALSE_STALL
    assert solution.status is solution.diagnosis.kind
    assert solution.message == solution.diagnosis.sentence
    assert calls == ["certificate", "diagnose"]


def test_the_certificate_is_the_diagnosis_s(lesson):
    solution = optik.solve(lesson.problem(3), solver="clamped-dls")
    assert solution.message
    assert solution.certificate is solution.diagnosis.certificate


def test_it_is_frozen_and_can_be_replaced(lesson):
    solution = optik.solve(lesson.problem(0), solver="clamped-dls")
    with pytest.raises(FrozenInstanceError):
        solution.solver = "other"  # type: ignore[misc]
    changed = replace(solution, solver="other")
    assert changed.solver == "other" and changed.q is solution.q and changed.budget
    assert solution.solver == "clamped-dls"


def test_posture_distance_weighs_joints():
    robot = Robot.load("arm7")
    weights = {"j2": 3.0}
    problem = Problem(
        robot, Target([0.4, 0.1, 0.9]), posture=Posture(np.zeros(7), joint_weights=weights)
    )
    q = np.arange(1.0, 8.0) / 10
    wanted = np.sqrt((np.array([1, 3, 1, 1, 1, 1, 1]) ** 2 * q**2).sum())
    assert evaluate(problem, q).posture_distance == pytest.approx(wanted)
    assert evaluate(problem, np.full(7, np.nan)).posture_distance == np.inf


def test_the_judge_in_plain_floats_agrees_with_the_residual():
    rng = np.random.default_rng(0)
    for joints in (2, 3, 5, 7):
        robot = random_chain(rng, joints)
        for target in (
            Target(rng.normal(size=3), position_weight=2.0),
            Target(rng.normal(size=3), quaternion=_unit(rng), rotation_weight=0.3),
            Target(rng.normal(size=3), axis=(rng.normal(size=3), rng.normal(size=3))),
        ):
            problem = Problem(robot, target)
            residual = problem_residual(robot, problem.shape)
            residual.load(problem)
            q = robot.sample(rng)
            verdict, value = evaluate(problem, q), residual.evaluate(q, jacobian=False)
            assert verdict.position_error == pytest.approx(value.position_error, abs=1e-13)
            assert verdict.rotation_error == pytest.approx(value.rotation_error, abs=1e-13)
            assert verdict.cost == pytest.approx(value.cost, abs=1e-13)
            outside = q + rng.normal(size=joints)
            found = evaluate(problem, outside).limit_violation
            assert found == limit_violation(robot, outside)


def _unit(rng: np.random.Generator) -> np.ndarray:
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def test_windings_are_other_turns_of_the_same_pose():
    robot = Robot.load("ur5e")
    q = np.array([0.5, -1.0, 1.0, 0.3, 0.4, 0.2])
    pose = robot.forward(q)
    problem = Problem(robot, Target(pose.position, quaternion=pose.quaternion), q_init=q)
    solution = optik.solve(problem, solver="clamped-dls")
    assert np.array_equal(solution.windings[0], q)
    # Five joints of the UR5e turn twice, the elbow once.
    assert solution.windings.shape == (32, 6)
    for other in solution.windings:
        assert evaluate(problem, other).solved


def test_nothing_outside_or_not_finite_is_solved():
    robot = Robot.load("arm7")
    q = np.array(robot.upper)
    problem = Problem(robot, Target(robot.forward(q).position))
    assert evaluate(problem, q).solved
    q[0] = np.nextafter(q[0], 10.0)
    assert not evaluate(problem, q).solved
    for bad in (np.full(7, np.nan), np.append(robot.upper[:6], np.inf), np.zeros(6)):
        verdict = evaluate(problem, bad)
        assert not verdict.solved and verdict.cost == np.inf


def test_a_proof_is_attached_on_demand_only(lesson):
    problem = Problem(Robot.load("planar2_05_05"), Target([1.5, 0.0, 0.0]))
    solution = optik.solve(problem, solver="projected-lm")
    assert solution.status is Status.SINGULAR and solution.proof is None
    proof = solution.prove(time_limit=10.0)
    assert proof is not None and proof.verify()
    assert solution.proof is proof and solution.prove() is proof
    assert solution.status is Status.UNREACHABLE
    assert solution.message.startswith(proof.sentence)
    assert "proof.verify()" in explain(solution)
    told = json.loads(json.dumps(to_json(solution), allow_nan=False))
    assert told["status"] == "unreachable"
    assert told["diagnosis"]["proof"]["bound"] == proof.bound
    # A target that is reached, or reachable, never gets one.
    assert optik.solve(lesson.problem(0), solver="clamped-dls").prove() is None
    reachable = optik.solve(lesson.problem(3), solver="clamped-dls")
    assert reachable.prove(time_limit=0.2) is None
    assert reachable.status is Status.FALSE_STALL


def test_diagnose_takes_a_solver_by_name(lesson):
    problem = lesson.problem(28)
    q = optik.solve(problem, solver="clamped-dls").result.q_end
    diagnosis = optik.diagnose(problem, q, solver="clamped-dls")
    assert diagnosis.kind is Status.FALSE_STALL
    assert diagnosis.sentence.startswith("clamped-dls ")
    assert str(diagnosis).startswith("false_stall: clamped-dls ")
    with pytest.raises(UnknownNameError, match="clamped-dls"):
        optik.diagnose(problem, q, solver="clamped-dsl")
    with pytest.raises(RobotError, match="7 numbers"):
        optik.diagnose(problem, [0.0, 1.0])


def test_json_carries_everything(lesson):
    for i in (0, 3, 40):
        solution = optik.solve(lesson.problem(i), solver="clamped-dls", trace=True)
        told = to_json(solution)
        again = json.loads(json.dumps(told, allow_nan=False))
        assert again["success"] == solution.success
        assert again["status"] == again["diagnosis"]["kind"] == solution.status.value
        assert again["message"] == again["diagnosis"]["sentence"] == solution.message
        assert again["q"] == solution.q.tolist()
        assert np.shape(again["trace"]) == solution.trace.shape
        assert again["certificate"]["relative_optimality"] == solution.optimality
        held = {f["joint"] for f in again["certificate"]["active_limits"]}
        on = solution.active_lower | solution.active_upper
        assert held == {n for n, a in zip(solution.problem.robot.joint_names, on, strict=True) if a}


def test_explain_reads_well(lesson):
    solution = optik.solve(lesson.problem(28), solver="clamped-dls")
    text = explain(solution)
    assert all(len(line) <= 100 for line in text.splitlines())
    # The last line has a time in it.
    assert "\n".join(text.splitlines()[:-1]) == snapshot("""\
arm7: false stall

clamped-dls stands still 0.425 mm and 1.02 rad (58.2 deg) from the target, which is no minimum
(relative projected gradient 0.47): a descent inside the limits solves it in 4 steps.

joint       value       lower       upper
j1        1.05091     -2.9000      2.9000 rad
j2       -1.12608     -1.8000      1.8000 rad
j3       -0.03564     -2.9000      2.9000 rad
j4        1.67071     -0.1000      2.9000 rad
j5        1.57082     -2.9000      2.9000 rad
j6        0.64410     -2.2000      2.2000 rad
j7        2.90000     -2.9000      2.9000 rad   pressed on its upper limit, multiplier 1.02

at this configuration
  cost                         0.51519 m^2
  relative projected gradient  4.72e-01 (not stationary)
  Jacobian 6 by 7              rank 6, smallest singular value 0.154
""")
    solved = explain(optik.solve(lesson.problem(0), solver="clamped-dls"))
    assert solved.splitlines()[0] == "arm7: solved"
    assert "gradient" not in solved
