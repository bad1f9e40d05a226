"""Finds a frame of a model by name: a site, a body or a geom."""

from __future__ import annotations

from typing import Any

import mujoco

from optik.errors import UnknownNameError, brief, unknown_name
from optik.kinematics import Frame, FrameKind


def find_frame(model: mujoco.MjModel, name: str) -> Frame:
    """Finds the site, body or geom called `name`; where two share it, in that order.

    A mesh geom's frame is the one that MuJoCo gives it, at the mesh's centre of inertia, not the
    one written in the file; a site is the better frame.

    Args:
        model: the model.
        name: the frame's name, or "site:NAME", "body:NAME", "geom:NAME" to pick the kind.

    Raises:
        UnknownNameError: if no object has the name.
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"a frame is the name of a site, body or geom, got {brief(name)}")
    kinds: dict[FrameKind, tuple[int, Any]] = {
        "site": (mujoco.mjtObj.mjOBJ_SITE, lambda i: model.site_bodyid[i]),
        "body": (mujoco.mjtObj.mjOBJ_BODY, lambda i: i),
        "geom": (mujoco.mjtObj.mjOBJ_GEOM, lambda i: model.geom_bodyid[i]),
    }
    prefix, _, rest = name.partition(":")
    # The whole name first: names in attached models may well hold a colon themselves.
    for kind, (object_type, body_of) in kinds.items():
        for bare in (name, rest) if prefix == kind else (name,):
            # MuJoCo reads a name up to its first zero only, and no half of a surrogate pair.
            i = mujoco.mj_name2id(model, object_type, bare) if _is_name(bare) else -1
            if i >= 0 and bare:
                return Frame(name=bare, kind=kind, id=i, body=int(body_of(i)))
    raise unknown_name("frame", name, frame_names(model))


def _is_name(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def frame_names(model: mujoco.MjModel) -> list[str]:
    """Names of everything that can be a frame: sites, then bodies, then geoms."""
    names = [model.site(i).name for i in range(model.nsite)]
    names += [model.body(i).name for i in range(1, model.nbody)]
    names += [model.geom(i).name for i in range(model.ngeom)]
    return [n for n in names if n]
