"""solve_batch leaves hinges in the winding nearest to the start, exactly as solve does."""

from __future__ import annotations

import numpy as np
import pytest

from optik import Budget, Problem, Robot, Target, solve, solve_batch
from optik.solvers import BoxLM
from optik.windings import nearest_winding, nearest_windings, windings
from tests.hostile.test_ranges import robot

SOLVER = BoxLM(kernel="general", table_size=60)


@pytest.mark.parametrize("name", ["ur5e", "gen3"])
def test_batch_and_solve_agree_to_the_bit(name):
    arm = Robot.load(name)
    rng = np.random.default_rng(5)
    poses = [arm.forward(q) for q in arm.sample(rng, 40)]
    positions = np.array([p.position for p in poses])
    quaternions = np.array([p.quaternion for p in poses])
    starts = arm.sample(rng, 40)
    batch = solve_batch(arm, positions, quaternions, q_init=starts, solver=SOLVER, budget=Budget())
    turned = 0
    for i, start in enumerate(starts):
        target = Target(positions[i], quaternion=quaternions[i])
        solution = solve(Problem(arm, target, q_init=start), solver=SOLVER)
        assert solution.success == batch.solved[i]
        if solution.success:
            assert solution.q.tobytes() == batch.q[i].tobytes()
            nearest = nearest_winding(arm, batch.q[i], start)
            assert nearest.tobytes() == batch.q[i].tobytes()
            turned += len(windings(arm, batch.q[i], start)) > 1
    assert turned > 10 or name == "gen3"  # where the windings have no end, one is listed
    other = solve_batch(
        arm, positions, -1.0005 * quaternions, q_init=starts, solver=SOLVER, budget=Budget()
    )
    np.testing.assert_allclose(other.q, batch.q, atol=1e-6)
    assert batch.solved.tolist() == batch.judge().tolist()


def test_default_start_is_the_nominal_configuration():
    arm = Robot.load("ur5e")
    poses = [arm.forward(q) for q in arm.sample(np.random.default_rng(2), 30)]
    batch = solve_batch(arm, [p.position for p in poses], solver=SOLVER)
    near = nearest_windings(arm, batch.q, arm.q_nominal)
    assert batch.solved.all()
    assert near.tobytes() == batch.q.tobytes()


def test_rows_are_turned_as_one_by_one():
    rng = np.random.default_rng(3)
    for ranges in (
        ((-20, 20), (-1, 1), (-7, 7)),
        ((None, 3), (-2, None), None),
        ((-np.pi, np.pi), (0, 2 * np.pi), (-1e12, 1e12)),
    ):
        arm = robot(*ranges)
        low, high = np.maximum(arm.lower, -30), np.minimum(arm.upper, 30)
        q = rng.uniform(low, high, (300, 3))
        near = rng.uniform(-40, 40, (300, 3))
        q[:20], near[:20] = np.clip(np.round(q[:20]), low, high), q[:20] + np.pi  # ties
        rows = nearest_windings(arm, q, near)
        single = np.array([nearest_winding(arm, a, b) for a, b in zip(q, near, strict=True)])
        assert rows.tobytes() == single.tobytes()
        assert ((rows >= arm.lower) & (rows <= arm.upper)).all()
        assert np.isfinite(rows).all()
