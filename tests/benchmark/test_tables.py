"""Tables: one description, four forms; bold only where the paired test says so."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from optik.benchmark.formats import cell_text, p_text, scale_of, share_text, significant
from optik.benchmark.rendering import Column, Table, latex_text, write_tables
from optik.benchmark.statistics import Ratio
from optik.benchmark.summary import (
    budget_curves,
    by_problem,
    cost_ratio,
    data_profiles,
    matrix,
    pairs,
    performance_profiles,
    tolerance_curves,
)
from optik.benchmark.tables import (
    footer,
    pairs_table,
    reasons_table,
    strata_table,
    summary_table,
    to_csv,
    to_latex,
    to_markdown,
    to_terminal,
)
from optik.errors import BenchmarkError, UnknownNameError


def rows_of(solved: dict[str, list[bool]], *, time=1e-3, **columns) -> pd.DataFrame:
    """A run's rows, made by hand: solver to one outcome a problem."""
    rows = []
    for solver, outcomes in solved.items():
        for i, good in enumerate(outcomes):
            rows.append(
                {
                    "problem_set": "set_a", "problem": i, "robot": "arm7", "solver": solver,
                    "start": "home", "repeat": 0, "stratum": "reachable", "solved": good,
                    "claim": "converged" if good else "no_progress", "false_claim": False,
                    "reason": "" if good else "no_progress",
                    "position_error": 1e-5 if good else 0.3, "rotation_error": 1e-4,
                    "limit_violation": 0.0, "iterations": 10, "evaluations": 11, "restarts": 0,
                    "solve_time": time * (1 + 0.01 * (i % 7)), "judge_time": 1e-5,
                    "timing": "alone", "seed": 0,
                    "position_tolerance": 1e-4, "rotation_tolerance": 1e-3,
                    "budget": "200 iterations", "posture": "none", "q": "0 0 0 0 0 0 0",
                }
                | columns
            )  # fmt: skip
    return pd.DataFrame(rows)


HALF = [True, False] * 20
ALL = [True] * 40


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345.6, "12346"), (0.012345, "0.0123"), (1.0, "1.00"), (9.999, "10.0"), (99.96, "100"),
     (1.2e-9, "1.20e-09"), (0, "0"), (float("inf"), "∞"), (float("nan"), "–"), (-3.14159, "-3.14"),
     (0.9996, "1.00"), (123.4, "123")],
)  # fmt: skip
def test_three_significant_digits(value, text):
    assert significant(value) == text


def test_shares_never_round_up_to_all():
    assert share_text(85, 100) == "85.0 [76.7, 90.7]"
    assert share_text(9999, 10_000).startswith("99.990 ")
    assert share_text(99_999, 100_000).startswith("99.999 ")
    assert share_text(999_999, 1_000_000).startswith("99.999 ")
    assert share_text(5, 5) == "100 [57, 100]"
    assert share_text(0, 0) == "–"


def test_small_p_values_are_bounded():
    assert [p_text(p) for p in (0.5, 0.0421, 0.0042, 0.0009, 1.0)] == [
        "0.5", "0.042", "0.004", "< 0.001", "1",
    ]  # fmt: skip


def test_a_column_has_one_unit():
    assert scale_of("seconds", [2e-3, 5e-3, 0.4]).unit == "ms"
    assert scale_of("metres", [3e-7, None, float("inf")]).unit == "nm"
    assert scale_of("radians", []).unit == "rad"
    assert cell_text("seconds", 2.5e-3, scale_of("seconds", [2e-3])) == "2.50"
    assert cell_text("number", (15.0, 33.25), scale_of("number", [])) == "15 / 33.2"
    assert cell_text("ratio", Ratio(0.4321, 0.4, 0.5, 9), scale_of("ratio", [])) == (
        "0.432 [0.400, 0.500]"
    )


TABLE = Table(
    "demo",
    "A & B",
    (
        Column("solver", "solver"),
        Column("solved", "solved", "share"),
        Column("t", "time", "seconds"),
    ),
    (
        {"solver": "box_qp", "solved": (9, 10), "t": 2e-3},
        {"solver": "other|one", "solved": (1, 10), "t": None},
    ),
    notes=("n = 10",),
    best=frozenset({(0, "solved")}),
)


def test_one_description_four_forms():
    assert to_terminal(TABLE).splitlines() == [
        "A & B",
        "",
        " solver         solved [%]   time [ms]",
        " ─────────────────────────────────────",
        " box_qp      90 [60, 98] *        2.00",
        " other|one    10 [2, 40]             –",
        "n = 10",
        "*: best of its group, and the paired test against every other row says so.",
    ]
    assert "\x1b[" in to_terminal(TABLE, colour=True)
    markdown = to_markdown(TABLE)
    assert (
        "| box_qp     |" in markdown and "**90 [60, 98]**" in markdown and r"other\|one" in markdown
    )
    latex = to_latex(TABLE)
    assert r"\textbf{90 [60, 98]}" in latex and r"\toprule" in latex and r"A \& B" in latex
    assert r"box\_qp" in latex and r"solved [\%]" in latex
    rows = list(csv.DictReader(io.StringIO(to_csv(TABLE))))
    assert rows[0]["solved_n"] == "10" and rows[0]["t_s"] == "0.002" and rows[1]["t_s"] == ""
    assert float(rows[0]["solved_lo"]) == pytest.approx(0.5958, abs=1e-4)


def test_latex_compiles_nothing_by_accident():
    assert latex_text(r"50 % of \x_1 < µ") == r"50 \% of \textbackslash{}x\_1 $<$ $\mu$"


def test_tables_are_written_whole_or_not_at_all(tmp_path):
    write_tables(tmp_path, [TABLE], title="One", extra={"note.txt": "kept"})
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert set(before) == {"tables.md", "demo.csv", "demo.tex", "note.txt"}
    with pytest.raises(OSError, match=r"missing|No such file"):
        write_tables(tmp_path, [TABLE], title="Two", extra={"missing/folder.txt": "x"})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    with pytest.raises(BenchmarkError, match="different names"):
        write_tables(tmp_path, [TABLE, TABLE], title="Three")


def test_the_summary_says_what_the_rows_say():
    frame = rows_of({"base": HALF, "good": ALL})
    table = summary_table(frame, baseline="base")
    base, good = table.rows
    assert base["solved"] == (20, 40) and good["solved"] == (40, 40)
    assert (good["gained"], good["lost"]) == (20, 0) and good["p"] == pytest.approx(2 / 2**20)
    assert "gained" not in base
    assert base["evaluations"] == (11.0, 11.0)
    assert base["solve_time"][0] == pytest.approx(frame["solve_time"].iloc[:40].median())


def test_bold_needs_the_paired_test():
    assert (1, "solved") in summary_table(rows_of({"base": HALF, "good": ALL})).best
    slightly = [True] * 3 + HALF[3:]  # one more solved: no evidence
    assert not any(
        key == "solved" for _, key in summary_table(rows_of({"a": HALF, "b": slightly})).best
    )


def test_a_solver_that_gives_up_early_is_not_the_fastest():
    slow = rows_of({"good": ALL}, time=1e-2)
    fast = rows_of({"quitter": [False] * 40}, time=1e-5)
    best = summary_table(pd.concat([slow, fast], ignore_index=True)).best
    assert best == {(0, "solved")}
    fair = rows_of({"quick": ALL}, time=1e-5)
    assert (1, "solve_time") in summary_table(pd.concat([slow, fair], ignore_index=True)).best
    both = pd.concat([fair, rows_of({"base": HALF}, time=1e-2)], ignore_index=True)
    assert summary_table(both).best == {(0, "solved"), (0, "solve_time")}
    parallel = pd.concat([slow, fair], ignore_index=True).assign(timing="parallel")
    assert not summary_table(parallel).best
    assert "not comparable" in footer(parallel)


def test_the_footer_holds_the_conditions():
    said = footer(rows_of({"a": HALF}))
    for part in (
        "n = 40",
        "start home",
        "0.1 mm and 1 mrad",
        "budget 200 iterations",
        "alone",
    ):
        assert part in said
    assert "seed" not in said
    drawn = rows_of({"a": HALF}, budget="200 iterations, 3 restarts")
    drawn.attrs["seed"] = 4
    restarted = footer(drawn)
    assert "3 restarts" in restarted and "seed of the restarts 4" in restarted
    frame = rows_of({"a": HALF})
    frame.attrs["set_seeds"] = {"set_a": 7}
    assert "seed of the targets 7" in footer(frame)


@pytest.mark.parametrize(
    ("change", "word"),
    [({"position_tolerance": 1e-3}, "position_tolerance"), ({"start": "mid"}, "start"),
     ({"budget": "1000 iterations"}, "budget")],
)  # fmt: skip
def test_unlike_rows_are_not_compared(change, word):
    frame = pd.concat([rows_of({"a": HALF}), rows_of({"b": HALF}, **change)], ignore_index=True)
    for compare in (summary_table, pairs_table, strata_table):
        with pytest.raises(BenchmarkError, match=f"like with like.*{word}"):
            compare(frame)


def test_missing_problems_are_not_compared():
    frame = rows_of({"a": HALF, "b": HALF[:-1]})
    with pytest.raises(BenchmarkError, match="a: 40, b: 39"):
        summary_table(frame)


def test_cheats_are_named():
    frame = rows_of({"honest": ALL})
    liar = rows_of({"liar": [False] * 40}, false_claim=True)
    leaver = rows_of({"leaver": [False] * 40}, limit_violation=0.3)
    notes = summary_table(pd.concat([frame, liar, leaver], ignore_index=True)).notes
    assert "liar claimed 40 solutions that the judge refused." in notes
    assert any(n.startswith("leaver left the joint limits 40 times") for n in notes)


def test_strata_and_reasons():
    frame = rows_of({"a": HALF, "b": ALL})
    frame["stratum"] = (
        ["interior"] * 10 + ["at_limit_1"] * 30 + ["interior"] * 10 + ["at_limit_1"] * 30
    )
    table = strata_table(frame)
    assert [(r["group"], r["n"], r["a"], r["b"]) for r in table.rows] == [
        ("interior", 10, (5, 10), (10, 10)),
        ("at_limit_1", 30, (15, 30), (30, 30)),
    ]
    assert reasons_table(frame).rows == ({"solver": "a", "reason": "no_progress", "count": 20},)


def test_pairs_are_adjusted_for_all_of_them():
    frame = rows_of({"a": HALF, "b": ALL, "c": [True] * 30 + HALF[30:]})
    found = pairs(frame)
    assert [(p.a, p.b) for p in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    ab, _, bc = found
    assert (ab.both, ab.gained, ab.lost, ab.neither) == (20, 20, 0, 0)
    assert (bc.gained, bc.lost) == (0, 5) and bc.p_holm >= bc.p
    with pytest.raises(UnknownNameError, match="'d'"):
        pairs(frame, baseline="d")
    table = pairs_table(frame, baseline="a")
    assert [r["b"] for r in table.rows] == ["b", "c"]
    assert table.rows[0]["solve_time_ratio"].ratio == pytest.approx(1.0)


def test_repeats_are_not_evidence():
    frame = pd.concat(
        [rows_of({"a": HALF, "b": ALL}, repeat=r) for r in range(3)], ignore_index=True
    )
    frame.loc[(frame["repeat"] == 0) & (frame["solver"] == "b"), "solved"] = False
    folded = by_problem(frame)
    assert len(folded) == 80 and folded[folded["solver"] == "b"]["solved"].all()
    assert pairs(frame)[0].n == 40
    assert "3 repeats" in footer(frame)


def test_failures_stay_in_ratios_unless_asked_out():
    frame = rows_of({"a": HALF, "b": ALL})
    frame.loc[(frame["solver"] == "a") & ~frame["solved"], "evaluations"] = 201
    assert cost_ratio(frame, "a", "b", "evaluations").ratio == pytest.approx(np.sqrt(202 / 12))
    assert cost_ratio(frame, "a", "b", "evaluations", solved_by_both=True).ratio == 1.0
    with pytest.raises(UnknownNameError, match="cost"):
        cost_ratio(frame, "a", "b", "setup_time")


def test_curves_end_at_the_success_rate():
    frame = rows_of({"a": HALF, "b": ALL})
    at_tolerance = tolerance_curves(frame, at=[0.05, 1.0, 1e4])
    assert at_tolerance.y["a"] == pytest.approx([0.0, 0.5, 1.0])  # 0.3 m is 3000 tolerances
    assert budget_curves(frame, at=[10, 11]).y["a"] == pytest.approx([0.0, 0.5])
    assert performance_profiles(frame, at=[1.0, 10.0]).y["b"] == pytest.approx([1.0, 1.0])
    assert data_profiles(frame, at=[1.0, 11 / 8]).y["b"] == pytest.approx([0.0, 1.0])
    outside = frame.assign(limit_violation=1e-9)
    assert tolerance_curves(outside, at=[1e4]).y["b"] == pytest.approx([0.0])


def test_two_runs_rows_are_not_one_table():
    frame = rows_of({"a": HALF})
    with pytest.raises(BenchmarkError, match="two rows for one problem"):
        matrix(pd.concat([frame, frame], ignore_index=True), "solved")
