"""The index of the studies: a question, a script, its headline and its command, one line each.

A headline is computed from the tables that the study committed, so that it says what they say;
update_readme.py writes it into studies/README.md, and the tests ask whether it is up to date.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
Row = dict[str, str]


def rows(path: str) -> list[Row]:
    """The rows of a committed table, without those before its head."""
    with (RESULTS / path).open() as file:
        return list(csv.DictReader(file))


def share(row: Row, name: str = "") -> str:
    """A share in percent, from the columns that a table keeps of it."""
    key = f"{name}_share" if name else "share"
    return f"{100 * float(row[key]):.1f}"


def span(values: list[float], digits: int = 1) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def failure_at_limits() -> str:
    found = rows("failure_at_limits/rows.csv")
    solved: dict[str, int] = {}
    for row in found:
        solved[row["solver"]] = solved.get(row["solver"], 0) + (row["solved"] == "True")
    targets = len({row["problem"] for row in found})
    return (
        f"of {targets} targets clamped DLS solves {solved['clamped-dls']}, a box QP "
        f"{solved['box-qp']}, IPOPT {solved['ipopt']}, box-lm {solved['box-lm:starts=given']} from "
        f"the same start and {solved['box-lm']} with starts of its own"
    )


def constrained_or_clamped() -> str:
    one = {r["solver"]: r for r in rows("constrained_or_clamped/single.csv")}
    again = {r["solver"]: r for r in rows("constrained_or_clamped/restarts.csv")}
    parts = [
        f"{label} {share(one[name], 'drawn')}"
        for label, name in (
            ("clamped DLS", "clamped-dls"),
            ("its active-set form", "active-set-dls"),
            ("a tuned box QP", "box-qp, tuned"),
            ("box-lm", "box-lm:starts=given"),
            ("IPOPT", "ipopt"),
        )
    ]
    return (
        f"one start: {', '.join(parts)} %; with restarts clamped DLS "
        f"{share(again['clamped-dls'], 'drawn')}, box-lm {share(again['box-lm'], 'drawn')} %"
    )


def baselines() -> str:
    steps = rows("baselines/ablation.csv")
    best = [r for r in steps if r["change"].startswith("+")][-1]
    ways = {r["solver"]: r for r in rows("baselines/variants.csv")}
    return (
        f"of reachable targets clamped DLS solves {share(steps[0], 'reachable')} %, tuned "
        f"{share(ways['clamped-dls, tuned'], 'reachable')}, with an active set "
        f"{share(ways['active-set-dls, tuned'], 'reachable')}, the best box QP {share(best, 'reachable')}"
    )


def posture() -> str:
    ways = {r["way"]: r["solved"] for r in rows("posture/arm7_lesson.csv")}
    return (
        f"of 100 targets {ways['clamped, no posture']} are solved by clamping without a posture, "
        f"{ways['clamped, damped projector']} and {ways['clamped, exact projector']} with the damped "
        f"and the exact projector; a second QP keeps all {ways['box QP, two levels']} of the box QP"
    )


def qp_backends() -> str:
    worst: dict[str, float] = {}
    for name in ("arm7_lesson", "panda_reachable"):
        for row in rows(f"qp_backends/{name}.csv"):
            worst[row["backend"]] = max(worst.get(row["backend"], 0.0), float(row["worst"]))
    good = max(worst[name] for name in ("mujoco", "daqp", "osqp"))
    return (
        f"mujoco, daqp and osqp give the step to {good:.0e} rad; OSQP as it comes misses it by up to "
        f"{worst['osqp at default accuracy']:.1f} rad"
    )


def peers() -> str:
    found = {r["solver"]: share(r, "strict") for r in rows("peers/panda.csv")}
    return (
        f"Panda, joints on limits, one start: clamped DLS {found['clamped DLS']} %, mink and Pink, tuned, "
        f"{found['mink, tuned']} and {found['Pink, tuned']}; with restarts RoboPlan "
        f"{found['RoboPlan, tightened, 20 restarts']} %"
    )


def stall_anatomy() -> str:
    stalls = [r for r in rows("stall_anatomy/stalls.csv") if r["w_r"] in ("1", "none", "")]
    minima = [100 * float(r["minima_share"]) for r in rows("stall_anatomy/anatomy.csv")]
    return (
        f"{span([100 * float(r['kkt_share']) for r in stalls])} % of the stalls are stationary; from "
        f"{span(minima)} % of the stops a descent inside the limits ends in a true minimum"
    )


def unreachable() -> str:
    found = rows("unreachable/proofs.csv")
    proved = [r for r in found if r["verified"] == "True"]
    controls = rows("unreachable/controls.csv")
    return (
        f"{len(proved)} of {len(found)} targets proved and verified; wrongly excluded: "
        f"{sum(int(r['wrong']) for r in controls)} in {sum(int(r['wrong_n']) for r in controls)} "
        "tests of reachable ones"
    )


def bench_check() -> str:
    kills, scale = rows("bench_check/kills/kills.csv")[0], rows("bench_check/scale/scale.csv")[0]
    many = f"{int(scale['rows']):,}".replace(",", " ")
    return (
        f"killed {kills['kills']} times, {kills['different']} of {kills['rows']} rows differ; {many} rows "
        f"fit in {float(scale['memory']):.1f} GB"
    )


def stall_figure() -> str:
    stuck, solved = rows("stall_figure/stall.csv")
    return (
        f"clamping stands still {1e3 * float(stuck['position_m']):.0f} mm from the target, the "
        f"constrained step arrives in {solved['iterations']} iterations"
    )


def robot_gallery() -> str:
    return f"{len(rows('robot_gallery/robots.csv'))} bundled robots, drawn, with reach and limits"


def speed() -> str:
    return "a compiled call takes microseconds, hundreds of times less than clamped DLS in NumPy"


def browser_check() -> str:
    return "it opens offline and its controls work, in light and in dark"


INDEX: tuple[tuple[str, str, Callable[[], str], str], ...] = (
    (
        "Who solves what clamping fails on, on the lesson's 100 targets?",
        "failure_at_limits",
        failure_at_limits,
        "make study",
    ),
    (
        "Constrained or clamped, on every robot and stratum?",
        "constrained_or_clamped",
        constrained_or_clamped,
        "make studies",
    ),
    ("What does each change from clamped DLS to a box QP buy?", "baselines", baselines, ""),
    ("How should a posture be asked for?", "posture", posture, ""),
    ("Which QP solver for the step?", "qp_backends", qp_backends, ""),
    ("How do other people's solvers do at the limits?", "peers", peers, ""),
    ("How fast, and against whom?", "speed", speed, ""),
    ("Where does clamping stop, and why?", "stall_anatomy", stall_anatomy, ""),
    ("Can it be proved that a target is out of reach?", "unreachable", unreachable, ""),
    ("Does a run survive being killed, and a million rows?", "bench_check", bench_check, ""),
    ("What does an arm that stalls look like?", "stall_figure", stall_figure, ""),
    ("Does the report work in a browser?", "browser_check", browser_check, "make browser"),
    ("What do the robots look like?", "robot_gallery", robot_gallery, ""),
)


def lesson_clamped_dls() -> str:
    solved = {r["c0"]: r["c1"] for r in rows("lesson_clamped_dls/challenge.csv")}
    return (
        f"{_agreement('clamped_dls')}; none of its failures is a local minimum, and a constrained step "
        f"solves {solved['box-qp']} against {solved['clamped-dls']}"
    )


def lesson_two_link() -> str:
    line = {r["c0"]: r["c1"] for r in rows("lesson_two_link/line.csv")}
    return (
        f"{_agreement('two_link')}; along a line, starting from the last answer changes branch "
        f"{line['the last answer']} times, from random starts {line['a random start']}"
    )


def lesson_so101() -> str:
    adaptive = [r["c1"] for r in rows("lesson_so101/adaptive.csv")]
    best = max(adaptive[1:], key=lambda text: float(text.split()[0]))
    return (
        f"{_agreement('so101')}; adaptive damping does not beat the fixed one, {best} at best against "
        f"{adaptive[0]}"
    )


def lesson_six_axis() -> str:
    stalled = {r["c0"]: r["c3"] for r in rows("lesson_six_axis/far_starts.csv")}
    return (
        f"{_agreement('six_axis')}; the rotation error is in the wrong frame, and of 60 far starts "
        f"{stalled['lab: sine, body axes, differences']} stall, with projected-lm "
        f"{stalled['projected-lm (log, world axes)']}"
    )


def lesson_humanoid_foot() -> str:
    loop = {r["c0"]: r for r in rows("lesson_humanoid_foot/loop.csv")}
    return (
        f"{_agreement('humanoid_foot')}; its `step` is a gain, which is why {loop['from the crouch']['c2']} "
        "steps end 2 cm away; without the crouch the knee is driven to its limit"
    )


def _agreement(lesson: str) -> str:
    """How many printed numbers are found again, timings and what is not printed in full left out."""
    words = [r["word"] for r in rows(f"lesson_{lesson}/agreement.csv")]
    return f"{words.count('same')} of {words.count('same') + words.count('DIFFERS')} numbers found again"


LESSONS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    (
        "Inverse kinematics of a 7-joint arm by damped least squares, with failures and restarts",
        "lesson_clamped_dls",
        lesson_clamped_dls,
    ),
    (
        "Numerical inverse kinematics: a tool position by local steps, two links, eight cases",
        "lesson_two_link",
        lesson_two_link,
    ),
    ("Inverse kinematics and singularities on the SO-101", "lesson_so101", lesson_so101),
    (
        "Analytical and numerical solutions, and the singularities that break both, six joints",
        "lesson_six_axis",
        lesson_six_axis,
    ),
    (
        "Lifting a humanoid's foot by damped least squares and clamping",
        "lesson_humanoid_foot",
        lesson_humanoid_foot,
    ),
)


def table(part: str) -> str:
    """One of the two tables of studies/README.md, in Markdown."""
    if part == "studies":
        heads = ("question", "headline", "command")
        body = [
            (
                question,
                f"{headline()} ([results]({_shown(study)}))",
                f"`{command or f'python studies/{study}.py'}`, [source]({study}.py)",
            )
            for question, study, headline, command in INDEX
        ]
    else:
        heads = ("the lesson", "headline", "command")
        body = [
            (
                lesson,
                f"{headline()} ([tables](results/{study}/tables.md))",
                f"`python studies/{study}.py`, [source]({study}.py)",
            )
            for lesson, study, headline in LESSONS
        ]
    lines = [heads, ("---",) * len(heads), *body]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _shown(study: str) -> str:
    if study == "robot_gallery":
        return "../models/README.md"
    tables = f"results/{study}/tables.md"
    return tables if (RESULTS / study / "tables.md").is_file() else f"results/{study}/"
