"""The fast path gives the ordinary path's answers, and keeps its promises when a kernel dies."""

import os
import signal
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import optik
from optik.benchmark import bulk
from optik.benchmark.bulk import judge_arrays
from optik.benchmark.columns import TIMES
from optik.benchmark.run import run
from optik.evaluation import evaluate
from optik.pose import canonical_quaternion, canonical_quaternions
from optik.solvers.box_lm import BoxLM

ERRORS = ["position_error", "rotation_error", "cost", "posture_distance"]


def configurations(frame):
    return np.array([np.fromstring(text, sep=" ") for text in frame["q"]])


@pytest.mark.parametrize("name", ["panda_reachable", "so101_reachable", "so101_axis_reachable"])
def test_bulk_rows_are_the_ordinary_rows(name):
    given = [optik.load_problem_set(name).first(150)]
    fast = run(given, ["box-lm"], batch=True)
    slow = run(given, ["box-lm"])
    assert (fast["timing"] == "batch").mean() > 0.5 and (slow["timing"] == "alone").all()
    drop = [*TIMES, "timing", "q", *ERRORS]
    pd.testing.assert_frame_equal(fast.drop(columns=drop), slow.drop(columns=drop))
    # The kernel that works on several rows at once rounds otherwise.
    for column in ERRORS:
        assert fast[column].to_numpy() == pytest.approx(slow[column].to_numpy(), abs=1e-10)
    assert configurations(fast) == pytest.approx(configurations(slow), abs=1e-8)


def test_starts_of_their_own_go_in_bulk_too():
    given = [optik.load_problem_set("poe6_lesson")]
    fast, slow = (run(given, ["box-lm"], batch=b, isolate=False) for b in (True, False))
    assert configurations(fast) == pytest.approx(configurations(slow), abs=1e-8)
    assert fast["start"].iloc[0] == "given"


def test_what_has_no_kernel_goes_the_ordinary_way():
    few = optik.load_problem_set("arm7_lesson").first(70)
    frame = run([few], ["clamped-dls", "box-lm"], batch=True)
    modes = frame.groupby("solver")["timing"].agg(set)
    assert modes["clamped-dls"] == {"alone"} and "batch" in modes["box-lm"]
    timed = run([few], ["box-lm"], batch=True, budget=optik.Budget(200, 1.0))
    assert set(timed["timing"]) == {"alone"}


@pytest.mark.parametrize("name", ["panda_reachable", "so101_reachable", "so101_axis_reachable"])
def test_bulk_judgement_is_the_judges(name):
    found = optik.load_problem_set(name)
    rng = np.random.default_rng(2)
    indices = rng.integers(0, len(found), 60)
    lower, upper = found.robot.sampling_lower, found.robot.sampling_upper
    q = rng.uniform(lower - 0.1, upper + 0.1, (60, found.robot.n))
    q[:20] = found.witnesses[indices[:20]]
    position, rotation, violation = judge_arrays(found, indices, q)
    for i in range(60):
        verdict = evaluate(found.problem(int(indices[i])), q[i])
        assert position[i] == pytest.approx(verdict.position_error, abs=1e-13)
        assert rotation[i] == pytest.approx(verdict.rotation_error, abs=1e-13)
        assert violation[i] == verdict.limit_violation


def test_bulk_quaternions_are_those_of_a_target():
    rng = np.random.default_rng(4)
    q = rng.normal(size=(200, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    q[:5, 0] = 0.0
    q[5] = [-1.0, 0.0, -0.0, 0.0]
    q *= 1 + rng.uniform(-1e-4, 1e-4, (200, 1))
    q[:5] /= np.linalg.norm(q[:5], axis=1, keepdims=True)
    expected = np.array([canonical_quaternion(row) for row in q])
    assert canonical_quaternions(q).tobytes() == expected.tobytes()


def test_a_verdict_that_rounding_could_turn_is_the_judges(monkeypatch):
    asked = []
    monkeypatch.setattr(bulk, "evaluate", lambda p, q: asked.append(q) or evaluate(p, q))
    found = optik.load_problem_set("so101_reachable").first(80)
    monkeypatch.setattr(bulk, "_CLOSE", 2.0)  # everything is close
    frame = run([found], ["box-lm"], batch=True, isolate=False)
    assert len(asked) == (frame["timing"] == "batch").sum() > 0


@dataclass(frozen=True, kw_only=True)
class DiesInBulk(BoxLM):
    """`box-lm` with a kernel that takes one problem at a time, and dies of several."""

    name: ClassVar[str] = "dies-in-bulk"

    def core(self, robot, shape):
        return Fragile(super().core(robot, shape))


class Fragile:
    def __init__(self, core):
        self.kernel, self.fixed, self.shape, self.robot = (
            core.kernel, core.fixed, core.shape, core.robot,
        )  # fmt: skip

    def solve_rows(self, *arguments, **options):
        os.kill(os.getpid(), signal.SIGSEGV)


def test_a_kernel_that_dies_costs_no_row_that_can_be_solved_alone():
    few = optik.load_problem_set("so101_reachable").first(80)
    frame = run([few], [DiesInBulk()], batch=True)
    assert (frame["timing"] == "alone").all() and frame["solved"].all()
