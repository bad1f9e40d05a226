"""Strange joint ranges and starts: none, tiny, denormal, swapped, wider than can be listed."""

from __future__ import annotations

import json

import mujoco
import numpy as np
import pytest

from optik import Budget, OptikError, Problem, Robot, Target, solve, solve_batch
from optik.explain import explain, to_json
from optik.solvers import BoxLM
from optik.windings import nearest_winding, windings

GENERAL = BoxLM(kernel="general", table_size=60)
SOLVERS = (GENERAL, "box-qp", "clamped-dls", "trf")


def chain(kinds, link=0.2):
    """A chain of hinges (h) and slides (s) about turning axes, with a site called tip."""
    inner = f'<site name="tip" pos="{link} 0 0"/>'
    for i, kind in reversed(list(enumerate(kinds))):
        joint = f'<joint name="j{i}" type="{"hinge" if kind == "h" else "slide"}" axis="%s"/>'
        axis = ("0 0 1", "0 1 0", "1 0 0")[i % 3]
        place = f'pos="{link if i else 0} 0 0"'
        inner = f'<body name="b{i}" {place}>{joint % axis}<geom size=".01"/>{inner}</body>'
    return mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{inner}</worldbody></mujoco>")


def robot(*ranges, kinds=None):
    limits = {f"j{i}": r for i, r in enumerate(ranges)}
    kinds = "h" * len(ranges) if kinds is None else kinds
    return Robot.load(chain(kinds), frame="tip", limits=limits, unit="rad")


RANGES = {
    "one joint": ((-1, 1),),
    "locked in the middle": ((-1, 1), (0.3, 0.3), (-2, 2)),
    "all locked": ((0.3, 0.3), (0.1, 0.1)),
    "tiny": ((0, 1e-13), (-1, 1), (0, 1e-9)),
    "denormal": ((0, 5e-324), (-1, 1), (1e-310, 2e-310)),
    "no limits": (None, None, None),
    "wide": ((-20, 20), (-7, 7), (-100, 100)),
    "wider than can be listed": ((-1e8, 1e8), (-1e12, 1e12), (-1, 1)),
    "one end": ((None, 1), (0, None), (-1, 1)),
    "beyond numbers": ((-1e308, 1e308), (-1, 1), (-1e30, 1)),
}


@pytest.mark.parametrize("name", RANGES)
def test_every_kind_of_range(name):
    arm = robot(*RANGES[name])
    rng = np.random.default_rng(0)
    for position in (arm.forward(arm.sample(rng)).position, [1e6, 0.0, 0.0], [0.0, 0.0, 0.0]):
        problem = Problem(arm, Target(position))
        for solver in SOLVERS:
            first, again = (
                solve(problem, solver=solver, restarts=1, budget=Budget(iterations=40))
                for _ in range(2)
            )
            assert np.isfinite(first.q).all()
            assert (first.q >= arm.lower).all() and (first.q <= arm.upper).all()
            assert not first.false_claim
            assert first.q.tobytes() == again.q.tobytes()
            assert explain(first)
            json.dumps(to_json(first), allow_nan=False)
    batch = solve_batch(arm, [[0.1, 0.1, 0.1], [1e6, 0, 0]], solver=GENERAL)
    assert (batch.q >= arm.lower).all() and (batch.q <= arm.upper).all()
    assert (batch.judge() >= batch.solved).all()


@pytest.mark.parametrize(
    "start",
    [[1e300, -1e300, 1e300], [0.0, 5e-324, -1e-310], [1e17, 0, -1e17], [1.0, -1.0, 1.0]],
)
def test_starts_far_outside_are_moved_onto_the_limits(start):
    arm = robot((-1, 1), (-1, 1), (-1, 1), kinds="hsh")
    problem = Problem(arm, Target([0.3, 0.1, 0.1]), q_init=start)
    for solver in SOLVERS:
        solution = solve(problem, solver=solver)
        assert (np.abs(solution.q) <= 1.0).all()
        assert solution.start_projected == (np.abs(start) > 1.0).any()


def test_starts_without_limits_have_a_size_that_can_be_squared():
    arm = robot(None, None, (-1, 1), kinds="hsh")
    for value in (1e13, -1e300):
        with pytest.raises(OptikError, match="'j1', which has no limit"):
            Problem(arm, Target([0.3, 0.1, 0.1]), q_init=[0.0, value, 0.0])
    far = Problem(arm, Target([0.3, 0.1, 0.1]), q_init=[1e12, -1e12, 1e300])
    for solver in SOLVERS:
        assert not solve(far, solver=solver).false_claim


def test_swapped_and_missing_ranges_are_refused():
    for bad in ((1, -1), (np.nan, 1), (0, np.nan), (np.inf, np.inf), (-np.inf, -np.inf), ()):
        with pytest.raises(OptikError):
            robot((-1, 1), bad)


def test_windings_of_a_range_wider_than_can_be_listed():
    arm = robot((-1e12, 1e12), (-1, 1))
    near = nearest_winding(arm, [0.5, 0.0], [1e6, 0.0])
    assert abs(near[0] - 1e6) <= np.pi + 1e-9
    with pytest.raises(OptikError, match="'j0' alone has"):
        windings(arm, [0.5, 0.0], [0.0, 0.0])


def test_nearest_winding_agrees_with_the_list():
    rng = np.random.default_rng(1)
    for _ in range(200):
        low = rng.uniform(-20, 5)
        arm_range = (low, low + rng.uniform(0.1, 30))
        arm = robot(arm_range)
        q, near = rng.uniform(*arm_range), rng.uniform(-25, 35)
        listed = windings(arm, [q], [near])
        assert nearest_winding(arm, [q], [near])[0] == listed[0, 0]


def test_thirty_joints():
    arm = Robot.load(chain("h" * 30, link=0.05), frame="tip", limits=None)
    target = Target(arm.forward(np.full(30, 0.1)).position, quaternion=[0.0, 1.0, 0.0, 0.0])
    for solver in (GENERAL, "clamped-dls"):
        solution = solve(Problem(arm, target), solver=solver)
        assert np.isfinite(solution.q).all()
        assert not solution.false_claim
