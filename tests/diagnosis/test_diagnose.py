"""Every kind of diagnosis, the cases of the field log, and the lesson's failures."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import ClassVar

import mujoco
import numpy as np
import pytest

import optik
from optik.diagnosis import descend, diagnose
from optik.diagnosis.continuation import cycle_length, more_iterations
from optik.explain import to_json
from optik.problem import Budget, Problem, Shape, Target, Tolerance
from optik.reachability import prove_unreachable
from optik.result import Claim, Result, Status
from optik.robot import Robot
from optik.solvers import SOLVERS, Prepared, Solver, parse_solver

CLAMPED = parse_solver("clamped-dls")


def planar(links: list[float], limit: float) -> Robot:
    """Hinges about z in a row, straight along x at zero."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    body = spec.worldbody
    for i in range(len(links)):
        body = body.add_body(pos=[links[i - 1] if i else 0.0, 0.0, 0.0])
        body.add_geom(size=[0.01, 0, 0])
        joint = body.add_joint(name=f"j{i + 1}", axis=[0, 0, 1])
        joint.limited, joint.range = mujoco.mjtLimited.mjLIMITED_TRUE, [-limit, limit]
    body.add_site(name="tip", pos=[links[-1], 0.0, 0.0])
    return Robot.load(spec, frame="tip", name=f"planar{len(links)}")


@dataclass(frozen=True, kw_only=True)
class Says(Solver):
    """A stub that hands back what it is told to, and claims what it is told to."""

    name: ClassVar[str] = "says"
    summary: ClassVar[str] = "a stub"
    family: ClassVar[str] = "stub"

    q: tuple[float, ...]
    claim: Claim = Claim.CONVERGED

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        def run(problem, *, trace=False, deadline=None):
            return Result(np.array(self.q), self.claim, "so it says", 1, 1)

        return run


def test_f04_success_speaks_of_the_q_handed_back():
    """A stub returns 0.8 in a range of 0.5: moved back onto the limit, then judged, not before."""
    robot = planar([1.0], 0.5)
    target = Target(robot.forward([0.8]).position)
    solution = optik.solve(Problem(robot, target), solver=Says(q=(0.8,)))
    assert not solution.success
    assert solution.q.tolist() == [0.5]
    assert solution.limit_violation == 0.0
    assert solution.result.raw_violation == pytest.approx(0.3)
    assert solution.position_error == pytest.approx(2 * np.sin(0.15))
    assert solution.false_claim
    assert solution.status is Status.CONSTRAINED_MINIMUM
    (force,) = solution.certificate.holding
    assert (force.joint, force.side, force.limit) == ("j1", "upper", 0.5)
    assert "claims success, which the judge does not confirm" in solution.message
    assert "j1 at its upper limit (0.5 rad)" in solution.message


@pytest.mark.parametrize(
    "name", [n for n, s in SOLVERS.items() if s.family not in ("wrapper", "peer")]
)
def test_f05_out_of_reach_is_told_with_the_best_posture(name):
    """Links of 0.5 and 0.5, target 1.5 m out: half a metre is left whatever the solver."""
    robot = Robot.load("planar2_05_05").replace(q_nominal=np.array([0.4, 0.6]))
    problem = Problem(robot, Target([1.5, 0.0, 0.0]))
    solution = optik.solve(problem, solver=name, budget=Budget(iterations=1000))
    assert not solution.success and not solution.false_claim
    assert solution.status not in (Status.SOLVED, Status.UNREACHABLE, Status.NUMERICAL_FAILURE)
    assert 0.5 <= solution.position_error < 0.5 + 1e-3
    assert descend(problem, solution.q).position_error == pytest.approx(0.5, abs=1e-9)
    assert problem.tolerance == Tolerance(position=1e-4, rotation=1e-3)
    assert "mm" in solution.message


def test_f05_is_singular_when_taken_to_the_end():
    problem = Problem(Robot.load("planar2_05_05"), Target([1.5, 0.0, 0.0]))
    descent = descend(problem, np.array([0.4, 0.6]))
    diagnosis = diagnose(problem, descent.q)
    assert diagnosis.kind is Status.SINGULAR
    assert "rank 1" in diagnosis.sentence and "500 mm" in diagnosis.sentence
    pose = problem.robot.forward(diagnosis.q)
    assert np.abs(pose.position - [1.0, 0.0, 0.0]).max() < 1e-6


def test_f45_a_straight_start_is_singular_and_restarts_solve_it():
    robot = planar([0.3, 0.3, 0.3], 2.8)
    problem = Problem(robot, Target([0.45, 0.0, 0.0]), tolerance=Tolerance(1e-6, 1e-3))
    solution = optik.solve(problem, solver=CLAMPED)
    assert solution.q.tolist() == [0.0, 0.0, 0.0]
    assert solution.status is Status.SINGULAR
    assert solution.optimality == 0.0
    assert solution.certificate.holding == ()
    assert solution.certificate.smallest_singular_value < 1e-12
    assert solution.certificate.smallest_curvature < 0.0  # no minimum: bending helps
    assert solution.diagnosis.descent is not None
    assert solution.diagnosis.descent.end == "solved"
    assert "singular configuration 450 mm" in solution.message
    many = optik.solve(problem, solver=CLAMPED, restarts=8, seed=0)
    assert many.success and many.position_error <= 1e-6 and many.restarts >= 1


@pytest.fixture(scope="module")
def lesson():
    problems = optik.load_problem_set("arm7_lesson")
    solutions = {i: optik.solve(p, solver=CLAMPED) for i, p in enumerate(problems.problems())}
    return {i: s for i, s in solutions.items() if not s.success}


def test_the_lesson_s_fifteen_failures(lesson, capsys):
    assert sorted(lesson) == [1, 3, 14, 20, 28, 36, 40, 49, 61, 66, 75, 81, 87, 97, 99]
    reasons, spent = {}, []
    for i, solution in lesson.items():
        began = time.process_time()
        reasons[i] = solution.diagnosis
        spent.append(1e3 * (time.process_time() - began))
    with capsys.disabled():
        print(
            f"\n15 diagnoses of clamped-dls: median {np.median(spent):.1f} ms, "
            f"most {max(spent):.1f} ms of processor time"
        )
    solved = [i for i, d in reasons.items() if d.continuation.motion == "solved"]
    assert solved == [1, 40, 49, 87, 97, 99]
    assert all(reasons[i].kind is Status.ITERATION_LIMIT for i in solved)
    others = {d.kind for i, d in reasons.items() if i not in solved}
    assert others <= {Status.FALSE_STALL, Status.ITERATION_LIMIT}
    assert all(not d.certificate.stationary for d in reasons.values())
    # 40 and 87 need no more than 300 iterations in all.
    assert [i for i in solved if reasons[i].continuation.iterations <= 100] == [40, 87]


def test_more_iterations_do_what_the_diagnosis_says(lesson):
    for i in (1, 40, 99, 3, 14):
        further = lesson[i].diagnosis.continuation
        problem = lesson[i].problem
        longer = Budget(iterations=200 + further.iterations)
        again = optik.solve(problem, solver=CLAMPED, budget=longer)
        assert again.success == (further.motion == "solved")


def test_a_diagnosis_is_deterministic_and_json(lesson):
    for i in (3, 40):
        first = lesson[i].diagnosis.to_json()
        again = optik.solve(lesson[i].problem, solver=CLAMPED).diagnosis.to_json()
        assert json.dumps(first, allow_nan=False) == json.dumps(again, allow_nan=False)
        assert {"kind", "sentence", "certificate", "continuation", "descent"} <= set(first)


def test_solved(lesson):
    problem = next(optik.load_problem_set("arm7_lesson").problems())
    solution = optik.solve(problem, solver=CLAMPED)
    assert solution.status is Status.SOLVED
    assert solution.message.startswith("Solved: ")
    assert solution.diagnosis.descent is None and solution.diagnosis.continuation is None


def test_without_a_solver_nothing_is_said_about_going_on(lesson):
    solution = lesson[28]
    diagnosis = diagnose(solution.problem, solution.q)
    assert diagnosis.kind is Status.FALSE_STALL
    assert diagnosis.continuation is None
    assert diagnosis.sentence.startswith("This configuration is ")
    assert "solves it in" in diagnosis.sentence


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        (Claim.ITERATION_LIMIT, Status.ITERATION_LIMIT),
        (Claim.TIME_LIMIT, Status.TIME_LIMIT),
        (Claim.NO_PROGRESS, Status.FALSE_STALL),
        (Claim.NUMERICAL_FAILURE, Status.NUMERICAL_FAILURE),
    ],
)
def test_the_claim_decides_between_limits_of_budget(lesson, claim, kind):
    """Target 40 is on its way to a solution; what ran out is only known from the claim."""
    solution = lesson[40]
    result = solution.result
    diagnosis = diagnose(
        solution.problem, solution.q, solver=CLAMPED, claim=claim, q_end=result.q_end
    )
    assert diagnosis.kind is kind
    if claim is Claim.NO_PROGRESS:
        assert diagnosis.sentence.startswith("clamped-dls gave up 17.9 mm and 0.086 rad")
        assert "Started afresh there, clamped-dls solves it in 44 iterations" in diagnosis.sentence


def test_a_time_limit_at_a_fixed_point_is_a_false_stall(lesson):
    solution = lesson[3]
    diagnosis = diagnose(
        solution.problem,
        solution.q,
        solver=CLAMPED,
        claim=Claim.TIME_LIMIT,
        q_end=solution.result.q_end,
    )
    assert diagnosis.kind is Status.FALSE_STALL


def test_not_a_number_is_a_numerical_failure():
    robot = planar([0.3, 0.3], 2.0)
    problem = Problem(robot, Target([0.3, 0.2, 0.0]))
    solution = optik.solve(problem, solver=Says(q=(0.1, float("nan"))))
    assert not solution.success
    assert solution.status is Status.NUMERICAL_FAILURE
    assert "j2" in solution.message
    json.dumps(to_json(solution), allow_nan=False)


def test_a_method_that_ends_beside_its_minimum_is_at_it():
    """An interior-point method stops near a limit, not on it."""
    robot = planar([1.0], 0.5)
    problem = Problem(robot, Target(robot.forward([0.8]).position))
    diagnosis = diagnose(problem, np.array([0.5 - 3e-7]), claim=Claim.NO_PROGRESS)
    assert diagnosis.kind is Status.CONSTRAINED_MINIMUM
    assert diagnosis.certificate is not None and not diagnosis.certificate.stationary
    assert diagnosis.minimum is not None and diagnosis.minimum.holding[0].joint == "j1"
    further = diagnose(problem, np.array([0.45]), claim=Claim.NO_PROGRESS)
    assert further.kind is Status.FALSE_STALL
    assert "held by j1 (upper)" in further.sentence


def test_a_saddle_on_a_limit_is_not_called_a_minimum():
    """Pressed onto a limit by the cost, but straight: bending the others lowers the cost."""
    robot = planar([0.3, 0.3, 0.3, 0.3], 2.8)
    upper = np.array(robot.upper)
    upper[0] = 0.0
    robot = robot.replace(upper=upper)
    straight = np.zeros(4)
    problem = Problem(robot, Target([0.6, 0.0, 0.0]))
    diagnosis = diagnose(problem, straight)
    assert diagnosis.kind is Status.SINGULAR
    assert diagnosis.descent is not None and diagnosis.descent.end == "solved"


def test_a_proof_makes_it_unreachable():
    problem = Problem(Robot.load("planar2_05_05"), Target([1.5, 0.0, 0.0]))
    proof = prove_unreachable(problem)
    assert proof is not None
    diagnosis = diagnose(problem, np.array([0.1, 0.0]), proof=proof)
    assert diagnosis.kind is Status.UNREACHABLE
    assert diagnosis.sentence.startswith(proof.sentence)
    assert diagnosis.to_json()["proof"]["bound"] == proof.bound
    # Never without one, and never against the judge.
    assert diagnose(problem, np.array([0.1, 0.0])).kind is not Status.UNREACHABLE
    reached = replace(problem, targets=(Target(problem.robot.forward([0.1, 0.0]).position),))
    assert diagnose(reached, np.array([0.1, 0.0]), proof=proof).kind is Status.SOLVED


def test_cycles_are_counted_only_when_seen_twice():
    a, b, c = np.zeros(2), np.ones(2), np.array([0.5, 0.1])
    assert cycle_length(np.array([c, a, a, a])) == 1
    assert cycle_length(np.array([c, a, b, a, b])) == 2
    assert cycle_length(np.array([a, b, c, a, b, c])) == 3
    assert cycle_length(np.array([c, b, a, b])) == 0  # once back is not twice round
    assert cycle_length(np.array([a, a + 1e-6, a + 2e-6, a + 3e-6])) == 0
    assert cycle_length(np.array([a])) == 0


def test_several_targets_and_axes():
    robot = Robot.load("arm7")
    targets = [
        Target([0.4, 0.2, 0.6], axis=([0, 0, 1], [0, 0, -1])),
        Target([2, 0, 0], frame="flange"),
    ]
    solution = optik.solve(Problem(robot, targets), solver=CLAMPED)
    assert not solution.success
    assert solution.status in (Status.FALSE_STALL, Status.ITERATION_LIMIT, *_MINIMA)
    assert solution.diagnosis.certificate is not None
    assert solution.certificate.jacobian_shape == (9, 7)


_MINIMA = (Status.CONSTRAINED_MINIMUM, Status.SINGULAR)


def test_a_cycle_of_the_trust_box_is_told(lesson):
    """On these targets of the lesson the step box of 0.2 rad makes the QP step jump to and fro."""
    seen = 0
    problems = optik.load_problem_set("arm7_lesson")
    for i in (20, 81):
        solution = optik.solve(problems.problem(i), solver="box-qp:backend=mujoco")
        further = solution.diagnosis.continuation
        if not solution.success and further is not None and further.motion == "cycle":
            assert further.period == 2
            assert "goes round a cycle of 2 configurations" in solution.message
            seen += 1
    assert seen >= 1


def test_the_default_solver_s_failures_are_minima():
    """Out of reach: what is handed back is a minimum of the problem's own cost, and says so."""
    rng = np.random.default_rng(41)
    for name in ("panda", "so101"):
        robot = Robot.load(name)
        for _ in range(4):
            far = 3.0 * robot.forward(robot.sample(rng)).position
            quaternion = rng.normal(size=4)
            quaternion /= np.linalg.norm(quaternion)
            target = Target(far, quaternion=quaternion if robot.n >= 6 else None)
            solution = optik.solve(Problem(robot, target))
            assert not solution.success
            assert solution.status in _MINIMA
            assert solution.optimality < 1e-8
            assert solution.diagnosis.continuation is None


def test_restarts_are_diagnosed_at_the_best_start():
    problem = Problem(Robot.load("planar2_05_05"), Target([1.5, 0.0, 0.0]))
    solution = optik.solve(problem, solver="projected-lm", restarts=3, seed=1)
    assert solution.restarts == 3
    assert solution.status in _MINIMA
    assert solution.position_error == pytest.approx(0.5, abs=1e-6)


def test_going_on_is_shorter_where_steps_are_dear():
    budget = Budget(iterations=50)
    assert more_iterations(CLAMPED, budget) == 200
    assert more_iterations(parse_solver("trf"), budget) == 50


def test_every_kind_has_a_sentence():
    assert all(s.sentence.endswith(".") for s in Status)
    assert len({s.sentence for s in Status}) == len(Status)
