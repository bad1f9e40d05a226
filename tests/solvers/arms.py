"""Small planar arms for the tests of solvers, built from numbers."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from optik.robot import Robot


def planar_arm(
    ranges: Sequence[tuple[float, float]], links: Sequence[float] = (0.4, 0.3, 0.2)
) -> Robot:
    """Hinges about z, links along x; a range of (-inf, inf) is an unlimited joint."""
    text, end, offset = "", "", 0.0
    for i, ((low, high), length) in enumerate(zip(ranges, links, strict=True)):
        limits = f'limited="true" range="{low} {high}"' if np.isfinite(low) else 'limited="false"'
        text += (
            f'<body pos="{offset} 0 0"><joint name="j{i + 1}" axis="0 0 1" {limits}/>'
            f'<geom type="capsule" size="0.01" fromto="0 0 0 {length} 0 0"/>'
        )
        end, offset = end + "</body>", length
    return Robot.load(
        mujoco.MjModel.from_xml_string(
            '<mujoco><compiler angle="radian"/><worldbody>'
            f'{text}<site name="tip" pos="{offset} 0 0"/>{end}</worldbody></mujoco>'
        ),
        frame="tip",
    )
