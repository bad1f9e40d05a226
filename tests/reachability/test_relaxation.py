"""The relaxation: every real configuration satisfies it, and its two forms agree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest

from optik.chain import axis_rotation, chain_to
from optik.pose import Array, rotation_vector
from optik.problem import Problem, Target, Tolerance
from optik.reachability.exact import check
from optik.reachability.goal import Goal, path_and_goal
from optik.reachability.path import Path, path_between, polynomial_range
from optik.reachability.readable import gap
from optik.reachability.relaxation import Program, build, cuts, stages
from optik.reachability.search import find
from optik.reachability.slack import slack
from optik.robot import Robot

MIXED = """
<mujoco><compiler boundmass="1" boundinertia="1"/><worldbody>
<body name="torso" pos="0 0 0.3"><joint name="waist" type="hinge" axis="0 0 1" range="-90 60"/>
 <body pos="0.1 0.2 0"><joint name="l1" type="hinge" axis="0 1 0" range="-90 100"/>
  <body pos="0.1 0 0.2" euler="0 30 10"><joint name="l2" type="hinge" axis="1 0 0"/>
   <site name="left" pos="0 0.1 0.1" euler="10 20 30"/></body></body>
 <body pos="0.1 -0.2 0"><joint name="r0" type="slide" axis="0 0.6 0.8" range="-0.1 0.25"/>
  <body pos="0 0 0.1" euler="0 40 0">
   <joint name="r1" type="hinge" axis="0 1 0" range="-100 120" pos="0 0.03 0.01"/>
   <body pos="0.3 0 0"><joint name="r2" type="hinge" axis="0.6 0 0.8" range="-60 170"/>
    <body pos="0.2 0 0.1"><joint name="r3" type="hinge" axis="0 0 1" range="-200 200"/>
     <body pos="0.1 0 0"><joint name="r4" type="slide" axis="1 0 0" range="0 0.2"/>
      <body pos="0.1 0 0.1"><joint name="r5" type="hinge" axis="0 1 0" range="-50 50"/>
       <body pos="0.1 0 0" euler="20 0 0">
        <joint name="r6" type="hinge" axis="0 0 1" range="-70 80"/>
        <body pos="0.1 0 0"><joint name="r7" type="hinge" axis="1 0 0" range="-170 80"/>
         <body pos="0.1 0 0"><joint name="r8" type="hinge" axis="0 1 0" range="-70 80"/>
          <site name="right" pos="0.1 0 0.05" euler="0 0 40"/>
</body></body></body></body></body></body></body></body></body></body></worldbody></mujoco>
"""


def _mixed() -> Robot:
    names = ["waist", "l1", "l2", *(f"r{i}" for i in range(9))]
    return Robot.load(mujoco.MjSpec.from_string(MIXED), frame="right", joints=names, name="mixed")


COUPLED = """
<mujoco><compiler boundmass="1" boundinertia="1"/><worldbody>
<body pos="0 0 0.3"><joint name="c1" type="hinge" axis="0 0 1" range="-90 60"/>
 <body pos="0.3 0 0.1"><joint name="c2" type="hinge" axis="0 1 0" ref="10" range="-40 100"/>
  <body pos="0.2 0 0"><joint name="c3" type="hinge" axis="0 1 0" ref="-5" range="-200 200"/>
   <body pos="0.2 0.1 0"><joint name="c4" type="slide" axis="1 0 0" range="-1 1"/>
    <body pos="0.1 0 0"><joint name="c5" type="hinge" axis="1 0 0" range="-60 50"/>
     <site name="tip" pos="0.1 0 0.1" euler="0 30 10"/>
</body></body></body></body></body></worldbody>
<equality>
 <joint joint1="c3" joint2="c2" polycoef="0.1 -0.8 0.3 0 0"/>
 <joint joint1="c4" joint2="c1" polycoef="0.05 0.1 0 0.05 0"/>
</equality></mujoco>
"""


def _coupled() -> Robot:
    spec = mujoco.MjSpec.from_string(COUPLED)
    return Robot.load(spec, frame="tip", joints=["c1", "c2", "c5"], name="coupled")


def _robots() -> list[Robot]:
    names = ("panda", "ur5e", "so101", "gen3", "arm2")
    return [*(Robot.load(n) for n in names), _mixed(), _coupled()]


def _turns(robot: Robot, q: Array, relative: str | None) -> dict[str, float]:
    """What each joint of the chains really turns or slides by, by name."""
    frames = [robot.frame_ref] + ([] if relative is None else [robot.frame_named(relative)])
    return {
        j.name: float(np.polynomial.Polynomial(j.polynomial)(q[j.index] - j.reference))
        for frame in frames
        for j in chain_to(robot, frame).joints
    }


def _configurations(robot: Robot, rng: np.random.Generator) -> Iterator[Array]:
    """Alternately inside the limits and, in half of the joints, on them."""
    for on_limits in itertools.cycle((False, True)):
        q = robot.sample(rng)
        if on_limits:
            side = np.where(rng.random(robot.n) < 0.5, robot.sampling_lower, robot.sampling_upper)
            q = np.where(rng.random(robot.n) < 0.5, side, q)
        yield q


def _target(robot: Robot, q: Array, kind: str, relative: str | None) -> Target:
    tool = robot.forward(q)
    p, R = tool.position, tool.rotation
    if relative is not None:
        base = robot.forward(q, frame=relative)
        p, R = base.rotation.T @ (p - base.position), base.rotation.T @ R
    if kind == "pose":
        return Target(p, rotation=R, relative_to=relative)
    if kind == "axis":
        axis = np.array([0.0, 0.6, 0.8])
        return Target(p, axis=(axis, R @ axis), relative_to=relative)
    return Target(p, relative_to=relative)


def _moments(path: Path, goal: Goal, program: Program, u: Array) -> Array:
    """The variables of a program at one configuration, from sines, cosines and rotations alone."""
    front, back = cuts(path, goal, program.stage)
    x = np.full(program.size, np.nan)
    products: list[float] = []

    def window(joints: list[int], rotations: dict[int, Array], sign: float) -> None:
        factors = [
            (1.0, np.cos(u[j] - path.steps[j].middle), np.sin(u[j] - path.steps[j].middle))
            for j in joints
            if path.steps[j].hinge
        ]
        products.extend(float(np.prod(c)) for c in itertools.product(*factors))
        products.pop(-(3 ** len(factors)))
        for j in joints:
            if not path.steps[j].hinge:
                s = path.steps[j]
                products.extend(sign * rotations[j] @ s.axis * ((u[j] - s.middle) / s.half))

    after, R = {}, np.eye(3)
    for j, s in enumerate(path.steps):
        before = R
        R = R @ s.rotation
        after[j] = R
        if s.hinge:
            R = R @ _turn(s.axis, u[j])
        after[j, "before"] = before
    count = len(path.steps)
    window(list(range(front)), after, 1.0)
    for j in range(front, count - back):
        s = path.steps[j]
        if s.hinge:
            phi = u[j] - s.middle
            lifted = np.outer(
                np.r_[1.0, after[j, "before"].ravel()], [1.0, np.cos(phi), np.sin(phi)]
            )
            products.extend(lifted.ravel()[1:])
        else:
            products.extend(after[j] @ s.axis * ((u[j] - s.middle) / s.half))
    other = path.reversed()
    tool = R @ path.tool_rotation
    seen = {}
    for j in range(count - 1, -1, -1):
        # Seen from the tool; a reversed slide's axis is the negative one.
        seen[j] = tool.T @ after[j]
    assert np.allclose(other.steps[0].rotation, path.tool_rotation.T)
    window(list(range(count - 1, count - 1 - back, -1)), seen, -1.0)
    x[:] = products
    return x


def _turn(axis: Array, angle: float) -> Array:
    K = np.cross(np.eye(3), axis)
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


@pytest.mark.parametrize("kind", ["pose", "axis", "position"])
@pytest.mark.parametrize("robot", _robots(), ids=lambda r: r.name)
def test_every_configuration_satisfies_every_condition(robot: Robot, kind: str) -> None:
    rng = np.random.default_rng(5)
    relatives = [None, "left"] if robot.name == "mixed" else [None]
    for relative, q in zip(relatives * 4, _configurations(robot, rng), strict=False):
        # The target is missed a little, so that what the equations may miss is tested too.
        wanted = _target(robot, q, kind, relative)
        other = q + 1e-3 * rng.uniform(-1, 1, robot.n)
        problem = Problem(robot, _target(robot, other, kind, relative))
        path, goal = path_and_goal(problem, 0)
        turns = _turns(robot, q, relative)
        u = np.array([turns[s.name] for s in path.steps])
        position = float(np.linalg.norm(wanted.position - problem.targets[0].position))
        rotation = 0.0
        if kind == "pose":
            assert wanted.quaternion is not None
            assert problem.targets[0].quaternion is not None
            turned = rotation_vector(problem.targets[0].quaternion, wanted.quaternion)
            rotation = float(np.linalg.norm(turned))
        elif kind == "axis":
            assert wanted.axis is not None
            assert problem.targets[0].axis is not None
            cosine = wanted.axis[1] @ problem.targets[0].axis[1]
            rotation = float(np.arccos(min(cosine, 1.0))) + 1e-7
        for stage in stages(path, goal):
            program = build(path, goal, stage)
            x = np.append(_moments(path, goal, program, u), 1.0)
            assert np.abs(x).max() <= 1.0 + 1e-12
            if len(program.inner):
                assert np.abs(program.inner @ x).max() < 1e-12
            for b in program.blocks:
                matrix = np.einsum("k,kij->ij", b.weights * x[b.ids], b.template.matrices)
                assert np.linalg.eigvalsh(matrix)[0] > -1e-11
            for first in program.balls:
                assert np.linalg.norm(x[first : first + 3]) <= 1.0 + 1e-11
            for g in program.groups:
                missed = float(np.linalg.norm(g.rows @ x))
                allowed = slack(g.name, position, rotation, reach=program.reach, span=program.span)
                assert missed <= allowed + 1e-12
                if g.name == "position" and kind == "position":
                    assert np.isclose(missed, position, atol=1e-12)


@pytest.mark.parametrize("robot", [Robot.load("panda"), Robot.load("so101"), _coupled(), _mixed()])
def test_no_configuration_inside_the_limits_is_proved_away(robot: Robot) -> None:
    rng = np.random.default_rng(6)
    for i, q in zip(range(18), _configurations(robot, rng), strict=False):
        kind = ("pose", "axis", "position")[i % 3]
        problem = Problem(robot, _target(robot, q, kind, None))
        path, goal = path_and_goal(problem, 0)
        for stage in stages(path, goal):
            program = build(path, goal, stage)
            found = find(program, problem.tolerance)
            if found.multipliers is not None:
                margin = check(program, goal, found.multipliers)
                assert margin is None or not margin.excludes(0.0, 0.0)


@pytest.mark.parametrize("name", ["panda", "so101"])
@pytest.mark.parametrize(
    "tolerance", [Tolerance(1e-2, 5e-2), Tolerance(1e-3, 0.3), Tolerance(0.1, 1e-3)], ids=str
)
def test_wide_tolerances_are_honoured_to_the_brim(name: str, tolerance: Tolerance) -> None:
    """A target that is missed by just the tolerance, outwards, from the edge of the reach."""
    robot = Robot.load(name)
    rng = np.random.default_rng(8)
    beyond = 0
    for i, q in zip(range(12), _configurations(robot, rng), strict=False):
        tool = robot.forward(q)
        outwards = tool.position / np.linalg.norm(tool.position)
        position = tool.position + 0.999 * tolerance.position * outwards
        axis = rng.normal(size=3)
        turn = axis_rotation(axis / np.linalg.norm(axis), 0.999 * tolerance.rotation)
        rotation = turn @ tool.rotation
        target = Target(position, rotation=rotation) if i % 3 else Target(position)
        problem = Problem(robot, target, tolerance=tolerance)
        path, goal = path_and_goal(problem, 0)
        for stage in stages(path, goal):
            program = build(path, goal, stage)
            found = find(program, tolerance)
            margin = None if found.multipliers is None else check(program, goal, found.multipliers)
            if margin is not None:
                assert not margin.excludes(tolerance.position, tolerance.rotation)
                beyond += margin.excludes(0.0, 0.0)
    assert beyond > 0  # without the tolerance some of them are out of reach


@pytest.mark.parametrize("name", ["ur5e", "so101"])
def test_the_readable_form_gives_the_same_gap(name: str) -> None:
    robot = Robot.load(name)
    kind = "pose" if name == "ur5e" else "position"
    target = _target(robot, robot.q_nominal + 0.3, kind, None)
    for shift in ([0.9, 0.2, 0.1], [0.5, -0.3, 0.6]):
        far = Target(target.position + shift, quaternion=target.quaternion)
        path, goal = path_and_goal(Problem(robot, far), 0)
        program = build(path, goal, "gap")
        found = find(program, Tolerance())
        assert found.multipliers is not None
        margin = check(program, goal, found.multipliers)
        assert margin is not None
        bound = margin.largest(0.0)
        assert bound is not None
        assert bound == pytest.approx(gap(path, goal), rel=2e-3)


def test_a_path_between_two_arms_is_the_relative_pose() -> None:
    robot = _mixed()
    path = path_between(robot, robot.frame_ref, robot.frame_named("left"))
    assert "waist" not in [s.name for s in path.steps]  # shared by both arms
    rng = np.random.default_rng(7)
    for q in rng.uniform(robot.sampling_lower, robot.sampling_upper, (10, robot.n)):
        p, R = np.zeros(3), np.eye(3)
        reversed_names = {"l1", "l2"}
        for s in path.steps:
            value = q[robot.joint_names.index(s.name)]
            p, R = p + R @ s.offset, R @ s.rotation
            if s.hinge:
                # Reversed joints have the negative axis and the same u.
                R = R @ _turn(s.axis, value)
            else:
                assert s.name not in reversed_names
                p = p + R @ (s.axis * value)
        p, R = p + R @ path.tool_offset, R @ path.tool_rotation
        tool, base = robot.forward(q), robot.forward(q, frame="left")
        assert np.allclose(base.rotation @ p + base.position, tool.position, atol=1e-12)
        assert np.allclose(base.rotation @ R, tool.rotation, atol=1e-12)


def test_the_range_of_a_polynomial_holds_its_inner_extremes() -> None:
    low, high = polynomial_range((1.0, 0.0, -2.0, 0.0, 0.0), -0.5, 1.0)
    assert low == pytest.approx(-1.0, abs=1e-9)
    assert high == pytest.approx(1.0, abs=1e-9)
    assert high >= 1.0
    assert polynomial_range((0.0, 1.0, 0.0, 0.0, 0.0), -np.inf, 2.0) == (-np.inf, 2.0)
    assert polynomial_range((0.3, 0.0, 0.0, 0.0, 0.0), -1.0, 2.0) == (0.3, 0.3)
