r"""Bounded Levenberg-Marquardt, compiled: the solver that `solve` uses when none is named.

The idea.  Linearise the targets and take the step that solves, exactly,

    minimise over d    1/2 |J d - e|^2 + 1/2 mu |d|^2
    subject to         lower - q <= d <= upper - q,   |d_i| <= step_limit

with J and e weighted by w_p and w_r.  A joint that meets its limit inside the step hands its share
to the others, so that the method does not stall where clamping does.  Three things make it robust:
damping in proportion to the error, mu = damping * cost + damping_floor (Yamashita and Fukushima
2001), which is strong far away and all but gone at the target; a cap on every joint's step, which
keeps the linearisation honest without shrinking the whole step; and the chordal rotation residual
with its exact Jacobian, weighted with `rotation_weight`, 0.12 m/rad, so that a turn of the hand
does not outweigh the way to the target.  Steps are taken whole.

The step.  `method="exact"` takes the Newton step where it stays inside the box, and solves the box
QP by a primal active-set method (Nocedal and Wright 2006, section 16.5) to 1e-11 where it does not.
`method="projected"` is the two-metric projection (Bertsekas 1982), for comparison: joints pushed
against their limits are held, the others take one Newton step, and the result is clipped.  It loses
some targets, and a batch of it is worked on one target at a time.

Starts.  With `starts="table"` a start whose cost has not fallen by the factor `fall` within
`patience` iterations, or that has had `start_steps` of them, is given up; after the given start
come solved, well-centred configurations from a table (nearest in pose first, those close to a
failed one passed over), mid-range, and quasi-random ones.  The answer then lies on the branch of
whichever start got there first: the branch that the given start leads to if it leads to one, else
that of the nearest table row that does, which may be far from `q_init`.  With `starts="given"`
there is only the given start, nothing is given up, and the answer is always on the branch that it
leads to; restarts in the budget are then further steps.

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
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from optik.errors import SolverError
from optik.pose import Array
from optik.problem import Budget, Problem, Shape
from optik.robot import Robot
from optik.solvers._prepared_box_lm import PreparedBoxLM
from optik.solvers.base import Solver, check_choice, check_positive

if TYPE_CHECKING:
    from optik.compiled.core import Core

_FOLDED_JOINTS = 16  # joints up to which kernel="auto" folds
_KEPT = 32  # compiled solvers kept in memory, the oldest dropped first
_MOST_ROWS = 100_000  # of the start table: some ten times as many numbers
_LOCK = threading.Lock()
_CORES: OrderedDict[tuple[BoxLM, int, Shape], Core] = OrderedDict()


@dataclass(frozen=True, kw_only=True)
class BoxLM(Solver):
    """Exact box-constrained Levenberg-Marquardt steps from a table of starts, compiled by Numba.

    Attributes:
        damping: how much damping a unit of cost makes [1/rad^2]; None for 0.4, quick where another
            start may follow, or 0.6 with starts="given".
        damping_floor: damping left at the target [m^2/rad^2].
        step_limit: largest step of one joint [rad or m]; None for 0.8, or 0.3 with starts="given".
        rotation_weight: w_r for every target inside the solver [m/rad]; each target's own if None.
        residual: rotation residual, "chordal" (differences of the frame's axes) or "log" (rotation
            vector).
        method: how the step is made: "exact" box QP or "projected" (two-metric projection).
        starts: "table" (the given one, then others until one arrives) or "given" (that one alone,
            so that the answer is on its branch; the next six options then mean nothing).
        table_size: rows of the start table; 0 for none [1].
        fall: a start is given up unless its cost falls to this share of itself within `patience`
            iterations [1].
        patience: see `fall` [1].
        start_steps: largest number of iterations from one start [1].
        apart: table rows within this distance of a failed one are passed over, root mean square of
            the joints' distances in shares of their ranges [1]; 0 for none.
        seed: shifts the sequence of quasi-random starts.
        kernel: "folded" has the chain's constants in the code, "general" reads them; "auto" folds
            chains of up to 16 joints.
    """

    name: ClassVar[str] = "box-lm"
    summary: ClassVar[str] = "exact box-constrained LM steps, start table, compiled: the default"
    family: ClassVar[str] = "compiled"
    reference: ClassVar[str] = "Yamashita and Fukushima 2001; Nocedal and Wright 2006"
    restarts_itself: ClassVar[bool] = True

    damping: float | None = None
    damping_floor: float = 1e-6
    step_limit: float | None = None
    rotation_weight: float | None = 0.12
    residual: Literal["chordal", "log"] = "chordal"
    method: Literal["exact", "projected"] = "exact"
    starts: Literal["table", "given"] = "table"
    table_size: int = 1000
    fall: float = 0.7
    patience: int = 2
    start_steps: int = 25
    apart: float = 0.15
    seed: int = 0
    kernel: Literal["auto", "folded", "general"] = "auto"

    def __post_init__(self) -> None:
        check_positive(self.name, "damping", self.damping, zero=True)
        check_positive(self.name, "damping_floor", self.damping_floor)
        check_positive(self.name, "step_limit", self.step_limit)
        check_positive(self.name, "rotation_weight", self.rotation_weight)
        check_positive(self.name, "apart", self.apart, zero=True)
        check_choice(self.name, "residual", self.residual, ("chordal", "log"))
        check_choice(self.name, "method", self.method, ("exact", "projected"))
        check_choice(self.name, "starts", self.starts, ("table", "given"))
        check_choice(self.name, "kernel", self.kernel, ("auto", "folded", "general"))
        if not 0.0 < self.fall < 1.0:
            raise SolverError(f"{self.name}: fall must lie between 0 and 1, got {self.fall!r}")
        for option, least in (("patience", 1), ("start_steps", 1), ("table_size", 0), ("seed", 0)):
            value = getattr(self, option)
            if value < least or (value > _MOST_ROWS and option == "table_size"):
                raise SolverError(
                    f"{self.name}: {option} must be a whole number from {least}"
                    f"{f' to {_MOST_ROWS}' * (option == 'table_size')}, got {value!r}"
                )

    @property
    def uses_problem_cost(self) -> bool:
        """Whether the steps minimise the problem's own cost (log residual, targets' weights)."""
        return self.residual == "log" and self.rotation_weight is None

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> PreparedBoxLM:
        """Compiles the kernels, or loads them from the cache, and makes the start table."""
        return PreparedBoxLM(self, self.core(robot, shape), budget)

    def asked(self, problem: Problem, *, rotation_weight: float | None = None) -> Array:
        """Tolerances and weights as the kernels read them, shape (2 + 2 targets,).

        Args:
            problem: the problem.
            rotation_weight: w_r for every target [m/rad]; the solver's, or each target's own, if
                None.
        """
        from optik.compiled.core import tolerances

        numbers = [*tolerances(problem.tolerance.position, problem.tolerance.rotation)]
        own = self.rotation_weight if rotation_weight is None else rotation_weight
        for t in problem.targets:
            numbers += [t.position_weight, t.rotation_weight if own is None else own]
        return np.array(numbers)

    def core(self, robot: Robot, shape: Shape) -> Core:
        """The compiled solver for a robot and a problem shape; built once, shared by threads."""
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

        alone = self.starts == "given"
        settings = Settings(
            damping=self.damping if self.damping is not None else 0.6 if alone else 0.4,
            damping_floor=self.damping_floor,
            step_limit=self.step_limit if self.step_limit is not None else 0.3 if alone else 0.8,
            fall=self.fall,
            patience=self.patience,
            start_steps=self.start_steps,
            table_size=self.table_size,
            apart=self.apart,
            seed=self.seed,
            projected=self.method == "projected",
            log=self.residual == "log",
            patient=alone,
        )
        folded = self.kernel == "folded" or (self.kernel == "auto" and robot.n <= _FOLDED_JOINTS)
        return Core(robot, shape, settings, folded=folded)
