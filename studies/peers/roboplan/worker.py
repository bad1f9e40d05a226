"""RoboPlan: damped pseudo-inverse steps (SimpleIk) on Pinocchio, with restarts.

Options: tuned=true tightens the tolerances from 1 mm and 1 mrad and gives one start as many
iterations as the budget has; restarts=N.  As it comes: 100 iterations, 2 restarts, 5 ms.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serve import serve


def build(robot):
    from roboplan.core import (
        CartesianConfiguration,
        JointConfiguration,
        Scene,
        loadUrdfSceneDescription,
    )
    from roboplan.simple_ik import SimpleIk, SimpleIkOptions

    scene = Scene("peer", loadUrdfSceneDescription(robot["urdf"]))
    options = {"check_collisions": False}
    if robot["options"].get("tuned"):
        options |= {
            "max_iters": robot["iterations"],
            "max_time": robot["seconds"] or 60.0,
            "max_restarts": int(robot["options"].get("restarts", 0)),
            "max_linear_error_norm": robot["tolerance"][0],
            "max_angular_error_norm": robot["tolerance"][1],
            "step_size": float(robot["options"].get("step", 1.0)),
        }
    solver = SimpleIk(scene, SimpleIkOptions(**options))
    names = robot["joints"]
    order = [scene.getJointNames().index(n) for n in names]

    def solve(problem):
        target = np.eye(4)
        target[:3, :3], target[:3, 3] = problem["rotation"], problem["position"]
        start = np.empty(len(names))
        start[order] = problem["q0"]
        solver.setRngSeed(0)
        found = JointConfiguration()
        solved = solver.solveIk(
            CartesianConfiguration(robot["base"], robot["tip"], np.asfortranarray(target)),
            JointConfiguration(scene.getJointNames(), start),
            found,
        )
        q = np.array(found.positions)[order] if len(found.positions) == len(names) else None
        return {"q": q, "converged": bool(solved) and q is not None}

    return solve


serve(build)
