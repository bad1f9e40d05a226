"""What do the bundled robots look like, and where do their numbers come from?

    python studies/robot_gallery.py [--quick]

Prints one row a robot, renders every robot at its home configuration to models/<robot>/<robot>.png,
and writes models/README.md and studies/results/robot_gallery/.  With --quick nothing is rendered
and the texts go to a temporary folder.

Rendering needs an OpenGL without a screen: EGL (Debian: libegl1 and a driver, or Mesa's
libgl1-mesa-dri) or, with MUJOCO_GL=osmesa in the environment, OSMesa (Debian: libosmesa6).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

if "--quick" not in sys.argv and sys.platform == "linux":
    os.environ.setdefault("MUJOCO_GL", "egl")  # read when mujoco is imported

NEEDS = (
    "install EGL (Debian: libegl1 libgl1-mesa-dri), or set MUJOCO_GL=osmesa and install libosmesa6"
)

import matplotlib.image

try:
    import mujoco
except (ImportError, AttributeError) as missing:  # PyOpenGL without its library
    sys.exit(f"no renderer with MUJOCO_GL={os.environ.get('MUJOCO_GL')} ({missing}): {NEEDS}")
import numpy as np
import pandas as pd
from rich.console import Console
from tabulate import tabulate

from optik import Robot
from optik.data import data_folder
from optik.robot import bundled_robots, robot_file

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "studies" / "results" / "robot_gallery"
SIZE = 420  # pixels, each way
OVERSAMPLING = 2
SAMPLES = 2000
ROTATION_WEIGHT = 0.3  # m/rad, as in the near-singular problem sets

INTRODUCTION = """# Robots

Each folder holds one robot: `robot.toml` says what it is, the MJCF beside it is its kinematics:
offsets, axes, ranges, frames and keyframes from the named source, with capsules so that it can be
looked at. There are no meshes, and the masses mean nothing.

Everything below is written by `python studies/robot_gallery.py`; the pictures show every robot at
home, the green sphere is its frame.

"""

ADDING = """
## Adding a robot

One folder here, in a checkout, and two files in it. The tests pick it up by themselves. A folder
elsewhere serves too, by its path: `optik.Robot.load("mine/robot.toml")`.

| field of `robot.toml` | meaning |
| --- | --- |
| `title` | one line for `optik list robots` |
| `model` | the MJCF or URDF file in the folder |
| `frame` | the controlled frame: a site, body or geom of the model, by name |
| `joints` | the joints that move, in the order of q; every other joint is held |
| `q_nominal` | home: a keyframe of the model, which also places the held joints, or one number a joint [rad or m] |
| `source`, `licence` | where the numbers come from, and on what terms |
| `notes` | whatever a reader has to know, optional |
| `[sampling]` | `joint = [lower, upper]` [rad or m]: where random values are drawn from, for joints without limits |

Limits are those that MuJoCo compiles. A robot need not be bundled at all: `optik.Robot.load` takes
any MJCF or URDF path, an `MjSpec` or an `MjModel`, with `frame=` and, if wanted, `joints=`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="no pictures, results thrown away")
    quick = parser.parse_args().quick
    say = Console(stderr=True).print
    table = pd.DataFrame([row_of(name) for name in bundled_robots()])
    print(tabulate(table, headers="keys", tablefmt="simple", showindex=False))
    print(NOTE)
    markdown = table.to_markdown(index=False) + "\n\n" + NOTE + "\n"
    if quick:
        folder = Path(tempfile.mkdtemp())
        write(folder / "models", folder / "results", table, markdown)
        say(f"no pictures; written to {folder}")
        return
    pictures = {}
    for name in table.robot:
        try:
            pictures[name] = picture_of(Robot.load(name))
        except Exception as error:  # MuJoCo's own FatalError or the GL library's
            sys.exit(f"no renderer with MUJOCO_GL={os.environ.get('MUJOCO_GL')} ({error}): {NEEDS}")
        say(f"rendered {name}")
    for name, picture in pictures.items():
        matplotlib.image.imsave(
            data_folder("models") / name / f"{name}.png", picture, pil_kwargs={"optimize": True}
        )
    write(data_folder("models"), RESULTS, table, markdown)
    say(f"written to {data_folder('models')} and {RESULTS}")


NOTE = (
    f"`reach` is the largest distance of the frame from the first joint over {SAMPLES} random "
    "configurations (seed 0); `sigma` is the smallest singular value of the Jacobian at home, "
    f"rotation rows times {ROTATION_WEIGHT} m/rad (position rows alone with fewer than six joints "
    "on the way to the frame): the smaller, the nearer home is to a singularity."
)


def row_of(name: str) -> dict[str, object]:
    robot, file = Robot.load(name), robot_file(name)
    moving = moving_joints(robot)
    base = first_anchor(robot, moving[0])
    positions = np.array(
        [robot.forward(q).position for q in robot.sample(np.random.default_rng(0), SAMPLES)]
    )
    J = robot.jacobian(robot.q_nominal)[:, moving]
    J[3:] *= ROTATION_WEIGHT
    rows = J if len(moving) >= 6 else J[:3][np.abs(J[:3]).max(axis=1) > 1e-12]
    return {
        "robot": name,
        "what": file.title,
        "joints": robot.n,
        "unlimited": int((np.isinf(robot.lower) & np.isinf(robot.upper)).sum()),
        "frame": robot.frame,
        "reach [m]": round(float(np.linalg.norm(positions - base, axis=1).max()), 3),
        "sigma [m/rad]": round(float(np.linalg.svd(rows, compute_uv=False)[-1]), 4),
    }


def moving_joints(robot: Robot) -> list[int]:
    """Indices of the joints that move the frame at all."""
    J = robot.jacobian(robot.q_nominal)
    return [i for i in range(robot.n) if J[:, i].any()]


def first_anchor(robot: Robot, joint: int) -> np.ndarray:
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.qpos(robot.q_nominal)
    mujoco.mj_kinematics(robot.model, data)
    return np.array(data.joint(robot.joint_names[joint]).xanchor)


def picture_of(robot: Robot) -> np.ndarray:
    """The robot at home on a pale floor, shape (SIZE, SIZE, 3), 8 bits."""
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.qpos(robot.q_nominal)
    mujoco.mj_kinematics(robot.model, data)
    low, high = extent(robot.model, data)
    size = float(np.linalg.norm(high - low))
    scene = on_a_floor(robot, height=low[2], size=size)
    data = mujoco.MjData(scene)
    data.qpos[:] = robot.qpos(robot.q_nominal)
    mujoco.mj_forward(scene, data)
    camera = mujoco.MjvCamera()
    camera.lookat[:] = 0.5 * (low + high)
    flat = high[2] - low[2] < 0.35 * size
    camera.distance, camera.azimuth = 1.45 * size, 90 if flat else 140
    camera.elevation = -50 if flat else -18
    pixels = SIZE * OVERSAMPLING
    with mujoco.Renderer(scene, pixels, pixels) as renderer:
        renderer.update_scene(data, camera)
        image = renderer.render().astype(float)
    blocks = image.reshape(SIZE, OVERSAMPLING, SIZE, OVERSAMPLING, 3)
    return blocks.mean(axis=(1, 3)).round().astype(np.uint8)


def extent(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the box around all capsules."""
    ends = []
    for g in range(model.ngeom):
        axis = data.geom_xmat[g].reshape(3, 3)[:, 2] * model.geom_size[g, 1]
        radius = model.geom_size[g, 0]
        ends += [data.geom_xpos[g] + s * axis + r for s in (-1, 1) for r in (-radius, radius)]
    return np.min(ends, axis=0), np.max(ends, axis=0)


def on_a_floor(robot: Robot, *, height: float, size: float) -> mujoco.MjModel:
    """The robot's model with a floor, a pale sky and soft light."""
    folder = data_folder("models") / robot.name
    spec = mujoco.MjSpec.from_file(str(folder / robot_file(robot.name).model))
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT,
        rgb1=[0.97, 0.97, 0.98],
        width=16,
        height=16,
    )
    spec.add_texture(
        name="floor",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.93, 0.94, 0.95],
        rgb2=[0.88, 0.89, 0.91],
        width=256,
        height=256,
    )
    material = spec.add_material(
        name="floor", texrepeat=[40, 40], reflectance=0.0, specular=0.0, shininess=0.0
    )
    material.textures[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = "floor"
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[6 * size, 6 * size, 0.1],
        pos=[0, 0, height],
        material="floor",
        rgba=[1, 1, 1, 1],
    )
    for light in list(spec.lights):
        spec.delete(light)
    spec.worldbody.add_light(
        pos=[size, -size, 3 * size + height],
        dir=[-0.3, 0.3, -1.0],
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        diffuse=[0.5, 0.5, 0.5],
        specular=[0.1, 0.1, 0.1],
        castshadow=True,
    )
    spec.visual.headlight.ambient = [0.45, 0.45, 0.45]
    spec.visual.headlight.diffuse = [0.12, 0.12, 0.12]
    spec.visual.headlight.specular = [0.05, 0.05, 0.05]
    spec.visual.quality.shadowsize = 4096
    spec.visual.quality.offsamples = 8
    spec.visual.global_.offwidth = spec.visual.global_.offheight = SIZE * OVERSAMPLING
    mark = spec.site(robot.frame)
    mark.size = [0.024 * size, 0, 0]  # larger than the capsule that it ends
    mark.rgba = [0.1, 0.7, 0.3, 1]
    spec.stat.extent = size
    return spec.compile()


def write(models: Path, results: Path, table: pd.DataFrame, markdown: str) -> None:
    """Writes the README of the models and the table, whole or not at all."""
    names = list(table.robot)
    lines = ["| | | |", "| :---: | :---: | :---: |"]
    for i in range(0, len(names), 3):
        cells = [f"![{n}]({n}/{n}.png)<br>**{n}**" for n in names[i : i + 3]]
        lines.append("| " + " | ".join(cells + [""] * (3 - len(cells))) + " |")
    text = INTRODUCTION + "\n".join(lines) + "\n\n" + markdown + "\n## Sources and notes\n\n"
    for name in names:
        file = robot_file(name)
        text += f"**{name}**, {file.title}. Source: {file.source}. Licence: {file.licence}."
        text += f" Notes: {file.notes}.\n\n" if file.notes else "\n\n"
    files = {
        models / "README.md": text.rstrip() + "\n" + ADDING,
        results / "README.md": "# The bundled robots\n\nMade by `python studies/robot_gallery.py`; "
        "pictures in [models](../../../models/README.md).\n\n" + markdown,
        results / "robots.csv": table.to_csv(index=False, lineterminator="\n"),
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(content, encoding="utf-8")
        part.replace(path)


if __name__ == "__main__":
    main()
