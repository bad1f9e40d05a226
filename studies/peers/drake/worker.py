"""Drake: the pose as constraints of a nonlinear program, half our tolerance wide.

Options: solver=snopt (as it comes) or ipopt; near=true adds the squared distance to the start as a
cost, without which any feasible point will do.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serve import serve


def build(robot):
    from pydrake.math import RotationMatrix
    from pydrake.multibody.inverse_kinematics import InverseKinematics
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.solvers import IpoptSolver, SnoptSolver

    plant = MultibodyPlant(0.0)
    Parser(plant).AddModels(robot["urdf"])
    plant.WeldFrames(plant.world_frame(), plant.GetFrameByName(robot["base"]))
    plant.Finalize()
    tip = plant.GetFrameByName(robot["tip"])
    order = [plant.GetJointByName(name).position_start() for name in robot["joints"]]
    solver = IpoptSolver() if robot["options"].get("solver") == "ipopt" else SnoptSolver()
    near = robot["options"].get("near")
    position, rotation = (0.5 * t for t in robot["tolerance"])

    def solve(problem):
        ik = InverseKinematics(plant, with_joint_limits=True)
        p = np.array(problem["position"])
        box = position / np.sqrt(3.0)
        ik.AddPositionConstraint(tip, np.zeros(3), plant.world_frame(), p - box, p + box)
        ik.AddOrientationConstraint(
            plant.world_frame(),
            RotationMatrix(np.array(problem["rotation"])),
            tip,
            RotationMatrix(),
            rotation,
        )
        q, start = ik.q(), np.empty(len(order))
        start[order] = problem["q0"]
        program = ik.prog()
        if near:
            program.AddQuadraticErrorCost(np.eye(len(order)), start, q)
        found = solver.Solve(program, start)
        return {
            "q": found.GetSolution(q)[order],
            "converged": found.is_success(),
            "message": str(found.get_solution_result()),
        }

    return solve


serve(build)
