"""What the lesson scripts share: the printed numbers, the comparison with ours, writing results.

`lesson_numbers.json` holds every number that the five source documents print, with the absolute
tolerance at which it should be found again and whether it holds.  A lesson script measures its own
numbers under the same keys; the tests ask for every entry that holds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import study_results

from optik.benchmark.tables import Column, Table, to_terminal

STUDIES = Path(__file__).parent


def printed_numbers(lesson: str) -> dict[str, dict[str, Any]]:
    """Key to {"printed", "tolerance", "holds"} of one document."""
    return json.loads((STUDIES / "lesson_numbers.json").read_text())[lesson]


def differences(printed: Any, measured: Any) -> list[float]:
    """Absolute differences, number by number; infinite where the two do not compare."""
    if isinstance(printed, (list, tuple)):
        rows = list(measured) if isinstance(measured, (list, tuple, np.ndarray)) else []
        if len(rows) != len(printed):
            return [float("inf")]
        return [d for p, m in zip(printed, rows, strict=True) for d in differences(p, m)]
    if printed is None or isinstance(printed, str):
        return [0.0 if printed == measured else float("inf")]
    return [abs(float(printed) - float(measured))]


def within(printed: Any, measured: Any, tolerance: Any) -> bool:
    """Whether every number is found again at its tolerance."""
    gaps = differences(printed, measured)
    flat = np.ravel(tolerance) if tolerance is not None else np.zeros(1)
    limits = [float(t) for t in flat] * (len(gaps) if len(flat) == 1 else 1)
    # A rounding of the last digit of the difference itself must not decide.
    return len(limits) == len(gaps) and all(
        g <= t + 1e-12 for g, t in zip(gaps, limits, strict=True)
    )


def agreement_table(lesson: str, measured: Mapping[str, Any], *, title: str) -> Table:
    """Every printed number beside ours, with the difference and a word."""
    rows = []
    for key, entry in printed_numbers(lesson).items():
        if key not in measured:
            continue
        ours = measured[key]
        known = entry["holds"] is True or None not in (entry["printed"], entry["tolerance"])
        if entry["holds"] == "machine":
            word = "a timing"
        elif not known:
            word = "not printed" if entry["printed"] is None else "not stated in full"
        else:
            word = "same" if within(entry["printed"], ours, entry["tolerance"]) else "DIFFERS"
        gap = max(differences(entry["printed"], ours), default=0.0) if known else None
        rows.append(
            {
                "number": key,
                "printed": _text(entry["printed"]),
                "measured": _text(ours),
                "gap": "" if gap is None or not np.isfinite(gap) else f"{gap:.2g}",
                "word": word,
            }
        )
    columns = tuple(
        Column(k, t)
        for k, t in (
            ("number", "number"),
            ("printed", "printed"),
            ("measured", "here"),
            ("gap", "difference"),
            ("word", "verdict"),
        )
    )
    return Table("agreement", title, columns, tuple(rows))


def claims_table(claims: Sequence[tuple[str, str, str]], *, title: str) -> Table:
    """The closing table: (what is said, what is measured, what holds)."""
    columns = (
        Column("claimed", "claimed"),
        Column("measured", "measured"),
        Column("holds", "holds?"),
    )
    rows = tuple({"claimed": c, "measured": m, "holds": h} for c, m, h in claims)
    return Table("claims", title, columns, rows)


def text_table(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *notes: str
) -> Table:
    """A table of ready-made texts."""
    keys = [f"c{i}" for i in range(len(columns))]
    return Table(
        name,
        title,
        tuple(Column(k, c) for k, c in zip(keys, columns, strict=True)),
        tuple({k: str(v) for k, v in zip(keys, row, strict=True)} for row in rows),
        notes=notes,
    )


def arguments(doc: str | None) -> argparse.Namespace:
    """Parses --quick, which every study has."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; results thrown away")
    return parser.parse_args()


def finish(
    study: str,
    tables: Sequence[Table],
    *,
    title: str,
    intro: str,
    quick: bool,
    extra: Mapping[str, str | bytes] | None = None,
) -> Path:
    """Prints the tables and writes them under studies/results/<study>, or away with --quick."""
    for table in tables:
        print(to_terminal(table), "\n")
    intro = f"Made by `python studies/{study}.py`.  {intro}"
    folder = study_results.write(study, tables, title=title, intro=intro, quick=quick, extra=extra)
    print(f"written to {folder}")
    return folder


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return f"{float(value):.6g}" if isinstance(value, (float, np.floating)) else str(value)
