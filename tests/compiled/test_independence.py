"""An answer depends on its problem alone: not on threads, on neighbours, or on what came before."""

from __future__ import annotations

import sys
import threading
from dataclasses import fields

import numpy as np
import pytest
from kernel_problems import SHAPES, made, tree

from optik.api import solve
from optik.batch import Batch, solve_batch
from optik.problem import Budget, Problem, Target
from optik.robot import Robot
from optik.solvers.box_lm import BoxLM

GENERAL = BoxLM(kernel="general", table_size=60)


@pytest.fixture
def impatient_threads():
    """The interpreter changes threads a thousand times as often as it is used to."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(usual)


def mixed_problems() -> list[tuple[Problem, BoxLM | str | None]]:
    """Problems and solvers for robots that nobody has solved for, in no order."""
    rng = np.random.default_rng(8)
    out: list[tuple[Problem, BoxLM | str | None]] = []
    for name in ("arm2", "so101", "panda", "gen3"):
        robot = Robot.load(name)
        for i in range(60):
            pose = robot.forward(robot.sample(rng))
            quaternion = pose.quaternion if robot.n >= 6 else None
            start = robot.sample(rng) if i % 3 else None
            problem = Problem(robot, Target(pose.position, quaternion=quaternion), q_init=start)
            out.append((problem, "clamped-dls" if i % 10 == 9 else None))
    robot = tree(2, 2, 2)
    for i in range(60):
        parts = SHAPES["three" if i % 2 else "pose relative masked"]
        out.append((made(robot, parts, robot.sample(rng), rng), GENERAL))
    return [out[i] for i in rng.permutation(len(out))]


def answer(problem: Problem, solver: BoxLM | str | None) -> tuple[object, ...]:
    s = solve(problem, solver=solver)
    numbers = (s.position_error, s.rotation_error, s.iterations, s.evaluations, s.restarts)
    return (s.q.tobytes(), s.status, *numbers)


def test_threads_that_solve_at_once_answer_as_one_does(impatient_threads):
    problems = mixed_problems()
    found: list[dict[int, tuple[object, ...]]] = [{}, {}]
    ready = threading.Barrier(2)

    def work(k: int) -> None:
        ready.wait()
        # Both begin with the same problems, so that they also prepare the solvers at once; then
        # they part, so that each has other neighbours.
        order = [*range(10), *range(10, len(problems))[:: -1 if k else 1]]
        for i in order:
            found[k][i] = answer(*problems[i])

    workers = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    expected = {i: answer(*p) for i, p in enumerate(problems)}
    assert found[0] == expected
    assert found[1] == expected
    assert sum(a[4] > 0 for a in expected.values()) > 200


class Rows:
    """Targets and starts of a batch, of which any rows can be taken."""

    def __init__(self, name: str, kind: str, solver: BoxLM, *, total: int, starts: bool) -> None:
        self.robot = Robot.load(name)
        self.solver = solver
        rng = np.random.default_rng(9)
        q = self.robot.sample(rng, total)
        poses = [self.robot.forward(x) for x in q]
        self.positions = np.array([p.position for p in poses])
        self.positions[5::40] += 3.0  # out of reach: rows that take every step they may
        self.quaternions = np.array([p.quaternion for p in poses]) if kind == "pose" else None
        self.axes = None
        if kind == "axis":
            turned = [[0.0, 0.0, 1.0, *p.rotation[:, 2]] for p in poses]
            self.axes = np.array(turned)
        self.starts = self.robot.sample(rng, total) if starts else None

    def __len__(self) -> int:
        return len(self.positions)

    def solve(
        self, rows: slice | np.ndarray = slice(None), *, threads: int = 1, iterations: int = 60
    ) -> Batch:
        def of(array: np.ndarray | None) -> np.ndarray | None:
            return None if array is None else array[rows]

        return solve_batch(
            self.robot,
            self.positions[rows],
            of(self.quaternions),
            axes=of(self.axes),
            q_init=of(self.starts),
            solver=self.solver,
            budget=Budget(iterations=iterations),
            threads=threads,
        )


BATCHES = {
    "so101, position": ("so101", "position", BoxLM(), False),
    "panda, pose": ("panda", "pose", BoxLM(), True),
    "gen3, pose": ("gen3", "pose", GENERAL, True),
    "arm7, axis": ("arm7", "axis", GENERAL, False),
}


@pytest.fixture(scope="module", params=list(BATCHES))
def rows(request) -> Rows:
    name, kind, solver, starts = BATCHES[request.param]
    return Rows(name, kind, solver, total=4500, starts=starts)


@pytest.fixture(scope="module")
def whole(rows) -> Batch:
    return rows.solve()


def assert_same(found: Batch, expected: Batch, rows: slice | np.ndarray = slice(None)) -> None:
    compared = [f.name for f in fields(Batch) if isinstance(getattr(expected, f.name), np.ndarray)]
    assert {"q", "codes", "iterations", "restarts", "position_errors"} <= set(compared)
    for name in compared:
        own = np.ascontiguousarray(getattr(expected, name)[rows])
        assert getattr(found, name).tobytes() == own.tobytes(), name


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_the_number_of_threads_changes_nothing(rows, whole, threads):
    assert_same(rows.solve(threads=threads), whole)
    assert 0 < (whole.codes == 2).sum() < 200 and whole.solved.sum() > 4000


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_may_stand_in_any_order(rows, whole, seed):
    order = np.random.default_rng(seed).permutation(len(rows))
    assert_same(rows.solve(order, threads=2), whole, order)


def test_a_row_does_not_see_its_neighbours(rows, whole):
    # Alone, in short batches of every length, and across the border between two pieces of work.
    for first, last in [(0, 1), (5, 6), *((7, 7 + k) for k in range(1, 20)), (2040, 2060)]:
        assert_same(rows.solve(slice(first, last)), whole, slice(first, last))
    for count in (2047, 2048, 2049):
        assert_same(rows.solve(slice(count)), whole, slice(count))
    # The same row many times over, and among rows that cannot be solved.
    same = np.full(37, 11)
    assert_same(rows.solve(same), whole, same)
    among = np.where(np.arange(60) % 7 == 3, 17, 5 + 40 * np.arange(60))
    assert_same(rows.solve(among), whole, among)


def test_a_row_out_of_steps_does_not_see_its_neighbours(rows):
    straight, turned = np.arange(300), np.arange(300)[::-1]
    expected = rows.solve(straight, iterations=2)
    assert (expected.codes == 2).sum() > 20
    assert_same(rows.solve(turned, iterations=2), expected, turned)
