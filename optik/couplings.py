"""Joint couplings (mimic joints), and the constraints that optik refuses by name.

MuJoCo's joint equality makes a dependent joint follow another:

    q_c - ref_c = sum_k a_k (q_i - ref_i)^k,   k = 0..4

in offsets from the reference configuration `qpos0`, not in values.  A dependent joint is no
unknown: it moves along, its column of the Jacobian is added to that of the joint it follows, and
its limits narrow that joint's.  Loops (`connect`, `weld`), tendon equalities and tendons with
limits cannot be brought into this form and are refused if the robot's joints move them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from optik.errors import RobotError
from optik.kinematics import Coupling
from optik.pose import Array

_EQ_JOINT = int(mujoco.mjtEq.mjEQ_JOINT)
_EQ_TENDON = int(mujoco.mjtEq.mjEQ_TENDON)
_CLOSING = {
    int(mujoco.mjtEq.mjEQ_CONNECT): "connect",
    int(mujoco.mjtEq.mjEQ_WELD): "weld",
}
_SITE = int(mujoco.mjtObj.mjOBJ_SITE)
_WRAP_JOINT = int(mujoco.mjtWrap.mjWRAP_JOINT)
_WRAP_SITE = int(mujoco.mjtWrap.mjWRAP_SITE)
_DEGREE = 4


@dataclass(frozen=True)
class Follow:
    """A dependent joint, the joint that it follows (-1: none, a constant) and the polynomial.

    Attributes:
        dependent: joint id.
        source: joint id, or -1.
        coefficients: in the offset of the source from its reference, constant first.
    """

    dependent: int
    source: int
    coefficients: tuple[float, ...]


def joint_name(model: mujoco.MjModel, joint: int) -> str:
    """Name of a joint; `joint_<id>` for one without."""
    return str(model.joint(joint).name) or f"joint_{joint}"


def follows(model: mujoco.MjModel) -> dict[int, Follow]:
    """The active joint equalities of a model, chains of them folded, by dependent joint id.

    Raises:
        RobotError: if a joint follows two others, if they follow each other in a circle, or if a
            chain of them has a degree above 4.
    """
    direct: dict[int, Follow] = {}
    for e in range(model.neq):
        if int(model.eq_type[e]) != _EQ_JOINT or not model.eq_active0[e]:
            continue
        dependent, source = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
        if dependent in direct:
            raise RobotError(
                f"joint {joint_name(model, dependent)!r} follows two joints at once; "
                'set active="false" on one of the equalities'
            )
        coefficients = tuple(float(a) for a in model.eq_data[e][: _DEGREE + 1])
        if source < 0:
            coefficients = (coefficients[0],)
        direct[dependent] = Follow(dependent, source, coefficients)
    return {d: _folded(model, direct, d) for d in direct}


def _folded(model: mujoco.MjModel, direct: dict[int, Follow], dependent: int) -> Follow:
    follow, seen = direct[dependent], {dependent}
    polynomial = np.polynomial.Polynomial(follow.coefficients)
    while follow.source in direct:
        if follow.source in seen:
            names = ", ".join(sorted(joint_name(model, j) for j in seen))
            raise RobotError(f"joints follow each other in a circle: {names}")
        seen.add(follow.source)
        follow = direct[follow.source]
        polynomial = polynomial(np.polynomial.Polynomial(follow.coefficients)).trim()
    if polynomial.degree() > _DEGREE:
        raise RobotError(
            f"joint {joint_name(model, dependent)!r} follows through a chain of degree "
            f"{polynomial.degree()}; optik folds chains up to degree {_DEGREE}"
        )
    coefficients = np.zeros(_DEGREE + 1)
    coefficients[: len(polynomial.coef)] = polynomial.coef
    return Follow(dependent, follow.source, tuple(float(a) for a in coefficients))


def couplings_of(
    model: mujoco.MjModel, following: dict[int, Follow], joint_ids: Sequence[int]
) -> tuple[Coupling, ...]:
    """The couplings that the robot's joints drive.

    Args:
        model: the model.
        following: from `follows`.
        joint_ids: the robot's joints, in the order of q.
    """
    index = {j: i for i, j in enumerate(joint_ids)}
    return tuple(
        Coupling(
            name=joint_name(model, f.dependent),
            joint=index[f.source],
            qpos_address=int(model.jnt_qposadr[f.dependent]),
            dof_address=int(model.jnt_dofadr[f.dependent]),
            reference=float(model.qpos0[model.jnt_qposadr[f.dependent]]),
            source_reference=float(model.qpos0[model.jnt_qposadr[f.source]]),
            coefficients=f.coefficients,
        )
        for f in following.values()
        if f.source in index
    )


def hold_dependents(model: mujoco.MjModel, following: dict[int, Follow], qpos: Array) -> None:
    """Puts every dependent joint where its source in `qpos`, shape (nq,), makes it stand."""
    for f in following.values():
        address, offset = int(model.jnt_qposadr[f.dependent]), 0.0
        if f.source >= 0:
            source = int(model.jnt_qposadr[f.source])
            offset = float(qpos[source] - model.qpos0[source])
        value = np.polynomial.polynomial.polyval(offset, f.coefficients)
        qpos[address] = float(model.qpos0[address]) + float(value)


def refuse_constraints(model: mujoco.MjModel, moving: Sequence[int]) -> None:
    """Refuses loops and tendons that the moving joints, by id, would have to respect.

    Raises:
        RobotError: naming the constraint, the joints, and what to do.
    """
    moved_by = _moving_ancestors(model, moving)
    for e in range(model.neq):
        kind = int(model.eq_type[e])
        if not model.eq_active0[e]:
            continue
        name = model.equality(e).name
        if kind in _CLOSING:
            a, b = (_body(model, e, int(i)) for i in (model.eq_obj1id[e], model.eq_obj2id[e]))
            joints = moved_by[a] ^ moved_by[b]
            if joints:
                pair = f"{model.body(a).name!r} and {model.body(b).name!r}"
                what = f"the {_CLOSING[kind]} equality {name!r} between the bodies {pair}"
                raise _refusal(model, what, "closes a loop over", joints)
        elif kind == _EQ_TENDON:
            ids = [int(i) for i in (model.eq_obj1id[e], model.eq_obj2id[e]) if i >= 0]
            joints = frozenset().union(*(_tendon_joints(model, t, moved_by) for t in ids))
            if joints:
                tendons = " and ".join(repr(model.tendon(t).name) for t in ids)
                what = f"the equality {name!r} of the tendon {tendons}"
                raise _refusal(model, what, "ties", joints)
    for t in range(model.ntendon):
        joints = _tendon_joints(model, t, moved_by)
        if model.tendon_limited[t] and joints:
            what = f"the range of the tendon {model.tendon(t).name!r}"
            raise _refusal(model, what, "ties", joints, "limited")


def _refusal(
    model: mujoco.MjModel, what: str, verb: str, joints: frozenset[int], flag: str = "active"
) -> RobotError:
    names = ", ".join(joint_name(model, j) for j in sorted(joints))
    return RobotError(
        f"{what} {verb} the joints {names}, which optik cannot respect; hold them by leaving "
        f'them out of joints=, or set {flag}="false" on it if it does not matter here'
    )


def _moving_ancestors(model: mujoco.MjModel, moving: Sequence[int]) -> list[frozenset[int]]:
    """For each body, the moving joints between it and the world."""
    own: dict[int, set[int]] = {}
    for j in moving:
        own.setdefault(int(model.jnt_bodyid[j]), set()).add(j)
    sets: list[frozenset[int]] = [frozenset()]
    for body in range(1, model.nbody):  # parents come before their children
        sets.append(sets[int(model.body_parentid[body])] | own.get(body, set()))
    return sets


def _body(model: mujoco.MjModel, equality: int, object_id: int) -> int:
    if int(model.eq_objtype[equality]) == _SITE:
        return int(model.site_bodyid[object_id])
    return object_id


def _tendon_joints(
    model: mujoco.MjModel, tendon: int, moved_by: list[frozenset[int]]
) -> frozenset[int]:
    """The moving joints that change a tendon's length."""
    first = int(model.tendon_adr[tendon])
    moving = frozenset().union(*moved_by)
    joints: set[int] = set()
    sites: list[frozenset[int]] = []
    for w in range(first, first + int(model.tendon_num[tendon])):
        kind, object_id = int(model.wrap_type[w]), int(model.wrap_objid[w])
        if kind == _WRAP_JOINT:
            joints |= {object_id} & moving
        elif kind == _WRAP_SITE:
            sites.append(moved_by[int(model.site_bodyid[object_id])])
    if sites:  # joints above all of its sites carry the tendon along unchanged
        joints |= frozenset().union(*sites) - frozenset.intersection(*sites)
    return frozenset(joints)
