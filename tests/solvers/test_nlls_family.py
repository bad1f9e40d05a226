"""The bounded least-squares solvers: box steps, posture, early exit, honesty about stopping."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from optik.diagnosis import certificate
from optik.evaluation import evaluate
from optik.problem import Budget, Posture, Problem, Target
from optik.problem_sets import load_problem_set
from optik.residual import Residual
from optik.result import Claim
from optik.solvers import SOLVERS, Deadline, parse_solver
from optik.solvers.projected_lm import box_step

BOUNDED = [name for name, cls in SOLVERS.items() if cls.family == "bounded-nlls"]
# Measured on the lesson's first 40 targets; a backend's new version may move a target or two.
LEAST_SOLVED = {"l-bfgs-b": 26, "mujoco-least-squares": 30}


@cache
def lesson():
    return load_problem_set("arm7_lesson")


def solve(solver: str, problem: Problem, budget: Budget | None = None, **options):
    prepared = parse_solver(solver).prepare(problem.robot, problem.shape, budget or Budget())
    return prepared(problem, **options)


@pytest.mark.parametrize("solver", BOUNDED)
def test_solves_the_lesson_without_false_claims(solver: str) -> None:
    solved = 0
    for i in range(40):
        problem = lesson().problem(i)
        result = solve(solver, problem)
        judged = evaluate(problem, result.q)
        assert judged.limit_violation == 0.0
        assert (result.status is Claim.CONVERGED) == judged.solved
        solved += judged.solved
    assert solved >= LEAST_SOLVED.get(solver, 32)


@pytest.mark.parametrize("solver", BOUNDED)
def test_solves_what_clamping_fails(solver: str) -> None:
    """Six of the targets that defeat clamped DLS: every bounded method solves some of them."""
    solved = 0
    for i in (3, 14, 28, 61, 75, 97):
        problem = lesson().problem(i)
        solved += evaluate(problem, solve(solver, problem).q).solved
    assert solved >= 2


def test_box_step_is_the_exact_minimum() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        n = int(rng.integers(1, 9))
        A = rng.normal(size=(int(rng.integers(1, 8)), n))
        mu = 10.0 ** rng.uniform(-6, 0)
        e = rng.normal(size=len(A))
        low, high = -rng.uniform(0, 0.5, n), rng.uniform(0, 0.5, n)
        low[rng.random(n) < 0.2] = 0.0
        H, g = A.T @ A + mu * np.eye(n), -A.T @ e
        p = box_step(H, g, low, high)
        assert (p >= low).all() and (p <= high).all()
        slope = H @ p + g
        # First-order conditions: zero inside, outwards on a bound.
        inside = (p > low) & (p < high)
        scale = np.abs(g).max()
        assert np.abs(slope[inside]).max(initial=0.0) < 1e-9 * scale
        assert (slope[p == low] > -1e-9 * scale).all() or (high[p == low] == low[p == low]).any()
        assert (slope[p == high] < 1e-9 * scale).all()
        stacked = np.vstack((A, np.sqrt(mu) * np.eye(n)))
        reference = lsq_linear(
            stacked,
            np.concatenate((e, np.zeros(n))),
            bounds=(low - 1e-15, high + 1e-15),
            method="bvls",
            tol=1e-15,
        )
        assert np.allclose(p, reference.x, atol=1e-7)


def test_box_step_without_bounds_is_newtons_step() -> None:
    H, g = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -1.0])
    inf = np.full(2, np.inf)
    assert np.allclose(box_step(H, g, -inf, inf), -np.linalg.solve(H, g), atol=1e-15)


def test_projected_lm_stops_only_where_the_bounded_problem_is_stationary() -> None:
    stopped = 0
    for i in (1, 3, 17, 20, 36, 49, 52, 60, 79, 81):
        problem = lesson().problem(i)
        result = solve("projected-lm:damping=0.001", problem, Budget(iterations=2000))
        if result.status is Claim.NO_PROGRESS:
            stopped += 1
            assert certificate(problem, result.q).relative_optimality < 1e-6
    assert stopped >= 3


@pytest.mark.parametrize("solver", BOUNDED)
def test_posture_is_approached_and_the_target_kept(solver: str) -> None:
    """Redundant arm, posture in mid-range: closer than without it, and within tolerance (F40)."""
    before, after = [], []
    for i in range(16):
        plain = lesson().problem(i)
        asked = lesson().problem(i, posture=Posture())
        without, with_posture = solve(solver, plain), solve(solver, asked)
        if not (evaluate(plain, without.q).solved and evaluate(asked, with_posture.q).solved):
            continue
        before.append(evaluate(asked, without.q).posture_distance)
        after.append(evaluate(asked, with_posture.q).posture_distance)
    assert len(after) >= 10
    assert np.mean(after) < np.mean(before) - 0.1


@pytest.mark.parametrize("solver", BOUNDED)
def test_ends_at_the_first_solution(solver: str) -> None:
    problem = lesson().problem(2)
    result = solve(solver, problem, trace=True)
    if result.status is not Claim.CONVERGED:
        problem = lesson().problem(4)
        result = solve(solver, problem, trace=True)
    assert result.status is Claim.CONVERGED
    assert np.array_equal(result.trace[-1], result.q)
    assert not any(evaluate(problem, q).solved for q in result.trace[:-1])


@pytest.mark.parametrize("solver", [n for n in BOUNDED if SOLVERS[n].descends])
def test_cost_never_rises(solver: str) -> None:
    """A target a metre away: every configuration the method stands at is no worse (F46)."""
    robot = lesson().robot
    problem = Problem(robot, (Target([-0.5, 0.4, 0.4], quaternion=[0, 1, 0, 0]),))
    result = solve(solver, problem, trace=True)
    residual = Residual(robot, problem.shape)
    residual.load(problem)
    costs = np.array([residual.evaluate(q, jacobian=False).cost for q in result.trace])
    assert len(costs) > 3
    assert (np.diff(costs) <= 1e-12).all()


@pytest.mark.parametrize("solver", BOUNDED)
def test_deadline_is_looked_at_before_every_evaluation(solver: str) -> None:
    """The clock advances 1 s at each look; at most one line search follows the last one (F50)."""
    problem = Problem(lesson().robot, (Target([1.6, 0.0, 0.5], quaternion=[1, 0, 0, 0]),))
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    result = solve(solver, problem, deadline=Deadline(6.0, clock=clock))
    assert result.status is Claim.TIME_LIMIT
    assert result.evaluations <= 7


@pytest.mark.parametrize("solver", BOUNDED)
def test_stalled_without_a_limit_ends_by_itself(solver: str) -> None:
    """Out of reach: the backend's own tests end it, and nothing claims success (F05, F50)."""
    problem = Problem(lesson().robot, (Target([0.0, 0.0, 2.5]),))
    result = solve(solver, problem, Budget(iterations=100_000))
    assert result.status is Claim.NO_PROGRESS
    assert result.iterations < 10_000
    assert result.message != Claim.NO_PROGRESS.sentence


@pytest.mark.parametrize("solver", BOUNDED)
def test_hold(solver: str) -> None:
    """Asked for the pose it has, the arm does not move, a thousand times over (F46)."""
    robot = lesson().robot
    q = robot.q_nominal
    pose = robot.forward(q)
    problem = Problem(robot, (Target(pose.position, quaternion=pose.quaternion),))
    prepared = parse_solver(solver).prepare(robot, problem.shape, Budget())
    for _ in range(1000):
        result = prepared(problem)
        assert np.array_equal(result.q, q) and result.iterations == 0


@pytest.mark.parametrize("solver", BOUNDED)
@pytest.mark.parametrize("residual", ["log", "chordal"])
def test_other_residuals_and_weights_are_judged_by_the_true_angle(
    solver: str, residual: str
) -> None:
    text = f"{solver}:residual={residual},rotation_weight=0.3"
    assert not parse_solver(text).uses_problem_cost
    solved = 0
    for i in range(12):
        problem = lesson().problem(i)
        result = solve(text, problem)
        judged = evaluate(problem, result.q)
        assert (result.status is Claim.CONVERGED) == judged.solved
        solved += judged.solved
    assert solved >= 7


@pytest.mark.parametrize("solver", BOUNDED)
def test_a_broken_residual_is_a_numerical_failure(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = lesson().problem(0)
    good = Residual.at
    calls = [0]

    def broken(self, x):
        calls[0] += 1
        out = good(self, x)
        if calls[0] > 2:
            out.e[:] = np.nan
            out.J[:] = np.nan
        return out

    monkeypatch.setattr(Residual, "at", broken)
    result = solve(solver, problem, Budget(iterations=50))
    assert result.status is Claim.NUMERICAL_FAILURE
    assert np.isfinite(result.q).all()
    start = evaluate(problem, problem.q_start).cost
    assert evaluate(problem, result.q).cost <= start
