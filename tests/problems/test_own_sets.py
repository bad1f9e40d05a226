"""Adding a set is one TOML and one command; a broken file is refused by file, line and field."""

import shutil

import numpy as np
import pytest

import optik
from optik import Robot
from optik.data import data_folder
from optik.errors import OptikError, ProblemSetError, RobotError
from optik.generate import generate
from optik.problem_sets import load_problem_set
from optik.set_files import read_spec

TOML = """# my own set
title = "twelve poses"
robot = "arm7"
stratum = "mine"
target = "pose"
generator = "reachable"
seed = 7
count = 12

[options]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.toml").write_text(TOML)
    return tmp_path


def test_one_toml_and_one_command(folder):
    made = generate("mine", folder=folder)
    assert made.written and "12 problems" in str(made)
    mine = load_problem_set("mine", folder)
    assert len(mine) == 12 and mine.spec.digest.startswith("sha256:")
    # what a person wrote stays as it was written
    text = (folder / "mine.toml").read_text()
    assert text.startswith("# my own set\n") and text.count("digest") == 1
    again = generate("mine", folder=folder)
    assert not again.written and again.largest_difference == 0.0
    solution = optik.solve(mine.problem(0), solver="box-qp")
    assert solution.q.shape == (7,)


def test_pools_are_recorded_once_and_regenerate(folder):
    text = TOML.replace('"reachable"', '"clamping_fails"').replace("count = 12", "count = 3")
    (folder / "mine.toml").write_text(text)
    generate("mine", folder=folder)
    generate("mine", folder=folder, write=True)
    text = (folder / "mine.toml").read_text()
    assert text.count("[pool]") == text.count("digest") == text.count("[options]") == 1
    assert read_spec("mine", folder).pool.selected == 3
    again = generate("mine", folder=folder)
    assert again.different_rows == () and again.largest_difference == 0.0


def test_rows_that_are_picked_differently_are_named(folder):
    text = TOML.replace('"reachable"', '"clamping_fails"').replace("count = 12", "count = 3")
    (folder / "mine.toml").write_text(text)
    generate("mine", folder=folder)
    path = folder / "mine.csv"
    lines = path.read_text().splitlines()
    cells = lines[2].split(",")
    cells[-1] = str(int(cells[-1]) + 100000)
    path.write_text("\n".join([lines[0], lines[1], ",".join(cells), lines[3]]) + "\n")
    with pytest.raises(ProblemSetError, match=r"1 of 3 rows were not picked again.*: 1"):
        generate("mine", folder=folder)


def test_another_seed_is_another_set_and_says_how_to_keep_it(folder):
    generate("mine", folder=folder)
    text = (folder / "mine.toml").read_text()
    (folder / "mine.toml").write_text(text.replace("seed = 7", "seed = 8"))
    with pytest.raises(ProblemSetError, match=r"differ from the committed ones.*--write"):
        generate("mine", folder=folder)
    assert generate("mine", folder=folder, write=True).written
    assert generate("mine", folder=folder).largest_difference == 0.0


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("count = 12", 'count = "12"', r"mine.toml, line 8, field 'count': .*int"),
        ("seed = 7", "sed = 7", r"mine.toml, line 7, field 'sed'"),
        ("seed = 7\n", "", r"mine.toml: .*seed"),
        ('target = "pose"', 'target = "poze"', r"mine.toml, line 5, field 'target'"),
        ("count = 12", "count = ", r"mine.toml: .*line 8"),
        ("count = 12", "count = 0", r"mine.toml, line 8, field 'count': needs at least 1"),
        ("count = 12", "count = 12\nposition_tolerance = 0.0", r"field 'position_tolerance'"),
        ('robot = "arm7"', 'robot = "arm8"', r"mine.toml, line 3, field 'robot': .*'arm7'"),
        ("count = 12", 'count = 12\njoints = ["j9"]', r"line 9, field 'joints': .*'j7'"),
    ],
)
def test_a_broken_toml_is_refused_by_file_line_and_field(folder, old, new, says):
    generate("mine", folder=folder)
    path = folder / "mine.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ProblemSetError, match=says):
        load_problem_set("mine", folder)


@pytest.mark.parametrize(
    ("line", "column", "value", "says"),
    [
        (3, 2, "x", r"mine.csv, line 3, column 'py': 'x' is not a number"),
        (4, 4, "nan", r"mine.csv, line 4, column 'qw': 'nan' is not finite"),
        (5, 4, "7.0", r"mine.csv, line 5, columns qw, qx, qy, qz: .*norm"),
        (1, 3, "pq", r"mine.csv, line 1: missing columns \['pz'\], unknown columns \['pq'\]"),
        (1, 9, "witness_j8", r"line 1: missing columns \['witness_j2'\]"),
        (7, 4, "", r"mine.csv, line 7, column 'qw': '' is not a number"),
        (6, 3, "0.1,0.2", r"mine.csv, line 6: 16 fields, the header has 15"),
        (6, 3, "0.1", r"mine.csv does not match the digest"),
    ],
)
def test_a_broken_csv_is_refused_by_file_line_and_field(folder, line, column, value, says):
    generate("mine", folder=folder)
    path = folder / "mine.csv"
    lines = path.read_text().splitlines()
    cells = lines[line - 1].split(",")
    cells[column] = value
    lines[line - 1] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ProblemSetError, match=says):
        load_problem_set("mine", folder)


def test_a_zero_axis_is_refused_by_line(folder):
    text = TOML.replace('"pose"', '"axis"')
    (folder / "mine.toml").write_text(text)
    generate("mine", folder=folder)
    path = folder / "mine.csv"
    lines = path.read_text().splitlines()
    cells = lines[3].split(",")
    cells[4:7] = "0.0", "0.0", "0.0"
    path.write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]) + "\n")
    with pytest.raises(ProblemSetError, match=r"mine.csv, line 4, columns bx, by, bz: .*zero"):
        load_problem_set("mine", folder)


def test_a_missing_csv_says_which_command_makes_it(folder):
    with pytest.raises(ProblemSetError, match="optik generate mine"):
        load_problem_set("mine", folder)


def test_a_missing_row_is_noticed(folder):
    generate("mine", folder=folder)
    text = (folder / "mine.toml").read_text()
    (folder / "mine.toml").write_text(text.replace("count = 12", "count = 13"))
    with pytest.raises(ProblemSetError, match=r"has 12 problems, mine.toml says 13"):
        load_problem_set("mine", folder)


@pytest.mark.parametrize(
    ("generator", "options", "says"),
    [
        ("reachible", "", "'reachable'"),
        ("at_limit", "", "needs the number options.joints"),
        ("at_limit", "joints = 9", "has 7 limited joints, not 9"),
        ("clamping_fails", "solver = 3", "needs the text options.solver"),
        ("starts", "position = [0.0, 1.0]", "options.position: 3 numbers"),
    ],
)
def test_wrong_generators_and_options_are_refused(folder, generator, options, says):
    text = TOML.replace('"reachable"', f'"{generator}"') + options + "\n"
    (folder / "mine.toml").write_text(text)
    with pytest.raises(OptikError, match=says):
        generate("mine", folder=folder)


@pytest.fixture
def robot_folder(tmp_path):
    return shutil.copytree(data_folder("models") / "gen3", tmp_path / "mygen3")


def test_a_robot_is_one_folder(robot_folder):
    robot = Robot.load(robot_folder / "robot.toml")
    original = Robot.load("gen3")
    assert robot.name == "mygen3" and robot.joint_names == original.joint_names
    q = np.linspace(-1, 1, 7)
    np.testing.assert_array_equal(robot.forward(q).position, original.forward(q).position)
    assert repr(robot).startswith("<Robot mygen3: joint_1, joint_2")
    with pytest.raises(RobotError, match="no robot file"):
        Robot.load(str(robot_folder.parent / "robot.toml"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('frame = "pinch_site"', "frame = 3", r"robot.toml, line 3, field 'frame': .*str"),
        ('frame = "pinch_site"', 'fram = "pinch_site"', r"line 3, field 'fram'"),
        ('frame = "pinch_site"', "", r"robot.toml: .*frame"),
        ('frame = "pinch_site"', 'frame = "pinch"', r"line 3, field 'frame': .*'pinch_site'"),
        ('"joint_3"', '"joint_9"', r"line 4, field 'joints': .*Did you mean"),
        ('"joint_3"', '"joint_2"', r"line 4, field 'joints': .*twice"),
        ('q_nominal = "home"', 'q_nominal = "hom"', r"line 5, field 'q_nominal': .*'home'"),
        ('q_nominal = "home"', "q_nominal = [0.0]", r"line 5, field 'q_nominal': .*7"),
        ('model = "gen3.xml"', 'model = "gen.xml"', r"line 2, field 'model': .*'gen.xml'"),
        ("joint_1 = [", "joint_8 = [", r"field 'sampling': .*'joint_7'"),
        ("joint_1 = [-3.", "joint_1 = [4.", r"field 'sampling': .*rising"),
        ('title = "', "title = ", r"robot.toml: .*line 1"),
    ],
)
def test_a_broken_robot_file_is_refused_by_file_line_and_field(robot_folder, old, new, says):
    path = robot_folder / "robot.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(RobotError, match=says):
        Robot.from_file(path)


def test_a_robot_without_a_source_is_refused(robot_folder):
    path = robot_folder / "robot.toml"
    lines = [' source = ""' if x.startswith("source") else x for x in path.read_text().splitlines()]
    path.write_text("\n".join(lines))
    with pytest.raises(RobotError, match=r"line 6, field 'source'.*where is the robot from"):
        Robot.from_file(path)


def test_a_model_that_does_not_compile_is_blamed_on_the_model_line(robot_folder):
    model = robot_folder / "gen3.xml"
    model.write_text(model.read_text().replace("<worldbody>", "<worldboody>"))
    with pytest.raises(RobotError, match=r"line 2, field 'model': .*does not compile"):
        Robot.from_file(robot_folder / "robot.toml")
