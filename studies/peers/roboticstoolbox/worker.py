"""Robotics Toolbox for Python: Levenberg-Marquardt (ik_LM, in C++), limits checked at the end.

Options: tuned=true tightens the tolerance and makes one search from the start given, of as many
iterations as the budget has; as it comes it makes 100 searches of 30 iterations at tol 1e-6.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serve import serve


def build(robot):
    import roboticstoolbox as rtb
    from roboticstoolbox.models.URDF.URDFRobot import URDF_read
    from spatialmath import SE3

    arm = rtb.Robot(URDF_read(robot["urdf"])[0])
    options = {}
    if robot["options"].get("tuned"):
        options = {
            "ilimit": robot["iterations"],
            "slimit": int(robot["options"].get("searches", 1)),
            # Its tol bounds 1/2 e^T W e, so half the square of the tighter tolerance.
            "tol": 0.5 * min(robot["tolerance"]) ** 2,
        }
    options["method"] = robot["options"].get("method", "chan")

    def solve(problem):
        target = np.eye(4)
        target[:3, :3], target[:3, 3] = problem["rotation"], problem["position"]
        found = arm.ik_LM(SE3(target, check=False), end=robot["tip"], q0=problem["q0"], **options)
        return {
            "q": found.q,
            "converged": bool(found.success),
            "iterations": int(found.iterations),
        }

    return solve


serve(build)
