"""Writes a chain's kinematics and normal equations out as straight-line source.

The general kernel multiplies by every entry of every fixed transform.  Here each entry of the
running transform is either a number or the name of a variable, and a product with 0, 1 or -1 is
never written: on an arm whose axes are at right angles most of the work goes away, and what is left
has neither loops nor indices.  Frames that share their first joints share the code for them.

    normal_equations    plain targets of robots with at most `STRAIGHT` joints: everything, down to
                        the entries of H = J^T J, in scalars
    frames              every other shape: poses and Jacobians only; rows.py does the rest
    masked_newton       the solve of the joints that no bound holds, as straight-line L D L^T

The sines and cosines of all joints are taken in one loop, which runs in vector registers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from optik.compiled import boxqp, rows
from optik.compiled import layout as at
from optik.compiled.normal import NormalChain, NormalJoint

STRAIGHT = 10  # joints up to which H and its factorisation are written out

Value = float | str  # a known number, or a variable's name with or without a minus
Vector = tuple[Value, Value, Value]
Record = tuple[float, ...]  # kind, frame, base, masked, mask x 6


@dataclass
class Writer:
    """Collects lines of source and folds constants on the way."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append(text)

    def let(self, expression: str) -> str:
        """Gives an expression a name."""
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"{name} = {expression}")
        return name

    def dot(self, *pairs: tuple[Value, Value]) -> Value:
        """The sum of products, as a number, an existing name, or a new one."""
        constant, terms = 0.0, []
        for a, b in pairs:
            if isinstance(b, float):
                a, b = b, a
            if isinstance(b, float):
                assert isinstance(a, float)
                constant += a * b
            elif isinstance(a, float):
                if a != 0.0:
                    negative = (a < 0.0) != b.startswith("-")
                    name = b.lstrip("-")
                    terms.append((negative, name if abs(a) == 1.0 else f"{abs(a)!r} * {name}"))
            else:
                negative = a.startswith("-") != b.startswith("-")
                terms.append((negative, f"{a.lstrip('-')} * {b.lstrip('-')}"))
        if not terms:
            return constant
        if constant == 0.0 and len(terms) == 1 and "*" not in terms[0][1]:
            return ("-" if terms[0][0] else "") + terms[0][1]
        # A term with a plus first, where there is one.
        terms.sort(key=lambda t: t[0])
        text = "".join(f" {'-' if negative else '+'} {term}" for negative, term in terms)
        text = text[3:] if text.startswith(" + ") else text[1:2] + text[3:]
        if constant != 0.0:
            text += f" {'-' if constant < 0 else '+'} {abs(constant)!r}"
        return self.let(text)

    def cross(self, a: Vector, b: Vector) -> Vector:
        """The cross product."""
        return (
            self.dot((a[1], b[2]), (_minus(a[2]), b[1])),
            self.dot((a[2], b[0]), (_minus(a[0]), b[2])),
            self.dot((a[0], b[1]), (_minus(a[1]), b[0])),
        )

    def source(self, head: str, decorator: str = "@inner") -> str:
        """The whole function."""
        body = "\n".join("    " + line for line in self.lines)
        return f"{decorator}\n{head}\n{body}\n"


@dataclass(frozen=True)
class FoldedFrame:
    """A frame's pose and Jacobian as values.

    Attributes:
        position: shape (3).
        axes: the frame's x, y, z axes in the world.
        linear: for each entry of q, its column of the linear Jacobian.
        angular: for each entry of q, its column of the angular Jacobian.
    """

    position: Vector
    axes: tuple[Vector, Vector, Vector]
    linear: dict[int, Vector]
    angular: dict[int, Vector]


def folded_front(
    chains: Sequence[NormalChain], records: Sequence[Record], n: int, *, log: bool
) -> str:
    """The front of a folded module that solves (optik.compiled.module).

    Args:
        chains: one for each frame.
        records: one for each target.
        n: number of joints.
        log: whether the rotation residual is the logarithm.
    """
    plain = n <= STRAIGHT and not log and all(r[2] < 0.0 and r[3] == 0.0 for r in records)
    parts = [_sizes(chains, records, n)]
    if plain:
        parts += [_source(rows.long_axis), _source(rows.opposite_axes)]
        parts.append(_normal_equations(chains, records, n))
    else:
        parts.append(_frames(chains, len(records), n))
        parts += [_source(kernel) for kernel in ROWS]
        parts.append(_source(rows.normal_equations))
    parts += [f"@inner\ndef fixed_size(n):\n    return {n}\n", _masked_newton(n)]
    return "\n\n".join(parts)


def folded_frames(chains: Sequence[NormalChain], records: Sequence[Record], n: int) -> str:
    """The front of a folded module that only gives poses and Jacobians."""
    parts = [_sizes(chains, records, n), _frames(chains, len(records), n)]
    parts.append(_source(rows.block_of))
    return "\n\n".join(parts)


ROWS = (
    rows.turn_between,
    rows.long_axis,
    rows.opposite_axes,
    rows.pose_rows,
    rows.axis_rows,
    rows.block_of,
)


def _sizes(chains: Sequence[NormalChain], records: Sequence[Record], n: int) -> str:
    padded = trig_count(chains)
    values = {
        "size": n,
        "targets": len(records),
        "frame_count": len(chains),
        "trig_size": 3 * padded,
    }
    parts = [f"@inner\ndef {name}(fixed):\n    return {value}\n" for name, value in values.items()]
    parts.append(
        "@inner\ndef target_field(fixed, k, field):\n"
        f"    return int(fixed[{at.HEADER + 5 * n} + {at.TARGET_RECORD} * k + field])\n"
    )
    return "\n\n".join(parts)


def trig_count(chains: Sequence[NormalChain]) -> int:
    """Joints of different value, rounded up to a multiple of 4: what the sine loop runs over."""
    return -(-len(_distinct(chains)[0]) // 4) * 4


def _distinct(chains: Sequence[NormalChain]) -> tuple[list[NormalJoint], dict[int, int]]:
    """Joints of different value, and the number of each joint (by identity) among them."""
    keys: dict[tuple[object, ...], int] = {}
    joints: list[NormalJoint] = []
    number: dict[int, int] = {}
    for chain in chains:
        for joint in chain.joints:
            key = _value_key(joint)
            if key not in keys:
                keys[key] = len(joints)
                joints.append(joint)
            number[id(joint)] = keys[key]
    return joints, number


def _value_key(joint: NormalJoint) -> tuple[object, ...]:
    return (joint.hinge, joint.index, joint.shift, joint.reference, joint.polynomial)


def _joint_values(
    out: Writer, chains: Sequence[NormalChain], begin: int
) -> dict[int, tuple[Value, Value, Value]]:
    """Writes every joint's value; returns (sine or value, cosine, slope) by identity."""
    joints, number = _distinct(chains)
    padded = trig_count(chains)
    slopes: list[Value] = []
    for i, joint in enumerate(joints):
        if joint.direct:
            constant = joint.shift - joint.reference
            slopes.append(1.0)
            text = f"q[{joint.index}]" + (f" + {constant!r}" if constant else "")
        else:
            x = out.let(f"q[{joint.index}] - {joint.reference!r}")
            value: Value = joint.polynomial[4]
            slope: Value = 0.0
            for c in reversed(joint.polynomial[:4]):
                slope = out.dot((slope, x), (1.0, value))
                value = out.dot((value, x), (1.0, c))
            slopes.append(slope)
            shifted = out.dot((1.0, value), (1.0, joint.shift))
            text = str(shifted)
        out.line(f"w[{begin + i}] = {text}")
    for i in range(len(joints), padded):
        out.line(f"w[{begin + i}] = 0.0")
    if any(j.hinge for j in joints):
        # A trip count that the compiler does not know keeps the loop, and vectors, alive.
        out.line(f"for i in range(int(fixed[{at.F_TRIG}])):")
        out.line(
            f"    w[{begin + padded} + i], w[{begin + 2 * padded} + i] = sincos(w[{begin} + i])"
        )
    named: list[tuple[Value, Value, Value]] = []
    for i, joint in enumerate(joints):
        if joint.hinge:
            s = out.let(f"w[{begin + padded + i}]")
            named.append((s, out.let(f"w[{begin + 2 * padded + i}]"), slopes[i]))
        else:
            named.append((out.let(f"w[{begin + i}]"), 0.0, slopes[i]))
    return {identity: named[k] for identity, k in number.items()}


def _walk(out: Writer, chains: Sequence[NormalChain], begin: int) -> list[FoldedFrame]:
    """Writes the kinematics of every chain; common first joints are written once."""
    values = _joint_values(out, chains, begin)
    known: dict[tuple[object, ...], tuple[Vector, Vector, Vector, Vector, Vector, Vector]] = {}
    done = []
    for chain in chains:
        p: Vector = (0.0, 0.0, 0.0)
        X: Vector = (1.0, 0.0, 0.0)
        Y: Vector = (0.0, 1.0, 0.0)
        Z: Vector = (0.0, 0.0, 1.0)
        passed: list[tuple[NormalJoint, Vector, Vector]] = []
        key: tuple[object, ...] = ()
        for joint in chain.joints:
            key = (*key, _value_key(joint), joint.offset.tobytes(), joint.rotation.tobytes())
            if key in known:
                p, X, Y, Z, origin, axis = known[key]
                passed.append((joint, origin, axis))
                continue
            p = _moved(out, p, (X, Y, Z), [float(t) for t in joint.offset])
            X, Y, Z = _turned(out, (X, Y, Z), joint.rotation.tolist())
            origin, axis = p, Z
            s, c, _ = values[id(joint)]
            if joint.hinge:
                X, Y = (
                    _vector(out.dot((c, X[k]), (s, Y[k])) for k in range(3)),
                    _vector(out.dot((c, Y[k]), (_minus(s), X[k])) for k in range(3)),
                )
            else:
                p = _vector(out.dot((1.0, p[k]), (s, Z[k])) for k in range(3))
            known[key] = (p, X, Y, Z, origin, axis)
            passed.append((joint, origin, axis))
        p = _moved(out, p, (X, Y, Z), [float(t) for t in chain.tool_offset])
        axes = _turned(out, (X, Y, Z), chain.tool_rotation.tolist())
        linear: dict[int, Vector] = {}
        angular: dict[int, Vector] = {}
        for joint, origin, axis in passed:
            slope = values[id(joint)][2]
            if joint.hinge:
                arm = _vector(out.dot((1.0, p[k]), (-1.0, origin[k])) for k in range(3))
                column = out.cross(axis, arm)
                turning: Vector = axis
            else:
                column, turning = axis, (0.0, 0.0, 0.0)
            for store, vector in ((linear, column), (angular, turning)):
                old = store.get(joint.index, (0.0, 0.0, 0.0))
                store[joint.index] = _vector(
                    out.dot((1.0, old[k]), (slope, vector[k])) for k in range(3)
                )
        done.append(FoldedFrame(p, axes, linear, angular))
    return done


def _frames(chains: Sequence[NormalChain], many: int, n: int) -> str:
    out = Writer()
    stride = at.FRAME_HEAD + 6 * n
    found = _walk(out, chains, (len(chains) + many) * stride)
    for f, frame in enumerate(found):
        begin = f * stride
        for k in range(3):
            out.line(f"w[{begin + k}] = {frame.position[k]!s}")
            for a in range(3):
                out.line(f"w[{begin + 3 + 3 * k + a}] = {frame.axes[a][k]!s}")
        for j in range(n):
            for part, block in ((frame.linear, 0), (frame.angular, 3)):
                vector = part.get(j, (0.0, 0.0, 0.0))
                for k in range(3):
                    place = begin + at.FRAME_HEAD + (block + k) * n + j
                    out.line(f"w[{place}] = {vector[k]!s}")
    return out.source("def frames(q, fixed, w):")


def _normal_equations(chains: Sequence[NormalChain], records: Sequence[Record], n: int) -> str:
    out = Writer()
    stride = at.FRAME_HEAD + 6 * n
    found = _walk(out, chains, (len(chains) + len(records)) * stride)
    H: dict[tuple[int, int], Value] = {(i, j): 0.0 for i in range(n) for j in range(i + 1)}
    g: dict[int, Value] = dict.fromkeys(range(n), 0.0)
    out.line("cost, position, rotation = 0.0, 0.0, 0.0")
    for k, record in enumerate(records):
        frame, o = found[int(record[1])], at.GOAL * k
        wp = out.let(f"goal[{o + at.G_POSITION_WEIGHT}]")
        wp2 = out.let(f"{wp} * {wp}")
        e = _vector(out.let(f"goal[{o + a}] - {_wrapped(frame.position[a])}") for a in range(3))
        square = out.dot(*((x, x) for x in e))
        out.line(f"cost += 0.5 * {wp2} * {square}")
        out.line(f"position = max(position, math.sqrt({square}))")
        s: Vector = (0.0, 0.0, 0.0)
        wr2: Value = 0.0
        x: Vector = (0.0, 0.0, 0.0)
        if record[0] != at.POSITION:
            wr = out.let(f"goal[{o + at.G_ROTATION_WEIGHT}]")
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
                angular = _vector(
                    out.dot((1.0, angular[c]), (_minus(along), x[c])) for c in range(3)
                )
            turning[j] = angular
            weighted[j] = (
                _vector(out.dot((wp2, linear[c])) for c in range(3)),
                _vector(out.dot((wr2, angular[c])) for c in range(3)),
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
    for i in range(n):
        out.line(f"g[{i}] = {g[i]!s}")
        for j in range(i + 1):
            out.line(f"H[{i * n + j}] = {H[i, j]!s}")
    out.line("return cost, position, rotation")
    return out.source("def normal_equations(q, goal, fixed, w, H, g):")


def _pose_turn(out: Writer, frame: FoldedFrame, o: int, wr2: Value) -> Vector:
    """Writes sine times axis of the turn to the goal; adds to cost and rotation."""
    wanted = [
        _vector(out.let(f"goal[{o + at.G_ROTATION + 3 * r + c}]") for r in range(3))
        for c in range(3)
    ]
    names = ("sx", "sy", "sz")
    for c, name in enumerate(names):
        a, b = (c + 1) % 3, (c + 2) % 3
        pairs: list[tuple[Value, Value]] = []
        for u, v in zip(frame.axes, wanted, strict=True):
            pairs += [(u[a], v[b]), (_minus(u[b]), v[a])]
        out.line(f"{name} = 0.5 * {_wrapped(out.dot(*pairs))}")
    trace = out.dot(
        *((u[c], v[c]) for u, v in zip(frame.axes, wanted, strict=True) for c in range(3))
    )
    out.line(f"cosine = 0.5 * ({trace!s} - 1.0)")
    _turn_cost(out, wr2)
    out.line("if cosine < -0.9:")
    for a in range(3):
        for r in range(3):
            out.line(f"    w[{3 + 3 * r + a}] = {frame.axes[a][r]!s}")
    out.line(f"    sx, sy, sz = long_axis(w, 0, goal, {o}, sx, sy, sz, cosine)")
    return names


def _axis_turn(out: Writer, frame: FoldedFrame, o: int, wr2: Value) -> tuple[Vector, Vector]:
    """Writes the controlled axis and its cross product with the wanted one (rows.axis_rows)."""
    b = [out.let(f"goal[{o + at.G_BODY_AXIS + c}]") for c in range(3)]
    t = _vector(out.let(f"goal[{o + at.G_WORLD_AXIS + c}]") for c in range(3))
    x = _vector(out.dot(*((frame.axes[a][c], b[a]) for a in range(3))) for c in range(3))
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


def _masked_newton(n: int) -> str:
    """Straight-line L D L^T for small n; the loop of boxqp for larger ones.

    A held variable's row and column become those of the identity, which costs a product each and
    no branch.
    """
    if n > STRAIGHT:
        return _source(boxqp.masked_newton)
    out = Writer()
    lower: dict[tuple[int, int], str] = {}
    scaled: dict[tuple[int, int], str] = {}
    inverse: list[str] = []
    mask = [out.let(f"free[{i}]") for i in range(n)]
    for j in range(n):
        for i in range(j, n):
            text = f"H[{i * n + j}] * {mask[i]}"
            text += f" + (1.0 - {mask[i]})" if i == j else f" * {mask[j]}"
            for k in range(j):
                text += f" - {lower[i, k]} * {scaled[j, k]}"
            scaled[i, j] = out.let(text)
        inverse.append(out.let(f"1.0 / {scaled[j, j]}"))
        for i in range(j + 1, n):
            lower[i, j] = out.let(f"{scaled[i, j]} * {inverse[j]}")
    y: list[str] = []
    for i in range(n):
        text = f"x[{i}]" + "".join(f" - {lower[i, k]} * {y[k]}" for k in range(i))
        y.append(out.let(text))
    solution: dict[int, str] = {}
    for i in range(n - 1, -1, -1):
        text = f"{y[i]} * {inverse[i]}"
        text += "".join(f" - {lower[k, i]} * {solution[k]}" for k in range(i + 1, n))
        solution[i] = out.let(text)
        out.line(f"x[{i}] = {solution[i]}")
    return out.source("def masked_newton(H, x, L, free, n):")


def _moved(
    out: Writer, p: Vector, axes: tuple[Vector, Vector, Vector], offset: Sequence[float]
) -> Vector:
    return _vector(
        out.dot((1.0, p[k]), *((axes[a][k], offset[a]) for a in range(3))) for k in range(3)
    )


def _turned(
    out: Writer, axes: tuple[Vector, Vector, Vector], rotation: Sequence[Sequence[float]]
) -> tuple[Vector, Vector, Vector]:
    x, y, z = (
        _vector(out.dot(*((axes[a][k], rotation[a][b]) for a in range(3))) for k in range(3))
        for b in range(3)
    )
    return x, y, z


def _vector(values: Iterable[Value]) -> Vector:
    x, y, z = values
    return x, y, z


def _minus(value: Value) -> Value:
    if isinstance(value, float):
        return -value
    return value[1:] if value.startswith("-") else "-" + value


def _wrapped(value: Value) -> str:
    return f"({value!s})" if str(value).startswith("-") else str(value)


def _source(kernel: object) -> str:
    return "@inner\n" + inspect.getsource(kernel)  # type: ignore[arg-type]
