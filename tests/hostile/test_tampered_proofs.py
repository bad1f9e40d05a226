"""A proof that was altered does not verify, and says so instead of breaking down."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from optik import OptikError, Problem, Robot, Target
from optik.reachability import Proof, prove_unreachable
from optik.reachability.boxes import Tree

JUNK = (None, "x", float("nan"), -1, 10**400, [], {}, (None,), ("x",), (1.5,), object())


@pytest.fixture(scope="module", params=["boxes", "relaxation"])
def proof(request):
    if request.param == "boxes":
        problem = Problem(Robot.load("planar2_05_05"), Target([1.2, 0, 0]))
    else:
        target = Target([1.6, 0, 0.3], quaternion=[1, 0, 0, 0])
        problem = Problem(Robot.load("arm7"), target)
    found = prove_unreachable(problem)
    assert found.kind == request.param
    assert found.verify()
    return found


def test_no_field_can_be_replaced(proof):
    reached = proof.problem.robot.forward(proof.problem.robot.q_nominal).position
    other = replace(proof.problem, targets=(Target(reached),))
    assert replace(proof, problem=other).verify() is False
    for name in ("kind", "bound", "target", "position_tolerance", "rotation_tolerance", "tree"):
        for value in JUNK:
            assert replace(proof, **{name: value}).verify() is False, (name, value)
    for name in ("stages", "leaves"):
        for value in JUNK:
            assert replace(proof, **{name: value}).verify() is False, (name, value)
    assert replace(proof, bound=1.5 * proof.bound).verify() is False
    assert replace(proof, target=False).verify() is False
    for kind in ("boxes", "relaxation", "orientation"):
        assert replace(proof, kind=kind).verify() == (kind == proof.kind)
    for tree in (
        ((), ()),
        ((0, -1, -1), (0, 0, 0)),
        ((10**9,), (1,)),
        ((0.0, -1, -1), (1.0, 0, 0)),
    ):
        assert replace(proof, tree=Tree(*tree)).verify() is False


@pytest.mark.parametrize("proof", ["relaxation"], indirect=True)  # boxes have no multipliers
def test_no_multiplier_can_be_replaced(proof):
    leaf = proof.leaves[0]
    for field in fields(leaf):
        value = getattr(leaf, field.name)
        if not value:
            continue
        for change in (lambda x: float("nan"), lambda x: float("inf"), lambda x: "x", lambda x: 1j):
            altered = replace(leaf, **{field.name: _deep(value, change)})
            assert replace(proof, leaves=(altered, *proof.leaves[1:])).verify() is False
        missing = replace(leaf, **{field.name: ()})
        assert replace(proof, leaves=(missing, *proof.leaves[1:])).verify() is False


def _deep(value, change):
    return tuple(_deep(v, change) if isinstance(v, tuple) else change(v) for v in value)


def test_no_json_breaks_it(proof):
    data = json.loads(proof.to_json())
    assert Proof.from_dict(proof.problem, data).verify()
    for key in data:
        for value in JUNK:
            try:
                read = Proof.from_dict(proof.problem, data | {key: value})
            except OptikError:
                continue
            same = key == "sentence" or read.to_dict() == proof.to_dict()
            assert read.verify() == same, (key, value)
    for value in (None, [], "x", 3):
        with pytest.raises(OptikError):
            Proof.from_dict(proof.problem, value)


def test_a_reachable_target_is_never_proved():
    rng = np.random.default_rng(11)
    for name in ("planar2_05_05", "so101", "arm2"):
        robot = Robot.load(name)
        # The ends of the ranges are the edge of what can be reached.
        ends = np.where(rng.random((4, robot.n)) < 0.5, robot.sampling_lower, robot.sampling_upper)
        for q in [*robot.sample(rng, 3), *ends]:
            problem = Problem(robot, Target(robot.forward(q).position))
            assert prove_unreachable(problem, time_limit=1.0) is None
