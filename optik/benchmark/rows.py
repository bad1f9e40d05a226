"""How rows are written and read without losing a bit.

They come as tuples, are kept as Arrow tables, and are handed out as pandas frames.  Text written by
a run is read back bit-equal: floats in their shortest exact form, infinities and NaN by name.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from optik.benchmark.columns import COLUMNS, FIELDS, Row

SCHEMA = pa.schema(
    [(name, getattr(pa, kind + "_" * (kind == "bool"))()) for name, kind, _ in FIELDS]
)
# Text that many rows share is kept once while rows are read, sorted and written.
_SHARED = {name for name, kind, _ in FIELDS if kind == "string" and name != "q"}
_COMPACT = pa.schema(
    [
        pa.field(f.name, pa.dictionary(pa.int32(), f.type)) if f.name in _SHARED else f
        for f in SCHEMA
    ]
)
PARQUET_ABOVE = 100_000


def to_table(rows: Sequence[Row]) -> pa.Table:
    """Arrow table of rows given as tuples in the order of `COLUMNS`."""
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    return pa.table(
        [pa.array(c, type=f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The pandas frame of an Arrow table, which is used up."""
    columns = {}
    while table.num_columns:
        name, column = table.column_names[0], table.column(0)
        table = table.remove_column(0)
        columns[name] = column.cast(SCHEMA.field(name).type).to_pandas()
        del column
    return pd.DataFrame(columns, copy=False)


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
            column_types=_COMPACT, null_values=[], strings_can_be_null=False
        ),
    )


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of several, whether or not their shared text is kept once."""
    return pa.concat_tables([t.cast(_COMPACT) for t in tables]).unify_dictionaries()


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

        return parquet.read_table(folder / "rows.parquet", read_dictionary=sorted(_SHARED))
    if (folder / "rows.csv").is_file():
        return read_csv(folder / "rows.csv")
    return None
