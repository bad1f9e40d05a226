r"""The verdict on a configuration: one word of a closed set, one sentence with names and numbers.

The order of the questions decides, because more than one can be true:

    solved               the judge says so
    unreachable          a proof was handed in
    numerical_failure    q is not finite, or the method says that it broke down
    constrained_minimum  q is stationary, no curvature over the free joints is negative, and at
                         least one limit has a positive multiplier
    singular             q is stationary otherwise: no limit holds it (e != 0 and J^T e = 0 mean
                         that J has lost the direction of the error), or it is a saddle
    iteration_limit      more of the same method solves it, or still lowers the cost
    time_limit           the same, but time was what ran out
    false_stall          the method stands still, goes in circles or gains nothing, and q is not
                         stationary

A configuration is taken to be at a minimum, to the accuracy of its method, if the descent from it
ends in one whose cost is lower by less than a thousandth, and that minimum is within 1e-3 rad (or
m) or the relative projected gradient is below 1e-3 already: an interior-point method ends near a
limit, never on it, and Gauss-Newton crawls along the valley of an error that cannot vanish.  The
certificate that speaks is then the minimum's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optik.diagnosis import words
from optik.diagnosis.certificate import Certificate, certificate
from optik.diagnosis.continuation import Continuation, continue_method, more_iterations
from optik.diagnosis.descent import Descent, descend
from optik.evaluation import Evaluation, evaluate
from optik.pose import Array, frozen
from optik.problem import Budget, Problem
from optik.result import Claim, Status

if TYPE_CHECKING:
    from optik.reachability import Proof
    from optik.solvers.base import Solver

NEAR = 1e-3
"""How far a minimum may lie from q [rad or m], how much lower (share of the cost), how steep q."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Why a configuration is, or is not, the solution.

    Attributes:
        kind: one of the closed set.
        sentence: the reason for a person, with joint names and numbers.
        q: the configuration it speaks of, shape (n,) [rad or m].
        evaluation: the judge's verdict on q.
        certificate: of q; None where q is not finite.
        minimum: the certificate of the minimum that q is at, which is q's own or that of the
            descent's end; None unless kind is constrained_minimum or singular.
        continuation: what more of the same method does; None where that was not needed.
        descent: where a monotone descent inside the limits leads from q; None where q is solved or
            a minimum itself.
        proof: the proof of unreachability, if one was handed in.
    """

    kind: Status
    sentence: str
    q: Array
    evaluation: Evaluation
    certificate: Certificate | None = None
    minimum: Certificate | None = None
    continuation: Continuation | None = None
    descent: Descent | None = None
    proof: Proof | None = None

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.sentence}"

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as numbers, lists and strings; parts that were not needed are null."""
        parts = {
            "certificate": self.certificate,
            "minimum": self.minimum,
            "continuation": self.continuation,
            "descent": self.descent,
        }
        return {
            "kind": self.kind.value,
            "sentence": self.sentence,
            "q": self.q.tolist(),
            **{k: None if v is None else v.to_json() for k, v in parts.items()},
            "proof": None if self.proof is None else self.proof.to_dict(),
        }


def diagnose(
    problem: Problem,
    q: Array,
    *,
    solver: Solver | None = None,
    budget: Budget | None = None,
    claim: Claim | None = None,
    q_end: Array | None = None,
    proof: Proof | None = None,
) -> Diagnosis:
    """Finds out why `q` does not solve the problem.

    Args:
        problem: the problem.
        q: the configuration that was handed back, shape (n,) [rad or m].
        solver: the method that handed it back; without it nothing is said about going on.
        budget: what the method was given; going on means up to four times its iterations.
        claim: how the method said it ended.
        q_end: where the method stopped, shape (n,), if that is not q.
        proof: a proof of unreachability, from `prove_unreachable`.

    Returns:
        The verdict; the same for the same arguments, without any randomness.

    Raises:
        RobotError: if q is not n numbers.
    """
    robot = problem.robot
    if solver is not None and solver.family == "wrapper":
        solver = getattr(
            solver, "solver", solver
        )  # what goes on from one start is the method inside
    q = np.asarray(q, dtype=np.float64)
    if q.shape == (robot.n,) and not np.isfinite(q).all():
        verdict = evaluate(problem, q)
        return Diagnosis(Status.NUMERICAL_FAILURE, words.not_finite(problem, q), frozen(q), verdict)
    q = frozen(robot.configuration(q))
    verdict = evaluate(problem, q)
    # A gradient outside the limits says nothing: the facts are those of the nearest point inside.
    inside = frozen(np.clip(q, robot.lower, robot.upper))
    facts = certificate(problem, inside)
    told = words.Told(
        problem,
        verdict,
        None if solver is None else str(solver),
        claim,
        passed=q_end is not None and float(np.abs(q_end - q).max()) > NEAR,
    )
    if verdict.solved:
        return Diagnosis(Status.SOLVED, told.solved(), q, verdict, facts)
    if proof is not None:
        sentence = told.unreachable(proof)
        return Diagnosis(Status.UNREACHABLE, sentence, q, verdict, facts, proof=proof)
    if claim is Claim.NUMERICAL_FAILURE:
        return Diagnosis(Status.NUMERICAL_FAILURE, told.broken(), q, verdict, facts)
    if facts.minimum:
        kind = Status.CONSTRAINED_MINIMUM if facts.holding else Status.SINGULAR
        return Diagnosis(kind, told.minimum(facts), q, verdict, facts, facts)
    descent = descend(problem, inside)
    if facts.stationary:
        sentence = told.saddle(facts, descent)
        return Diagnosis(Status.SINGULAR, sentence, q, verdict, facts, facts, descent=descent)
    if _at_minimum(problem, inside, facts, descent):
        there = descent.certificate
        kind = Status.CONSTRAINED_MINIMUM if there.holding else Status.SINGULAR
        return Diagnosis(kind, told.minimum(there), q, verdict, facts, there, descent=descent)

    further: Continuation | None = None
    if solver is not None:
        further = continue_method(
            problem,
            inside if q_end is None else q_end,
            solver,
            iterations=more_iterations(solver, Budget() if budget is None else budget),
            cost=verdict.cost,
        )
    kind = _kind(claim, further, problem, solver is not None and solver.restarts_itself)
    return Diagnosis(
        kind,
        told.stopped(kind, facts, further, descent),
        q,
        verdict,
        facts,
        continuation=further,
        descent=descent,
    )


def _at_minimum(problem: Problem, q: Array, facts: Certificate, descent: Descent) -> bool:
    near = facts.relative_optimality <= NEAR or float(np.abs(descent.q - q).max()) <= NEAR
    return descent.end == "minimum" and near and descent.cost >= (1.0 - NEAR) * facts.cost


def _kind(
    claim: Claim | None, further: Continuation | None, problem: Problem, restarts: bool
) -> Status:
    """The kind of a configuration that is neither solved nor stationary."""
    cut_off = Status.TIME_LIMIT if claim is Claim.TIME_LIMIT else Status.ITERATION_LIMIT
    by_itself = claim in (Claim.NO_PROGRESS, Claim.CONVERGED)
    if further is None:
        return Status.FALSE_STALL if claim is None or by_itself else cut_off
    if by_itself:
        return Status.FALSE_STALL
    # A method that goes to another start when it stands still never stands still.
    if restarts or further.motion in ("solved", "falling"):
        return cut_off
    if further.motion == "broken":
        return Status.NUMERICAL_FAILURE
    if further.motion == "fixed_point" and certificate(problem, further.q).stationary:
        return cut_off  # on its way to a stationary point
    return Status.FALSE_STALL
