"""Static figures for papers, SVG and PDF, from the same curves as the page.

One style file, `templates/optik.mplstyle`, holds colours, type and rules; nothing is set here that
it can say.  Files are the same, byte for byte, for the same curves.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optik.benchmark.rendering import write_files
from optik.benchmark.report_charts import AXES
from optik.benchmark.summary import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "tolerance": "Success against tolerance",
    "budget": "Success against budget",
    "performance": "Performance profile",
    "data": "Data profile",
}
FORMATS = ("svg", "pdf")
# The page's colours for solvers, after Okabe and Ito: told apart with any colour vision.
COLOURS = (
    "#c2410c", "#0b63a5", "#0f8a68", "#c0589a", "#b98900", "#3f9bd1", "#59626c", "#6d4bb8",
)  # fmt: skip


@contextmanager
def style() -> Iterator[None]:
    """Figures made inside have optik's style; the caller's settings are put back afterwards."""
    import matplotlib as mpl

    path = resources.files("optik.benchmark") / "templates" / "optik.mplstyle"
    with resources.as_file(path) as file, mpl.rc_context(fname=file):
        # Without a salt, the names inside an SVG are drawn at random.
        mpl.rcParams["svg.hashsalt"] = "optik"
        yield


def curves_figure(
    charts: Mapping[str, Mapping[str, Curves]], *, cost: str = "evaluations", title: str = ""
) -> Figure:
    """Draws the curves of one set.

    Args:
        charts: by name ("tolerance", "budget", "performance" or "data") and cost, as
            `report_charts.all_curves` gives them for one set.
        cost: "evaluations" or "time", where a chart has both.
        title: above the whole.
    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(7.2, 0.2 + 2.5 * math.ceil(len(charts) / 2)))
        axes = figure.subplots(math.ceil(len(charts) / 2), 2, squeeze=False)
        for ax in axes.flat[len(charts) :]:
            ax.set_axis_off()
        for ax, (name, by_cost) in zip(axes.flat, charts.items(), strict=False):
            chosen = cost if cost in by_cost else "evaluations"
            draw_curves(ax, by_cost[chosen], AXES[name][chosen][0])
            ax.set_title(TITLES[name])
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        return figure


def draw_curves(ax: Axes, curves: Curves, label: str) -> None:
    """Draws shares of all targets against a logarithmic x into an axis."""
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    for i, (solver, y) in enumerate(curves.y.items()):
        dashes = ("-", "--", ":")[i // 8 % 3]
        ax.step(curves.x, y, where="post", label=solver, color=COLOURS[i % 8], linestyle=dashes)
    ax.set_xscale("log")
    if len(curves.x) > 1:
        ax.set_xlim(float(curves.x[0]), float(curves.x[-1]))
    ax.set_ylim(-0.01, 1.01)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.xaxis.set_major_formatter(FuncFormatter(_decade))
    ax.set_xlabel(label)


def write_figures(
    curves: Mapping[str, Mapping[str, Mapping[str, Curves]]],
    folder: Path,
    *,
    formats: Iterable[str] = FORMATS,
) -> list[Path]:
    """Writes the curves of every set as `<set>_<cost>.svg` and `.pdf`, whole or not at all.

    Args:
        curves: as `report_charts.all_curves` gives them.
        folder: where; made if it is not there.
        formats: any that matplotlib writes.

    Returns:
        The files written.
    """
    files: dict[str, str | bytes] = {}
    for group, charts in curves.items():
        for cost in ("evaluations", "time"):
            figure = curves_figure(charts, cost=cost, title=group)
            name = re.sub(r"\W+", "_", group).strip("_")
            files |= rendered(figure, f"{name}_{cost}", formats=formats)
    write_files(folder, files)
    return [folder / name for name in files]


def rendered(
    figure: Figure, name: str, *, formats: Iterable[str] = FORMATS
) -> dict[str, str | bytes]:
    """A figure's files by name, without dates, so that a second run writes the same bytes."""
    files: dict[str, str | bytes] = {}
    for kind in formats:
        stream = io.BytesIO()
        no_date: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(
            kind, {}
        )
        with style():
            figure.savefig(stream, format=kind, metadata=no_date)
        files[f"{name}.{kind}"] = stream.getvalue()
    return files


def _decade(value: float, _: int) -> str:
    if value >= 1e4 or value < 1e-2:
        return f"$10^{{{round(math.log10(value))}}}$"
    return f"{value:g}"
