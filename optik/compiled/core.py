"""A compiled solver for one robot and one problem shape: its numbers, its module, its start table.

The general module serves every chain at once; the folded one has the chain's constants written into
its source and is compiled for that chain.  Both go through the same starts and steps, so that they
differ only in rounding.  A `Core` holds no state that a solve changes: threads may share it, and
each row of a batch gives the same answer whatever the number of threads.
"""

from __future__ import annotations

import hashlib
import io
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optik.chain import chain_to
from optik.compiled import layout as at
from optik.compiled import module
from optik.compiled.fold import trig_count
from optik.compiled.fronts import LANES, folded_frames, folded_front, general_front, is_plain
from optik.compiled.normal import NormalChain, normal_form
from optik.kinematics import Frame
from optik.pose import Array, frozen, quaternion_from_matrix
from optik.problem import Shape, Target
from optik.robot import Robot

KINDS = {"position": at.POSITION, "axis": at.AXIS, "pose": at.POSE}
FEATURES = {"position": 4, "axis": 13, "pose": 8}  # of a table row, for each kind of target
ROTATION_NUMBERS = {"position": 0, "axis": 6, "pose": 4}
_TABLE_SOLVES = 12  # solves for each row of the table, of which the best-centred one is kept
_TABLE_SEED = 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers of the method: those of `optik.solvers.box_lm.BoxLM`, which sets them, and more.

    Attributes:
        damping: as in `BoxLM`; so are `damping_floor`, `step_limit`, `fall`, `patience`,
            `start_steps`, `table_size`, `apart` and `seed`.
        near: table rows that are tried before the middle of the ranges and random starts.
        projected: whether steps are those of the two-metric projection.
        log: whether the rotation residual is the logarithm.
        patient: whether there is only the given start, which is never given up while it moves.
        table_weight: of rotation in the distance to a table row, and while it is built [m/rad].
    """

    damping: float = 0.4
    damping_floor: float = 1e-6
    step_limit: float = 0.8
    fall: float = 0.7
    patience: int = 2
    start_steps: int = 25
    table_size: int = 1000
    near: int = 50
    apart: float = 0.15
    seed: int = 0
    projected: bool = False
    log: bool = False
    patient: bool = False
    table_weight: float = 0.2


class Core:
    """The compiled solver for one robot and one problem shape; shared by threads.

    Attributes:
        robot: the robot.
        shape: the structure of the problems.
        settings: the numbers of the method.
        folded: whether the chain's constants are part of the code.
        chains: in normal form, one for each frame that the targets name.
        fixed: everything that the kernels read, start table included (optik.compiled.layout).
    """

    def __init__(self, robot: Robot, shape: Shape, settings: Settings, *, folded: bool) -> None:
        """Compiles, or loads from the cache, the kernels and the start table.

        Args:
            robot: the robot.
            shape: the structure of the problems.
            settings: the numbers of the method.
            folded: write the chain's constants into the code; compiled once for each chain.
        """
        self.robot = robot
        self.shape = shape
        self.settings = settings
        self.folded = folded
        self._frames, self._records = _plan(shape)
        self.chains = tuple(normal_form(chain_to(robot, f)) for f in self._frames)
        self._name = robot.name if folded else "general"
        self._no_trace = np.empty((0, robot.n))
        self.fixed = self._numbers(None)
        if settings.table_size and not settings.patient:
            self.fixed = self._numbers(self._table())

    @property
    def forward_kernels(self) -> Any:
        """The module with `forward` and `repeat_forward`; compiled when first asked for."""
        if self.folded:
            front = folded_frames(self.chains, self._records, self.robot.n)
        else:
            front = general_front(projected=self.settings.projected)
        return module.load(_identifier(self._name), module.forward_text(front))

    def forward(self, q: Array) -> tuple[Array, Array]:
        """Pose (targets, 12) and Jacobian (targets, 6, n) of the targets' frames at q, (n,)."""
        pose = np.empty((len(self._records), at.FRAME_HEAD))
        jacobian = np.empty((len(self._records), 6, self.robot.n))
        self.forward_kernels.forward(np.ascontiguousarray(q), self.fixed, pose, jacobian)
        return pose, jacobian

    def solve_rows(
        self,
        positions: Array,
        rotations: Array,
        asked: Array,
        q_init: Array,
        q_out: Array,
        codes: NDArray[np.int64],
        values: Array,
        *,
        first: int = 0,
        last: int = 1 << 30,
        steps: int = 200,
        trace: Array | None = None,
        abreast: bool = False,
    ) -> None:
        """Solves rows of problems; see `optik.compiled.entries.solve_rows` for the arrays.

        With `abreast` several rows are worked on at once where the shape allows it, in a module of
        its own, whose answers may differ from the other's in rounding.
        """
        kernel = self.batch_kernel if abreast else self.kernel
        kernel(
            positions,
            rotations,
            asked,
            q_init,
            q_out,
            codes,
            values,
            self._no_trace if trace is None else trace,
            self.fixed,
            first,
            last,
            steps,
        )

    @cached_property
    def kernel(self) -> Any:
        """The compiled `solve_rows`; compiled, or loaded from the cache, when first asked for."""
        return module.load(_identifier(self._name), self._text).solve_rows

    @cached_property
    def batch_kernel(self) -> Any:
        """The same for several rows at once; the plain kernel where the shape does not allow it."""
        plain = is_plain(self._records, self.robot.n, log=self.settings.log)
        if not (self.folded and plain) or self.settings.projected:
            return self.kernel
        text = module.solve_text(self._folded(LANES))
        return module.load(f"{_identifier(self._name)}_batch", text).solve_rows

    @cached_property
    def relax_kernel(self) -> Any:
        """The compiled posture phase (optik.compiled.posture)."""
        return module.load(_identifier(self._name), module.relax_text(self._front)).relax

    @cached_property
    def _text(self) -> str:
        return module.solve_text(self._front)

    @cached_property
    def _front(self) -> str:
        if not self.folded:
            return general_front(projected=self.settings.projected)
        return self._folded(1)

    def _folded(self, lanes: int) -> str:
        return folded_front(
            self.chains,
            self._records,
            self.robot.n,
            log=self.settings.log,
            projected=self.settings.projected,
            lanes=lanes,
        )

    def _numbers(self, table: Array | None) -> Array:
        robot, settings, n = self.robot, self.settings, self.robot.n
        header = np.zeros(at.HEADER)
        stride = _golden_strides(n)
        chains = self._chain_numbers(at.HEADER + 5 * n)
        rows = 0 if table is None else -(-table.shape[1] // at.BLOCK) * at.BLOCK
        header[at.F_SIZE] = n
        header[at.F_TARGETS] = len(self._records)
        header[at.F_FRAMES] = len(self._frames)
        header[at.F_CHAIN] = at.HEADER + 5 * n
        header[at.F_TABLE] = at.HEADER + 5 * n + len(chains)
        header[at.F_ROWS] = rows
        header[at.F_BLOCK] = at.BLOCK
        header[at.F_DAMPING] = settings.damping
        header[at.F_DAMPING_FLOOR] = settings.damping_floor
        header[at.F_STEP_LIMIT] = settings.step_limit
        header[at.F_FALL] = settings.fall
        # The only start is never given up while its configuration changes.
        header[at.F_PATIENCE] = np.inf if settings.patient else settings.patience
        header[at.F_START_STEPS] = np.inf if settings.patient else settings.start_steps
        header[at.F_NEAR] = settings.near if table is None else min(settings.near, table.shape[1])
        header[at.F_APART] = settings.apart**2
        header[at.F_SEED] = (settings.seed * 0.6180339887498949) % 1.0
        header[at.F_TRIG] = trig_count(self.chains)
        # The module holds one kind of box step; the projected one is no correction but every step.
        header[at.F_METHOD] = settings.projected
        header[at.F_LOG] = settings.log
        header[at.F_TABLE_WEIGHT] = settings.table_weight**2
        parts = [header, robot.lower, robot.upper, robot.sampling_lower, robot.sampling_upper]
        parts += [stride, chains]
        if table is not None:
            parts += _packed(table, self._features, n, rows)
        return frozen(np.concatenate(parts))

    def _chain_numbers(self, begin: int) -> Array:
        """The plan of targets and frames and, for the general module, every joint's numbers."""
        targets = np.zeros((len(self._records), at.TARGET_RECORD))
        for row, record in zip(targets, self._records, strict=True):
            row[:] = record
        if self.folded:
            return targets.reshape(-1)
        heads, blocks = [], []
        offset = begin + targets.size + at.FRAME_RECORD * len(self._frames)
        for chain in self.chains:
            numbers = _joint_numbers(chain)
            heads += [offset, len(chain.joints)]
            blocks.append(numbers)
            offset += len(numbers)
        return np.concatenate([targets.reshape(-1), np.array(heads, dtype=np.float64), *blocks])

    @property
    def _features(self) -> tuple[int, ...]:
        """Numbers that a table row has for each target."""
        return tuple(FEATURES[t.kind] for t in self.shape.targets)

    def _table(self) -> Array:
        """The start table, shape (n + features, rows): from the cache, or built and kept."""
        key = hashlib.sha256(self._text.encode())
        key.update(self.fixed.tobytes())
        key.update(repr((_TABLE_SOLVES, _TABLE_SEED, self.settings.table_size)).encode())
        name = f"optik_{_identifier(self.robot.name)}_{key.hexdigest()[:32]}.npy"
        path = module.cache_folder() / name
        rows = self.robot.n + sum(self._features)
        try:
            table = np.load(path, allow_pickle=False)
            if table.shape[0] == rows and table.ndim == 2 and np.isfinite(table).all():
                return table
        except (OSError, ValueError, EOFError):
            pass
        table = self._build_table()
        content = io.BytesIO()
        np.save(content, table)
        module.keep(path, content.getvalue())
        return table

    def _build_table(self) -> Array:
        robot, n, many = self.robot, self.robot.n, len(self._records)
        rng = np.random.default_rng(_TABLE_SEED)
        size, tries = self.settings.table_size, _TABLE_SOLVES
        q = np.clip(robot.sample(rng, size), robot.lower, robot.upper)
        features, positions, rotations = self._targets_at(q)
        low, high = robot.sampling_lower, robot.sampling_upper
        starts = low + (high - low) * rng.uniform(0.1, 0.9, (size, tries, n))
        q_out = np.empty((size, tries, n))
        codes = np.empty((size, tries), dtype=np.int64)
        values = np.empty((size, tries, 3))
        asked = np.array([1e-4, math.sin(1e-3)] + [1.0, self.settings.table_weight] * many)
        self.solve_rows(
            np.repeat(positions, tries, axis=0).reshape(-1),
            np.repeat(rotations, tries, axis=0).reshape(-1),
            asked,
            starts.reshape(-1),
            q_out.reshape(-1),
            codes.reshape(-1),
            values.reshape(-1),
            last=1,
            steps=40,
        )
        candidates = np.concatenate([q[:, None, :], q_out], axis=1)
        solved = at.unpacked(codes)[0] == at.SOLVED
        solved = np.concatenate([np.ones((size, 1), dtype=bool), solved], axis=1)
        excess = np.where(solved, _off_centre(robot, candidates), np.inf)
        best = candidates[np.arange(size), np.argmin(excess, axis=1)]
        return np.ascontiguousarray(np.concatenate([best, features], axis=1).T)

    def _targets_at(self, q: Array) -> tuple[Array, Array, Array]:
        """Table features (N, F) and the raw targets that configurations (N, n) reach."""
        kinematics = self.robot.kinematics()
        many = len(self._records)
        features = np.empty((len(q), sum(self._features)))
        width = rotation_width(self.shape)
        positions = np.empty((len(q), many, 3))
        rotations = np.zeros((len(q), many, width))
        for i, configuration in enumerate(q):
            kinematics.update(configuration)
            row: list[float] = []
            for k, t in enumerate(self.shape.targets):
                p, R = kinematics.position(t.frame), kinematics.rotation(t.frame)
                if t.relative_to is not None:
                    base = kinematics.rotation(t.relative_to)
                    p, R = base.T @ (p - kinematics.position(t.relative_to)), base.T @ R
                row += [float(p @ p), *p.tolist()]
                positions[i, k] = p
                if t.kind == "pose":
                    rotations[i, k, :4] = quaternion_from_matrix(R)
                    row += rotations[i, k, :4].tolist()
                elif t.kind == "axis":
                    # The body axis is part of the problem, not of its shape; z stands for it.
                    rotations[i, k, :6] = 0.0, 0.0, 1.0, R[0, 2], R[1, 2], R[2, 2]
                    row += R.reshape(9).tolist()
            features[i] = row
        return features, positions, rotations


def tolerances(position: float, rotation: float) -> tuple[float, float]:
    """What the kernel compares with: a hair less, so that rounding cannot make a claim false.

    Returns:
        The position tolerance [m], and the measure of the rotation tolerance (rows.py).
    """
    position -= min(1e-3 * position, 1e-12)
    # Close to a right angle the measure is flat: angles 1e-8 apart have the same.
    flat = abs(rotation - 0.5 * math.pi) < 1e-3
    rotation -= min(1e-3 * rotation, 1e-7 if flat else 1e-12)
    if rotation >= math.pi:
        return position, 2.0
    return position, math.sin(rotation) if rotation < 0.5 * math.pi else 2.0 - math.sin(rotation)


def rotation_width(shape: Shape) -> int:
    """Numbers that a target's rotation takes in the kernels' arrays: 0, 4 or 6."""
    return max(ROTATION_NUMBERS[t.kind] for t in shape.targets)


def rotation_numbers(target: Target, width: int) -> Array:
    """A target's rotation as the kernels read it, padded with zeros to `width` numbers."""
    out = np.zeros(width)
    if target.quaternion is not None:
        out[:4] = target.quaternion
    elif target.axis is not None:
        out[:3], out[3:6] = target.axis
    return out


def _plan(shape: Shape) -> tuple[tuple[Frame, ...], tuple[tuple[float, ...], ...]]:
    """The frames that are needed, each once, and each target's record."""
    frames: list[Frame] = []

    def index(frame: Frame | None) -> int:
        if frame is None:
            return -1
        if frame not in frames:
            frames.append(frame)
        return frames.index(frame)

    records = []
    for t in shape.targets:
        mask = t.mask if t.kind == "pose" else (*t.mask[:3], True, True, True)
        masked = not all(mask)
        here = index(t.frame)
        records.append(
            (
                float(KINDS[t.kind]),
                float(here),
                float(index(t.relative_to)),
                float(masked),
                *(float(m) for m in mask),
            )
        )
    return tuple(frames), tuple(records)


def _joint_numbers(chain: NormalChain) -> Array:
    rows: list[float] = []
    for j in chain.joints:
        rows += [j.hinge, j.index, j.direct, j.shift, j.reference, *j.polynomial]
        rows += [*j.offset, *j.rotation.reshape(9), 0.0, 0.0]
    rows += [*chain.tool_offset, *chain.tool_rotation.reshape(9)]
    return np.array(rows, dtype=np.float64)


def _packed(table: Array, features: tuple[int, ...], n: int, rows: int) -> list[Array]:
    """A table as kernels read it: padded to `rows` rows, features in blocks of single floats."""
    padded = np.zeros((table.shape[0], rows))
    padded[:, : table.shape[1]] = table
    parts, begin = [padded[:n].reshape(-1)], n
    for count in features:
        padded[begin, table.shape[1] :] = np.inf  # the |p|^2 of rows that are none
        blocks = padded[begin : begin + count].reshape(count, -1, at.BLOCK).transpose(1, 0, 2)
        parts.append(blocks.astype(np.float32).reshape(-1).view(np.float64))
        begin += count
    return parts


def _golden_strides(n: int) -> Array:
    """Roberts' strides 1 / phi^j, with phi > 1 the root of x^(n + 1) = x + 1."""
    phi = 2.0
    for _ in range(60):
        phi = (1.0 + phi) ** (1.0 / (n + 1))
    return np.array([(1.0 / phi) ** (j + 1) for j in range(n)])


def _off_centre(robot: Robot, q: Array) -> Array:
    """How far configurations (..., n) are from mid-range, relative to the half ranges; (...)."""
    limited = np.isfinite(robot.lower) & np.isfinite(robot.upper)
    limited &= robot.upper - robot.lower > 1e-12  # not locked
    if not limited.any():
        return np.zeros(q.shape[:-1])
    half = 0.5 * (robot.upper - robot.lower)[limited]
    x = (q[..., limited] - robot.lower[limited]) / half - 1.0
    return (x**4).sum(axis=-1)


def _identifier(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[:40]
