"""What does it look like when clamping stalls, and the constrained step does not?

    python studies/stall_figure.py [--quick]

Solves a problem set with both solvers, picks one target by the report's rule (of those that only
the constrained step solves: a joint is pressed against a limit on its way, and clamping ends
farthest from the target), prints what happens on it, and writes the figure as PNG, SVG and PDF to
studies/results/stall_figure/ (with --quick: another set, thrown away).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import optik
from optik.benchmark.environment import environment_line
from optik.benchmark.figures import rendered
from optik.benchmark.figures_stall import stall_figure
from optik.benchmark.rendering import Column, Table, to_terminal, write_tables
from optik.benchmark.report_cases import Case, choose
from optik.benchmark.report_runs import gather
from optik.benchmark.report_trace import Trace, percent, story

PAIR = ("clamped-dls", "box-qp")
SET, QUICK_SET, QUICK_COUNT = "panda_at_limit_1", "arm7_lesson", 20
RESULTS = Path(__file__).parent / "results" / "stall_figure"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="20 targets, results thrown away")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as scratch:
        problems = optik.load_problem_set(QUICK_SET if quick else SET)
        if quick:
            problems = problems.first(QUICK_COUNT)
        optik.run([problems], list(PAIR), out=Path(scratch) / "run", title=problems.name)
        chosen = choose(gather([Path(scratch) / "run"]), count=1, pair=PAIR)
        case = chosen.chosen[0]
        table = told(case, len(chosen.gained), len(chosen.lost), len(problems))
        print(to_terminal(table))
        for label in PAIR:
            print(f"\n{story(case.traces[label])}")
        figure = stall_figure(*(case.traces[label] for label in PAIR))
        folder = Path(scratch) / "out" if quick else RESULTS
        write_tables(
            folder,
            [table],
            title="An arm that stalls, and the same arm that does not",
            intro=(
                f"{environment_line()}. Made by `python studies/stall_figure.py`.\n\n"
                "![the two arms, their errors and their limits](stall.svg)\n\n"
                + "\n\n".join(story(case.traces[s]) for s in PAIR)
            ),
            extra=rendered(figure, "stall", formats=("png", "svg", "pdf")),
        )


def told(case: Case, gained: int, lost: int, count: int) -> Table:
    rows = [row(label, case.traces[label]) for label in PAIR]
    columns = (
        Column("solver", "solver"),
        Column("status", "status"),
        Column("iterations", "iterations", "count"),
        Column("position", "position error", "metres"),
        Column("rotation", "rotation error", "radians"),
        Column("on_limit", "iterations with a joint on a limit", "count"),
        Column("promised", "error an unlimited step\nwould remove there"),
        Column("kept", "error the step taken\nremoves there"),
    )
    notes = (
        f"Target {case.index} of {case.group}, start home. Of the set's {count} targets {gained} "
        f"are solved by {PAIR[1]} only and {lost} by {PAIR[0]} only.",
        "Shares of the error are medians over the iterations with a joint on a limit, to first "
        "order: 1 - |e - J d| / |e|.",
    )
    return Table("stall", f"{case.group}, target {case.index}", columns, tuple(rows), notes)


def row(label: str, trace: Trace) -> dict[str, object]:
    on = [k for k in range(trace.steps) if trace.limits[k].strip(".")]
    evaluation = trace.solution.evaluation
    return {
        "solver": label,
        "status": trace.solution.status.value,
        "iterations": trace.solution.iterations,
        "position": evaluation.position_error,
        "rotation": evaluation.rotation_error,
        "on_limit": len(on),
        "promised": share(trace.promised[on]),
        "kept": share(trace.kept[on]),
    }


def share(values: np.ndarray) -> str:
    return percent(float(np.median(values))) if len(values) else "–"


if __name__ == "__main__":
    main()
