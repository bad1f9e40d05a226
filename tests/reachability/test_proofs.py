"""What `prove_unreachable` promises, on the robots that the issue names."""

from __future__ import annotations

import dataclasses
import json
import pickle

import numpy as np
import pytest

from optik.errors import ProblemError
from optik.problem import Problem, Target, Tolerance
from optik.reachability import Proof, prove_unreachable
from optik.robot import Robot


def _far(robot: Robot, *, pose: bool) -> Problem:
    quaternion = [0.5, 0.5, 0.5, 0.5] if pose else None
    return Problem(robot, Target([0.0, 0.3, 3.5], quaternion=quaternion))


@pytest.mark.parametrize("name", ["panda", "iiwa14", "ur5e", "arm7", "so101", "planar2_2_1"])
@pytest.mark.parametrize("pose", [True, False])
def test_a_far_target_is_proved_and_the_proof_survives_the_post(name: str, pose: bool) -> None:
    problem = _far(Robot.load(name), pose=pose)
    proof = prove_unreachable(problem)
    assert proof is not None
    assert proof.verify()
    assert proof.bound > problem.tolerance.position
    assert pickle.loads(pickle.dumps(proof)).verify()
    again = Proof.from_dict(problem, json.loads(proof.to_json()))
    assert again.verify()
    assert again.to_dict() == proof.to_dict()


def test_the_same_problem_gives_the_same_proof() -> None:
    robot = Robot.load("ur5e")
    first = prove_unreachable(_far(robot, pose=True))
    prove_unreachable(_far(robot, pose=False))
    third = prove_unreachable(_far(robot, pose=True))
    assert first is not None
    assert third is not None
    assert first.to_dict() == third.to_dict()


def test_a_proof_says_nothing_about_another_target_or_wider_tolerances() -> None:
    robot = Robot.load("ur5e")
    problem = _far(robot, pose=True)
    proof = prove_unreachable(problem)
    assert proof is not None
    home = robot.forward(robot.q_nominal)
    near = Problem(robot, Target(home.position, quaternion=home.quaternion))
    assert not dataclasses.replace(proof, problem=near).verify()
    wide = dataclasses.replace(problem, tolerance=Tolerance(5.0, 1e-3))
    assert not dataclasses.replace(proof, problem=wide).verify()
    assert not dataclasses.replace(proof, problem=wide, position_tolerance=5.0).verify()
    assert not dataclasses.replace(proof, bound=proof.bound * 1.01).verify()


def test_a_time_limit_that_is_too_short_ends_in_none() -> None:
    robot = Robot.load("iiwa14")
    problem = Problem(robot, Target([0.4, 0.1, 0.3], quaternion=[0.1, 0.7, 0.7, 0.1]))
    assert prove_unreachable(problem, time_limit=1e-6) is None


def test_two_targets_of_which_one_is_out_of_reach() -> None:
    robot = Robot.load("panda")
    home = robot.forward(robot.q_nominal).position
    problem = Problem(robot, (Target(home), Target([0.0, 0.0, 3.0], frame="hand")))
    proof = prove_unreachable(problem)
    assert proof is not None
    assert proof.target == 1
    assert proof.verify()
    assert not dataclasses.replace(proof, target=0).verify()


def test_wrong_input_is_refused() -> None:
    problem = _far(Robot.load("planar2_2_1"), pose=False)
    with pytest.raises(ProblemError, match="positive"):
        prove_unreachable(problem, time_limit=0.0)
    with pytest.raises(ProblemError, match="not a proof"):
        Proof.from_dict(problem, {"format": "something else"})


def test_the_sentence_names_the_bound() -> None:
    problem = Problem(Robot.load("planar2_2_1"), Target([2.1, 2.8, 0.0]))
    proof = prove_unreachable(problem)
    assert proof is not None
    assert np.isclose(proof.bound, 0.5, atol=2e-9)  # links of 2 and 1, a target at 3.5
    assert "499.9 mm" in proof.sentence


def test_an_orientation_that_no_position_helps_is_said_to_be_one() -> None:
    """A planar arm cannot tip its tool over, wherever it stands."""
    robot = Robot.load("planar2_2_1")
    inside = robot.forward(robot.q_nominal + 0.3).position
    problem = Problem(robot, Target(inside, quaternion=[np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0]))
    proof = prove_unreachable(problem)
    assert proof is not None
    assert proof.kind == "orientation"
    assert proof.bound == np.inf
    assert proof.verify()
    assert "orientation" in proof.sentence
    assert Proof.from_dict(problem, json.loads(proof.to_json())).verify()
    assert not dataclasses.replace(proof, kind="relaxation").verify()
