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

import hashlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

import optik.data
from optik.errors import SolverError, unknown_name
from optik.pose import Array, frozen, matrix_from_quaternion
from optik.problem import Budget, Problem, Shape
from optik.result import Claim, Result
from optik.robot import Robot
from optik.solvers._peers import check_shape, violation
from optik.solvers._urdf import BASE, TIP, chain_order, robot_urdf
from optik.solvers.base import Deadline, Prepared, Solver, check_positive

ENVIRONMENT_VARIABLE = "OPTIK_PEERS"


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


class WorkerError(RuntimeError):
    """A worker that gave no answer.

    Attributes:
        claim: what that makes of the solve.
    """

    def __init__(self, message: str, claim: Claim = Claim.NUMERICAL_FAILURE) -> None:
        super().__init__(message)
        self.claim = claim


class Worker:
    """One worker process, started again when it has died; for one thread."""

    def __init__(
        self,
        interpreter: Path,
        script: Path,
        urdf: str,
        hello: Mapping[str, Any],
        patience: float,
    ) -> None:
        self._command = [str(interpreter), "-u", str(script)]
        self._folder = Path(tempfile.mkdtemp(prefix="optik-peer-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / "robot.urdf"
        path.write_text(urdf)
        self._log = self._folder / "stderr.txt"
        self._hello = {"urdf": str(path), **hello}
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def start(self) -> None:
        """Starts the process and hands it the robot.

        Raises:
            SolverError: with what the worker said, if it cannot take the robot.
        """
        self.stop()
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTHONPATH", None)  # our module has the same name as a peer's
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env=environment,
            )
        self._process, self._rest = process, b""
        self._end = weakref.finalize(self, _end_process, process)
        try:
            answer = self._exchange(self._hello, self._patience)
        except WorkerError as error:
            raise SolverError(f"{self._command[-1]}: {error}; {self._last_words()}") from None
        if not answer.get("ready"):
            self.stop()
            raise SolverError(f"{self._command[-1]}: {answer.get('error', answer)}")

    def ask(self, question: Mapping[str, Any], seconds: float | None) -> dict[str, Any]:
        """Sends one problem and waits for the answer.

        Args:
            question: what the worker needs.
            seconds: time left for the solve; only the worker's patience counts if None.

        Raises:
            WorkerError: if the worker died, hung or answered nonsense; it is ended.
        """
        if self._process is None:
            try:
                self.start()
            except SolverError as error:
                raise WorkerError(str(error)) from None
        # A worker that keeps its own time limit gets a second to say so.
        wait = self._patience if seconds is None else min(self._patience, seconds + 1.0)
        return self._exchange(question, wait)

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._end()
            self._process = None

    def _exchange(self, what: Mapping[str, Any], wait: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(what).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(process.stdout, wait)
        except OSError:
            line = b""
        if line is None:
            self.stop()
            raise WorkerError(
                f"no answer within {wait:g} s; the worker was ended", Claim.TIME_LIMIT
            )
        if not line:
            process.wait()
            code = process.returncode
            self.stop()
            raise WorkerError(f"the worker died with code {code}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.stop()
            raise WorkerError(f"the worker answered {line[:80]!r}")
        return answer

    def _read_line(self, pipe: IO[bytes], wait: float) -> bytes | None:
        """One line; empty when the process has closed its end, None when the time is up."""
        deadline = Deadline(wait)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(deadline.remaining()):
                    return None
                chunk = os.read(pipe.fileno(), 65536)
                if not chunk:
                    return b""
                self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # unsent input of a dead process
                pipe.close()


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


def peer_folder(peer: str, folder: str | None = None) -> Path:
    """The folder of a peer: requirements and worker.

    Raises:
        SolverError: if there is no folder of peers, as in an installed wheel.
        UnknownNameError: for a peer that is not in it.
    """
    place = Path(folder) if folder else Path(optik.data.__file__).parents[1] / "studies" / "peers"
    if not place.is_dir():
        raise SolverError(f"there is no folder {place}: peers need a checkout, or folder=")
    known = [p.parent.name for p in place.glob("*/worker.py")]
    if peer not in known:
        raise unknown_name("peer", peer, known)
    return place / peer


def peer_environment(place: Path) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there yet.

    It lies under $OPTIK_PEERS, or the user's cache folder, and is named after the requirements'
    digest and the Python version, so that a changed file makes a new one.

    Raises:
        SolverError: with the installer's last line, if it cannot be made.
    """
    requirements = (place / "requirements.txt").read_bytes()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(requirements + version.encode()).hexdigest()[:12]
    root = Path(os.environ.get(ENVIRONMENT_VARIABLE) or Path.home() / ".cache" / "optik" / "peers")
    final = root / f"{place.name}-{digest}"
    interpreter = final / "bin" / "python"
    if interpreter.exists():
        return interpreter
    root.mkdir(parents=True, exist_ok=True)
    with _removed_on_error(Path(tempfile.mkdtemp(prefix=".making-", dir=root))) as making:
        _run([sys.executable, "-m", "venv", str(making)], place)
        pip = [str(making / "bin" / "python"), "-m", "pip", "install", "-q"]
        _run([*pip, "--disable-pip-version-check", "-r", "requirements.txt"], place)
        try:
            making.rename(final)
        except OSError:  # someone else was faster
            if not interpreter.exists():
                raise
            shutil.rmtree(making)
    return interpreter


@contextmanager
def _removed_on_error(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [s for s in done.stderr.splitlines() if "error" in s.lower()]
        said = (errors or done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise SolverError(f"the environment of peer {place.name!r} cannot be made: {said}")


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
