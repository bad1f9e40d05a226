"""A short search for a configuration that does reach the target: then there is nothing to prove."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optik.chain import DIRECT, chain_to
from optik.evaluation import evaluate, problem_residual
from optik.pose import Array
from optik.problem import Problem
from optik.reachability.path import Path
from optik.reachability.relaxation import Program


def reaches(problem: Problem, starts: Iterable[Array], *, steps: int = 30) -> bool:
    """Whether damped steps inside the limits from one of the starts end at a solution.

        minimise  1/2 |J d - e|^2 + 1/2 mu |d|^2,   mu = 0.3 cost + 1e-9,   |d_i| <= 0.5,

    over the joints that are not pushed against a limit, clipped to the limits.

    Args:
        problem: the problem.
        starts: configurations, shape (n,) [rad or m].
        steps: from each start.
    """
    residual = problem_residual(problem.robot, problem.shape)
    residual.load(problem)
    lower, upper, free = residual.lower, residual.upper, residual.free
    tolerance = problem.tolerance
    for start in starts:
        x = np.clip(start[free], lower, upper)
        for _ in range(steps):
            at = residual.at(x)
            if (
                at.position_error <= tolerance.position
                and at.rotation_error <= tolerance.rotation
                and evaluate(problem, residual.full(x)).solved
            ):
                return True
            gradient = -(at.J.T @ at.e)
            held = ((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0))
            J = np.where(held, 0.0, at.J)
            H = J.T @ J + (0.3 * at.cost + 1e-9) * np.eye(len(x))
            d = np.clip(np.linalg.solve(H, J.T @ at.e), -0.5, 0.5)
            moved = np.clip(x + d, lower, upper)
            if np.abs(moved - x).max() < 1e-10:
                break
            x = moved
    return False


def guess(problem: Problem, target: int, path: Path, program: Program, moments: Array) -> Array:
    """The configuration whose angles are those of the relaxation's mean sines and cosines.

    Joints that do not occur, or follow another, stay where the problem starts.
    """
    q = np.array(problem.q_start)
    shape = problem.shape.targets[target]
    joints = {j.name: j for j in chain_to(problem.robot, shape.frame).joints}
    for step, (cosine, sine) in zip(path.steps, program.angles, strict=True):
        joint = joints.get(step.name)
        if joint is None or cosine < 0 or joint.polynomial != DIRECT:
            continue
        u = step.middle + float(np.arctan2(moments[sine], moments[cosine]))
        q[joint.index] = joint.reference + u
    return q
