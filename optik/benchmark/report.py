"""`optik report`: one self-contained HTML page of one or several runs.

What it holds: the tables with their intervals and paired tests, sortable; success against tolerance
and budget, performance and data profiles; the targets on which two solvers part ways; and for a
handful of them, by a stated rule, both solvers' iterations on the arm itself.  The environment of
every run stands at the foot.

The page asks nothing of the network: style, script and data are inside it, and its content policy
forbids the rest.  The script is plain JavaScript in `templates/`, in files that are put together
here; what it draws is computed by `report_trace.py` and `report_scene.py` from MuJoCo.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from optik.benchmark.rendering import Column, Table
from optik.benchmark.report_cases import Cases, choose
from optik.benchmark.report_charts import ALL, all_curves, for_page
from optik.benchmark.report_rule import CANDIDATES
from optik.benchmark.report_runs import Runs, gather
from optik.benchmark.report_tables import to_html
from optik.benchmark.summary import Pair, pairs
from optik.benchmark.tables import footer, pairs_table, reasons_table, strata_table, summary_table
from optik.errors import BenchmarkError

SCRIPTS = ("core.js", "arm.js", "charts.js", "tables.js", "explorer.js", "page.js")
MOST_PAIRS = 6  # solvers up to which every pair is tested; above, only against the baseline
LARGE = 30_000  # rows above which bootstraps are kept for the comparison with the baseline
MOST_LISTED = 400  # discordant targets in the table


def report(
    run_folders: Sequence[str | Path],
    *,
    out: str | Path = "report.html",
    title: str | None = None,
    pair: Sequence[str] | None = None,
    cases: int = 6,
    figures: str | Path | None = None,
) -> Path:
    """Writes one HTML page of one or several runs.

    Args:
        run_folders: folders written by `optik.run(..., out=folder)`.
        out: the page; a folder gets `report.html` in it.
        title: heading; the runs' names if None.
        pair: two solvers whose difference is looked at; the best clamped one and the best of the
            others if None.
        cases: how many targets are shown with their iterations.
        figures: a folder for the same curves as SVG and PDF; not written if None.

    Returns:
        The path of the page.

    Raises:
        BenchmarkError: for a folder that holds no run, or runs that are not like with like.
        UnknownNameError: for a solver in `pair` that the runs do not hold.
    """
    if cases < 0:
        raise BenchmarkError(f"the number of cases cannot be negative, got {cases}")
    runs = gather([Path(f) for f in run_folders])
    curves = all_curves(runs)
    chosen = choose(runs, count=cases, pair=pair)
    path = Path(out)
    if path.is_dir():
        path = path / "report.html"
    page = render(runs, chosen, for_page(runs, curves), title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(path)
    if figures is not None:
        from optik.benchmark.figures import write_figures

        write_figures(curves, Path(figures))
    return path


def render(runs: Runs, chosen: Cases, charts: dict[str, Any], *, title: str | None = None) -> str:
    """Fills the template; the same input gives the same page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("optik.benchmark", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    compared = None if chosen.pair is None else _compared(runs, chosen.pair)
    names = list(runs.environments)
    data = {
        "solvers": [{"name": s, "dash": _dash(i)} for i, s in enumerate(runs.labels)],
        "charts": charts,
        "robots": {name: scene.as_dict() for name, scene in chosen.scenes.items()},
        "cases": [case.as_dict(chosen.scenes[case.problem.robot.name]) for case in chosen.chosen],
    }
    return environment.get_template("report.html").render(
        title=title or ", ".join(names),
        headline=_headline(runs, compared),
        style=_template("report.css"),
        script="\n".join(_template(name) for name in SCRIPTS),
        data=_json(data),
        results=[to_html(t) for t in _results(runs, chosen)],
        details=[to_html(t) for t in _details(runs, chosen)],
        discordant=None if compared is None else _discordant(runs, chosen),
        charts=charts,
        all_sets=ALL,
        solvers=[{"name": s, "colour": i % 8} for i, s in enumerate(runs.labels)],
        cases=chosen.chosen,
        pair=chosen.pair,
        gained=len(chosen.gained),
        lost=len(chosen.lost),
        notes=chosen.notes,
        candidates=CANDIDATES,
        footer=footer(runs.frame),
        environments=[
            (name, _facts(env), json.dumps(env, indent=1))
            for name, env in runs.environments.items()
        ],
    )


def _results(runs: Runs, chosen: Cases) -> list[Table]:
    frame, baseline = runs.frame, None if chosen.pair is None else chosen.pair[0]
    several = len(runs.groups) > 1
    title = "Set by set" if several else "Solved, counts and times"
    bold = len(frame) <= LARGE or not several
    tables = [summary_table(frame, baseline=baseline, title=title, bold=bold)]
    if several:
        together = summary_table(
            frame, by=(), baseline=baseline, name="together", title="All sets together"
        )
        tables.insert(0, together)
    if "stratum" in frame and frame["stratum"].nunique() > 1:
        tables.append(strata_table(frame))
    return [_coloured(runs, t) for t in tables]


def _details(runs: Runs, chosen: Cases) -> list[Table]:
    frame, tables = runs.frame, []
    if chosen.pair is not None:
        few = len(runs.labels) <= MOST_PAIRS and len(frame) <= LARGE
        tables.append(pairs_table(frame, baseline=None if few else chosen.pair[0]))
    if "reason" in frame and not frame["solved"].all():
        tables.append(reasons_table(frame))
    return [_coloured(runs, t) for t in tables]


def _coloured(runs: Runs, table: Table) -> Table:
    colour = {s: i % 8 for i, s in enumerate(runs.labels)}
    rows = ({**row, "colour": colour.get(row.get("solver", ""))} for row in table.rows)
    return replace(table, rows=tuple(rows))


def _discordant(runs: Runs, chosen: Cases) -> Any:
    """The table of targets on which the pair parts ways, those shown first."""
    assert chosen.pair is not None
    a, b = chosen.pair
    shown = {(c.group, c.index): i for i, c in enumerate(chosen.chosen)}
    keys = [*shown, *(k for k in (*chosen.gained, *chosen.lost) if k not in shown)]
    total, keys = len(keys), keys[:MOST_LISTED]
    gained = set(chosen.gained)
    wanted = runs.frame[runs.frame["solver"].isin(chosen.pair)]
    wanted = wanted[wanted["problem_set"].isin({k[0] for k in keys})]
    rows = wanted.drop_duplicates(["problem_set", "problem", "solver"]).set_index(
        ["problem_set", "problem", "solver"]
    )[["position_error", "rotation_error", "joints_at_limit", "iterations"]]
    values = rows.to_dict("index")
    columns = (
        Column("problem", "target"),
        Column("set", "set"),
        Column("solved", "solved by"),
        Column("failed", "not by"),
        Column("position", "error left", "metres"),
        Column("rotation", "rotation left", "radians"),
        Column("joints", "joints on a limit there", "count"),
        Column("steps", "iterations of the solver that solves it", "count"),
    )
    body = []
    for group, index in keys:
        good, bad = (b, a) if (group, index) in gained else (a, b)
        lost, won = values[(group, index, bad)], values[(group, index, good)]
        body.append(
            {
                "problem": f"{index}",
                "set": group,
                "solved": good,
                "failed": bad,
                "position": lost["position_error"],
                "rotation": lost["rotation_error"],
                "joints": lost["joints_at_limit"],
                "steps": won["iterations"],
            }
        )
    notes = [footer(runs.frame[runs.frame["solver"].isin(chosen.pair)])]
    if total > len(keys):
        notes.append(f"The first {len(keys)} of {total}.")
    table = Table(
        "discordant", "Targets that one of the two solves and the other does not",
        columns, tuple(body), tuple(notes),
    )  # fmt: skip
    links: dict[int, int] = {keys.index(k): i for k, i in shown.items()}
    return to_html(table, links=links, colours=False)


def _compared(runs: Runs, pair: tuple[str, str]) -> Pair:
    return pairs(runs.frame, baseline=pair[0], against=[pair[1]])[0]


def _headline(runs: Runs, pair: Pair | None) -> str:
    if pair is None:
        name = runs.labels[0]
        solved = int(runs.frame["solved"].sum())
        return f"{name} solves {solved} of {len(runs.frame)}."
    first, second = pair.both + pair.lost, pair.both + pair.gained
    p = "p < 0.001" if pair.p < 0.001 else f"p = {pair.p:.2g}"
    return (
        f"{pair.b} solves {second} of {pair.n} targets, {pair.a} solves {first}. "
        f"{pair.gained} are solved by {pair.b} only, {pair.lost} by {pair.a} only "
        f"(exact McNemar {p})."
    )


def _facts(environment: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of an environment that a reader looks for first."""
    packages = environment.get("packages") or {}
    facts = [
        ("optik", environment.get("optik")),
        ("state", environment.get("git")),
        ("date", environment.get("date")),
        ("processor", environment.get("cpu")),
        ("cores", environment.get("cores")),
        ("platform", environment.get("platform")),
        ("Python", environment.get("python")),
        ("libraries", ", ".join(f"{k} {v}" for k, v in packages.items())),
    ]
    return [(name, str(value)) for name, value in facts if value]


def _template(name: str) -> str:
    return (resources.files("optik.benchmark") / "templates" / name).read_text(encoding="utf-8")


def _json(data: Any) -> str:
    """JSON that can stand inside a script element: no tag can be closed or opened from it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _dash(i: int) -> str:
    return ("", "7 4", "2 3")[i // 8 % 3]
