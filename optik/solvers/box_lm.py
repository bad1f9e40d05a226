r"""Bounded Levenberg-Marquardt, compiled: the solver that `solve` uses when none is named.

The idea.  Linearise the targets and take the step that solves, exactly,

    minimise over d    1/2 |J d - e|^2 + 1/2 mu |d|^2
    subject to         lower - q <= d <= upper - q,   |d_i| <= step_limit

A joint that meets its limit inside the step hands its share to the others, so that the method does
not stall where clamping does.  Three things make it robust: damping in proportion to the error,
mu = damping cost + damping_floor (Yamashita and Fukushima 2001), which is strong far away and gone
at the target; a cap on every joint's step, which keeps the linearisation honest without shrinking
the whole step; and the chordal rotation residual with its exact Jacobian, weighted with about
0.1 m/rad so that a turn of the hand does not outweigh the way to the target.  Steps are taken
whole.

The step.  `method="exact"` solves the box QP by projected Newton to 1e-11; `method="projected"` is
the two-metric projection (Bertsekas 1982): joints pushed against their limits are held, the others
take one Newton step, and the result is clipped.  It costs one factorisation and loses some targets.

Starts.  With `starts="table"` a start whose cost has not fallen by the factor `fall` within
`patience` iterations, or that has had `start_steps` of them, is given up; after the given start
come solved, well-centred configurations from a table (nearest in pose first), mid-range, and
quasi-random ones.  The answer then lies on the branch of whichever start got there first: the
branch that the given start leads to if it leads to one, else that of the nearest table row that
does, which may be far from `q_init`.  With `starts="given"` there is only the given start, nothing
is given up, and the answer is always on the branch that it leads to.

The posture, when one is asked for, is a second phase from the solution found: the targets become
equalities and |W (q - q_rest)| is lowered as far as they and the limits allow
(optik/compiled/posture.py).  It stays on the solution's branch.

Stopping.  Within tolerance; `iterations * (1 + restarts)` steps for all starts together (starts
from the table are part of the method and are not counted against `restarts`); the time limit; no
step left that moves a joint.

The compiled kernels stand in optik/compiled; this file checks options and keeps the contract.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from optik.errors import SolverError
from optik.evaluation import evaluate
from optik.pose import Array, frozen
from optik.problem import Budget, Problem, Shape, Tolerance
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers.base import Deadline, Solver, check_choice, check_positive

if TYPE_CHECKING:
    from optik.compiled.core import Core

_FOLDED_JOINTS = 16
_POSTURE_STEPS = 60
_KEPT = 32
_LOCK = threading.Lock()
_CORES: OrderedDict[tuple[BoxLM, int, Shape], Core] = OrderedDict()


@dataclass(frozen=True, kw_only=True)
class BoxLM(Solver):
    """Exact box-constrained Levenberg-Marquardt steps from a table of starts, compiled by Numba.

    Attributes:
        damping: share of the cost that becomes damping [1/m^2 per m^2].
        damping_floor: damping left at the target.
        step_limit: largest step of one joint [rad or m].
        rotation_weight: w_r inside the solver [m/rad]; each target's own if None.
        residual: "chordal" (differences of the frame's axes) or "log" (rotation vector).
        method: "exact" box QP or "projected" (two-metric projection).
        starts: "table" or "given"; says which branch the answer lies on, see above.
        table_size: rows of the start table; 0 for none.
        fall: factor by which the cost must fall ...
        patience: ... within this many iterations, or the start is given up.
        start_steps: largest number of iterations from one start.
        seed: shifts the sequence of quasi-random starts.
        kernel: "folded" has the chain's constants in the code, "general" reads them; "auto" folds
            chains of up to 16 joints.
    """

    name: ClassVar[str] = "box-lm"
    summary: ClassVar[str] = "exact box-constrained LM steps, start table, compiled: the default"
    family: ClassVar[str] = "compiled"
    reference: ClassVar[str] = "Bertsekas 1982; Yamashita and Fukushima 2001"
    restarts_itself: ClassVar[bool] = True

    damping: float = 0.6
    damping_floor: float = 1e-6
    step_limit: float = 0.8
    rotation_weight: float | None = 0.1
    residual: Literal["chordal", "log"] = "chordal"
    method: Literal["exact", "projected"] = "exact"
    starts: Literal["table", "given"] = "table"
    table_size: int = 1000
    fall: float = 0.7
    patience: int = 2
    start_steps: int = 25
    seed: int = 0
    kernel: Literal["auto", "folded", "general"] = "auto"

    def __post_init__(self) -> None:
        check_positive(self.name, "damping", self.damping, zero=True)
        check_positive(self.name, "damping_floor", self.damping_floor)
        check_positive(self.name, "step_limit", self.step_limit)
        check_positive(self.name, "rotation_weight", self.rotation_weight)
        check_choice(self.name, "residual", self.residual, ("chordal", "log"))
        check_choice(self.name, "method", self.method, ("exact", "projected"))
        check_choice(self.name, "starts", self.starts, ("table", "given"))
        check_choice(self.name, "kernel", self.kernel, ("auto", "folded", "general"))
        if not 0.0 < self.fall < 1.0:
            raise SolverError(f"{self.name}: fall must lie between 0 and 1, got {self.fall!r}")
        for option, least in (("patience", 1), ("start_steps", 1), ("table_size", 0), ("seed", 0)):
            value = getattr(self, option)
            if not isinstance(value, int) or value < least:
                raise SolverError(
                    f"{self.name}: {option} must be a whole number from {least}, got {value!r}"
                )

    @property
    def uses_problem_cost(self) -> bool:
        """Whether the steps minimise the problem's own cost (log residual, targets' weights)."""
        return self.residual == "log" and self.rotation_weight is None

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> PreparedBoxLM:
        """Compiles the kernels, or loads them from the cache, and makes the start table."""
        return PreparedBoxLM(self, self.core(robot, shape), budget)

    def asked(self, problem: Problem, *, rotation_weight: float | None = None) -> Array:
        """Tolerances and weights as the kernels read them, shape (2 + 2 targets,)."""
        from optik.compiled.core import tolerances

        numbers = [*tolerances(problem.tolerance.position, problem.tolerance.rotation)]
        own = self.rotation_weight if rotation_weight is None else rotation_weight
        for t in problem.targets:
            numbers += [t.position_weight, t.rotation_weight if own is None else own]
        return np.array(numbers)

    def core(self, robot: Robot, shape: Shape) -> Core:
        """The compiled search for a robot and a problem shape; built once, shared by threads."""
        key = (self, id(robot), shape)
        with _LOCK:
            core = _CORES.get(key)
            if core is None or core.robot is not robot:
                core = _CORES[key] = self._build(robot, shape)
                if len(_CORES) > _KEPT:
                    _CORES.popitem(last=False)
        return core

    def _build(self, robot: Robot, shape: Shape) -> Core:
        from optik.compiled.core import Core, Settings

        settings = Settings(
            damping=self.damping,
            damping_floor=self.damping_floor,
            step_limit=self.step_limit,
            fall=self.fall,
            patience=self.patience,
            start_steps=self.start_steps,
            table_size=self.table_size,
            seed=self.seed,
            projected=self.method == "projected",
            log=self.residual == "log",
            patient=self.starts == "given",
        )
        folded = self.kernel == "folded" or (self.kernel == "auto" and robot.n <= _FOLDED_JOINTS)
        return Core(robot, shape, settings, folded=folded)


class PreparedBoxLM:
    """A compiled solver for one robot and problem shape; for one thread."""

    def __init__(self, solver: BoxLM, core: Core, budget: Budget) -> None:
        from optik.compiled.core import rotation_numbers, rotation_width, tolerances

        self.solver = solver
        self.core = core
        self.budget = budget
        self._rotation_numbers = rotation_numbers
        self._steps = budget.iterations * (1 + budget.restarts)
        # A start may end without a step, so that starts are counted too.
        self._last = 1 if solver.starts == "given" else self._steps + 1
        self._many = len(core.shape.targets)
        self._width = rotation_width(core.shape)
        self._rotations = np.zeros(self._width * self._many)
        self._q = np.empty(core.robot.n)
        self._code = np.empty(1, dtype=np.int64)
        self._values = np.empty(3)
        self._no_trace = np.empty((0, core.robot.n))
        self._kernel = core.kernel
        if core.shape.posture:
            _ = core.relax_kernel  # compiled now, not inside the first solve
        self._fixed = core.fixed
        # What solve_into asks for: the default tolerance and weights.
        self._default = np.ones(2 + 2 * self._many)
        self._default[:2] = tolerances(Tolerance().position, Tolerance().rotation)
        if solver.rotation_weight is not None:
            self._default[3::2] = solver.rotation_weight

    def __call__(
        self, problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
    ) -> Result:
        """Solves one problem; see `optik.solvers.base.Prepared`."""
        if deadline is None and self.budget.seconds is not None:
            deadline = Deadline(self.budget.seconds)
        path = np.empty((2 * self._steps + 2, self.core.robot.n)) if trace else self._no_trace
        numbers = self._numbers(problem)
        q = np.empty(self.core.robot.n)
        if deadline is None:
            claim, steps, starts = self._search(numbers, problem.q_init, q, path, 0, self._last)
            visited = steps + starts + 1
        else:
            claim, steps, starts, visited = self._slices(
                numbers, problem.q_start, q, path, deadline
            )
        if claim is not Claim.CONVERGED and not self.solver.uses_problem_cost:
            # The cost inside is another one: by the problem's own the start may be the better.
            start = problem.q_start
            q = start if evaluate(problem, start).cost < evaluate(problem, q).cost else q
        if problem.posture is not None and claim is Claim.CONVERGED:
            left = self._steps - steps
            relaxed, more, extra = self._relax(problem, numbers, q, left)
            steps, visited = steps + more, visited + extra
            if evaluate(problem, relaxed).solved:
                q = relaxed
        q.setflags(write=False)
        return Result(
            q=q,
            status=claim,
            message=claim.sentence,
            iterations=steps,
            evaluations=visited,
            restarts=starts,
            trace=frozen(path[: min(visited, len(path))]) if trace else None,
        )

    def solve_into(
        self,
        position: Array,
        quaternion: Array | None,
        q_init: Array,
        q_out: Array,
    ) -> int:
        """Solves for one target on raw arrays, with nothing checked and nothing allocated.

        Args:
            position: shape (3,) [m].
            quaternion: shape (4,) wxyz for a pose target; shape (6,), body axis then world axis,
                for an axis target; ignored for a position target.
            q_init: start, shape (n,) [rad or m]; moved into the limits.
            q_out: the answer is written here, shape (n,) float64, C-contiguous.

        Returns:
            0 solved within `Tolerance()`; 1 no progress from any start; 2 out of iterations;
            3 numerical failure.
        """
        if quaternion is None:
            quaternion = self._rotations
        word = self._code
        try:
            self._kernel(
                position, quaternion, self._default, q_init, q_out, word, self._values,
                self._no_trace, self._fixed, 0, self._last, self._steps,
            )  # fmt: skip
        except TypeError:
            self._solve_converted(position, quaternion, q_init, q_out)
        return int(word[0]) & 15

    def _solve_converted(self, position: Any, rotation: Any, q_init: Any, q_out: Array) -> None:
        """The same for lists, other number types and strided arrays."""
        if not isinstance(q_out, np.ndarray) or q_out.shape != self._q.shape:
            raise SolverError(
                f"{self.solver.name}: q_out must be a float64 array of shape {self._q.shape}"
            )
        arrays = [np.array(a, dtype=np.float64).reshape(-1) for a in (position, rotation, q_init)]
        self._kernel(
            *arrays[:2], self._default, arrays[2], self._q, self._code, self._values,
            self._no_trace, self._fixed, 0, self._last, self._steps,
        )  # fmt: skip
        q_out[:] = self._q

    def _numbers(self, problem: Problem) -> tuple[Array, Array, Array]:
        """Positions, rotations and what is asked, as the kernel reads them."""
        targets = problem.targets
        if len(targets) == 1 and problem.tolerance == _TOLERANCE:
            t = targets[0]
            own = self.solver.rotation_weight is None and t.rotation_weight != 1.0
            if t.quaternion is not None and t.position_weight == 1.0 and not own:
                return t.position, t.quaternion, self._default
        rotations = [self._rotation_numbers(t, self._width) for t in targets]
        return (
            np.concatenate([t.position for t in targets]),
            np.concatenate(rotations),
            self.solver.asked(problem),
        )

    def _search(
        self,
        numbers: tuple[Array, Array, Array],
        start: Array,
        q: Array,
        path: Array,
        first: int,
        last: int,
        steps: int | None = None,
    ) -> tuple[Claim, int, int]:
        self._kernel(
            *numbers,
            start,
            q,
            self._code,
            self._values,
            path,
            self._fixed,
            first,
            last,
            self._steps if steps is None else steps,
        )
        word = int(self._code[0])
        return _CLAIMS[word & 15], (word >> 4) & ((1 << 30) - 1), word >> 34

    def relaxed(self, problem: Problem, q: Array) -> Array:
        """The posture phase alone, from a solution q, shape (n,); q where it gains nothing."""
        return self._relax(problem, self._numbers(problem), q, _POSTURE_STEPS)[0]

    def _relax(
        self, problem: Problem, numbers: tuple[Array, Array, Array], q: Array, left: int
    ) -> tuple[Array, int, int]:
        """The posture phase from a solution: the configuration, its steps, its evaluations."""
        asked = numbers[2].copy()
        # The targets are constraints here: metres and radians count the same.
        asked[2:] = 1.0
        relaxed, values = q.copy(), np.zeros(2)
        squares = np.ascontiguousarray(problem.posture_weights**2)
        steps = max(0, min(_POSTURE_STEPS, left))
        count = self.core.relax_kernel(
            *numbers[:2], asked, problem.q_rest, squares, relaxed, values, self._fixed, steps
        )
        return relaxed, int(values[1]), int(count)

    def _slices(
        self,
        numbers: tuple[Array, Array, Array],
        start: Array,
        q: Array,
        path: Array,
        deadline: Deadline,
    ) -> tuple[Claim, int, int, int]:
        """One start after another, with a look at the clock in between."""
        best_cost = np.inf
        steps = number = visited = 0
        trial = np.empty_like(q)
        while True:
            claim, used, _ = self._search(
                numbers, start, trial, path[visited:], number, number + 1, self._steps - steps
            )
            steps += used
            visited += used + 1
            if self._values[0] < best_cost or claim is Claim.CONVERGED or number == 0:
                q[:] = trial
                best_cost = float(self._values[0])
            if claim is not Claim.NO_PROGRESS or number + 1 >= self._last:
                return claim, steps, number, visited
            if deadline.expired():
                return Claim.TIME_LIMIT, steps, number, visited
            number += 1


_TOLERANCE = Tolerance()
_CLAIMS: dict[int, Claim] = {
    0: Claim.CONVERGED,
    1: Claim.NO_PROGRESS,
    2: Claim.ITERATION_LIMIT,
    3: Claim.NUMERICAL_FAILURE,
}
