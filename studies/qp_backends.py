"""Eight ways to solve the same step: how exact is each QP backend, and what does a step cost?

    python studies/qp_backends.py [--quick]

Records 1000 QPs along the paths of the box QP over two problem sets, solves them with every
backend, and prints how far each is from SciPy's bounded least squares, how well it meets the
first-order conditions, how its raw answers keep the box, and its cost as a ratio to `mujoco`:
building it, the first step and the later ones apart.  Then the same solver with each backend on the
lesson's targets.  Writes studies/results/qp_backends/ (with --quick: 60 QPs and 5 targets, to a
temporary folder).
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import study_results
from rich.console import Console

import optik
from optik.benchmark.rendering import Column, Table, to_terminal
from optik.benchmark.tables import summary_table
from optik.problem_sets import ProblemSet
from optik.solvers.box_qp import BoxQP
from optik.solvers.qp import BACKENDS, QPStatus, make_backend
from optik.solvers.qp.base import Backend
from optik.solvers.qp.osqp import Osqp

REFERENCE, RATIO_TO = "lsq-linear", "mujoco"
LESSON = BoxQP(backend=REFERENCE)
WINNER = BoxQP(
    backend=REFERENCE,
    damping=0.001,
    error_damping=0.3,
    step_limit=0.5,
    residual="chordal",
    rotation_weight=0.1,
)
RECORDED = (("arm7_lesson", LESSON), ("panda_reachable", WINNER))
DEFAULTS = "osqp at default accuracy"

Arguments = tuple[np.ndarray, np.ndarray, float, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Measured:
    """One backend on the recorded QPs; times in seconds."""

    d: np.ndarray
    violation: float
    solved: int
    setup: float
    first: float
    step: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="60 QPs, results thrown away")
    quick = parser.parse_args().quick
    say = Console(stderr=True).print
    import_all()
    tables = []
    for name, solver in RECORDED[: 1 if quick else None]:
        problems = optik.load_problem_set(name)
        steps = record(problems, solver, 60 if quick else 1000)
        say(f"{name}: {len(steps)} QPs of {steps[0][0].shape}, {len(BACKENDS) + 1} backends")
        tables.append(backend_table(problems, steps, repeats=1 if quick else 5))
        print(to_terminal(tables[-1]))
    lesson = optik.load_problem_set("arm7_lesson")
    lesson = lesson.first(5) if quick else lesson
    solvers = ["clamped-dls", *(f"box-qp:backend={b}" for b in BACKENDS)]
    rows = optik.run([lesson], solvers, title="the lesson with every backend")
    tables.append(
        summary_table(
            rows, baseline="clamped-dls", name="solves", title="The same solver, every backend"
        )
    )
    print(to_terminal(tables[-1]))
    folder = study_results.write(
        "qp_backends",
        tables,
        title="QP backends of the constrained step",
        intro="Made by `python studies/qp_backends.py`; versions and processor in "
        "environment.json. One thread.",
        quick=quick,
        solvers=solvers,
    )
    say(f"written to {folder}")


def import_all() -> None:
    """Loads every backend's library, so that set-up times hold no imports."""
    for name in BACKENDS:
        make_backend(name, 1, 1)


def record(problems: ProblemSet, solver: BoxQP, count: int) -> list[Arguments]:
    """The QPs that a solver meets, problem after problem, until there are enough."""
    from optik.solvers.qp.lsq_linear import LsqLinear

    steps: list[Arguments] = []
    original = LsqLinear.step

    @functools.wraps(original)
    def recording(self: LsqLinear, *arguments):
        steps.append(arguments)
        return original(self, *arguments)

    LsqLinear.step = recording
    try:
        prepared = solver.prepare(problems.robot, problems.problem(0).shape, optik.Budget(60))
        for problem in problems.problems():
            prepared(problem)
            if len(steps) >= count:
                break
    finally:
        LsqLinear.step = original
    return steps[:count]


def builders(m: int, n: int) -> dict[str, Callable[[], Backend]]:
    """Every backend, the one that ratios refer to first, and OSQP at its default accuracy."""
    names = sorted(BACKENDS, key=lambda b: b != RATIO_TO)
    found: dict[str, Callable[[], Backend]] = {
        name: functools.partial(make_backend, name, m, n) for name in names
    }
    found[DEFAULTS] = functools.partial(
        Osqp, m, n, eps_abs=1e-3, eps_rel=1e-3, polishing=False, max_iter=4000
    )
    return found


def measure(build: Callable[[], Backend], steps: list[Arguments], repeats: int) -> Measured:
    """Solves every QP; later steps cost their smallest time over the repeats, by their median."""
    began = time.perf_counter()
    backend = build()
    setup = time.perf_counter() - began
    times = np.empty((repeats, len(steps)))
    first = 0.0
    answers = []
    for r in range(repeats):
        answers = []
        for i, arguments in enumerate(steps):
            began = time.perf_counter()
            answer = backend.step(*arguments)
            times[r, i] = time.perf_counter() - began
            answers.append(answer)
        first = first or float(times[0, 0])
    return Measured(
        d=np.array([a.d for a in answers]),
        violation=max(a.raw_violation for a in answers),
        solved=sum(a.status is QPStatus.SOLVED for a in answers),
        setup=setup,
        first=first,
        step=float(np.median(times[:, 1:].min(axis=0))),
    )


def kkt_residual(arguments: Arguments, d: np.ndarray) -> float:
    """|d - clip(d - g)|, g the gradient of the step's cost; zero exactly at the answer."""
    J, e, damping, lower, upper = arguments
    g = J.T @ (J @ d - e) + damping**2 * d
    return float(np.abs(d - np.clip(d - g, lower, upper)).max())


def backend_table(problems: ProblemSet, steps: list[Arguments], *, repeats: int) -> Table:
    m, n = steps[0][0].shape
    measured = {
        name: measure(build, steps, 1 if name == "cvxpy" else repeats)
        for name, build in builders(m, n).items()
    }
    exact, unit = measured[REFERENCE].d, measured[RATIO_TO].step
    rows = []
    for name, one in measured.items():
        away = np.abs(one.d - exact).max(axis=1)
        kkt = [kkt_residual(a, d) for a, d in zip(steps, one.d, strict=True)]
        rows.append(
            {
                "backend": name,
                "solved": f"{one.solved}/{len(steps)}",
                "away": (float(np.median(away)), float(np.quantile(away, 0.95))),
                "worst": float(away.max()),
                "kkt": max(kkt),
                "violation": one.violation,
                "ratio": one.step / unit,
                "first": one.first / unit,
                "setup": one.setup / unit,
            }
        )
    bound = sum(
        bool(((d <= lower) | (d >= upper)).any())
        for (_, _, _, lower, upper), d in zip(steps, exact, strict=True)
    )
    return Table(
        problems.name,
        f"{len(steps)} recorded steps on {problems.name}, J of shape {m} x {n}",
        (
            Column("backend", "backend"),
            Column("solved", "says solved"),
            Column("away", f"from {REFERENCE} [rad]\nmedian / p95", "number"),
            Column("worst", "worst\n[rad]", "number"),
            Column("kkt", "KKT residual\nworst", "number"),
            Column("violation", "raw violation\nworst [rad]", "number"),
            Column("ratio", f"time of a step\nto {RATIO_TO}", "number"),
            Column("first", "first\nstep", "number"),
            Column("setup", "set-up", "number"),
        ),
        tuple(rows),
        (
            f"At least one bound is active in {bound} of the {len(steps)} answers. Distances are "
            f"the largest over the joints.",
            "KKT residual: |d - clip(d - g)|, g the gradient of 1/2 |J d - e|^2 + 1/2 lambda^2 "
            "|d|^2. Raw violation: how far the backend's own answer left the box before it was "
            "put back.",
            f"Times as ratios to one step of {RATIO_TO} ({1e6 * unit:.0f} us here, the adapter's "
            "checks included): smallest of "
            f"{repeats} runs (cvxpy: one), median over the steps; first step and set-up once, "
            "imports before.",
        ),
    )


if __name__ == "__main__":
    main()
