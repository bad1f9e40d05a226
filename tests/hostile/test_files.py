"""Broken problem sets and robot files: refused with file, line and reason; never half read."""

from __future__ import annotations

import pytest

from optik import OptikError, Problem, Robot, Target, load_problem_set, solve
from optik.set_files import digest_of

TOML = """title = "t"
robot = "arm7"
stratum = "interior"
target = "position"
generator = "reachable"
seed = 0
count = 2
digest = "%s"
"""
CSV = "id,px,py,pz\n0,0.4,0.1,0.9\n1,0.3,0.1,0.9\n"


def load(folder, csv=CSV, more="", toml=TOML):
    content = csv if isinstance(csv, bytes) else csv.encode()
    (folder / "s.csv").write_bytes(content)
    text = toml % digest_of(content) + more
    (folder / "s.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    return load_problem_set("s", folder=folder)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "sp ace ünï"
    place.mkdir()
    return place


@pytest.mark.parametrize("csv", [CSV, "\ufeff" + CSV, CSV.replace("\n", "\r\n"), CSV.rstrip()])
def test_marks_and_line_ends_do_not_matter(folder, csv):
    assert load(folder, csv).positions.tolist() == [[0.4, 0.1, 0.9], [0.3, 0.1, 0.9]]
    assert load(folder, csv, toml="\ufeff" + TOML).ids.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("csv", "says"),
    [
        (CSV.replace("\n", ",\n"), "unknown columns"),
        (CSV + "\n", "line 4"),
        (CSV.replace("\n1", "\n\n1"), "line 3"),
        (CSV.replace("\n1", "\n0"), "each once"),
        (CSV.replace("\n1", "\n-1"), "each once"),
        (CSV.replace("\n1", "\n1.5"), "each once"),
        (CSV.replace("0.3", "1e400"), "'px': '1e400' is not finite"),
        (CSV.replace("0.3", "1e300"), "is beyond 1e\\+12"),
        (CSV.replace("0.3", "nan"), "not finite"),
        (CSV.replace("0.3", "-inf"), "not finite"),
        (CSV.replace("0.3", "0x3"), "not a number"),
        (CSV.replace("0.3", "1_0"), "not a number"),
        (CSV.replace("0.3", "٣"), "not a number"),
        (CSV.replace("0.3", ""), "not a number"),
        (CSV.replace("0.3", "\0"), "not a number"),
        (CSV.replace("0.3", '"0.3'), "fields"),
        (CSV.replace("0.3", "9" * 200_000), "comma-separated"),
        (CSV.replace(",", ";"), "unknown columns"),
        ("id,px,py,pz,px\n0,1,1,1,5\n1,2,2,2,5\n", "twice"),
        (CSV.replace("0.3", "é").encode("latin-1"), "line 3: is not UTF-8"),
        (CSV.encode("utf-16"), "UTF-8"),
        ("", "missing columns"),
        ("id,px,py,pz\n", "0 problems"),
    ],
)
def test_a_broken_table_is_refused_with_its_place(folder, csv, says):
    with pytest.raises(OptikError, match=says):
        load(folder, csv)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("zzz = 1\n", "line 9, field 'zzz'"),
        ("notes = 3\n", "line 9, field 'notes'"),
        ("position_tolerance = nan\n", "positive"),
        ("rotation_tolerance = -1\n", "positive"),
        ('start = "zzz"\n', "start"),
        ("x = = 3\n", "line 9"),
        ("x = " + "[" * 5000 + "]" * 5000 + "\n", "s.toml"),
        ('notes = "\udce9"\n', "s.toml"),
        ('joints = ["zz"]\n', "unknown joint"),
        ("joints = []\n", "no joint"),
    ],
)
def test_a_broken_description_is_refused(folder, more, says):
    with pytest.raises(OptikError, match=says):
        load(folder, more=more)


@pytest.mark.parametrize(
    "name", ["../problems/arm7_lesson", "a/b", "", ".", "..", "\0", "x" * 5000]
)
def test_a_set_is_a_name_not_a_path(name):
    with pytest.raises(OptikError):
        load_problem_set(name)


ROBOT = """title = "a robot"
model = "%s"
frame = "ee"
joints = ["j1", "j2", "j3"]
q_nominal = [0.1, 0.2, 0.3]
source = "here"
licence = "none"
"""


def own_robot(folder, text, model="arm.xml"):
    (folder / "arm.xml").write_text(
        """<mujoco><worldbody><body><joint name="j1" axis="0 0 1" range="-90 90"/>
        <geom size=".01"/><body pos=".3 0 0"><joint name="j2" axis="0 1 0" range="-90 90"/>
        <geom size=".01"/><body pos=".3 0 0"><joint name="j3" axis="0 1 0" range="-90 90"/>
        <geom size=".01"/><site name="ee" pos=".1 0 0"/></body></body></body></worldbody>
        </mujoco>"""
    )
    path = folder / "robot.toml"
    path.write_text(text % model, encoding="utf-8")
    return path


def test_a_robot_outlives_its_files(folder):
    path = own_robot(folder, ROBOT)
    robot = Robot.load(path)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    target = Target(robot.forward([0.2, 0.4, -0.3]).position)
    assert solve(Problem(robot, target), solver="box-qp").success


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ROBOT + "zzz = 1\n", "line 8, field 'zzz'"),
        (ROBOT.replace("[0.1, 0.2, 0.3]", "[0.1, 0.2]"), "field 'q_nominal'"),
        (ROBOT.replace("[0.1, 0.2, 0.3]", "[0.1, 0.2, nan]"), "field 'q_nominal'"),
        (ROBOT.replace("[0.1, 0.2, 0.3]", "7"), "field 'q_nominal'"),
        (ROBOT.replace('"ee"', '"eee"'), "field 'frame'"),
        (ROBOT.replace('"j3"', '"j9"'), "field 'joints'"),
        (ROBOT.replace('"here"', '" "'), "field 'source'"),
        (ROBOT.replace('"%s"', '"../%s"'), "field 'model'"),
        (ROBOT.replace('frame = "ee"\n', ""), "frame"),
        (ROBOT + "[sampling]\nj1 = [1, 0]\n", "sampling"),
        (ROBOT + "[sampling]\nj1 = [0, inf]\n", "sampling"),
    ],
)
def test_a_broken_robot_file_names_its_field(folder, text, says):
    with pytest.raises(OptikError, match=says):
        Robot.load(own_robot(folder, text))


def test_paths_that_cannot_be(tmp_path):
    for path in (
        "x" * 5000 + ".xml",
        "a\0b.xml",
        str(tmp_path),
        "\udce9.xml",
        tmp_path / "robot.toml",
    ):
        with pytest.raises(OptikError):
            Robot.load(path, frame="ee")
