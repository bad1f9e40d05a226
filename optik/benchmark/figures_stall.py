"""One figure of an arm that stalls and the same arm that does not: arm, errors, limit strip."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from optik.benchmark.figures import COLOURS, style
from optik.benchmark.figures_arm import (
    LOWER,
    TARGET,
    UPPER,
    View,
    best_view,
    draw_arm,
    draw_floor,
    extent,
    joint_anchor,
)
from optik.benchmark.report_scene import Scene, scene_of
from optik.benchmark.report_trace import Trace, limit_spells
from optik.diagnosis.words import length, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AHEAD = 2.0  # iterations shown, as a multiple of the solving run's


def stall_figure(stalled: Trace, solved: Trace) -> Figure:
    """Draws two solvers on one target, above each other in time.

    Args:
        stalled: the path of the solver that does not reach the target.
        solved: the path of the solver that does.

    Returns:
        A figure 7.2 inches wide.
    """
    from matplotlib.figure import Figure

    problem = solved.solution.problem
    scene = scene_of(problem.robot)
    target = np.array(problem.targets[0].position)
    view = best_view(scene, [stalled.path, solved.path], target)
    last = max(12, math.ceil(AHEAD * solved.steps))
    with style():
        figure = Figure(figsize=(7.2, 6.6))
        figure.set_layout_engine("none")  # the labels on the arms must not move the axes
        grid = figure.add_gridspec(
            3, 2, height_ratios=(2.5, 1.15, 1.05), left=0.095, right=0.985, top=0.915, bottom=0.07,
            wspace=0.24, hspace=0.2,
        )  # fmt: skip
        box = _box(scene, (stalled, solved), view, last)
        for i, trace in enumerate((stalled, solved)):
            ax = figure.add_subplot(grid[0, i])
            _arm(ax, scene, trace, view, target, COLOURS[i], min(trace.steps, last), box)
            ax.set_title(_title(trace), color=COLOURS[i], fontsize=9)
        ax = figure.add_subplot(grid[1, 0])
        _errors(ax, stalled, solved, "position_error", problem.tolerance.position, last)
        ax.set_ylabel("position error [m]")
        ax = figure.add_subplot(grid[1, 1])
        if problem.shape.targets[0].kind == "position":
            _errors(ax, stalled, solved, "room", None, last)
            ax.set_ylabel("projected gradient [1]")
        else:
            _errors(ax, stalled, solved, "rotation_error", problem.tolerance.rotation, last)
            ax.set_ylabel("rotation error [rad]")
        for i, trace in enumerate((stalled, solved)):
            _strip(figure.add_subplot(grid[2, i]), trace, last, legend=i == 1)
        return figure


def _title(trace: Trace) -> str:
    if not trace.solved:
        error = length(trace.solution.evaluation.position_error)
        on = trace.on_limit(trace.steps)
        where = f" with {listed(on)} on a limit" if on else ""
        return f"{trace.solver} stalls{where},\n{error} from the target"
    joints = listed(list(dict.fromkeys(name for name, *_ in limit_spells(trace))))
    how = f"slides along the limit of {joints}" if joints else "meets no limit"
    return f"{trace.solver} {how}\nand arrives in {trace.solution.iterations} iterations"


def _box(
    scene: Scene, traces: tuple[Trace, Trace], view: View, last: int
) -> tuple[float, float, float, float]:
    ends = np.array([t.path[min(t.steps, last)] for t in traces])
    left, right, bottom, top = extent(scene, ends, view)
    tips = np.concatenate([scene.tool_positions(t.path[: min(t.steps, last) + 1]) for t in traces])
    flat = view.project(tips.astype(np.float64))
    return (
        min(left, float(flat[:, 0].min())), max(right, float(flat[:, 0].max())),
        min(bottom, float(flat[:, 1].min())), max(top, float(flat[:, 1].max())),
    )  # fmt: skip


def _arm(
    ax: Axes, scene: Scene, trace: Trace, view: View, target: np.ndarray, colour: str, k: int,
    box: tuple[float, float, float, float],
) -> None:  # fmt: skip
    q, shown = trace.path[k], k
    draw_floor(ax, scene, q, view)
    sliding = [i for i in range(k) if set(trace.limits[i]) & set("LU")]
    if trace.solved and sliding:  # a ghost from the middle of its way along the limit
        shown = sliding[len(sliding) // 2]
        draw_arm(ax, scene, trace.path[shown], view, limits=trace.limits[shown], fade=0.72)
        draw_arm(ax, scene, q, view)
    else:
        draw_arm(ax, scene, q, view, limits=trace.limits[k])
    tips = view.project(scene.tool_positions(trace.path[: k + 1]).astype(np.float64))
    ax.plot(tips[:, 0], tips[:, 1], color=colour, lw=1, marker="o", ms=1.8, zorder=5, alpha=0.85)
    goal = view.project(target)
    ax.plot(*goal[:2], marker="o", ms=8, mfc="none", mec=TARGET, mew=1.6, zorder=6)
    ax.plot([tips[-1, 0], goal[0]], [tips[-1, 1], goal[1]], ":", color=colour, lw=1.2, zorder=5)
    names, q = scene.robot.joint_names, trace.path[shown]
    for j, letter in enumerate(trace.limits[shown]):
        if letter == ".":
            continue
        at = view.project(joint_anchor(scene, q, j))
        low = letter.upper() == "L"
        side = -1 if at[0] > 0.5 * (box[0] + box[1]) else 1
        ax.annotate(
            f"{names[j]} on its {'lower' if low else 'upper'} limit"
            + (f"\n(iteration {shown})" if shown < k else ""),
            (float(at[0]), float(at[1])), xytext=(48 * side, 2), textcoords="offset points",
            fontsize=8, zorder=7,
            ha="left" if side > 0 else "right", va="center",
            arrowprops={"arrowstyle": "-", "color": LOWER if low else UPPER},
            bbox={"boxstyle": "round,pad=0.35", "fc": "white", "ec": LOWER if low else UPPER},
        )  # fmt: skip
    left, right, bottom, top = box
    pad = 0.06 * max(right - left, top - bottom)
    ax.set_xlim(left - pad, right + pad)
    ax.set_ylim(bottom - 1.6 * pad, top + pad)
    ax.set_axis_off()


def _errors(
    ax: Axes, stalled: Trace, solved: Trace, what: str, tolerance: float | None, last: int
) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    floor = 1e-6 if tolerance is None else tolerance / 25
    for i, trace in enumerate((stalled, solved)):
        values = np.maximum(getattr(trace, what)[: last + 1], floor)
        ax.plot(values, color=COLOURS[i], label=trace.solver)
        if trace.steps < last:
            ax.plot(trace.steps, values[-1], "o", ms=4, color=COLOURS[i], clip_on=False, zorder=4)
    ax.set_yscale("log")
    if tolerance is not None:
        ax.axhline(tolerance, color="#8b939d", lw=0.8, ls=(0, (2, 3)))
        ax.annotate("tolerance", (last, tolerance), xytext=(0, 3), textcoords="offset points",
                    ha="right", fontsize=7.5, color="#8b939d")  # fmt: skip
        ax.set_ylim(bottom=floor)
    ax.yaxis.set_major_locator(LogLocator(numticks=5))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_xlim(0, last)
    ax.tick_params(labelbottom=False)


def _strip(ax: Axes, trace: Trace, last: int, *, legend: bool) -> None:
    from matplotlib.patches import Patch

    names = trace.solution.problem.robot.joint_names
    end = min(trace.steps, last)
    for j in range(len(names)):
        ax.broken_barh([(0, end)], (j - 0.38, 0.76), color="#ecece7", lw=0)
        for k, state in enumerate(trace.limits[: end + 1]):
            if state[j] != ".":
                ax.broken_barh(
                    [(max(0, k - 0.5), min(k + 0.5, end) - max(0, k - 0.5))],
                    (j - 0.38, 0.76),
                    color=LOWER if state[j].upper() == "L" else UPPER,
                    alpha=1 if state[j].isupper() else 0.4,
                    lw=0,
                )
    ax.set_title(f"joints of {trace.solver} on a limit", fontsize=8, fontweight="normal", pad=3)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, last)
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("iteration")
    if legend:
        handles = [
            Patch(color=LOWER, label="on its lower limit"),
            Patch(color=UPPER, label="on its upper limit"),
        ]
        ax.legend(handles=handles, loc="lower right", fontsize=7.5)
