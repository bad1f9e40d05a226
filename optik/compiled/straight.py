"""The whole step as straight-line source: kinematics, normal equations, Newton step, clipping.

For plain targets (in the world, not masked, chordal residual) of robots with few joints everything
is written out in scalars, down to the entries of H = J^T J and of its factors: no loop, no index,
and nothing goes through memory but what a step that meets a bound needs afterwards.  The same text
inside a loop over lanes is what a batch runs, in vector registers.

What the box step needs of H, a Newton step of the free variables and the gradient, is written out
here as well; the active set itself goes from one to the other in boxqp.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from optik.compiled import layout as at
from optik.compiled.fold import (
    FoldedFrame,
    Record,
    Value,
    Vector,
    Writer,
    minus,
    vector,
    walk,
    wrapped,
)
from optik.compiled.general import goal_at
from optik.compiled.normal import NormalChain

Matrix = dict[tuple[int, int], Value]


def advance_source(
    chains: Sequence[NormalChain], records: Sequence[Record], n: int, lanes: int
) -> str:
    """The kernel `advance` (optik.compiled.descent).

    Args:
        chains: one for each frame.
        records: one for each target (layout.TARGET_RECORD).
        n: number of joints.
        lanes: problems worked on at once.
    """
    out = Writer(lanes=lanes, q=at.W_NEXT * n)
    H, g = _normal_equations(out, chains, records, n)
    damping, floor, limit, fall, patience, method = (
        out.same(f"fixed[{place}]")
        for place in (
            at.F_DAMPING, at.F_DAMPING_FLOOR, at.F_STEP_LIMIT, at.F_FALL, at.F_PATIENCE,
            at.F_METHOD,
        )
    )  # fmt: skip
    mu = out.let(f"{damping} * cost + {floor}")
    for i in range(n):
        H[i, i] = out.dot((1.0, H[i, i]), (1.0, mu))
    step = _newton(out, H, g, n)
    met, bounds = [], []
    out.line("moved = 0.0")
    for i in range(n):
        low, high = out.same(f"fixed[{at.HEADER + i}]"), out.same(f"fixed[{at.HEADER + n + i}]")
        q = out.let(out.at(at.W_NEXT * n + i))
        lo, hi = out.let(f"max({low} - {q}, -{limit})"), out.let(f"min({high} - {q}, {limit})")
        d = out.let(f"min(max({step[i]!s}, {lo}), {hi})")
        bounds.append((lo, hi))
        met.append(f"({d} != {wrapped(step[i])})")
        new = out.let(f"min(max({q} + {d}, {low}), {high})")
        out.line(f"moved = max(moved, abs({new} - {q}))")
        for place, name in ((at.W_Q, q), (at.W_D, d), (at.W_NEXT, new)):
            out.line(f"{out.at(place * n + i)} = {name}")
    cut = out.let(" | ".join(met))
    lane = "0" if lanes == 1 else "lane"
    out.line(f"judge({lane}, fixed, w, cost, position, rotation, moved, {cut}, {fall}, {patience})")
    # A single lane needs its program only where a bound was met; a loop over lanes has no branch.
    indent = ""
    if lanes == 1:
        out.line(f"if {cut} or {method} != 0.0:")
        indent = "    "
    for i in range(n):
        for place, value in ((at.W_G, g[i]), (at.W_LO, bounds[i][0]), (at.W_HI, bounds[i][1])):
            out.line(f"{indent}{out.at(place * n + i)} = {value!s}")
        for j in range(i + 1):
            out.line(f"{indent}{out.at(at.W_VECTORS * n + i * n + j)} = {H[i, j]!s}")
    return out.source("def advance(fixed, w):")


def normal_equations_source(
    chains: Sequence[NormalChain], records: Sequence[Record], n: int
) -> str:
    """The kernel `normal_equations` (optik.compiled.rows), for one lane."""
    out = Writer()
    H, g = _normal_equations(out, chains, records, n)
    for i in range(n):
        out.line(f"{out.at(at.W_G * n + i)} = {g[i]!s}")
        for j in range(i + 1):
            out.line(f"{out.at(at.W_VECTORS * n + i * n + j)} = {H[i, j]!s}")
    out.line("return cost, position, rotation")
    return out.source("def normal_equations(fixed, w):")


def masked_newton_source(n: int) -> str:
    """The kernel `masked_newton` (optik.compiled.boxqp).

    A held variable's row and column become those of the identity, which costs a product each and
    no branch.
    """
    out = Writer()
    mask = [out.let(f"w[o + {at.W_FREE * n + i}]") for i in range(n)]
    H: Matrix = {
        (i, j): f"w[o + {at.W_VECTORS * n + i * n + j}]" for i in range(n) for j in range(i + 1)
    }
    H = _masked(out, H, mask, n)
    r = [out.let(f"w[o + {at.W_R * n + i}]") for i in range(n)]
    for i, value in enumerate(_newton(out, H, dict(enumerate(r)), n)):
        out.line(f"w[o + {at.W_R * n + i}] = {value!s}")
    return out.source("def masked_newton(w, o, n):")


def gradient_source(n: int) -> str:
    """The kernel `gradient` (optik.compiled.boxqp)."""
    out = Writer()
    d = [out.let(f"w[o + {at.W_D * n + i}]") for i in range(n)]
    H = {
        (i, j): out.let(f"w[o + {at.W_VECTORS * n + i * n + j}]")
        for i in range(n)
        for j in range(i + 1)
    }
    for i in range(n):
        terms = [(H[max(i, j), min(i, j)], d[j]) for j in range(n)]
        value = out.dot((-1.0, out.let(f"w[o + {at.W_G * n + i}]")), *terms)
        out.line(f"w[o + {(at.W_R + 1) * n + i}] = {value!s}")
    return out.source("def gradient(w, o, n):")


def _masked(out: Writer, H: Matrix, mask: Sequence[str], n: int) -> Matrix:
    """H with the rows and columns of held variables replaced by those of the identity."""
    masked: Matrix = {}
    for i in range(n):
        for j in range(i):
            masked[i, j] = out.let(f"{H[i, j]} * {mask[i]} * {mask[j]}")
        masked[i, i] = out.let(f"{H[i, i]} * {mask[i]} + (1.0 - {mask[i]})")
    return masked


def _newton(out: Writer, H: Matrix, g: dict[int, Value], n: int) -> list[Value]:
    """Writes the solution of H x = g by L D L^T."""
    lower: Matrix = {}
    scaled: Matrix = {}
    inverse: list[Value] = []
    for j in range(n):
        for i in range(j, n):
            terms = [(minus(lower[i, k]), scaled[j, k]) for k in range(j)]
            scaled[i, j] = out.dot((1.0, H[i, j]), *terms)
        inverse.append(out.let(f"1.0 / {wrapped(scaled[j, j])}"))
        for i in range(j + 1, n):
            lower[i, j] = out.dot((scaled[i, j], inverse[j]))
    y: list[Value] = []
    for i in range(n):
        y.append(out.dot((1.0, g[i]), *((minus(lower[i, k]), y[k]) for k in range(i))))
    x: list[Value] = [0.0] * n
    for i in range(n - 1, -1, -1):
        # What was found last comes last: the sum is a chain.
        terms = [(minus(lower[k, i]), x[k]) for k in range(n - 1, i, -1)]
        x[i] = out.dot((y[i], inverse[i]), *terms)
    return x


def _normal_equations(
    out: Writer, chains: Sequence[NormalChain], records: Sequence[Record], n: int
) -> tuple[Matrix, dict[int, Value]]:
    """Writes cost, position and rotation; returns H (lower triangle) and g."""
    many = len(records)
    blocks = (len(chains) + many) * (at.FRAME_HEAD + 6 * n)
    found = walk(out, chains, goal_at(many, n) + blocks)
    H: Matrix = {(i, j): 0.0 for i in range(n) for j in range(i + 1)}
    g: dict[int, Value] = dict.fromkeys(range(n), 0.0)
    out.line("cost, position, rotation = 0.0, 0.0, 0.0")
    for k, record in enumerate(records):
        frame, o = found[int(record[1])], goal_at(k, n)
        wp = out.let(out.at(o + at.G_POSITION_WEIGHT))
        wp2 = out.let(f"{wp} * {wp}")
        e = vector(out.let(f"{out.at(o + a)} - {wrapped(frame.position[a])}") for a in range(3))
        square = out.dot(*((x, x) for x in e))
        out.line(f"cost += 0.5 * {wp2} * {square}")
        out.line(f"position = max(position, math.sqrt({square}))")
        s: Vector = (0.0, 0.0, 0.0)
        wr2: Value = 0.0
        x: Vector = (0.0, 0.0, 0.0)
        if record[0] != at.POSITION:
            wr = out.let(out.at(o + at.G_ROTATION_WEIGHT))
            wr2 = out.let(f"{wr} * {wr}")
            if record[0] == at.POSE:
                s = _pose_turn(out, frame, o, wr2)
            else:
                x, s = _axis_turn(out, frame, o, wr2)
        weighted: dict[int, tuple[Vector, Vector]] = {}
        turning: dict[int, Vector] = {}
        for j in range(n):
            linear = frame.linear.get(j)
            if linear is None:
                continue
            angular = frame.angular[j] if record[0] != at.POSITION else (0.0, 0.0, 0.0)
            if record[0] == at.AXIS:
                along = out.dot(*zip(angular, x, strict=True))
                angular = vector(out.dot((1.0, angular[c]), (minus(along), x[c])) for c in range(3))
            turning[j] = angular
            weighted[j] = (
                vector(out.dot((wp2, linear[c])) for c in range(3)),
                vector(out.dot((wr2, angular[c])) for c in range(3)),
            )
            row_p, row_r = weighted[j]
            g[j] = out.dot((1.0, g[j]), *zip(row_p, e, strict=True), *zip(row_r, s, strict=True))
            for i in range(j + 1):
                if i in turning:
                    H[j, i] = out.dot(
                        (1.0, H[j, i]),
                        *zip(row_p, frame.linear[i], strict=True),
                        *zip(row_r, turning[i], strict=True),
                    )
    return H, g


def _pose_turn(out: Writer, frame: FoldedFrame, o: int, wr2: Value) -> Vector:
    """Writes sine times axis of the turn to the goal; adds to cost and rotation."""
    wanted = [
        vector(out.let(out.at(o + at.G_ROTATION + 3 * r + c)) for r in range(3)) for c in range(3)
    ]
    names = ("sx", "sy", "sz")
    for c, name in enumerate(names):
        a, b = (c + 1) % 3, (c + 2) % 3
        pairs: list[tuple[Value, Value]] = []
        for u, v in zip(frame.axes, wanted, strict=True):
            pairs += [(u[a], v[b]), (minus(u[b]), v[a])]
        out.line(f"{name} = 0.5 * {wrapped(out.dot(*pairs))}")
    trace = out.dot(
        *((u[c], v[c]) for u, v in zip(frame.axes, wanted, strict=True) for c in range(3))
    )
    out.line(f"cosine = 0.5 * ({trace!s} - 1.0)")
    _turn_cost(out, wr2)
    out.line("if cosine < -0.9:")
    inside = Writer(lanes=out.lanes, count=out.count)
    sums = []
    for a, b in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)):
        pairs = [(v[a], u[b]) for u, v in zip(frame.axes, wanted, strict=True)]
        if a != b:
            pairs += [(v[b], u[a]) for u, v in zip(frame.axes, wanted, strict=True)]
        sums.append(wrapped(inside.dot(*pairs)))
    sums[3:] = [f"0.5 * {x}" for x in sums[3:]]
    inside.line(f"sx, sy, sz = symmetric_axis({', '.join(sums)}, cosine, sx, sy, sz)")
    out.lines += ["    " + line for line in inside.lines]
    out.count = inside.count
    return names


def _axis_turn(out: Writer, frame: FoldedFrame, o: int, wr2: Value) -> tuple[Vector, Vector]:
    """Writes the controlled axis and its cross product with the wanted one (rows.axis_rows)."""
    b = [out.let(out.at(o + at.G_BODY_AXIS + c)) for c in range(3)]
    t = vector(out.let(out.at(o + at.G_WORLD_AXIS + c)) for c in range(3))
    x = vector(out.dot(*((frame.axes[a][c], b[a]) for a in range(3))) for c in range(3))
    names = ("sx", "sy", "sz")
    for name, value in zip(names, out.cross(x, t), strict=True):
        out.line(f"{name} = {value!s}")
    out.line(f"cosine = {out.dot(*zip(x, t, strict=True))!s}")
    _turn_cost(out, wr2)
    out.line("if cosine < -0.9:")
    out.line(f"    sx, sy, sz = opposite_axes({x[0]!s}, {x[1]!s}, {x[2]!s}, sx, sy, sz, sine, 1.0)")
    return x, names


def _turn_cost(out: Writer, wr2: Value) -> None:
    out.line("sine = math.sqrt(sx * sx + sy * sy + sz * sz)")
    out.line("turn = sine * sine / (1.0 + cosine) if cosine > 0.0 else 1.0 - cosine")
    out.line(f"cost += {wr2!s} * turn")
    out.line("rotation = max(rotation, sine if cosine > 0.0 else 2.0 - sine)")
