"""A solution as a person wants to read it, and as a program does.

`explain` leads with the verdict and its reason, then the numbers behind them; `to_json` carries
everything, in m, rad and s, as plain lists and strings.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from optik.diagnosis import words
from optik.errors import RobotError

if TYPE_CHECKING:
    from optik.solution import Solution

_WIDTH = 100


def explain(solution: Solution) -> str:
    """Tells a solution: the verdict, the reason, the configuration, and what it cost.

    Returns:
        A few lines of plain text; on failure the diagnosis is worked out.
    """
    robot, result = solution.problem.robot, solution.result
    lines = [f"{robot.name}: {solution.status.value.replace('_', ' ')}", ""]
    lines += [*textwrap.wrap(solution.message, _WIDTH), ""]
    lines += _table(solution)
    if not solution.success and solution.diagnosis.certificate is not None:
        lines += ["", *_facts(solution)]
    lines += [
        "",
        f"{solution.solver}: {words.count(solution.iterations, 'iteration')}, "
        f"{words.count(solution.evaluations, 'evaluation')}, "
        f"{words.count(solution.restarts, 'restart')}, {1e3 * solution.solve_time:.2f} ms; "
        f"it says: {result.status.value.replace('_', ' ')}",
    ]
    if solution.proof is not None:
        how = "in exact integer arithmetic" if solution.proof.exact else "by replaying it"
        lines.append(
            f"the proof ({solution.proof.kind}) can be checked again {how}: proof.verify()"
        )
    if solution.start_projected:
        lines.append("the start lay outside the limits and was moved onto them")
    if solution.success and (more := _other_windings(solution)):
        lines.append(f"whole turns of the joints give {more} of the same pose inside the limits")
    return "\n".join(lines)


def _other_windings(solution: Solution) -> str:
    """How many other windings there are, in words; nothing where there is none."""
    try:
        others = len(solution.windings) - 1
    except RobotError:
        return "more configurations than are listed"
    return words.count(others, "more configuration") if others > 0 else ""


def _facts(solution: Solution) -> list[str]:
    """The certificate in a few lines: of q, or of the minimum that q is beside."""
    diagnosis = solution.diagnosis
    here, facts = diagnosis.certificate, diagnosis.minimum or diagnosis.certificate
    assert here is not None and facts is not None
    title = "at this configuration"
    if facts is not here and diagnosis.descent is not None:
        away = float(np.abs(diagnosis.descent.q - solution.q).max())
        title = (
            f"at the minimum, {away:.1e} away (the relative projected gradient here is "
            f"{here.relative_optimality:.1e})"
        )
    rows, columns = facts.jacobian_shape
    lines = [
        title,
        f"  cost                         {facts.cost:.6g} m^2",
        f"  relative projected gradient  {facts.relative_optimality:.2e} "
        + ("(stationary)" if facts.stationary else "(not stationary)"),
        f"  Jacobian {rows} by {columns}".ljust(31)
        + f"rank {facts.rank}, smallest singular value {facts.smallest_singular_value:.3g}",
    ]
    if facts.stationary and np.isfinite(facts.smallest_curvature):
        free = words.count(int(facts.free.sum()), "free joint")
        lines.append(f"  smallest curvature           {facts.smallest_curvature:.3g} over {free}")
    return lines


def _table(solution: Solution) -> list[str]:
    """One line a joint: value, range, and what its limit does."""
    robot, q = solution.problem.robot, solution.q
    width = max(5, *(len(n) for n in robot.joint_names))
    forces, verb = {}, "pressed on"
    if not solution.success and np.isfinite(q).all():
        facts = solution.diagnosis.minimum or solution.certificate
        forces = {f.index: f for f in facts.limits}
        verb = "held by" if facts.stationary else verb
    lines = [f"{'joint':<{width}}   {'value':>9}   {'lower':>9}   {'upper':>9}"]
    lower, upper = solution.active_lower, solution.active_upper
    for i, name in enumerate(robot.joint_names):
        unit = "rad" if robot.joint_kinds[i] == "hinge" else "m"
        line = f"{name:<{width}}   {q[i]:>9.5f}   {robot.lower[i]:>9.4f}   {robot.upper[i]:>9.4f}"
        note = ""
        if robot.lower[i] == robot.upper[i]:
            note = "locked"
        elif i in forces and forces[i].multiplier > 0.0:
            note = f"{verb} its {forces[i].side} limit, multiplier {forces[i].multiplier:.3g}"
        elif lower[i] or upper[i]:
            note = f"on its {'lower' if lower[i] else 'upper'} limit"
        lines.append(f"{line} {unit}" + (f"   {note}" if note else ""))
    return lines


def to_json(solution: Solution) -> dict[str, Any]:
    """Returns the solution and, on failure, its diagnosis, as strings, numbers, lists and dicts.

    Numbers that are not finite become null, which is all that JSON has for them.
    """
    problem, result = solution.problem, solution.result
    robot = problem.robot
    facts = solution.certificate if np.isfinite(solution.q).all() else None
    value = {
        "robot": robot.name,
        "joints": list(robot.joint_names),
        "lower": robot.lower.tolist(),
        "upper": robot.upper.tolist(),
        "frame": robot.frame,
        "targets": [
            {
                "kind": t.kind,
                "frame": t.frame or robot.frame,
                "relative_to": t.relative_to,
                "position": t.position.tolist(),
                "quaternion": None if t.quaternion is None else t.quaternion.tolist(),
                "axis": None if t.axis is None else [a.tolist() for a in t.axis],
                "position_weight": t.position_weight,
                "rotation_weight": t.rotation_weight,
                "mask": list(t.mask),
            }
            for t in problem.targets
        ],
        "tolerance": {
            "position": problem.tolerance.position,
            "rotation": problem.tolerance.rotation,
        },
        "q_init": problem.q_init.tolist(),
        "start_projected": solution.start_projected,
        "solver": solution.solver,
        "success": solution.success,
        "status": solution.status.value,
        "message": solution.message,
        "claim": result.status.value,
        "claim_message": result.message,
        "false_claim": solution.false_claim,
        "q": solution.q.tolist(),
        "position_error": solution.position_error,
        "rotation_error": solution.rotation_error,
        "limit_violation": solution.limit_violation,
        "raw_violation": result.raw_violation,
        "posture_distance": solution.posture_distance,
        "iterations": solution.iterations,
        "evaluations": solution.evaluations,
        "restarts": solution.restarts,
        "setup_time": solution.setup_time,
        "solve_time": solution.solve_time,
        "trace": None if solution.trace is None else solution.trace.tolist(),
        "certificate": None if facts is None else facts.to_json(),
        "diagnosis": solution.diagnosis.to_json(),
    }
    return _finite(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
