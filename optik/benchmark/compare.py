"""What changed between two runs, paired by problem.

    print(compare("runs/before", "runs/after"))      # what `optik compare` prints
    compare_runs(a, b)                                # the same as tables

Rows are paired by problem set, problem, start and solver; what only one run has is left out and
counted.  With one solver in each run, the two are compared whatever they are called: a changed
option is what one usually wants to know about.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from optik.benchmark.journal import read_run
from optik.benchmark.rendering import Column, Table, to_terminal
from optik.benchmark.statistics import holm, mcnemar, paired_ratio
from optik.benchmark.summary import CONDITIONS, PROBLEM, SHIFTS, by_problem, solvers_of
from optik.errors import BenchmarkError

_SHOWN = 40


def compare(run_a: str | Path, run_b: str | Path) -> str:
    """Says what changed from run A to run B, for a terminal.

    Args:
        run_a: folder of the first run.
        run_b: folder of the second run.

    Raises:
        BenchmarkError: if a folder holds no run, or the two have no problem in common.
    """
    tables = compare_runs(read_run(run_a), read_run(run_b), names=(str(run_a), str(run_b)))
    return "\n\n".join(to_terminal(t) for t in tables)


def compare_runs(
    a: pd.DataFrame, b: pd.DataFrame, *, names: tuple[str, str] = ("A", "B")
) -> list[Table]:
    """Compares two runs' rows; returns the changes by set and solver, and the changed problems.

    Args:
        a: rows of the first run.
        b: rows of the second run.
        names: what the runs are called in the notes.

    Raises:
        BenchmarkError: if the runs have nothing in common.
    """
    a, b = by_problem(a), by_problem(b)
    notes = [f"A: {names[0]}. B: {names[1]}. Ratios are B/A over all problems, failures included."]
    if solvers_of(a) != solvers_of(b) and len(solvers_of(a)) == len(solvers_of(b)) == 1:
        notes.append(f"Different solvers: A {solvers_of(a)[0]}, B {solvers_of(b)[0]}.")
        b = b.assign(solver=solvers_of(a)[0])
    keys = [*PROBLEM, "solver"]
    both = a.merge(b, on=keys, suffixes=("_a", "_b"))
    if both.empty:
        raise BenchmarkError(
            f"{names[0]} and {names[1]} have no problem, start and solver in common: "
            f"{_has(a)} against {_has(b)}"
        )
    for letter, frame in (("A", a), ("B", b)):
        if len(frame) > len(both):
            notes.append(f"{len(frame) - len(both)} of {len(frame)} rows are in {letter} alone.")
    notes += _conditions(both)
    return [_changes(both, notes), _problems(both)]


def _changes(both: pd.DataFrame, notes: list[str]) -> Table:
    rows: list[dict[str, Any]] = []
    comparable = not (both["timing_a"].eq("parallel") | both["timing_b"].eq("parallel")).any()
    for (name, solver), part in both.groupby(["problem_set", "solver"], sort=False, observed=True):
        old, new = part["solved_a"].astype(bool), part["solved_b"].astype(bool)
        row: dict[str, Any] = {
            "problem_set": name,
            "solver": solver,
            "solved_a": (int(old.sum()), len(part)),
            "solved_b": (int(new.sum()), len(part)),
            "gained": int((new & ~old).sum()),
            "lost": int((old & ~new).sum()),
            "same_q": int((part["q_a"] == part["q_b"]).sum()),
        }
        for column in ("evaluations", "solve_time") if comparable else ("evaluations",):
            row[column] = paired_ratio(
                part[f"{column}_b"].to_numpy(float),
                part[f"{column}_a"].to_numpy(float),
                shift=SHIFTS[column],
            )
        rows.append(row)
    for row, p in zip(rows, holm([mcnemar(r["gained"], r["lost"]) for r in rows]), strict=True):
        row["p"] = float(p)
    columns = [
        Column("problem_set", "problem set"),
        Column("solver", "solver"),
        Column("solved_a", "solved A", "share"),
        Column("solved_b", "solved B", "share"),
        Column("gained", "gained", "count"),
        Column("lost", "lost", "count"),
        Column("p", "p\n(Holm)", "p"),
        Column("same_q", "same\nanswer", "count"),
        Column("evaluations", "evaluations\nB/A", "ratio"),
    ]
    if comparable:
        columns.append(Column("solve_time", "time\nB/A", "ratio"))
    else:
        notes = [*notes, "One of the runs was timed in parallel: times are not compared."]
    return Table(
        "changes", "What changed", tuple(columns), tuple(rows), tuple(notes), group="problem_set"
    )


def _problems(both: pd.DataFrame) -> Table:
    """The problems that only one of the two runs solved."""
    changed = both[both["solved_a"].astype(bool) != both["solved_b"].astype(bool)]
    rows = [
        {
            "change": "gained" if r["solved_b"] else "lost",
            "problem_set": r["problem_set"],
            "problem": r["problem"],
            "solver": r["solver"],
            "reason": r["reason_a"] if r["solved_b"] else r["reason_b"],
            "error": r["position_error_a"] if r["solved_b"] else r["position_error_b"],
        }
        for r in changed.to_dict("records")
    ]
    rows.sort(key=lambda r: r["change"], reverse=True)
    more = [f"{len(rows) - _SHOWN} more are not shown."] if len(rows) > _SHOWN else []
    columns = (
        Column("change", "change"),
        Column("problem_set", "problem set"),
        Column("problem", "problem", "count"),
        Column("solver", "solver"),
        Column("reason", "why not solved in the other run"),
        Column("error", "position error there", "metres"),
    )
    title = f"{len(rows)} problems solved by one run alone"
    return Table("changed", title, columns, tuple(rows[:_SHOWN]), tuple(more), group="change")


def _conditions(both: pd.DataFrame) -> list[str]:
    """Says which conditions differ: a comparison of runs may be about exactly that."""
    notes = []
    for name in CONDITIONS:
        old, new = (both[f"{name}_{letter}"].unique() for letter in "ab")
        if set(old) != set(new):
            said = [", ".join(str(v) for v in values) for values in (old, new)]
            notes.append(f"NOT LIKE WITH LIKE: {name} is {said[0]} in A and {said[1]} in B.")
    return notes


def _has(frame: pd.DataFrame) -> str:
    sets = ", ".join(str(s) for s in frame["problem_set"].unique())
    return f"{sets} with {', '.join(solvers_of(frame))}"
