"""Every QP backend against the exact answer, and against the ways in which backends go wrong."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from optik.errors import SolverError, UnknownNameError
from optik.solvers.qp import BACKENDS, QPStatus, make_backend

ACCURACY = {  # [rad]; the exact methods first
    "lsq-linear": 1e-9,
    "mujoco": 1e-9,
    "daqp": 1e-9,
    "osqp": 1e-7,
    "cvxpy": 1e-6,
    "piqp": 1e-6,
    "proxqp": 1e-6,
    "clarabel": 1e-6,
}


@pytest.fixture(params=list(BACKENDS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def random_qp(rng: np.random.Generator, m: int = 6, n: int = 7):
    """A step with a few bounds that bind and 0 in the box."""
    J, e = rng.normal(size=(m, n)), rng.normal(size=m)
    lower, upper = -rng.uniform(0.0, 0.3, n), rng.uniform(0.0, 0.3, n)
    lower[0] = 0.0  # a joint that stands on its limit
    return J, e, lower, upper


def natural_residual(J, e, damping, lower, upper, d) -> float:
    """|d - clip(d - g)|, zero exactly at the answer."""
    g = J.T @ (J @ d - e) + damping**2 * d
    return float(np.abs(d - np.clip(d - g, lower, upper)).max())


def test_accuracy_table_names_every_backend():
    assert set(ACCURACY) == set(BACKENDS)


@pytest.mark.parametrize("damping", [1e-3, 1e-2, 0.3])
def test_agrees_with_bounded_least_squares(name, damping):
    rng = np.random.default_rng(21)
    backend, exact = make_backend(name, 6, 7), make_backend("lsq-linear", 6, 7)
    bound = 0
    for _ in range(30):
        J, e, lower, upper = random_qp(rng)
        out = backend.step(J, e, damping, lower, upper)
        assert out.status is QPStatus.SOLVED, out
        wanted = exact.step(J, e, damping, lower, upper).d
        assert np.abs(out.d - wanted).max() <= ACCURACY[name]
        assert (out.d >= lower).all() and (out.d <= upper).all()
        bound += int(((wanted <= lower) | (wanted >= upper)).sum())
    assert bound > 30  # the bounds did matter


@pytest.mark.parametrize("name", ["lsq-linear", "mujoco", "daqp", "osqp"])
def test_meets_the_first_order_conditions(name):
    rng = np.random.default_rng(22)
    backend = make_backend(name, 6, 7)
    for _ in range(50):
        J, e, lower, upper = random_qp(rng)
        d = backend.step(J, e, 0.01, lower, upper).d
        assert natural_residual(J, e, 0.01, lower, upper, d) <= 1e-8


def test_no_bounds_is_plain_damped_least_squares(name):
    """Field log F17: bounds of +-inf on every joint give (J^T J + lambda^2 I)^-1 J^T e."""
    rng = np.random.default_rng(23)
    J, e = rng.normal(size=(6, 3)), rng.normal(size=6)
    inf = np.full(3, np.inf)
    wanted = np.linalg.solve(J.T @ J + 0.04 * np.eye(3), J.T @ e)
    out = make_backend(name, 6, 3).step(J, e, 0.2, -inf, inf)
    assert out.status is QPStatus.SOLVED
    assert np.abs(out.d - wanted).max() <= 1e-8


def test_one_sided_bounds(name):
    """Field log F17: (-inf, 0.1) and a number as large as OSQP's infinity mean the same."""
    rng = np.random.default_rng(24)
    J = rng.normal(size=(6, 3))
    e = J @ np.array([0.5, -0.3, 0.2])
    upper = np.full(3, 0.1)
    backend = make_backend(name, 6, 3)
    open_ = backend.step(J, e, 0.01, np.full(3, -np.inf), upper)
    exact = make_backend("lsq-linear", 6, 3).step(J, e, 0.01, np.full(3, -np.inf), upper)
    assert np.abs(open_.d - exact.d).max() <= ACCURACY[name]
    assert open_.d.max() == pytest.approx(0.1, abs=1e-6) and (open_.d <= upper).all()
    large = backend.step(J, e, 0.01, np.full(3, -1e20), upper)
    assert np.abs(open_.d - large.d).max() <= ACCURACY[name]


def test_lower_above_upper_is_infeasible(name):
    """Field log F13: a status, no exception, and no step."""
    J, e, lower, upper = random_qp(np.random.default_rng(25))
    lower[2], upper[2] = 0.2, 0.1
    out = make_backend(name, 6, 7).step(J, e, 0.01, lower, upper)
    assert out.status is QPStatus.INFEASIBLE
    assert not out.d.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_never_reach_the_backend(name, bad):
    J, e, lower, upper = random_qp(np.random.default_rng(26))
    J[1, 1] = bad
    out = make_backend(name, 6, 7).step(J, e, 0.01, lower, upper)
    assert out.status is QPStatus.FAILED
    assert np.isfinite(out.d).all() and not out.d.any()


def test_shut_joint_does_not_move(name):
    J, e, lower, upper = random_qp(np.random.default_rng(27))
    lower[3] = upper[3] = 0.0
    out = make_backend(name, 6, 7).step(J, e, 0.01, lower, upper)
    exact = make_backend("daqp", 6, 7).step(J, e, 0.01, lower, upper)
    assert out.d[3] == 0.0
    assert np.abs(out.d - exact.d).max() <= ACCURACY[name]


def test_answers_are_bit_equal_whatever_came_before(name):
    rng = np.random.default_rng(28)
    backend = make_backend(name, 6, 7)
    a = random_qp(rng)
    b = random_qp(rng)
    hard = (1e3 * b[0], 1e3 * b[1], b[2], b[3])  # makes an adaptive method adapt

    def solve(problem, damping):
        J, e, lower, upper = problem
        return backend.step(J, e, damping, lower, upper).d.tobytes()

    first = solve(a, 0.01)
    for problem, damping in ((b, 0.3), (hard, 1e-3)):
        solve(problem, damping)
        assert solve(a, 0.01) == first
    fresh = make_backend(name, 6, 7)
    J, e, lower, upper = a
    assert fresh.step(J, e, 0.01, lower, upper).d.tobytes() == first


def test_arguments_are_left_alone(name):
    J, e, lower, upper = random_qp(np.random.default_rng(29))
    copies = [a.copy() for a in (J, e, lower, upper)]
    for array in (J, e, lower, upper):
        array.setflags(write=False)
    make_backend(name, 6, 7).step(J, e, 0.01, lower, upper)
    for array, copy in zip((J, e, lower, upper), copies, strict=True):
        assert np.array_equal(array, copy)


def test_silent_at_file_descriptor_level(name, capfd):
    rng = np.random.default_rng(30)
    backend = make_backend(name, 6, 7)
    for _ in range(20):
        J, e, lower, upper = random_qp(rng)
        d = backend.step(J, e, 1e-3, lower, upper).d
        backend.keep(J, d, np.ones(7), rng.normal(size=7), lower, upper)
    out, err = capfd.readouterr()
    assert out == "" and err == ""


def test_unknown_backend_lists_the_near_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'mujoco'"):
        make_backend("mujcoo", 6, 7)


@pytest.mark.parametrize(
    ("backend", "package"),
    [("daqp", "daqp"), ("piqp", "piqp"), ("proxqp", "proxsuite"), ("clarabel", "qpsolvers")],
)
def test_missing_package_names_the_extra(backend, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SolverError, match=r"optik\[qp\]") as error:
        make_backend(backend, 6, 7)
    assert package in str(error.value)


@pytest.mark.parametrize("lies", [1, 1000])
def test_false_answers_of_mujoco_are_found_out(lies, monkeypatch):
    """It has been seen to stop at a corner that is no minimum and to report success."""
    import mujoco

    honest, calls = mujoco.mju_boxQP, []

    def stops_at_a_corner(d, factor, index, H, g, lower, upper):
        calls.append(1)
        if len(calls) <= lies:
            d[:] = upper
            return 7
        return honest(d, factor, index, H, g, lower, upper)

    J, e, lower, upper = random_qp(np.random.default_rng(31))
    wanted = make_backend("lsq-linear", 6, 7).step(J, e, 0.01, lower, upper).d
    backend = make_backend("mujoco", 6, 7)
    monkeypatch.setattr(mujoco, "mju_boxQP", stops_at_a_corner)
    out = backend.step(J, e, 0.01, lower, upper)
    if lies == 1:
        assert out.status is QPStatus.SOLVED and len(calls) == 2
        assert np.abs(out.d - wanted).max() <= 1e-9
    else:
        assert out.status is QPStatus.INACCURATE


def test_failure_of_mujoco_is_a_status(monkeypatch):
    import mujoco

    monkeypatch.setattr(mujoco, "mju_boxQP", lambda *_: -1)
    J, e, lower, upper = random_qp(np.random.default_rng(32))
    out = make_backend("mujoco", 6, 7).step(J, e, 0.01, lower, upper)
    assert out.status is QPStatus.FAILED and not out.d.any()
