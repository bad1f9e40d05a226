"""Looks for a proof that a target is out of reach, cheapest first.

Position targets on paths of up to five joints go to branch and bound over the joint ranges; if a
few thousand boxes do not settle it, the relaxation is asked before many more are spent.  All other
targets go to the relaxation: the gap stage, then, unless a short search finds a configuration that
reaches the target, the pose stage, and then the pose stage with the ranges cut in two, again and
again, while the allowance of relaxations lasts.  The joint to cut is the one about which the
relaxation is least decided: the smallest length of its mean (cos, sin).

Nothing here is random.  Multipliers are checked exactly before a `Proof` is handed out.  A tree of
boxes is not replayed, because that takes longer than finding it: it was found with 3e-9 m to spare,
and `Proof.verify` replays it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optik.checks import instance
from optik.errors import ProblemError
from optik.pose import Array
from optik.problem import Problem, time_limit_of
from optik.reachability.boxes import Tree, search
from optik.reachability.exact import Margin, Multipliers, check
from optik.reachability.goal import Goal, path_and_goal
from optik.reachability.path import Path
from optik.reachability.proof import Proof, orientation_only
from optik.reachability.relaxation import Program, Stage, build, stages
from optik.reachability.search import find
from optik.reachability.witness import guess, reaches

MOST_BOXED_JOINTS = 5
FEW_BOXES, MANY_BOXES = 6_000, 150_000
MOST_RELAXATIONS = 24
ROOT = Tree((-1,), (0,))


def prove_unreachable(problem: Problem, *, time_limit: float | None = None) -> Proof | None:
    """Tries to prove that no configuration inside the limits solves the problem.

    What is claimed: no configuration inside the limits has position error <= the tolerance *and*
    rotation error <= the tolerance, for one of the targets.  Two joints of which one follows the
    other are treated as independent inside their own ranges, and a rotation of which only some rows
    count is left out; both can cost a proof but never make a false one.

    Args:
        problem: the problem; where it starts does not matter.
        time_limit: seconds; without it the work is limited (some 25 relaxations a target).

    Returns:
        A proof, or None: the target can be reached, or nobody knows.

    Raises:
        ProblemError: for a time limit that is not positive.
    """
    instance(problem, Problem, "the first argument", ProblemError)
    clock = _Clock(time_limit_of(time_limit))
    for index in range(len(problem.targets)):
        proof = _prove_target(problem, index, clock)
        if proof is not None:
            return proof
        if clock.out():
            break
    return None


class _Clock:
    """How much time is left, if any limit was set."""

    def __init__(self, limit: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._end = None if limit is None else now() + limit

    def left(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - self._now())

    def out(self) -> bool:
        return self._end is not None and self._now() >= self._end


def _prove_target(problem: Problem, index: int, clock: _Clock) -> Proof | None:
    path, goal = path_and_goal(problem, index)
    if not path.steps or not path.bounded:
        return None
    boxed = goal.position_only and len(path.steps) <= MOST_BOXED_JOINTS
    if boxed:
        proof, settled = _by_boxes(problem, index, path, goal, FEW_BOXES)
        if settled or clock.out():
            return proof
    search = _Relaxations(problem, index, path, goal, clock)
    proof = search.root()
    if proof is not None or search.reached or clock.out():
        return proof
    if boxed:
        return _by_boxes(problem, index, path, goal, MANY_BOXES)[0]
    return search.branch()


def _by_boxes(
    problem: Problem, index: int, path: Path, goal: Goal, most: int
) -> tuple[Proof | None, bool]:
    """A proof by boxes, and whether the question is settled (proved, or the target is reached)."""
    cut = search(path, goal, most=most)
    if cut.tree is None:
        return None, cut.reached
    return _proof(problem, index, goal, "boxes", cut.bound, cut.tree, []), True


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A box of ranges that is settled."""

    stage: Stage
    multipliers: Multipliers
    margin: Margin
    bound: float


class _Relaxations:
    """The relaxations of one target."""

    def __init__(self, problem: Problem, index: int, path: Path, goal: Goal, clock: _Clock) -> None:
        self.problem, self.index, self.path, self.goal = problem, index, path, goal
        self.clock = clock
        self.stages = stages(path, goal)
        self.reached = False
        self.moments: tuple[Program, Array] | None = None

    def root(self) -> Proof | None:
        """One relaxation after the other over the whole ranges."""
        for number, stage in enumerate(self.stages):
            leaf = self._solve(self.path, stage)
            if leaf is not None:
                return self._finish(ROOT, [leaf])
            if number == 0 and self._reachable():
                self.reached = True
                return None
            if self.clock.out():
                return None
        return None

    def branch(self) -> Proof | None:
        """The last stage over smaller and smaller ranges."""
        if not self.stages or self.moments is None:
            return None
        stage = self.stages[-1]
        joint, child = [self._undecided(self.path, *self.moments)], [1]
        waiting = [(1, self.path.halved(joint[0])[0]), (2, self.path.halved(joint[0])[1])]
        joint += [-1, -1]
        child += [0, 0]
        leaves: dict[int, _Leaf] = {}
        used = 0
        while waiting:
            if used >= MOST_RELAXATIONS or self.clock.out():
                return None
            node, path = waiting.pop()
            leaf = self._solve(path, stage)
            used += 1
            if leaf is not None:
                leaves[node] = leaf
                continue
            j = self._undecided(path, *self.moments)
            joint[node], child[node] = j, len(joint)
            low, high = path.halved(j)
            waiting += [(len(joint), low), (len(joint) + 1, high)]
            joint += [-1, -1]
            child += [0, 0]
        order = [k for k, j in enumerate(joint) if j == -1]
        return self._finish(Tree(tuple(joint), tuple(child)), [leaves[k] for k in order])

    def _solve(self, path: Path, stage: Stage) -> _Leaf | None:
        program = build(path, self.goal, stage)
        found = find(
            program,
            self.problem.tolerance,
            precise=stage == self.stages[-1],
            seconds=self.clock.left(),
        )
        self.moments = (program, found.moments)
        if found.multipliers is None:
            return None
        margin = check(program, self.goal, found.multipliers)
        if margin is None:
            return None
        multipliers = found.multipliers
        bound = margin.largest(self.goal.rotation_tolerance)
        if bound is None or not bound > self.goal.position_tolerance:
            return None
        if stage == "gap" and self.goal.rotation is not None and bound > 1.0 + margin.span:
            # No position is that far away: it may be the orientation alone that is out of reach.
            bare = _without_position(program, multipliers)
            alone = check(program, self.goal, bare)
            if alone is not None and alone.excludes(0.0, self.goal.rotation_tolerance):
                multipliers, margin, bound = bare, alone, math.inf
        return _Leaf(stage, multipliers, margin, bound)

    def _reachable(self) -> bool:
        assert self.moments is not None
        starts = [self.problem.q_start, np.array(self.problem.robot.q_mid)]
        if np.isfinite(self.moments[1]).all():
            starts.insert(0, guess(self.problem, self.index, self.path, *self.moments))
        return reaches(self.problem, starts)

    def _undecided(self, path: Path, program: Program, moments: Array) -> int:
        scores = []
        for step, (cosine, sine) in zip(path.steps, program.angles, strict=True):
            if step.hinge:
                length = math.hypot(float(moments[cosine]), float(moments[sine]))
                scores.append(1.0 - min(length, 1.0) if math.isfinite(length) else step.half)
            else:
                scores.append(step.half / (1.0 + step.half))
        return int(np.argmax(scores))

    def _finish(self, tree: Tree, leaves: list[_Leaf]) -> Proof:
        bound = min(leaf.bound for leaf in leaves)
        kind = "orientation" if all(orientation_only(leaf.margin) for leaf in leaves) else ""
        if not kind:
            # A leaf in which the position does not matter excludes every position error.
            bound = min((x.bound for x in leaves if math.isfinite(x.bound)), default=bound)
        return _proof(
            self.problem, self.index, self.goal, kind or "relaxation", bound, tree, leaves
        )


def _without_position(program: Program, multipliers: Multipliers) -> Multipliers:
    return replace(
        multipliers,
        groups=tuple(
            tuple(0 for _ in part) if group.name == "position" else part
            for group, part in zip(program.groups, multipliers.groups, strict=True)
        ),
    )


def _proof(
    problem: Problem,
    index: int,
    goal: Goal,
    kind: str,
    bound: float,
    tree: Tree,
    leaves: list[_Leaf],
) -> Proof:
    return Proof(
        problem=problem,
        target=index,
        kind=kind,  # type: ignore[arg-type]
        bound=bound,
        position_tolerance=goal.position_tolerance,
        rotation_tolerance=goal.rotation_tolerance,
        tree=tree,
        stages=tuple(leaf.stage for leaf in leaves),
        leaves=tuple(leaf.multipliers for leaf in leaves),
    )
