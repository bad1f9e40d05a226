"""optik: inverse kinematics under joint limits, on MuJoCo.

>>> import optik
>>> robot = optik.Robot.load("arm7")
>>> problem = optik.Problem(robot, optik.Target([0.4, 0.1, 0.9]))
>>> solution = optik.solve(problem)
>>> solution.success
True

`solution.q` is the configuration, `solution.status` the outcome in a word, `solution.message` the
reason in a sentence.  `help` tells each part: `Robot.load` (a model of one's own), `Target`
(position, orientation, axis, mask, frame), `Problem` (start, posture, tolerance), `Budget`
(iterations, seconds, restarts), `Solution`, `Solver` (a method of one's own), `solve_batch` (many
targets), `run` (the bench).  Wrong input raises an `OptikError`; a target that is not reached
raises nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optik import solvers
    from optik.api import diagnose, solve
    from optik.batch import Batch, solve_batch
    from optik.benchmark.run import run
    from optik.diagnosis import Certificate, Diagnosis
    from optik.errors import OptikError
    from optik.evaluation import Evaluation, evaluate
    from optik.pose import Pose
    from optik.problem import Budget, Posture, Problem, Target, Tolerance
    from optik.problem_sets import ProblemSet, load_problem_set
    from optik.result import Claim, Result, Status
    from optik.robot import Robot
    from optik.solution import Solution
    from optik.solvers import Solver

__version__ = "0.1.0"

# Every public name and the module it lives in.  Each is imported when it is first asked for, so
# that `import optik` and `optik --help` cost nothing and pandas is loaded by `run` alone.
_PUBLIC = {
    "Batch": "optik.batch",
    "Budget": "optik.problem",
    "Certificate": "optik.diagnosis",
    "Claim": "optik.result",
    "Diagnosis": "optik.diagnosis",
    "Evaluation": "optik.evaluation",
    "OptikError": "optik.errors",
    "Pose": "optik.pose",
    "Posture": "optik.problem",
    "Problem": "optik.problem",
    "ProblemSet": "optik.problem_sets",
    "Result": "optik.result",
    "Robot": "optik.robot",
    "Solution": "optik.solution",
    "Solver": "optik.solvers",
    "Status": "optik.result",
    "Target": "optik.problem",
    "Tolerance": "optik.problem",
    "diagnose": "optik.api",
    "evaluate": "optik.evaluation",
    "load_problem_set": "optik.problem_sets",
    "run": "optik.benchmark.run",
    "solve": "optik.api",
    "solve_batch": "optik.batch",
    "solvers": "optik.solvers",
}

__all__ = [
    "Batch",
    "Budget",
    "Certificate",
    "Claim",
    "Diagnosis",
    "Evaluation",
    "OptikError",
    "Pose",
    "Posture",
    "Problem",
    "ProblemSet",
    "Result",
    "Robot",
    "Solution",
    "Solver",
    "Status",
    "Target",
    "Tolerance",
    "diagnose",
    "evaluate",
    "load_problem_set",
    "run",
    "solve",
    "solve_batch",
    "solvers",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(  # name= and obj= let Python say "Did you mean"
            f"module 'optik' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    module = importlib.import_module(_PUBLIC[name])
    value = module if module.__name__ == f"optik.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
