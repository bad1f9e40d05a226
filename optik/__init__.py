"""optik: inverse kinematics under joint limits, on MuJoCo."""

from __future__ import annotations

from typing import Any

from optik.api import solve
from optik.errors import OptikError
from optik.evaluation import Evaluation, evaluate
from optik.pose import Pose
from optik.problem import Budget, Posture, Problem, Target, Tolerance
from optik.problem_sets import ProblemSet, load_problem_set
from optik.result import Claim, Result, Status
from optik.robot import Robot
from optik.solution import Solution

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "Claim",
    "Evaluation",
    "OptikError",
    "Pose",
    "Posture",
    "Problem",
    "ProblemSet",
    "Result",
    "Robot",
    "Solution",
    "Status",
    "Target",
    "Tolerance",
    "evaluate",
    "load_problem_set",
    "run",
    "solve",
]


def __getattr__(name: str) -> Any:
    # `run` needs pandas, which is imported when it is asked for.
    if name == "run":
        from optik.benchmark.run import run

        return run
    raise AttributeError(f"module 'optik' has no attribute {name!r}")
