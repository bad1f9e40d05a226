"""The contract's promises again, for every option of the clamped and bounded families by itself."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest

from optik.evaluation import evaluate
from optik.problem import Budget, Posture, Problem, Target
from optik.residual import Residual
from optik.result import Claim
from optik.robot import Robot
from optik.solvers import SOLVERS, parse_solver

CLAMPED = ("hold=trust", "hold=none", "step_limit=0.7", "residual=chordal", "rotation_weight=0.1")
BOUNDED = ("residual=chordal", "rotation_weight=0.1", "tolerance=1e-6")
OWN = {
    "clamped-dls": ("damping=0.2", "error_damping=0.3", "projector=damped", "clamp=at-end"),
    "active-set-dls": ("freeze=worst", "error_damping=0.3", "clamp=at-end"),
    "clamped-adaptive": ("law=manipulability", "threshold=0.5", "damping_max=0.5"),
    "clamped-line-search": ("steepest=true", "armijo=0.5", "shrinks=3"),
    "clamped-lm": ("damping=1e-6",),
    "projected-lm": ("damping=1e-6", "damping=100"),
    "pseudo-inverse": ("cutoff=0.1", "clamp=at-end"),
    "jacobian-transpose": ("clamp=at-end",),
    "sdls": ("gamma_max=0.1", "hold=scale", "clamp=at-end"),
    "l-bfgs-b": ("memory=3",),
    "mujoco-least-squares": ("mu_factor=4", "mu_min=0.01"),
    "trf": (),
    "dogbox": (),
    "slsqp": (),
}


def texts() -> list[str]:
    found = []
    for name, own in OWN.items():
        clamped = hasattr(SOLVERS[name], "hold")
        for option in (*own, *(CLAMPED if clamped else BOUNDED)):
            found.append(f"{name}:{option}")
    return found


def test_every_solver_of_the_families_is_here() -> None:
    families = ("clamped", "bounded-nlls")
    assert set(OWN) == {name for name, cls in SOLVERS.items() if cls.family in families}


@cache
def problems() -> tuple[Problem, ...]:
    """Six joints or more: a pose; a posture beside it; an axis; two targets; a locked joint."""
    rng = np.random.default_rng(21)
    panda, so101 = Robot.load("panda"), Robot.load("so101")
    pose = panda.forward(panda.sample(rng))
    whole = Target(pose.position, quaternion=pose.quaternion)
    fingers = so101.forward(so101.sample(rng))
    pointing = Target(fingers.position, axis=([1, 0, 0], fingers.rotation[:, 0]))
    lower, upper = panda.lower.copy(), panda.upper.copy()
    lower[2] = upper[2] = 0.3
    locked = panda.replace(lower=lower, upper=upper, sampling_lower=lower, sampling_upper=upper)
    far = locked.forward(locked.sample(rng))
    elbow = panda.model.body(panda.model.nbody // 2).name
    return (
        Problem(panda, (whole,)),
        Problem(panda, (whole,), posture=Posture()),
        Problem(so101, (pointing,)),
        Problem(
            panda, (whole, Target(panda.forward(panda.q_mid, frame=elbow).position, frame=elbow))
        ),
        Problem(locked, (Target(far.position, quaternion=far.quaternion),)),
        Problem(panda, (Target([3.0, 0.0, 0.5]),)),
    )


@pytest.mark.parametrize("text", texts())
def test_promises_hold(text: str) -> None:
    solver = parse_solver(text)
    assert parse_solver(str(solver)) == solver
    assert pickle.loads(pickle.dumps(solver)) == solver
    budget = Budget(iterations=40)
    for problem in problems():
        robot = problem.robot
        prepared = solver.prepare(robot, problem.shape, budget)
        start = problem.q_init.copy()
        first, traced = prepared(problem), prepared(problem, trace=True)
        assert np.array_equal(problem.q_init, start)
        assert first.q.tobytes() == traced.q.tobytes()
        assert (first.q >= robot.lower).all() and (first.q <= robot.upper).all()
        assert (traced.trace >= robot.lower).all() and (traced.trace <= robot.upper).all()
        assert np.array_equal(traced.trace[0], problem.q_start)
        assert first.iterations <= budget.iterations
        judged = evaluate(problem, first.q)
        assert (first.status is Claim.CONVERGED) == judged.solved
        own = Residual(
            robot,
            problem.shape,
            kind=solver.residual,
            rotation_weight=solver.rotation_weight,
        )
        own.load(problem)
        before = own.evaluate(problem.q_start, jacobian=False).cost
        assert judged.solved or own.evaluate(first.q, jacobian=False).cost <= before
