"""TRAC-IK (pytracik): KDL's Newton method and SLSQP side by side, restarting until the time is up.

Options: timeout [s] and tuned=true for a tolerance of 1e-6; as it comes 5 ms and 1e-5.  Restarts
cannot be switched off, so its rows are never single starts.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serve import serve


def build(robot):
    from trac_ik import TracIK

    options = robot["options"]
    solver = TracIK(
        base_link_name=robot["base"],
        tip_link_name=robot["tip"],
        urdf_path=robot["urdf"],
        timeout=float(options.get("timeout", robot["seconds"] or 0.005)),
        epsilon=1e-6 if options.get("tuned") else 1e-5,
        solver_type=options.get("mode", "Speed"),
    )

    def solve(problem):
        q = solver.ik(
            np.array(problem["position"]), np.array(problem["rotation"]), np.array(problem["q0"])
        )
        return {"q": q, "converged": q is not None}

    return solve


serve(build)
