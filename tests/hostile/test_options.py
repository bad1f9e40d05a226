"""Solver options and solver strings: taken for what they are, or refused in our words."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from optik import OptikError, solve
from optik.problem import Budget, Problem, Target
from optik.solvers import SOLVERS, parse_solver
from tests.hostile.junk import JUNK


@pytest.mark.parametrize("name", SOLVERS)
def test_no_option_takes_what_its_type_does_not(name):
    cls = SOLVERS[name]
    for field in fields(cls):
        for value in JUNK:
            try:
                made = cls(**{field.name: value})
            except OptikError as error:
                assert cls.name in str(error) or "Valid" in str(error) or "solver" in str(error)
                continue
            kept = getattr(made, field.name)
            assert type(kept) in (int, float, bool, str, type(None)), (field.name, value)
            assert not (isinstance(kept, float) and abs(kept) > 1e12)
            assert "bool" in str(field.type) or not isinstance(kept, bool)
            hash(made)


def test_numpy_numbers_make_the_same_solver():
    plain, numpy = (
        SOLVERS["box-qp"](damping=d, step_limit=s) for d, s in ((0.5, 1), (np.float64(0.5), 1.0))
    )
    assert plain == numpy
    assert str(plain) == str(numpy)
    assert hash(plain) == hash(numpy)


@pytest.mark.parametrize(
    "text",
    [
        "", "\0", "box-qp:=", "box-qp:damping=", "box-qp:damping==1", "box-qp:damping=nan",
        "box-qp:damping=inf", "box-qp:damping=1e400", "box-qp:damping=1e-320", "box-qp:name=x",
        "box-qp:damping=1,damping=2", "box-qp:damping=1;residual=log", "box-qp:__class__=x",
        "box-qp:prepare=1", "box-lm:table_size=99999999", "box-lm:seed=-1", "box-lm:patience=2.5",
        "box-lm:patience=true", "restarts:solver=", "restarts:solver=restarts",
        "restarts:solver=restarts:solver=box-qp", "restarts:seed=1.5", "restarts:margin=nan",
        "restarts:solver=box-qp:damping=0.5,backend=osqp", "x.py:", "x.py", ".py:X", "/:X",
        "x" * 5000 + ".py:Y", "box_qp", "BOX-QP",
    ],
)  # fmt: skip
def test_texts_that_are_no_solver(text):
    with pytest.raises(OptikError) as caught:
        parse_solver(text)
    assert 10 < len(str(caught.value)) < 2000 or len(text) > 1000


@pytest.mark.parametrize(
    "text",
    [
        "box-qp:damping=0.1234567890123456",
        "restarts:solver=box-qp:damping=0.5;backend=osqp,seed=3,margin=0.1234567890123456",
        "box-lm:seed=9223372036854775807,rotation_weight=none",
    ],
)
def test_the_string_form_reads_back_to_the_bit(text):
    solver = parse_solver(text)
    assert parse_solver(str(solver)) == solver


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(:\n", "SyntaxError"),
        ("raise RuntimeError('no')\n", "RuntimeError: no"),
        ("x = 1\n", "unknown solver in"),
        ("import optik\nclass Mine(optik.solvers.Solver):\n    name = 'mine'\n", "abstract"),
    ],
)
def test_files_that_hold_no_solver(tmp_path, code, says):
    path = tmp_path / "räumlich lösen.py"
    path.write_text(code, encoding="utf-8")
    with pytest.raises(OptikError, match=says):
        parse_solver(f"{path}:Mine")


def test_extreme_options_fail_as_results(arm7):
    """Damping and steps at the ends of what is taken: never a crash, never outside the limits."""
    problem = Problem(arm7, Target([0.4, 0.1, 0.9], quaternion=[0.0, 1.0, 0.0, 0.0]))
    for name in ("box-lm", "box-qp", "clamped-dls", "clamped-lm", "clamped-adaptive", "trf"):
        options = {f.name: f.type for f in fields(SOLVERS[name])}
        for option, kind in options.items():
            for value in (1e-100, 1e12):
                if "float" not in str(kind):
                    continue
                try:
                    solver = SOLVERS[name](**{option: value})
                except OptikError:
                    continue
                if name == "box-lm":  # one kernel and one table for each set of numbers
                    solver = SOLVERS[name](**{option: value}, table_size=0, kernel="general")
                solution = solve(problem, solver=solver, budget=Budget(iterations=20))
                assert (solution.q >= arm7.lower).all() and (solution.q <= arm7.upper).all()
                assert not solution.false_claim
