"""The kernels' residuals and steps against MuJoCo: every kind of target, both residuals.

Nothing of a kernel is reached but its one entry: asked for no step it says what it thinks of a
configuration; asked for one step its path shows d, which the normal equations determine.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_problems import SHAPES, Part, call, core_of, inside, made, reference, tree, turn

from optik.evaluation import evaluate
from optik.pose import quaternion_from_matrix
from optik.problem import Problem
from optik.residual import Residual, rotation_of

SMALL, LARGE = (2, 2, 2), (3, 4, 4)
ANGLES = (0.0, 1e-9, 1e-5, 0.3, 0.5 * np.pi, 2.0, 2.9, np.pi - 1e-7, np.pi)
# Robot, shape, residual, folded.  Each folded shape is a kernel of its own, seconds to compile:
# "three" is written out down to H, "four" calls the loops of the general one, for 11 joints.
KERNELS = [(SMALL, name, "chordal", False) for name in SHAPES]
KERNELS += [(SMALL, name, "log", False) for name in SHAPES if not name.startswith("position")]
KERNELS += [(SMALL, "three", "chordal", True)]
KERNELS += [(LARGE, "four", kind, True) for kind in ("chordal", "log")]
# So much damping that a step is the gradient, divided by it.
GRADIENT = {"damping": 0.0, "damping_floor": 1e6, "step_limit": 1e3}


@pytest.fixture(params=KERNELS, ids=lambda k: f"{k[1]}, {k[2]}{', folded' * k[3]}")
def kernel(request):
    size, name, kind, folded = request.param
    return tree(*size), SHAPES[name], kind, folded


def measure(angle: float) -> float:
    """What the kernels know of an angle: it rises from 0 to 2, and is flat at a right angle."""
    return np.sin(angle) if angle < 0.5 * np.pi else 2.0 - np.sin(angle)


def test_cost_and_errors_equal_mujocos(kernel):
    robot, parts, kind, folded = kernel
    rng = np.random.default_rng(1)
    core = core_of(robot, parts, kind, folded=folded, patient=True)
    for i in range(40):
        q = robot.sample(rng)
        # Far away, and right there but for the turn, which covers every branch of the residuals.
        there = i % 2 == 0
        angle = ANGLES[i // 2 % len(ANGLES)]
        problem = made(robot, parts, q if there else robot.sample(rng), rng, angle=angle)
        answer = call(core, problem, q, steps=0)
        assert answer.q.tobytes() == q.tobytes() and answer.steps == 0
        residual = Residual(robot, problem.shape, kind=kind)
        residual.load(problem)
        cost = residual.evaluate(q, jacobian=False).cost
        assert answer.cost == pytest.approx(cost, rel=1e-12, abs=1e-14)
        verdict = evaluate(problem, q)
        assert answer.position_error == pytest.approx(verdict.position_error, rel=1e-12, abs=1e-12)
        true = verdict.rotation_error
        assert measure(answer.rotation_error) == pytest.approx(measure(true), abs=1e-12)
        if abs(np.cos(true)) > 1e-2:
            assert answer.rotation_error == pytest.approx(true, abs=1e-12)
        assert (answer.code == 0) == verdict.solved


@pytest.mark.parametrize(
    "numbers",
    [
        {},
        {"damping": 0.0, "damping_floor": 1.0, "step_limit": 1e3},
        GRADIENT,
        {"damping": 0.1, "damping_floor": 1e-9, "step_limit": 0.1},
    ],
    ids=["default", "damped", "gradient", "short"],
)
def test_the_step_is_the_one_of_mujocos_jacobian(kernel, numbers):
    robot, parts, kind, folded = kernel
    rng = np.random.default_rng(2)
    core = core_of(robot, parts, kind, folded=folded, **numbers)
    numbers = core.settings
    free = on_bounds = 0
    for i in range(20):
        q = robot.sample(rng)
        goal = q + rng.normal(0, 0.1, robot.n) if i % 2 else robot.sample(rng)
        problem = made(robot, parts, goal, rng, angle=0.15 * i)
        path = call(core, problem, q, steps=1).path
        assert path[0].tobytes() == q.tobytes()
        d = path[1] - q
        residual = Residual(robot, problem.shape, kind=kind)
        residual.load(problem)
        cost = residual.evaluate(q, jacobian=False).cost
        H, g = reference(problem, q, kind)
        H += (numbers.damping * cost + numbers.damping_floor) * np.eye(robot.n)
        lower = np.maximum(robot.lower - q, -numbers.step_limit)
        upper = np.minimum(robot.upper - q, numbers.step_limit)
        assert (d >= lower - 1e-15).all() and (d <= upper + 1e-15).all()
        r = H @ d - g
        held = ((d <= lower + 1e-15) & (r >= 0)) | ((d >= upper - 1e-15) & (r <= 0))
        free, on_bounds = free + int((~held).sum()), on_bounds + int(held.sum())
        # d is known to rounding of q, so that its residual is known to |H| times that.
        bound = 1e-11 * (1 + np.abs(g).max()) + 1e-15 * np.abs(H).sum(axis=1).max()
        assert np.abs(r[~held]).max(initial=0.0) <= bound
    assert free > 20 and (on_bounds > 20 or numbers.step_limit > 0.1)


def test_the_gradient_is_that_of_the_reported_cost(kernel):
    """By differences of what the kernel itself reports: no Jacobian of ours in between."""
    robot, parts, kind, folded = kernel
    rng = np.random.default_rng(3)
    core = core_of(robot, parts, kind, folded=folded, **GRADIENT)
    huge = core.settings.damping_floor
    for angle in (0.01, 0.8, 1.7, 2.5):
        q = inside(robot, rng)
        problem = made(robot, parts, inside(robot, rng) * 0.1 + q * 0.9, rng, angle=angle)
        H, _ = reference(problem, q, kind)
        d = call(core, problem, q, steps=1).path[1] - q
        g = huge * d + H @ d
        h = 1e-5
        for j, e in enumerate(h * np.eye(robot.n)):
            slope = (call(core, problem, q + e, steps=0).cost
                     - call(core, problem, q - e, steps=0).cost) / (2 * h)  # fmt: skip
            assert -g[j] == pytest.approx(slope, abs=2e-8 * (1 + np.abs(g).max()))


def test_a_near_start_reaches_the_target_and_mujoco_agrees(kernel):
    robot, parts, kind, folded = kernel
    rng = np.random.default_rng(4)
    core = core_of(robot, parts, kind, folded=folded, patient=True)
    for _ in range(20):
        q = robot.sample(rng)
        problem = made(robot, parts, q, rng)
        start = np.clip(q + rng.uniform(-0.05, 0.05, robot.n), robot.lower, robot.upper)
        answer = call(core, problem, start, steps=12)
        assert answer.code == 0
        verdict = evaluate(problem, answer.q)
        assert verdict.solved and verdict.limit_violation == 0.0
        assert answer.position_error == pytest.approx(verdict.position_error, abs=1e-12)
        assert answer.rotation_error == pytest.approx(verdict.rotation_error, abs=1e-12)


@pytest.mark.parametrize("kind", ["chordal", "log"])
def test_a_turn_that_is_masked_out_may_be_large(kind):
    """Steps along J_r instead of the logarithm's own Jacobian take up to 30 and more here."""
    robot = tree(*SMALL)
    rng = np.random.default_rng(5)
    parts = (Part("pose", "left", mask=(0, 0, 1, 1, 1, 0)),)
    core = core_of(robot, parts, kind, folded=False, patient=True)
    for angle in np.linspace(-2.4, 2.4, 13):
        q = inside(robot, rng)
        (target,) = made(robot, parts, q, rng).targets
        R = turn(np.array([0.0, 0.0, 1.0]), angle) @ rotation_of(target)
        problem = Problem(robot, replace(target, quaternion=quaternion_from_matrix(R)))
        answer = call(core, problem, q + rng.uniform(-0.02, 0.02, robot.n), steps=5)
        assert answer.code == 0 and evaluate(problem, answer.q).solved
