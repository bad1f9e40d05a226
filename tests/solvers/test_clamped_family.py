"""The clamped family: the source document's numbers, each method's formula, false stalls."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from arms import planar_arm
from scipy.optimize import minimize_scalar

from optik.diagnosis import certificate
from optik.errors import SolverError
from optik.evaluation import evaluate
from optik.problem import Budget, Posture, Problem, Shape, Target, TargetShape, Tolerance
from optik.problem_sets import load_problem_set
from optik.residual import Linearization, Residual
from optik.result import Claim
from optik.solvers import SOLVERS, Deadline, parse_solver
from optik.solvers._clamped import Clamped, Here, damped_step, exact_projector
from optik.solvers.active_set import ActiveSetDLS
from optik.solvers.clamped_adaptive import ClampedAdaptive
from optik.solvers.clamped_dls import ClampedDLS
from optik.solvers.jacobian_transpose import JacobianTranspose
from optik.solvers.pseudo_inverse import PseudoInverse
from optik.solvers.sdls import SDLS, clamp_max_abs, row_blocks

CLAMPED = [name for name, cls in SOLVERS.items() if cls.family == "clamped"]
LESSON_FAILURES = [1, 3, 14, 20, 28, 36, 40, 49, 61, 66, 75, 81, 87, 97, 99]


@cache
def lesson():
    return load_problem_set("arm7_lesson")


def solve(solver: str, problem: Problem, budget: Budget | None = None, **options):
    prepared = parse_solver(solver).prepare(problem.robot, problem.shape, budget or Budget())
    return prepared(problem, **options)


def run_lesson(solver: str, *, budget: Budget | None = None, posture: Posture | None = None):
    problems = list(lesson().problems(posture=posture))
    prepared = parse_solver(solver).prepare(lesson().robot, problems[0].shape, budget or Budget())
    results = [prepared(p) for p in problems]
    return problems, results, [evaluate(p, r.q) for p, r in zip(problems, results, strict=True)]


# --- the source document


def test_clamped_dls_is_the_source_documents() -> None:
    _, results, judged = run_lesson("clamped-dls")
    assert [i for i, e in enumerate(judged) if not e.solved] == LESSON_FAILURES
    evaluations = [r.evaluations for r, e in zip(results, judged, strict=True) if e.solved]
    assert np.median(evaluations) == 23
    assert np.percentile(evaluations, 95) == pytest.approx(109.6)
    assert max(e.position_error for e in judged if e.solved) == pytest.approx(0.099e-3, abs=5e-7)
    assert np.degrees(max(e.rotation_error for e in judged if e.solved)) == pytest.approx(
        0.057, abs=5e-4
    )
    assert all(e.limit_violation == 0.0 for e in judged)


@pytest.mark.parametrize(("damping", "solved"), [(1e-4, 83), (1e-3, 83), (0.1, 80), (0.3, 62)])
def test_the_source_documents_damping_sweep(damping: float, solved: int) -> None:
    _, _, judged = run_lesson(f"clamped-dls:damping={damping}")
    assert sum(e.solved for e in judged) == solved


@pytest.mark.parametrize(
    ("projector", "gain", "solved", "distance"),
    [("exact", 0.0, 87, 3.12), ("damped", 0.1, 38, 2.54), ("exact", 0.1, 81, 2.91)],
)
def test_the_source_documents_posture(
    projector: str, gain: float, solved: int, distance: float
) -> None:
    _, _, judged = run_lesson(
        f"clamped-dls:projector={projector},posture_gain={gain}",
        budget=Budget(iterations=300),
        posture=Posture(),
    )
    assert sum(e.solved for e in judged) == solved
    mean = np.mean([e.posture_distance for e in judged if e.solved])
    assert mean == pytest.approx(distance, abs=0.005)


# --- formulas


def here(rng: np.random.Generator, n: int = 7, room: float = np.inf) -> Here:
    J, e = rng.normal(size=(6, n)), rng.normal(size=6) * 0.1
    at = Linearization(e, J, float(np.linalg.norm(e[:3])), float(np.linalg.norm(e[3:])))
    frame = lesson().problem(0).shape.targets[0].frame
    shape = Shape((TargetShape(frame, None, "pose"),))
    return Here(at, np.full(n, -room), np.full(n, room), shape)


def test_damped_step_minimises_the_damped_model() -> None:
    rng = np.random.default_rng(1)
    for damping in (1e-3, 0.1, 1.0):
        h = here(rng)
        stacked = np.vstack((h.at.J, damping * np.eye(7)))
        wanted = np.linalg.lstsq(stacked, np.concatenate((h.at.e, np.zeros(7))), rcond=None)[0]
        assert np.allclose(damped_step(h.at.J, h.at.e, damping), wanted, atol=1e-10)
        assert np.linalg.norm(wanted) <= np.linalg.norm(h.at.e) / (2 * damping)


def test_pseudo_inverse_is_numpys() -> None:
    h = here(np.random.default_rng(2))
    assert np.allclose(PseudoInverse().step(h), np.linalg.pinv(h.at.J) @ h.at.e, atol=1e-12)


def test_transpose_takes_the_best_length_along_its_direction() -> None:
    h = here(np.random.default_rng(3))
    direction = h.at.J.T @ h.at.e
    best = minimize_scalar(lambda a: float(np.sum((h.at.e - a * h.at.J @ direction) ** 2))).x
    assert np.allclose(JacobianTranspose().step(h), best * direction, rtol=1e-6)


def test_exact_projector_leaves_the_task_alone_and_the_damped_one_leaks() -> None:
    h = here(np.random.default_rng(4))
    N = exact_projector(h.at.J)
    assert np.abs(h.at.J @ N).max() < 1e-12
    assert np.allclose(N @ N, N, atol=1e-12) and round(np.trace(N)) == 1
    damping = 0.1
    leaking = ClampedDLS(damping=damping, projector="damped").null_space(h)
    expected = damping**2 * np.linalg.solve(h.at.J @ h.at.J.T + damping**2 * np.eye(6), h.at.J)
    assert np.allclose(h.at.J @ leaking, expected, atol=1e-12)


def test_adaptive_damping_wakes_up_below_its_threshold_only() -> None:
    h = here(np.random.default_rng(5))
    smallest = np.linalg.svd(h.at.J, compute_uv=False)[-1]
    volume = np.sqrt(np.linalg.det(h.at.J @ h.at.J.T))
    for law, measure in (("singular-value", smallest), ("manipulability", volume)):
        idle = ClampedAdaptive(law=law, threshold=0.9 * measure, damping=1e-3)
        assert np.allclose(idle.step(h), damped_step(h.at.J, h.at.e, 1e-3), atol=1e-12)
        half = ClampedAdaptive(law=law, threshold=2 * measure, damping=1e-3, damping_max=0.2)
        grown = 0.2 * (0.5 if law == "manipulability" else np.sqrt(0.75))
        assert np.allclose(half.step(h), damped_step(h.at.J, h.at.e, grown), atol=1e-10)


def test_sdls_takes_full_steps_when_small_and_never_long_ones() -> None:
    rng = np.random.default_rng(6)
    h = here(rng)
    tiny = Here(Linearization(1e-6 * h.at.e, h.at.J, 0.0, 0.0), h.low, h.high, h.shape)
    assert np.allclose(SDLS().step(tiny), np.linalg.pinv(h.at.J) @ tiny.at.e, rtol=1e-9)
    for gamma in (0.1, 0.7):
        far = Here(Linearization(50 * h.at.e, h.at.J, 0.0, 0.0), h.low, h.high, h.shape)
        step = SDLS(gamma_max=gamma).step(far)
        assert np.abs(step).max() <= gamma * (1 + 1e-12)
        assert float(step @ (h.at.J.T @ h.at.e)) > 0.0
    assert np.array_equal(clamp_max_abs(np.array([2.0, -4.0]), 1.0), [0.5, -1.0])


def test_sdls_near_a_singularity_is_calm_where_the_pseudo_inverse_is_not() -> None:
    h = here(np.random.default_rng(7))
    u, s, vt = np.linalg.svd(h.at.J, full_matrices=False)
    s[-1] = 1e-6
    at = Linearization(h.at.e, u @ np.diag(s) @ vt, 0.0, 0.0)
    singular = Here(at, h.low, h.high, h.shape)
    assert np.abs(PseudoInverse(cutoff=1e-9).step(singular)).max() > 1e3
    step = SDLS().step(singular)
    # Along the lost direction next to nothing, along the others the full step.
    assert abs(vt[-1] @ step) < 1e-3
    kept = vt[:-1].T @ ((u[:, :-1].T @ h.at.e) / s[:-1])
    assert np.allclose(step - vt[-1] * (vt[-1] @ step), kept, atol=1e-9)


def test_row_blocks_follow_the_targets() -> None:
    frame = lesson().problem(0).shape.targets[0].frame
    flat = (True, True, False, False, False, True)
    shape = Shape(
        (
            TargetShape(frame, None, "pose"),
            TargetShape(frame, None, "position"),
            TargetShape(frame, None, "axis"),
            TargetShape(frame, None, "pose", flat),
        )
    )
    ends = [(b.start, b.stop) for b in row_blocks(shape, "log")]
    assert ends == [(0, 3), (3, 6), (6, 9), (9, 12), (12, 15), (15, 17), (17, 18)]
    assert row_blocks(shape, "chordal")[1] == slice(3, 12)


@pytest.mark.parametrize("freeze", ["all", "worst"])
@pytest.mark.parametrize("hold", ["scale", "trust", "none"])
def test_active_set_step_is_inside_and_best_for_the_free_joints(freeze: str, hold: str) -> None:
    rng = np.random.default_rng(8)
    frozen_somewhere = 0
    for _ in range(100):
        h = here(rng)
        low, high = -rng.uniform(0, 0.05, 7), rng.uniform(0, 0.05, 7)
        low[rng.random(7) < 0.2] = 0.0
        tight = Here(h.at, low, high, h.shape)
        d = ActiveSetDLS(freeze=freeze, hold=hold, damping=0.1).step(tight)
        assert (d >= low).all() and (d <= high).all()
        free = (d > low) & (d < high)
        frozen_somewhere += not free.all()
        if hold == "none":
            gradient = h.at.J.T @ (h.at.J @ d - h.at.e) + 0.01 * d
            assert np.abs(gradient[free]).max(initial=0.0) < 1e-10
        if hold == "scale":
            assert np.linalg.norm(d) <= 0.2 + 1e-12 or not free.any()
    assert frozen_somewhere > 50


def test_active_set_without_limits_is_damped_least_squares() -> None:
    h = here(np.random.default_rng(9))
    step = ActiveSetDLS(hold="none").step(h)
    assert np.allclose(step, damped_step(h.at.J, h.at.e, 0.01), atol=1e-14)


# --- false stalls

STALLS = {
    # Planar arm, ranges, start, a configuration at the target, where clamped DLS freezes.
    "A": ([(-0.6, 0.6), (0.0, 1.2), (-0.4, 1.8)], [-0.579, 0.497, 1.132], [-0.6, 0.0, -0.4]),
    "B": ([(-0.6, 0.6), (0.0, 1.2), (-0.4, 1.8)], [0.232, 0.518, 1.704], [-0.6, 0.0, -0.144]),
}


def stall(case: str) -> Problem:
    ranges, start, goal = STALLS[case]
    robot = planar_arm(ranges)
    return Problem(
        robot,
        (Target(robot.forward(goal).position),),
        q_init=np.array(start),
        tolerance=Tolerance(position=1e-6),
    )


@pytest.mark.parametrize(("case", "error"), [("A", 0.22), ("B", 0.076)])
def test_clamping_freezes_where_a_step_inside_the_limits_would_help(
    case: str, error: float
) -> None:
    """The clamped map has a fixed point that is not stationary for the bounded problem (F01)."""
    problem = stall(case)
    result = solve("clamped-dls:damping=0.05", problem, Budget(iterations=500), trace=True)
    stopped = result.trace[-1]
    assert evaluate(problem, stopped).position_error == pytest.approx(error, abs=0.01)
    assert certificate(problem, stopped).relative_optimality > 1e-2
    at_end = solve("clamped-dls:damping=0.05,clamp=at-end", problem, Budget(iterations=500))
    assert not evaluate(problem, at_end.q).solved


@pytest.mark.parametrize("case", ["A", "B"])
@pytest.mark.parametrize(
    "solver",
    ["clamped-lm", "trf", "dogbox", "projected-lm", "mujoco-least-squares", "l-bfgs-b", "slsqp"],
)
def test_methods_that_test_their_steps_arrive(case: str, solver: str) -> None:
    problem = stall(case)
    result = solve(solver, problem, Budget(iterations=500))
    assert evaluate(problem, result.q).solved
    assert result.evaluations <= (500 if solver == "clamped-lm" else 120)


@pytest.mark.parametrize("solver", CLAMPED)
@pytest.mark.parametrize("start_on", ["upper", "lower"])
def test_a_joint_leaves_its_limit_within_one_step(solver: str, start_on: str) -> None:
    """Pushed into a limit for five steps, then asked back: it moves at once (F02)."""
    robot = planar_arm([(-0.6, 0.6), (0.3, 1.2), (0.2, 1.8)])
    side = robot.upper if start_on == "upper" else robot.lower
    q = np.array([side[0], 0.7, 0.9])
    pushing = robot.forward(q + np.array([0.3 if start_on == "upper" else -0.3, 0.0, 0.0]))
    pushed = solve(
        solver,
        Problem(robot, (Target(pushing.position),), q_init=q),
        Budget(iterations=5),
        trace=True,
    )
    at_stop = pushed.trace[-1].copy()
    at_stop[0] = side[0]
    back = robot.forward(np.array([0.0, 0.7, 0.9]))
    problem = Problem(robot, (Target(back.position),), q_init=at_stop)
    first = solve(solver, problem, Budget(iterations=1), trace=True)
    assert abs(first.trace[-1][0] - side[0]) > 1e-4


@pytest.mark.parametrize("solver", ["clamped-line-search", "clamped-lm"])
@pytest.mark.parametrize("options", ["", ":residual=chordal,rotation_weight=0.3"])
def test_cost_never_rises(solver: str, options: str) -> None:
    """A target a metre away: every configuration the method stands at is no worse (F46)."""
    robot = lesson().robot
    problem = Problem(robot, (Target([-0.5, 0.4, 0.4], quaternion=[0, 1, 0, 0]),))
    result = solve(solver + options, problem, trace=True)
    kind, weight = ("chordal", 0.3) if options else ("log", None)
    residual = Residual(robot, problem.shape, kind=kind, rotation_weight=weight)
    residual.load(problem)
    costs = np.array([residual.evaluate(q, jacobian=False).cost for q in result.trace])
    assert len(costs) > 3 and (np.diff(costs) <= 1e-12).all()


def test_line_search_falls_back_on_the_gradient_when_asked() -> None:
    problem = stall("A")
    plain = solve("clamped-line-search:damping=0.05", problem, Budget(iterations=3000))
    steep = solve(
        "clamped-line-search:damping=0.05,steepest=true", problem, Budget(iterations=3000)
    )
    assert plain.status is Claim.NO_PROGRESS
    assert evaluate(problem, steep.q).cost < evaluate(problem, plain.q).cost


@pytest.mark.parametrize("solver", CLAMPED)
def test_hold(solver: str) -> None:
    """Asked for the pose it has, the arm does not move, a thousand times over (F46)."""
    robot = lesson().robot
    q = robot.q_nominal
    pose = robot.forward(q)
    problem = Problem(robot, (Target(pose.position, quaternion=pose.quaternion),))
    prepared = parse_solver(solver).prepare(robot, problem.shape, Budget())
    for _ in range(1000):
        result = prepared(problem)
        assert np.array_equal(result.q, q) and result.iterations == 0


@pytest.mark.parametrize("solver", CLAMPED)
def test_one_step_at_most_after_the_deadline(solver: str) -> None:
    """The clock advances 1 s at each look; nothing is looked at after the sixth (F50)."""
    problem = Problem(lesson().robot, (Target([1.6, 0.0, 0.5], quaternion=[1, 0, 0, 0]),))
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    result = solve(solver, problem, deadline=Deadline(6.0, clock=clock))
    assert result.status is Claim.TIME_LIMIT
    assert result.evaluations <= 7


# --- clamping at the end


def test_clamp_at_end_turns_hinges_by_whole_turns_first() -> None:
    """A method without limits may wind up: a turn less is the same pose, and inside."""
    robot = planar_arm([(-np.pi, np.pi), (-np.pi, np.pi)], links=(0.5, 0.4))
    goal = np.array([-3.0, -0.6])
    problem = Problem(robot, (Target(robot.forward(goal).position),), q_init=np.array([2.8, -0.5]))
    result = solve("clamped-dls:clamp=at-end", problem)
    assert result.status is Claim.CONVERGED
    assert evaluate(problem, result.q).solved
    assert np.allclose(result.q, goal, atol=1e-2)
    assert result.raw_violation == 0.0


def test_clamp_at_end_says_what_the_limits_cost() -> None:
    problem = stall("A")
    result = solve("clamped-dls:damping=0.05,clamp=at-end", problem, Budget(iterations=500))
    assert result.status is Claim.NO_PROGRESS
    assert result.raw_violation > 0.1
    assert "Without its limits" in result.message
    assert evaluate(problem, result.q).limit_violation == 0.0


# --- the interface


def test_options_are_keywords_and_checked() -> None:
    """Nothing can slip into the wrong place, or switch the limits off (F58)."""
    with pytest.raises(TypeError):
        ClampedDLS(0.01)  # type: ignore[misc]
    for cls in (c for c in SOLVERS.values() if issubclass(c, Clamped)):
        with pytest.raises(SolverError, match="clamp"):
            cls(clamp="never")
        with pytest.raises(SolverError, match="step_limit"):
            cls(step_limit=-1.0)
        with pytest.raises(SolverError, match="hold"):
            cls(hold="tight")
    with pytest.raises(SolverError, match="each-step"):
        parse_solver("clamped-line-search:clamp=at-end")
    with pytest.raises(TypeError):
        parse_solver("clamped-dls").prepare(lesson().robot, lesson().problem(0).shape, Budget())(
            lesson().problem(0), True
        )


def test_the_word_none_is_an_option_where_it_is_one() -> None:
    solver = parse_solver("clamped-dls:hold=none,rotation_weight=none")
    assert isinstance(solver, ClampedDLS)
    assert solver.hold == "none" and solver.rotation_weight is None
    assert parse_solver(str(solver)) == solver


def test_numbers_that_break_down_are_a_result() -> None:
    problem = lesson().problem(0)
    result = solve("clamped-dls:damping=1e-200,hold=none", stall_at_singular(), Budget())
    assert result.status in (Claim.NUMERICAL_FAILURE, Claim.NO_PROGRESS, Claim.ITERATION_LIMIT)
    assert np.isfinite(result.q).all()
    assert solve("clamped-dls:damping=1e-200", problem).q.shape == (7,)


def stall_at_singular() -> Problem:
    """A straight arm: J J^T is singular, and not only to rounding."""
    robot = planar_arm([(-3.0, 3.0)] * 3)
    return Problem(robot, (Target([0.45, 0.0, 0.0]),))
