"""The page as a file: whole, self-contained, honest about n, intervals and environment."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from page_in_js import nodes, parse, text_of

import optik
from optik.benchmark.rendering import Column, Table
from optik.benchmark.report import _json, report
from optik.benchmark.report_tables import to_html
from optik.benchmark.run import read_run
from optik.benchmark.statistics import Ratio, wilson
from optik.errors import BenchmarkError, UnknownNameError


def test_every_tag_is_closed_and_every_id_is_used_once(html: str) -> None:
    ids = [n[1]["id"] for n in nodes(parse(html)) if "id" in n[1]]
    assert len(ids) == len(set(ids))
    assert {"data", "slider", "arm-0", "arm-1", "results", "environment"} <= set(ids)


def test_no_address_leads_outside_the_page(html: str) -> None:
    everything = nodes(parse(html))
    addresses = [
        value
        for node in everything
        for name, value in node[1].items()
        if name in ("src", "href", "action", "poster", "data", "srcset", "xlink:href", "formaction")
    ]
    assert addresses
    assert all(a.startswith("#") or a == "data:," for a in addresses), addresses
    assert not {"iframe", "object", "embed", "base", "form"} & {n[0] for n in everything}
    for style in nodes(parse(html), "style"):
        assert not re.search(r"url\(|@import|https?:", text_of(style))
    script = "".join(text_of(n) for n in nodes(parse(html), "script") if "type" not in n[1])
    forbidden = r"https?:|fetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\bimport\b|eval\("
    assert not re.search(forbidden, script)


def test_the_content_policy_forbids_every_request(html: str) -> None:
    policy = [
        n[1]["content"]
        for n in nodes(parse(html), "meta")
        if n[1].get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policy) == 1
    assert "default-src 'none'" in policy[0]
    assert "connect-src" not in policy[0] and "http" not in policy[0]


def test_links_within_the_page_have_an_end(html: str) -> None:
    tree = nodes(parse(html))
    ids = {n[1].get("id") for n in tree}
    assert {n[1]["href"][1:] for n in tree if n[1].get("href", "").startswith("#")} <= ids


def test_the_results_show_n_and_the_interval_of_every_solver(html: str, run_folder: Path) -> None:
    frame = read_run(run_folder)
    table = next(n for n in nodes(parse(html)) if n[1].get("id") == "table-together")
    rows = {text_of(r[2][0]): r for r in nodes(nodes([table], "tbody"), "tr")}
    assert set(rows) == set(frame["solver"].unique())
    for solver, part in frame.groupby("solver"):
        k, n = int(part["solved"].sum()), len(part)
        cell = rows[str(solver)][2][1]
        lo, hi = wilson(k, n)
        numbers = [float(v) for v in re.findall(r"[\d.]+", text_of(cell))]
        assert numbers == pytest.approx([100 * k / n, 100 * lo, 100 * hi], abs=0.06)
        assert float(cell[1]["data-v"]) == k / n
        assert nodes([cell], "span")[0][1]["title"] == f"{k} of {n}"
    assert "n = 35 problems a solver" in text_of(table)


def test_the_environment_stands_at_the_foot(html: str, run_folder: Path) -> None:
    foot = nodes(parse(html), "footer")[0]
    written = json.loads((run_folder / "environment.json").read_text())
    assert json.loads(text_of(nodes([foot], "pre")[0])) == written
    assert written["packages"]["mujoco"] in text_of(foot)


def test_the_headline_counts_what_the_rows_say(html: str, run_folder: Path) -> None:
    solved = read_run(run_folder).pivot(
        index=["problem_set", "problem"], columns="solver", values="solved"
    )
    a, b = solved["clamped-dls"], solved["box-qp"]
    head = next(n for n in nodes(parse(html), "p") if n[1].get("class") == "headline")
    assert f"box-qp solves {b.sum()} of {len(b)} targets, clamped-dls solves {a.sum()}" in text_of(
        head
    )
    assert f"{(b & ~a).sum()} are solved by box-qp only" in text_of(head)
    assert f"{(a & ~b).sum()} by clamped-dls only" in text_of(head)


def test_every_discordant_target_is_listed_and_the_shown_ones_are_linked(
    html: str, run_folder: Path
) -> None:
    solved = read_run(run_folder).pivot(
        index=["problem_set", "problem"], columns="solver", values="solved"
    )
    differ = solved[solved["clamped-dls"] != solved["box-qp"]].index
    table = next(n for n in nodes(parse(html)) if n[1].get("id") == "table-discordant")
    listed = [
        (text_of(r[2][1]), int(text_of(r[2][0]))) for r in nodes(nodes([table], "tbody"), "tr")
    ]
    assert sorted(listed) == sorted((str(s), int(p)) for s, p in differ)
    links = [n[1]["data-case"] for n in nodes([table], "a")]
    assert links == ["0", "1", "2", "3"]


def test_the_same_run_gives_the_same_page(run_folder: Path, html: str, tmp_path: Path) -> None:
    again = report([run_folder], out=tmp_path / "again.html", cases=4)
    assert again.read_text(encoding="utf-8") == html


def test_a_folder_as_the_way_out_gets_a_report_in_it(run_folder: Path, tmp_path: Path) -> None:
    assert report([run_folder], out=tmp_path, cases=0) == tmp_path / "report.html"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="explorer"' not in page and 'id="results"' in page


def test_a_run_of_one_solver_has_a_report_without_comparisons(tmp_path: Path) -> None:
    problems = optik.load_problem_set("planar2_lesson")
    optik.run([problems], ["box-qp"], out=tmp_path / "run", isolate=False)
    page = report([tmp_path / "run"], out=tmp_path / "page.html").read_text(encoding="utf-8")
    parse(page)
    assert "nothing to compare" in page and 'id="table-pairs"' not in page


def test_two_runs_of_one_solver_are_told_apart(tmp_path: Path) -> None:
    problems = optik.load_problem_set("arm7_lesson").first(5)
    for name in ("before", "after"):
        optik.run([problems], ["clamped-dls"], out=tmp_path / name, isolate=False)
    out = report([tmp_path / "before", tmp_path / "after"], out=tmp_path / "page.html", cases=1)
    page = out.read_text(encoding="utf-8")
    assert "clamped-dls [before]" in page and "clamped-dls [after]" in page
    assert page.count("<details><summary>environment.json") == 2


def test_wrong_input_is_named(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="at least one run"):
        report([], out=tmp_path / "x.html")
    with pytest.raises(BenchmarkError, match="no run in"):
        report([tmp_path], out=tmp_path / "x.html")
    with pytest.raises(BenchmarkError, match="negative"):
        report([run_folder], out=tmp_path / "x.html", cases=-1)
    with pytest.raises(BenchmarkError, match="two different"):
        report([run_folder], out=tmp_path / "x.html", pair=("box-qp", "box-qp"))
    with pytest.raises(UnknownNameError, match=r"clamped-dls"):
        report([run_folder], out=tmp_path / "x.html", pair=("clamped", "box-qp"))
    assert list(tmp_path.iterdir()) == []


def test_a_broken_environment_is_named(run_folder: Path, tmp_path: Path) -> None:
    frame = read_run(run_folder)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "environment.json").write_text("{")
    with pytest.raises(BenchmarkError, match=r"environment\.json is not JSON"):
        report([tmp_path], out=tmp_path / "x.html")


def test_text_from_a_run_cannot_become_markup() -> None:
    nasty = "</script><script>alert(1)</script>&\u2028"
    assert json.loads(_json({"name": nasty})) == {"name": nasty}
    assert not re.search("[<>&\u2028]", _json({"name": nasty}))
    table = Table(
        "t", nasty, (Column("solver", nasty),), ({"solver": nasty, "colour": 1},), (nasty,)
    )
    assert "<script>" not in to_html(table)
    assert text_of(nodes(parse(str(to_html(table))), "caption")[0]) == nasty


@pytest.mark.parametrize(
    ("kind", "value", "key"),
    [
        ("count", 3, "3"),
        ("share", (85, 100), "0.85"),
        ("seconds", (0.002, 0.5), "0.002"),
        ("ratio", Ratio(0.4, 0.3, 0.5, 9), "0.4"),
        ("number", float("inf"), "1e999"),
        ("number", float("nan"), ""),
        ("text", None, ""),
    ],
)
def test_a_cell_is_sorted_by_its_number(kind: Any, value: object, key: str) -> None:
    table = Table("t", "t", (Column("c", "c", kind),), ({"c": value},))
    cell = nodes(parse(str(to_html(table))), "td")[0]
    assert cell[1]["data-v"] == key


def test_a_report_of_many_rows_stays_small(run_folder: Path, tmp_path: Path) -> None:
    """Rows do not make the page grow: ten times as many targets, the same curves."""
    frame = read_run(run_folder)
    parts = [frame.assign(problem=frame["problem"] + 1000 * i) for i in range(10)]
    sizes = []
    for name, rows in (("one", frame), ("ten", pd.concat(parts))):
        (tmp_path / name).mkdir()
        rows.to_csv(tmp_path / name / "rows.csv", index=False)
        page = report([tmp_path / name], out=tmp_path / f"{name}.html", cases=0)
        sizes.append(page.stat().st_size)
    listed = len(parts) * 400  # bytes a line of the table of targets that differ, at most 400 lines
    assert sizes[1] < sizes[0] + 400 * listed
    assert sizes[1] < 1_000_000
