"""A run's folder: rows as they finish, nothing lost and nothing done twice.

    journal.csv                  rows in the order in which they finished, while the run goes on
    rows.csv or rows.parquet     all rows in order, folded from the journal at the end
    environment.json             versions, processor, threads, git state, options, seeds, sessions
    log.txt                      what happened when; what solvers printed

Rows are appended in one write each time, whole lines only, and forced to the disk every second.  A
run that is killed in the middle of a write leaves part of a line, which is cut off when the run is
resumed; the solve is then done again.  Folding writes the new file beside the old one and moves it
into place before the journal is removed: at no moment is a row in neither.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from optik.benchmark.columns import COLUMNS
from optik.benchmark.plan import Plan
from optik.benchmark.rows import csv_bytes, joined, read_csv, read_rows, to_frame, write_rows
from optik.errors import BenchmarkError

_SYNC_EVERY = 1.0
HEADER = (",".join(COLUMNS) + "\n").encode()


def read_run(folder: str | Path) -> pd.DataFrame:
    """Reads a run's rows, finished or not, CSV or Parquet, with the columns `optik.run` returns.

    Raises:
        BenchmarkError: if there is no run in the folder.
    """
    folder = Path(folder)
    parts = [t for t in (read_rows(folder), read_journal(folder / "journal.csv")) if t is not None]
    if not parts:
        raise BenchmarkError(f"there is no run in {folder}: no rows.csv, rows.parquet, journal.csv")
    frame = to_frame(joined(parts))
    return with_attributes(frame, read_settings(folder))


def with_attributes(frame: pd.DataFrame, settings: dict[str, Any]) -> pd.DataFrame:
    """Hangs the seeds of the run and its problem sets on a frame, for the footer of its tables."""
    sets = settings.get("sets", {})
    frame.attrs["seed"] = settings.get("seed")
    frame.attrs["set_seeds"] = {name: found["seed"] for name, found in sets.items()}
    return frame


def read_settings(folder: Path) -> dict[str, Any]:
    """What a run in a folder was asked to do; empty if its environment.json is not there."""
    try:
        return dict(json.loads((folder / "environment.json").read_text())["settings"])
    except (OSError, KeyError, ValueError):
        return {}


def read_journal(path: Path) -> pa.Table | None:
    """Reads the whole and well-formed lines of a journal; None if there is none.

    A line that is cut short or damaged is left out: its solve counts as not done.
    """
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            if file.tell() == 0:
                return None
            file.seek(-1, os.SEEK_END)
            undisturbed = file.read(1) == b"\n"
    except FileNotFoundError:
        return None
    if undisturbed:
        with contextlib.suppress(pa.ArrowInvalid):
            return read_csv(path)  # block by block, never whole in memory
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    try:
        return read_csv(io.BytesIO(whole)) if whole else None
    except pa.ArrowInvalid:
        lines = whole.splitlines(keepends=True)
        return read_csv(io.BytesIO(b"".join([HEADER, *filter(_sound, lines[1:])])))


def _sound(line: bytes) -> bool:
    try:
        return read_csv(io.BytesIO(HEADER + line)).num_rows == 1
    except pa.ArrowInvalid:
        return False


class Journal:
    """The rows of one run in a folder, open for appending by one process.

    Attributes:
        done: which solves have their row, shape (len(plan),).
        rows: how many they are.
    """

    def __init__(self, folder: Path, plan: Plan, *, resume: bool) -> None:
        """Opens the folder.

        Args:
            folder: made if it is not there.
            plan: what the run does.
            resume: go on with the rows that are there; else the folder must hold none.

        Raises:
            BenchmarkError: if the folder holds a run and `resume` is not set, if that run was
                asked to do something else, or if another process is at work in it.
        """
        self.folder, self.plan = folder, plan
        self.path = folder / "journal.csv"
        self.done = np.zeros(len(plan), dtype=bool)
        self._file: IO[bytes] | None = None
        self._synced = time.monotonic()
        exists = any((folder / n).exists() for n in ("journal.csv", "rows.csv", "rows.parquet"))
        if exists and not resume:
            raise BenchmarkError(
                f"{folder} holds a run already: go on with it (resume=True, --resume), or give "
                "another folder"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if exists:
                self._check_settings()
            self._file = self.path.open("ab", buffering=0)
            self._lock()
            if exists:
                self._recover()
            elif self._file.tell() == 0:
                self._write(HEADER)
        except OSError as error:
            raise self._trouble(error) from error
        try:
            for table in self._parts() if exists else ():
                self.done[self._numbers(table)] = True
        except BenchmarkError:
            self.close()
            raise
        self.rows = int(self.done.sum())

    def append(self, table: pa.Table) -> None:
        """Adds rows; they are on the disk within a second.

        Raises:
            BenchmarkError: if they cannot be written; what was written before is safe.
        """
        fresh = ~self.done[numbers := self._numbers(table)]
        if not fresh.all():
            table, numbers = table.filter(pa.array(fresh)), numbers[fresh]
        try:
            self._write(csv_bytes(table, header=False))
            if time.monotonic() - self._synced > _SYNC_EVERY:
                self.sync()
        except OSError as error:
            raise self._trouble(error) from error
        self.done[numbers] = True
        self.rows += len(numbers)

    def sync(self) -> None:
        """Forces what was appended to the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def fold(self) -> Path:
        """Puts all rows in order into `rows.csv` or `rows.parquet` and removes the journal."""
        table = joined(self._parts())
        _, first = np.unique(self._numbers(table), return_index=True)
        try:
            path = write_rows(table.take(pa.array(first)), self.folder)
            self.close()
            self.path.unlink()
        except OSError as error:
            raise self._trouble(error) from error
        del table
        pa.default_memory_pool().release_unused()
        return path

    def close(self) -> None:
        """Forces everything to the disk and lets go of the folder."""
        if self._file is not None:
            try:
                self.sync()
            finally:
                self._file.close()
                self._file = None

    def _parts(self) -> list[pa.Table]:
        tables = (read_rows(self.folder), read_journal(self.path))
        return [t for t in tables if t is not None]

    def _numbers(self, table: pa.Table) -> np.ndarray:
        """The numbers of the solves of which a table holds the rows."""
        plan = self.plan
        place = _index(table["problem_set"], [s.name for s in plan.sets])
        solver = _index(table["solver"], list(plan.names))
        if (place < 0).any() or (solver < 0).any():
            raise BenchmarkError(
                f"{self.folder} holds rows of other problem sets or solvers; a resumed run may add "
                "sets, solvers and repeats, not leave any out"
            )
        problem = np.array(plan.offsets)[place] + table["problem"].to_numpy()
        rest = table["repeat"].to_numpy() * plan.offsets[-1] + problem
        return rest * len(plan.solvers) + solver

    def _check_settings(self) -> None:
        """Refuses to mix rows that were not made under the same conditions."""
        before, now = read_settings(self.folder), self.plan.settings
        for name, value in now.items():
            old = before.get(name, value)
            if name == "sets":
                changed = [k for k in value if k in old and old[k] != value[k]]
                if changed:
                    raise BenchmarkError(
                        f"{self.folder}: the problems of {', '.join(changed)} have changed since "
                        "the run began; give another folder"
                    )
            elif name not in ("solvers", "repeats") and old != value:
                raise BenchmarkError(
                    f"{self.folder} was run with {name} {old}, not {value}: rows made under "
                    "different conditions do not belong together; give another folder"
                )

    def _recover(self) -> None:
        """Cuts a last line that was not finished, and starts a journal that is empty."""
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        assert self._file is not None
        if not content.startswith(HEADER):
            if end:
                raise BenchmarkError(f"{self.path} is not a journal of this version of optik")
            end = 0
        self._file.truncate(end)
        if end == 0:
            self._write(HEADER)

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows: two runs in one folder are the user's to avoid
            return
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            self._file = None
            raise BenchmarkError(f"another process is running in {self.folder}") from None

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        view = memoryview(data)
        while view:  # a raw write may take only part of it
            view = view[self._file.write(view) :]

    def _trouble(self, error: OSError) -> BenchmarkError:
        done = int(self.done.sum())
        return BenchmarkError(
            f"cannot write in {self.folder}: {error.strerror or error}. The {done} rows written so "
            "far are safe; when there is room again, go on with resume"
        )


def _index(column: Any, names: list[str]) -> np.ndarray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    found = pc.index_in(column, value_set=pa.array(names, type=pa.string()))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)
