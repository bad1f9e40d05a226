"""The standard tables of a run, and everything to write them with.

    print(to_terminal(summary_table(frame, baseline="clamped-dls")))
    write_tables("studies/results/question", [summary_table(frame), pairs_table(frame)],
                 title="...", intro=environment_line())

    summary_table(frame, by=, baseline=)   a row a solver: solved with Wilson interval, gained and
                                           lost against a baseline, counts, times, honesty
    pairs_table(frame, baseline=)          a row a pair: contingency, McNemar with Holm, cost ratios
    strata_table(frame)                    solved, solver by stratum
    reasons_table(frame)                   why the unsolved ones are unsolved
    footer(frame)                          n, start, tolerance, budget, seed, how it was timed

A cell is bold where its row is the best of its group and the paired test says so against every
other row of that group at once: exact McNemar with Holm for solved, the paired bootstrap interval
with Bonferroni for costs.  Costs of a solver that solves significantly less than another are never
bold: giving up early is not speed.

Times and counts are over all problems, failures included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from optik.benchmark.rendering import (
    Column,
    Table,
    to_csv,
    to_latex,
    to_markdown,
    to_terminal,
    write_files,
    write_tables,
)
from optik.benchmark.summary import (
    COSTS,
    by_problem,
    check_comparable,
    cost_ratio,
    matrix,
    pairs,
    solvers_of,
)
from optik.errors import BenchmarkError

__all__ = [
    "Column",
    "Table",
    "footer",
    "pairs_table",
    "reasons_table",
    "strata_table",
    "summary_table",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_terminal",
    "write_files",
    "write_tables",
]

ALPHA = 0.05
_RESAMPLES = 1999


def summary_table(
    frame: pd.DataFrame,
    *,
    by: Sequence[str] = ("problem_set",),
    baseline: str | None = None,
    costs: Sequence[str] = ("evaluations", "solve_time"),
    name: str = "summary",
    title: str = "Solved, counts and times",
    bold: bool = True,
) -> Table:
    """One row a solver and group.

    Args:
        frame: rows of a run.
        by: columns that make the groups ("problem_set", "stratum", "robot", ...); none for all
            rows together.
        baseline: a solver; adds gained, lost and the Holm-adjusted McNemar p against it.
        costs: which of "evaluations", "iterations" and "solve_time" to show, as median / p95.
        name: file name and label.
        title: caption.
        bold: ask the paired tests which cells are best.
    """
    check_comparable(frame)
    groups = _groups(frame, by)
    rows: list[dict[str, Any]] = []
    best: set[tuple[int, str]] = set()
    for label, part in groups:
        first = len(rows)
        folded = by_problem(part)
        compared = {} if baseline is None else {p.b: p for p in pairs(part, baseline=baseline)}
        for solver in solvers_of(part):
            rows.append({"group": label, **_solver_row(folded[folded["solver"] == solver], solver)})
            if solver in compared:
                pair = compared[solver]
                rows[-1] |= {"gained": pair.gained, "lost": pair.lost, "p": pair.p_holm}
        if bold:
            best |= {(first + i, key) for i, key in _best_cells(part, costs)}
    columns = [Column("solver", "solver"), Column("solved", "solved", "share")]
    if len(groups) > 1 or by:
        columns.insert(0, Column("group", " / ".join(by).replace("_", " ") or "group"))
    if baseline is not None:
        columns += [
            Column("gained", "gained", "count"),
            Column("lost", "lost", "count"),
            Column("p", "p\n(Holm)", "p"),
        ]
    columns += [
        *(
            Column(c, f"{_spoken(c)}\nmedian / p95", "seconds" if c == "solve_time" else "number")
            for c in costs
        ),
        Column("false_claims", "false\nclaims", "count"),
        Column("outside", "outside\nlimits", "count"),
    ]
    notes = [footer(frame)]
    if baseline is not None:
        notes.append(f"Gained and lost count problems against {baseline}.")
    notes += _named(rows)
    return Table(
        name, title, tuple(columns), tuple(rows), tuple(notes), frozenset(best),
        "group" if len(groups) > 1 or by else None,
    )  # fmt: skip


def pairs_table(
    frame: pd.DataFrame,
    *,
    baseline: str | None = None,
    name: str = "pairs",
    title: str = "The same problems, solver against solver",
    costs: Sequence[str] = ("evaluations", "solve_time"),
) -> Table:
    """One row a pair of solvers: contingency, exact McNemar with Holm, cost ratios b/a."""
    rows = []
    for pair in pairs(frame, baseline=baseline):
        row: dict[str, Any] = {
            "a": pair.a, "b": pair.b, "both": pair.both, "gained": pair.gained, "lost": pair.lost,
            "neither": pair.neither, "p": pair.p, "p_holm": pair.p_holm,
        }  # fmt: skip
        for column in costs:
            row[f"{column}_ratio"] = cost_ratio(frame, pair.b, pair.a, column)
        rows.append(row)
    columns = [
        Column("a", "a"),
        Column("b", "b"),
        Column("both", "both", "count"),
        Column("gained", "b only", "count"),
        Column("lost", "a only", "count"),
        Column("neither", "neither", "count"),
        Column("p", "McNemar\np", "p"),
        Column("p_holm", "p\n(Holm)", "p"),
        *(Column(f"{c}_ratio", f"{_spoken(c)}\nb/a", "ratio") for c in costs),
    ]
    note = (
        "Ratios are geometric means over all problems, failures at what they used, with paired "
        "BCa bootstrap intervals."
    )
    return Table(name, title, tuple(columns), tuple(rows), (footer(frame), note))


def strata_table(
    frame: pd.DataFrame,
    *,
    by: str = "stratum",
    name: str = "strata",
    title: str = "Solved, by stratum",
) -> Table:
    """One row a stratum, one column a solver, n in its own column."""
    check_comparable(frame)
    solvers = solvers_of(frame)
    rows: list[dict[str, Any]] = []
    best: set[tuple[int, str]] = set()
    for i, (label, part) in enumerate(_groups(frame, (by,))):
        folded = by_problem(part)
        solved = matrix(part, "solved").astype(bool)
        row: dict[str, Any] = {"group": label, "n": len(solved)}
        for solver in solvers_of(folded):
            row[solver] = (int(solved[solver].sum()), len(solved))
        rows.append(row)
        best |= {
            (i, solvers_of(part)[k]) for k, key in _best_cells(part, costs=()) if key == "solved"
        }
    columns = (
        Column("group", by.replace("_", " ")),
        Column("n", "n", "count"),
        *(Column(s, s, "share") for s in solvers),
    )
    return Table(name, title, columns, tuple(rows), (footer(frame),), frozenset(best))


def reasons_table(
    frame: pd.DataFrame, *, name: str = "reasons", title: str = "Why problems are not solved"
) -> Table:
    """One row a solver and reason, the most frequent first."""
    failed = frame[~frame["solved"].astype(bool)]
    rows = []
    for solver in solvers_of(frame):
        counted = failed.loc[failed["solver"] == solver, "reason"].value_counts()
        ordered = sorted(counted.items(), key=lambda item: (-item[1], str(item[0])))
        rows += [{"solver": solver, "reason": r, "count": int(n)} for r, n in ordered]
    columns = (
        Column("solver", "solver"),
        Column("reason", "reason"),
        Column("count", "solves", "count"),
    )
    return Table(name, title, columns, tuple(rows), (footer(frame),), group="solver")


def footer(frame: pd.DataFrame) -> str:
    """Says what a table stands on: n, start, tolerance, budget, seed, and how it was timed."""
    sizes = frame.groupby("problem_set", sort=False, observed=True)["problem"].nunique()
    parts = [f"n = {int(sizes.sum())} problems a solver"]
    if len(sizes) > 1:
        listed = ", ".join(f"{name} {n}" for name, n in sizes.items())
        parts[0] += f" ({listed})" if len(sizes) <= 6 else f" in {len(sizes)} sets"
    if "repeat" in frame and frame["repeat"].max() > 0:
        parts.append(f"{int(frame['repeat'].max()) + 1} repeats each (majority, median)")
    parts.append(f"start {_values(frame['start'])}")
    if "position_tolerance" in frame:
        pairs_ = frame[["position_tolerance", "rotation_tolerance"]].drop_duplicates()
        parts.append(
            "tolerance "
            + " or ".join(
                f"{_unit(p, 'm')} and {_unit(r, 'rad')}" for p, r in pairs_.itertuples(index=False)
            )
        )
    for column, spoken in (("budget", "budget {}"), ("posture", "posture {}")):
        if column in frame and (values := _values(frame[column])) not in ("", "none"):
            parts.append(spoken.format(values))
    seeds = frame.attrs.get("set_seeds")
    if seeds:
        parts.append(f"seed of the targets {_values(pd.Series(list(seeds.values())))}")
    restarts = "budget" in frame and frame["budget"].str.contains("restart").any()
    if restarts and frame.attrs.get("seed") is not None:
        parts.append(f"seed of the restarts {frame.attrs['seed']}")
    if "timing" in frame:
        modes = set(frame["timing"].unique())
        if "parallel" in modes:
            parts.append("timed while other solves ran: times are not comparable")
        elif "batch" in modes:
            parts.append("times are a batch's, divided by its size")
        else:
            parts.append("each solve timed alone")
    return "; ".join(parts)


def _groups(frame: pd.DataFrame, by: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    missing = [c for c in by if c not in frame]
    if missing:
        raise BenchmarkError(f"these rows have no column {', '.join(missing)}")
    if not by:
        return [("all", frame)]
    return [
        (" / ".join(str(v) for v in label), part)
        for label, part in frame.groupby(list(by), sort=False, observed=True)
    ]


def _solver_row(rows: pd.DataFrame, solver: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "solver": solver,
        "solved": (int(rows["solved"].sum()), len(rows)),
        "false_claims": int(rows["false_claim"].sum()),
        # An answer of the wrong length, or with a NaN in it, is nowhere: its distance is infinite.
        "outside": int(rows["limit_violation"].between(0, np.inf, inclusive="neither").sum()),
    }
    counted = bool(_counts(rows["evaluations"]))
    for column in COSTS:
        if not counted and column != "solve_time":
            row[column] = None
            continue
        values = rows[column].to_numpy(float)
        row[column] = (float(np.median(values)), float(np.quantile(values, 0.95)))
    return row


def _counts(evaluations: pd.Series[int]) -> bool:
    """Whether a solver counts its work: a function that returns a configuration does not."""
    return bool((evaluations > 0).any())


def _best_cells(part: pd.DataFrame, costs: Sequence[str]) -> list[tuple[int, str]]:
    """(row within the group, key) of the cells that the paired tests call best."""
    names = solvers_of(part)
    if len(names) < 2:
        return []
    counting = [s for s in names if _counts(part.loc[part["solver"] == s, "evaluations"])]
    solved = matrix(part, "solved").sum()
    cells: list[tuple[int, str]] = []
    top = str(solved.idxmax())
    tests = pairs(part, baseline=top)
    if all(p.p_holm < ALPHA for p in tests):
        cells.append((names.index(top), "solved"))
    # Solving significantly less than the top one rules a solver out.
    able = {top, *(p.b for p in tests if p.p_holm >= ALPHA)}
    if "timing" in part and (part["timing"] == "parallel").any():
        costs = [c for c in costs if c != "solve_time"]
    for column in costs:
        rivals = names if column == "solve_time" else counting
        if len(rivals) < 2:
            continue
        values = matrix(part, column).astype(float)
        winner = min(rivals, key=lambda s: float(np.log(values[s] + 1e-12).mean()))
        if winner not in able or not np.isfinite(values.to_numpy()).all():
            continue
        level = 1 - ALPHA / (len(rivals) - 1)
        if all(
            cost_ratio(part, winner, s, column, confidence=level, resamples=_RESAMPLES).hi < 1.0
            for s in rivals
            if s != winner
        ):
            cells.append((names.index(winner), column))
    return cells


def _named(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Names the solvers whose claims or limits did not survive the judge."""
    claims: dict[str, int] = {}
    outside: dict[str, int] = {}
    for row in rows:
        claims[row["solver"]] = claims.get(row["solver"], 0) + row["false_claims"]
        outside[row["solver"]] = outside.get(row["solver"], 0) + row["outside"]
    notes = [
        f"{s} claimed {n} solution{'s' if n > 1 else ''} that the judge refused."
        for s, n in claims.items()
        if n
    ]
    return notes + [
        f"{s} left the joint limits {n} time{'s' if n > 1 else ''}; those count as not solved."
        for s, n in outside.items()
        if n
    ]


def _values(column: pd.Series) -> str:
    values = list(dict.fromkeys(f"{v:g}" if isinstance(v, float) else str(v) for v in column))
    return ", ".join(values) if len(values) <= 4 else f"{values[0]} ... {values[-1]}"


def _unit(value: float, unit: str) -> str:
    for factor, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ")):
        if value >= factor * 0.0999999:
            return f"{float(f'{value / factor:.6g}'):g} {prefix}{unit}"
    return f"{value:g} {unit}"


def _spoken(column: str) -> str:
    return {"solve_time": "time"}.get(column, column)
