"""The arm on paper: capsules projected, lit across their width and drawn back to front.

The same picture as the page draws on its canvas, as vector graphics: each link is cut into short
pieces, and each piece into stripes along its length, shaded as the surface of a tube would be.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optik.benchmark.report_scene import WORLD, Scene
from optik.pose import Array, matrix_from_quaternion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOWER, UPPER, TARGET = "#7a4fc4", "#e09b00", "#12876b"
_DARK, _LIGHT = np.array([0.29, 0.333, 0.376]), np.array([0.788, 0.816, 0.839])
_LIGHT_FROM = np.array([-0.45, 0.75, 0.62]) / np.linalg.norm([-0.45, 0.75, 0.62])
_STRIPES = 15
_ROUND = 10  # corners of a half circle


@dataclass(frozen=True, eq=False)
class View:
    """A parallel projection.

    Attributes:
        axes: rows right, up and towards the viewer, shape (3, 3).
    """

    axes: Array

    @classmethod
    def of(cls, azimuth: float, elevation: float) -> View:
        """Looks at the origin from an azimuth and an elevation [rad]."""
        c, s = np.cos(elevation), np.sin(elevation)
        back = np.array([c * np.cos(azimuth), c * np.sin(azimuth), s])
        right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
        return cls(np.stack((right, np.cross(back, right), back)))

    def project(self, points: Array) -> Array:
        """Right, up and depth (larger is nearer) of points, shape (..., 3) [m]."""
        return np.asarray(points) @ self.axes.T


def best_view(scene: Scene, paths: list[Array], target: Array, *, elevation: float = 0.26) -> View:
    """The view in which the gaps between tools and target and the links are seen most broadly."""
    vectors: list[Array] = []
    weights: list[float] = []
    for path in paths:
        world = _world(scene, path[-1])
        vectors += [b - a for kind, a, b, *_ in world if kind == "capsule"]
        weights += [1.0] * (len(vectors) - len(weights))
        vectors.append(scene.tool_positions(path[-1:])[0] - target)
        weights.append(6.0)
    v, w = np.array(vectors), np.array(weights)
    views = [View.of(a, elevation) for a in np.linspace(0, 2 * np.pi, 48, endpoint=False)]
    seen = [float(w @ np.linalg.norm(view.project(v)[:, :2], axis=1)) for view in views]
    return views[int(np.argmax(seen))]


def draw_arm(
    ax: Axes, scene: Scene, q: Array, view: View, *, limits: str = "", fade: float = 0.0
) -> None:
    """Draws the robot at configuration `q`, shape (n,), into an axis in metres.

    Args:
        ax: the axis; its aspect is made equal.
        scene: the robot.
        q: configuration [rad or m].
        view: the projection.
        limits: one letter a joint ("L", "U", "." as in a trace): joints on a limit are marked.
        fade: how far the links are mixed with white, 0 to 1, to draw a ghost.
    """
    from matplotlib.collections import PolyCollection

    items: list[tuple[float, list[Array], list[Array]]] = []
    for kind, *rest in _world(scene, q):
        if kind == "capsule":
            a, b, radius, tone = rest
            items += _tube(view, a, b, radius, _DARK + (_LIGHT - _DARK) * tone)
        else:
            points, faces, tone = rest
            items += _hull(view, points, faces, _DARK + (_LIGHT - _DARK) * tone)
    items = [(z, polygons, [c + (1 - c) * fade for c in cs]) for z, polygons, cs in items]
    for j, letter in enumerate(limits):
        if letter.upper() in "LU":
            colour = np.array(_rgb(LOWER if letter.upper() == "L" else UPPER))
            anchor, radius = _anchor(scene, q, j)
            items += _ball(view, anchor, 1.3 * radius, colour)
    items.sort(key=lambda item: item[0])  # the nearest last
    polygons = [p for _, ps, _ in items for p in ps]
    colours = [tuple(c) for _, _, cs in items for c in cs]
    # Hairlines in the faces' own colours close the gaps that antialiasing leaves between stripes.
    collection = PolyCollection(
        polygons, facecolors=colours, edgecolors=colours, linewidths=0.3, zorder=3
    )
    ax.add_collection(collection)
    ax.set_aspect("equal")


def draw_floor(ax: Axes, scene: Scene, q: Array, view: View, *, height: float = 0.0) -> None:
    """Draws the shadow of the robot on the plane z = height [m]."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    for grow, alpha in ((1.35, 0.05), (0.95, 0.07)):
        outlines = []
        for kind, *rest in _world(scene, q):
            if kind != "capsule":
                continue
            a, b, radius, _ = rest
            ends = [
                view.project(
                    np.array([p[0] + 0.25 * (p[2] - height), p[1] - 0.18 * (p[2] - height), height])
                )
                for p in (a, b)
            ]
            outlines.append(_outline(ends[0][:2], ends[1][:2], radius * grow))
        # One path with all outlines, the same way round: overlaps are filled once.
        path = Path.make_compound_path(
            *(Path(np.vstack((o, o[:1])), closed=True) for o in outlines)
        )
        ax.add_patch(PathPatch(path, facecolor="black", edgecolor="none", alpha=alpha, zorder=1))


def extent(scene: Scene, configurations: Array, view: View) -> tuple[float, float, float, float]:
    """Left, right, bottom and top [m] of the robot at all configurations (k, n), projected."""
    points = []
    for q in configurations:
        for kind, *rest in _world(scene, q):
            if kind == "capsule":
                a, b, radius, _ = rest
                flat = view.project(np.array([a, b]))[:, :2]
                points += [flat - radius, flat + radius]
            else:
                points.append(view.project(rest[0])[:, :2])
    xy = np.concatenate(points)
    (left, bottom), (right, top) = xy.min(axis=0), xy.max(axis=0)
    return float(left), float(right), float(bottom), float(top)


def joint_anchor(scene: Scene, q: Array, joint: int) -> Array:
    """Where a joint's anchor is in the world at `q`, shape (3,) [m]."""
    return _anchor(scene, q, joint)[0]


def _world(scene: Scene, q: Array) -> list[tuple[Any, ...]]:
    frames = scene.frames(q[None])[0].astype(np.float64)
    out: list[tuple[Any, ...]] = []
    for shape in scene.shapes:
        p, R = np.zeros(3), np.eye(3)
        if shape["body"] != WORLD:
            frame = frames[shape["body"]]
            p, R = frame[:3], matrix_from_quaternion(frame[3:])
        if shape["kind"] == "capsule":
            a, b = (p + R @ np.array(shape[end]) for end in ("from", "to"))
            out.append(("capsule", a, b, shape["radius"], shape["tone"]))
        else:
            out.append(("hull", p + np.array(shape["points"]) @ R.T, shape["faces"], shape["tone"]))
    return out


def _anchor(scene: Scene, q: Array, joint: int) -> tuple[Array, float]:
    found = scene.joints[joint]
    frame = scene.frames(q[None])[0, found["body"]].astype(np.float64)
    at = frame[:3] + matrix_from_quaternion(frame[3:]) @ np.array(found["anchor"])
    near, radius = np.inf, 0.03
    for kind, *rest in _world(scene, q):
        if kind == "capsule":
            a, b, r, _ = rest
            along = b - a
            size = float(along @ along)
            t = float(np.clip((at - a) @ along / size, 0, 1)) if size > 0 else 0.0
            gap = float(np.linalg.norm(at - a - t * along)) - r
            if gap < near - 1e-6:
                near, radius = gap, r
    return at, radius


def _shade(colour: Array, normal: Array) -> Array:
    diffuse = max(0.0, float(normal @ _LIGHT_FROM))
    return np.clip(colour * (0.56 + 0.46 * diffuse) + 0.18 * diffuse**18, 0, 1)


def _tube(
    view: View, a: Array, b: Array, radius: float, colour: Array
) -> list[tuple[float, list[Array], list[Array]]]:
    size = float(np.linalg.norm(b - a))
    pieces = int(np.clip(np.ceil(size / (3 * radius)), 1, 8))
    ends = view.project(a + np.linspace(0, 1, pieces + 1)[:, None] * (b - a))
    flat = ends[-1, :2] - ends[0, :2]
    if float(np.linalg.norm(flat)) < 0.2 * radius:
        return _ball(view, b if ends[-1, 2] > ends[0, 2] else a, radius, colour)
    along = (ends[-1] - ends[0]) / np.linalg.norm(ends[-1] - ends[0])
    side = np.array([-flat[1], flat[0], 0.0]) / np.linalg.norm(flat)
    front = np.cross(side, along)
    front *= 1 if front[2] > 0 else -1
    edges = np.linspace(-1, 1, _STRIPES + 1)
    items = []
    for i in range(pieces):
        p, r = ends[i, :2], ends[i + 1, :2]
        stripes, colours = [], []
        for low, high in itertools.pairwise(edges):
            u = 0.5 * (low + high)
            stripes.append(_stripe(p, r, radius, low, high))
            colours.append(_shade(colour, u * side + np.sqrt(1 - u * u) * front))
        items.append((float(ends[i : i + 2, 2].mean()), stripes, colours))
    return items


def _stripe(p: Array, r: Array, radius: float, low: float, high: float) -> Array:
    """The part of a flat capsule between two offsets across it, in units of its radius."""
    along = (r - p) / max(float(np.linalg.norm(r - p)), 1e-12)
    side = np.array([-along[1], along[0]])
    offsets = np.linspace(low, high, 4)
    cap = np.sqrt(1 - offsets**2)
    far = r + radius * (offsets[:, None] * side + cap[:, None] * along)
    near = p + radius * (offsets[:, None] * side - cap[:, None] * along)
    return np.vstack((near, far[::-1]))


def _outline(p: Array, r: Array, radius: float) -> Array:
    delta = r - p
    turn = np.arctan2(delta[1], delta[0])
    first = turn + np.linspace(np.pi / 2, 3 * np.pi / 2, _ROUND)
    second = turn + np.linspace(-np.pi / 2, np.pi / 2, _ROUND)
    return np.vstack(
        (
            p + radius * np.stack((np.cos(first), np.sin(first)), axis=1),
            r + radius * np.stack((np.cos(second), np.sin(second)), axis=1),
        )
    )


def _ball(
    view: View, at: Array, radius: float, colour: Array
) -> list[tuple[float, list[Array], list[Array]]]:
    centre = view.project(at)
    circle = np.linspace(0, 2 * np.pi, 40)
    rim = np.stack((np.cos(circle), np.sin(circle)), axis=1)
    discs, colours = [], []
    # Discs that shrink towards the light: a smooth ball in six tones.
    for u in np.linspace(1, 0.12, 8):
        shift = radius * 0.42 * (1 - u) * _LIGHT_FROM[:2]
        discs.append(centre[:2] + shift + u * radius * rim)
        tilt = np.array([*(_LIGHT_FROM[:2] * (1 - 1.6 * u)), 0.0])
        normal = tilt + np.array([0, 0, 1.0])
        colours.append(_shade(colour, normal / np.linalg.norm(normal)))
    return [(float(centre[2] + radius), discs, colours)]


def _hull(
    view: View, points: Array, faces: list[list[int]], colour: Array
) -> list[tuple[float, list[Array], list[Array]]]:
    middle, items = points.mean(axis=0), []
    for face in faces:
        corners = points[face]
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        normal /= max(float(np.linalg.norm(normal)), 1e-12)
        if normal @ (corners.mean(axis=0) - middle) < 0:
            normal = -normal
        seen = view.project(normal)
        if seen[2] > 0:
            flat = view.project(corners)
            items.append((float(flat[:, 2].mean()), [flat[:, :2]], [_shade(colour, seen)]))
    return items


def _rgb(text: str) -> tuple[float, ...]:
    return tuple(int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
