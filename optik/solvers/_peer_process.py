"""One worker process: a line of JSON each way, and what happens when it dies, hangs or babbles."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from optik.errors import SolverError
from optik.result import Claim
from optik.solvers.base import Deadline


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
