"""What the CasADi solvers share: the expressions, silence, the deadline, and reading the outcome.

A nonlinear program is built once in `prepare` (SX expressions, exact Hessian) and called with a
problem's numbers as parameters.  The backend's iteration callback watches every iterate: it keeps
the best, stops as soon as the targets are reached within tolerance (as every solver here does), and
stops when the time is up.  Backends print from C even when told not to, so file descriptors 1 and 2
are closed over during a call unless `verbose` is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from optik.pose import Array
from optik.problem import Problem, Shape
from optik.residual import Residual
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Search
from optik.symbolic import SymbolicResidual, parameters_of, symbolic_residual

# Ipopt, fatrop and sqpmethod words for an end that is neither a limit nor a breakdown.
_STOPPED = {
    "Solve_Succeeded",
    "Solved_To_Acceptable_Level",
    "Feasible_Point_Found",
    "Search_Direction_Becomes_Too_Small",
    "Infeasible_Problem_Detected",
    "Restoration_Failed",
    "Diverging_Iterates",
    "Error_In_Step_Computation",
    "Not_Enough_Degrees_Of_Freedom",
    "User_Requested_Stop",
}
_OUT_OF_STEPS = {"Maximum_Iterations_Exceeded"}
_OUT_OF_TIME = {"Maximum_CpuTime_Exceeded", "Maximum_WallTime_Exceeded"}


class Program:
    """A nonlinear program over the joints, built once; for one thread.

    Attributes:
        residual: MuJoCo's residual, which judges every iterate.
        expressions: the symbolic residual.
        rows: number of equality constraints (0 for a pure least-squares program).
    """

    def __init__(
        self,
        robot: Robot,
        shape: Shape,
        *,
        backend: str,
        options: dict[str, Any],
        least_squares: str | None,
        rotation_weight: float | None,
        verbose: bool,
        watch: bool = True,
    ) -> None:
        """Builds the program.

        Args:
            robot: the robot.
            shape: the problems' structure.
            backend: the nlpsol plugin.
            options: its options, passed to nlpsol.
            least_squares: "log" or "chordal": minimise the residual and the weighted posture;
                None: minimise the posture subject to the targets as equalities.
            rotation_weight: w_r for every target, or None for each target's own.
            verbose: let the backend print.
            watch: whether the backend calls back after every iteration.
        """
        import casadi as ca

        self.residual = Residual(robot, shape)
        self.robot = robot
        self.verbose = verbose
        s: SymbolicResidual = symbolic_residual(robot, shape, rotation_weight=rotation_weight)
        self.expressions = s
        rest, weights = ca.SX.sym("rest", robot.n), ca.SX.sym("weights", robot.n)
        offset = weights * (s.q - rest)
        posture = 0.5 * ca.dot(offset, offset)
        g: Any = ca.SX.zeros(0)
        f: Any = posture
        if least_squares is None:
            g = ca.vertcat(s.equality, s.facing)
            self.rows, self.facing = s.equality.numel(), s.facing.numel()
        else:
            e = s.log if least_squares == "log" else s.chordal
            f = 0.5 * ca.dot(e, e) + posture
            self.rows = self.facing = 0
        nlp = {"x": s.q, "p": ca.vertcat(s.parameters, rest, weights), "f": f, "g": g}
        self._watcher = _watcher(robot.n, nlp["p"].numel(), g.numel()) if watch else None
        opts = {"print_time": False, "error_on_fail": False, "show_eval_warnings": False, **options}
        if self._watcher is not None:
            opts["iteration_callback"] = self._watcher
        with quiet(verbose):
            self._solver = ca.nlpsol("ik", backend, nlp, opts)
        self.lower_g = np.zeros(self.rows + self.facing)
        self.upper_g = np.concatenate((np.zeros(self.rows), np.full(self.facing, np.inf)))

    def solve(
        self, search: Search, *, rest: Array, weights: Array, start: Array | None = None
    ) -> tuple[Claim, str]:
        """Runs the backend once and leaves every visited configuration with `search`.

        Args:
            search: the bookkeeping; its budget's iterations are built into the backend's options.
            rest: q_rest, shape (n,).
            weights: weight of each joint's distance to it, shape (n,).
            start: where to begin, shape (n,); the problem's start if None.

        Returns:
            The claim and the backend's own word.
        """
        problem, robot = search.problem, self.robot
        x0 = np.array(problem.q_start if start is None else start)
        first = search.at(x0[self.residual.free])
        if search.solved(first) and start is None and self.rows == 0:
            return Claim.CONVERGED, "the start is a solution"
        if self._watcher is not None:
            self._watcher.begin(search, stop_when_solved=self.rows == 0)
        before = search.iterations
        try:
            with quiet(self.verbose):
                out = self._solver(
                    x0=x0,
                    p=np.concatenate((parameters_of(problem), rest, weights)),
                    lbx=robot.lower,
                    ubx=robot.upper,
                    lbg=self.lower_g,
                    ubg=self.upper_g,
                )
        except RuntimeError as error:
            return Claim.NUMERICAL_FAILURE, str(error).splitlines()[-1]
        finally:
            if self._watcher is not None:
                self._watcher.end()
        stats = self._solver.stats()
        word = str(stats.get("return_status", stats.get("unified_return_status", "")))
        if word.isdigit():  # fatrop tells a number only
            word = f"fatrop flag {word}"
        search.iterations = before + int(stats.get("iter_count", 0))
        search.evaluations += _calls(stats)
        x = np.asarray(out["x"]).ravel()
        if not np.isfinite(x).all():
            return Claim.NUMERICAL_FAILURE, word
        over = float(max(0.0, (robot.lower - x).max(), (x - robot.upper).max()))
        search.raw_violation = max(search.raw_violation, over)
        q = np.clip(x, robot.lower, robot.upper)
        last = search.at(q[self.residual.free], jacobian=False)
        if self.rows:
            search.prefer_last()
        return self._claim(search, search.solved(last), word), word

    def _claim(self, search: Search, solved: bool, word: str) -> Claim:
        if solved or search.found:
            return Claim.CONVERGED
        if search.deadline.expired() or word in _OUT_OF_TIME:
            return Claim.TIME_LIMIT
        if word in _OUT_OF_STEPS or search.iterations >= search.budget.iterations:
            return Claim.ITERATION_LIMIT
        if word in _STOPPED or word.startswith("fatrop flag"):
            return Claim.NO_PROGRESS
        return Claim.NUMERICAL_FAILURE


def locked_result(search: Search) -> Result | None:
    """The result where every joint is locked and there is nothing to solve for."""
    if len(search.residual.free):
        return None
    at = search.at(search.x, jacobian=False)
    return search.result(Claim.CONVERGED if search.solved(at) else Claim.NO_PROGRESS)


def posture_terms(problem: Problem, *, weight: float | None = None) -> tuple[Array, Array]:
    """q_rest and the joints' weights in one sum with the targets, both shape (n,).

    Without a posture the weights are zero.  `weight` replaces the posture's own w_post.
    """
    if problem.posture is None:
        return np.zeros(problem.robot.n), np.zeros(problem.robot.n)
    w = problem.posture.weight if weight is None else weight
    return problem.q_rest, w * problem.posture_weights


def _calls(stats: dict[str, Any]) -> int:
    return int(max((v for k, v in stats.items() if k.startswith("n_call_nlp_")), default=0))


def _watcher(n: int, parameters: int, constraints: int) -> Any:
    """Builds the iteration callback; a function, since casadi is imported only when needed."""
    import casadi as ca

    class Watcher(ca.Callback):
        def __init__(self) -> None:
            super().__init__()
            self._search: Search | None = None
            self._stop_when_solved = True
            self.construct("watch", {})

        def begin(self, search: Search, *, stop_when_solved: bool) -> None:
            self._search, self._stop_when_solved = search, stop_when_solved

        def end(self) -> None:
            self._search = None

        def get_n_in(self) -> int:
            return int(ca.nlpsol_n_out())

        def get_n_out(self) -> int:
            return 1

        def get_name_in(self, i: int) -> str:
            return str(ca.nlpsol_out(i))

        def get_sparsity_in(self, i: int) -> Any:
            rows = {"x": n, "f": 1, "g": constraints, "lam_x": n, "lam_g": constraints}
            return ca.Sparsity.dense(rows.get(ca.nlpsol_out(i), parameters), 1)

        def eval(self, arg: Any) -> list[int]:
            search = self._search
            if search is None:
                return [0]
            residual = search.residual
            x = np.asarray(arg[0]).ravel()[residual.free]
            x = np.minimum(np.maximum(x, residual.lower), residual.upper)
            at = search.at(x, jacobian=False)
            search.evaluations -= 1  # the backend's own count is added at the end
            done = self._stop_when_solved and search.solved(at)
            return [int(done or search.deadline.expired())]

    return Watcher()


@contextmanager
def quiet(verbose: bool) -> Iterator[None]:
    """Keeps C code from printing: file descriptors 1 and 2 lead nowhere meanwhile.

    The descriptors belong to the whole process, so another thread that prints at the same moment
    is silenced too; ask for `verbose` where that matters.
    """
    if verbose:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in (*saved, nowhere):
            os.close(descriptor)
