"""Turns what a user has (a path to MJCF or URDF, an MjSpec, an MjModel) into a compiled model.

Kinematics need no meshes and no masses.  A model whose mesh files are missing, or whose moving
links have no inertia, as URDF files often come, is compiled without its meshes and with tiny masses
instead of being refused.  A URDF keeps every link as a body: MuJoCo would fuse links that are
fixed to each other, and the frames that users ask for (`tool0`, `flange`) are exactly those.
"""

from __future__ import annotations

import copy
from pathlib import Path

import mujoco

from optik.data import is_file
from optik.errors import RobotError

MODEL_SUFFIXES = (".xml", ".urdf", ".mjcf")
_TINY_MASS = 1e-6  # [kg]
_TINY_INERTIA = 1e-9  # [kg m^2]


def compiled(source: str | Path | mujoco.MjSpec | mujoco.MjModel) -> mujoco.MjModel:
    """Returns a model of our own: nothing that the user does to theirs later changes it.

    Args:
        source: a path to a file, an MjSpec or an MjModel.

    Raises:
        RobotError: if there is no such file, or it does not compile.
    """
    if isinstance(source, mujoco.MjModel):
        return copy.copy(source)
    if isinstance(source, mujoco.MjSpec):
        try:
            return source.copy().compile()
        except (ValueError, RuntimeError) as error:
            raise RobotError(f"the MjSpec does not compile: {_first_line(error)}") from None
    path = Path(source)
    if not is_file(path):
        raise RobotError(f"there is no model file {str(source)!r}")
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        if path.suffix == ".urdf":
            _prepare_urdf(spec)
        return spec.compile()
    except (ValueError, RuntimeError) as error:
        first = error
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        _prepare_urdf(spec)
        _drop_assets(spec)
        return spec.compile()
    except (ValueError, RuntimeError):
        raise RobotError(f"{path} does not compile: {_first_line(first)}") from None


def _prepare_urdf(spec: mujoco.MjSpec) -> None:
    spec.compiler.fusestatic = False
    spec.compiler.boundmass = _TINY_MASS
    spec.compiler.boundinertia = _TINY_INERTIA
    spec.compiler.balanceinertia = True


def _drop_assets(spec: mujoco.MjSpec) -> None:
    """Takes out everything that needs a file: meshes, height fields, textures and skins."""
    needs_file = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD)
    for geom in list(spec.geoms):
        geom.material = ""
        if geom.type in needs_file or geom.meshname:
            spec.delete(geom)
    for site in spec.sites:
        site.material = ""
    for group in (spec.skins, spec.meshes, spec.hfields, spec.materials, spec.textures):
        for item in list(group):
            spec.delete(item)


def _first_line(error: Exception) -> str:
    """MuJoCo adds the element and advice about specs on further lines; joined to one sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:2])
