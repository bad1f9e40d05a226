"""The compiled solver as it is used: numbers in, one call of the kernel, the claim out.

What box-lm does stands in box_lm.py, the kernels in optik/compiled; here problems become the arrays
that a kernel reads, and its codes become claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optik.compiled.layout import CODE_BITS, STEP_BITS, unpacked
from optik.errors import SolverError
from optik.evaluation import evaluate
from optik.pose import Array, frozen
from optik.problem import Budget, Problem, Tolerance
from optik.result import Claim, Result
from optik.solvers.base import Deadline

if TYPE_CHECKING:
    from optik.compiled.core import Core
    from optik.solvers.box_lm import BoxLM

_POSTURE_STEPS = 60
_CODE = (1 << CODE_BITS) - 1
MOST_STEPS = (1 << (STEP_BITS - 1)) - 1  # what the count of steps in a word has room for
_PIECE = 64  # starts between two looks at the clock: under a millisecond
_AT_ONCE = 200_000  # steps in one call of the kernel, which nothing interrupts: under a second


class PreparedBoxLM:
    """A compiled solver for one robot and problem shape; for one thread.

    Attributes:
        solver: the options.
        core: the kernels and the numbers that they read, which threads share.
        budget: what a solve may take.
    """

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
        # All that a raw call needs, at one look.
        self._raw = (
            self._kernel, self._default, self._code, self._values, self._no_trace, self._fixed,
            self._last, self._steps,
        )  # fmt: skip

    def __call__(
        self, problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
    ) -> Result:
        """Solves one problem; see `optik.solvers.base.Prepared`."""
        if deadline is None and self.budget.seconds is not None:
            deadline = Deadline(self.budget.seconds)
        numbers = self._numbers(problem)
        q = np.empty(self.core.robot.n)
        paths: list[Array] = []
        if deadline is None and self._steps <= _AT_ONCE:
            path = np.empty((2 * self._steps + 2, self.core.robot.n)) if trace else self._no_trace
            claim, steps, starts = self._search(numbers, problem.q_init, q, path, 0, self._last)
            visited = steps + starts + 1
            paths.append(path[:visited])
        else:
            claim, steps, starts, visited = self._slices(
                numbers, problem.q_start, q, paths if trace else None, deadline or Deadline(None)
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
                paths.append(q[None])
        q.setflags(write=False)
        return Result(
            q=q,
            status=claim,
            message=claim.sentence,
            iterations=steps,
            evaluations=visited,
            restarts=starts,
            trace=frozen(np.concatenate(paths)) if trace else None,
        )

    def solve_into(
        self,
        position: Array,
        quaternion: Array | None,
        q_init: Array,
        q_out: Array,
    ) -> int:
        """Solves for one target on raw arrays; only their lengths are checked.

        Tolerance and weights are the default ones, the solver's `rotation_weight` apart; the
        budget's `seconds` are not asked for, and there is no posture.

        Args:
            position: shape (3,) [m].
            quaternion: shape (4,) wxyz for a pose target; shape (6,), body axis then world axis,
                for an axis target; ignored for a position target.
            q_init: start, shape (n,) [rad or m]; moved into the limits.
            q_out: the answer is written here, shape (n,) float64, C-contiguous.

        Returns:
            0 solved within `Tolerance()`; 1 no progress from any start; 2 out of iterations;
            3 numerical failure.

        Raises:
            SolverError: for numbers of the wrong count, or a `q_out` that is no such array.
        """
        if quaternion is None:
            quaternion = self._rotations
        kernel, asked, word, values, path, fixed, last, steps = self._raw
        try:
            kernel(
                position, quaternion, asked, q_init, q_out, word, values, path, fixed, 0, last,
                steps,
            )  # fmt: skip
        except TypeError:  # lists, other number types, strided arrays
            self._solve_copied(position, quaternion, q_init, q_out)
        except ValueError as error:
            raise self._misfit() from error
        return int(word[0]) & _CODE

    def _solve_copied(self, position: Any, rotation: Any, q_init: Any, q_out: Array) -> None:
        """The same on copies that the kernel can read."""
        fits = isinstance(q_out, np.ndarray) and q_out.shape == self._q.shape
        if not fits or q_out.dtype != np.float64:
            raise self._misfit()
        try:
            arrays = [
                np.array(a, dtype=np.float64).reshape(-1) for a in (position, rotation, q_init)
            ]
            self._kernel(
                *arrays[:2], self._default, arrays[2], self._q, self._code, self._values,
                self._no_trace, self._fixed, 0, self._last, self._steps,
            )  # fmt: skip
        except (TypeError, ValueError) as error:
            raise self._misfit() from error
        q_out[:] = self._q

    def _misfit(self) -> SolverError:
        n, many, width = len(self._q), self._many, self._width
        rotation = f"quaternion of {many * width} numbers, " if width else ""
        return SolverError(
            f"{self.solver.name}: solve_into needs a position of {3 * many} numbers, {rotation}a "
            f"q_init of {n} and a float64 q_out of shape ({n},)"
        )

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
        """Starts `first` to `last`: the claim, its steps, and the starts after the first."""
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
        code, taken, starts = unpacked(int(self._code[0]))
        return _CLAIMS[code], taken, starts

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
        # Meeting the targets exactly may cost more of the posture than there was to gain.
        rest = problem.q_rest
        if squares @ (relaxed - rest) ** 2 >= squares @ (q - rest) ** 2:
            relaxed = q.copy()
        return relaxed, int(values[1]), int(count)

    def _slices(
        self,
        numbers: tuple[Array, Array, Array],
        start: Array,
        q: Array,
        paths: list[Array] | None,
        deadline: Deadline,
    ) -> tuple[Claim, int, int, int]:
        """A few starts after another, with a look at the clock, and for Ctrl-C, in between.

        A path is taken by a second, equal search, once its length is known: room for the longest
        may be more than there is.
        """
        best_cost = np.inf
        steps = number = visited = 0
        piece = 1
        trial = np.empty_like(q)
        while True:
            left = min(self._steps - steps, MOST_STEPS)
            piece = min(piece, _PIECE, self._last - number)
            search, numbered = (numbers, start, trial), (number, number + piece, left)
            claim, used, starts = self._search(*search, self._no_trace, *numbered)
            if paths is not None:
                paths.append(np.empty((used + starts + 1, len(q))))
                self._search(*search, paths[-1], *numbered)
            steps += used
            visited += used + starts + 1
            if self._values[0] < best_cost or claim is Claim.CONVERGED or number == 0:
                q[:] = trial
                best_cost = float(self._values[0])
            number += starts
            over = claim not in (Claim.NO_PROGRESS, Claim.NUMERICAL_FAILURE)
            if over or number + 1 >= self._last:
                return claim, steps, number, visited
            if deadline.expired():
                return Claim.TIME_LIMIT, steps, number, visited
            number += 1
            piece = number  # twice as many as so far: each piece looks through the table anew


_TOLERANCE = Tolerance()
_CLAIMS: dict[int, Claim] = {
    0: Claim.CONVERGED,
    1: Claim.NO_PROGRESS,
    2: Claim.ITERATION_LIMIT,
    3: Claim.NUMERICAL_FAILURE,
}
