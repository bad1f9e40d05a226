"""Constrained or clamped? The strongest of each family on every robot and every stratum.

    python studies/constrained_or_clamped.py [--quick | --full] [--count N]

Same targets, starts, tolerance, budget and judge for all; failures stay in every mean.  One table
by family (single start), one with ten restarts, one by stratum, one figure, and the findings that
the numbers carry.  --count problems a stratum (200 if left out), --full takes whole sets;
an interrupted run goes on where it stopped (runs/constrained_or_clamped).  Whole sets are written to
studies/results/constrained_or_clamped, a part of them to a folder inside it.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import study_results

import optik
from optik.benchmark.statistics import mcnemar, wilson
from optik.benchmark.tables import Column, Table, to_terminal

ROBOTS = ("panda", "iiwa14", "ur5e", "arm7", "so101")
STRATA = (
    "reachable",
    "at_limit_1",
    "at_limit_2",
    "at_limit_3",
    "near_singular",
    "clamping_fails",
)
# Chosen by clamping's own failures: never pooled with the others.
CHOSEN = "clamping_fails"
BASELINE = "clamped-dls"
BEST_QP = study_results.BEST_BOX_QP.format(rotation_weight=0.2)
SINGLE = {
    BASELINE: "clamped",
    "clamped-lm": "clamped",
    "active-set-dls": "clamped",
    "box-qp:backend=mujoco": "box QP",
    BEST_QP: "box QP",
    "projected-lm": "bounded least squares",
    "dogbox:rotation_weight=0.2": "bounded least squares",
    "trf": "bounded least squares",
    "ipopt:residual=chordal,rotation_weight=0.2": "interior point",
    "box-lm:starts=given": "compiled",
}
RESTARTED = {
    "restarts:solver=" + BASELINE: "clamped",
    "restarts:solver=active-set-dls": "clamped",
    "restarts:solver=" + BEST_QP.replace(",", ";"): "box QP",
    "restarts:solver=dogbox:rotation_weight=0.2": "bounded least squares",
    "box-lm": "compiled",
}
RESTARTS = 10
HERE = Path(__file__).parent
RUNS = HERE.parent / "runs" / "constrained_or_clamped"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two robots, 4 problems a stratum")
    parser.add_argument("--full", action="store_true", help="every problem of every set")
    parser.add_argument("--count", type=int, default=200, help="problems a stratum")
    options = parser.parse_args()
    robots = ("panda", "so101") if options.quick else ROBOTS
    count = 4 if options.quick else None if options.full else options.count
    runs = Path(tempfile.mkdtemp()) if options.quick else RUNS / str(count or "full")
    sets = [_cut(f"{robot}_{stratum}", count) for robot in robots for stratum in STRATA]
    single = optik.run(
        sets,
        list(SINGLE),
        out=runs / "single",
        resume=(runs / "single").exists(),
        isolate=not options.quick,
        title="single start",
    )
    restarted = optik.run(
        sets,
        list(RESTARTED),
        budget=optik.Budget(restarts=RESTARTS),
        out=runs / "restarts",
        resume=(runs / "restarts").exists(),
        isolate=not options.quick,
        title=f"{RESTARTS} restarts",
    )
    size = "all" if count is None else str(count)
    note = (
        f"{size} problems a stratum, {len(robots)} robots, start home, 1e-4 m and 1e-3 rad, 200 "
        "iterations a start, one thread."
    )
    tables = [
        overview(single, SINGLE, "single", "(a) One start", note),
        overview(restarted, RESTARTED, "restarts", f"(b) With {RESTARTS} restarts", note),
        by_stratum(single, note),
        by_robot(single, note),
    ]
    findings = sentences(single, restarted)
    for table in tables:
        print(to_terminal(table), "\n")
    print("\n".join(findings))
    command = "--full" if options.full else f"--count {options.count}"
    part = "" if options.full else f"/first_{options.count}"
    folder = study_results.write(
        f"constrained_or_clamped{part}",
        tables,
        title="Constrained or clamped?",
        intro=f"Made by `python studies/constrained_or_clamped.py {command}`.\n\n"
        + "\n".join(f"{i}. {s}" for i, s in enumerate(findings, 1))
        + "\n\n![Solved by stratum](by_stratum.png)",
        quick=options.quick,
        extra=figures(single),
    )
    print(f"written to {folder}")
    if options.quick:
        shutil.rmtree(runs)


def _cut(name: str, count: int | None) -> optik.ProblemSet:
    problems = optik.load_problem_set(name)
    return problems if count is None else problems.first(count)


def short(solver: str) -> str:
    """A table's name for a solver; its options stand in environment.json."""
    if solver.startswith("restarts:solver="):
        return short(solver.removeprefix("restarts:solver=").replace(";", ","))
    if solver == BEST_QP:
        return "box-qp, tuned"
    return solver.replace(":backend=mujoco", "").replace(
        ":residual=chordal,rotation_weight=0.2", ""
    )


def _stratum(rows: pd.DataFrame) -> pd.Series:
    return rows.problem_set.str.split("_", n=1).str[1]


def overview(
    rows: pd.DataFrame, solvers: dict[str, str], name: str, title: str, note: str
) -> Table:
    """A row a solver: solved on the targets drawn without looking at any solver, and on the chosen."""
    rows = rows.assign(stratum=_stratum(rows))
    drawn, chosen = rows[rows.stratum != CHOSEN], rows[rows.stratum == CHOSEN]
    first = next(iter(solvers))
    keys = ["problem_set", "problem"]
    base = drawn[drawn.solver == first].set_index(keys).solved
    body = []
    for solver, family in solvers.items():
        part = drawn[drawn.solver == solver].set_index(keys)
        hard = chosen[chosen.solver == solver]
        gained, lost = int((part.solved & ~base).sum()), int((base & ~part.solved).sum())
        body.append(
            {
                "solver": short(solver),
                "family": family,
                "drawn": (int(part.solved.sum()), len(part)),
                "gained": gained,
                "lost": lost,
                "p": 1.0 if solver == first else mcnemar(gained, lost),
                "chosen": (int(hard.solved.sum()), len(hard)),
                "evaluations": float(part.evaluations.mean()),
                "time": float(part.solve_time.mean()),
                "outside": int((rows[rows.solver == solver].limit_violation > 0).sum()),
                "false": int(rows[rows.solver == solver].false_claim.sum()),
            }
        )
    columns = (
        Column("solver", "solver"),
        Column("family", "family"),
        Column("drawn", "solved, five strata", "share"),
        Column("gained", "gained", "count"),
        Column("lost", "lost", "count"),
        Column("p", "McNemar p", "p"),
        Column("chosen", "solved where\nclamping fails", "share"),
        Column("evaluations", "mean\nevaluations", "number"),
        Column("time", "mean time", "seconds"),
        Column("outside", "outside\nlimits", "count"),
        Column("false", "false\nclaims", "count"),
    )
    notes = (
        note,
        "Gained and lost against the first row, on the five strata that were drawn without looking "
        "at a solver.  The sixth was chosen because clamped-dls fails there, which flatters every "
        "other solver: it is never pooled.",
    )
    return Table(name, title, columns, tuple(body), notes=notes)


def by_stratum(rows: pd.DataFrame, note: str) -> Table:
    """Solved, a row a stratum and a column a solver, robots pooled."""
    return _grid(
        rows.assign(row=_stratum(rows)), STRATA, "strata", "(c) One start, by stratum", note
    )


def by_robot(rows: pd.DataFrame, note: str) -> Table:
    """Solved on the drawn strata, a row a robot."""
    rows = rows[_stratum(rows) != CHOSEN]
    names = tuple(dict.fromkeys(rows.robot))
    return _grid(rows.assign(row=rows.robot), names, "robots", "(d) One start, by robot", note)


def _grid(rows: pd.DataFrame, order: tuple[str, ...], name: str, title: str, note: str) -> Table:
    body = []
    for label in order:
        part = rows[rows.row == label]
        cells = {
            s: (int(part[part.solver == s].solved.sum()), int((part.solver == s).sum()))
            for s in SINGLE
        }
        body.append(
            {"row": label} | {s: f"{100 * k / max(n, 1):.1f}" for s, (k, n) in cells.items()}
        )
    columns = (Column("row", ""), *(Column(s, f"{short(s)}\n%") for s in SINGLE))
    return Table(name, title, columns, tuple(body), notes=(note,))


def sentences(single: pd.DataFrame, restarted: pd.DataFrame) -> list[str]:
    """The findings, in numbers."""
    single = single.assign(stratum=_stratum(single), family=single.solver.map(SINGLE))
    drawn = single[single.stratum != CHOSEN]
    rate = drawn.groupby("solver").solved.mean()
    clamped = max((s for s, f in SINGLE.items() if f == "clamped"), key=rate.get)
    best = max((s for s, f in SINGLE.items() if f != "clamped"), key=rate.get)
    keys = ["problem_set", "problem"]
    cells = drawn.pivot_table(index=keys, columns="solver", values="solved", aggfunc="first")
    a, b = cells[clamped].astype(bool), cells[best].astype(bool)
    gained, lost = int((b & ~a).sum()), int((a & ~b).sum())
    out = [
        f"Over the five drawn strata the best clamped method ({short(clamped)}) solves "
        f"{100 * rate[clamped]:.1f} % from one start, the best constrained one ({short(best)}) "
        f"{100 * rate[best]:.1f} %: {gained} targets gained, {lost} lost, McNemar p "
        f"{mcnemar(gained, lost):.2g}."
    ]
    even = []
    for name, part in cells.groupby(level=0):
        x, y = part[clamped].astype(bool), part[best].astype(bool)
        up, down = int((y & ~x).sum()), int((x & ~y).sum())
        if up <= down or mcnemar(up, down) > 0.05:
            even.append(f"{name} ({int(x.sum())} against {int(y.sum())} of {len(part)})")
    out.append(
        "The constrained method is not significantly better (p > 0.05, each set by itself) on "
        + (", ".join(even) if even else "none of the sets")
        + "."
    )
    tops = single.groupby(["stratum", "solver"]).solved.mean().unstack()
    gap = tops[best] - tops[clamped]
    drawn_gap = gap.drop(CHOSEN)
    out.append(
        f"Among the drawn strata the gap is largest on {drawn_gap.idxmax()} "
        f"({100 * drawn_gap.max():.1f} points) and smallest on {drawn_gap.idxmin()} "
        f"({100 * drawn_gap.min():.1f} points)."
    )
    again = restarted.assign(stratum=_stratum(restarted))
    rates = again[again.stratum != CHOSEN].groupby("solver").solved.mean()
    means = again[again.stratum != CHOSEN].groupby("solver").evaluations.mean()
    first = next(iter(RESTARTED))
    out.append(
        f"With {RESTARTS} restarts clamped-dls reaches {100 * rates[first]:.2f} % at "
        f"{means[first]:.0f} evaluations, box-lm {100 * rates['box-lm']:.2f} % at "
        f"{means['box-lm']:.0f}: restarts repair most stalls, at a price."
    )
    both = pd.concat([single, restarted])
    out.append(
        f"In all {len(both)} solves {int((both.limit_violation > 0).sum())} answers lie outside a "
        f"limit and {int(both.false_claim.sum())} claims are false."
    )
    return out


def figures(rows: pd.DataFrame) -> dict[str, bytes]:
    """Solved by stratum with Wilson intervals, a panel a robot, as PNG and SVG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = {
        BASELINE: ("clamped DLS", "#999999", "o"),
        "active-set-dls": ("active-set DLS", "#56b4e9", "s"),
        BEST_QP: ("box QP, tuned", "#e69f00", "D"),
        "dogbox:rotation_weight=0.2": ("dogbox", "#009e73", "^"),
        "box-lm:starts=given": ("box-lm, given start only", "#0072b2", "v"),
    }
    rows = rows.assign(stratum=_stratum(rows))
    robots = tuple(dict.fromkeys(rows.robot))
    figure, axes = plt.subplots(
        1, len(robots), figsize=(2.3 * len(robots) + 0.8, 3.6), sharey=True, dpi=150, squeeze=False
    )
    for panel, robot in zip(axes[0], robots, strict=True):
        for k, (solver, (_, colour, marker)) in enumerate(shown.items()):
            part = rows[(rows.robot == robot) & (rows.solver == solver)]
            counts = [
                (int(p.solved.sum()), len(p)) for p in (part[part.stratum == s] for s in STRATA)
            ]
            share = np.array([100 * k_ / n for k_, n in counts])
            low, high = (np.array([100 * wilson(k_, n)[i] for k_, n in counts]) for i in (0, 1))
            x = np.arange(len(STRATA)) + 0.13 * (k - 2)
            panel.errorbar(
                x, share, (np.maximum(share - low, 0), np.maximum(high - share, 0)),
                fmt=marker, ms=4, lw=1, color=colour, label=shown[solver][0],
            )  # fmt: skip
        panel.set_title(robot, fontsize=10)
        panel.set_xticks(
            range(len(STRATA)), [s.replace("_", " ") for s in STRATA], rotation=60, fontsize=7,
            ha="right", rotation_mode="anchor",
        )  # fmt: skip
        panel.grid(axis="y", color="#e5e5e5", lw=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axisbelow(True)
    axes[0, 0].set_ylabel("solved from one start [%]")
    axes[0, 0].set_ylim(-3, 103)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=5, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    out: dict[str, bytes] = {}
    matplotlib.rcParams["svg.hashsalt"] = "optik"
    for kind, meta in (("png", {"Software": None}), ("svg", {"Date": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata=meta)
        out[f"by_stratum.{kind}"] = buffer.getvalue()
    plt.close(figure)
    return out


if __name__ == "__main__":
    main()
