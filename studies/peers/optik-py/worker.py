"""OptIK (optik-py): SLSQP on SE(3) with restarts, in Rust.

Options: tuned=true tightens its tolerances and stays with one start; as it comes it restarts for
0.1 s and stops at a cost that allows far more than 0.1 mm.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serve import serve


def build(robot):
    import optik

    chain = optik.Robot.from_urdf_file(robot["urdf"], robot["base"], robot["tip"])
    chain.set_parallelism(1)
    options = {}
    if robot["options"].get("tuned"):
        options = {
            "solution_mode": "speed",
            "max_restarts": int(robot["options"].get("restarts", 1)),
            "max_time": robot["seconds"] or 0.0,
            "tol_f": 1e-11,
            "tol_df": -1.0,
            "tol_dx": -1.0,
        }
    config = optik.SolverConfig(**options)

    def solve(problem):
        target = np.eye(4)
        target[:3, :3], target[:3, 3] = problem["rotation"], problem["position"]
        found = chain.ik(config, target.tolist(), problem["q0"])
        return {"q": None if found is None else found[0], "converged": found is not None}

    return solve


serve(build)
