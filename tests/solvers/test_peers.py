"""Other people's solvers: judged like everyone, and never able to take a run down."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from optik.errors import SolverError, UnknownNameError
from optik.evaluation import evaluate
from optik.problem import Budget, Problem, Target
from optik.problem_sets import load_problem_set
from optik.result import Claim
from optik.robot import Robot
from optik.solvers import SOLVERS, Deadline, parse_solver
from optik.solvers import _peer_environment as environments
from optik.solvers import _peer_process as processes
from optik.solvers import peers_worker as workers
from optik.solvers._peer_environment import peer_environment
from optik.solvers._urdf import chain_order, robot_urdf, roll_pitch_yaw
from optik.solvers.peers_worker import Peer, parse_options

TUNED = (
    "posture_cost=0,limit_gain=1,damping=1e-6,lm_damping=0.15,orientation_cost=0.1,step_limit=0.5"
)
STUDIES = Path(__file__).parents[2] / "studies" / "peers"
BUDGET = Budget(100)


@pytest.fixture(scope="module")
def lesson():
    return load_problem_set("arm7_lesson")


# The robot as URDF


@pytest.mark.parametrize("name", ["arm7", "panda", "iiwa14", "ur5e", "so101"])
def test_urdf_is_the_same_robot(name):
    robot = Robot.load(name)
    text = robot_urdf(robot).replace(
        "</robot>", '<mujoco><compiler fusestatic="false"/></mujoco></robot>'
    )
    again = Robot.load(mujoco.MjModel.from_xml_string(text), frame="body:tool")
    assert again.joint_names == tuple(robot.joint_names[i] for i in chain_order(robot))
    order = chain_order(robot)
    assert np.allclose(again.lower, robot.lower[order], atol=1e-12)
    assert np.allclose(again.upper, robot.upper[order], atol=1e-12)
    rng = np.random.default_rng(71)
    for _ in range(20):
        q = robot.sample(rng)
        a, b = robot.forward(q), again.forward(q[order])
        assert np.abs(a.position - b.position).max() < 1e-12
        assert abs(abs(a.quaternion @ b.quaternion) - 1.0) < 1e-12


def test_roll_pitch_yaw_at_every_attitude():
    rng = np.random.default_rng(72)
    attitudes = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(50)]
    attitudes = [R * np.linalg.det(R) for R in attitudes]
    attitudes += [np.array([[0, 0, s], [0, 1, 0], [-s, 0, 0]], dtype=float) for s in (1, -1)]
    for R in attitudes:
        r, p, y = roll_pitch_yaw(R)
        rx = np.array([[1, 0, 0], [0, np.cos(r), -np.sin(r)], [0, np.sin(r), np.cos(r)]])
        ry = np.array([[np.cos(p), 0, np.sin(p)], [0, 1, 0], [-np.sin(p), 0, np.cos(p)]])
        rz = np.array([[np.cos(y), -np.sin(y), 0], [np.sin(y), np.cos(y), 0], [0, 0, 1]])
        assert np.abs(rz @ ry @ rx - R).max() < 1e-12


def test_robots_that_urdf_cannot_say_are_refused():
    with pytest.raises(SolverError, match="unlimited"):
        robot_urdf(Robot.load("gen3"))
    arm = Robot.load("arm7")
    short = Robot.load(arm.model, frame=f"body:{arm.model.body(4).name}", joints=arm.joint_names)
    with pytest.raises(SolverError, match="all on the chain"):
        robot_urdf(short)


# mink and Pink, in this environment


@pytest.mark.parametrize("name", ["mink", "pink"])
def test_tuned_peers_solve_what_the_box_step_solves(name, lesson):
    problems = list(lesson.first(30).problems())
    peer = parse_solver(f"{name}:{TUNED}").prepare(lesson.robot, problems[0].shape, Budget(200))
    solved = 0
    for problem in problems:
        before = problem.q_init.copy()
        result = peer(problem)
        verdict = evaluate(problem, result.q)
        assert np.array_equal(problem.q_init, before)
        assert result.raw_violation < 1e-9
        if result.status is Claim.CONVERGED:
            # Its number is not put inside: the strict judge may refuse the last bit.
            assert verdict.solved or 0.0 < verdict.limit_violation < 1e-9
        solved += verdict.solved
    assert solved >= 26


def test_mink_and_pink_take_the_same_steps(lesson):
    """The same QP on two kinematics libraries: the paths agree."""
    problem = lesson.problem(5)
    paths = [
        parse_solver(f"{name}:{TUNED}").prepare(lesson.robot, problem.shape, Budget(5))(
            problem, trace=True
        )
        for name in ("mink", "pink")
    ]
    assert np.allclose(paths[0].trace[:5], paths[1].trace[:5], atol=1e-6)


@pytest.mark.parametrize("name", ["mink", "pink"])
def test_peers_keep_time_and_trace_and_forget(name, lesson):
    a, b = lesson.problem(0), lesson.problem(14)
    peer = parse_solver(f"{name}:{TUNED}").prepare(lesson.robot, a.shape, Budget(30))
    first, _, third = peer(a, trace=True), peer(b), peer(a)
    assert first.q.tobytes() == third.q.tobytes() and third.trace is None
    assert len(first.trace) == first.iterations + 1
    ticks = iter(range(10**6))
    late = peer(b, deadline=Deadline(2.0, clock=lambda: float(next(ticks))))
    assert late.status is Claim.TIME_LIMIT and late.iterations <= 2


@pytest.mark.parametrize("name", ["mink", "pink", "peer"])
def test_targets_that_peers_do_not_take(name, arm7):
    solver = parse_solver(name)
    for target in (
        Target([0.4, 0.1, 0.9], axis=([0, 0, 1], [0, 0, -1])),
        Target([0.4, 0.1, 0.9], quaternion=[1, 0, 0, 0], mask=[True] * 5 + [False]),
    ):
        with pytest.raises(SolverError, match="one target"):
            solver.prepare(arm7, Problem(arm7, (target,)).shape, BUDGET)


@pytest.mark.parametrize(("name", "package"), [("mink", "mink"), ("pink", "pink")])
def test_missing_peer_names_the_extra(name, package, monkeypatch, lesson):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SolverError, match=r"optik\[peers\]"):
        parse_solver(name).prepare(lesson.robot, lesson.problem(0).shape, BUDGET)


@pytest.mark.parametrize("name", ["mink", "pink"])
def test_qp_tolerance_decides_how_far_the_limits_are_left(name):
    """DAQP's own 1e-6 lets a joint leave its range; 1e-10 does not, to the eye of the judge."""
    problems = list(load_problem_set("iiwa14_at_limit_3").first(40).problems())
    worst = {}
    for tolerance in ("none", "1e-10"):
        solver = parse_solver(f"{name}:{TUNED},primal_tolerance={tolerance}")
        peer = solver.prepare(problems[0].robot, problems[0].shape, Budget(60))
        worst[tolerance] = max(peer(p).raw_violation for p in problems)
    assert worst["none"] > 1e-8 > worst["1e-10"]
    with pytest.raises(SolverError, match="daqp"):
        parse_solver(f"{name}:backend=piqp,primal_tolerance=1e-10").prepare(
            problems[0].robot, problems[0].shape, BUDGET
        )


def test_peers_are_values():
    for name in ("mink", "pink", "peer"):
        solver = SOLVERS[name]()
        assert solver.family == "peer" and solver.uses_problem_cost
        assert pickle.loads(pickle.dumps(solver)) == solver
    solver = Peer(peer="roboplan", options="tuned=true;step=0.5")
    assert parse_solver(str(solver)) == solver


# Workers


WORKER = """
import os, sys, time
sys.path.insert(0, {studies!r})
from serve import serve

def build(robot):
    print("noise that must not reach the answers")
    if robot["options"].get("refuse"):
        raise ValueError("this robot is not to my taste")
    def solve(problem):
        x = problem["position"][0]
        if x == 0.1: os._exit(11)
        if x == 0.2: time.sleep(60)
        if x == 0.3: raise ArithmeticError("no luck")
        if x == 0.4: return {{"q": None, "converged": False}}
        if x == 0.5: return {{"q": [float("nan")] * len(problem["q0"]), "converged": True}}
        print("more noise", flush=True)
        found = {{"q": problem["q0"], "converged": True, "iterations": 3}}
        return found | {{"message": robot["joints"][0]}}
    return solve

serve(build)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "peers" / "fake"
    place.mkdir(parents=True)
    (place / "requirements.txt").write_text("")
    (place / "worker.py").write_text(WORKER.format(studies=str(STUDIES)))
    monkeypatch.setattr(workers, "peer_environment", lambda _: Path(sys.executable))
    return tmp_path / "peers"


def problem_at(arm7: Robot, x: float) -> Problem:
    return Problem(arm7, (Target([x, 0.1, 0.9], quaternion=[1, 0, 0, 0]),))


def fake(folder: Path, **options) -> Peer:
    return Peer(peer="fake", folder=str(folder), **options)


def test_a_worker_that_dies_costs_one_row(folder, arm7):
    prepared = fake(folder).prepare(arm7, problem_at(arm7, 0.1).shape, BUDGET)
    fine = prepared(problem_at(arm7, 0.0))
    dead = prepared(problem_at(arm7, 0.1))
    after = prepared(problem_at(arm7, 0.0))
    assert fine.status is Claim.CONVERGED and fine.iterations == 3
    assert arm7.joint_names[0] in fine.message and "ms in the worker" in fine.message
    assert dead.status is Claim.NUMERICAL_FAILURE and "died with code 11" in dead.message
    assert np.array_equal(dead.q, arm7.q_nominal)
    assert after.status is Claim.CONVERGED


def test_a_worker_that_hangs_is_ended(folder, arm7):
    prepared = fake(folder, patience=0.5).prepare(arm7, problem_at(arm7, 0.0).shape, BUDGET)
    hung = prepared(problem_at(arm7, 0.2))
    assert hung.status is Claim.TIME_LIMIT and "ended" in hung.message
    assert prepared(problem_at(arm7, 0.0)).status is Claim.CONVERGED


@pytest.mark.parametrize(
    ("x", "claim", "word"),
    [
        (0.3, Claim.NUMERICAL_FAILURE, "no luck"),
        (0.4, Claim.NO_PROGRESS, "no longer changed"),
        (0.5, Claim.NUMERICAL_FAILURE, "finite"),
    ],
)
def test_answers_that_are_none(folder, arm7, x, claim, word):
    prepared = fake(folder).prepare(arm7, problem_at(arm7, x).shape, BUDGET)
    result = prepared(problem_at(arm7, x), trace=True)
    assert result.status is claim and word in result.message
    assert np.array_equal(result.q, arm7.q_nominal)
    assert len(result.trace) == 2
    assert prepared(problem_at(arm7, 0.0)).status is Claim.CONVERGED


def test_a_robot_that_the_worker_refuses(folder, arm7):
    with pytest.raises(SolverError, match="not to my taste"):
        fake(folder, options="refuse=yes").prepare(arm7, problem_at(arm7, 0.0).shape, BUDGET)


def test_a_worker_that_does_not_start(folder, arm7):
    (folder / "fake" / "worker.py").write_text("raise SystemExit('no such library')\n")
    with pytest.raises(SolverError, match="no such library"):
        fake(folder).prepare(arm7, problem_at(arm7, 0.0).shape, BUDGET)


def test_a_worker_that_talks_nonsense(folder, arm7):
    (folder / "fake" / "worker.py").write_text("print('hello')\n")
    with pytest.raises(SolverError, match="hello"):
        fake(folder).prepare(arm7, problem_at(arm7, 0.0).shape, BUDGET)


def test_the_process_ends_with_its_owner(folder, arm7, monkeypatch):
    started = []
    popen = processes.subprocess.Popen

    def kept(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(processes.subprocess, "Popen", kept)
    prepared = fake(folder).prepare(arm7, problem_at(arm7, 0.0).shape, BUDGET)
    assert prepared(problem_at(arm7, 0.0)).status is Claim.CONVERGED
    assert started[0].poll() is None
    del prepared
    assert started[0].poll() is not None


def test_limits_are_not_mended(folder, arm7):
    """What a peer hands back is judged, not what we would make of it."""
    text = (folder / "fake" / "worker.py").read_text()
    (folder / "fake" / "worker.py").write_text(
        text.replace(
            '"q": problem["q0"], "converged": True, "it', '"q": [9.0] * 7, "converged": True, "it'
        )
    )
    problem = problem_at(arm7, 0.0)
    result = fake(folder).prepare(arm7, problem.shape, BUDGET)(problem)
    assert result.raw_violation > 5.0
    verdict = evaluate(problem, result.q)
    assert verdict.limit_violation > 5.0 and not verdict.solved


def test_unknown_peers_and_options(folder, tmp_path, arm7):
    shape = problem_at(arm7, 0.0).shape
    with pytest.raises(UnknownNameError, match="fake"):
        Peer(peer="fakes", folder=str(folder)).prepare(arm7, shape, BUDGET)
    with pytest.raises(SolverError, match="checkout"):
        Peer(peer="fake", folder=str(tmp_path / "nowhere")).prepare(arm7, shape, BUDGET)
    with pytest.raises(SolverError, match="key=value"):
        Peer(options="tuned")
    assert parse_options("tuned=true; step=0.5;off=false") == {"tuned": "true", "step": "0.5"}


def test_environment_is_made_once_and_by_its_requirements(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIK_PEERS", str(tmp_path / "environments"))
    commands = []

    def run(command, place):
        commands.append(command[1:3])
        if command[2] == "venv":
            (Path(command[-1]) / "bin").mkdir(parents=True)
            (Path(command[-1]) / "bin" / "python").symlink_to(sys.executable)
        elif "missing" in (place / "requirements.txt").read_text():
            raise SolverError(f"the environment of peer {place.name!r} cannot be made")

    monkeypatch.setattr(environments, "_run", run)
    place = tmp_path / "some"
    place.mkdir()
    (place / "requirements.txt").write_text("a==1\n")
    interpreter = peer_environment(place)
    assert interpreter.exists() and interpreter.parents[1].name.startswith("some-")
    assert commands == [["-m", "venv"], ["-m", "pip"]]
    assert peer_environment(place) == interpreter and len(commands) == 2
    (place / "requirements.txt").write_text("a==2\n")
    assert peer_environment(place) != interpreter and len(commands) == 4
    (place / "requirements.txt").write_text("missing==1\n")
    with pytest.raises(SolverError, match="'some' cannot be made"):
        peer_environment(place)
    assert len(list((tmp_path / "environments").iterdir())) == 2  # nothing half-made is left


def test_installer_is_told_on(tmp_path):
    (tmp_path / "requirements.txt").write_text("")
    command = [sys.executable, "-c", "import sys; sys.exit('ERROR: no such package')"]
    with pytest.raises(SolverError, match="no such package"):
        environments._run(command, tmp_path)


def test_every_peer_folder_is_whole():
    names = sorted(p.parent.name for p in STUDIES.glob("*/worker.py"))
    assert {"optik-py", "pytracik", "roboplan", "roboticstoolbox"} <= set(names)
    for name in names:
        pinned = [r for r in (STUDIES / name / "requirements.txt").read_text().split() if "==" in r]
        assert pinned, name
        source = (STUDIES / name / "worker.py").read_text()
        compile(source, name, "exec")
        assert source.startswith('"""') and "serve(build)" in source
