"""The command line: parsing and printing only.

Nothing heavy is imported before a command needs it, so `optik --help` answers at once.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    import numpy as np

    from optik.problem import Problem, Target
    from optik.robot import Robot
    from optik.solution import Solution

Six = tuple[float, float, float, float, float, float]


def _meta(text: str) -> Any:
    return tyro.conf.arg(metavar=text)


def list_(what: Annotated[Literal["robots", "solvers", "problems"], tyro.conf.Positional]) -> int:
    """List what there is: robots, solvers or problem sets.

    Example: optik list solvers

    Args:
        what: robots, solvers or problems.
    """
    from rich.console import Console

    from optik.listing import problems_table, robots_table, solvers_table

    tables = {"robots": robots_table, "solvers": solvers_table, "problems": problems_table}
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(tables[what]())
    return 0


def solve(
    robot: Annotated[str, tyro.conf.Positional, _meta("ROBOT")],
    *,
    position: Annotated[tuple[float, float, float], _meta("X Y Z")],
    quaternion: Annotated[tuple[float, float, float, float] | None, _meta("W X Y Z")] = None,
    axis: Annotated[Six | None, _meta("BX BY BZ WX WY WZ")] = None,
    frame: Annotated[str | None, _meta("NAME")] = None,
    joints: Annotated[tuple[str, ...] | None, _meta("NAME...")] = None,
    solver: Annotated[str | None, _meta("SOLVER")] = None,
    start: Annotated[tuple[str, ...], _meta("START")] = ("home",),
    restarts: Annotated[int | None, _meta("INT")] = None,
    seed: int = 0,
    time_limit: Annotated[float | None, _meta("S")] = None,
    posture: bool = False,
    prove: bool = False,
    trace: bool = False,
    json: bool = False,
) -> int:
    """Solve one target, judge the answer, and say why if it fails.

    Example: optik solve arm7 --position 0.4 0.1 0.9 --solver box-qp

    Args:
        robot: a bundled name, or a path to an MJCF or URDF file (then give --frame).
        position: wanted position of the frame, x y z [m].
        quaternion: wanted orientation, w x y z.
        axis: axis of the frame, then the world axis it should point along: 0 0 1 0 0 -1 points the
            frame's z axis down.
        frame: the controlled site, body or geom; a bundled robot's own if left out.
        joints: the joints that move; all on the way to the frame, or the bundled robot's, if left
            out.
        solver: NAME[:option=value,...] or path.py:NAME, a Solver or a function; box-lm if left out.
        start: home, mid, random, or one number for each joint [rad or m].
        restarts: further starts after the given one; if left out, none with --solver and plenty
            without.
        seed: seed of a random start and of the restarts.
        time_limit: seconds for the whole solve.
        posture: stay close to the middle of the ranges as far as the target allows.
        prove: try to prove that a missed target cannot be reached.
        trace: print the error along the path.
        json: print one JSON object.
    """
    from optik.api import solve as solve_problem
    from optik.benchmark.own import as_solver
    from optik.explain import explain, to_json
    from optik.problem import Posture, Problem
    from optik.robot import Robot

    loaded = Robot.load(robot, frame=frame, joints=joints)
    problem = Problem(
        loaded,
        (_target(position, quaternion, axis),),
        q_init=_start(loaded, start, seed),
        posture=Posture() if posture else None,
    )
    options: dict[str, Any] = {} if solver is None else {"solver": as_solver(solver)[0]}
    solution = solve_problem(
        problem,
        restarts=restarts,
        seed=seed,
        time_limit=time_limit,
        trace=trace,
        prove=prove,
        **options,
    )
    if json:
        print(_json(to_json(solution)))
    else:
        print(explain(solution))
        if trace:
            _print_trace(problem, solution)
    return 0 if solution.success else 1


def generate(
    name: Annotated[str, tyro.conf.Positional, _meta("SET")], *, write: bool = False
) -> int:
    """Generate a problem set; compare it with the committed file, or write it if there is none.

    Example: optik generate arm7_reachable

    Args:
        name: the problem set; its TOML says how it is made.
        write: replace the committed file and its digest by what was generated.
    """
    from optik.generate import generate as generate_set

    print(generate_set(name, write=write))
    return 0


def run(
    *,
    problems: Annotated[tuple[str, ...], _meta("SET...")],
    solvers: Annotated[tuple[str, ...], _meta("SOLVER...")],
    out: Annotated[Path, _meta("DIR")],
    start: Literal["home", "mid"] | None = None,
    iterations: int = 200,
    time_limit: Annotated[float | None, _meta("S")] = None,
    restarts: int = 0,
    seed: int = 0,
    repeats: int = 1,
    workers: int = 1,
    scheduler: Annotated[str | None, _meta("ADDRESS")] = None,
    resume: bool = False,
    batch: bool = False,
) -> int:
    """Run solvers over problem sets and judge every answer.

    Example: optik run --problems arm7_lesson --solvers clamped-dls box-qp --out runs/first

    Args:
        problems: problem sets.
        solvers: solvers, each NAME[:option=value,...] or path.py:NAME, a Solver or a function.
        out: the run's folder.
        start: home or mid; each set's own if left out.
        iterations: steps from one start.
        time_limit: seconds for a solve, all starts together.
        restarts: further starts after the given one; box-lm shares the steps of all of them among
            starts of its own.
        seed: of the restarts.
        repeats: how often every solve is repeated.
        workers: local processes.
        scheduler: address of a Dask scheduler, tcp://host:port.
        resume: go on with an interrupted run in the same folder.
        batch: let box-lm take whole sets at once; its times are then averages.
    """
    from optik.benchmark.run import run as run_bench
    from optik.benchmark.tables import summary_table, to_terminal
    from optik.problem import Budget

    frame = run_bench(
        problems,
        solvers,
        start=start,
        budget=Budget(iterations, time_limit, restarts),
        out=out,
        seed=seed,
        repeats=repeats,
        workers=workers,
        scheduler=scheduler,
        resume=resume,
        batch=batch,
    )
    print(to_terminal(summary_table(frame)))
    print(f"rows, environment and log are in {out}")
    return 0


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, _meta("DIR...")],
    *,
    out: Path = Path("report.html"),
    figures: Annotated[Path | None, _meta("DIR")] = None,
) -> int:
    """Write one self-contained HTML page about one or more runs.

    Example: optik report runs/first --out report.html

    Args:
        runs: folders of runs.
        out: the page.
        figures: a folder for every curve as SVG and PDF.
    """
    from optik.benchmark.report import report as write_report

    print(f"wrote {write_report(list(runs), out=out, figures=figures)}")
    return 0


def compare(
    run_a: Annotated[Path, tyro.conf.Positional, _meta("DIR_A")],
    run_b: Annotated[Path, tyro.conf.Positional, _meta("DIR_B")],
) -> int:
    """Say what changed between two runs, paired by problem.

    Example: optik compare runs/before runs/after

    Args:
        run_a: folder of the first run.
        run_b: folder of the second run.
    """
    from optik.benchmark.compare import compare as compare_runs

    print(compare_runs(run_a, run_b))
    return 0


def main(args: list[str] | None = None) -> None:
    """Parses the command line, runs the command and exits with its code.

    Exit codes: 0 done (for `solve`: solved), 1 not solved, 2 wrong input.
    """
    from optik import __version__
    from optik.errors import OptikError

    if (sys.argv[1:] if args is None else args) == ["--version"]:
        print(f"optik {__version__}")
        raise SystemExit(0)
    app = tyro.extras.SubcommandApp()
    app.command(name="list")(list_)
    for command in (solve, generate, run, report, compare):
        app.command(command)
    try:
        with _listening():
            code = app.cli(
                prog="optik",
                description=(
                    "Inverse kinematics under joint limits, on MuJoCo. Exit codes: 0 done (for "
                    "solve: solved), 1 not solved, 2 wrong input. --version prints the version."
                ),
                args=args,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except OptikError as error:
        print(f"optik: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("optik: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # `optik list robots | head`
        sys.stderr.close()
        code = 0
    raise SystemExit(code)


@contextmanager
def _listening() -> Iterator[None]:
    """Lets the library's signs of life through to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("optik: %(message)s"))
    logger = logging.getLogger("optik")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _target(
    position: tuple[float, ...], quaternion: tuple[float, ...] | None, axis: Six | None
) -> Target:
    from optik.problem import Target

    pair = None if axis is None else (axis[:3], axis[3:])
    return Target(position, quaternion=quaternion, axis=pair)


def _start(robot: Robot, start: tuple[str, ...], seed: int) -> np.ndarray:
    import numpy as np

    from optik.checks import seed_number
    from optik.errors import ProblemError, unknown_name

    if start == ("home",):
        return robot.q_nominal
    if start == ("mid",):
        return robot.q_mid
    if start == ("random",):
        return robot.sample(np.random.default_rng(seed_number(seed, ProblemError)))
    try:
        values = [float(v) for v in start]
    except ValueError:
        raise unknown_name("start", " ".join(start), ("home", "mid", "random")) from None
    if len(values) != robot.n:
        raise ProblemError(
            f"--start needs home, mid, random or {robot.n} numbers, one for each of "
            f"{', '.join(robot.joint_names)}; got {len(values)}"
        )
    return np.array(values)


def _print_trace(problem: Problem, solution: Solution) -> None:
    from optik.evaluation import evaluate

    assert solution.trace is not None
    print("\nstep   position error [m]   rotation error [rad]   joints at a limit")
    for k, q in enumerate(solution.trace):
        at = evaluate(problem, q)
        limits = [
            name
            for name, value, low, high in zip(
                problem.robot.joint_names,
                q,
                problem.robot.lower,
                problem.robot.upper,
                strict=True,
            )
            if value <= low or value >= high
        ]
        print(
            f"{k:4d}   {at.position_error:18.3e}   {at.rotation_error:20.3e}   "
            f"{' '.join(limits) or '-'}"
        )


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False)
