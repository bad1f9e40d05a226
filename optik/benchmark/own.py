"""A researcher's own solver, without touching the package: anything that can be judged.

    optik.run(["arm7_lesson"], ["clamped-dls", MySolver(damping=0.1), my_function])
    optik run --problems arm7_lesson --solvers clamped-dls mine.py:MySolver mine.py:my_function

A class is a subclass of `optik.Solver`.  A function takes a `Problem` and returns

    q               a configuration, shape (n,): it claims nothing
    (q, True)       a configuration and whether it claims to have reached the target
    a Result        with counts, status and message
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from optik.errors import SolverError, UnknownNameError
from optik.problem import Budget, Problem, Shape
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers import Deadline, Prepared, Solver, check_class, parse_solver

_USER_MODULE = "optik_user_"


@dataclass(frozen=True, kw_only=True)
class FunctionSolver(Solver):
    """A function of a problem, made a solver.

    Attributes:
        function: called with each problem.
        label: what tables call it; the function's name if empty.
    """

    name: ClassVar[str] = "function"
    summary: ClassVar[str] = "a function of one's own"
    family: ClassVar[str] = "own"

    function: Callable[[Problem], Any]
    label: str = ""

    def __str__(self) -> str:
        return self.label or str(getattr(self.function, "__name__", type(self.function).__name__))

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`."""

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            return _result(self.function(problem))

        return run


def as_solver(given: object) -> tuple[Solver, str]:
    """Takes whatever may stand for a solver.

    Args:
        given: a Solver, a subclass of it, a function of a problem, or a string: `NAME[:option=...]`
            or `path.py:Name[:option=...]`, where Name is any of these.

    Returns:
        The solver, and what tables call it.

    Raises:
        UnknownNameError: for a name that does not exist.
        SolverError: for anything that cannot be a solver.
    """
    if isinstance(given, Solver):
        check_class(given)
        return given, str(given)
    if isinstance(given, str):
        return _from_text(given)
    if inspect.isclass(given) and issubclass(given, Solver):
        check_class(given)
        solver = given()
        return solver, str(solver)
    if callable(given) and not inspect.isclass(given):
        solver = FunctionSolver(function=given)
        return solver, str(solver)
    raise SolverError(
        f"{given!r} cannot be a solver: give a name, an optik.Solver or a function of a Problem "
        "that returns a configuration"
    )


def seeded(solver: Solver, budget: Budget, seed: int) -> Solver:
    """The solver with the budget's restarts around it, seeded; as `optik.solve` does it."""
    if solver.restarts_itself:
        return replace(solver, seed=seed) if hasattr(solver, "seed") else solver  # type: ignore[call-arg]
    if not budget.restarts:
        return solver
    from optik.solvers.restarts import Restarts

    return Restarts(solver=solver, seed=seed)


def drawn_for_each(solver: Solver, budget: Budget) -> bool:
    """Whether the restarts are drawn around the solver, afresh for each problem."""
    from optik.solvers.restarts import Restarts

    return isinstance(solver, Restarts) or (budget.restarts > 0 and not solver.restarts_itself)


def portable(value: object) -> bytes:
    """Pickles solvers and sets so that another process can load them.

    What a script defines travels by value: the other process never imports the script.
    """
    import cloudpickle

    for name, module in list(sys.modules.items()):
        if name.startswith(_USER_MODULE):
            cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        raise SolverError(
            f"this solver cannot be sent to another process ({type(error).__name__}: {error}); "
            "keep what it holds picklable and build the rest in prepare, or run with isolate=False"
        ) from error


def _from_text(text: str) -> tuple[Solver, str]:
    head, _, rest = text.partition(":")
    if not head.endswith(".py"):
        solver = parse_solver(text)
        return solver, str(solver)
    name, _, options = rest.partition(":")
    try:
        solver = parse_solver(text)
    except UnknownNameError:
        # `parse_solver` looks for classes and instances; the file is loaded by now.
        module = sys.modules[_USER_MODULE + head.replace("\\", "/").rpartition("/")[2][:-3]]
        function = getattr(module, name, None)
        if not inspect.isfunction(function):
            raise
        if options:
            raise SolverError(f"{text}: a function has no options; make it a Solver") from None
        solver = FunctionSolver(function=function, label=f"{head}:{name}")
        return solver, str(solver)
    return solver, text


def _result(answer: Any) -> Result:
    if isinstance(answer, Result):
        return answer
    claim, message = Claim.NO_PROGRESS, "a function's answer; it claims nothing"
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], (bool, np.bool_)):
        answer, converged = answer
        if converged:
            claim, message = Claim.CONVERGED, "a function's answer, claimed to be a solution"
    return Result(
        q=np.asarray(answer, dtype=np.float64),
        status=claim,
        message=message,
        iterations=0,
        evaluations=0,
    )
