r"""mink: differential inverse kinematics on MuJoCo, one QP a step (Zakka 2024).

Each step minimises the weighted frame error in the tangent space of SE(3) plus Levenberg-Marquardt
damping lm_damping * |error|^2 and `damping`, subject to mink's own limits on the configuration,
which let a joint go `limit_gain` of the way to its limit at a time.

The defaults here are the settings of mink's arm examples: costs 1, lm_damping 1, a posture task of
cost 0.01 at the start, damping 1e-3, DAQP, 95 % of the way.  For reaching a pose once rather than
tracking one, a posture task keeps it off the target: see studies/peers.py for tuned settings.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from optik.pose import Array
from optik.problem import Problem, Shape
from optik.robot import Robot
from optik.solvers._peers import DifferentialIK, Step, peer_module


@dataclass(frozen=True, kw_only=True)
class Mink(DifferentialIK):
    """mink's solve_ik, repeated; what the options mean stands at `DifferentialIK`."""

    name: ClassVar[str] = "mink"
    summary: ClassVar[str] = "mink's differential inverse kinematics, one QP a step"
    reference: ClassVar[str] = "Zakka 2024"

    damping: float = 1e-3
    posture_cost: float = 1e-2
    limit_gain: float = 0.95

    def stepper(self, robot: Robot, shape: Shape) -> Callable[[Problem], Step]:
        """See `DifferentialIK.stepper`."""
        mink: Any = peer_module("mink", solver=self.name)
        model = copy.copy(robot.model)  # its own ranges: mink reads the limits from the model
        held = np.ones(model.nv, dtype=bool)
        for i, joint in enumerate(robot.joint_names):
            model.joint(joint).range[:] = robot.lower[i], robot.upper[i]
            held[robot.joint_map.dof_addresses[i]] = robot.lower[i] == robot.upper[i]
        configuration = mink.Configuration(model)
        frame = robot.frame_ref
        task = mink.FrameTask(
            frame_name=robot.frame,
            frame_type=frame.kind,
            position_cost=self.position_cost,
            orientation_cost=self.orientation_cost if shape.targets[0].kind == "pose" else 0.0,
            lm_damping=self.lm_damping,
        )
        tasks = [task]
        posture = None
        if self.posture_cost > 0.0:
            posture = mink.PostureTask(model, cost=self.posture_cost)
            tasks.append(posture)
        limits = [mink.ConfigurationLimit(model, gain=self.limit_gain)]
        if self.step_limit is not None:
            limits.append(
                mink.VelocityLimit(model, dict.fromkeys(robot.joint_names, self.step_limit))
            )
        constraints = None
        if held.any():
            constraints = [mink.DofFreezingTask(model, dof_indices=np.flatnonzero(held).tolist())]

        accuracy = self.accuracy()

        def start_at(problem: Problem) -> Step:
            addresses = robot.joint_map.qpos_addresses
            qpos = np.array(robot.joint_map.qpos_held)
            qpos[addresses] = problem.q_start
            configuration.update(qpos)
            if posture is not None:
                posture.set_target(qpos)
            target = problem.targets[0]
            quaternion = target.quaternion if target.quaternion is not None else [1.0, 0, 0, 0]
            task.set_target(
                mink.SE3.from_rotation_and_translation(
                    mink.SO3(np.array(quaternion, dtype=np.float64)), np.array(target.position)
                )
            )

            def step(q: Array) -> Array:
                # With a time step of 1 s a velocity is a step.
                try:
                    velocity = mink.solve_ik(
                        configuration,
                        tasks,
                        1.0,
                        self.backend,
                        damping=self.damping,
                        safety_break=False,
                        **accuracy,
                        limits=limits,
                        constraints=constraints,
                    )
                except mink.NoSolutionFound as error:
                    raise RuntimeError(str(error)) from None
                configuration.integrate_inplace(velocity, 1.0)
                return np.array(configuration.q[addresses])

            return step

        return start_at
