"""A run's folder: interrupted anywhere, it goes on with nothing lost and nothing done twice."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import optik
from optik.benchmark import rows as rows_module
from optik.benchmark.columns import FIELDS, TIMES
from optik.benchmark.compare import compare, compare_runs
from optik.benchmark.journal import HEADER, Journal, read_run
from optik.benchmark.plan import make_plan
from optik.benchmark.rows import csv_bytes, read_csv, to_frame, to_table
from optik.benchmark.run import run
from optik.errors import BenchmarkError

FEW = optik.load_problem_set("arm7_lesson").first(8)
SOLVERS = ["clamped-dls", "clamped-dls:damping=0.1"]


def same(a: pd.DataFrame, b: pd.DataFrame, *, timing: bool = True) -> None:
    drop = [*TIMES, *([] if timing else ["timing"])]
    pd.testing.assert_frame_equal(a.drop(columns=drop), b.drop(columns=drop))


@pytest.fixture(scope="module")
def undisturbed():
    return run([FEW], SOLVERS, isolate=False)


def a_row(**values):
    empty = {"string": "", "float64": 0.0, "int64": 0, "bool": False}
    return tuple(values.get(name, empty[kind]) for name, kind, _ in FIELDS)


def test_rows_are_written_and_read_bit_equal(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        a_row(
            position_error=value,
            message='commas, "quotes" and nan',
            q=" ".join(map(repr, rng.normal(size=7).tolist())),
            claim=["", "nan", "null", "true"][i % 4],
            solved=bool(i % 2),
            problem=2**40 + i,
        )
        for i, value in enumerate([np.inf, -np.inf, np.nan, 5e-324, 0.1, 1 / 3, 1e300, -0.0])
    ]
    again = read_csv(io.BytesIO(HEADER + csv_bytes(to_table(rows), header=False)))
    pd.testing.assert_frame_equal(to_frame(again), to_frame(to_table(rows)))
    with_header = csv_bytes(to_table(rows), header=True)
    assert with_header.splitlines()[0].replace(b'"', b"") + b"\n" == HEADER
    # pandas' own reader sees the same numbers.
    (tmp_path / "x.csv").write_bytes(with_header)
    pandas = pd.read_csv(tmp_path / "x.csv", keep_default_na=False)
    assert pandas["problem"].tolist() == [r[1] for r in rows]
    assert pandas["solved"].tolist() == [bool(i % 2) for i in range(8)]


def test_a_run_in_a_folder_is_the_run_in_memory(tmp_path, undisturbed):
    frame = run([FEW], SOLVERS, out=tmp_path / "run")
    same(frame, undisturbed)
    pd.testing.assert_frame_equal(read_run(tmp_path / "run"), frame)
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert names == {"rows.csv", "environment.json", "log.txt"}
    found = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert found["finished"] and found["settings"]["solvers"] == SOLVERS
    assert found["settings"]["sets"]["arm7_lesson"]["seed"] == 0
    assert set(found["blas_threads"].values()) <= {1}
    for key in ("cpu", "packages", "python", "git", "budget", "sessions"):
        assert key in found
    assert "finished" in (tmp_path / "run" / "log.txt").read_text()


def test_a_long_run_is_parquet_and_read_alike(tmp_path, undisturbed, monkeypatch):
    monkeypatch.setattr(rows_module, "PARQUET_ABOVE", 10)
    frame = run([FEW], SOLVERS, out=tmp_path / "run")
    assert (tmp_path / "run" / "rows.parquet").exists()
    assert not (tmp_path / "run" / "rows.csv").exists()
    same(frame, undisturbed)
    pd.testing.assert_frame_equal(read_run(tmp_path / "run"), frame)


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    run([FEW], SOLVERS[:1], out=tmp_path / "run")
    before = (tmp_path / "run" / "rows.csv").read_bytes()
    with pytest.raises(BenchmarkError, match=r"holds a run already.*resume"):
        run([FEW], SOLVERS[:1], out=tmp_path / "run")
    assert (tmp_path / "run" / "rows.csv").read_bytes() == before


def test_a_finished_run_resumed_does_nothing(tmp_path):
    first = run([FEW], SOLVERS, out=tmp_path / "run")
    again = run([FEW], SOLVERS, out=tmp_path / "run", resume=True)
    pd.testing.assert_frame_equal(first, again)  # timings too: nothing was done twice


def test_a_run_may_grow(tmp_path, undisturbed):
    first = run([FEW], SOLVERS[:1], out=tmp_path / "run")
    grown = run([FEW], SOLVERS, out=tmp_path / "run", resume=True)
    same(grown, undisturbed)
    old = grown[grown["solver"] == SOLVERS[0]].reset_index(drop=True)
    pd.testing.assert_frame_equal(old, first)
    with pytest.raises(BenchmarkError, match="not leave any out"):
        run([FEW], SOLVERS[1:], out=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"budget": optik.Budget(50)}, "budget 200 iterations, not 50 iterations"),
     ({"start": "mid"}, "start None, not mid"), ({"seed": 3}, "seed 0, not 3"),
     ({"posture": optik.Posture()}, "posture none, not mid-range")],
)  # fmt: skip
def test_other_conditions_do_not_resume(tmp_path, change, message):
    run([FEW], SOLVERS[:1], out=tmp_path / "run")
    with pytest.raises(BenchmarkError, match=message):
        run([FEW], SOLVERS[:1], out=tmp_path / "run", resume=True, **change)


def test_other_problems_do_not_resume(tmp_path):
    run([FEW], SOLVERS[:1], out=tmp_path / "run")
    with pytest.raises(BenchmarkError, match="problems of arm7_lesson have changed"):
        run([FEW.first(5)], SOLVERS[:1], out=tmp_path / "run", resume=True)


# What a kill at any byte of a write leaves: whole lines, then part of one.
@pytest.mark.parametrize("cut", [1, 40, 400])
def test_a_line_cut_short_is_done_again(tmp_path, cut, undisturbed):
    folder = tmp_path / "run"
    run([FEW], SOLVERS, out=folder)
    content = (folder / "rows.csv").read_bytes()
    lines = content.splitlines(keepends=True)
    half = HEADER + b"".join(lines[1:8]) + lines[8][:cut]
    (folder / "journal.csv").write_bytes(half)
    (folder / "rows.csv").unlink()
    assert len(read_run(folder)) == 7
    frame = run([FEW], SOLVERS, out=folder, resume=True)
    same(frame, undisturbed)
    kept = frame[TIMES[1]].iloc[:7].tolist()
    assert kept == read_csv(folder / "rows.csv").to_pandas()[TIMES[1]].iloc[:7].tolist()


def test_a_damaged_line_is_done_again(tmp_path, undisturbed):
    folder = tmp_path / "run"
    run([FEW], SOLVERS, out=folder)
    lines = (folder / "rows.csv").read_bytes().splitlines(keepends=True)
    damaged = [HEADER, *lines[1:4], b"\x00" * 60 + b"\n", *lines[5:9], lines[2]]
    (folder / "journal.csv").write_bytes(b"".join(damaged))
    (folder / "rows.csv").unlink()
    same(run([FEW], SOLVERS, out=folder, resume=True), undisturbed)


def test_a_journal_beside_folded_rows_is_no_second_copy(tmp_path, undisturbed):
    # Killed between moving rows.csv into place and removing the journal.
    folder = tmp_path / "run"
    run([FEW], SOLVERS, out=folder)
    lines = (folder / "rows.csv").read_bytes().splitlines(keepends=True)
    (folder / "journal.csv").write_bytes(b"".join([HEADER, *lines[1:]]))
    frame = run([FEW], SOLVERS, out=folder, resume=True)
    same(frame, undisturbed)
    assert not (folder / "journal.csv").exists()


class Full:
    """A disk that takes so many bytes more, and then part of a write."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        taken = self.file.write(bytes(data[: self.room]))
        self.room -= taken
        return taken

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path, undisturbed, monkeypatch):
    folder = tmp_path / "run"
    opened = Journal.__init__

    def on_a_small_disk(self, *arguments, **options):
        opened(self, *arguments, **options)
        self._file = Full(self._file, 1500)

    monkeypatch.setattr(Journal, "__init__", on_a_small_disk)
    with pytest.raises(BenchmarkError, match=r"No space left on device.*safe.*resume"):
        run([FEW], SOLVERS, out=folder, isolate=False)
    monkeypatch.undo()
    left = (folder / "journal.csv").read_bytes()
    assert not left.endswith(b"\n"), "the disk took part of a line"
    saved = read_run(folder)
    assert 0 < len(saved) < 16
    frame = run([FEW], SOLVERS, out=folder, resume=True)
    same(frame, undisturbed)
    times = frame.set_index(["problem", "solver"])["solve_time"]
    for row in saved.itertuples():
        assert times[row.problem, row.solver] == row.solve_time


def test_two_runs_in_one_folder_are_refused(tmp_path):
    plan = make_plan([FEW], SOLVERS)
    journal = Journal(tmp_path / "run", plan, resume=False)
    with pytest.raises(BenchmarkError, match="another process is running"):
        Journal(tmp_path / "run", plan, resume=True)
    journal.close()
    Journal(tmp_path / "run", plan, resume=True).close()


def test_there_is_no_run_in_an_empty_folder(tmp_path):
    with pytest.raises(BenchmarkError, match="there is no run in"):
        read_run(tmp_path)


SCRIPT = """
import os, signal, sys, time
import optik

# Who starts the tests in the background has them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
gate, seen = sys.argv[2], []

def slow(problem):
    seen.append(problem)
    time.sleep(0.02)
    while len(seen) > 15 and not os.path.exists(gate):
        time.sleep(0.01)
    return problem.q_start

few = optik.load_problem_set("arm7_lesson").first(40)
optik.run([few], ["clamped-dls", slow], out=sys.argv[1], resume=True)
print("finished")
"""


def start_script(folder, script, gate=None):
    """Starts the run; it stands still after some rows until the file `gate` is there."""
    return subprocess.Popen(
        [sys.executable, script, folder, gate or script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_rows(folder, count, process):
    while process.poll() is None:
        journal = folder / "journal.csv"
        if journal.exists() and journal.read_bytes().count(b"\n") > count:
            return
        time.sleep(0.01)


def test_killed_again_and_again_and_resumed(tmp_path):
    """Small; `studies/bench_check.py` does it 20 times at random moments."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "run"
    times: dict[tuple[int, str], float] = {}
    for rows in (5, 30, 55):
        process = start_script(folder, script)
        wait_for_rows(folder, rows, process)
        process.kill()
        process.communicate()
        for row in read_run(folder).itertuples():
            times.setdefault((row.problem, row.solver), row.solve_time)
    process = start_script(folder, script)
    out, error = process.communicate()
    assert "finished" in out, error
    frame = read_run(folder)
    few = optik.load_problem_set("arm7_lesson").first(40)

    def slow(problem):
        return problem.q_start

    same(frame, run([few], ["clamped-dls", slow], isolate=False))
    # Nothing was done twice: what was there before a kill is there still, timings and all.
    assert len(times) >= 50
    for row in frame.itertuples():
        assert times.get((row.problem, row.solver), row.solve_time) == row.solve_time


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder, gate = tmp_path / "run", tmp_path / "gate"
    process = start_script(folder, script, gate)
    wait_for_rows(folder, 10, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in error
    assert "stopped by KeyboardInterrupt" in (folder / "log.txt").read_text()
    assert 10 <= len(read_run(folder)) < 80
    gate.touch()
    process = start_script(folder, script, gate)
    out, _ = process.communicate()
    assert "finished" in out and len(read_run(folder)) == 80
    sessions = json.loads((folder / "environment.json").read_text())["sessions"]
    assert sessions[0]["rows_before"] == 0 and sessions[1]["rows_before"] >= 10


def test_several_processes_give_the_same_rows(tmp_path, undisturbed):
    frame = run([FEW], SOLVERS, workers=2, out=tmp_path / "run")
    same(frame, undisturbed, timing=False)
    assert (frame["timing"] == "parallel").all()


@pytest.mark.parametrize("isolate", [True, False])
def test_any_executor_gives_the_same_rows(undisturbed, isolate):
    import multiprocessing

    with ThreadPoolExecutor(2) as threads:
        same(run([FEW], SOLVERS, executor=threads, isolate=isolate), undisturbed, timing=False)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as processes:
        same(run([FEW], SOLVERS, executor=processes, isolate=isolate), undisturbed, timing=False)


class Broken(ThreadPoolExecutor):
    """Loses what it is given after the first chunk."""

    given = 0

    def submit(self, function, /, *arguments, **options):
        self.given += 1
        if self.given > 1:
            return super().submit(self._lose)
        return super().submit(function, *arguments, **options)

    def _lose(self):
        raise RuntimeError("the node is gone")


def test_a_lost_chunk_is_named_and_the_rest_is_safe(tmp_path, undisturbed):
    with Broken(1) as executor, pytest.raises(BenchmarkError, match=r"node is gone.*resume"):
        run([FEW], SOLVERS, executor=executor, isolate=False, out=tmp_path / "run")
    assert 0 < len(read_run(tmp_path / "run")) < 16
    frame = run([FEW], SOLVERS, out=tmp_path / "run", resume=True)
    same(frame, undisturbed, timing=False)


def test_compare_pairs_by_problem(tmp_path, undisturbed):
    run([FEW], SOLVERS[:1], out=tmp_path / "a")
    run([FEW], SOLVERS[1:], out=tmp_path / "b")
    said = compare(tmp_path / "a", tmp_path / "b")
    assert "Different solvers: A clamped-dls, B clamped-dls:damping=0.1" in said
    a, b = read_run(tmp_path / "a"), read_run(tmp_path / "b")
    changes, changed = compare_runs(a, b)
    row = changes.rows[0]
    old, new = a["solved"].to_numpy(), b["solved"].to_numpy()
    assert (row["gained"], row["lost"]) == ((new & ~old).sum(), (old & ~new).sum())
    assert len(changed.rows) == (old != new).sum()
    same_run = compare_runs(a, a)[0].rows[0]
    assert same_run["same_q"] == 8 and same_run["evaluations"].ratio == 1.0
    other = compare_runs(a, a.assign(budget="50 iterations"))[0].notes
    assert any("NOT LIKE WITH LIKE: budget" in n for n in other)
    fewer = compare_runs(a, a[a["problem"] < 5])[0]
    assert "3 of 8 rows are in A alone." in fewer.notes
    with pytest.raises(BenchmarkError, match="no problem, start and solver in common"):
        compare_runs(a, a.assign(problem_set="other"))
