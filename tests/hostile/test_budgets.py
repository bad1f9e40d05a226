"""Budgets at their ends: one step, no time, more than a counter holds, and paths of any length."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest

from optik import Budget, Posture, Problem, Target, solve, solve_batch
from optik.solvers import BoxLM, parse_solver
from optik.solvers.base import Deadline

BOX_LM = "box-lm:kernel=general,table_size=60"
MOST = 2**31 - 1
FAMILIES = (
    BOX_LM, "box-qp", "box-qp:backend=osqp", "clamped-dls", "clamped-lm", "trf", "slsqp",
    "l-bfgs-b", "mujoco-least-squares", "ipopt",
)  # fmt: skip


@pytest.fixture(scope="module")
def near(arm7):
    return Problem(arm7, Target([0.4, 0.1, 0.9]))


@pytest.fixture(scope="module")
def far(arm7):
    return Problem(arm7, Target([3.0, 0.0, 0.0]))


class Clock:
    """Seconds that pass only when they are looked at."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.mark.parametrize("solver", FAMILIES)
def test_a_million_restarts_end_with_the_time(solver, far):
    wrapped = parse_solver(solver)
    if not wrapped.restarts_itself:
        wrapped = parse_solver("restarts:solver=" + solver.replace(",", ";"))
    budget = Budget(restarts=10**6)
    prepared = wrapped.prepare(far.robot, far.shape, budget)
    result = prepared(far, deadline=Deadline(1.0, Clock(0.02)), trace=True)
    assert result.status.value == "time_limit"
    assert result.restarts <= 50 * 64
    assert np.isfinite(result.trace).all()
    assert (result.q >= far.robot.lower).all() and (result.q <= far.robot.upper).all()


@pytest.mark.parametrize("solver", FAMILIES)
def test_one_step_and_no_time_are_results(solver, far):
    for options in ({"budget": Budget(iterations=1)}, {"time_limit": 1e-9}):
        solution = solve(far, solver=solver, **options)
        assert not solution.success
        assert np.isfinite(solution.q).all()
        assert solution.message


def test_budgets_beyond_the_kernels_counters(near, far):
    most = Budget(iterations=MOST, restarts=MOST)
    for trace in (False, True):
        solution = solve(near, solver=BOX_LM, budget=most, trace=trace)
        assert solution.success
        assert solution.restarts < 50
    prepared = parse_solver(BOX_LM).prepare(far.robot, far.shape, most)
    result = prepared(far, deadline=Deadline(1.0, Clock(0.01)))
    assert result.status.value == "time_limit"
    assert 0 < result.iterations < 10**5
    general = BoxLM(kernel="general", table_size=60)
    batch = solve_batch(near.robot, [near.targets[0].position], solver=general, budget=most)
    assert batch.solved.all()
    assert 0 <= batch.restarts[0] < 1000


@pytest.mark.parametrize("posture", [None, Posture()])
@pytest.mark.parametrize("time_limit", [None, 1e3])
def test_a_path_holds_what_was_visited_and_ends_where_it_stopped(arm7, posture, time_limit):
    problem = Problem(arm7, Target([0.4, 0.1, 0.9]), posture=posture)
    solution = solve(problem, solver=BOX_LM, trace=True, time_limit=time_limit)
    plain = solve(problem, solver=BOX_LM)
    assert solution.q.tobytes() == plain.q.tobytes()
    assert solution.trace[-1].tobytes() == solution.q.tobytes()
    assert solution.trace[0].tobytes() == problem.q_start.tobytes()
    assert ((solution.trace >= arm7.lower) & (solution.trace <= arm7.upper)).all()
    assert 1 < len(solution.trace) <= solution.evaluations


def test_the_paths_of_both_ways_to_search_are_the_same(far):
    one, other = (
        solve(far, solver=BOX_LM, trace=True, time_limit=t, budget=Budget(iterations=400))
        for t in (None, 1e3)
    )
    assert one.trace.tobytes() == other.trace.tobytes()
    assert one.q.tobytes() == other.q.tobytes()


def test_a_time_limit_that_does_not_bind_changes_nothing(arm7):
    """Every start of the table is used once, whether or not a clock is looked at in between."""
    rng = np.random.default_rng(8)
    for q in arm7.sample(rng, 30):
        pose = arm7.forward(q)
        problem = Problem(arm7, Target(pose.position, quaternion=pose.quaternion))
        one, other = (solve(problem, solver=BOX_LM, time_limit=t) for t in (None, 1e3))
        assert one.q.tobytes() == other.q.tobytes()
        assert (one.restarts, one.iterations) == (other.restarts, other.iterations)


def test_a_hopeless_search_can_be_interrupted(far):
    class Enough(BaseException):
        pass

    def stop(*_):
        raise Enough

    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, stop)
    try:
        solve(far, solver=BOX_LM)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Enough):
            solve(far, solver=BOX_LM, budget=Budget(iterations=MOST, restarts=MOST))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
