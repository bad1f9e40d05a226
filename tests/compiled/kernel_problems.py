"""Problems of every kind that the kernels take, on a tree of random joints, and their reference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import mujoco
import numpy as np
from numpy.typing import NDArray

from optik.compiled.core import Core, Settings, rotation_numbers, rotation_width
from optik.pose import matrix_from_quaternion, quaternion_from_matrix
from optik.problem import Problem, Target
from optik.residual import Residual, ResidualKind
from optik.robot import Robot
from optik.solvers.box_lm import BoxLM

Array = NDArray[np.float64]
# The problem's own weights: what the kernel minimises is then what the reference minimises.
OWN_WEIGHTS = BoxLM(rotation_weight=None)
FAR = -0.9  # cosine of the turn beyond which the kernels lengthen the chordal residual


@dataclass(frozen=True)
class Part:
    """A target without its numbers."""

    kind: str
    frame: str
    relative_to: str | None = None
    mask: tuple[int, ...] | None = None


# Every kind alone, with a mask, in another frame's axes, and several at once.
SHAPES: dict[str, tuple[Part, ...]] = {
    "position": (Part("position", "left"),),
    "position masked": (Part("position", "left", mask=(1, 0, 1, 1, 1, 1)),),
    "position relative": (Part("position", "left", "right"),),
    "axis": (Part("axis", "left"),),
    "axis masked": (Part("axis", "right", mask=(0, 1, 1, 1, 1, 1)),),
    "axis relative": (Part("axis", "left", "trunk"),),
    "pose": (Part("pose", "left"),),
    "pose masked": (Part("pose", "right", mask=(1, 1, 1, 1, 1, 0)),),
    "rotation about z alone": (Part("pose", "left", mask=(0, 0, 0, 0, 0, 1)),),
    "pose relative": (Part("pose", "left", "right"),),
    "pose relative masked": (Part("pose", "left", "trunk", (1, 1, 0, 1, 0, 1)),),
    "two": (Part("pose", "left"), Part("position", "right")),
    "two for one frame": (Part("position", "left"), Part("axis", "left", "trunk")),
    "three": (Part("pose", "left"), Part("axis", "right"), Part("position", "trunk")),
    "four": (
        Part("pose", "left", "trunk", (1, 1, 1, 0, 1, 1)),
        Part("axis", "right", "left"),
        Part("position", "trunk", mask=(1, 1, 0, 1, 1, 1)),
        Part("pose", "right"),
    ),
}


@cache
def tree(trunk: int, left: int, right: int) -> Robot:
    """A trunk that carries two arms: anchors, refs, rotated frames, slides, an endless joint.

    In the trunk and in the left arm stands one more joint, which follows the first one by a
    polynomial of the fourth degree.  The frames are `trunk`, `left` and `right`.
    """
    rng = np.random.default_rng(31)
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    names: list[str] = []

    def grow(body, part: str, joints: int):
        for i in range(joints + (part != "right")):
            body = body.add_body(pos=rng.normal(0, 0.2, 3), quat=_unit(rng))
            body.add_geom(size=[0.01, 0, 0])
            follows = i == joints
            slide = i == 1 or (follows and part == "left")
            reference = float(rng.normal(0, 0.3))
            joint = body.add_joint(
                name=f"{part}{i}",
                type=mujoco.mjtJoint.mjJNT_SLIDE if slide else mujoco.mjtJoint.mjJNT_HINGE,
                axis=rng.normal(size=3),
                pos=rng.normal(0, 0.1, 3),
                ref=reference,
            )
            if follows:
                equality = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT)
                equality.objtype = mujoco.mjtObj.mjOBJ_JOINT
                equality.name1, equality.name2 = joint.name, "trunk0"
                equality.data[:5] = 0.1, *rng.uniform(-0.5, 0.5, 4)
                continue
            names.append(joint.name)
            if joint.name != "right0":
                joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
                joint.range = reference - rng.uniform(0.4, 1.5), reference + rng.uniform(0.4, 1.5)
        body.add_site(name=part, pos=rng.normal(0, 0.1, 3), quat=_unit(rng))
        return body

    top = grow(spec.worldbody, "trunk", trunk)
    grow(top, "left", left)
    grow(top, "right", right)
    return Robot.load(spec, frame="left", joints=names, name=f"tree{trunk}{left}{right}")


def made(
    robot: Robot,
    parts: tuple[Part, ...],
    q: Array,
    rng: np.random.Generator,
    *,
    angle: float = 0.0,
) -> Problem:
    """Targets that the configuration `q`, shape (n,), reaches but for a turn by `angle` [rad]."""
    kinematics = robot.kinematics()
    kinematics.update(q)
    targets = []
    for part in parts:
        frame = robot.frame_named(part.frame)
        p, R = kinematics.position(frame).copy(), kinematics.rotation(frame).copy()
        if part.relative_to is not None:
            base = robot.frame_named(part.relative_to)
            B = kinematics.rotation(base)
            p, R = B.T @ (p - kinematics.position(base)), B.T @ R
        rotation = {}
        if part.kind == "pose":
            rotation = {"quaternion": quaternion_from_matrix(turn(_axis(rng), angle) @ R)}
        elif part.kind == "axis":
            body = _axis(rng)
            x = R @ body
            across = np.cross(x, _axis(rng))
            rotation = {"axis": (body, turn(across / np.linalg.norm(across), angle) @ x)}
        targets.append(
            Target(
                p,
                frame=part.frame,
                relative_to=part.relative_to,
                mask=part.mask,
                position_weight=float(rng.uniform(0.5, 2.0)),
                rotation_weight=float(rng.uniform(0.1, 1.0)),
                **rotation,
            )
        )
    return Problem(robot, targets)


def inside(robot: Robot, rng: np.random.Generator) -> Array:
    """A random configuration that stays a tenth of every range away from its limits."""
    low, high = robot.sampling_lower, robot.sampling_upper
    return low + (high - low) * rng.uniform(0.1, 0.9, robot.n)


@dataclass(frozen=True)
class Answer:
    """What one call of a kernel gives back."""

    q: Array
    code: int
    steps: int
    cost: float
    position_error: float
    rotation_error: float
    path: Array


def call(core: Core, problem: Problem, q: Array, *, steps: int) -> Answer:
    """One row of `solve_rows`, from the start `q`, shape (n,), alone."""
    width = rotation_width(problem.shape)
    q_out, codes, values = np.empty(core.robot.n), np.empty(1, dtype=np.int64), np.empty(3)
    path = np.full((steps + 1, core.robot.n), np.nan)
    core.solve_rows(
        np.concatenate([t.position for t in problem.targets]),
        np.concatenate([rotation_numbers(t, width) for t in problem.targets]),
        OWN_WEIGHTS.asked(problem),
        q,
        q_out,
        codes,
        values,
        last=1,
        steps=steps,
        trace=path,
    )
    word = int(codes[0])
    return Answer(q_out, word & 15, (word >> 4) & ((1 << 30) - 1), *values.tolist(), path)


def reference(problem: Problem, q: Array, kind: ResidualKind) -> tuple[Array, Array]:
    """J^T J, shape (n, n), and J^T e, shape (n,), from MuJoCo's Jacobians.

    Where an unmasked chordal residual is close to a half turn its length fades though the error is
    largest; the kernels then take the axis of the turn itself, with length one.
    """
    H, g = np.zeros((len(q), len(q))), np.zeros(len(q))
    for target in problem.targets:
        alone = Problem(problem.robot, target)
        found = _linearized(alone, q, kind)
        masked = target.kind == "pose" and not all(target.mask)
        if kind == "chordal" and not masked and np.cos(found.rotation_error) < FAR:
            found = _linearized(alone, q, "log")
            found.e[-3:] /= found.rotation_error
        H += found.J.T @ found.J
        g += found.J.T @ found.e
    return H, g


def _linearized(problem: Problem, q: Array, kind: ResidualKind):
    residual = Residual(problem.robot, problem.shape, kind=kind)
    residual.load(problem)
    return residual.evaluate(q, jacobian=True)


@cache
def core_of(
    robot: Robot, parts: tuple[Part, ...], kind: ResidualKind, *, folded: bool, **numbers: float
) -> Core:
    """A kernel with no start table and the given numbers of the method."""
    problem = made(robot, parts, robot.q_nominal, np.random.default_rng(0))
    settings = Settings(table_size=0, log=kind == "log", **numbers)
    return Core(robot, problem.shape, settings, folded=folded)


def turn(axis: Array, angle: float) -> Array:
    """The rotation matrix about a unit axis by `angle` [rad]."""
    half = 0.5 * angle
    return matrix_from_quaternion(np.array([np.cos(half), *(np.sin(half) * axis)]))


def _axis(rng: np.random.Generator) -> Array:
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def _unit(rng: np.random.Generator) -> Array:
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)
