"""Other people's solvers on targets at the joint limits, judged like ours.

    python studies/peers.py [--quick]

Every peer runs as it comes and tightened to our tolerances; those whose packages clash with ours run
in environments of their own, which are made on the first run (a few minutes and some GB under
$OPTIK_PEERS, or the user's cache folder).  The targets are drawn with one, two or three joints on a
limit; start home.  Two columns of successes: strict, and with 1e-6 rad of slack at the limits,
because some peers round limits to single precision.  Writes studies/results/peers/ (with --quick: 8
targets of one arm, without the peers that need an environment, to a temporary folder).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pandas as pd
import study_results
from rich.console import Console

import optik
from optik.api import prepared_solver
from optik.benchmark.rendering import Column, Table, to_terminal
from optik.errors import SolverError
from optik.problem_sets import ProblemSet
from optik.solvers import parse_solver

BUDGET = optik.Budget(iterations=200)
SLACK = 1e-6
BASELINE = "clamped-dls"
ARMS = ("panda", "iiwa14", "ur5e", "so101")
PER_STRATUM = 50
# Chosen on the first 150 problems of the panda, ur5e and arm7 reachable sets, except for the
# tolerance of DAQP, which was tightened after a run of this study had shown that it costs targets.
TUNED = (
    "posture_cost=0,limit_gain=1,damping=1e-6,lm_damping=0.15,orientation_cost=0.3,step_limit=0.2,"
    "primal_tolerance=1e-10"
)


@dataclass(frozen=True)
class Entry:
    """One row: a solver, and whether it restarts by itself."""

    name: str
    solver: str
    restarts: bool = False

    @property
    def in_worker(self) -> bool:
        """Whether it runs in an environment of its own."""
        return self.solver.startswith("peer")


ENTRIES = (
    Entry("clamped DLS", BASELINE),
    Entry("box QP", "box-qp:backend=mujoco"),
    Entry("box QP, error-damped, chordal", study_results.BEST_BOX_QP.format(rotation_weight=0.1)),
    Entry("mink, as documented", "mink"),
    Entry("mink, without its posture task", "mink:posture_cost=0"),
    Entry("mink, tuned", f"mink:{TUNED}"),
    Entry("Pink, as documented", "pink"),
    Entry("Pink, tuned", f"pink:{TUNED}"),
    Entry("Drake, SNOPT", "peer:peer=drake"),
    Entry("Drake, SNOPT, near the start", "peer:peer=drake,options=near=true"),
    Entry("ikpy", "peer:peer=ikpy"),
    Entry("PlaCo", "peer:peer=placo,options=regularization=1e-4"),
    Entry("PlaCo, tuned", "peer:peer=placo,options=regularization=1e-2;tuned=true"),
    Entry("RoboPlan, as it comes", "peer:peer=roboplan", True),
    Entry("RoboPlan, tightened", "peer:peer=roboplan,options=tuned=true;step=0.5"),
    Entry(
        "RoboPlan, tightened, 20 restarts",
        "peer:peer=roboplan,options=tuned=true;step=0.5;restarts=20",
        True,
    ),
    Entry("Robotics Toolbox, as it comes", "peer:peer=roboticstoolbox", True),
    Entry("Robotics Toolbox, tightened", "peer:peer=roboticstoolbox,options=tuned=true"),
    Entry(
        "Robotics Toolbox, tightened, 21 searches",
        "peer:peer=roboticstoolbox,options=tuned=true;searches=21",
        True,
    ),
    Entry("OptIK (optik-py), as it comes", "peer:peer=optik-py", True),
    Entry("OptIK (optik-py), tightened", "peer:peer=optik-py,options=tuned=true"),
    Entry(
        "OptIK (optik-py), tightened, 21 starts",
        "peer:peer=optik-py,options=tuned=true;restarts=21",
        True,
    ),
    Entry("TRAC-IK (pytracik), 5 ms as it comes", "peer:peer=pytracik", True),
    Entry(
        "TRAC-IK (pytracik), 50 ms, tightened",
        "peer:peer=pytracik,options=tuned=true;timeout=0.05",
        True,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="8 targets, results thrown away")
    quick = parser.parse_args().quick
    say = Console(stderr=True).print
    frames, tables, absent = [], [], {}
    for arm in ARMS[: 1 if quick else None]:
        sets = [
            optik.load_problem_set(f"{arm}_at_limit_{k}").first(8 if quick else PER_STRATUM)
            for k in ((1,) if quick else (1, 2, 3))
        ]
        entries = [e for e in ENTRIES if not (quick and e.in_worker)]
        say(f"{arm}: {sum(map(len, sets))} targets at the limits, {len(entries)} solvers")
        rows = run(sets, entries, absent)
        frames.append(rows)
        tables.append(table_of(arm, sets, rows, entries))
        print(to_terminal(tables[-1]))
    notes = "".join(f"\n- {name}: {why}" for name, why in absent.items())
    if notes:
        notes = "\n\nNot run, and why:" + notes
        print(notes)
    folder = study_results.write(
        "peers",
        tables,
        title="Peers at the joint limits",
        intro="Made by `python studies/peers.py`; versions and processor in environment.json, the "
        "peers' versions in studies/peers/*/requirements.txt." + notes,
        quick=quick,
        extra={"rows.csv": pd.concat(frames).to_csv(index=False)},
        solvers=[e.solver for e in ENTRIES],
        budget=BUDGET,
    )
    say(f"written to {folder}")


def run(sets: list[ProblemSet], entries: list[Entry], absent: dict[str, str]) -> pd.DataFrame:
    """Every entry on every set; one that cannot be run is noted and left out."""
    parts = []
    for entry in entries:
        robot, shape = sets[0].robot, sets[0].problem(0).shape
        try:
            prepared_solver(parse_solver(entry.solver), robot, shape, BUDGET)
            rows = optik.run(sets, [entry.solver], budget=BUDGET, start="home", title=entry.name)
        except SolverError as error:
            absent[f"{entry.name} on {robot.name}"] = str(error)
            continue
        parts.append(rows.assign(entry=entry.name))
    return pd.concat(parts, ignore_index=True)


def table_of(arm: str, sets: list[ProblemSet], rows: pd.DataFrame, entries: list[Entry]) -> Table:
    index = ["problem_set", "problem"]
    base = rows[rows.solver == BASELINE].set_index(index)
    failed = base.index[~base.solved]
    tolerance = sets[0].spec
    body = []
    for entry in entries:
        part = rows[rows.entry == entry.name].set_index(index)
        if part.empty:
            continue
        reached = (part.position_error <= tolerance.position_tolerance) & (
            part.rotation_error <= tolerance.rotation_tolerance
        )
        slack = reached & (part.limit_violation <= SLACK)
        hard = part.loc[failed]
        body.append(
            {
                "starts": "several" if entry.restarts else "one",
                "solver": entry.name,
                "strict": (int(part.solved.sum()), len(part)),
                "slack": (int(slack.sum()), len(part)),
                "hard": (int(hard.solved.sum()), len(hard)),
                "false": int(part.false_claim.sum()),
                "violation": float(part.limit_violation.max()),
                "time": float((part.solve_time / base.solve_time).median()),
            }
        )
    body.sort(key=lambda row: row["starts"])
    return Table(
        arm,
        f"{arm}: {len(base)} targets with one to three joints on a limit",
        (
            Column("starts", "starts"),
            Column("solver", "solver"),
            Column("strict", "solved", "share"),
            Column("slack", "with 1e-6 rad\nof slack", "share"),
            Column("hard", "where clamping\nfails", "share"),
            Column("false", "false\nclaims", "count"),
            Column("violation", "worst violation\n[rad]", "number"),
            Column("time", "time to\nclamped DLS", "number"),
        ),
        tuple(body),
        (
            "Start home, tolerance 1e-4 m and 1e-3 rad, at most "
            f"{BUDGET.iterations} iterations from a start where a peer lets that be set. Solvers "
            "with several starts restart by themselves, from starts of their own.",
            f"Where clamping fails: the {len(failed)} of these targets that clamped DLS does not "
            "solve.",
            "Time: median over the targets of the ratio to clamped DLS on the same target; peers "
            "in workers pay about 0.1 ms for the way through the pipe.",
        ),
        group="starts",
    )


if __name__ == "__main__":
    main()
