"""Writes a chain's kinematics and normal equations out as straight-line source.

The general kernel multiplies by every entry of every fixed transform.  Here each entry of the
running transform is either a number or the name of a variable, and a product with 0, 1 or -1 is
never written: on an arm whose axes are at right angles most of the work goes away, and what is left
has neither loops nor indices.  Frames that share their first joints share the code for them.

straight.py goes on from here to the whole step, fronts.py puts modules together.

For one problem the sines and cosines of all joints are taken in one loop, which runs in vector
registers; for several, everything does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from optik.compiled import layout as at
from optik.compiled.general import goal_at
from optik.compiled.normal import NormalChain, NormalJoint

Value = float | str  # a known number, or a variable's name with or without a minus
Vector = tuple[Value, Value, Value]
Record = tuple[float, ...]  # a target's numbers, as layout.TARGET_RECORD says


@dataclass
class Writer:
    """Collects lines of source and folds constants on the way.

    Attributes:
        lanes: how many problems the source works on at once.
        before: lines before the loop over the lanes.
        lines: lines inside it.
        count: names given so far.
        q: place in the first part of `w` where the configuration is read.
    """

    lanes: int = 1
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    count: int = 0
    q: int = 0

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append(text)

    def let(self, expression: str) -> str:
        """Gives an expression a name."""
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"{name} = {expression}")
        return name

    def at(self, place: int) -> str:
        """An entry of the first part of `w`: this lane's, where there are several."""
        return f"w[{place}]" if self.lanes == 1 else f"w[{self.lanes * place} + lane]"

    def same(self, expression: str) -> str:
        """Gives a name to what is the same in all lanes."""
        self.count += 1
        self.before.append(f"c{self.count} = {expression}")
        return f"c{self.count}"

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
            self.dot((a[1], b[2]), (minus(a[2]), b[1])),
            self.dot((a[2], b[0]), (minus(a[0]), b[2])),
            self.dot((a[0], b[1]), (minus(a[1]), b[0])),
        )

    def source(self, head: str, *, loop: bool = True) -> str:
        """The whole function, with the loop over the lanes unless it is for one of them."""
        body = [*self.before, *self.lines]
        if self.lanes > 1 and loop:
            inside = ["    " + line for line in self.lines]
            body = [*self.before, f"for lane in range({self.lanes}):", *inside]
        text = "\n".join("    " + line for line in body)
        return f"@inner\n{head}\n{text}\n"


@dataclass(frozen=True)
class FoldedFrame:
    """A frame's pose and Jacobian as values.

    Attributes:
        position: in the world [m].
        axes: the frame's x, y, z axes in the world.
        linear: for each entry of q, its column of the linear Jacobian.
        angular: for each entry of q, its column of the angular Jacobian.
    """

    position: Vector
    axes: tuple[Vector, Vector, Vector]
    linear: dict[int, Vector]
    angular: dict[int, Vector]


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
    """Writes every joint's value; returns (sine or value, cosine, slope) by identity.

    For a single lane the sines go by way of `w`, from `begin` on.
    """
    joints, number = _distinct(chains)
    padded = trig_count(chains)
    slopes: list[Value] = []
    values: list[str] = []
    for joint in joints:
        if joint.direct:
            constant = joint.shift - joint.reference
            slopes.append(1.0)
            text = out.at(out.q + joint.index) + (f" + {constant!r}" if constant else "")
        else:
            x = out.let(f"{out.at(out.q + joint.index)} - {joint.reference!r}")
            value: Value = joint.polynomial[4]
            slope: Value = 0.0
            for coefficient in reversed(joint.polynomial[:4]):
                slope = out.dot((slope, x), (1.0, value))
                value = out.dot((value, x), (1.0, coefficient))
            slopes.append(slope)
            shifted = out.dot((1.0, value), (1.0, joint.shift))
            text = str(shifted)
        values.append(text)
    named: list[tuple[Value, Value, Value]] = []
    if out.lanes > 1:
        for joint, text, slope in zip(joints, values, slopes, strict=True):
            if joint.hinge:
                out.count += 1
                s, c = f"s{out.count}", f"c{out.count}"
                out.line(f"{s}, {c} = sincos({text})")
                named.append((s, c, slope))
            else:
                named.append((out.let(text), 0.0, slope))
        return {identity: named[k] for identity, k in number.items()}
    for i in range(padded):
        out.line(f"w[{begin + i}] = {values[i] if i < len(joints) else 0.0}")
    if any(j.hinge for j in joints):
        # A trip count that the compiler does not know keeps the loop, and vectors, alive.
        out.line(f"for i in range(int(fixed[{at.F_TRIG}])):")
        out.line(
            f"    w[{begin + padded} + i], w[{begin + 2 * padded} + i] = sincos(w[{begin} + i])"
        )
    for i, joint in enumerate(joints):
        if joint.hinge:
            s = out.let(f"w[{begin + padded + i}]")
            named.append((s, out.let(f"w[{begin + 2 * padded + i}]"), slopes[i]))
        else:
            named.append((out.let(f"w[{begin + i}]"), 0.0, slopes[i]))
    return {identity: named[k] for identity, k in number.items()}


def walk(out: Writer, chains: Sequence[NormalChain], begin: int) -> list[FoldedFrame]:
    """Writes the kinematics of every chain; common first joints are written once.

    Args:
        out: what collects the source.
        chains: one for each frame.
        begin: where the sines stand in `w`, for one lane.
    """
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
                    vector(out.dot((c, X[k]), (s, Y[k])) for k in range(3)),
                    vector(out.dot((c, Y[k]), (minus(s), X[k])) for k in range(3)),
                )
            else:
                p = vector(out.dot((1.0, p[k]), (s, Z[k])) for k in range(3))
            known[key] = (p, X, Y, Z, origin, axis)
            passed.append((joint, origin, axis))
        p = _moved(out, p, (X, Y, Z), [float(t) for t in chain.tool_offset])
        axes = _turned(out, (X, Y, Z), chain.tool_rotation.tolist())
        linear: dict[int, Vector] = {}
        angular: dict[int, Vector] = {}
        for joint, origin, axis in passed:
            slope = values[id(joint)][2]
            if joint.hinge:
                arm = vector(out.dot((1.0, p[k]), (-1.0, origin[k])) for k in range(3))
                column = out.cross(axis, arm)
                turning: Vector = axis
            else:
                column, turning = axis, (0.0, 0.0, 0.0)
            for store, part in ((linear, column), (angular, turning)):
                old = store.get(joint.index, (0.0, 0.0, 0.0))
                store[joint.index] = vector(
                    out.dot((1.0, old[k]), (slope, part[k])) for k in range(3)
                )
        done.append(FoldedFrame(p, axes, linear, angular))
    return done


def frames_source(chains: Sequence[NormalChain], many: int, n: int) -> str:
    """The kernel `frames`, for one lane and `many` targets."""
    out = Writer()
    stride = at.FRAME_HEAD + 6 * n
    first = goal_at(many, n)
    found = walk(out, chains, first + (len(chains) + many) * stride)
    for f, frame in enumerate(found):
        begin = first + f * stride
        for k in range(3):
            out.line(f"w[{begin + k}] = {frame.position[k]!s}")
            for a in range(3):
                out.line(f"w[{begin + 3 + 3 * k + a}] = {frame.axes[a][k]!s}")
        for j in range(n):
            for part, block in ((frame.linear, 0), (frame.angular, 3)):
                column = part.get(j, (0.0, 0.0, 0.0))
                for k in range(3):
                    place = begin + at.FRAME_HEAD + (block + k) * n + j
                    out.line(f"w[{place}] = {column[k]!s}")
    return out.source("def frames(fixed, w):")


def _moved(
    out: Writer, p: Vector, axes: tuple[Vector, Vector, Vector], offset: Sequence[float]
) -> Vector:
    return vector(
        out.dot((1.0, p[k]), *((axes[a][k], offset[a]) for a in range(3))) for k in range(3)
    )


def _turned(
    out: Writer, axes: tuple[Vector, Vector, Vector], rotation: Sequence[Sequence[float]]
) -> tuple[Vector, Vector, Vector]:
    x, y, z = (
        vector(out.dot(*((axes[a][k], rotation[a][b]) for a in range(3))) for k in range(3))
        for b in range(3)
    )
    return x, y, z


def vector(values: Iterable[Value]) -> Vector:
    """Three values."""
    x, y, z = values
    return x, y, z


def minus(value: Value) -> Value:
    """The value with the other sign."""
    if isinstance(value, float):
        return -value
    return value[1:] if value.startswith("-") else "-" + value


def wrapped(value: Value) -> str:
    """The value as a factor or after a minus."""
    return f"({value!s})" if str(value).startswith("-") else str(value)
