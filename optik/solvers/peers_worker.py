r"""Other people's solvers that cannot live in our environment, each in a process of its own.

A peer is a folder `studies/peers/<peer>/` with `requirements.txt` and `worker.py`.  `prepare` makes
a virtual environment from the requirements (once, kept under the user's cache folder and named
after their digest), starts the worker in it, and sends the robot as URDF; a solve is one line of
JSON each way.  A worker that dies, hangs or answers nonsense costs the row it was asked for, and is
started again for the next.

What comes back is the peer's own number, not put inside the limits, and is judged like everyone's.
A peer does not tell its forward kinematics calls: `evaluations` is 0.  Times hold the way through
the pipe, some 0.1 ms; the message holds the worker's own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optik.errors import SolverError
from optik.pose import Array, frozen, matrix_from_quaternion
from optik.problem import Budget, Problem, Shape
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers._peer_environment import peer_environment, peer_folder
from optik.solvers._peer_process import Worker, WorkerError
from optik.solvers._peers import check_shape, violation
from optik.solvers._urdf import BASE, TIP, chain_order, robot_urdf
from optik.solvers.base import Deadline, Prepared, Solver, check_positive


@dataclass(frozen=True, kw_only=True)
class Peer(Solver):
    """A solver in a worker process with its own environment.

    Attributes:
        peer: a folder of studies/peers, by name.
        options: what the worker is told, as key=value pairs separated by semicolons; see its file.
        patience: how long a worker may take for one answer before it is ended [s].
        folder: where the peers' folders are; the checkout's studies/peers if None.
    """

    name: ClassVar[str] = "peer"
    summary: ClassVar[str] = "another library's solver, in a process and environment of its own"
    family: ClassVar[str] = "peer"

    peer: str = "optik-py"
    options: str = ""
    patience: float = 60.0
    folder: str | None = None

    def __post_init__(self) -> None:
        check_positive(self.name, "patience", self.patience)
        parse_options(self.options)

    @property
    def uses_problem_cost(self) -> bool:
        """See `Solver.uses_problem_cost`; a peer's answer is never taken further."""
        return True

    def prepare(self, robot: Robot, shape: Shape, budget: Budget) -> Prepared:
        """See `Solver.prepare`; makes the environment if it is not there yet.

        Raises:
            SolverError: if there is no such peer, its environment cannot be made, its worker
                cannot take the robot, or the problem is not one full pose.
        """
        check_shape(shape, solver=self.name)
        if shape.targets[0].kind != "pose":
            raise SolverError("a peer in a worker takes full poses only")
        place = peer_folder(self.peer, self.folder)
        interpreter = peer_environment(place)
        order = chain_order(robot)
        hello = {
            "base": BASE,
            "tip": TIP,
            "joints": [robot.joint_names[i] for i in order],
            "lower": robot.lower[order].tolist(),
            "upper": robot.upper[order].tolist(),
            "options": parse_options(self.options),
            "iterations": budget.iterations,
            "seconds": budget.seconds,
            "tolerance": [1e-4, 1e-3],
        }
        worker = Worker(interpreter, place / "worker.py", robot_urdf(robot), hello, self.patience)
        worker.start()

        def run(
            problem: Problem, *, trace: bool = False, deadline: Deadline | None = None
        ) -> Result:
            deadline = Deadline(budget.seconds) if deadline is None else deadline
            target = problem.targets[0]
            assert target.quaternion is not None
            question = {
                "position": target.position.tolist(),
                "rotation": matrix_from_quaternion(target.quaternion).tolist(),
                "quaternion": target.quaternion.tolist(),
                "q0": problem.q_start[order].tolist(),
            }
            try:
                answer = worker.ask(question, deadline.remaining())
            except WorkerError as error:
                return _result(problem, None, error.claim, str(error), trace)
            if "error" in answer:
                return _result(problem, None, Claim.NUMERICAL_FAILURE, answer["error"], trace)
            found = answer.get("q")
            q = None
            if found is not None:
                q = np.empty(robot.n)
                q[order] = found
                if not np.isfinite(q).all():
                    return _result(
                        problem, None, Claim.NUMERICAL_FAILURE, "the answer is not finite", trace
                    )
            claim = Claim.CONVERGED if answer.get("converged") else Claim.NO_PROGRESS
            message = answer.get("message") or claim.sentence
            return _result(
                problem,
                q,
                claim,
                f"{message} ({1e3 * float(answer['seconds']):.3f} ms in the worker)",
                trace,
                iterations=int(answer.get("iterations", 0)),
            )

        return run


def parse_options(text: str) -> dict[str, str]:
    """Turns `key=value;key=value` into a mapping; `false` and `0` count as not given."""
    options: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise SolverError(f"peer: write options=key=value;key=value, got {part!r}")
        if value.strip().lower() not in ("false", "0", ""):
            options[key.strip()] = value.strip()
    return options


def _result(
    problem: Problem,
    q: Array | None,
    claim: Claim,
    message: str,
    trace: bool,
    *,
    iterations: int = 0,
) -> Result:
    robot = problem.robot
    q = np.array(problem.q_start) if q is None else q
    return Result(
        q=frozen(q),
        status=claim,
        message=message,
        iterations=iterations,
        evaluations=0,
        trace=frozen(np.array([problem.q_start, q])) if trace else None,
        raw_violation=violation(robot.lower, robot.upper, q),
    )
