"""A run: what every solve costs, whose fault a failure is, and where its rows go."""

import inspect
import os
import signal
import sys
import textwrap
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import optik
from optik.benchmark.columns import COLUMNS, MEANINGS, TIMES
from optik.benchmark.own import FunctionSolver, as_solver
from optik.benchmark.plan import make_plan
from optik.benchmark.run import run
from optik.benchmark.tables import summary_table
from optik.errors import BenchmarkError, SolverError, UnknownNameError
from optik.result import Claim, Result
from optik.solvers import Solver

FEW = optik.load_problem_set("arm7_lesson").first(6)


def without_times(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=[*TIMES, "timing"])


@dataclass(frozen=True, kw_only=True)
class Stub(Solver):
    """Answers at once, except on one problem of the set, where it misbehaves."""

    name: ClassVar[str] = "stub"
    summary: ClassVar[str] = "for tests"
    family: ClassVar[str] = "own"

    how: str = "start"
    when: float = FEW.positions[2][0]

    def prepare(self, robot, shape, budget):
        if self.how == "prepare raises":
            raise RuntimeError("no such backend\nat all")
        if self.how == "prepare exits":
            os._exit(7)

        def solve(problem, *, trace=False, deadline=None):
            if problem.targets[0].position[0] == self.when:
                misbehave(self.how)
            q = problem.q_start
            if self.how == "outside":
                q = problem.robot.upper + 0.25
            if self.how == "nan":
                q = np.full(problem.robot.n, np.nan)
            if self.how == "short":
                q = np.zeros(3)
            return Result(q, Claim.CONVERGED, "I say so", 1, 1)

        return solve


def misbehave(how):
    if how == "raises":
        raise ValueError("bad\nthings")
    if how == "exits":
        raise SystemExit(3)
    if how == "hangs":
        while True:
            time.sleep(0.01)
    if how == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "prints":
        os.write(1, b"noise on standard output\n")


def returns_the_start(problem):
    return problem.q_start, True


def test_a_row_has_every_column_and_the_order_of_the_plan():
    frame = run([FEW], ["clamped-dls", Stub()], repeats=2)
    assert tuple(frame.columns) == COLUMNS == tuple(MEANINGS)
    keys = list(zip(frame["repeat"], frame["problem"], frame["solver"], strict=True))
    names = ["clamped-dls", "stub"]
    assert keys == [(r, p, s) for r in range(2) for p in range(6) for s in names]
    first = frame.iloc[0]
    assert first["stratum"] == "reachable" and first["budget"] == "200 iterations"
    assert first["timing"] == "alone" and first["position_tolerance"] == 1e-4
    q = np.array(first["q"].split(), dtype=float)
    verdict = optik.evaluate(FEW.problem(0), q)
    assert first["position_error"] == verdict.position_error and first["solved"] == verdict.solved
    assert (frame[frame["solver"] == "clamped-dls"][list(TIMES)] > 0).all().all()


def test_processes_and_this_one_give_the_same_rows():
    apart = run([FEW], ["clamped-dls", "clamped-dls:damping=0.1"])
    here = run([FEW], ["clamped-dls", "clamped-dls:damping=0.1"], isolate=False)
    pd.testing.assert_frame_equal(without_times(apart), without_times(here))


def test_turns_rotate_and_stay_on_one_problem():
    plan = make_plan([FEW], ["clamped-dls", Stub(), returns_the_start])
    order = [plan.job(n) for n in plan.in_turn(range(len(plan)))]
    assert [j.problem for j in order] == sorted(j.problem for j in order)
    assert [j.solver for j in order[:9]] == [0, 1, 2, 1, 2, 0, 2, 0, 1]


# F59: the same judge for all, failures included; a cheat scores 0 and is named.
@pytest.mark.parametrize("isolate", [True, False])
def test_cheats_score_nothing_and_are_named(isolate):
    frame = run([FEW], [returns_the_start, Stub(how="outside")], isolate=isolate)
    assert not frame["solved"].any() and frame["false_claim"].all()
    reasons = frame.groupby("solver")["reason"].unique()
    assert list(reasons["returns_the_start"]) == ["false claim"]
    assert list(reasons["stub:how=outside"]) == ["outside the limits: j1 j2 j3 j4 j5 j6 j7"]
    table = summary_table(frame)
    assert [row["solved"] for row in table.rows] == [(0, 6), (0, 6)]
    assert "returns_the_start claimed 6 solutions that the judge refused." in table.notes
    assert any(n.startswith("stub:how=outside left the joint limits 6 times") for n in table.notes)


# F59: n for each stratum, and the same tolerance, start and budget in every row of a table.
def test_every_stratum_has_its_n():
    near = optik.load_problem_set("arm7_at_limit_1").first(4)
    frame = run([FEW, near], ["clamped-dls"])
    table = summary_table(frame, by=("stratum",))
    assert [(r["group"], r["solved"][1]) for r in table.rows] == [
        ("reachable", 6),
        ("at_limit_1", 4),
    ]
    assert "10 problems a solver (arm7_lesson 6, arm7_at_limit_1 4)" in table.notes[0]
    other = run([FEW], ["clamped-dls:damping=0.1"], budget=optik.Budget(50))
    with pytest.raises(BenchmarkError, match="budget differs"):
        summary_table(pd.concat([frame[frame["problem_set"] == "arm7_lesson"], other]))


@pytest.mark.parametrize(
    ("how", "reason"),
    [("raises", "raised ValueError: bad things"), ("exits", "raised SystemExit: 3"),
     ("dies", "its process was killed by SIGSEGV"), ("hangs", "killed: still running after")],
)  # fmt: skip
def test_a_solver_that_breaks_costs_one_row(how, reason):
    frame = run([FEW], [Stub(how=how), "clamped-dls"], kill_after=1.0)
    lost = frame[frame["claim"] == ""]
    assert list(zip(lost["problem"], lost["solver"], strict=True)) == [(2, f"stub:how={how}")]
    assert lost["reason"].iloc[0].startswith(reason)
    assert not lost["solved"].iloc[0] and lost["position_error"].iloc[0] == np.inf
    # A failure is charged the whole budget: it must not look cheap.
    assert lost["iterations"].iloc[0] == 200
    undisturbed = run([FEW], ["clamped-dls"], isolate=False)
    mine = frame[frame["solver"] == "clamped-dls"].reset_index(drop=True)
    pd.testing.assert_frame_equal(without_times(mine), without_times(undisturbed))


def test_a_hanging_solve_is_charged_its_time():
    frame = run([FEW], [Stub(how="hangs")], budget=optik.Budget(200, 0.4), kill_after=0.5)
    assert frame["solve_time"].iloc[2] >= 0.4


@pytest.mark.parametrize(
    ("how", "reason"),
    [("prepare raises", "set-up raised RuntimeError: no such backend at all"),
     ("prepare exits", "set-up its process exited with code 7")],
)  # fmt: skip
def test_a_solver_that_cannot_be_set_up_costs_its_own_rows(how, reason, capsys):
    frame = run([FEW], [Stub(how=how), "clamped-dls"])
    broken = frame[frame["solver"] != "clamped-dls"]
    assert (broken["reason"] == reason).all() and len(broken) == 6
    assert (frame[frame["solver"] == "clamped-dls"]["claim"] != "").all()
    assert f"6 solves without a usable answer: {reason}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "reason"),
    [("nan", "answered with numbers that are not finite"),
     ("short", "answered with shape (3,) instead of (7,)")],
)  # fmt: skip
def test_unusable_answers_are_failures(how, reason):
    frame = run([FEW], [Stub(how=how)], isolate=False)
    assert (frame["reason"] == reason).all() and not frame["solved"].any()


def test_what_a_solver_prints_does_not_disturb_the_rows(tmp_path):
    frame = run([FEW], [Stub(how="prints")], out=tmp_path / "run")
    assert len(frame) == 6
    assert "noise on standard output" in (tmp_path / "run" / "log.txt").read_text()


SCRIPT = """
    import sys
    from dataclasses import dataclass
    from typing import ClassVar
    import numpy as np
    import optik

    HALF = 0.5

    def middle(problem):
        return HALF * (problem.robot.lower + problem.robot.upper)

    @dataclass(frozen=True, kw_only=True)
    class Mine(optik.Solver):
        name: ClassVar[str] = "mine"
        summary: ClassVar[str] = "clamping with another damping"
        family: ClassVar[str] = "own"
        damping: float = 0.1

        def prepare(self, robot, shape, budget):
            from optik.solvers.clamped_dls import ClampedDLS
            return ClampedDLS(damping=self.damping).prepare(robot, shape, budget)

    if __name__ == "__main__":
        few = optik.load_problem_set("arm7_lesson").first(3)
        frame = optik.run([few], ["clamped-dls", Mine, Mine(damping=0.2), middle])
        print(frame.groupby("solver", sort=False)["iterations"].sum().to_dict())
"""


def test_a_researchers_own_solvers_from_a_file(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(textwrap.dedent(SCRIPT))
    names = [f"{script}:Mine", f"{script}:Mine:damping=0.01", f"{script}:middle", "clamped-dls"]
    frame = run([FEW], names)
    assert list(frame["solver"].unique()) == names
    # Their clamping with the same damping is ours.
    theirs = frame[frame["solver"] == names[1]]["q"].tolist()
    assert theirs == frame[frame["solver"] == "clamped-dls"]["q"].tolist()
    assert not frame[frame["solver"] == names[2]]["solved"].any()
    with pytest.raises(UnknownNameError, match="Mine"):
        run([FEW], [f"{script}:Mein"])


def test_a_researchers_own_script(tmp_path):
    import subprocess

    script = tmp_path / "mine.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("'clamped-dls'", "'mine'", "'mine:damping=0.2'", "'middle'"):
        assert name in done.stdout


def test_what_may_stand_for_a_solver():
    assert as_solver("clamped-dls:damping=0.1")[1] == "clamped-dls:damping=0.1"
    assert as_solver(Stub)[1] == "stub"
    solver, name = as_solver(returns_the_start)
    assert isinstance(solver, FunctionSolver) and name == "returns_the_start"
    assert isinstance(as_solver(lambda problem: problem.q_start)[0], FunctionSolver)
    for bad in (3, None, dict):
        with pytest.raises(SolverError, match="cannot be a solver"):
            as_solver(bad)


def test_a_function_may_return_a_configuration_a_claim_or_a_result():
    problem = FEW.problem(0)

    def call(answer):
        solver, _ = as_solver(lambda p: answer)
        return solver.prepare(problem.robot, problem.shape, optik.Budget())(problem)

    assert call(problem.q_start).status is Claim.NO_PROGRESS
    assert call((problem.q_start, True)).status is Claim.CONVERGED
    assert call((list(problem.q_start), False)).status is Claim.NO_PROGRESS
    result = Result(problem.q_start, Claim.TIME_LIMIT, "late", 3, 4)
    assert call(result) is result


def test_restarts_are_seeded_by_problem_and_repeat():
    budget = optik.Budget(20, None, 3)
    frame = run([FEW], ["clamped-dls", "box-lm"], budget=budget, repeats=2, seed=5)
    own = frame[frame["solver"] == "box-lm"]
    assert list(own["seed"].unique()) == [5, 6]
    frame = frame[frame["solver"] == "clamped-dls"]
    assert frame["seed"].is_unique
    for _, row in frame[frame["restarts"] > 0].iterrows():
        problem = FEW.problem(row["problem"])
        solution = optik.solve(problem, solver="clamped-dls", budget=budget, seed=int(row["seed"]))
        # `solve` finishes what is not solved with box steps of its own.
        assert solution.restarts == row["restarts"]
        if row["solved"]:
            assert solution.q.tolist() == [float(x) for x in row["q"].split()]
    assert frame["budget"].iloc[0] == "20 iterations, 3 restarts"
    assert (frame["restarts"] > 0).any()
    again = run([FEW], ["clamped-dls"], budget=optik.Budget(20, None, 3), seed=6)
    assert again["q"].tolist() == frame[frame["repeat"] == 1]["q"].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"problem_sets": []}, "at least one problem set"),
        ({"solvers": []}, "at least one solver"),
        ({"problem_sets": "arm7_lesson"}, "is a list"),
        ({"solvers": "clamped-dls"}, "is a list"),
        (
            {"solvers": ["clamped-dls", "clamped-dls"]},
            "two of the solvers are called 'clamped-dls'",
        ),
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"seed": -1}, "zero or more"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"resume": True}, "needs the folder"),
        ({"kill_after": 0}, "kill_after must be positive"),
        ({"workers": 2, "scheduler": "tcp://x:1"}, "give one of"),
        ({"scheduler": "nonsense"}, "no Dask scheduler answers at nonsense"),
    ],
)
def test_unusable_arguments_are_refused(arguments, message):
    given = {"problem_sets": [FEW], "solvers": ["clamped-dls"]} | arguments
    with pytest.raises(BenchmarkError, match=message):
        run(given.pop("problem_sets"), given.pop("solvers"), **given)


def test_names_that_do_not_exist_are_refused_before_anything_runs(tmp_path):
    good = ["clamped-dls"]
    wrong = [(["arm7_lessen"], good, None), ([FEW], ["clamped"], None), ([FEW], good, "hoem")]
    for sets, solvers, start in wrong:
        with pytest.raises(UnknownNameError):
            run(sets, solvers, start=start, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_only_the_first_two_arguments_are_positional():
    kinds = [p.kind for p in inspect.signature(run).parameters.values()]
    assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) == 2


def test_a_solvers_first_solve_is_thrown_away():
    asked = []

    def counting(problem):
        asked.append(problem.targets[0].position[0])
        return problem.q_start

    run([FEW], [counting], isolate=False)
    expected = FEW.positions[:, 0].tolist()
    assert asked == [expected[0], *expected]


def test_one_thread_for_linear_algebra():
    def looks(problem):
        from threadpoolctl import threadpool_info

        np.linalg.svd(np.eye(50))
        found = {t["filepath"]: t["num_threads"] for t in threadpool_info()}
        if set(found.values()) != {1}:
            raise RuntimeError(str(found))
        return problem.q_start

    for isolate in (True, False):
        assert set(run([FEW], [looks], isolate=isolate)["reason"]) == {"no_progress"}


def test_a_pipe_sees_one_line_at_each_end(capsys):
    run([FEW], ["clamped-dls"], title="trying")
    out, err = capsys.readouterr()
    assert out == ""
    first, last = err.splitlines()
    assert first == "trying: 6 solves" and last.startswith("trying: 6 solves in ")


def test_a_terminal_sees_how_far_it_is_and_how_fast(monkeypatch):
    import io

    from rich.console import Console

    from optik.benchmark import progress as module

    stream = io.StringIO()
    monkeypatch.setattr(
        module, "Console", lambda file: Console(file=stream, force_terminal=True, width=120)
    )
    with module.progress("trying", total=10, done=4) as advance:
        advance()
        advance(5)
        time.sleep(0.6)
    shown = stream.getvalue()
    assert "trying" in shown and "10/10" in shown and "left" in shown and "/s" in shown
