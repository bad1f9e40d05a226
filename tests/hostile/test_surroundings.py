"""What stands around a solve: no home, no cache, other threads, other processes, copies."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

from optik import Problem, Robot, Target, solve, solve_batch
from optik.compiled import module
from optik.solvers import BoxLM, parse_solver

GENERAL = "box-lm:kernel=general,table_size=60"
FAMILIES = (
    GENERAL, "box-qp", "box-qp:backend=osqp", "box-qp:backend=daqp", "clamped-dls",
    "clamped-adaptive", "clamped-lm", "active-set-dls", "sdls", "trf", "dogbox", "slsqp",
    "l-bfgs-b", "mujoco-least-squares", "ipopt", "sqp-equality", "projected-lm",
)  # fmt: skip


def problems(robot, count, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for q in robot.sample(rng, count):
        pose = robot.forward(q)
        out.append(Problem(robot, Target(pose.position, quaternion=pose.quaternion)))
    return out


@pytest.mark.parametrize("solver", FAMILIES)
def test_a_b_a_through_solve(solver, arm7):
    a, b = problems(arm7, 2, seed=4)
    for options in ({}, {"restarts": 2, "seed": 3}):
        first = solve(a, solver=solver, **options)
        solve(b, solver=solver, **options)
        again = solve(a, solver=solver, **options)
        assert first.q.tobytes() == again.q.tobytes()
        assert (first.iterations, first.result.status) == (again.iterations, again.result.status)
        fresh = Problem(copy.deepcopy(arm7), a.targets)
        assert solve(fresh, solver=solver, **options).q.tobytes() == first.q.tobytes()


@pytest.mark.parametrize("solver", [GENERAL, "box-qp", "clamped-dls", "trf"])
def test_threads_on_one_robot_and_on_many(solver, arm7):
    asked = problems(arm7, 3)
    expected = [solve(p, solver=solver).q.tobytes() for p in asked]
    others = [Robot.load("panda") for _ in range(8)]
    answers: dict[int, list[bytes]] = {}
    failures: list[BaseException] = []

    def work(k):
        try:
            other = problems(others[k], 1)[0]
            mine = []
            for p in asked:
                mine.append(solve(p, solver=solver).q.tobytes())
                solve(other, solver=solver)
            answers[k] = mine
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert all(answers[k] == expected for k in range(8))


def test_copies_are_as_good_as_the_original(arm7):
    problem = problems(arm7, 1)[0]
    solution = solve(problem, solver=GENERAL)
    far = solve(Problem(arm7, Target([3.0, 0.0, 0.0])), solver=GENERAL)
    batch = solve_batch(arm7, [[0.4, 0.1, 0.9]], solver=BoxLM(kernel="general", table_size=60))
    for thing in (arm7, problem, solution, far, far.diagnosis, far.certificate, batch,
                  parse_solver(GENERAL)):  # fmt: skip
        for other in (pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing)):
            assert type(other) is type(thing)
    for other in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        assert solve(other, solver=GENERAL).q.tobytes() == solution.q.tobytes()
    read = pickle.loads(pickle.dumps(far))
    assert (read.status, read.message) == (far.status, far.message)


def test_no_home_is_no_cache(monkeypatch):
    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("OPTIK_CACHE_DIR", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    assert module.keep(module.cache_folder() / "x.py", b"x") is False


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"junk" * 100])
def test_a_damaged_start_table_is_made_again(tmp_path, monkeypatch, arm7, damage):
    from optik.compiled.core import Core, Settings

    problem = problems(arm7, 1)[0]
    settings = Settings(table_size=20)
    before = Core(arm7, problem.shape, settings, folded=False).fixed
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    Core(arm7, problem.shape, settings, folded=False)
    tables = list(tmp_path.glob("*.npy"))
    assert len(tables) == 1
    tables[0].write_bytes(damage)
    assert Core(arm7, problem.shape, settings, folded=False).fixed.tobytes() == before.tobytes()


def test_what_is_done_to_the_users_model_later_changes_nothing():
    import mujoco

    from optik.bundled import robot_path

    model = mujoco.MjModel.from_xml_path(str(robot_path("arm7").parent / "arm7.xml"))
    robot = Robot.load(model, frame="ee")
    problem = problems(robot, 1)[0]
    first = solve(problem, solver="box-qp")
    model.body_pos[:] += 1.0
    model.jnt_range[:] = 0.0
    model.qpos0[:] = 9.0
    assert solve(problem, solver="box-qp").q.tobytes() == first.q.tobytes()
