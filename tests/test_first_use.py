"""What a person meets first: the README's code, the help, one's own model and one's own solver."""

from __future__ import annotations

import functools
import inspect
import io
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import optik
from optik import cli
from optik.benchmark.tables import summary_table, to_terminal
from optik.cli import main
from optik.data import data_folder
from optik.errors import SolverError
from optik.generate import generate
from optik.reachability.proof import _rounded_down

ROOT = Path(__file__).resolve().parent.parent

MJCF = """<mujoco><worldbody><body><joint name="j1" axis="0 0 1" range="-170 170"/>
<geom size=".01"/><body pos=".3 0 0"><joint name="j2" axis="0 0 1" range="-90 90"/>
<geom size=".01"/><site name="tool" pos=".2 0 0"/></body></body></worldbody></mujoco>"""

OWN = """
import numpy as np
from typing import ClassVar
from dataclasses import dataclass
import optik

def stay(problem):
    return problem.q_start

def short(problem):
    return [0.0, 0.0]

class Nameless(optik.Solver):
    def prepare(self, robot, shape, budget):
        return None

class Empty(optik.Solver):
    name = summary = family = "empty"
"""


@pytest.fixture
def arm_file(tmp_path):
    path = tmp_path / "elbow.xml"
    path.write_text(MJCF)
    return path


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    example = textwrap.dedent(optik.Solver.__doc__.split("`prepare`.\n")[1].split("    A plain")[0])
    path.write_text(OWN + example)
    return str(path)


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    return caught.value.code


def test_python_in_the_readme_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scene.xml").write_text(MJCF)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # each goes on from the one before
    said = [line[1] for line in re.finditer(r"^(?:print\(.*\)  )?# (.*)$", "\n".join(blocks), re.M)]
    assert capsys.readouterr().out.splitlines() == said


def test_commands_in_the_readme_are_understood(monkeypatch):
    """Each is parsed, and its command called; what the command would do is left out."""
    for name in ("list_", "solve", "generate", "run", "report", "compare"):
        given = getattr(cli, name)
        monkeypatch.setattr(cli, name, functools.wraps(given)(lambda *words, **options: 0))
    assert command("solve", "arm7", "--positoin", "0", "0", "0") == 2
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^optik (.*)$", text, re.M)
    assert len(lines) >= 6
    for line in lines:
        assert command(*line.split(" |")[0].split()) == 0, line


def test_version(capsys):
    assert command("--version") == 0
    assert capsys.readouterr().out == f"optik {optik.__version__}\n"


def test_types_reach_the_user():
    assert (Path(optik.__file__).parent / "py.typed").is_file()
    given = inspect.signature(optik.Problem).parameters
    assert "Sequence[Target]" in given["targets"].annotation
    assert "ArrayLike" in given["q_init"].annotation


def test_a_typo_in_a_public_name_is_one_that_python_can_correct():
    with pytest.raises(AttributeError) as caught:
        _ = optik.slove
    assert caught.value.name == "slove" and caught.value.obj is optik


def test_a_model_without_a_name_is_called_by_its_file(arm_file, capsys):
    assert optik.Robot.load(arm_file, frame="tool").name == "elbow"
    at = ("--position", "0.3", "0.2", "0", "--frame", "tool")
    assert command("solve", str(arm_file), *at) == 0
    assert capsys.readouterr().out.startswith("elbow: solved\n")
    assert command("solve", str(arm_file), *at, "--joints", "j2") == 0
    assert "j1" not in capsys.readouterr().out


def test_a_function_solves_on_the_command_line(own, capsys):
    assert command("solve", "arm7", "--position", "0.4", "0.1", "0.9", "--solver", f"{own}:stay")
    assert "own.py:stay: 0 iterations" in capsys.readouterr().out


def test_the_solver_that_the_help_shows_works(own):
    robot = optik.Robot.load("arm7")
    problem = optik.Problem(robot, optik.Target([0.4, 0.1, 0.9]))
    assert optik.solve(problem, solver=f"{own}:Transpose:gain=1").success


@pytest.mark.parametrize(
    ("name", "says"), [("Nameless", "class attribute name"), ("Empty", "method prepare")]
)
def test_a_solver_without_its_parts_is_told_which(own, name, says):
    with pytest.raises(SolverError, match=says):
        optik.run(["arm7_lesson"], [f"{own}:{name}"])
    with pytest.raises(SolverError, match=says):
        optik.solvers.parse_solver(f"{own}:{name}")


def test_an_answer_of_the_wrong_length_is_not_called_outside_the_limits(own, capsys):
    frame = optik.run(["planar2_lesson"], [f"{own}:stay", own + ":short"], isolate=False)
    assert not frame.query("solver.str.endswith('stay')")["limit_violation"].any()
    frame = optik.run(["arm7_lesson"], [f"{own}:short"], isolate=False)
    assert "100 solves without a usable answer: answered with shape (2,)" in capsys.readouterr().err
    assert summary_table(frame).rows
    assert not any("left the joint limits" in note for note in summary_table(frame).notes)


@pytest.mark.parametrize(
    ("metres", "text"),
    [(0.0999999, "99.99 mm"), (0.56699, "566.9 mm"), (1.2399, "1.239 m"), (2.0, "2 m")],
)
def test_a_bound_is_never_rounded_up(metres, text):
    assert _rounded_down(metres) == text


def test_answers_print_on_one_line():
    robot = optik.Robot.load("arm7")
    solution = optik.solve(optik.Problem(robot, optik.Target([0.4, 0.1, 0.9])))
    assert re.fullmatch(r"<Solution arm7: solved by box-lm, \S+ m, \S+ rad>", repr(solution))
    batch = optik.solve_batch(robot, np.array([[0.4, 0.1, 0.9], [9.0, 0.0, 0.0]]), threads=1)
    assert repr(batch) == "<Batch arm7: 1 of 2 targets solved>"


def test_two_joints_that_give_all_they_can_are_not_called_short_of_rank(arm_file):
    robot = optik.Robot.load(arm_file, frame="tool")
    solution = optik.solve(optik.Problem(robot, optik.Target([0.4, 0.1, 0.2])))
    assert "(the most that 2 joints can give)" in solution.message


def test_the_command_line_gives_the_default_solver_as_much_as_python_does(capsys):
    robot = optik.Robot.load("arm7")
    there = ("--position", "0.4", "0.1", "0.9", "--quaternion", "0", "0", "1", "0")
    target = optik.Target([0.4, 0.1, 0.9], quaternion=[0, 0, 1, 0])
    solution = optik.solve(optik.Problem(robot, target))
    assert command("solve", "arm7", *there) == 1
    assert f" {solution.restarts} restarts, " in capsys.readouterr().out


@pytest.mark.parametrize("what", ["robots", "solvers", "problems"])
def test_lists_cut_no_name_short(what):
    from rich.console import Console

    from optik import listing

    console = Console(width=80, record=True, file=io.StringIO())
    console.print(getattr(listing, f"{what}_table")())
    assert "…" not in console.export_text()


def test_the_set_in_the_readme_of_the_sets_is_made(tmp_path):
    text = (data_folder("problems") / "README.md").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    assert str(generate("mine", folder=tmp_path)) == "mine: 50 problems; written."
    rows = optik.run([optik.load_problem_set("mine", tmp_path)], ["box-lm"], isolate=False)
    assert rows["solved"].all()


def test_a_function_that_counts_nothing_wins_no_count(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("import optik\ndef same(problem):\n    return optik.solve(problem).q, True\n")
    frame = optik.run(["planar2_lesson"], [f"{path}:same", "box-qp"], isolate=False)
    table = summary_table(frame)
    assert table.rows[0]["evaluations"] is None and table.rows[1]["evaluations"] is not None
    assert (0, "evaluations") not in table.best
    assert "nan" not in to_terminal(table) and "None" not in to_terminal(table)


@pytest.mark.parametrize("body", ["return [0.0, 0.0]", "raise ValueError('oops')"])
def test_a_solver_that_never_answers_does_not_stop_a_report(tmp_path, monkeypatch, body, capsys):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(f"def wrong(problem):\n    {body}\n")
    few = optik.load_problem_set("arm7_lesson").first(5)
    for others in (["box-lm"], ["clamped-dls"], ["box-lm", "box-qp"]):
        folder = "-".join(others)
        optik.run([few], ["own.py:wrong", *others], out=folder, isolate=False)
        assert command("report", folder, "--out", f"{folder}.html") == 0
        assert "own.py:wrong" in Path(f"{folder}.html").read_text(encoding="utf-8")


def test_words_are_words(arm_file):
    robot = optik.Robot.load(arm_file, frame="tool")
    problem = optik.Problem(robot, optik.Target([0.4, 0.1, 0.2]))
    assert optik.solve(problem).status == "singular" and f"{optik.Claim.CONVERGED}" == "converged"
    said = optik.diagnose(problem, [0.0, 1.6]).sentence
    assert said.startswith("The configuration has j2 0.0292 rad beyond its upper limit. ")
    batch = optik.solve_batch(robot, [[0.4, 0.1, 0.0]], solver="box-lm:seed=1", threads=1)
    assert batch.solved.all()
    with pytest.raises(SolverError, match="BoxLM"):
        optik.solve_batch(robot, [[0.4, 0.1, 0.0]], solver="box-qp")
