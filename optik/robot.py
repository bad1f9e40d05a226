"""A robot: the named hinge and slide joints of a MuJoCo model, their limits, and a frame.

Every other joint of the model is held where a keyframe or `qpos` puts it.  Limits are read from the
compiled model (`jnt_limited`, `jnt_range`), never from XML text: a joint whose range is (0, 0) and
whose flag is off is unlimited, not locked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import mujoco
import numpy as np
from numpy.typing import ArrayLike

from optik.data import data_folder
from optik.errors import RobotError, unknown_name
from optik.kinematics import Frame, FrameKind, JointMap, Kinematics
from optik.pose import Array, Pose, frozen

_LOCAL = threading.local()
# MuJoCo's enums do not compare equal to the integers in its arrays.
_HINGE = int(mujoco.mjtJoint.mjJNT_HINGE)
_SLIDE = int(mujoco.mjtJoint.mjJNT_SLIDE)


class RobotFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `models/<robot>/robot.toml` says."""

    title: str
    model: str
    frame: str
    joints: list[str]
    q_nominal: str | list[float]
    source: str
    licence: str
    notes: str = ""
    sampling: dict[str, tuple[float, float]] = {}


@dataclass(frozen=True, eq=False)
class Robot:
    """Named joints of a model, their limits, a frame and a nominal configuration.

    Made by `Robot.load`.

    Attributes:
        name: what tables call it.
        model: the compiled model; never written to.
        joint_names: the n joints, in the order of q.
        joint_kinds: "hinge" or "slide" for each.
        lower: lower limits, shape (n,) [rad or m], -inf where unlimited.
        upper: upper limits, shape (n,) [rad or m], inf where unlimited.
        q_nominal: the home configuration, shape (n,) [rad or m].
        frame_ref: the controlled frame.
        joint_map: addresses of the joints in the model, and what the others are held at.
        sampling_lower: lower ends of the ranges random configurations are drawn from, shape (n,);
            the limits where there are any.
        sampling_upper: upper ends, shape (n,).
    """

    name: str
    model: mujoco.MjModel
    joint_names: tuple[str, ...]
    joint_kinds: tuple[str, ...]
    lower: Array
    upper: Array
    q_nominal: Array
    frame_ref: Frame
    joint_map: JointMap
    sampling_lower: Array
    sampling_upper: Array

    @property
    def frame(self) -> str:
        """Name of the controlled frame."""
        return self.frame_ref.name

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    @property
    def q_mid(self) -> Array:
        """Middle of the sampling ranges, shape (n,): mid-range where a joint is limited."""
        return 0.5 * (self.sampling_lower + self.sampling_upper)

    @classmethod
    def load(
        cls,
        source: str | Path | mujoco.MjSpec | mujoco.MjModel,
        *,
        frame: str | None = None,
        joints: Sequence[str] | None = None,
        q_nominal: str | ArrayLike | None = None,
        qpos: ArrayLike | None = None,
        name: str | None = None,
    ) -> Robot:
        """Loads a bundled robot by name, or any MuJoCo model.

        Args:
            source: a bundled name, a path to an MJCF or URDF file, an MjSpec or an MjModel.
            frame: the controlled site, body or geom, by name ("site:tool" picks the kind where
                two share a name).
            joints: the joints that move, in the order wanted; every hinge and slide joint on the
                way from the world to the frame if None.
            q_nominal: a keyframe's name, or values, shape (n,) [rad or m]; the model's own
                reference configuration if None.
            qpos: where the held joints stay, shape (nq,); the nominal keyframe's if None.
            name: what tables call it; the bundled name or the model's name if None.

        Raises:
            UnknownNameError: for a robot, frame, joint or keyframe that does not exist.
            RobotError: for a model that does not compile or joints that cannot be moved.
        """
        sampling: dict[str, tuple[float, float]] = {}
        if isinstance(source, str) and source in bundled_robots():
            spec = robot_file(source)
            path = data_folder("models") / source / spec.model
            model = _compile(path)
            frame = spec.frame if frame is None else frame
            joints = spec.joints if joints is None else joints
            q_nominal = spec.q_nominal if q_nominal is None else q_nominal
            name = source if name is None else name
            sampling = spec.sampling
        else:
            model = _model_of(source)
        return _build(model, frame, joints, q_nominal, qpos, name, sampling)

    def frame_named(self, name: str | None) -> Frame:
        """Finds a site, body or geom of the model; the robot's own frame if `name` is None."""
        return self.frame_ref if name is None else find_frame(self.model, name)

    def forward(self, q: ArrayLike, *, frame: str | None = None) -> Pose:
        """Pose of the frame at configuration `q`, shape (n,) [rad or m]."""
        kinematics = self.kinematics()
        kinematics.update(self.configuration(q))
        return kinematics.pose(self.frame_named(frame))

    def jacobian(self, q: ArrayLike, *, frame: str | None = None) -> Array:
        """Geometric Jacobian at `q`, shape (6, n), world axes, rows position then rotation."""
        kinematics = self.kinematics()
        kinematics.update(self.configuration(q))
        return kinematics.jacobian(self.frame_named(frame))

    def kinematics(self) -> Kinematics:
        """This thread's private kinematics of the robot."""
        cache: weakref.WeakKeyDictionary[Robot, Kinematics] | None
        cache = getattr(_LOCAL, "kinematics", None)
        if cache is None:
            cache = _LOCAL.kinematics = weakref.WeakKeyDictionary()
        kinematics = cache.get(self)
        if kinematics is None:
            kinematics = cache[self] = Kinematics(self.model, self.joint_map)
        return kinematics

    def configuration(self, q: ArrayLike) -> Array:
        """Checks a configuration: finite, shape (n,) [rad or m]; returns it as an array."""
        try:
            array = np.asarray(q, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise RobotError(f"a configuration is {self.n} numbers: {error}") from None
        if array.shape != (self.n,):
            raise RobotError(
                f"a configuration of {self.name} has {self.n} numbers, one for each of "
                f"{', '.join(self.joint_names)}; got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            raise RobotError(f"a configuration needs finite numbers, got {array.tolist()}")
        return array

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draws configurations uniformly from the sampling ranges, shape (n,) or (size, n)."""
        shape = self.n if size is None else (size, self.n)
        return rng.uniform(self.sampling_lower, self.sampling_upper, shape)

    def limits_table(self) -> list[dict[str, Any]]:
        """One row a joint: name, kind, unit, lower, upper, limited, as MuJoCo compiled them."""
        return [
            {
                "joint": name,
                "kind": kind,
                "unit": "rad" if kind == "hinge" else "m",
                "lower": float(lo),
                "upper": float(hi),
                "limited": bool(np.isfinite(lo) or np.isfinite(hi)),
            }
            for name, kind, lo, hi in zip(
                self.joint_names, self.joint_kinds, self.lower, self.upper, strict=True
            )
        ]

    def replace(self, **changes: Any) -> Robot:
        """Returns a copy with some attributes changed."""
        return replace(self, **changes)


def bundled_robots() -> list[str]:
    """Names of the robots in `models/`."""
    return sorted(p.parent.name for p in data_folder("models").glob("*/robot.toml"))


def robot_file(name: str) -> RobotFile:
    """Reads `models/<name>/robot.toml`.

    Raises:
        UnknownNameError: if there is no such robot.
        RobotError: if a field is missing, misspelt or of the wrong type; names the file.
    """
    if name not in bundled_robots():
        raise unknown_name("robot", name, bundled_robots())
    path = data_folder("models") / name / "robot.toml"
    try:
        return msgspec.toml.decode(path.read_bytes(), type=RobotFile)
    except msgspec.DecodeError as error:
        raise RobotError(f"{path}: {error}") from None


def find_frame(model: mujoco.MjModel, name: str) -> Frame:
    """Finds the site, body or geom called `name`, in that order.

    Raises:
        UnknownNameError: if no object has the name.
    """
    kinds: dict[FrameKind, tuple[int, Any]] = {
        "site": (mujoco.mjtObj.mjOBJ_SITE, lambda i: model.site_bodyid[i]),
        "body": (mujoco.mjtObj.mjOBJ_BODY, lambda i: i),
        "geom": (mujoco.mjtObj.mjOBJ_GEOM, lambda i: model.geom_bodyid[i]),
    }
    wanted, _, bare = name.rpartition(":")
    for kind, (object_type, body_of) in kinds.items():
        if wanted in ("", kind):
            i = mujoco.mj_name2id(model, object_type, bare)
            if i >= 0:
                return Frame(name=bare, kind=kind, id=i, body=int(body_of(i)))
    names = [model.site(i).name for i in range(model.nsite)]
    names += [model.body(i).name for i in range(1, model.nbody)]
    names += [model.geom(i).name for i in range(model.ngeom)]
    raise unknown_name("frame", name, [n for n in names if n])


def _model_of(source: str | Path | mujoco.MjSpec | mujoco.MjModel) -> mujoco.MjModel:
    if isinstance(source, mujoco.MjModel):
        return source
    if isinstance(source, mujoco.MjSpec):
        try:
            return source.compile()
        except (ValueError, RuntimeError) as error:
            raise RobotError(f"the MjSpec does not compile: {error}") from None
    if not isinstance(source, (str, Path)):
        raise RobotError(
            "a robot is loaded from a bundled name, a path, an MjSpec or an MjModel, "
            f"not from {type(source).__name__}"
        )
    if Path(source).is_file():
        return _compile(Path(source))
    text = str(source)
    if text.endswith((".xml", ".urdf", ".mjcf")) or "/" in text:
        raise RobotError(f"there is no model file {text!r}")
    raise unknown_name("robot", text, bundled_robots())


def _compile(path: Path) -> mujoco.MjModel:
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except (ValueError, RuntimeError) as error:
        raise RobotError(f"{path} does not compile: {error}") from None


def _build(
    model: mujoco.MjModel,
    frame: str | None,
    joints: Sequence[str] | None,
    q_nominal: str | ArrayLike | None,
    qpos: ArrayLike | None,
    name: str | None,
    sampling: dict[str, tuple[float, float]],
) -> Robot:
    if frame is None:
        names = [model.site(i).name for i in range(model.nsite)] or [
            model.body(i).name for i in range(1, model.nbody)
        ]
        raise RobotError(f"name the controlled frame with frame=; sites or bodies: {names}")
    ref = find_frame(model, frame)
    joint_ids = _joint_ids(model, ref, joints)
    qpos_addresses = np.array([model.jnt_qposadr[j] for j in joint_ids], dtype=np.int64)
    held = np.array(model.qpos0)
    if isinstance(q_nominal, str):
        keys = [model.key(i).name for i in range(model.nkey)]
        if q_nominal not in keys:
            raise unknown_name("keyframe", q_nominal, keys)
        held = model.key_qpos[keys.index(q_nominal)].copy()
    if qpos is not None:
        held = np.array(qpos, dtype=np.float64)
        if held.shape != (model.nq,) or not np.isfinite(held).all():
            raise RobotError(f"qpos= needs {model.nq} finite numbers, got shape {held.shape}")
    nominal = held[qpos_addresses]
    if q_nominal is not None and not isinstance(q_nominal, str):
        nominal = np.array(q_nominal, dtype=np.float64)
        if nominal.shape != (len(joint_ids),) or not np.isfinite(nominal).all():
            raise RobotError(
                f"q_nominal= needs {len(joint_ids)} finite numbers, got shape {nominal.shape}"
            )
    limited = np.array([bool(model.jnt_limited[j]) for j in joint_ids])
    ranges = model.jnt_range[joint_ids]
    lower = np.where(limited, ranges[:, 0], -np.inf)
    upper = np.where(limited, ranges[:, 1], np.inf)
    kinds = tuple("hinge" if model.jnt_type[j] == _HINGE else "slide" for j in joint_ids)
    names_of = tuple(model.joint(j).name for j in joint_ids)
    # An unlimited hinge is sampled over one turn around the nominal configuration.
    sampling_lower = np.where(limited, lower, nominal - np.pi)
    sampling_upper = np.where(limited, upper, nominal + np.pi)
    for joint, (lo, hi) in sampling.items():
        if joint not in names_of:
            raise unknown_name("joint", joint, names_of)
        i = names_of.index(joint)
        sampling_lower[i], sampling_upper[i] = lo, hi
    return Robot(
        name=name or Path(model_name(model)).stem,
        model=model,
        joint_names=names_of,
        joint_kinds=kinds,
        lower=frozen(lower),
        upper=frozen(upper),
        q_nominal=frozen(nominal),
        frame_ref=ref,
        joint_map=JointMap(
            qpos_addresses=qpos_addresses,
            dof_addresses=np.array([model.jnt_dofadr[j] for j in joint_ids], dtype=np.int64),
            qpos_held=frozen(held),
        ),
        sampling_lower=frozen(sampling_lower),
        sampling_upper=frozen(sampling_upper),
    )


def model_name(model: mujoco.MjModel) -> str:
    """Returns the name that the model file gives itself."""
    return bytes(model.names).split(b"\0", 1)[0].decode() or "model"


def _joint_ids(model: mujoco.MjModel, frame: Frame, joints: Sequence[str] | None) -> list[int]:
    movable = (_HINGE, _SLIDE)
    all_names = [model.joint(j).name for j in range(model.njnt)]
    if joints is None:
        path, body = set(), frame.body
        while body != 0:
            path.add(body)
            body = int(model.body_parentid[body])
        ids = [
            j
            for j in range(model.njnt)
            if int(model.jnt_bodyid[j]) in path and model.jnt_type[j] in movable
        ]
        if not ids:
            raise RobotError(f"no hinge or slide joint moves the frame {frame.name!r}")
        return ids
    ids = []
    for joint in joints:
        if joint not in all_names:
            raise unknown_name("joint", joint, [n for n in all_names if n])
        j = all_names.index(joint)
        if model.jnt_type[j] not in movable:
            raise RobotError(
                f"joint {joint!r} is a ball or free joint, which optik cannot move; leave it out "
                "and it is held where the keyframe or qpos= puts it"
            )
        if j in ids:
            raise RobotError(f"joint {joint!r} is named twice in joints=")
        ids.append(j)
    if not ids:
        raise RobotError("joints= names no joint")
    return ids
