r"""Bounded nonlinear least squares by IPOPT, with the exact Hessian.

    minimise  1/2 |e(q)|^2 + 1/2 w_post^2 |W (q - q_rest)|^2    subject to    lower <= q <= upper

The idea.  A primal-dual interior-point method with a filter line search (Waechter and Biegler 2006)
on expressions whose first and second derivatives CasADi makes exactly (Andersson and others 2019).
The residual is the problem's own rotation vector (`residual="log"`) or the smoother difference of
the frame's axes (`"chordal"`).

Bounds.  IPOPT relaxes every bound by 1e-8 unless `bound_relax_factor=0`; with it the iterates stay
strictly inside.  `raw_violation` reports what was left to put back.

Stopping.  Solved within tolerance (the callback looks at every iterate); IPOPT's own optimality
test at `tolerance`; the iteration or time limit.  IPOPT's words "infeasible" and "restoration
failed" are told as no_progress: they never mean that a pose cannot be reached.

The posture.  Weighted rows in the same sum, with the posture's own weight.  Above its default,
w_post^2 = 1e-6, the posture pulls the frame off its target; `ipopt-equality` needs no weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from optik.problem import Budget, Problem, Shape
from optik.residual import RESIDUALS
from optik.result import Result
from optik.robot import Robot
from optik.solvers.base import (
    Deadline,
    Prepared,
    Search,
    Solver,
    check_choice,
    check_positive,
)


@dataclass(frozen=True, kw_only=True)
class Ipopt(Solver):
    """IPOPT on the bounded nonlinear least-squares problem.

    Attributes:
        residual: rotation residual, "log" or "chordal".
        rotation_weight: w_r for every target [m/rad]; each target's own if None.
        hessian: "exact", or "limited-memory" (L-BFGS).
        tolerance: IPOPT's own optimality tolerance [1].
        mu_strategy: barrier update, "adaptive" or "monotone".
        verbose: let IPOPT print.
    """

    name: ClassVar[str] = "ipopt"
    summary: ClassVar[str] = "interior point on the bounded least squares, exact Hessian"
    family: ClassVar[str] = "nlp"
    reference: ClassVar[str] = "Waechter and Biegler 2006"

    residual: Literal["log", "chordal"] = "log"
    rotation_weight: float | None = None
    hessian: Literal["exact", "limited-memory"] = "exact"
    tolerance: float = 1e-9
    mu_strategy: Literal["adaptive", "monotone"] = "adaptive"
    verbose: bool = False

    def __post_init__(self) -> None:
        check_choice(self.name, "residual", self.residual, RESIDUALS)
        check_choice(self.name, "hessian", self.hessian, ("exact", "limited-memory"))
        check_choice(self.name, "mu_strategy", self.mu_strategy, ("adaptive", "monotone"))
        check_positive(self.name, "rotation_weight", self.rotation_weight)
        check_positive(self.name, "tolerance", self.tolerance)

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""
        # Imported here: casadi takes a tenth of a second that other solvers need not pay.
        from optik.solvers._nlp import Program, locked_result, posture_terms

        program = Program(
            robot,
            shape,
            backend="ipopt",
            options=ipopt_options(
                budget,
                hessian=self.hessian,
                tolerance=self.tolerance,
                mu_strategy=self.mu_strategy,
                verbose=self.verbose,
            ),
            least_squares=self.residual,
            rotation_weight=self.rotation_weight,
            verbose=self.verbose,
        )

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            search = Search(program.residual, problem, budget, trace=trace, deadline=deadline)
            locked = locked_result(search)
            if locked is not None:
                return locked
            rest, weights = posture_terms(problem)
            return search.result(*program.solve(search, rest=rest, weights=weights))

        return run


def ipopt_options(
    budget: Budget, *, hessian: str, tolerance: float, mu_strategy: str, verbose: bool
) -> dict[str, Any]:
    """The nlpsol options that every use of IPOPT here shares."""
    return {
        "ipopt": {
            "print_level": 5 if verbose else 0,
            "sb": "no" if verbose else "yes",
            "max_iter": budget.iterations,
            "tol": tolerance,
            "bound_relax_factor": 0.0,
            "honor_original_bounds": "yes",
            # The start may lie on a limit: pushed inside by a little, not by IPOPT's 1e-2.
            "bound_push": 1e-6,
            "bound_frac": 1e-6,
            "mu_strategy": mu_strategy,
            "hessian_approximation": hessian,
            "fixed_variable_treatment": "make_parameter",
        },
    }
