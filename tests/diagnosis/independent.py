"""The classification once more, from MuJoCo's poses and finite differences alone.

Nothing of optik's residuals, Jacobians, certificates or solvers is used: only a robot's MjModel and
addresses, a target's numbers, and SciPy's rotations.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from optik.problem import Problem

STEP = 1e-6


@dataclass
class Facts:
    """Finite-difference facts at one configuration."""

    relative: float
    holding: set[tuple[str, str]]
    smallest_curvature: float
    scale: float

    @property
    def stationary(self) -> bool:
        return self.relative < 1e-5

    @property
    def minimum(self) -> bool:
        return self.stationary and self.smallest_curvature > -1e-4 * self.scale


class Independent:
    """One problem with a single pose or position target, looked at from outside."""

    def __init__(self, problem: Problem) -> None:
        (self.target,) = problem.targets
        self.problem, self.robot = problem, problem.robot
        self.data = mujoco.MjData(self.robot.model)
        self.data.qpos[:] = self.robot.joint_map.qpos_held

    def error(self, q: np.ndarray) -> np.ndarray:
        robot, frame = self.robot, self.robot.frame_ref
        self.data.qpos[robot.joint_map.qpos_addresses] = q
        mujoco.mj_kinematics(robot.model, self.data)
        gap = self.target.position_weight * (self.target.position - self.data.site_xpos[frame.id])
        if self.target.quaternion is None:
            return gap
        wanted = Rotation.from_quat(self.target.quaternion, scalar_first=True)
        here = Rotation.from_matrix(self.data.site_xmat[frame.id].reshape(3, 3))
        turn = (wanted * here.inv()).as_rotvec()
        return np.concatenate((gap, self.target.rotation_weight * turn))

    def cost(self, q: np.ndarray) -> float:
        e = self.error(q)
        return 0.5 * float(e @ e)

    def solved(self, q: np.ndarray) -> bool:
        e, tolerance = self.error(q), self.problem.tolerance
        inside = (q >= self.robot.lower).all() and (q <= self.robot.upper).all()
        gap = np.linalg.norm(e[:3]) / self.target.position_weight
        turn = np.linalg.norm(e[3:]) / self.target.rotation_weight
        return bool(inside and gap <= tolerance.position and turn <= tolerance.rotation)

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Weighted geometric Jacobian, by differences of poses."""
        robot, frame = self.robot, self.robot.frame_ref
        columns = []
        for step in STEP * np.eye(robot.n):
            poses = []
            for value in (q + step, q - step):
                self.data.qpos[robot.joint_map.qpos_addresses] = value
                mujoco.mj_kinematics(robot.model, self.data)
                R = self.data.site_xmat[frame.id].reshape(3, 3).copy()
                poses.append((self.data.site_xpos[frame.id].copy(), R))
            (p, R), (p0, R0) = poses
            linear = self.target.position_weight * (p - p0) / (2 * STEP)
            turn = Rotation.from_matrix(R @ R0.T).as_rotvec() / (2 * STEP)
            angular = self.target.rotation_weight * turn
            parts = (linear, angular) if self.target.quaternion is not None else (linear,)
            columns.append(np.concatenate(parts))
        return np.array(columns).T

    def gradient(self, q: np.ndarray) -> np.ndarray:
        return np.array(
            [
                (self.cost(q + step) - self.cost(q - step)) / (2 * STEP)
                for step in STEP * np.eye(self.robot.n)
            ]
        )

    def facts(self, q: np.ndarray) -> Facts:
        robot, g, J = self.robot, self.gradient(q), self.jacobian(q)
        scale = float(np.linalg.norm(J) * np.linalg.norm(self.error(q)))
        low, high = q <= robot.lower, q >= robot.upper
        pressed = (low & (g > 1e-6 * scale)) | (high & (g < -1e-6 * scale))
        holding = {
            (robot.joint_names[i], "lower" if low[i] else "upper") for i in np.flatnonzero(pressed)
        }
        free = np.flatnonzero(~pressed)
        h = 1e-4
        H = np.empty((len(free), len(free)))
        unit = np.eye(robot.n)
        for a, i in enumerate(free):
            for b, j in enumerate(free):
                H[a, b] = (
                    self.cost(q + h * (unit[i] + unit[j]))
                    - self.cost(q + h * (unit[i] - unit[j]))
                    - self.cost(q - h * (unit[i] - unit[j]))
                    + self.cost(q - h * (unit[i] + unit[j]))
                ) / (4 * h * h)
        values = np.linalg.eigvalsh(H) if len(free) else np.array([np.inf])
        return Facts(
            relative=float(np.linalg.norm(np.where(pressed, 0.0, g))) / scale,
            holding=holding,
            smallest_curvature=float(values[0]),
            scale=float(np.abs(H).max()) if len(free) else 0.0,
        )

    def clamped(self, q: np.ndarray, iterations: int) -> tuple[np.ndarray, bool, float]:
        """Clamped damped least squares, lambda 0.01, step 0.2: last q, solved, lowest cost."""
        robot, lowest = self.robot, np.inf
        for _ in range(iterations + 1):
            e = self.error(q)
            lowest = min(lowest, 0.5 * float(e @ e))
            if self.solved(q):
                return q, True, lowest
            J = self.site_jacobian(q)
            d = J.T @ np.linalg.solve(J @ J.T + 1e-4 * np.eye(len(e)), e)
            d *= min(1.0, 0.2 / np.linalg.norm(d))
            q = np.clip(q + d, robot.lower, robot.upper)
        return q, False, lowest

    def site_jacobian(self, q: np.ndarray) -> np.ndarray:
        """The same Jacobian by MuJoCo, for the many steps of `clamped`."""
        robot, frame = self.robot, self.robot.frame_ref
        linear, angular = np.zeros((2, 3, robot.model.nv))
        self.data.qpos[robot.joint_map.qpos_addresses] = q
        mujoco.mj_kinematics(robot.model, self.data)
        mujoco.mj_comPos(robot.model, self.data)
        mujoco.mj_jacSite(robot.model, self.data, linear, angular, frame.id)
        columns = robot.joint_map.dof_addresses
        J = self.target.position_weight * linear[:, columns]
        if self.target.quaternion is None:
            return J
        return np.concatenate((J, self.target.rotation_weight * angular[:, columns]))
