r"""Pink: differential inverse kinematics on Pinocchio, one QP a step (Caron et al. 2024).

The same kind of step as mink's, on Pinocchio's kinematics; the robot goes over as URDF.  Pink's own
limit lets a joint go half of the way to its limit at a time.

The defaults here are the settings of Pink's UR5 example: costs 1, lm_damping 1, a posture task of
cost 0.001 at the start, damping 1e-12.  See studies/peers.py for tuned settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from optik.pose import Array, matrix_from_quaternion
from optik.problem import Problem, Shape
from optik.robot import Robot
from optik.solvers._peers import DifferentialIK, Step, peer_module
from optik.solvers._urdf import TIP, robot_urdf


@dataclass(frozen=True, kw_only=True)
class Pink(DifferentialIK):
    """Pink's solve_ik, repeated; what the options mean stands at `DifferentialIK`."""

    name: ClassVar[str] = "pink"
    summary: ClassVar[str] = "Pink's differential inverse kinematics, one QP a step"
    reference: ClassVar[str] = "Caron, De Mont-Marin, Budhiraja and others 2024"

    damping: float = 1e-12
    posture_cost: float = 1e-3
    limit_gain: float = 0.5

    def stepper(self, robot: Robot, shape: Shape) -> Callable[[Problem], Step]:
        """See `DifferentialIK.stepper`."""
        pink: Any = peer_module("pink", solver=self.name)
        tasks_module: Any = peer_module("pink.tasks", solver=self.name)
        limits_module: Any = peer_module("pink.limits", solver=self.name)
        exceptions: Any = peer_module("pink.exceptions", solver=self.name)
        pin: Any = peer_module("pinocchio", solver=self.name)
        model = pin.buildModelFromXML(robot_urdf(robot))
        data = model.createData()
        # Pinocchio orders joints by its own rule.
        order = np.array([model.joints[model.getJointId(j)].idx_q for j in robot.joint_names])
        with_rotation = shape.targets[0].kind == "pose"
        task = tasks_module.FrameTask(
            TIP,
            position_cost=self.position_cost,
            orientation_cost=self.orientation_cost if with_rotation else 0.0,
            lm_damping=self.lm_damping,
        )
        tasks = [task]
        posture = None
        if self.posture_cost > 0.0:
            posture = tasks_module.PostureTask(cost=self.posture_cost)
            tasks.append(posture)
        limits = [limits_module.ConfigurationLimit(model, config_limit_gain=self.limit_gain)]
        if self.step_limit is not None:
            speeds = np.full(model.nv, self.step_limit)
            limits.append(limits_module.VelocityLimit(model, speeds))

        accuracy = self.accuracy()

        def start_at(problem: Problem) -> Step:
            start = np.empty(robot.n)
            start[order] = problem.q_start
            configuration = pink.Configuration(model, data, start)
            if posture is not None:
                posture.set_target(start)
            target = problem.targets[0]
            R = np.eye(3)
            if target.quaternion is not None:
                R = matrix_from_quaternion(target.quaternion)
            task.set_target(pin.SE3(R, np.array(target.position)))

            def step(q: Array) -> Array:
                # With a time step of 1 s a velocity is a step.
                try:
                    velocity = pink.solve_ik(
                        configuration,
                        tasks,
                        1.0,
                        solver=self.backend,
                        damping=self.damping,
                        limits=limits,
                        safety_break=False,
                        **accuracy,
                    )
                except exceptions.PinkError as error:
                    raise RuntimeError(str(error)) from None
                configuration.integrate_inplace(velocity, 1.0)
                return np.array(configuration.q[order])

            return step

        return start_at
