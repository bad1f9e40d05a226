"""solve_batch: true answers, the same for any number of threads, and clear errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from optik.batch import solve_batch
from optik.errors import ProblemError, TargetError
from optik.evaluation import evaluate
from optik.problem import Budget, Problem, Target
from optik.robot import Robot
from optik.solvers.box_lm import BoxLM


@pytest.fixture(scope="module")
def so101() -> Robot:
    return Robot.load("so101")


@pytest.fixture(scope="module")
def places(so101):
    rng = np.random.default_rng(21)
    return np.array([so101.forward(q).position for q in so101.sample(rng, 5000)])


def test_every_reachable_row_is_solved_and_judged_so(so101, places):
    batch = solve_batch(so101, places)
    assert batch.solved.all()
    assert batch.judge().all()
    assert (batch.q >= so101.lower).all() and (batch.q <= so101.upper).all()
    verdict = evaluate(Problem(so101, (Target(places[7]),)), batch.q[7])
    assert verdict.position_error == pytest.approx(batch.position_errors[7], abs=1e-12)


def test_threads_do_not_change_the_answers(so101, places):
    one, four = (solve_batch(so101, places, threads=t) for t in (1, 4))
    assert one.q.tobytes() == four.q.tobytes()
    assert np.array_equal(one.iterations, four.iterations)


def test_rows_do_not_change_each_other(so101, places):
    whole = solve_batch(so101, places[:50], q_init=so101.q_nominal)
    alone = solve_batch(so101, places[17:18], q_init=so101.q_nominal)
    assert whole.q[17].tobytes() == alone.q[0].tobytes()


def test_two_threads_calling_solve(so101, places):
    from optik.api import solve

    problems = [Problem(so101, (Target(p),)) for p in places[:40]]
    expected = [solve(p, solver=BoxLM()).q.tobytes() for p in problems]
    found: dict[int, list[bytes]] = {}

    def work(k: int) -> None:
        found[k] = [solve(p, solver=BoxLM()).q.tobytes() for p in problems]

    workers = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found[0] == expected and found[1] == expected


def test_unreachable_rows_are_not_claimed(so101):
    batch = solve_batch(so101, [[3.0, 0.0, 0.0]], budget=Budget(iterations=100))
    assert not batch.solved[0]
    assert batch.iterations[0] <= 100
    assert batch.position_errors[0] > 2.0


def test_empty_batch(so101):
    assert len(solve_batch(so101, np.empty((0, 3)))) == 0


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (([[0.0, 0.0]],), {}, TargetError, "shape"),
        (([[0.0, np.nan, 0.0]],), {}, TargetError, "row 0"),
        (([[0.1, 0.0, 0.2]], [[2.0, 0, 0, 0]]), {}, TargetError, "norm 1"),
        (([[0.1, 0.0, 0.2]],), {"axes": [[0, 0, 0, 0, 0, 1]]}, TargetError, "length 0"),
        (([[0.1, 0.0, 0.2]],), {"q_init": [0.0]}, ProblemError, "q_init"),
        (([[0.1, 0.0, 0.2]],), {"threads": 0}, ProblemError, "threads"),
    ],
)
def test_wrong_input(so101, arguments, options, error, words):
    with pytest.raises(error, match=words):
        solve_batch(so101, *arguments, **options)
