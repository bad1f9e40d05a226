"""The fast path: whole arrays through a compiled solver, judged in bulk, no object a row.

A block of solves of one set and solver goes to `optik.solve_batch` in one call; MuJoCo poses every
answer, and the errors are taken over the arrays, by the formulas of `optik.evaluation`.  The
answers are those of the ordinary path to the bit; the errors are the same to rounding, and where
that could decide between solved and not, `evaluate` itself decides.

What it did not solve, and every solver that is not `box-lm`, goes the ordinary way.  The times of
a block are its whole time divided by its size, and are marked as such.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optik.batch import Batch, solve_batch
from optik.benchmark.columns import FIELDS, budget_text, posture_text
from optik.benchmark.own import seeded
from optik.benchmark.phases import IN_BULK
from optik.benchmark.plan import Plan
from optik.benchmark.rows import SCHEMA
from optik.evaluation import evaluate
from optik.kinematics import Kinematics
from optik.pose import Array
from optik.problem_sets import ProblemSet
from optik.result import Claim
from optik.solvers.box_lm import BoxLM

if TYPE_CHECKING:
    from optik.benchmark.solving import Bench

Integers = NDArray[np.int64]
_CLOSE = 1e-9
# A block smaller than this is not worth its overhead, nor its time a fair average.
_LEAST = 64


def bulk_block(
    bench: Bench, numbers: Sequence[int]
) -> tuple[list[int], tuple[list[int], bytes] | None]:
    """Does in bulk what can be done in bulk.

    Args:
        bench: the plan's bench.
        numbers: of the solves, rising.

    Returns:
        The numbers that are left for the ordinary way, and the numbers and rows (Arrow IPC) of the
        others, or None if there are none.
    """
    left: list[int] = []
    done: list[int] = []
    tables: list[pa.Table] = []
    for group in _groups(bench, numbers):
        fast = len(group) >= _LEAST and _eligible(bench, group[0])
        table, solved = _solve(bench, group) if fast else (None, [])
        if table is not None:
            tables.append(table)
            done += solved
        kept = set(solved)
        left += [n for n in group if n not in kept]
    if not tables:
        return sorted(left), None
    stream = pa.BufferOutputStream()
    joined = pa.concat_tables(tables)
    with pa.ipc.new_stream(stream, SCHEMA) as writer:
        writer.write_table(joined)
    return sorted(left), (done, stream.getvalue().to_pybytes())


def judge_arrays(
    problem_set: ProblemSet, indices: Integers, q: Array
) -> tuple[Array, Array, Array]:
    """Poses every configuration by MuJoCo and takes its errors.

    Args:
        problem_set: the problems.
        indices: which of them, shape (N,).
        q: one configuration for each, shape (N, n) [rad or m].

    Returns:
        Position errors [m], rotation errors [rad] and limit violations [rad or m], each (N,).
    """
    robot = problem_set.robot
    frame = robot.frame_ref
    kinematics = Kinematics(robot.model, robot.joint_map)
    p, R = np.empty((len(q), 3)), np.empty((len(q), 9))
    quaternion = np.empty((len(q), 4))
    kinematics.update(q[0])
    position, rotation = kinematics.position(frame), kinematics.rotation(frame).reshape(9)
    pose = problem_set.quaternions is not None
    for i, row in enumerate(q):
        kinematics.update(row)
        p[i], R[i] = position, rotation
        if pose:
            quaternion[i] = kinematics.quaternion(frame)
    position_error = np.sqrt(((problem_set.positions[indices] - p) ** 2).sum(axis=1))
    if problem_set.quaternions is not None:
        rotation_error = _angle(problem_set.quaternions[indices], quaternion)
    elif problem_set.axes is not None:
        axes = problem_set.axes[indices]
        body = (R.reshape(-1, 3, 3) @ axes[:, :3, None])[..., 0]
        sine = np.linalg.norm(np.cross(body, axes[:, 3:]), axis=1)
        rotation_error = np.arctan2(sine, (body * axes[:, 3:]).sum(axis=1))
    else:
        rotation_error = np.zeros(len(q))
    violation = np.maximum(robot.lower - q, q - robot.upper).max(axis=1).clip(min=0.0)
    return position_error, rotation_error, violation


def _angle(target: Array, current: Array) -> Array:
    tw, tx, ty, tz = target.T
    qw, qx, qy, qz = current.T
    w = tw * qw + tx * qx + ty * qy + tz * qz
    x = tx * qw - tw * qx - ty * qz + tz * qy
    y = ty * qw - tw * qy - tz * qx + tx * qz
    z = tz * qw - tw * qz - tx * qy + ty * qx
    return 2.0 * np.arctan2(np.sqrt(x * x + y * y + z * z), np.abs(w))


def _groups(bench: Bench, numbers: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of one set, solver and repeat together."""
    plan = bench.plan
    n = np.asarray(numbers, dtype=np.int64)
    rest, solver = np.divmod(n, len(plan.solvers))
    repeat, problem = np.divmod(rest, plan.offsets[-1])
    place = np.searchsorted(plan.offsets, problem, side="right") - 1
    kind = (repeat * len(plan.sets) + place) * len(plan.solvers) + solver
    for value in np.unique(kind):
        yield n[kind == value].tolist()


def _eligible(bench: Bench, number: int) -> bool:
    plan = bench.plan
    return (
        isinstance(plan.solvers[plan.job(number).solver], BoxLM)
        and plan.posture is None
        and plan.budget.seconds is None
    )


def _batch(solver: BoxLM, found: ProblemSet, indices: Integers, plan: Plan) -> Batch:
    """The set's problems through the compiled solver, from the plan's start, on this thread."""
    quaternions = None if found.quaternions is None else found.quaternions[indices]
    axes = None if found.axes is None else found.axes[indices]
    q_init = found.start(plan.start)
    if plan.start is None and found.starts is not None:
        q_init = found.starts[indices]
    return solve_batch(
        found.robot, found.positions[indices], quaternions, axes=axes,
        q_init=q_init,
        solver=solver, tolerance=found.spec.tolerance(), budget=plan.budget, threads=1,
    )  # fmt: skip


def _solve(bench: Bench, group: list[int]) -> tuple[pa.Table | None, list[int]]:
    plan = bench.plan
    place, _, k, repeat = plan.job(group[0])
    found = plan.sets[place]
    prepared, setup_time, fresh = bench.prepared(group[0])
    solver = seeded(plan.solvers[k], plan.budget, plan.seed + repeat)
    if isinstance(prepared, str) or not isinstance(solver, BoxLM):
        return None, []
    indices = np.array([plan.job(n).problem for n in group])
    bench.mark(group[0], IN_BULK)
    if fresh:
        _batch(solver, found, indices[:1], plan)  # thrown away
    began = time.perf_counter()
    batch = _batch(solver, found, indices, plan)
    solve_time = (time.perf_counter() - began) / len(group)
    q = batch.q
    began = time.perf_counter()
    position, rotation, violation = judge_arrays(found, indices, q)
    tolerance = found.spec.tolerance()
    solved = (
        (violation == 0.0) & (position <= tolerance.position) & (rotation <= tolerance.rotation)
    )
    close = (np.abs(position / tolerance.position - 1) < _CLOSE) | (
        np.abs(rotation / tolerance.rotation - 1) < _CLOSE
    )
    for i in np.flatnonzero(close):
        problem = found.problem(int(indices[i]), start=plan.start)
        solved[i] = evaluate(problem, q[i]).solved
    judge_time = (time.perf_counter() - began) / len(group)
    # What is not solved goes the ordinary way, which knows what to say of it.
    keep = np.flatnonzero(solved & batch.solved)
    if not keep.size:
        return None, []
    robot, q = found.robot, q[keep]
    values: dict[str, Any] = {
        "problem_set": found.name,
        "problem": indices[keep],
        "robot": robot.name,
        "stratum": found.spec.stratum,
        "solver": plan.names[k],
        "start": plan.start_of(place),
        "repeat": repeat,
        "seed": plan.seed + repeat,
        "solved": True,
        "claim": Claim.CONVERGED.value,
        "false_claim": False,
        "reason": "",
        "position_error": position[keep],
        "rotation_error": rotation[keep],
        "limit_violation": violation[keep],
        "cost": 0.5 * (position[keep] ** 2 + rotation[keep] ** 2),
        "posture_distance": np.sqrt(((q - robot.q_mid) ** 2).sum(axis=1)),
        "joints_at_limit": ((q <= robot.lower) | (q >= robot.upper)).sum(axis=1),
        "iterations": batch.iterations[keep],
        "evaluations": (batch.iterations + batch.restarts + 1)[keep],
        "restarts": batch.restarts[keep],
        "setup_time": setup_time,
        "solve_time": solve_time,
        "judge_time": judge_time,
        "timing": "batch",
        "message": Claim.CONVERGED.sentence,
        "q": [" ".join(map(repr, row)) for row in q.tolist()],
        "position_tolerance": tolerance.position,
        "rotation_tolerance": tolerance.rotation,
        "budget": budget_text(plan.budget),
        "posture": posture_text(plan.posture),
    }
    columns = [
        pa.array(value, type=SCHEMA.field(name).type)
        if isinstance(value := values[name], (np.ndarray, list))
        else pa.repeat(pa.scalar(value, type=SCHEMA.field(name).type), len(keep))
        for name, _, _ in FIELDS
    ]
    return pa.table(columns, schema=SCHEMA), [group[i] for i in keep]
