"""What `solve` hands back: the solver's result, judged; the rest on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optik.diagnosis import Certificate, Diagnosis, certificate, diagnose
from optik.evaluation import Evaluation, evaluate
from optik.pose import Array, frozen
from optik.problem import Budget, Problem
from optik.result import Claim, Result, Status
from optik.windings import windings

if TYPE_CHECKING:
    from optik.reachability import Proof
    from optik.solvers.base import Solver


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Solution:
    """A configuration, what the solver claims of it, and what MuJoCo says of it.

    Only the judgement is made when it is made; the status, the message, the certificate and the
    diagnosis are worked out when they are first asked for, and kept.

    Attributes:
        problem: the problem that was asked.
        solver: the solver's string form.
        result: the solver's claim.
        evaluation: the judgement.
        setup_time: seconds spent on building the solver, 0 when it was built before.
        solve_time: seconds of the solve itself, judging excluded.
        method: the solver itself, so that a diagnosis can let it go on; None if not known.
        budget: what the solver was given.
        proof: the proof that the target cannot be reached, if one was asked for and found.
    """

    problem: Problem
    solver: str
    result: Result
    evaluation: Evaluation
    setup_time: float
    solve_time: float
    method: Solver | None
    budget: Budget | None
    proof: Proof | None

    def __init__(
        self,
        problem: Problem,
        solver: str,
        result: Result,
        evaluation: Evaluation,
        setup_time: float = 0.0,
        solve_time: float = 0.0,
        method: Solver | None = None,
        budget: Budget | None = None,
        proof: Proof | None = None,
    ) -> None:
        # Straight into __dict__: a solve takes some 30 us whole, and the guarded assignments of
        # a generated __init__ would be a tenth of that.
        own = self.__dict__
        own["problem"] = problem
        own["solver"] = solver
        own["result"] = result
        own["evaluation"] = evaluation
        own["setup_time"] = setup_time
        own["solve_time"] = solve_time
        own["method"] = method
        own["budget"] = budget
        own["proof"] = proof

    def __repr__(self) -> str:
        """One line: robot, solver and errors; `explain` of optik.explain tells the rest."""
        verdict = "solved" if self.success else "not solved"
        return (
            f"<Solution {self.problem.robot.name}: {verdict} by {self.solver}, "
            f"{self.position_error:.3g} m, {self.rotation_error:.3g} rad>"
        )

    @property
    def success(self) -> bool:
        """Whether every target is reached within tolerance, inside every limit."""
        return self.evaluation.solved

    @property
    def status(self) -> Status:
        """The judged outcome; a failure is diagnosed on first access."""
        return Status.SOLVED if self.evaluation.solved else self.diagnosis.kind

    @property
    def message(self) -> str:
        """The reason in one sentence, with joint names and numbers."""
        return self.diagnosis.sentence

    @property
    def q(self) -> Array:
        """The configuration, shape (n,) [rad or m]; the best one found when not solved."""
        return self.result.q

    @property
    def position_error(self) -> float:
        """Largest position error over the targets [m]."""
        return self.evaluation.position_error

    @property
    def rotation_error(self) -> float:
        """Largest rotation error over the targets [rad]."""
        return self.evaluation.rotation_error

    @property
    def limit_violation(self) -> float:
        """How far the worst joint is outside its range [rad or m]."""
        return self.evaluation.limit_violation

    @property
    def iterations(self) -> int:
        """Steps taken, all starts together."""
        return self.result.iterations

    @property
    def evaluations(self) -> int:
        """Forward kinematics calls, all starts together."""
        return self.result.evaluations

    @property
    def restarts(self) -> int:
        """Starts used after the given one."""
        return self.result.restarts

    @property
    def trace(self) -> Array | None:
        """The path, shape (k, n); None unless asked for."""
        return self.result.trace

    @property
    def start_projected(self) -> bool:
        """Whether the start lay outside the limits and was moved onto them."""
        return self.problem.start_projected

    @property
    def false_claim(self) -> bool:
        """Whether the solver claimed a solution that the judge does not confirm."""
        return self.result.status is Claim.CONVERGED and not self.success

    @property
    def active_lower(self) -> NDArray[np.bool_]:
        """Joints exactly on their lower limit, shape (n,), bool."""
        return self.q <= self.problem.robot.lower

    @property
    def active_upper(self) -> NDArray[np.bool_]:
        """Joints exactly on their upper limit, shape (n,), bool."""
        return self.q >= self.problem.robot.upper

    @cached_property
    def windings(self) -> Array:
        """Every configuration that turns hinges of q by whole turns inside the limits.

        Shape (k, n) [rad or m], nearest to the start first; the frame stands the same at all of
        them.

        Raises:
            RobotError: if q is not finite, or there are more than 1024.
        """
        return frozen(windings(self.problem.robot, self.q, self.problem.q_start))

    @property
    def posture_distance(self) -> float:
        """|W (q - q_rest)| [rad or m]."""
        return self.evaluation.posture_distance

    @property
    def optimality(self) -> float:
        """Relative projected gradient at q of the problem's own cost, |P| / (|J|_F |e|)."""
        return self.certificate.relative_optimality

    @cached_property
    def certificate(self) -> Certificate:
        """First- and second-order facts at q, of the problem's own cost.

        Raises:
            RobotError: if q is not finite.
        """
        facts = self.__dict__.get("diagnosis")
        if facts is not None and facts.certificate is not None:
            return facts.certificate
        robot = self.problem.robot
        return certificate(self.problem, np.clip(self.q, robot.lower, robot.upper))

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Why it is not solved, or that it is."""
        return diagnose(
            self.problem,
            self.q,
            solver=self.method,
            budget=self.budget,
            claim=self.result.status,
            q_end=self.result.q_end,
            proof=self.proof,
        )

    def prove(self, *, time_limit: float | None = None) -> Proof | None:
        """Tries to prove that the target cannot be reached inside the limits.

        A proof is kept as `proof`, and the status is "unreachable" from then on; nothing else ever
        gives that status.

        Args:
            time_limit: seconds for the attempt; a fixed amount of work if None.

        Returns:
            The proof, checked, or None for a solved problem or where none was found.
        """
        if self.success or self.proof is not None:
            return self.proof
        from optik.reachability import prove_unreachable

        proof = prove_unreachable(self.problem, time_limit=time_limit)
        # Found fast, then checked by other means: only what survives both is handed on.
        if proof is None or not proof.verify():
            return None
        object.__setattr__(self, "proof", proof)
        self.__dict__.pop("diagnosis", None)  # an earlier one did not know the proof
        return proof


def judged(
    problem: Problem,
    result: Result,
    *,
    solver: str,
    setup_time: float = 0.0,
    solve_time: float = 0.0,
    method: Solver | None = None,
    budget: Budget | None = None,
    proof: Proof | None = None,
) -> Solution:
    """Judges a result: on exactly the configuration that is handed back.

    A solver that leaves the limits has its configuration moved back onto them *before* it is
    judged, so that no verdict outlives a change of q; how far it was out is kept in the result.

    Args:
        problem: the problem that was solved.
        result: what the solver claims.
        solver: its string form.
        setup_time: seconds of building it.
        solve_time: seconds of the solve.
        method: the solver itself.
        budget: what it was given.
        proof: a proof of unreachability, or None.
    """
    evaluation = evaluate(problem, result.q)
    if 0.0 < evaluation.limit_violation < np.inf:
        robot = problem.robot
        result = replace(
            result,
            q=frozen(np.clip(result.q, robot.lower, robot.upper)),
            raw_violation=max(result.raw_violation, evaluation.limit_violation),
        )
        evaluation = evaluate(problem, result.q)
    return Solution(
        problem, solver, result, evaluation, setup_time, solve_time, method, budget, proof
    )
