"""How strong are the baselines, and what does each change on the way to the box QP buy?

    python studies/baselines.py [--quick]

Single start, 200 iterations, tolerance 1e-4 m and 1e-3 rad, five arms, two kinds of target:
reachable ones, and those that clamped DLS fails from home (which flatter every other method).

(a) the methods beside the figures that prototypes of them had reached;
(b) a damping sweep of clamped DLS;
(c) every way that people clamp, and the bounded least-squares solvers, each also tuned;
(d) the ablation: from clamped DLS to the best box QP one change at a time, each change alone, and
    each change taken back.

An interrupted run goes on where it stopped (runs/baselines).  --quick: two arms, 3 targets each,
results thrown away.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import pandas as pd

import optik
from optik.benchmark.environment import environment
from optik.benchmark.statistics import mcnemar, wilson
from optik.benchmark.tables import Column, Table, to_terminal, write_tables
from optik.solvers import parse_solver

ROBOTS = ("panda", "iiwa14", "ur5e", "arm7", "so101")
STRATA = ("reachable", "clamping_fails")
TITLES = {"reachable": "reachable", "clamping_fails": "clamping fails"}
BASELINE = "clamped-dls"
HERE = Path(__file__).parent
RESULTS = HERE / "results" / "baselines"
RUNS = HERE.parent / "runs" / "baselines"

ERROR_DAMPED = "damping=0.001,error_damping=0.3"
QP = "box-qp:backend=mujoco"
TUNED = f"{ERROR_DAMPED},step_limit=0.5,rotation_weight=0.1"
BEST_QP = f"{QP},{TUNED},residual=chordal"
IPOPT = "ipopt"
IPOPT_CHORDAL = "ipopt:residual=chordal,rotation_weight=0.1"


@dataclass(frozen=True)
class Prototype:
    """A method, and the percentages that a prototype of it had reached, one for each of ROBOTS."""

    label: str
    solver: str | None  # None: the best clamped variant of the sweep, chosen for each column
    reachable: tuple[float | None, ...]
    clamping_fails: tuple[float | None, ...]
    start: str = "home"
    counts: tuple[int, int] = (500, 500)


PROTOTYPES = (
    Prototype("clamped DLS 0.01", BASELINE, (80, 78, 84, 82, 85), (0, 0, 0, 0, 0)),
    Prototype("best clamped variant, by column", None, (80, 81, 84, 84, 87), (13, 62, 28, 36, 22)),
    Prototype("active-set DLS", "active-set-dls", (83, 88, 85, 89, 88), (21, 54, 11, 45, 23)),
    Prototype("box QP, 0.01, cap 0.2", QP, (83, 96, 86, 91, 93), (46, 88, 59, 76, 59)),
    Prototype(
        "box QP, error-damped, w_r 0.1", f"{QP},{TUNED}", (88, 98, 92, 93, 93), (47, 91, 62, 69, 53)
    ),
    Prototype("the same, chordal", BEST_QP, (88, 99, 92, 95, 93), (55, 96, 62, 80, 53)),
    Prototype(
        "the same, from mid-range", BEST_QP, (91, 99.8, 88, 98, 93), (70, 100, 62, 95, 53), "mid"
    ),
    Prototype(
        "IPOPT least squares, from mid-range",
        IPOPT,
        (91, None, 87, 100, None),
        (85, None, 65, 97, None),
        "mid",
        (100, 60),
    ),
    Prototype(
        "the same, chordal, w_r 0.1",
        IPOPT_CHORDAL,
        (91, None, 87, 100, None),
        (85, None, 65, 97, None),
        "mid",
        (100, 60),
    ),
)

DAMPINGS = ("0.0001", "0.001", "0.01", "0.03", "0.1", "0.3")
SWEEP = [
    *(BASELINE if d == "0.01" else f"{BASELINE}:damping={d}" for d in DAMPINGS),
    *(f"{BASELINE}:hold=trust,damping={d}" for d in ("0.001", "0.01", "0.1")),
]
CLAMPED = [
    f"{BASELINE}:clamp=at-end",
    f"{BASELINE}:rotation_weight=0.1",
    f"{BASELINE}:{ERROR_DAMPED}",
    f"{BASELINE}:{ERROR_DAMPED},rotation_weight=0.1",
    f"{BASELINE}:hold=trust,{TUNED}",
    "pseudo-inverse",
    "jacobian-transpose",
    "clamped-adaptive",
    "clamped-adaptive:law=manipulability",
    "sdls",
    "sdls:rotation_weight=0.2",
    "clamped-line-search",
    "clamped-line-search:steepest=true",
    "clamped-lm",
    "clamped-lm:rotation_weight=0.2",
]
ACTIVE_SET = ["active-set-dls", f"active-set-dls:hold=trust,{TUNED}"]
BOUNDED = [
    name + options
    for name in ("trf", "dogbox", "l-bfgs-b", "slsqp", "projected-lm")
    for options in ("", ":rotation_weight=0.2")
] + ["mujoco-least-squares", "mujoco-least-squares:mu_factor=3"]

# What the tables call solvers whose options are a line long.
NAMES = {
    str(parse_solver(f"{BASELINE}:hold=trust,{TUNED}")): "clamped-dls, tuned",
    str(parse_solver(f"active-set-dls:hold=trust,{TUNED}")): "active-set-dls, tuned",
}

# The changes from clamped DLS to the best box QP: what is said of each, and the options it sets.
CHANGES = {
    "limits inside the step": {"method": QP},
    "each joint capped, not the norm": {"hold": "trust"},
    "cap 0.5 instead of 0.2": {"step_limit": "0.5"},
    "damping follows the error": {"damping": "0.001", "error_damping": "0.3"},
    "w_r 0.1 instead of 1 m/rad": {"rotation_weight": "0.1"},
    "chordal residual": {"residual": "chordal"},
}


# As the rows of a run name them.
SWEEP, CLAMPED, ACTIVE_SET, BOUNDED = (
    [str(parse_solver(text)) for text in part] for part in (SWEEP, CLAMPED, ACTIVE_SET, BOUNDED)
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two arms, 3 targets, thrown away")
    quick = parser.parse_args().quick
    robots = ("iiwa14", "so101") if quick else ROBOTS
    runs = Path(tempfile.mkdtemp()) if quick else RUNS
    wide, narrow, few = ((4, 4), (3, 3), (2, 2)) if quick else ((500, 300), (100, 50), (100, 60))

    def solve(name: str, solvers: Sequence[str], counts: tuple[int, int], start: str = "home"):
        sets = [
            optik.load_problem_set(f"{robot}_{stratum}").first(count)
            for stratum, count in zip(STRATA, counts, strict=True)
            for robot in robots
        ]
        return optik.run(
            sets,
            list(dict.fromkeys(str(parse_solver(s)) for s in solvers)),
            start=start,
            out=runs / name,
            resume=(runs / name).exists(),
            isolate=not quick,
            title=name,
        )

    home = [p.solver for p in PROTOTYPES if p.solver and p.start == "home"]
    frames = {
        "prototypes": solve("prototypes", home, wide),
        "from mid-range": solve("from mid-range", [BEST_QP], wide, "mid"),
        "ipopt": solve("ipopt", [IPOPT, IPOPT_CHORDAL], few, "mid"),
        "variants": solve("variants", [*SWEEP, *CLAMPED, *ACTIVE_SET, *BOUNDED], narrow),
        "ablation": solve("ablation", [s for _, s, _ in ablation()], wide if quick else narrow),
    }
    tables = [
        *(prototype_table(stratum, frames, robots) for stratum in STRATA),
        variants_table("sweep", "(b) Damping sweep of clamped DLS", SWEEP, frames, robots),
        variants_table(
            "variants",
            "(c) Clamped methods, active sets and bounded least squares",
            [BASELINE, *CLAMPED, *ACTIVE_SET, *BOUNDED],
            frames,
            robots,
        ),
        ablation_table(frames["ablation"]),
    ]
    findings = sentences(frames, robots)
    for table in tables:
        print(to_terminal(table), "\n")
    for number, sentence in enumerate(findings, 1):
        print(f"{number}. {sentence}")
    folder = Path(tempfile.mkdtemp()) if quick else RESULTS
    write_tables(
        folder,
        tables,
        title="Baselines: every way to clamp, and what each change buys",
        intro="Made by `python studies/baselines.py`; versions and processor in environment.json, "
        "every cell as counts in counts.csv. Start home unless said, 200 iterations, no restarts, "
        "1e-4 m and 1e-3 rad; shares are of all targets, failures included.\n\n"
        + "\n".join(f"{i}. {s}" for i, s in enumerate(findings, 1)),
        extra={
            "counts.csv": counts_csv(frames),
            "environment.json": json.dumps(environment(), indent=1, default=str) + "\n",
        },
    )
    print(f"written to {folder}")
    if quick:
        shutil.rmtree(runs)
        shutil.rmtree(folder)


# --- counting


def solved_of(frame: pd.DataFrame, solver: str, stratum: str, robot: str | None = None):
    """(solved, targets) of one solver on one stratum, of one robot or of all."""
    name = str(parse_solver(solver))
    rows = frame[(frame.solver == name) & frame.problem_set.str.endswith(stratum)]
    if robot is not None:
        rows = rows[rows.robot == robot]
    return int(rows.solved.sum()), len(rows)


def outcomes(frame: pd.DataFrame, solver: str, stratum: str) -> pd.Series:
    """Whether each target was solved, by set and number."""
    rows = frame[(frame.solver == solver) & frame.problem_set.str.endswith(stratum)]
    return rows.set_index(["problem_set", "problem"]).solved.sort_index()


def difference_interval(k: int, n: int, other: float, m: int) -> tuple[float, float]:
    """95 % interval of k/n - other for independent shares, `other` seen on m (Newcombe 1998)."""
    p, mine, theirs = k / n, wilson(k, n), wilson(round(other * m), m)
    low = sqrt((p - mine.lo) ** 2 + (theirs.hi - other) ** 2)
    high = sqrt((mine.hi - p) ** 2 + (other - theirs.lo) ** 2)
    return p - other - low, p - other + high


def counts_csv(frames: dict[str, pd.DataFrame]) -> str:
    counted = [
        frame.groupby(["problem_set", "start", "solver"], sort=False)
        .agg(
            solved=("solved", "sum"),
            targets=("solved", "size"),
            evaluations_median=("evaluations", "median"),
            evaluations_p95=("evaluations", lambda e: e.quantile(0.95)),
            outside_limits=("limit_violation", lambda v: int((v > 0).sum())),
            false_claims=("false_claim", "sum"),
        )
        .reset_index()
        .assign(part=part)
        for part, frame in frames.items()
    ]
    return pd.concat(counted).to_csv(index=False)


# --- tables


def prototype_table(stratum: str, frames: dict[str, pd.DataFrame], robots: Sequence[str]) -> Table:
    rows = []
    for prototype in PROTOTYPES:
        row: dict[str, object] = {"method": prototype.label}
        for robot in robots:
            given = getattr(prototype, stratum)[ROBOTS.index(robot)]
            if given is None:
                continue
            k, n, chosen = cell(prototype, stratum, robot, frames)
            mark = apart(k, n, given, prototype.counts[STRATA.index(stratum)])
            row[robot] = f"{100 * k / n:.0f}{mark} ({given:g}) {chosen}".rstrip()
        rows.append(row)
    return Table(
        f"prototypes_{stratum}",
        f"(a) Solved in percent, {TITLES[stratum]}: here (prototype)",
        (Column("method", "method"), *(Column(r, r) for r in robots)),
        tuple(rows),
        (
            f"{_sizes(frames, stratum)}. + above and - below the prototype by more than the 95 % "
            "interval of the difference (Newcombe's score interval, prototypes seen on 500 targets, "
            "IPOPT's on 100 and 60). The best variant is the best of (b) and the clamped methods of "
            f"(c), named by its letter and on the targets there: {_sizes(frames, stratum, 'variants')}. "
            "Chosen by its result it flatters itself, and it is chosen from a wider sweep than the "
            f"prototypes' was. IPOPT: {_sizes(frames, stratum, 'ipopt')}.",
        ),
    )


def apart(k: int, n: int, given: float, seen: int) -> str:
    """A sign where k of n is above or below `given` percent by more than chance allows."""
    low, high = difference_interval(k, n, given / 100, seen)
    return "+" if low > 0.0 else "-" if high < 0.0 else ""


def cell(
    prototype: Prototype, stratum: str, robot: str, frames: dict[str, pd.DataFrame]
) -> tuple[int, int, str]:
    if prototype.solver is None:
        frame = frames["variants"]
        variants = list(dict.fromkeys([*SWEEP, *CLAMPED]))
        best = max(variants, key=lambda s: solved_of(frame, s, stratum, robot)[0])
        return *solved_of(frame, best, stratum, robot), letter(best)
    part = "prototypes" if prototype.start == "home" else "from mid-range"
    frame = frames["ipopt" if prototype.solver.startswith(IPOPT) else part]
    return *solved_of(frame, prototype.solver, stratum, robot), ""


def letter(variant: str) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[list(dict.fromkeys([*SWEEP, *CLAMPED])).index(variant)]


def variants_table(
    name: str,
    title: str,
    variants: Sequence[str],
    frames: dict[str, pd.DataFrame],
    robots: Sequence[str],
) -> Table:
    frame = frames["variants"]
    named = list(dict.fromkeys([*SWEEP, *CLAMPED]))
    rows = []
    for variant in variants:
        row: dict[str, object] = {
            "letter": letter(variant) if variant in named else "",
            "solver": NAMES.get(variant, variant),
        }
        part = frame[frame.solver == variant]
        row["evaluations"] = (
            float(part.evaluations.median()),
            float(part.evaluations.quantile(0.95)),
        )
        for stratum in STRATA:
            row[stratum] = solved_of(frame, variant, stratum)
            per = (solved_of(frame, variant, stratum, robot) for robot in robots)
            row[f"{stratum}_each"] = " ".join(f"{100 * k / n:.0f}" for k, n in per)
        rows.append(row)
    each = ", ".join(robots)
    return Table(
        name,
        title,
        (
            Column("letter", ""),
            Column("solver", "solver"),
            Column("reachable", "reachable", "share"),
            Column("reachable_each", "each arm"),
            Column("clamping_fails", "clamping\nfails", "share"),
            Column("clamping_fails_each", "each arm"),
            Column("evaluations", "evaluations\nmedian / p95", "number"),
        ),
        tuple(rows),
        (
            f"{_sizes(frames, 'reachable', 'variants')}; "
            f"{_sizes(frames, 'clamping_fails', 'variants')}; each arm in percent: {each}. "
            "Intervals are Wilson's, of the arms together. Tuned: each joint capped to 0.5, damping "
            "lambda^2 = 1e-6 + 0.3 cost, w_r 0.1 m/rad, as the box QP of (a).",
        ),
    )


def ablation() -> list[tuple[str, str, str]]:
    """(what is said, solver, what it is compared with) for every row of the ablation."""
    rows = [("clamped DLS", BASELINE, "")]
    seen: list[str] = []
    for change in CHANGES:
        before = build(seen)
        seen.append(change)
        rows.append((f"+ {change}", build(seen), before))
    rows += [(f"only {change}", build([change]), BASELINE) for change in list(CHANGES)[1:]]
    everything = list(CHANGES)
    rows += [
        (f"without {change}", build([c for c in everything if c != change]), build(everything))
        for change in everything
    ]
    return rows


def build(changes: Sequence[str]) -> str:
    """The solver with these changes made to clamped DLS."""
    # hold=scale is clamped DLS's default and not the box QP's.
    options = {"hold": "scale"}
    for change in changes:
        options |= CHANGES[change]
    method = options.pop("method", BASELINE)
    if method == BASELINE and options["hold"] == "scale":
        del options["hold"]
    if method == QP and options["hold"] == "trust":
        del options["hold"]
    text = ",".join(f"{k}={v}" for k, v in options.items())
    return str(parse_solver(method + (("," if ":" in method else ":") + text if text else "")))


def ablation_table(frame: pd.DataFrame) -> Table:
    rows = []
    for said, solver, other in ablation():
        row: dict[str, object] = {"change": said}
        for stratum in STRATA:
            row[stratum] = solved_of(frame, solver, stratum)
            if other:
                mine, theirs = (outcomes(frame, s, stratum) for s in (solver, other))
                gained, lost = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
                row[f"{stratum}_pairs"] = f"+{gained} -{lost}"
                row[f"{stratum}_p"] = mcnemar(gained, lost)
        part = frame[frame.solver == solver]
        row["evaluations"] = (
            float(part.evaluations.median()),
            float(part.evaluations.quantile(0.95)),
        )
        rows.append(row)
    return Table(
        "ablation",
        "(d) From clamped DLS to the best box QP",
        (
            Column("change", "change"),
            Column("reachable", "reachable", "share"),
            Column("reachable_pairs", "gained\nlost"),
            Column("reachable_p", "p", "p"),
            Column("clamping_fails", "clamping\nfails", "share"),
            Column("clamping_fails_pairs", "gained\nlost"),
            Column("clamping_fails_p", "p", "p"),
            Column("evaluations", "evaluations\nmedian / p95", "number"),
        ),
        tuple(rows),
        (
            "The arms together, the targets of (b) and (c). Rows with + add to the row above; "
            '"only" makes one change to clamped DLS; "without" takes one change back from the best '
            "box QP. Gained and lost count targets against the row it changes; p is the exact "
            "McNemar test, not adjusted for the number of rows.",
        ),
    )


def _sizes(frames: dict[str, pd.DataFrame], stratum: str, part: str = "prototypes") -> str:
    frame = frames[part]
    solver = frame.solver.iloc[0]
    _, n = solved_of(frame, solver, stratum, frame.robot.iloc[0])
    return f"{n} targets an arm, {TITLES[stratum]}"


def sentences(frames: dict[str, pd.DataFrame], robots: Sequence[str]) -> list[str]:
    """What the numbers say, in words that depend on them."""
    variants, steps = frames["variants"], frames["ablation"]
    clamped = list(dict.fromkeys([*SWEEP, *CLAMPED]))
    strongest = max(clamped, key=lambda s: solved_of(variants, s, "reachable")[0])
    k, n = solved_of(variants, strongest, "reachable")
    base, _ = solved_of(variants, BASELINE, "reachable")
    found = [
        f"The strongest clamped method on reachable targets, all arms together, is "
        f"{NAMES.get(strongest, strongest)}: "
        f"{100 * k / n:.1f} % against {100 * base / n:.1f} % of clamped-dls (chosen by its result)."
    ]
    below = [
        f"{robot} ({100 * a / total:.0f} against {100 * b / total:.0f} %)"
        for robot in robots
        for (a, total), (b, _) in [
            (
                solved_of(variants, "clamped-lm", "reachable", robot),
                solved_of(variants, BASELINE, "reachable", robot),
            )
        ]
        if a < b
    ]
    found.append(
        "Adaptive damping with accept or reject (clamped-lm) is below fixed damping on "
        + (", ".join(below) if below else "no arm")
        + ", reachable targets."
    )
    gains = []
    for said, solver, other in ablation():
        if said.startswith("+"):
            a, total = solved_of(steps, solver, "reachable")
            b, _ = solved_of(steps, other, "reachable")
            gains.append((100 * (a - b) / total, said[2:]))
    most = max(gains)
    found.append(
        f"On the way to the best box QP, the change that buys most on reachable targets is "
        f'"{most[1]}": {most[0]:+.1f} points. In order: '
        + ", ".join(f"{said} {gain:+.1f}" for gain, said in gains)
        + "."
    )
    dearest = []
    for said, solver, other in ablation():
        if said.startswith("without"):
            lost = [
                100
                * (solved_of(steps, other, s)[0] - solved_of(steps, solver, s)[0])
                / solved_of(steps, solver, s)[1]
                for s in STRATA
            ]
            dearest.append(
                (lost[0], f"{said.removeprefix('without ')} {lost[0]:+.1f} / {lost[1]:+.1f}")
            )
    found.append(
        "Taken back from the best box QP, one at a time, the changes cost, in points on reachable "
        "targets / where clamping fails: "
        + ", ".join(text for _, text in sorted(dearest, reverse=True))
        + "."
    )
    everyone = [BASELINE, *CLAMPED, *ACTIVE_SET, *BOUNDED]
    first = sorted(everyone, key=lambda s: -solved_of(variants, s, "reachable")[0])[:3]
    found.append(
        "Of the methods of (c), most reachable targets are solved by "
        + ", ".join(
            f"{NAMES.get(s, s)} ({100 * k / n:.1f} %)"
            for s in first
            for k, n in [solved_of(variants, s, "reachable")]
        )
        + ", chosen by their results."
    )
    found.append(disagreements(frames, robots))
    total = pd.concat(list(frames.values()))
    found.append(
        f"Of {len(total)} answers, {int((total.limit_violation > 0).sum())} lie outside a limit and "
        f"{int(total.false_claim.sum())} claim a solution that the judge does not confirm."
    )
    return found


def disagreements(frames: dict[str, pd.DataFrame], robots: Sequence[str]) -> str:
    """Which cells of (a) lie apart from the prototypes' figures."""
    cells, named = 0, []
    for stratum in STRATA:
        for prototype in PROTOTYPES:
            for robot in robots:
                given = getattr(prototype, stratum)[ROBOTS.index(robot)]
                if given is None or (stratum == "clamping_fails" and given == 0):
                    continue
                cells += 1
                k, n, _ = cell(prototype, stratum, robot, frames)
                if apart(k, n, given, prototype.counts[STRATA.index(stratum)]):
                    named.append(
                        f"{prototype.label} on {robot}, {TITLES[stratum]}: {100 * k / n:.0f} % "
                        f"against {given:g} %"
                    )
    text = (
        f"{len(named)} of {cells} cells of (a) differ from the prototypes by more than the 95 % "
        f"interval of the difference, where chance alone would let about {cells / 20:.0f}"
    )
    pools = [
        (robot, optik.load_problem_set(f"{robot}_clamping_fails").spec.pool) for robot in robots
    ]
    solved = ", ".join(
        f"{robot} {100 * (1 - pool.rate):.1f} % of {pool.size}" for robot, pool in pools if pool
    )
    return (
        text
        + (": " + "; ".join(named) if named else "")
        + ". On the larger pools from which the second kind of target was picked, clamped DLS "
        f"solved {solved}."
    )


if __name__ == "__main__":
    main()
