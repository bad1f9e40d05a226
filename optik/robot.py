"""A robot: the named hinge and slide joints of a MuJoCo model, their limits, and a frame.

Every other joint of the model is held where a keyframe or `qpos` puts it, ball and free joints
included; joints that follow another by a joint equality move along with it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from optik.bundled import blamed_on, bundled_robots, robot_file, robot_path
from optik.checks import instance, numbers, whole
from optik.data import is_file
from optik.errors import RobotError, unknown_name
from optik.frames import find_frame
from optik.joint_limits import Limits, Margin, Unit
from optik.joint_selection import Selection, select
from optik.kinematics import Frame, JointMap, Kinematics
from optik.model_source import MODEL_SUFFIXES, compiled
from optik.pose import Array, Pose, frozen

__all__ = ["Robot", "bundled_robots", "find_frame", "robot_file"]

_LOCAL = threading.local()


@dataclass(frozen=True, eq=False, repr=False)
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
        limit_origins: what set each joint's limits: "model", "limits=", a coupled joint, a margin.
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
    limit_origins: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: name, joints and frame."""
        return f"<Robot {self.name}: {', '.join(self.joint_names)}; frame {self.frame}>"

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
        limits: Limits | None = None,
        unit: Unit | None = None,
        limit_margin: Margin | Mapping[str, Margin] = 0.0,
        sampling: Mapping[str, tuple[float, float]] | None = None,
        name: str | None = None,
    ) -> Robot:
        """Loads a bundled robot by name, or any MuJoCo model.

        Args:
            source: a bundled name, a path to an MJCF or URDF file or to a robot.toml, an MjSpec or
                an MjModel.
            frame: the controlled site, body or geom, by name ("site:tool" picks the kind where
                two share a name).
            joints: the joints that move, in the order wanted; every hinge and slide joint on the
                way from the world to the frame if None.
            q_nominal: a keyframe's name, which places the held joints too, or values, shape (n,)
                [rad or m]; the model's own reference configuration if None.
            qpos: where the held joints stay, shape (nq,); the nominal keyframe's if None.
            limits: (lower, upper) by joint name instead of the model's; None, or an end that is
                None, takes a limit away.  Nothing else ever widens a range.
            unit: "rad" or "deg": what the numbers of `limits` are for hinges; slides are in m.
            limit_margin: how far to stay from every limit [rad or m], or "5%" of the range, or
                either by joint name.
            sampling: where random values are drawn from, (lower, upper) by joint name [rad or m];
                within the limits if None, over one turn around the nominal value for a hinge
                without limits, over the model's extent for such a slide.
            name: what tables call it; the bundled name, the model's name or the file's if None.

        Raises:
            UnknownNameError: for a robot, frame, joint or keyframe that does not exist.
            RobotError: for a model that does not compile, joints that cannot be moved, loops or
                tendons that tie them, or limits that leave nothing.
        """
        if name is not None:
            instance(name, str, "name=", RobotError)
        options: dict[str, Any] = {
            "frame": frame,
            "joints": joints,
            "q_nominal": q_nominal,
            "qpos": qpos,
            "limits": limits,
            "unit": unit,
            "limit_margin": limit_margin,
            "sampling": sampling,
        }
        if isinstance(source, str) and source in bundled_robots():
            return cls.from_file(robot_path(source), name=name or source, **options)
        if isinstance(source, (str, Path)) and Path(source).name == "robot.toml":
            return cls.from_file(Path(source), name=name, **options)
        if isinstance(source, str) and not is_file(Path(source)):
            if source.lstrip().startswith("<"):
                raise RobotError("load a model's text with mujoco.MjSpec.from_string(text)")
            if not source.endswith(MODEL_SUFFIXES) and "/" not in source:
                raise unknown_name("robot", source, bundled_robots())
        if not isinstance(source, (str, Path, mujoco.MjSpec, mujoco.MjModel)):
            raise RobotError(
                "a robot is loaded from a bundled name, a path, an MjSpec or an MjModel, "
                f"not from {type(source).__name__}"
            )
        model = compiled(source)
        if not name:
            name = model_name(model)
            # MuJoCo's own word for a model without a name says nothing in a table.
            if name == "MuJoCo Model" and isinstance(source, (str, Path)):
                name = Path(source).stem
        return cls._made(name, model, select(model, **options))

    @classmethod
    def from_file(cls, path: Path, *, name: str | None = None, **options: Any) -> Robot:
        """Loads the robot that a robot.toml describes.

        Args:
            path: the file; the model stands beside it.
            name: what tables call it; the folder's name if None.
            options: as for `load`; what is given replaces what the file says.

        Raises:
            RobotError: as `load`, naming the file, the line and the field if that is at fault.
        """
        file = robot_file(path)
        given = {k: v for k, v in options.items() if v is not None}
        with blamed_on(path, "model"):
            model = compiled(path.parent / file.model)
        selection = select(model, **given, file=file, path=path)
        return cls._made(name or path.parent.name, model, selection)

    @classmethod
    def _made(cls, name: str, model: mujoco.MjModel, made: Selection) -> Robot:
        return cls(
            name=name,
            model=model,
            joint_names=made.names,
            joint_kinds=made.kinds,
            lower=frozen(made.lower),
            upper=frozen(made.upper),
            q_nominal=frozen(made.nominal),
            frame_ref=made.frame,
            joint_map=made.joint_map,
            sampling_lower=frozen(made.sampling_lower),
            sampling_upper=frozen(made.sampling_upper),
            limit_origins=made.limit_origins,
        )

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
        array = numbers(q, f"a configuration is {self.n} numbers", RobotError)
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
        instance(rng, np.random.Generator, "rng", RobotError)
        shape = self.n if size is None else (whole(size, "size", RobotError, least=0), self.n)
        return rng.uniform(self.sampling_lower, self.sampling_upper, shape)

    def qpos(self, q: ArrayLike) -> Array:
        """The model's whole qpos, shape (nq,), with the robot at `q`, shape (n,) [rad or m].

        Held joints keep their values bit for bit; joints that follow another move along.
        """
        array, joints = self.configuration(q), self.joint_map
        qpos = np.array(joints.qpos_held)
        qpos[joints.qpos_addresses] = array
        for c in joints.couplings:
            qpos[c.qpos_address] = c.value(float(array[c.joint]))
        return qpos

    def limits_table(self) -> list[dict[str, Any]]:
        """One row a joint: its range, its unit, MuJoCo's flag, and what set the range.

        Keys: joint, kind, unit; lower, upper [rad or m]; lower_degrees, upper_degrees (None for a
        slide); limited (whether a limit holds); model_limited, model_lower, model_upper (as MuJoCo
        compiled them; the numbers mean nothing where the flag is off); origin.
        """
        rows = []
        joint_at = {int(a): j for j, a in enumerate(self.model.jnt_qposadr)}
        origins = self.limit_origins or ("model",) * self.n
        for i, name in enumerate(self.joint_names):
            j = joint_at[int(self.joint_map.qpos_addresses[i])]
            lower, upper = float(self.lower[i]), float(self.upper[i])
            hinge = self.joint_kinds[i] == "hinge"
            rows.append(
                {
                    "joint": name,
                    "kind": self.joint_kinds[i],
                    "unit": "rad" if hinge else "m",
                    "lower": lower,
                    "upper": upper,
                    "lower_degrees": float(np.degrees(lower)) if hinge else None,
                    "upper_degrees": float(np.degrees(upper)) if hinge else None,
                    "limited": bool(np.isfinite(lower) or np.isfinite(upper)),
                    "model_limited": bool(self.model.jnt_limited[j]),
                    "model_lower": float(self.model.jnt_range[j, 0]),
                    "model_upper": float(self.model.jnt_range[j, 1]),
                    "origin": origins[i],
                }
            )
        return rows

    def replace(self, **changes: Any) -> Robot:
        """Returns a copy with some attributes changed; sampling ranges are cut to new limits.

        Raises:
            RobotError: for arrays that are not n numbers each, or ranges whose ends are swapped.
        """
        for name in ("lower", "upper", "q_nominal", "sampling_lower", "sampling_upper"):
            if name in changes:
                changes[name] = frozen(numbers(changes[name], f"{name}=", RobotError))
                if changes[name].shape != (self.n,):
                    raise RobotError(
                        f"{name}= needs {self.n} numbers, one for each of "
                        f"{', '.join(self.joint_names)}; got shape {changes[name].shape}"
                    )
        lower, upper = changes.get("lower", self.lower), changes.get("upper", self.upper)
        for name in ("sampling_lower", "sampling_upper"):
            if name not in changes:
                changes[name] = frozen(np.clip(getattr(self, name), lower, upper))
        changed = replace(self, **changes)
        for low, high in (("lower", "upper"), ("sampling_lower", "sampling_upper")):
            rising = getattr(changed, low) <= getattr(changed, high)
            if not rising.all():
                joint = self.joint_names[int(np.argmin(rising))]
                raise RobotError(f"{low}= must not lie above {high}=, as it does for {joint!r}")
        drawn = (changed.sampling_lower, changed.sampling_upper, changed.q_nominal)
        if not np.isfinite(drawn).all():
            raise RobotError("q_nominal= and the sampling ranges need finite numbers")
        return changed


def model_name(model: mujoco.MjModel) -> str:
    """Returns the name that the model file gives itself."""
    return bytes(model.names).split(b"\0", 1)[0].decode() or "model"
