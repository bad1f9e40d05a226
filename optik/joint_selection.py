"""Which joints of a model move, where they start, and how far they may go.

The joints are chosen by name in the user's order, or are those on the way from the world to the
frame.  Every other joint is a constant, put where a keyframe or `qpos` says; the addresses of qpos
and of qvel are kept apart, because a free joint takes seven of the one and six of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from optik.bundled import RobotFile, blamed_on
from optik.checks import listed, numbers, real
from optik.couplings import (
    Follow,
    couplings_of,
    follows,
    hold_dependents,
    joint_name,
    refuse_constraints,
)
from optik.errors import RobotError, brief, unknown_name
from optik.frames import find_frame, frame_names
from optik.joint_limits import (
    Limits,
    Margin,
    Unit,
    model_ranges,
    narrow_by_couplings,
    override,
    sampling_ranges,
    with_margin,
)
from optik.kinematics import Frame, JointMap
from optik.pose import Array, frozen

# MuJoCo's enums do not compare equal to the integers in its arrays.
_HINGE = int(mujoco.mjtJoint.mjJNT_HINGE)
_SLIDE = int(mujoco.mjtJoint.mjJNT_SLIDE)
_KINDS = {_HINGE: "hinge", _SLIDE: "slide"}
_TURN = 2.0 * np.pi


@dataclass(frozen=True, eq=False)
class Selection:
    """Everything about a robot that follows from its model and the user's choice.

    Attributes are those of `Robot`.
    """

    frame: Frame
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    lower: Array
    upper: Array
    nominal: Array
    joint_map: JointMap
    sampling_lower: Array
    sampling_upper: Array
    limit_origins: tuple[str, ...]


def select(
    model: mujoco.MjModel,
    *,
    frame: str | None = None,
    joints: Sequence[str] | None = None,
    q_nominal: str | ArrayLike | None = None,
    qpos: ArrayLike | None = None,
    limits: Limits | None = None,
    unit: Unit | None = None,
    limit_margin: Margin | Mapping[str, Margin] = 0.0,
    sampling: Mapping[str, tuple[float, float]] | None = None,
    file: RobotFile | None = None,
    path: Path | None = None,
) -> Selection:
    """Chooses joints, frame, limits and nominal configuration; the options are `Robot.load`'s.

    Args:
        model: the model.
        frame: see `Robot.load`, as the options that follow.
        joints: the joints that move.
        q_nominal: the home configuration.
        qpos: where the held joints stay.
        limits: ranges that replace the model's.
        unit: their unit for hinges.
        limit_margin: how far to stay from every limit.
        sampling: where random values are drawn from.
        file: a robot file, which says whatever the options leave open.
        path: that file's path, named in errors about its fields.

    Raises:
        RobotError: for anything that cannot be used; names the file's line where it is at fault.
    """
    with blamed_on(path if frame is None else None, "frame"):
        found = _frame(model, file.frame if file is not None and frame is None else frame)
    following = follows(model)
    own = joints is None and file is not None
    with blamed_on(path if own else None, "joints"):
        ids = _joint_ids(model, found, file.joints if own and file else joints, following)
        couplings = couplings_of(model, following, ids)
        dependents = [f.dependent for f in following.values() if f.source in ids]
        refuse_constraints(model, [*ids, *dependents])
    with blamed_on(path if q_nominal is None else None, "q_nominal"):
        held, nominal = _placed(model, ids, q_nominal, qpos, file)
    held[[model.jnt_qposadr[j] for j in ids]] = nominal
    hold_dependents(model, following, held)

    ranges = model_ranges(model)
    if limits is not None:
        override(ranges, model, limits, unit)
    for j in ids:
        if ranges.lower[j] > ranges.upper[j]:
            raise RobotError(
                f"joint {joint_name(model, j)!r} has the range [{ranges.lower[j]:g}, "
                f"{ranges.upper[j]:g}], whose ends are swapped; give it another with limits="
            )
    narrow_by_couplings(ranges, model, ids, couplings, nominal)
    with_margin(ranges, model, ids, limit_margin)
    lower, upper = ranges.lower[ids], ranges.upper[ids]
    kinds = tuple(_KINDS[int(model.jnt_type[j])] for j in ids)
    names = tuple(joint_name(model, j) for j in ids)
    spans = np.array([_TURN if kind == "hinge" else 2.0 * model.stat.extent for kind in kinds])
    low, high = sampling_ranges(lower, upper, nominal, spans)
    if file is not None:
        with blamed_on(path, "sampling"):
            known = [j for j in file.sampling if j in names or j not in file.joints]
            _sample_from(low, high, names, {j: file.sampling[j] for j in known}, lower, upper)
    _sample_from(low, high, names, {} if sampling is None else sampling, lower, upper)
    return Selection(
        frame=found,
        names=names,
        kinds=kinds,
        lower=lower,
        upper=upper,
        nominal=nominal,
        joint_map=JointMap(
            qpos_addresses=np.array([model.jnt_qposadr[j] for j in ids], dtype=np.int64),
            dof_addresses=np.array([model.jnt_dofadr[j] for j in ids], dtype=np.int64),
            qpos_held=frozen(held),
            couplings=couplings,
        ),
        sampling_lower=low,
        sampling_upper=high,
        limit_origins=tuple(ranges.origin[j] for j in ids),
    )


def _frame(model: mujoco.MjModel, name: str | None) -> Frame:
    if name is None:
        raise RobotError(
            f"name the controlled frame with frame=, one of: {', '.join(frame_names(model))}"
        )
    return find_frame(model, name)


def _joint_ids(
    model: mujoco.MjModel,
    frame: Frame,
    joints: Sequence[str] | None,
    following: dict[int, Follow],
) -> list[int]:
    if joints is None:
        return _joints_on_the_way(model, frame, following)
    names = [joint_name(model, j) for j in range(model.njnt)]
    ids: list[int] = []
    for joint in listed(joints, "joints= needs a list of names", RobotError):
        if not isinstance(joint, str) or joint not in names:
            raise _not_a_joint(model, joint, names)
        j = names.index(joint)
        if int(model.jnt_type[j]) not in _KINDS:
            raise RobotError(
                f"joint {joint!r} is a ball or free joint, which optik cannot move; leave it out "
                "and it is held where the keyframe or qpos= puts it"
            )
        if j in following:
            source = following[j].source
            if source < 0:
                what = "is fixed by a joint equality; leave it out"
            else:
                leader = repr(joint_name(model, source))
                what = f"follows joint {leader} by a joint equality; name {leader} instead"
            raise RobotError(f"joint {joint!r} {what}")
        if j in ids:
            raise RobotError(f"joint {joint!r} is named twice in joints=")
        ids.append(j)
    if not ids:
        raise RobotError("joints= names no joint")
    return ids


def _joints_on_the_way(
    model: mujoco.MjModel, frame: Frame, following: dict[int, Follow]
) -> list[int]:
    """Hinges and slides above the frame; for one that follows another joint, that other joint."""
    path, body = set(), frame.body
    while body != 0:
        path.add(body)
        body = int(model.body_parentid[body])
    ids = set()
    for j in range(model.njnt):
        if int(model.jnt_bodyid[j]) in path and int(model.jnt_type[j]) in _KINDS:
            ids.add(following[j].source if j in following else j)
    ids.discard(-1)
    if not ids:
        raise RobotError(
            f"no hinge or slide joint moves the frame {frame.name!r}; ball and free joints are held"
        )
    return sorted(ids)


def _not_a_joint(model: mujoco.MjModel, name: object, names: list[str]) -> RobotError | LookupError:
    for label, count, item in (
        ("tendon", model.ntendon, model.tendon),
        ("actuator", model.nu, model.actuator),
    ):
        if any(item(i).name == name for i in range(count)):
            return RobotError(
                f"{name!r} is a {label} of the model; optik moves hinge and slide joints only, "
                f"name those: {', '.join(names)}"
            )
    return unknown_name("joint", name, names)


def _placed(
    model: mujoco.MjModel,
    ids: list[int],
    q_nominal: str | ArrayLike | None,
    qpos: ArrayLike | None,
    file: RobotFile | None,
) -> tuple[Array, Array]:
    """Where all joints stand, shape (nq,), and the nominal configuration, shape (n,)."""
    held = np.array(model.qpos0)
    if file is not None:
        held = _with_file_home(model, held, file)
    if isinstance(q_nominal, str):
        held = _keyframe(model, q_nominal)
    if qpos is not None:
        held = _numbers("qpos=", qpos, model.nq)
    nominal = held[[model.jnt_qposadr[j] for j in ids]]
    if q_nominal is not None and not isinstance(q_nominal, str):
        nominal = _numbers("q_nominal=", q_nominal, len(ids))
    return held, nominal


def _with_file_home(model: mujoco.MjModel, held: Array, file: RobotFile) -> Array:
    if isinstance(file.q_nominal, str):
        return _keyframe(model, file.q_nominal)
    home = _numbers("q_nominal", file.q_nominal, len(file.joints))
    for joint, value in zip(file.joints, home, strict=True):
        held[model.joint(joint).qposadr[0]] = value
    return held


def _keyframe(model: mujoco.MjModel, name: str) -> Array:
    keys = [model.key(i).name for i in range(model.nkey)]
    if name not in keys:
        raise unknown_name("keyframe", name, keys)
    return np.array(model.key_qpos[keys.index(name)])


def _numbers(what: str, values: Any, count: int) -> Array:
    array = numbers(values, f"{what} needs {count} finite numbers", RobotError)
    if array.shape != (count,) or not np.isfinite(array).all():
        raise RobotError(f"{what} needs {count} finite numbers, got shape {array.shape}")
    return array


def _sample_from(
    low: Array,
    high: Array,
    names: tuple[str, ...],
    sampling: Mapping[str, tuple[float, float]],
    lower: Array,
    upper: Array,
) -> None:
    """Puts given sampling ranges, cut to the limits, into `low` and `high`, shape (n,) each."""
    if not isinstance(sampling, Mapping):
        raise RobotError(f"sampling= needs (lower, upper) by joint name, got {brief(sampling)}")
    for joint, ends in sampling.items():
        if joint not in names:
            raise unknown_name("joint", joint, names)
        i = names.index(joint)
        what = f"sampling of joint {joint!r} needs (lower, upper), of which each"
        a, b = (real(e, what, RobotError) for e in listed(ends, what, RobotError, count=2))
        low[i], high[i] = max(a, lower[i]), min(b, upper[i])
        if not low[i] <= high[i]:
            raise RobotError(
                f"sampling of joint {joint!r} needs two finite numbers, rising, that overlap its "
                f"limits [{lower[i]:g}, {upper[i]:g}]; got ({a:g}, {b:g})"
            )
