"""The exact check, and proofs that somebody has laid hands on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optik.problem import Problem, Target, Tolerance
from optik.reachability import Proof, prove_unreachable
from optik.reachability.boxes import Tree
from optik.reachability.exact import LARGEST, Multipliers, ceil_norm, positive_definite
from optik.reachability.goal import path_and_goal
from optik.reachability.prove import _Clock, _Relaxations
from optik.robot import Robot


def _minors_are_positive(matrix: list[list[int]]) -> bool:
    """Leading minors by elimination in fractions."""
    A = [[Fraction(v) for v in row] for row in matrix]
    for k in range(len(A)):
        if A[k][k] <= 0:
            return False
        for i in range(k + 1, len(A)):
            factor = A[i][k] / A[k][k]
            A[i] = [a - factor * b for a, b in zip(A[i], A[k], strict=True)]
    return True


@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.integers(-3, 3))
@settings(max_examples=200, deadline=None)
def test_positive_definite_is_decided_exactly(size: int, seed: int, shift: int) -> None:
    """Matrices G^T G + shift I with a G of less than full rank: on the edge for shift 0."""
    rng = np.random.default_rng(seed)
    G = rng.integers(-(2**20), 2**20, (max(1, size - 1), size)).astype(object)
    matrix = (G.T @ G + shift * np.eye(size, dtype=int).astype(object)).tolist()
    assert positive_definite(matrix) == _minors_are_positive(matrix)


@given(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=9))
def test_ceil_norm_is_the_smallest_integer_above_the_norm(vector: list[int]) -> None:
    square, root = sum(v * v for v in vector), ceil_norm(vector)
    assert root * root >= square
    assert root == 0 or (root - 1) ** 2 < square


@pytest.fixture(scope="module")
def proof() -> Proof:
    """A pose out of reach of the ur5e, by a little more than the tolerances."""
    robot = Robot.load("ur5e")
    pose = robot.forward(robot.q_nominal)
    stretched = pose.position * (1.1 / np.linalg.norm(pose.position))
    found = prove_unreachable(Problem(robot, Target(stretched, quaternion=pose.quaternion)))
    assert found is not None
    assert found.kind == "relaxation"
    assert found.verify()
    return found


@pytest.fixture(scope="module")
def cut(proof: Proof) -> Proof:
    """The same target proved over halved ranges."""
    path, goal = path_and_goal(proof.problem, 0)
    search = _Relaxations(proof.problem, 0, path, goal, _Clock(None))
    assert search.root() is not None
    found = search.branch()
    assert found is not None
    assert len(found.leaves) >= 2
    assert found.verify()
    return found


def _with(proof: Proof, leaf: int, **changes: object) -> Proof:
    leaves = list(proof.leaves)
    leaves[leaf] = dataclasses.replace(leaves[leaf], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(proof, leaves=tuple(leaves))


def _negated(m: Multipliers) -> dict[str, object]:
    return {"groups": tuple(tuple(-v for v in g) for g in m.groups)}


def _indefinite(m: Multipliers) -> dict[str, object]:
    first = (-1, *m.blocks[0][1:])
    return {"blocks": (first, *m.blocks[1:])}


def _inflated(m: Multipliers) -> dict[str, object]:
    return {"groups": tuple(tuple(v * 2**13 for v in g) for g in m.groups)}


def _float(m: Multipliers) -> dict[str, object]:
    return {"groups": tuple(tuple(float(v) for v in g) for g in m.groups)}


def _short(m: Multipliers) -> dict[str, object]:
    return {"blocks": m.blocks[:-1]}


def _truncated(m: Multipliers) -> dict[str, object]:
    return {"blocks": (*m.blocks[:-1], m.blocks[-1][:-1])}


def _nothing(m: Multipliers) -> dict[str, object]:
    return {"blocks": tuple(tuple(0 for _ in b) for b in m.blocks)}


def _larger_gap(m: Multipliers) -> dict[str, object]:
    """Doubles what the equations pay without what the conditions pay."""
    return {"groups": tuple(tuple(2 * v for v in g) for g in m.groups)}


@pytest.mark.parametrize(
    "tamper",
    [_negated, _indefinite, _inflated, _float, _short, _truncated, _nothing, _larger_gap],
)
def test_tampered_multipliers_prove_nothing(
    proof: Proof, cut: Proof, tamper: Callable[[Multipliers], dict[str, object]]
) -> None:
    for whole in (proof, cut):
        for leaf in range(len(whole.leaves)):
            assert not _with(whole, leaf, **tamper(whole.leaves[leaf])).verify()


def test_claims_that_go_further_than_the_multipliers_are_refused(proof: Proof) -> None:
    assert not dataclasses.replace(proof, bound=proof.bound * (1 + 1e-6) + 1e-9).verify()
    assert not dataclasses.replace(proof, bound=math.inf).verify()
    assert not dataclasses.replace(proof, bound=math.nan).verify()
    assert not dataclasses.replace(proof, kind="orientation", bound=math.inf).verify()
    assert not dataclasses.replace(proof, kind="boxes").verify()
    assert not dataclasses.replace(proof, target=1).verify()
    assert not dataclasses.replace(proof, stages=("pose",)).verify()
    assert not dataclasses.replace(proof, leaves=()).verify()


def test_the_same_multipliers_hold_for_narrower_and_not_for_wider_claims(proof: Proof) -> None:
    assert dataclasses.replace(proof, bound=0.5 * proof.bound).verify()
    for tolerance in (Tolerance(1e-4, 0.5), Tolerance(2 * proof.bound, 1e-3)):
        wider = dataclasses.replace(
            proof,
            problem=dataclasses.replace(proof.problem, tolerance=tolerance),
            position_tolerance=tolerance.position,
            rotation_tolerance=tolerance.rotation,
        )
        assert not wider.verify()


def test_multipliers_do_not_hold_for_wider_limits_or_a_nearer_target(proof: Proof) -> None:
    problem = proof.problem
    target = problem.targets[0]
    assert target.quaternion is not None
    near = Target(0.7 * target.position, quaternion=target.quaternion)
    moved = dataclasses.replace(problem, targets=(near,))
    assert not dataclasses.replace(proof, problem=moved).verify()
    robot = problem.robot
    longer = robot.model.__copy__()
    longer.body_pos[:] *= 1.5
    longer.site_pos[:] *= 1.5
    stretched = dataclasses.replace(problem, robot=dataclasses.replace(robot, model=longer))
    assert not dataclasses.replace(proof, problem=stretched).verify()


def test_a_cut_proof_needs_all_of_its_leaves_in_their_places(cut: Proof) -> None:
    swapped = dataclasses.replace(cut, leaves=cut.leaves[::-1])
    assert not swapped.verify()
    one = dataclasses.replace(
        cut, tree=Tree((-1,), (0,)), leaves=cut.leaves[:1], stages=cut.stages[:1]
    )
    assert not one.verify()
    assert not dataclasses.replace(cut, leaves=cut.leaves[:-1]).verify()
    assert not dataclasses.replace(
        cut, tree=Tree(cut.tree.joint[:-1], cut.tree.child[:-1])
    ).verify()
    assert not dataclasses.replace(cut, tree=Tree((-1, -1), (0, 0))).verify()


def test_integers_beyond_the_bound_are_not_even_looked_at(proof: Proof) -> None:
    huge = {"inner": tuple(LARGEST for _ in proof.leaves[0].inner)}
    if proof.leaves[0].inner:
        assert not _with(proof, 0, **huge).verify()
    boolean = {"groups": tuple(tuple(True for _ in g) for g in proof.leaves[0].groups)}
    assert not _with(proof, 0, **boolean).verify()
