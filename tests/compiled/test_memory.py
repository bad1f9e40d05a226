"""Every access of the kernels' text to memory, watched: inside bounds, written before it is read.

The compiled kernels check no index.  The same text runs here as plain Python (checked_memory.py),
for every front, number of lanes and kind of target, with targets in and out of reach, so that
bounds, table rows and later starts all have their turn.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from checked_memory import DOUBLE, SINGLE, Grid, Memory, MemoryFaultError, module_of, read, write
from kernel_problems import OWN_WEIGHTS, SHAPES, Part, inside, made, tree
from random_models import random_chain

from optik.compiled import layout as at
from optik.compiled import module
from optik.compiled.core import Core, Settings, rotation_numbers, rotation_width
from optik.compiled.fronts import LANES, STRAIGHT, folded_frames, general_front
from optik.evaluation import evaluate
from optik.problem import Problem, Target
from optik.robot import Robot

SMALL, LARGE = (1, 1, 2), (3, 4, 4)


@cache
def core_for(robot: Robot, parts: tuple[Part, ...], folded: bool, **numbers: Any) -> Core:
    """A core whose kernels nobody compiles."""
    problem = made(robot, parts, robot.q_nominal, np.random.default_rng(0))
    return Core(robot, problem.shape, Settings(table_size=0, **numbers), folded=folded)


def numbers_of(core: Core, rows: int) -> Memory:
    """The solver's numbers with a start table of so many rows, its features in single precision."""
    if not rows:
        return read("fixed", core.fixed)
    robot = core.robot
    q = np.clip(robot.sample(np.random.default_rng(rows), rows), robot.lower, robot.upper)
    table = np.concatenate([q, core._targets_at(q)[0]], axis=1).T
    fixed = read("fixed", core._numbers(table))
    features = int(fixed[at.F_TABLE]) + robot.n * int(fixed[at.F_ROWS])
    fixed.state[2 * features :] = bytes([SINGLE]) * (2 * (fixed.size - features))
    return fixed


def problems_for(robot: Robot, parts: tuple[Part, ...], count: int) -> list[Problem]:
    """Problems with the same weights, every other one out of reach."""
    rng = np.random.default_rng(count)
    out = []
    for i in range(count):
        targets = []
        for t in made(robot, parts, inside(robot, rng), rng).targets:
            p = t.position + 20.0 * (i % 2)
            options = {"frame": t.frame, "relative_to": t.relative_to, "mask": t.mask}
            targets.append(Target(p, quaternion=t.quaternion, axis=t.axis, **options))
        out.append(Problem(robot, targets))
    return out


def flat(problems: list[Problem]) -> tuple[Memory, Memory, Memory]:
    """Positions, rotations and what is asked, as the kernels read them."""
    width = rotation_width(problems[0].shape)
    targets = [t for p in problems for t in p.targets]
    return (
        read("positions", np.concatenate([t.position for t in targets])),
        read("rotations", np.concatenate([rotation_numbers(t, width) for t in targets])),
        read("asked", OWN_WEIGHTS.asked(problems[0])),
    )


@cache
def kernels(core: Core, lanes: int) -> dict[str, Any]:
    return module_of(module.solve_text(core._folded(lanes) if core.folded else core._front))


def solve(
    robot: Robot, parts: tuple[Part, ...], *, folded: bool, lanes: int = 1, rows: int = 65,
    count: int = 2, first: int = 0, starts: int = 4, steps: int = 12, **numbers: Any,
) -> list[int]:  # fmt: skip
    """Solves problems in and out of reach on checked memory; returns the rows' codes."""
    core = core_for(robot, parts, folded, **numbers)
    problems = problems_for(robot, parts, count)
    rng = np.random.default_rng(3)
    q = np.full(robot.n * count, np.nan)
    codes, values = np.zeros(count, dtype=np.int64), np.full(3 * count, np.nan)
    path = np.full((steps + starts + 1 if count == 1 else 0, robot.n), np.nan)
    kernels(core, lanes)["solve_rows"](
        *flat(problems),
        read("q_init", np.concatenate([inside(robot, rng) for _ in range(count)])),
        write("q_out", q),
        write("codes", codes),
        write("values", values),
        Grid(path),
        numbers_of(core, rows),
        first,
        first + starts,
        steps,
    )
    q = q.reshape(count, robot.n)
    assert np.isfinite(q).all() and np.isfinite(values).all()
    assert ((q >= robot.lower) & (q <= robot.upper)).all()
    found = [int(code) & 15 for code in codes]
    for problem, answer, code in zip(problems, q, found, strict=True):
        assert code != at.BROKEN
        assert code != at.SOLVED or evaluate(problem, answer).solved
    return found


def test_the_memory_itself():
    w = Memory("w", np.zeros(4), state=DOUBLE)
    singles = module_of(module.forward_text(general_front(projected=False)))["singles"](w)
    assert w[3] == 0.0
    for place in (-1, 4, 1.0):
        with pytest.raises(MemoryFaultError):
            _ = w[place]
        with pytest.raises(MemoryFaultError):
            w[place] = 1.0
    singles[7] = np.float32(2.0)
    assert singles[7] == 2.0
    for place in (-1, 8, 6):
        with pytest.raises(MemoryFaultError):
            _ = singles[place]
    with pytest.raises(MemoryFaultError):
        _ = w[3]
    with pytest.raises(MemoryFaultError):
        _ = write("w", np.zeros(4))[0]
    with pytest.raises(MemoryFaultError):
        read("w", np.zeros(4))[0] = 1.0


@pytest.mark.parametrize(("folded", "lanes"), [(False, 1), (True, 1), (True, LANES)])
def test_a_workspace_one_number_short_is_noticed(monkeypatch, folded, lanes):
    robot, parts = tree(*SMALL), SHAPES["pose"]
    core = core_for(robot, parts, folded)
    text = module.solve_text(core._folded(lanes) if folded else core._front)
    size = "np.empty(distances_at(fixed) + rows + BLOCK)"
    assert text.count(size) == 1
    short = module_of(text.replace(size, size[:-1] + " - 1)"))
    monkeypatch.setitem(kernels(core, lanes), "solve_rows", short["solve_rows"])
    with pytest.raises(MemoryFaultError, match="singles of w"):
        solve(robot, parts, folded=folded, lanes=lanes)


# One lane of every front, and several where the shape allows it.
FRONTS = [
    (size, name, log, folded, lanes)
    for size, names in ((SMALL, SHAPES), (LARGE, ("pose", "pose relative masked", "four")))
    for name in names
    for log in (False, True)
    for folded, lanes in ((False, 1), (True, 1), (True, LANES))
    if lanes == 1
    or (size == SMALL and not log and not any(p.relative_to or p.mask for p in SHAPES[name]))
]


@pytest.mark.parametrize(("size", "name", "log", "folded", "lanes"), FRONTS)
def test_every_front_and_shape(size, name, log, folded, lanes):
    count = LANES + 1 if lanes > 1 else 2
    solve(tree(*size), SHAPES[name], folded=folded, lanes=lanes, count=count, log=log)


@pytest.mark.parametrize("joints", [1, 2, 10, 11, 30])
@pytest.mark.parametrize("folded", [False, True])
def test_chains_of_every_length(joints, folded):
    robot = random_chain(np.random.default_rng(joints), joints)
    for lanes in (1, LANES) if folded and joints <= STRAIGHT else (1,):
        solve(robot, (Part("pose", "tip"),), folded=folded, lanes=lanes, count=3, steps=4)


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65])
@pytest.mark.parametrize(("folded", "lanes"), [(False, 1), (True, 1), (True, LANES)])
def test_tables_of_every_size_to_their_last_row(rows, folded, lanes):
    # One step for each start, and none is passed over: every row has had its turn at the end.
    solve(
        tree(*SMALL), SHAPES["three"], folded=folded, lanes=lanes, rows=rows, starts=90, steps=90,
        start_steps=1, apart=0.0,
    )  # fmt: skip


OPTIONS: list[dict[str, Any]] = [
    {"steps": 0},
    {"steps": 1},
    {"starts": 1},
    {"first": 1},
    {"first": 40},
    {"first": 200},
    {"steps": 0, "first": 1, "starts": 0},
    {"apart": 0.0},
    {"apart": 10.0},
    {"patience": 1, "start_steps": 1},
    {"near": 3},
    {"patient": True, "starts": 1},
    {"count": 1},
    {"count": LANES},
    {"count": 2 * LANES + 1},
]
CASES = [
    (*front, options) for front in ((False, 1), (True, 1), (True, LANES)) for options in OPTIONS
]
CASES += [(folded, 1, {"projected": True}) for folded in (False, True)]  # which has one lane


@pytest.mark.parametrize(("folded", "lanes", "options"), CASES, ids=str)
def test_budgets_and_options(folded, lanes, options):
    codes = solve(tree(*SMALL), SHAPES["pose"], folded=folded, lanes=lanes, **options)
    assert len(codes) == options.get("count", 2)


@pytest.mark.parametrize("name", ["pose", "axis", "position", "three", "four"])
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_the_posture_phase(name, folded, size):
    robot = tree(*size)
    core = core_for(robot, SHAPES[name], folded)
    relax = module_of(module.relax_text(core._front))["relax"]
    rng = np.random.default_rng(1)
    q = inside(robot, rng)
    problem = made(robot, SHAPES[name], q, rng)
    rest, squares = robot.q_nominal, np.ones(robot.n)
    found, values = Memory("q", q.copy(), state=DOUBLE), write("values", np.zeros(2))
    count = relax(
        *flat([problem]), read("rest", rest), read("squares", squares), found, values,
        numbers_of(core, 5), 6,
    )  # fmt: skip
    assert count > 1 and values[1] >= 1.0
    assert ((found.numbers >= robot.lower) & (found.numbers <= robot.upper)).all()
    assert values[0] <= 0.5 * squares @ (q - rest) ** 2 + 1e-12
    assert evaluate(problem, found.numbers).solved


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("folded", [False, True])
def test_poses_and_jacobians(name, folded):
    robot = tree(*SMALL)
    core = core_for(robot, SHAPES[name], folded)
    front = general_front(projected=False)
    if folded:
        front = folded_frames(core.chains, core._records, robot.n)
    names = module_of(module.forward_text(front))
    q, many = robot.q_nominal, len(SHAPES[name])
    pose, jacobian = np.full((many, 12), np.nan), np.full((many, 6, robot.n), np.nan)
    fixed = numbers_of(core, 0)
    names["forward"](read("q", q), fixed, Grid(pose), Grid(jacobian))
    assert np.isfinite(pose).all() and np.isfinite(jacobian).all()
    assert np.isfinite(names["repeat_forward"](read("q", q), fixed, 3))
