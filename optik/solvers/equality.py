r"""The equality form: the best posture among the configurations that reach the target.

    minimise  1/2 |W (q - q_rest)|^2    subject to    targets met,    lower <= q <= upper

The idea.  The targets are constraints, so no weight has to be chosen between pose and posture.  A
full rotation is three smooth equations (the vector part of conj(q_now) turned to q* is zero at no
other rotation), an axis two and an inequality that keeps it on the right side.  Without a posture
the start takes its place: the nearest solution to where the arm stands.

From a feasible point.  From the start alone, interior-point methods report "infeasible" on a third
of targets that can be reached.  With `first="least-squares"` IPOPT's bounded least squares finds a
solution and the equality form only moves along the solutions from there (1 to 6 iterations).  What
is handed back is the second phase's answer if it is a solution, else the first phase's.

Backends: IPOPT (Waechter and Biegler 2006), FATROP (Vanroye and others 2023), and CasADi's SQP
method with its active-set QP solver (Andersson and others 2019; Nocedal and Wright 2006, ch. 18).

Stopping.  The backend's own optimality test, iterations, time.  A word like "infeasible" from a
backend is told as no_progress, never as unreachable.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from optik.problem import Budget, Problem, Shape
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Deadline, Prepared, Search, Solver, check_choice, check_positive

First = Literal["start", "least-squares"]


@dataclass(frozen=True, kw_only=True)
class EqualityForm(Solver):
    """What the three backends share.

    Attributes:
        first: "start" begins at the start, "least-squares" at a solution found by bounded least
            squares.
        tolerance: the backend's own tolerance [1].
        verbose: let the backend print.
    """

    family: ClassVar[str] = "nlp"
    backend: ClassVar[str]

    first: First = "least-squares"
    tolerance: float = 1e-9
    verbose: bool = False

    def __post_init__(self) -> None:
        check_choice(self.name, "first", self.first, ("start", "least-squares"))
        check_positive(self.name, "tolerance", self.tolerance)

    @abstractmethod
    def _options(self, budget: Budget) -> dict[str, Any]:
        """The second phase's settings, in the backend's words."""

    def _ipopt_options(self, budget: Budget) -> dict[str, Any]:
        """IPOPT's settings, for the first phase of every backend and for the second of its own."""
        from optik.solvers.ipopt import ipopt_options

        return ipopt_options(
            budget,
            hessian="exact",
            tolerance=self.tolerance,
            mu_strategy="adaptive",
            verbose=self.verbose,
        )

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""
        from optik.solvers._nlp import Program, locked_result, posture_terms

        first = None
        if self.first == "least-squares":
            first = Program(
                robot,
                shape,
                backend="ipopt",
                options=self._ipopt_options(budget),
                least_squares="chordal",
                # Measured best for the first phase; it only has to find some solution.
                rotation_weight=0.2,
                verbose=self.verbose,
            )
        second = Program(
            robot,
            shape,
            backend=self.backend,
            options=self._options(budget),
            least_squares=None,
            rotation_weight=None,
            verbose=self.verbose,
            watch=self.backend != "fatrop",  # fatrop does not call back
        )

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            search = Search(second.residual, problem, budget, trace=trace, deadline=deadline)
            locked = locked_result(search)
            if locked is not None:
                return locked
            start = None
            rest, weights = posture_terms(problem, weight=1.0)
            if problem.posture is None:
                rest, weights = problem.q_start, problem.posture_weights
            if first is not None:
                none = 0.0 * weights
                claim, word = first.solve(search, rest=rest, weights=none)
                if claim is not Claim.CONVERGED:
                    return search.result(claim, f"least squares: {word}")
                if second.rows >= len(second.residual.free):
                    # Solutions are isolated points: there is no posture left to choose, and
                    # fatrop refuses programs without freedom.
                    return search.result(claim, word)
                start = search.best_q()
            claim, word = second.solve(search, rest=rest, weights=weights, start=start)
            return search.result(claim, word)

        return run

    @property
    def uses_problem_cost(self) -> bool:
        """The first phase works on the chordal residual, so a failure is finished by box steps."""
        return False


@dataclass(frozen=True, kw_only=True)
class IpoptEquality(EqualityForm):
    """IPOPT on the equality form; what the options mean stands at `EqualityForm`."""

    name: ClassVar[str] = "ipopt-equality"
    summary: ClassVar[str] = "IPOPT: best posture subject to the targets as equalities"
    reference: ClassVar[str] = "Waechter and Biegler 2006"
    backend: ClassVar[str] = "ipopt"

    def _options(self, budget: Budget) -> dict[str, Any]:
        return self._ipopt_options(budget)


@dataclass(frozen=True, kw_only=True)
class FatropEquality(EqualityForm):
    """FATROP on the equality form; what the options mean stands at `EqualityForm`."""

    name: ClassVar[str] = "fatrop-equality"
    summary: ClassVar[str] = "FATROP: best posture subject to the targets as equalities"
    reference: ClassVar[str] = "Vanroye, Sathya, De Schutter and Decre 2023"
    backend: ClassVar[str] = "fatrop"

    def _options(self, budget: Budget) -> dict[str, Any]:
        return {
            "fatrop": {
                "print_level": 5 if self.verbose else 0,
                "max_iter": budget.iterations,
                "tolerance": self.tolerance,
            },
        }


@dataclass(frozen=True, kw_only=True)
class SqpEquality(EqualityForm):
    """CasADi's SQP method, with its active-set QP solver; for the options see `EqualityForm`."""

    name: ClassVar[str] = "sqp-equality"
    summary: ClassVar[str] = "CasADi sqpmethod: best posture subject to the targets as equalities"
    reference: ClassVar[str] = "Nocedal and Wright 2006"
    backend: ClassVar[str] = "sqpmethod"

    def _options(self, budget: Budget) -> dict[str, Any]:
        return {
            "max_iter": budget.iterations,
            "tol_pr": self.tolerance,
            "tol_du": self.tolerance,
            "qpsol": "qrqp",
            "qpsol_options": {
                "print_iter": False,
                "print_header": False,
                "print_info": False,
                "error_on_fail": False,
            },
            "print_iteration": self.verbose,
            "print_header": self.verbose,
            "print_status": self.verbose,
            "convexify_strategy": "regularize",
        }
