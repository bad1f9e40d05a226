"""The sentences of a diagnosis: joint names, numbers with units, no jargon where a word will do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optik.diagnosis.certificate import Certificate, LimitForce
from optik.diagnosis.continuation import Continuation
from optik.diagnosis.descent import Descent
from optik.evaluation import Evaluation
from optik.pose import Array
from optik.problem import Problem
from optik.result import Claim, Status

if TYPE_CHECKING:
    from optik.reachability import Proof


def length(metres: float) -> str:
    """A length for reading: micrometres, millimetres or metres, three figures."""
    if metres >= 1.0:
        return f"{metres:.3g} m"
    return f"{1e3 * metres:.3g} mm" if metres >= 1e-6 else f"{1e6 * metres:.2g} um"


def angle(radians: float) -> str:
    """An angle for reading, three figures, in radians and degrees where it is not small."""
    if radians >= 0.01:
        return f"{radians:.3g} rad ({np.degrees(radians):.3g} deg)"
    return f"{1e3 * radians:.3g} mrad"


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def limit(force: LimitForce) -> str:
    """`j4 at its upper limit (2.9 rad)`."""
    return f"{force.joint} at its {force.side} limit ({force.limit:.4g} {force.unit})"


def relief(forces: Sequence[LimitForce]) -> str:
    """What a little room at each limit would bring, to first order."""
    parts = []
    for unit, room, text in (("rad", 0.01, "0.01 rad"), ("m", 1e-3, "1 mm")):
        gains = [
            f"{100 * room * f.error_share:.2g} % at {f.joint}" for f in forces if f.unit == unit
        ]
        if gains:
            parts.append(f"{text} more room would lower the error by {listed(gains)}")
    return listed(parts)


def not_finite(problem: Problem, q: Array) -> str:
    """The sentence for a configuration with a NaN or an infinity in it."""
    bad = [n for n, v in zip(problem.robot.joint_names, q, strict=True) if not np.isfinite(v)]
    return f"The method's numerics broke down: {listed(bad)} came back as no finite number."


@dataclass(frozen=True, eq=False)
class Told:
    """Tells the verdicts on one configuration.

    Attributes:
        problem: the problem.
        verdict: the judge's.
        method: the solver's string form, or None.
        claim: how the solver said it ended, or None.
        passed: whether the configuration is one that the method went past, not where it stopped.
    """

    problem: Problem
    verdict: Evaluation
    method: str | None
    claim: Claim | None
    passed: bool = False

    @property
    def name(self) -> str:
        """What to call the method."""
        return "The method" if self.method is None else self.method

    def error(self, position: float, rotation: float) -> str:
        """`12.3 mm and 0.2 rad`, leaving out what no target asks for."""
        if all(t.kind == "position" for t in self.problem.targets):
            return length(position)
        return f"{length(position)} and {angle(rotation)}"

    @property
    def left(self) -> str:
        """The error that is left at q."""
        return self.error(self.verdict.position_error, self.verdict.rotation_error)

    @property
    def caveat(self) -> str:
        """What has to be said first."""
        text = ""
        if self.claim is Claim.CONVERGED:
            text = f"{self.name} claims success, which the judge does not confirm. "
        if self.verdict.limit_violation > 0.0:
            robot, q = self.problem.robot, self.verdict.q
            i = int(np.argmax(np.maximum(robot.lower - q, q - robot.upper)))
            side = "lower" if q[i] < robot.lower[i] else "upper"
            unit = "rad" if robot.joint_kinds[i] == "hinge" else "m"
            text += (
                f"The configuration has {robot.joint_names[i]} {self.verdict.limit_violation:.3g} "
                f"{unit} beyond its {side} limit. "
            )
        return text

    def solved(self) -> str:
        """Solved."""
        return f"Solved: {self.left} from the target, inside every limit."

    def unreachable(self, proof: Proof) -> str:
        """Proved unreachable."""
        return f"{proof.sentence} The best found is {self.left} from the target."

    def broken(self) -> str:
        """Numerics."""
        return f"{self.name} reports that its numerics broke down; {self.left} are left."

    def minimum(self, facts: Certificate) -> str:
        """A minimum, held by limits or by a lost direction."""
        if not facts.holding:
            return (
                f"{self.caveat}A local minimum that no limit holds, {self.left} from the target: "
                f"{_rank(facts)}, so no motion of the joints moves the frame in the direction of "
                "the error that is left, and every small bend makes it worse."
            )
        verb = "holds" if len(facts.holding) == 1 else "hold"
        return (
            f"{self.caveat}{listed([limit(f) for f in facts.holding])} {verb} it "
            f"{self.left} from the target: no small motion inside the limits comes closer. "
            f"To first order, {relief(facts.holding)}."
        )

    def saddle(self, facts: Certificate, descent: Descent) -> str:
        """Stationary, but not a minimum."""
        held = f", with {listed([limit(f) for f in facts.holding])}" if facts.holding else ""
        return (
            f"{self.caveat}A singular configuration {self.left} from the target{held}: "
            f"{_rank(facts)}, and to first order no motion lowers the error; bent out of it, "
            f"{self.leads(descent)}."
        )

    def leads(self, descent: Descent) -> str:
        """Where a descent leads."""
        steps = count(descent.steps, "step")
        if descent.end == "solved":
            return f"a descent inside the limits solves it in {steps}"
        there = self.error(descent.position_error, descent.rotation_error) + " from the target"
        if (
            descent.position_error > self.verdict.position_error
            or descent.rotation_error > self.verdict.rotation_error
        ):
            # One error rises while their weighed sum falls: say so, or it reads like a mistake.
            share = 1.0 - np.sqrt(descent.cost / self.verdict.cost)
            there += f" (weighed together, the error falls by {100 * share:.2g} %)"
        holding = descent.certificate.holding
        if descent.end == "minimum" and holding:
            names = listed([f"{f.joint} ({f.side})" for f in holding])
            return (
                f"a descent inside the limits comes in {steps} to a minimum {there}, held by "
                f"{names}"
            )
        if descent.end == "minimum":
            return (
                f"a descent inside the limits comes in {steps} to a singular minimum {there}: "
                f"{_rank(descent.certificate)}"
            )
        return f"a descent inside the limits is {there} after {steps}"

    def stopped(
        self,
        kind: Status,
        facts: Certificate,
        further: Continuation | None,
        descent: Descent,
    ) -> str:
        """Neither solved nor stationary."""
        slope = f"relative projected gradient {facts.relative_optimality:.2g}"
        if kind in (Status.ITERATION_LIMIT, Status.TIME_LIMIT):
            what = "time" if kind is Status.TIME_LIMIT else "iterations"
            return f"{self.caveat}Out of {what} {self.left} from the target: " + self._more(
                further, descent
            )
        if kind is Status.NUMERICAL_FAILURE:
            return f"{self.caveat}Let go on, {self.name} breaks down; {self.left} are left."
        stands, afresh = self._stands(further), ""
        if further is not None and further.motion == "solved":
            iterations = count(further.iterations, "iteration")
            afresh = f" Started afresh there, {self.name} solves it in {iterations}."
        if self.passed:
            return (
                f"{self.caveat}{stands}; the best configuration on its way is {self.left} from "
                f"the target, and no minimum ({slope}): {self.leads(descent)}.{afresh}"
            )
        return (
            f"{self.caveat}{stands} {self.left} from the target, which is no minimum ({slope}): "
            f"{self.leads(descent)}.{afresh}"
        )

    def _more(self, further: Continuation | None, descent: Descent) -> str:
        if further is None:
            return self.leads(descent) + "."
        more = count(further.iterations, "more iteration")
        if further.motion == "solved":
            verb = "solves" if further.iterations == 1 else "solve"
            return f"{more} of {self.name} {verb} it."
        if further.motion != "falling":
            return f"{more} of {self.name} do not solve it; {self.leads(descent)}."
        then = self.error(further.position_error, further.rotation_error)
        return (
            f"{more} of {self.name} bring it to {then}, and the error is still falling; "
            f"{self.leads(descent)}."
        )

    def _stands(self, further: Continuation | None) -> str:
        if further is None:
            return "This configuration is" if self.method is None else f"{self.name} stopped"
        if further.motion == "cycle":
            return f"{self.name} goes round a cycle of {further.period} configurations"
        if further.motion == "fixed_point":
            return f"{self.name} stands still"
        if further.motion == "wandering":
            more = count(further.iterations, "more iteration")
            return f"{self.name} gains nothing in {more}"
        return f"{self.name} gave up"


def _rank(facts: Certificate) -> str:
    rows, columns = facts.jacobian_shape
    most = ""
    if facts.rank == columns < rows:  # nothing is lost here: there never was more to move with
        most = f" (the most that {count(columns, 'joint')} can give)"
    return (
        f"the {rows} by {columns} Jacobian has rank {facts.rank}{most}, smallest singular value "
        f"{facts.smallest_singular_value:.2g}"
    )
