"""What `solve` hands back: the solver's result, judged; the rest on demand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from optik.diagnosis import Certificate, certificate
from optik.evaluation import Evaluation
from optik.pose import Array
from optik.problem import Problem
from optik.result import Claim, Result


@dataclass(frozen=True, eq=False)
class Solution:
    """A configuration, what the solver claims of it, and what MuJoCo says of it.

    Attributes:
        problem: the problem that was asked.
        solver: the solver's string form.
        result: the solver's claim.
        evaluation: the judgement.
        setup_time: seconds spent on building the solver, 0 when it was built before.
        solve_time: seconds of the solve itself, judging excluded.
    """

    problem: Problem
    solver: str
    result: Result
    evaluation: Evaluation
    setup_time: float
    solve_time: float

    @property
    def success(self) -> bool:
        """Whether every target is reached within tolerance, inside every limit."""
        return self.evaluation.solved

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

    @cached_property
    def certificate(self) -> Certificate:
        """First-order facts at q, of the problem's own cost."""
        return certificate(self.problem, self.q)

    @property
    def optimality(self) -> float:
        """Relative projected gradient at q."""
        return self.certificate.relative_optimality

    @property
    def posture_distance(self) -> float:
        """|W (q - q_rest)| [rad or m]."""
        return self.evaluation.posture_distance
