"""A proof that a target is out of reach: a value that can be kept, sent, and checked again."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from optik.errors import ProblemError
from optik.problem import Problem
from optik.reachability.boxes import Tree
from optik.reachability.exact import Margin, Multipliers, check
from optik.reachability.goal import Goal, path_and_goal
from optik.reachability.path import Path
from optik.reachability.relaxation import Stage, build, stages
from optik.reachability.replay import replay

Kind = Literal["boxes", "relaxation", "orientation"]
KINDS: tuple[Kind, ...] = ("boxes", "relaxation", "orientation")
FORMAT = "optik-proof/1"


@dataclass(frozen=True, eq=False)
class Proof:
    """No configuration inside the limits has both errors within these bounds.

        for all q in [lower, upper]:  position error > bound  or  rotation error > tolerance

    Attributes:
        problem: the problem; the proof is about its robot, its target and its tolerance.
        target: which of the problem's targets.
        kind: "boxes" (branch and bound over the joint ranges), "relaxation" (multipliers of a
            convex relaxation) or "orientation" (multipliers in which the position does not occur:
            the orientation alone is out of reach).
        bound: position error that is excluded [m]; inf for "orientation".
        position_tolerance: the problem's [m]; below `bound`.
        rotation_tolerance: the problem's [rad].
        tree: how the joint ranges were cut; a single node where they were not.
        stages: for each leaf, which relaxation; empty for "boxes".
        leaves: for each leaf, its multipliers; empty for "boxes".
    """

    problem: Problem = field(repr=False)
    target: int
    kind: Kind
    bound: float
    position_tolerance: float
    rotation_tolerance: float
    tree: Tree = field(repr=False)
    stages: tuple[Stage, ...] = ()
    leaves: tuple[Multipliers, ...] = field(default=(), repr=False)

    @property
    def sentence(self) -> str:
        """What is proved, for a person."""
        if self.kind == "orientation":
            return (
                "Proved: no configuration inside the limits turns the frame to within "
                f"{self.rotation_tolerance:g} rad of the target's orientation."
            )
        turned = (
            ""
            if self.problem.targets[self.target].kind == "position"
            else f" at an orientation within {self.rotation_tolerance:g} rad of the target's"
        )
        return (
            f"Proved: no configuration inside the limits comes closer than "
            f"{_rounded_down(self.bound)} to the target{turned}."
        )

    @property
    def exact(self) -> bool:
        """Whether `verify` is exact integer arithmetic; float64 with 1e-9 m taken off, if not."""
        return self.kind != "boxes"

    def verify(self) -> bool:
        """Checks the whole proof again from the robot and the target alone.

        Multipliers are checked in exact integer arithmetic (exact.py); branch and bound is replayed
        in float64 with 1e-9 m taken off every bound (boxes.py).  No solver is involved.

        Returns:
            Whether what the proof claims follows; False for fields that are no proof's at all.
        """
        try:
            return self._holds()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return False

    def _holds(self) -> bool:
        tolerance = self.problem.tolerance
        if not (
            self.kind in KINDS
            and type(self.target) is int
            and self.position_tolerance == tolerance.position
            and self.rotation_tolerance == tolerance.rotation
            and 0 <= self.target < len(self.problem.targets)
            and self.bound > self.position_tolerance
        ):
            return False
        path, goal = path_and_goal(self.problem, self.target, anew=True)
        if not path.steps:
            return False
        if self.kind == "boxes":
            usable = goal.position_only and math.isfinite(self.bound)
            usable = usable and self.stages == () and self.leaves == ()
            return usable and replay(path, goal, self.tree) >= self.bound
        paths = leaf_paths(path, self.tree)
        if paths is None or not len(paths) == len(self.stages) == len(self.leaves):
            return False
        return all(
            self._leaf_holds(*leaf, goal)
            for leaf in zip(paths, self.stages, self.leaves, strict=True)
        )

    def _leaf_holds(self, path: Path, stage: Stage, multipliers: Multipliers, goal: Goal) -> bool:
        if stage not in stages(path, goal):
            return False
        margin = check(build(path, goal, stage), goal, multipliers)
        if margin is None:
            return False
        if self.kind == "orientation":
            return orientation_only(margin) and margin.excludes(0.0, self.rotation_tolerance)
        return math.isfinite(self.bound) and margin.excludes(self.bound, self.rotation_tolerance)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the problem, in numbers, strings and lists that JSON can hold."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "sentence": self.sentence,
            "target": self.target,
            "bound": self.bound if math.isfinite(self.bound) else None,
            "position_tolerance": self.position_tolerance,
            "rotation_tolerance": self.rotation_tolerance,
            "tree": {"joint": list(self.tree.joint), "child": list(self.tree.child)},
            "stages": list(self.stages),
            "leaves": [
                {
                    "inner": list(m.inner),
                    "groups": [list(g) for g in m.groups],
                    "balls": [list(b) for b in m.balls],
                    "blocks": [list(b) for b in m.blocks],
                }
                for m in self.leaves
            ],
        }

    def to_json(self) -> str:
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, problem: Problem, data: dict[str, Any]) -> Proof:
        """Reads a proof about a problem back; `verify` tells whether it is one.

        Raises:
            ProblemError: if the data are not of this format.
        """
        try:
            if data["format"] != FORMAT or data["kind"] not in KINDS:
                raise ValueError(f"format {data['format']!r}, kind {data['kind']!r}")
            if not 0 <= data["target"] < len(problem.targets):
                raise ValueError(f"the problem has no target {data['target']!r}")
            return cls(
                problem=problem,
                target=int(data["target"]),
                kind=cast(Kind, data["kind"]),
                bound=math.inf if data["bound"] is None else float(data["bound"]),
                position_tolerance=float(data["position_tolerance"]),
                rotation_tolerance=float(data["rotation_tolerance"]),
                tree=Tree(tuple(data["tree"]["joint"]), tuple(data["tree"]["child"])),
                stages=tuple(data["stages"]),
                leaves=tuple(
                    Multipliers(
                        inner=tuple(m["inner"]),
                        groups=tuple(tuple(g) for g in m["groups"]),
                        balls=tuple(tuple(b) for b in m["balls"]),
                        blocks=tuple(tuple(b) for b in m["blocks"]),
                    )
                    for m in data["leaves"]
                ),
            )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ProblemError(
                f"this is not a proof as Proof.to_dict writes it ({FORMAT}): {error!r}"
            ) from None


def orientation_only(margin: Margin) -> bool:
    """Whether the position occurs nowhere in the inequality."""
    return all(
        norm == 0
        for name, norm in zip(margin.names, margin.norms, strict=True)
        if name not in ("rotation", "axis")
    )


def leaf_paths(path: Path, tree: Tree) -> list[Path] | None:
    """The paths of a tree's leaves, which together cover the ranges; None if it is no tree."""
    if not tree.joint or len(tree.joint) != len(tree.child):
        return None
    known: dict[int, Path] = {0: path}
    out = []
    for k, (joint, child) in enumerate(zip(tree.joint, tree.child, strict=True)):
        if k not in known:
            return None
        if joint == -1:
            out.append(known[k])
            continue
        fits = type(joint) is int and type(child) is int and 0 <= joint < len(path.steps)
        if not fits or not k < child < len(tree.joint) - 1 or child in known or child + 1 in known:
            return None
        known[child], known[child + 1] = known[k].halved(joint)
    return out


def _rounded_down(metres: float) -> str:
    """A bound to four figures, never more than what is proved."""
    if not 0.0 < metres < math.inf:  # no proof has such a bound, but it can still be written down
        return f"{metres} m"
    digits = 3 - math.floor(math.log10(metres))
    down = math.floor(metres * 10.0**digits) / 10.0**digits
    return f"{down:.4g} m" if down >= 1.0 else f"{1e3 * down:.4g} mm"
