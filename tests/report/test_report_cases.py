"""The rule by which pairs and targets are chosen."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import optik
from optik.benchmark.report_cases import choose
from optik.benchmark.report_rule import discordant, story_pair
from optik.benchmark.report_runs import Runs, gather
from optik.benchmark.report_targets import problem_of
from optik.benchmark.run import read_run
from optik.problem import Posture
from optik.result import Status


@pytest.fixture(scope="module")
def runs(run_folder: Path) -> Runs:
    return gather([run_folder])


def rewritten(rows: pd.DataFrame, folder: Path, run_folder: Path) -> Runs:
    """A run's folder with other rows."""
    folder.mkdir()
    rows.to_csv(folder / "rows.csv", index=False)
    (folder / "environment.json").write_text((run_folder / "environment.json").read_text())
    return gather([folder])


def test_the_pair_is_the_best_clamped_against_the_best_other(
    runs: Runs, run_folder: Path, tmp_path: Path
) -> None:
    assert story_pair(runs) == ("clamped-dls", "box-qp")
    assert story_pair(runs, ("trf", "clamped-dls")) == ("trf", "clamped-dls")
    rows = read_run(run_folder)
    rows.loc[rows["solver"] == "box-qp", "solved"] = False
    assert story_pair(rewritten(rows, tmp_path / "worse", run_folder)) == ("clamped-dls", "trf")
    rows = rows[rows["solver"] != "clamped-dls"]
    assert story_pair(rewritten(rows, tmp_path / "none", run_folder)) == ("box-qp", "trf")
    rows = rows[rows["solver"] == "trf"]
    assert story_pair(rewritten(rows, tmp_path / "one", run_folder)) is None


def test_discordant_targets_are_those_of_the_rows(runs: Runs) -> None:
    solved = runs.frame.pivot(index=["problem_set", "problem"], columns="solver", values="solved")
    gained, lost = discordant(runs, ("clamped-dls", "box-qp"))
    a, b = solved["clamped-dls"], solved["box-qp"]
    assert set(gained) == set(solved.index[b & ~a]) and gained
    assert set(lost) == set(solved.index[a & ~b])
    assert discordant(runs, ("box-qp", "clamped-dls")) == (lost, gained)


def test_the_first_case_slides_and_the_other_solver_stands_still(runs: Runs) -> None:
    chosen = choose(runs, count=4)
    assert len(chosen.chosen) == 4
    first = chosen.chosen[0]
    assert first.gained
    assert any("L" in s or "U" in s for s in first.traces["box-qp"].limits)
    assert first.traces["clamped-dls"].solution.status is Status.FALSE_STALL
    assert {c.group for c in chosen.chosen} == set(runs.groups)


def test_targets_that_only_the_baseline_solves_are_shown_too(runs: Runs) -> None:
    chosen = choose(runs, count=6)
    assert chosen.lost
    lost = [c for c in chosen.chosen if not c.gained]
    assert len(lost) == 1
    case = lost[0]
    assert (case.group, case.index) in chosen.lost
    assert case.traces["clamped-dls"].solved and not case.traces["box-qp"].solved


def test_what_is_solved_again_ends_as_the_rows_say(runs: Runs) -> None:
    for case in choose(runs, count=6).chosen:
        assert case.differing == ()
        rows = runs.frame[
            (runs.frame["problem_set"] == case.group) & (runs.frame["problem"] == case.index)
        ].set_index("solver")
        for label, trace in case.traces.items():
            assert trace.solved == rows.loc[label, "solved"]
            assert trace.solution.iterations == rows.loc[label, "iterations"]


def test_an_outcome_that_cannot_be_repeated_is_told(
    runs: Runs, run_folder: Path, tmp_path: Path
) -> None:
    first = choose(runs, count=1).chosen[0]
    rows = read_run(run_folder)
    here = (rows["problem_set"] == first.group) & (rows["problem"] == first.index)
    rows.loc[here & (rows["solver"] == "trf"), "solved"] ^= True
    chosen = choose(rewritten(rows, tmp_path / "other", run_folder), count=1)
    assert any("trf solved again does not end as the run's row says" in n for n in chosen.notes)
    assert chosen.chosen[0].differing == ("trf",)


def test_a_set_that_is_not_at_hand_is_told(run_folder: Path, tmp_path: Path) -> None:
    rows = read_run(run_folder)
    rows["problem_set"] = rows["problem_set"].replace("arm7_lesson", "gone")
    chosen = choose(rewritten(rows, tmp_path / "gone", run_folder), count=4)
    assert any(n.startswith("Targets of gone are not drawn") for n in chosen.notes)
    assert chosen.chosen and all(c.group == "panda_at_limit_1" for c in chosen.chosen)


def test_a_set_that_has_changed_is_told(run_folder: Path, tmp_path: Path) -> None:
    text = (run_folder / "environment.json").read_text().replace("sha256:", "sha256:0")
    (tmp_path / "environment.json").write_text(text)
    read_run(run_folder).to_csv(tmp_path / "rows.csv", index=False)
    chosen = choose(gather([tmp_path]), count=4)
    assert not chosen.chosen
    assert sum("has changed since the run" in n for n in chosen.notes) == 2


def test_a_solver_that_cannot_be_built_is_told(run_folder: Path, tmp_path: Path) -> None:
    rows = read_run(run_folder)
    rows["solver"] = rows["solver"].replace({"trf": "mine.py:Gone"})
    chosen = choose(rewritten(rows, tmp_path / "a", run_folder), count=1)
    assert "Paths are not shown for mine.py:Gone." in chosen.notes
    rows["solver"] = rows["solver"].replace({"box-qp": "mine.py:Best"})
    chosen = choose(rewritten(rows, tmp_path / "b", run_folder), count=1)
    assert not chosen.chosen
    assert any("mine.py:Best cannot be built here" in n for n in chosen.notes)


def test_start_and_posture_of_the_run_are_asked_for_again(tmp_path: Path) -> None:
    problems = optik.load_problem_set("arm7_lesson").first(3)
    optik.run(
        [problems], ["clamped-dls", "box-qp"], start="mid", posture=Posture(weight=0.02),
        out=tmp_path / "run", isolate=False,
    )  # fmt: skip
    runs = gather([tmp_path / "run"])
    problem = problem_of(runs, problems, "arm7_lesson", 2)
    assert (problem.q_init == problems.robot.q_mid).all()
    assert problem.posture is not None and problem.posture.weight == 0.02


def test_a_posture_that_cannot_be_made_again_is_told(run_folder: Path, tmp_path: Path) -> None:
    rows = read_run(run_folder).assign(posture="given, weight 0.01")
    chosen = choose(rewritten(rows, tmp_path / "given", run_folder), count=2)
    assert not chosen.chosen
    assert any("posture cannot be made again" in n for n in chosen.notes)


def test_a_set_run_from_two_starts_is_two_groups(run_folder: Path, tmp_path: Path) -> None:
    problems = optik.load_problem_set("planar2_lesson")
    for start in ("home", "mid"):
        optik.run([problems], ["box-qp"], start=start, out=tmp_path / start, isolate=False)
    runs = gather([tmp_path / "home", tmp_path / "mid"])
    assert runs.groups == ("planar2_lesson from home", "planar2_lesson from mid")
    assert set(runs.sets.values()) == {"planar2_lesson"}


def test_one_robot_after_another_gives_a_target() -> None:
    from optik.benchmark.report_rule import _in_turn

    names = [
        "arm7_lesson",
        "arm7_at_limit_1",
        "panda_at_limit_1",
        "panda_at_limit_2",
        "so101_lesson",
    ]
    names = [n for n in names if n in optik.problem_sets.problem_set_names()]
    sets = {n: optik.load_problem_set(n) for n in names} | {"gone": None}
    keys = [(n, 0) for n in [*names, "gone"]]
    order = [name for name, _ in _in_turn(sets, keys)]
    robots = [n.split("_")[0] for n in order]
    assert sorted(order) == sorted(names) and len(set(robots[:3])) == 3
    assert order[0] == "arm7_lesson"
    assert [n for n, _ in _in_turn(sets, keys[2:3])] == [names[2]]
