"""Random serial chains, to test every kinematics against MuJoCo on more than the bundled robots."""

from __future__ import annotations

import mujoco
import numpy as np

from optik.robot import Robot


def random_chain(rng: np.random.Generator, joints: int) -> Robot:
    """A chain of hinges and slides with anchors, refs, rotated frames and bodies between."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    body = spec.worldbody
    for i in range(joints):
        for _ in range(int(rng.integers(1, 3))):  # sometimes a body without a joint
            body = body.add_body(pos=rng.normal(0, 0.2, 3), quat=_quaternion(rng))
            body.add_geom(size=[0.01, 0, 0])
        hinge = rng.random() < 0.75
        reference = float(rng.normal(0, 0.3))
        joint = body.add_joint(
            name=f"j{i}",
            type=mujoco.mjtJoint.mjJNT_HINGE if hinge else mujoco.mjtJoint.mjJNT_SLIDE,
            axis=rng.normal(size=3),
            pos=rng.normal(0, 0.1, 3),
            ref=reference,
        )
        if rng.random() < 0.8:
            joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
            joint.range = [reference - rng.uniform(0.2, 2.5), reference + rng.uniform(0.2, 2.5)]
    body.add_site(name="tip", pos=rng.normal(0, 0.1, 3), quat=_quaternion(rng))
    return Robot.load(spec, frame="tip", name=f"chain{joints}")


def _quaternion(rng: np.random.Generator) -> np.ndarray:
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)
