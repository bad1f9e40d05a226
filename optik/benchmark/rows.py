"""What one row of a run holds, and how rows are written and read without losing a bit.

A row is one solve.  Rows travel as tuples in the order of `COLUMNS`, are kept as Arrow tables, and
are handed out as pandas frames.  Text written by a run is read back bit-equal: floats in their
shortest exact form, infinities and NaN by name.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from optik.problem import Budget

if TYPE_CHECKING:
    from optik.problem import Posture

_TEXT, _REAL, _INT, _YES = pa.string(), pa.float64(), pa.int64(), pa.bool_()

# Name, type, meaning.  Times in seconds, errors in m and rad.
_FIELDS: tuple[tuple[str, Any, str], ...] = (
    ("problem_set", _TEXT, "name of the problem set"),
    ("problem", _INT, "index in the set"),
    ("robot", _TEXT, "name of the robot"),
    ("stratum", _TEXT, "the set's stratum: reachable, at_limit_1, near_singular, ..."),
    ("solver", _TEXT, "NAME[:option=value,...]"),
    ("start", _TEXT, "home, mid or given"),
    ("repeat", _INT, "0 for the first time"),
    ("seed", _INT, "of the restarts: the run's seed plus the repeat"),
    ("solved", _YES, "what MuJoCo says"),
    ("claim", _TEXT, "what the solver says; empty if it never answered"),
    ("false_claim", _YES, "claimed to have converged, and has not solved"),
    ("reason", _TEXT, "why not solved; empty where solved"),
    ("position_error", _REAL, "[m], infinite where nothing usable came back"),
    ("rotation_error", _REAL, "[rad]"),
    ("limit_violation", _REAL, "how far the worst joint is outside its range [rad or m]"),
    ("cost", _REAL, "the problem's own cost"),
    ("posture_distance", _REAL, "|W (q - q_rest)| [rad or m]"),
    ("joints_at_limit", _INT, "joints on or outside a limit"),
    ("iterations", _INT, "steps; the whole budget where the solver never answered"),
    ("evaluations", _INT, "forward kinematics calls; the same"),
    ("restarts", _INT, "starts used after the given one"),
    ("setup_time", _REAL, "building the solver, once for a set and process [s]"),
    ("solve_time", _REAL, "the solve alone [s]"),
    ("judge_time", _REAL, "the judgement [s]"),
    ("timing", _TEXT, "alone, parallel (not comparable) or batch (divided by its size)"),
    ("message", _TEXT, "the solver's own sentence"),
    ("q", _TEXT, "the configuration, numbers separated by spaces [rad or m]"),
    ("position_tolerance", _REAL, "[m]"),
    ("rotation_tolerance", _REAL, "[rad]"),
    ("budget", _TEXT, "iterations, restarts, seconds"),
    ("posture", _TEXT, "none, or the posture objective"),
)
COLUMNS = tuple(name for name, _, _ in _FIELDS)
MEANINGS = {name: meaning for name, _, meaning in _FIELDS}
SCHEMA = pa.schema([(name, kind) for name, kind, _ in _FIELDS])
TIMES = ("setup_time", "solve_time", "judge_time")
PARQUET_ABOVE = 100_000

Row = tuple[Any, ...]


def to_table(rows: Sequence[Row]) -> pa.Table:
    """Arrow table of rows given as tuples in the order of `COLUMNS`."""
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    return pa.table(
        [pa.array(c, type=f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The pandas frame of an Arrow table."""
    return table.to_pandas(self_destruct=True, split_blocks=True)


def csv_bytes(table: pa.Table, *, header: bool) -> bytes:
    """Whole lines of CSV."""
    stream = io.BytesIO()
    options = arrow_csv.WriteOptions(include_header=header, quoting_style="needed")
    arrow_csv.write_csv(table, stream, options)
    return stream.getvalue()


def read_csv(source: Path | io.BytesIO, *, header: bool = True) -> pa.Table:
    """Reads what `csv_bytes` wrote."""
    return arrow_csv.read_csv(
        source,
        read_options=arrow_csv.ReadOptions(column_names=None if header else list(COLUMNS)),
        convert_options=arrow_csv.ConvertOptions(
            column_types=SCHEMA, null_values=[], strings_can_be_null=False
        ),
    )


def write_rows(table: pa.Table, folder: Path) -> Path:
    """Writes `rows.csv`, or `rows.parquet` above 100 000 rows; whole or not at all."""
    kind = "parquet" if table.num_rows > PARQUET_ABOVE else "csv"
    path, temporary = folder / f"rows.{kind}", folder / f".rows.{kind}.tmp"
    try:
        if kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(table, temporary, compression="zstd")
        else:
            with temporary.open("wb") as file:
                options = arrow_csv.WriteOptions(quoting_style="needed")
                arrow_csv.write_csv(table, file, options)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    other = folder / f"rows.{'csv' if kind == 'parquet' else 'parquet'}"
    other.unlink(missing_ok=True)
    return path


def read_rows(folder: Path) -> pa.Table | None:
    """Reads the folded rows of a run's folder, whichever form they have; None if there are none."""
    if (folder / "rows.parquet").is_file():
        from pyarrow import parquet

        return parquet.read_table(folder / "rows.parquet", schema=SCHEMA)
    if (folder / "rows.csv").is_file():
        return read_csv(folder / "rows.csv")
    return None


def one_line(text: str, limit: int = 300) -> str:
    """A text as one line: a row is one line of the journal."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def budget_text(budget: Budget) -> str:
    """How a budget reads in a row and under a table."""
    parts = [f"{budget.iterations} iterations"]
    if budget.restarts:
        parts.append(f"{budget.restarts} restarts")
    if budget.seconds is not None:
        parts.append(f"{budget.seconds:g} s")
    return ", ".join(parts)


def posture_text(posture: Posture | None) -> str:
    """How a posture objective reads in a row."""
    if posture is None:
        return "none"
    rest = "mid-range" if posture.q_rest is None else "given"
    weighted = "" if posture.joint_weights is None else ", weighted joints"
    return f"{rest}, weight {posture.weight:g}{weighted}"
