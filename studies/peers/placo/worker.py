"""PlaCo: one QP a step on Pinocchio, joint limits as constraints, repeated here.

Options: regularization (1e-6) is the weight of the smallest-motion task; tuned=true makes the
rotation cost 0.1 instead of 1.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serve import serve


def build(robot):
    import placo

    arm = placo.RobotWrapper(robot["urdf"], placo.Flags.ignore_collisions)
    solver = placo.KinematicsSolver(arm)
    solver.mask_fbase(True)
    solver.enable_joint_limits(True)
    options = robot["options"]
    for name, lower, upper in zip(robot["joints"], robot["lower"], robot["upper"], strict=True):
        arm.set_joint_limits(name, lower, upper)
    task = solver.add_frame_task(robot["tip"], np.eye(4))
    task.configure(robot["tip"], "soft", 1.0, 0.1 if options.get("tuned") else 1.0)
    solver.add_regularization_task(float(options.get("regularization", 1e-6)))
    position, rotation = robot["tolerance"]

    def solve(problem):
        target = np.eye(4)
        target[:3, :3], target[:3, 3] = problem["rotation"], problem["position"]
        task.T_world_frame = target
        for name, value in zip(robot["joints"], problem["q0"], strict=True):
            arm.set_joint(name, value)
        arm.update_kinematics()
        solved, steps = False, 0
        for steps in range(robot["iterations"] + 1):
            at = arm.get_T_world_frame(robot["tip"])
            cosine = (np.trace(at[:3, :3].T @ target[:3, :3]) - 1.0) / 2.0
            sine = np.linalg.norm(at[:3, :3].T @ target[:3, :3] - target[:3, :3].T @ at[:3, :3])
            angle = np.arctan2(sine / np.sqrt(8.0), cosine)
            solved = np.linalg.norm(at[:3, 3] - target[:3, 3]) <= position and angle <= rotation
            if solved or steps == robot["iterations"]:
                break
            solver.solve(True)
            arm.update_kinematics()
        q = [arm.get_joint(name) for name in robot["joints"]]
        return {"q": q, "converged": bool(solved), "iterations": steps}

    return solve


serve(build)
