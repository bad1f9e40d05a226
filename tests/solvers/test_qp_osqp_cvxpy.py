"""What OSQP and CVXPY are known to do wrong when they are left to their defaults."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from optik.solvers.qp import QPStatus
from optik.solvers.qp.cvxpy import Cvxpy
from optik.solvers.qp.osqp import Osqp


def box_step(rng: np.random.Generator, m: int = 6, n: int = 7):
    J, e = rng.normal(size=(m, n)), rng.normal(size=m)
    return J, e, 0.01, -rng.uniform(0.0, 0.3, n), rng.uniform(0.0, 0.3, n)


@pytest.mark.parametrize("accuracy", [1e-3, 1e-9])
def test_slide_never_creeps_past_its_limit(accuracy):
    """Field log F12: 200 steps of a slide in [0, 0.05] m that is pulled to -0.1 m."""
    backend = Osqp(1, 1, eps_abs=accuracy, eps_rel=accuracy, polishing=False)
    q = 0.0005
    for _ in range(200):
        out = backend.step(
            np.array([[1.0]]),
            np.array([-0.1 - q]),
            0.01,
            np.array([0.0 - q]),
            np.array([0.05 - q]),
        )
        q = q + float(out.d[0])
        assert q >= 0.0
    assert q <= accuracy


def test_raw_violation_is_told_and_put_back():
    """At OSQP's default accuracy the answer leaves the box; what comes back does not."""
    rng = np.random.default_rng(40)
    loose = Osqp(6, 7, eps_abs=1e-3, eps_rel=1e-3, polishing=False)
    ours = Osqp(6, 7)
    worst = 0.0
    for _ in range(50):
        J, e, damping, lower, upper = box_step(rng)
        out = loose.step(J, e, damping, lower, upper)
        assert (out.d >= lower).all() and (out.d <= upper).all()
        worst = max(worst, out.raw_violation)
        assert ours.step(J, e, damping, lower, upper).raw_violation <= 1e-12
    assert worst > 1e-5


@pytest.mark.parametrize(("option", "word"), [({"max_iter": 1}, "maximum iterations reached")])
def test_iteration_cap_is_told_and_the_iterate_kept(option, word):
    """Field log F13."""
    out = Osqp(6, 7, **option).step(*box_step(np.random.default_rng(41)))
    assert out.status is QPStatus.ITERATION_LIMIT
    assert out.message == word
    assert np.isfinite(out.d).all()


def test_every_status_of_osqp_is_mapped():
    import osqp

    from optik.solvers.qp.osqp import _STATUSES

    assert set(_STATUSES) == {s.name for s in osqp.SolverStatus}
    solved = [word for word, status in _STATUSES.items() if status is QPStatus.SOLVED]
    assert solved == ["OSQP_SOLVED"]


def test_every_status_of_cvxpy_is_mapped():
    import cvxpy.settings

    from optik.solvers.qp.cvxpy import _STATUSES

    words = set(cvxpy.settings.SOLUTION_PRESENT) | set(cvxpy.settings.INF_OR_UNB)
    words |= set(cvxpy.settings.ERROR)
    assert words <= set(_STATUSES)


def test_equal_bits_in_fifty_fresh_workspaces_while_the_machine_is_busy():
    """Field log F55: an adaptive rho driven by the clock would differ."""
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            np.linalg.svd(np.ones((40, 40)))

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        problem = box_step(np.random.default_rng(42))
        answers = {Osqp(6, 7).step(*problem).d.tobytes() for _ in range(50)}
    finally:
        stop.set()
        thread.join()
    assert len(answers) == 1


def test_rho_is_adapted_by_counted_iterations():
    settings = Osqp(6, 7)._task.settings
    assert settings.adaptive_rho == 1
    assert settings.adaptive_rho_interval > 0
    assert settings.scaling == 0


def test_workspace_is_set_up_once():
    """Field log F51."""
    rng = np.random.default_rng(43)
    backend = Osqp(6, 7)
    for _ in range(100):
        J, e, damping, lower, upper = box_step(rng)
        d = backend.step(J, e, damping, lower, upper).d
        backend.keep(J, d, np.ones(7), rng.normal(size=7), lower, upper)
    assert backend.builds == 2  # one for the task, one for the posture


def test_cvxpy_compiles_once(monkeypatch):
    """Field log F51: DPP, and one compilation for a hundred steps."""
    import cvxpy

    compilations = []
    construct = cvxpy.Problem._construct_chain

    def counted(self, *arguments, **options):
        compilations.append(1)
        return construct(self, *arguments, **options)

    monkeypatch.setattr(cvxpy.Problem, "_construct_chain", counted)
    rng = np.random.default_rng(44)
    backend = Cvxpy(6, 7)
    assert backend.program.is_dcp(dpp=True)
    for _ in range(100):
        backend.step(*box_step(rng))
    assert len(compilations) == 1


def test_cvxpy_solver_error_is_a_status(monkeypatch):
    import cvxpy

    backend = Cvxpy(6, 7)

    def fails(*_arguments, **_options):
        raise cvxpy.error.SolverError("Solver 'CLARABEL' failed.")

    monkeypatch.setattr(backend.program, "solve", fails)
    out = backend.step(*box_step(np.random.default_rng(45)))
    assert out.status is QPStatus.FAILED
    assert not out.d.any()
