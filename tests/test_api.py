"""`solve`: restarts, time limits, proofs, and that nothing is built twice."""

from __future__ import annotations

import numpy as np
import pytest
from made_problems import reachable_problem

import optik
from optik.result import Status


@pytest.fixture(scope="module")
def lesson():
    return optik.load_problem_set("arm7_lesson")


def test_restarts_solve_what_one_start_does_not(lesson):
    """The lesson's target 3: clamping fails from home and needs two restarts with seed 3."""
    once = optik.solve(lesson.problem(3), solver="clamped-dls")
    again = optik.solve(lesson.problem(3), solver="clamped-dls", restarts=10, seed=3)
    assert not once.success
    assert again.success and again.restarts == 2


def test_one_built_solver_serves_every_seed(lesson):
    problem = lesson.problem(3)
    first = optik.solve(problem, solver="sdls", restarts=3, seed=101)
    other = optik.solve(problem, solver="sdls", restarts=3, seed=102)
    same = optik.solve(problem, solver="sdls", restarts=3, seed=101)
    assert first.setup_time > 0.0
    assert other.setup_time == 0.0
    assert first.q.tobytes() == same.q.tobytes()


def test_trace_is_kept_on_request(lesson):
    solution = optik.solve(lesson.problem(0), solver="clamped-dls", trace=True)
    assert np.array_equal(solution.trace[0], lesson.problem(0).q_start)
    assert len(solution.trace) == solution.iterations + 1
    assert optik.solve(lesson.problem(0), solver="clamped-dls").trace is None


def test_default_solver_is_the_compiled_one(arm7):
    problem = reachable_problem(arm7, np.random.default_rng(2))
    solution = optik.solve(problem)
    assert solution.success and solution.solver == "box-lm"


def test_proof_only_when_asked(arm7):
    problem = optik.Problem(arm7, optik.Target([3.0, 0.0, 0.5]))
    assert optik.solve(problem).status is not Status.UNREACHABLE
    proved = optik.solve(problem, prove=True, restarts=1000, solver="clamped-dls")
    assert proved.status is Status.UNREACHABLE
    assert proved.restarts == 0  # the proof ends the search
    assert proved.proof.verify()


def test_reachable_is_never_proved(lesson):
    for i in (1, 3, 14):
        solution = optik.solve(lesson.problem(i), solver="clamped-dls", prove=True)
        assert solution.status is not Status.UNREACHABLE


def test_chordal_solver_is_finished_on_the_problems_cost(lesson):
    """A failure of a solver with another residual still ends at a minimum of the problem's cost."""
    solver = "box-qp:backend=mujoco,residual=chordal,rotation_weight=0.2"
    failed = [
        s
        for s in (optik.solve(p, solver=solver) for p in lesson.problems())
        if s.status is Status.CONSTRAINED_MINIMUM
    ]
    assert failed
    assert max(s.optimality for s in failed) < 1e-6


def test_time_limit_is_kept(arm7):
    problem = optik.Problem(arm7, optik.Target([3.0, 0.0, 0.5]))
    solution = optik.solve(problem, solver="clamped-dls", restarts=10**6, time_limit=0.05)
    assert not solution.success
    assert solution.restarts < 10**6
    assert np.isfinite(solution.q).all()
