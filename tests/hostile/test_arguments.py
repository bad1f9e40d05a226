"""Whatever is put in the place of an argument: accepted for good reason, or refused in our words.

No TypeError from the depths, no numpy warning, no number that is silently something else.
"""

from __future__ import annotations

import warnings

import mujoco
import numpy as np
import pytest

import optik
from optik import Budget, OptikError, Posture, Problem, Robot, Target, Tolerance
from optik.joint_limits import LimitWarning
from tests.hostile.junk import JUNK

MJCF = """
<mujoco><worldbody>
  <body name="a"><joint name="h" type="hinge" axis="0 0 1" range="-60 60"/><geom size=".01"/>
    <body name="b" pos=".4 0 0"><joint name="s" type="slide" axis="1 0 0"/><geom size=".01"/>
      <site name="tip" pos=".1 0 0"/></body></body>
</worldbody></mujoco>
"""


def up(position=(0.4, 0.1, 0.9), **options):
    return Target(position, **options)


@pytest.fixture(scope="module")
def small():
    return mujoco.MjModel.from_xml_string(MJCF)


def load(model, **options):
    return Robot.load(model, **({"frame": "tip"} | options))


# What is called, and which of the junk is right there.
CALLS = {
    "position": (lambda r, v: up(v), ()),
    "quaternion": (lambda r, v: up(quaternion=v), (None,)),
    "rotation": (lambda r, v: up(rotation=v), (None,)),
    "axis": (lambda r, v: up(axis=v), (None,)),
    "body axis": (lambda r, v: up(axis=(v, [0, 0, 1])), ()),
    "position_weight": (lambda r, v: up(position_weight=v), ()),
    "rotation_weight": (lambda r, v: up(rotation_weight=v), ()),
    "frame": (lambda r, v: Problem(r, up(frame=v)), (None,)),
    "relative_to": (lambda r, v: Problem(r, up(relative_to=v)), (None,)),
    "mask": (lambda r, v: up(mask=v), (None,)),
    "mask of": (lambda r, v: up(mask=[v, 1, 1, 1, 1, 1]), (True,)),
    "robot": (lambda r, v: Problem(v, up()), ()),
    "targets": (Problem, ()),
    "q_init": (lambda r, v: Problem(r, up(), q_init=v), (None,)),
    "posture": (lambda r, v: Problem(r, up(), posture=v), (None,)),
    "q_rest": (lambda r, v: Problem(r, up(), posture=Posture(q_rest=v)), (None,)),
    "posture weight": (lambda r, v: Problem(r, up(), posture=Posture(weight=v)), ()),
    "joint_weights": (lambda r, v: Problem(r, up(), posture=Posture(joint_weights=v)), (None, {})),
    "joint weight": (
        lambda r, v: Problem(r, up(), posture=Posture(joint_weights={"j1": v})),
        (1e-320,),
    ),
    "tolerance": (lambda r, v: Problem(r, up(), tolerance=v), ()),
    "position tolerance": (lambda r, v: Tolerance(position=v), (1e-320, 1e308, 2**70)),
    "rotation tolerance": (lambda r, v: Tolerance(rotation=v), (1e-320, 1e308, 2**70)),
    "iterations": (lambda r, v: Budget(iterations=v), ()),
    "seconds": (lambda r, v: Budget(seconds=v), (None, 1e-320, 1e308, float("inf"), 2**70)),
    "restarts": (lambda r, v: Budget(restarts=v), ()),
    "solve": (lambda r, v: optik.solve(v), ()),
    "solver": (lambda r, v: optik.solve(Problem(r, up()), solver=v), (None,)),
    "budget": (lambda r, v: optik.solve(Problem(r, up()), budget=v), (None,)),
    "seed": (lambda r, v: optik.solve(Problem(r, up()), seed=v), ()),
    "diagnose": (lambda r, v: optik.diagnose(v, r.q_nominal), ()),
    "diagnose q": (lambda r, v: optik.diagnose(Problem(r, up()), v), (np.full(7, np.nan),)),
    "claim": (lambda r, v: optik.diagnose(Problem(r, up()), r.q_nominal, claim=v), (None,)),
    "proof": (lambda r, v: optik.diagnose(Problem(r, up()), r.q_nominal, proof=v), (None,)),
    "evaluate": (lambda r, v: optik.evaluate(v, r.q_nominal), ()),
    "forward": (lambda r, v: r.forward(v), ()),
    "forward frame": (lambda r, v: r.forward(r.q_nominal, frame=v), (None,)),
    "jacobian": (lambda r, v: r.jacobian(v), ()),
    "replace": (lambda r, v: r.replace(lower=v), ()),
    "sample": (lambda r, v: r.sample(v), ()),
    "problem set": (lambda r, v: optik.load_problem_set(v), ()),
    "pose": (lambda r, v: optik.Pose(v, [1, 0, 0, 0]), ([np.nan] * 3, [1e308] * 3, [np.inf, 0, 0])),
    "batch robot": (lambda r, v: optik.solve_batch(v, [[0.4, 0.1, 0.9]]), ()),
    "batch positions": (optik.solve_batch, ()),
    "batch quaternions": (lambda r, v: optik.solve_batch(r, [[0.4, 0.1, 0.9]], v), (None,)),
    "batch axes": (lambda r, v: optik.solve_batch(r, [[0.4, 0.1, 0.9]], axes=v), (None,)),
    "batch q_init": (lambda r, v: optik.solve_batch(r, [[0.4, 0.1, 0.9]], q_init=v), (None,)),
    "batch frame": (lambda r, v: optik.solve_batch(r, [[0.4, 0.1, 0.9]], frame=v), (None,)),
    "batch solver": (lambda r, v: optik.solve_batch(r, [[0.4, 0.1, 0.9]], solver=v), (None,)),
    "batch tolerance": (lambda r, v: optik.solve_batch(r, [[0.4, 0.1, 0.9]], tolerance=v), (None,)),
    "batch budget": (lambda r, v: optik.solve_batch(r, [[0.4, 0.1, 0.9]], budget=v), (None,)),
    "batch threads": (lambda r, v: optik.solve_batch(r, [[0.4, 0.1, 0.9]], threads=v), (None,)),
}
LOADS = {
    "source": (lambda m, v: Robot.load(v, frame="tip"), ()),
    "frame": (lambda m, v: load(m, frame=v), ()),
    "joints": (lambda m, v: load(m, joints=v), (None,)),
    "a joint": (lambda m, v: load(m, joints=[v]), ()),
    "q_nominal": (lambda m, v: load(m, q_nominal=v), (None, [1, 2])),
    "qpos": (lambda m, v: load(m, qpos=v), (None, [1, 2])),
    "limits": (lambda m, v: load(m, limits=v, unit="rad"), (None, {})),
    "a range": (lambda m, v: load(m, limits={"h": v}, unit="rad"), (None, [1, 2])),
    "an end": (lambda m, v: load(m, limits={"h": (-2, v)}, unit="rad"),
               (None, -1, 2**70, 1e-320, 1e308, float("inf"))),
    "unit": (lambda m, v: load(m, limits={"h": (0, 1)}, unit=v), ()),
    "limit_margin": (lambda m, v: load(m, limit_margin=v), (2**70, 1e-320, 1e308, {})),
    "sampling": (lambda m, v: load(m, sampling=v), (None, {})),
    "a sampling range": (lambda m, v: load(m, sampling={"s": v}), ([1, 2],)),
    "a sampling end": (lambda m, v: load(m, sampling={"s": (v, 1)}),
                       (-1, -(2**70), 1e-320)),
    "name": (lambda m, v: load(m, name=v),
             (None, "x", "", "nan", "1", "a\0b", "\ud800", "x" * 5000)),
}  # fmt: skip


def wrong(call, right):
    """What of the junk is taken though it is not right, and what is refused in other words."""
    said = []
    for value in JUNK:
        try:
            call(value)
        except OptikError as error:
            if (not str(error).isprintable() and "\n" in str(error)) or len(str(error)) > 8000:
                said.append(("unreadable", str(error)[:80]))
            continue
        except Exception as error:
            said.append((type(error).__name__, str(error)[:80], repr(value)[:60]))
            continue
        if not any(type(value) is type(r) and np.array_equal(value, r, equal_nan=True)
                   if isinstance(r, np.ndarray) else type(value) is type(r) and value == r
                   for r in right):  # fmt: skip
            said.append(("accepted", repr(value)[:60]))
    return said


@pytest.mark.parametrize("name", CALLS)
def test_calls(name, arm7):
    call, right = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wrong(lambda v: call(arm7, v), right) == []


@pytest.mark.parametrize("name", LOADS)
def test_loading(name, small):
    call, right = LOADS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LimitWarning)
        assert wrong(lambda v: call(small, v), right) == []


def test_evaluate_says_infinite_of_what_is_not_n_finite_numbers(arm7):
    problem = Problem(arm7, up())
    for q in (np.zeros(6), np.zeros((1, 7)), [np.nan] * 7, 3.0, []):
        verdict = optik.evaluate(problem, q)
        assert not verdict.solved
        assert verdict.position_error == np.inf
    for q in ("x", np.zeros(7, complex), object(), {}):
        with pytest.raises(OptikError):
            optik.evaluate(problem, q)


def test_replaced_ranges_are_checked(arm7):
    n = arm7.n
    for changes in (
        {"lower": np.full(n, 9.0)},
        {"upper": np.full(n, np.nan)},
        {"lower": np.zeros(n - 1)},
        {"q_nominal": np.full(n, np.inf)},
        {"sampling_lower": np.full(n, -np.inf)},
    ):
        with pytest.raises(OptikError):
            arm7.replace(**changes)


def test_arrays_given_are_copied(arm7):
    position, q_init, rest = np.array([0.4, 0.1, 0.9]), arm7.q_nominal.copy(), arm7.q_mid.copy()
    problem = Problem(arm7, Target(position), q_init=q_init, posture=Posture(q_rest=rest))
    first = optik.solve(problem)
    position[:], q_init[:], rest[:] = np.nan, np.nan, np.nan
    assert optik.solve(problem).q.tobytes() == first.q.tobytes()
