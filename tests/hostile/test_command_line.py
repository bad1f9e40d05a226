"""The command line and wrong input: exit codes 0, 1, 2, one JSON object, no traceback."""

from __future__ import annotations

import json

import pytest

from optik.cli import main

FAST = ["--solver", "box-qp"]


def run(capfd, *arguments):
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    return left.value.code, out, err


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["0.4", "0.1", "0.9"], 0),
        (["3", "0", "0"], 1),
        (["1e6", "0", "0"], 1),
        (["3", "0", "0", "--time-limit", "1e-9"], 1),
        (["3", "0", "0", "--restarts", "3", "--trace"], 1),
        (["0.4", "0.1", "0.9", "--posture", "--start", "random", "--seed", "7"], 0),
    ],
)
def test_json_is_one_valid_object(capfd, more, code):
    left, out, err = run(capfd, "solve", "arm7", "--json", *FAST, "--position", *more)
    assert (left, err) == (code, "")
    assert strict(out)["success"] == (code == 0)


@pytest.mark.parametrize(
    "more",
    [
        ["nan", "0", "0"],
        ["1e400", "0", "0"],
        ["1e300", "0", "0"],
        ["a", "b", "c"],
        ["0.4", "0.1"],
        ["0.4", "0.1", "0.9", "--quaternion", "2", "0", "0", "0"],
        ["0.4", "0.1", "0.9", "--axis", "0", "0", "0", "0", "0", "1"],
        ["0.4", "0.1", "0.9", "--time-limit", "0"],
        ["0.4", "0.1", "0.9", "--time-limit", "nan"],
        ["0.4", "0.1", "0.9", "--seed", "-1"],
        ["0.4", "0.1", "0.9", "--seed", "-1", "--start", "random"],
        ["0.4", "0.1", "0.9", "--restarts", "-1"],
        ["0.4", "0.1", "0.9", "--start", "nan", "0", "0", "0", "0", "0", "0"],
        ["0.4", "0.1", "0.9", "--start", "hom"],
        ["0.4", "0.1", "0.9", "--frame", "nowhere"],
        ["0.4", "0.1", "0.9", "--solver", "box-qp:="],
        ["0.4", "0.1", "0.9", "--solver", "box-qp:damping=1,damping=2"],
    ],
)
def test_wrong_input_leaves_with_2(capfd, more):
    code, out, err = run(capfd, "solve", "arm7", "--json", "--position", *more)
    assert code == 2
    assert out + err
    assert "{" not in out
