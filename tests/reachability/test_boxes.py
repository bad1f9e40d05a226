"""Branch and bound: its bounds against sampled configurations, its trees, its replay."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from optik.problem import Problem, Target
from optik.reachability import prove_unreachable
from optik.reachability.boxes import Tree, search, sweep_of
from optik.reachability.goal import path_and_goal
from optik.reachability.replay import _bounds, replay
from optik.robot import Robot

SLIDING = """
<mujoco><compiler boundmass="1" boundinertia="1"/><worldbody><body pos="0.1 0 0.2">
  <joint name="rail" type="slide" axis="0 1 0" range="-0.4 0.3"/>
  <body pos="0.2 0 0" euler="20 0 10">
    <joint name="a" type="hinge" axis="0 0.6 0.8" range="-60 100" pos="0.02 0 0.01"/>
    <body pos="0.3 0.05 0">
      <joint name="lift" type="slide" axis="1 0 0" range="0 0.2"/>
      <body pos="0.2 0 0.1">
        <joint name="b" type="hinge" axis="0 1 0" range="-120 30"/>
        <site name="tip" pos="0.25 0.03 0"/>
</body></body></body></body></worldbody></mujoco>
"""


def _robots() -> list[Robot]:
    spec = mujoco.MjSpec.from_string(SLIDING)
    return [
        Robot.load("so101"),
        Robot.load("planar2_05_05"),
        Robot.load("arm2"),
        Robot.load(spec, frame="tip", name="sliding"),
    ]


@pytest.mark.parametrize("robot", _robots(), ids=lambda r: r.name)
@pytest.mark.parametrize("flat", [False, True])
def test_no_configuration_of_a_box_is_nearer_than_its_bound(robot: Robot, flat: bool) -> None:
    """Random boxes of all sizes, bound against the distance at their corners and inside."""
    rng = np.random.default_rng(0)
    mask = [True, True, not flat, True, True, True]
    tight = 0
    for _ in range(20):
        wanted = robot.forward(robot.sample(rng)).position + rng.normal(scale=0.1, size=3)
        problem = Problem(robot, Target(wanted, mask=mask))
        path, goal = path_and_goal(problem, 0)
        s = sweep_of(path, goal)
        count = 40
        width = rng.uniform(0.0, 1.0, (count, len(s.half))) ** 3
        middle = s.middle + s.half * (1 - width) * rng.uniform(-1, 1, width.shape)
        half = s.half * width
        if s.swept:
            middle[:, 0], half[:, 0] = s.middle[0], s.half[0]
        bounds = _bounds(s, middle, half)
        for m, h, bound in zip(middle, half, bounds, strict=True):
            corners = rng.choice([-1.0, 1.0], (20, len(h))) * rng.choice([1.0, 0.3], (20, 1))
            for u in m + h * corners:
                q = np.array(robot.q_nominal)
                for step, value in zip(path.steps, u, strict=True):
                    q[robot.joint_names.index(step.name)] = value
                gap = (robot.forward(q).position - wanted)[list(mask[:3])]
                distance = float(np.linalg.norm(gap))
                assert distance >= bound - 1e-9
                tight += bound > 0.5 * distance
    assert tight > 100  # the bounds are not empty


@pytest.mark.parametrize("robot", _robots(), ids=lambda r: r.name)
def test_search_and_replay_agree_and_reachable_targets_stay_unproved(robot: Robot) -> None:
    rng = np.random.default_rng(1)
    proved = 0
    for i in range(60):
        q = robot.sample(rng)
        edge = rng.random(robot.n) < 0.5
        q = np.where(edge, robot.sampling_upper, q) if i % 2 else q
        position = robot.forward(q).position
        problem = Problem(robot, Target(position))
        path, goal = path_and_goal(problem, 0)
        assert search(path, goal, most=2000).tree is None
        away = Problem(robot, Target(position + rng.normal(scale=0.5, size=3)))
        path, goal = path_and_goal(away, 0)
        cut = search(path, goal, most=2000)
        if cut.tree is not None:
            assert replay(path, goal, cut.tree) > goal.position_tolerance
            proved += 1
    assert proved > 10


@pytest.mark.parametrize("step", [1e-3, -1e-3])
@pytest.mark.parametrize("radius", [1.0, 3.0])
def test_planar_targets_just_inside_and_just_outside_the_reach(radius: float, step: float) -> None:
    """Links of 2 and 1 reach the ring between 1 and 3."""
    robot = Robot.load("planar2_2_1")
    for angle in np.linspace(0.0, 6.0, 13):
        r = radius + step
        target = Target([r * np.cos(angle), r * np.sin(angle), 0.0])
        proof = prove_unreachable(Problem(robot, target))
        outside = r > 3.0 or r < 1.0
        assert (proof is not None) == outside
        if proof is not None:
            assert proof.kind == "boxes"
            assert proof.bound <= 1e-3
            assert proof.verify()


def test_tampered_trees_are_refused() -> None:
    robot = Robot.load("so101")
    rng = np.random.default_rng(2)
    position = robot.forward(np.zeros(5)).position
    proof = None
    while proof is None or len(proof.tree.joint) < 5:
        problem = Problem(robot, Target(position + rng.normal(scale=0.1, size=3)))
        proof = prove_unreachable(problem)
        if proof is not None and proof.kind != "boxes":
            proof = None
    tree = proof.tree
    assert proof.verify()
    whole = Tree((-1,), (0,))
    assert not dataclasses.replace(proof, tree=whole).verify()
    swept = Tree((0, *tree.joint[1:]), tree.child)
    assert not dataclasses.replace(proof, tree=swept).verify()
    looped = Tree(tree.joint, (0, *tree.child[1:]))
    assert not dataclasses.replace(proof, tree=looped).verify()
    short = Tree(tree.joint[:-1], tree.child[:-1])
    assert not dataclasses.replace(proof, tree=short).verify()
    outside = Tree((99, *tree.joint[1:]), tree.child)
    assert not dataclasses.replace(proof, tree=outside).verify()
    lied = dataclasses.replace(proof, bound=proof.bound + 1e-6)
    assert not lied.verify()
