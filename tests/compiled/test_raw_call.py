"""`solve_into`: the compiled solver on raw arrays, for loops."""

from __future__ import annotations

import numpy as np
import pytest

import optik
from optik.errors import SolverError
from optik.solvers.box_lm import BoxLM

PROBLEMS = optik.load_problem_set("arm7_lesson").first(20)


@pytest.fixture(scope="module")
def prepared():
    problem = PROBLEMS.problem(0)
    return BoxLM().prepare(problem.robot, problem.shape, optik.Budget(restarts=24))


@pytest.fixture
def arrays():
    problem = PROBLEMS.problem(3)
    target = problem.targets[0]
    return np.array(target.position), np.array(target.quaternion), np.array(problem.q_init)


def test_it_answers_as_the_solver_does(prepared):
    q = np.empty(PROBLEMS.robot.n)
    for i in range(len(PROBLEMS)):
        problem = PROBLEMS.problem(i)
        target = problem.targets[0]
        assert prepared.solve_into(target.position, target.quaternion, problem.q_init, q) == 0
        assert q.tobytes() == prepared(problem).q.tobytes()
        assert optik.evaluate(problem, q).solved


@pytest.mark.parametrize(
    "form", [list, tuple, lambda a: a.astype(np.longdouble), lambda a: np.repeat(a, 2)[::2]]
)
def test_other_forms_of_numbers_are_converted(prepared, arrays, form):
    reference, q = np.empty(7), np.empty(7)
    assert prepared.solve_into(*arrays, reference) == 0
    assert prepared.solve_into(*(form(a) for a in arrays), q) == 0
    assert q.tobytes() == reference.tobytes()


@pytest.mark.parametrize(
    "q_out",
    [
        np.empty(6),
        np.empty((1, 7)),
        np.zeros(7, dtype=np.int64),
        np.zeros(7, np.float32),
        [0.0] * 7,
    ],
)
def test_an_answer_that_would_be_lost_or_cut_is_refused(prepared, arrays, q_out):
    with pytest.raises(SolverError, match="float64 q_out of shape"):
        prepared.solve_into(*arrays, q_out)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a[:0], lambda a: [*a, "x"]])
def test_inputs_of_the_wrong_length_are_refused(prepared, arrays, place, change):
    given = list(arrays)
    given[place] = change(given[place])
    with pytest.raises(SolverError, match="a position of 3 numbers, quaternion of 4 numbers"):
        prepared.solve_into(*given, np.empty(7))


def test_a_target_out_of_reach_is_told(prepared, arrays):
    q = np.empty(7)
    code = prepared.solve_into(np.array([9.0, 0.0, 0.0]), arrays[1], arrays[2], q)
    assert code in (1, 2)
    assert ((q >= PROBLEMS.robot.lower) & (q <= PROBLEMS.robot.upper)).all()
