"""ikpy: SciPy's bounded least squares on the difference of the frame's matrices.

No options: ikpy takes no tolerance, SciPy's own defaults apply.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serve import serve


def build(robot):
    from ikpy.chain import Chain

    chain = Chain.from_urdf_file(robot["urdf"], base_elements=[robot["base"]])
    active = [i for i, link in enumerate(chain.links) if link.joint_type != "fixed"]
    assert [chain.links[i].name for i in active] == robot["joints"]
    chain.active_links_mask = np.array([link.joint_type != "fixed" for link in chain.links])

    def solve(problem):
        target = np.eye(4)
        target[:3, :3], target[:3, 3] = problem["rotation"], problem["position"]
        start = np.zeros(len(chain.links))
        start[active] = problem["q0"]
        found = chain.inverse_kinematics_frame(
            target, initial_position=start, orientation_mode="all"
        )
        # It reports no success: what it hands back is taken as its claim.
        return {"q": found[active], "converged": True}

    return solve


serve(build)
