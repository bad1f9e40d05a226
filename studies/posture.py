"""A posture beside the target: who stays close to it, and who pays for it with the target?

    python studies/posture.py [--quick]

Compares no posture, the damped and the exact null-space projector of clamped DLS, one weighted sum
(w_post^2 from 1e-2 to 1e-8), the box QP's second level, and IPOPT's equality form, all towards the
middle of the joint ranges.  The first three rows are the lesson's own, to the digit.  Writes
studies/results/posture/ (with --quick: 20 targets, to a temporary folder).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd
import study_results
from rich.console import Console

import optik
from optik.benchmark.rendering import Column, Table, to_terminal
from optik.problem_sets import ProblemSet

# The lesson counts 300 evaluations of the error, which are 299 steps.
BUDGET = optik.Budget(iterations=299)
LESSON = "arm7_lesson"
OTHERS = (("panda_reachable", 200), ("iiwa14_reachable", 200))
BEST = study_results.BEST_BOX_QP.format(rotation_weight=0.1)


@dataclass(frozen=True)
class Way:
    """One way of asking for a posture.

    Attributes:
        name: the row's name.
        solver: the solver.
        posture: the weight w_post; None to ask for no posture.
        lesson_only: not repeated on the other robots.
    """

    name: str
    solver: str
    posture: float | None = 1e-3
    lesson_only: bool = False


def ways() -> list[Way]:
    weighted = [
        Way(f"weighted sum, w_post^2 = 1e{k}", "ipopt", 10.0 ** (k / 2), k not in (-2, -6))
        for k in range(-2, -9, -1)
    ]
    return [
        Way("clamped, no posture", "clamped-dls", None),
        Way("clamped, damped projector", "clamped-dls:projector=damped"),
        Way("clamped, exact projector", "clamped-dls"),
        Way("IPOPT least squares, no posture", "ipopt", None),
        *weighted,
        Way("box QP, no posture", "box-qp:backend=mujoco", None),
        Way("box QP, two levels", "box-qp:backend=mujoco"),
        Way("box QP, two levels, OSQP", "box-qp:backend=osqp", lesson_only=True),
        Way("box QP, error-damped, no posture", BEST, None),
        Way("box QP, error-damped, two levels", BEST),
        Way("IPOPT, equality form", "ipopt-equality"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="20 targets, results thrown away")
    quick = parser.parse_args().quick
    sets = [(optik.load_problem_set(LESSON), True)]
    sets += [(optik.load_problem_set(name).first(count), False) for name, count in OTHERS]
    if quick:
        sets = [(sets[0][0].first(20), True)]
    say = Console(stderr=True).print
    frames, tables = [], []
    for problems, lesson in sets:
        say(f"{problems.name}: {len(problems)} targets")
        rows = run(problems, [w for w in ways() if lesson or not w.lesson_only])
        frames.append(rows)
        tables.append(table_of(problems, rows))
        print(to_terminal(tables[-1]))
    print(verdict(frames[0]))
    intro = (
        "Made by `python studies/posture.py`; versions and processor in environment.json. The "
        f"posture is the middle of the joint ranges. Start home, {BUDGET.iterations} steps, no "
        "restarts.\n\n" + verdict(frames[0])
    )
    folder = study_results.write(
        "posture",
        tables,
        title="A posture beside the target",
        intro=intro,
        quick=quick,
        extra={"rows.csv": pd.concat(frames).to_csv(index=False)},
        solvers=[w.solver for w in ways()],
        budget=BUDGET,
    )
    say(f"written to {folder}")


def run(problems: ProblemSet, chosen: list[Way]) -> pd.DataFrame:
    """Every way on every target; distances to the posture are measured even if none is asked."""
    parts = []
    for way in chosen:
        posture = None if way.posture is None else optik.Posture(weight=way.posture)
        rows = optik.run(
            [problems], [way.solver], budget=BUDGET, posture=posture, title=way.name, start="home"
        )
        parts.append(rows.assign(way=way.name))
    return pd.concat(parts, ignore_index=True)


def table_of(problems: ProblemSet, rows: pd.DataFrame) -> Table:
    body = []
    solved = rows.pivot(index="problem", columns="way", values="solved").astype(bool)
    distance = rows.pivot(index="problem", columns="way", values="posture_distance")
    everyone = [w for w in solved if solved[w].mean() >= 0.7]
    common = solved[everyone].all(axis=1)
    for name, part in rows.groupby("way", sort=False):
        won = part[part.solved]
        body.append(
            {
                "way": name,
                "solved": (int(part.solved.sum()), len(part)),
                "distance": won.posture_distance.mean(),
                "common": distance.loc[common, name].mean() if name in everyone else None,
                "position": (part.position_error.median(), part.position_error.quantile(0.95)),
                "rotation": (part.rotation_error.median(), part.rotation_error.quantile(0.95)),
                "evaluations": (part.evaluations.median(), part.evaluations.quantile(0.95)),
                "outside": int((part.limit_violation > 0).sum()),
                "false": int(part.false_claim.sum()),
            }
        )
    return Table(
        problems.name,
        f"{problems.spec.title}: the posture",
        (
            Column("way", "way"),
            Column("solved", "solved", "share"),
            Column("distance", "distance to\nthe posture", "number"),
            Column("common", "on common\ntargets", "number"),
            Column("position", "position error\nmedian / p95", "metres"),
            Column("rotation", "rotation error\nmedian / p95", "radians"),
            Column("evaluations", "evaluations\nmedian / p95", "number"),
            Column("outside", "outside\nlimits", "count"),
            Column("false", "false\nclaims", "count"),
        ),
        tuple(body),
        (
            "Distance is the mean of |q - q_mid| [rad] over what each row solves; on common "
            f"targets: over the {int(common.sum())} that all rows with a number there solve; rows "
            "that solve less than 70 % are left out of it.",
            "Errors and evaluations are over all targets, failures included.",
            "A weighted sum stops at the sum's minimum: its error there is not an unfinished solve "
            "but what the posture costs.",
        ),
    )


def verdict(rows: pd.DataFrame) -> str:
    """Whether the second level keeps the success of no posture and comes closer."""

    def of(name: str) -> pd.DataFrame:
        return rows[rows.way == name].set_index("problem")

    plain, two = of("box QP, no posture"), of("box QP, two levels")
    exact = of("clamped, exact projector")
    both = plain.solved & two.solved & exact.solved
    lost = int((plain.solved & ~two.solved).sum())
    gained = int((two.solved & ~plain.solved).sum())
    gap = (two.posture_distance - exact.posture_distance)[both]
    half = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap))
    return (
        f"The second level solves {int(two.solved.sum())} of {len(two)} targets, the same solver "
        f"without a posture {int(plain.solved.sum())} ({gained} gained, {lost} lost). On the "
        f"{int(both.sum())} targets that it, the same without a posture and the exact projector all "
        f"solve, the mean distance is {two.posture_distance[both].mean():.3f} rad against "
        f"{exact.posture_distance[both].mean():.3f} (exact projector) and "
        f"{plain.posture_distance[both].mean():.3f} (none); the paired difference to the exact "
        f"projector is {gap.mean():.3f} rad, 95 % interval {gap.mean() - half:.3f} to "
        f"{gap.mean() + half:.3f}."
    )


if __name__ == "__main__":
    main()
