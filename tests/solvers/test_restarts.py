"""Restarts: the source document's numbers, order of starts, one deadline, distinct solutions."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
from arms import planar_arm
from made_problems import reachable_problem

from optik.errors import SolverError, UnknownNameError
from optik.evaluation import evaluate
from optik.pose import frozen
from optik.problem import Budget, Problem, Target, Tolerance
from optik.problem_sets import load_problem_set
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers import Deadline, Solver, parse_solver
from optik.solvers.restarts import Restarts

# Target number and restarts needed, as the source document prints them (seed = target number).
RESTARTS_NEEDED = {1: 1, 3: 2, 14: 1, 20: 1, 28: 1, 36: 1, 40: 1, 49: 1, 61: 1, 66: 2, 75: 3}
RESTARTS_NEEDED |= {81: 1, 87: 1, 97: 1, 99: 2}


@dataclass(frozen=True, kw_only=True)
class StartRecorder(Solver):
    """Hands the start back with a claim that is never true; notes every start it gets."""

    name: ClassVar[str] = "start-recorder"
    summary: ClassVar[str] = "returns the start"
    family: ClassVar[str] = "test"

    def prepare(self, robot, shape, budget):
        assert budget.restarts == 0

        def run(problem, *, trace=False, deadline=None):
            STARTS.append((problem.q_init.copy(), deadline))
            path = frozen(problem.q_start[None]) if trace else None
            return Result(problem.q_start, Claim.CONVERGED, "claimed", 1, 2, trace=path)

        return run


STARTS: list = []


@cache
def lesson():
    return load_problem_set("arm7_lesson")


def test_the_source_documents_restarts() -> None:
    problems = lesson()
    prepared = Restarts(solver="clamped-dls").prepare(
        problems.robot, problems.problem(0).shape, Budget(restarts=10)
    )
    used = {}
    for i in RESTARTS_NEEDED:
        result = prepared(problems.problem(i), seed=i)
        assert evaluate(problems.problem(i), result.q).solved
        used[i] = result.restarts
    assert used == RESTARTS_NEEDED


def test_given_start_first_then_seeded_draws_inside_the_sampling_ranges() -> None:
    robot = lesson().robot
    problem = Problem(robot, (Target([3.0, 0.0, 0.5]),), q_init=np.full(robot.n, 0.1))
    STARTS.clear()
    result = Restarts(solver=StartRecorder(), seed=4).prepare(
        robot, problem.shape, Budget(restarts=3)
    )(problem, trace=True)
    rng = np.random.default_rng(4)
    expected = [problem.q_init] + [rng.uniform(robot.lower, robot.upper) for _ in range(3)]
    assert np.array_equal([q for q, _ in STARTS], expected)
    assert (result.iterations, result.evaluations, result.restarts) == (4, 8, 3)
    assert np.array_equal(result.trace, expected)
    assert len({id(deadline) for _, deadline in STARTS}) == 1
    # The claims were false, and the wrapper does not repeat them.
    assert result.status is Claim.NO_PROGRESS
    costs = [evaluate(problem, q).cost for q in expected]
    assert np.array_equal(result.q, expected[int(np.argmin(costs))])


def test_margin_keeps_random_starts_off_the_limits() -> None:
    robot = lesson().robot
    problem = Problem(robot, (Target([3.0, 0.0, 0.5]),))
    STARTS.clear()
    Restarts(solver=StartRecorder(), margin=0.3).prepare(robot, problem.shape, Budget(restarts=40))(
        problem
    )
    drawn = np.array([q for q, _ in STARTS[1:]])
    share = (drawn - robot.lower) / (robot.upper - robot.lower)
    assert share.min() >= 0.3 and share.max() <= 0.7


def test_one_deadline_for_all_starts() -> None:
    """Each look at the clock takes a second: of 1000 starts only those before the end are used."""
    robot = lesson().robot
    problem = Problem(robot, (Target([3.0, 0.0, 0.5]),))
    ticks = iter(range(10**9))
    deadline = Deadline(5.0, clock=lambda: float(next(ticks)))
    STARTS.clear()
    result = Restarts(solver=StartRecorder()).prepare(robot, problem.shape, Budget(restarts=1000))(
        problem, deadline=deadline
    )
    assert result.status is Claim.TIME_LIMIT
    assert len(STARTS) == 5 and result.restarts == 4


@pytest.mark.parametrize("inner", ["clamped-dls", "trf", "dogbox"])
def test_time_limit_is_shared_with_the_solver_inside(inner: str) -> None:
    robot = lesson().robot
    problem = Problem(robot, (Target([1.6, 0.0, 0.5], quaternion=[1, 0, 0, 0]),))
    looks = []

    def clock() -> float:
        looks.append(len(looks))
        return 0.001 * len(looks)

    result = Restarts(solver=inner).prepare(robot, problem.shape, Budget(restarts=1000))(
        problem, deadline=Deadline(0.3, clock=clock)
    )
    assert result.status is Claim.TIME_LIMIT
    assert result.restarts < 300
    # One look at the clock a step, at most one step after the end.
    assert len(looks) <= 303
    assert (result.q >= robot.lower).all() and (result.q <= robot.upper).all()
    start = evaluate(problem, problem.q_start).cost
    assert evaluate(problem, result.q).cost <= start


def test_zero_restarts_change_nothing() -> None:
    problem = lesson().problem(5)
    plain = parse_solver("clamped-dls").prepare(problem.robot, problem.shape, Budget())(problem)
    wrapped = Restarts().prepare(problem.robot, problem.shape, Budget())(problem)
    assert plain.q.tobytes() == wrapped.q.tobytes()
    assert (plain.status, plain.message, plain.iterations, plain.evaluations) == (
        wrapped.status,
        wrapped.message,
        wrapped.iterations,
        wrapped.evaluations,
    )


def test_straight_arm_needs_restarts() -> None:
    """A straight planar arm and a target on its own axis: no first-order way out (F45)."""
    robot = straight_arm()
    problem = Problem(robot, (Target([0.45, 0.0, 0.0]),), tolerance=Tolerance(position=1e-6))
    for inner in ("clamped-dls", "trf", "dogbox"):
        single = parse_solver(inner).prepare(robot, problem.shape, Budget())(problem)
        assert single.status is Claim.NO_PROGRESS
        assert evaluate(problem, single.q).position_error == pytest.approx(0.45, abs=1e-9)
        again = Restarts(solver=inner, seed=0).prepare(robot, problem.shape, Budget(restarts=8))(
            problem
        )
        judged = evaluate(problem, again.q)
        assert judged.solved and judged.position_error <= 1e-6
        assert 1 <= again.restarts <= 8


def test_distinct_solutions_nearest_first() -> None:
    """A planar two-joint arm has exactly two ways to reach a point: elbow up and elbow down."""
    robot = straight_arm((0.5, 0.4))
    up = np.array([0.4, 0.9])
    problem = Problem(robot, (Target(robot.forward(up).position),), q_init=np.array([0.5, 0.8]))
    prepared = Restarts(solver="clamped-dls").prepare(robot, problem.shape, Budget(restarts=30))
    found = prepared.solutions(problem)
    assert len(found) == 2
    assert np.allclose(found[0].q, up, atol=2e-3)
    assert found[1].q[1] == pytest.approx(-0.9, abs=2e-3)
    distances = [float(np.linalg.norm(r.q - problem.q_start)) for r in found]
    assert distances == sorted(distances)
    assert len(prepared.solutions(problem, count=1)) == 1


def test_unlimited_hinges_are_compared_modulo_a_turn() -> None:
    robot = straight_arm((0.5, 0.4), limited=False)
    problem = Problem(robot, (Target(robot.forward([0.4, 0.9]).position),))
    prepared = Restarts(solver="clamped-dls").prepare(robot, problem.shape, Budget(restarts=40))
    assert len(prepared.solutions(problem)) == 2


def test_text_form_round_trips() -> None:
    text = "restarts:solver=clamped-dls:step_limit=0.5;damping=0.1,seed=3,margin=0.1"
    solver = parse_solver(text)
    assert isinstance(solver, Restarts)
    assert solver.solver == parse_solver("clamped-dls:damping=0.1,step_limit=0.5")
    assert str(solver) == text
    assert pickle.loads(pickle.dumps(solver)) == solver
    assert parse_solver(str(Restarts())) == Restarts()


def test_wrong_options_say_what_is_right() -> None:
    with pytest.raises(UnknownNameError, match="clamped-dls"):
        Restarts(solver="clamped-dlz")
    with pytest.raises(SolverError, match="margin"):
        Restarts(margin=0.5)
    with pytest.raises(SolverError, match="seed"):
        Restarts(seed=-1)
    with pytest.raises(SolverError, match="wrap"):
        Restarts(solver=Restarts())


def test_best_is_kept_and_equal_inputs_give_equal_answers() -> None:
    robot = lesson().robot
    rng = np.random.default_rng(5)
    a, b = (reachable_problem(robot, rng) for _ in range(2))
    prepared = Restarts(solver="clamped-dls", seed=2).prepare(
        robot, a.shape, Budget(iterations=8, restarts=4)
    )
    first, _, third = prepared(a), prepared(b), prepared(a)
    assert first.q.tobytes() == third.q.tobytes()
    assert evaluate(a, first.q).cost <= evaluate(a, a.q_start).cost


def straight_arm(links: tuple[float, ...] = (0.4, 0.3, 0.2), *, limited: bool = True) -> Robot:
    one = (-3, 3) if limited else (-np.inf, np.inf)
    return planar_arm([one] * len(links), links)
