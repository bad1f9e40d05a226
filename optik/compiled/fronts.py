"""The part of a module that depends on the chain and the problem's shape: its front.

A front defines, with whatever they call,

    the sizes and places        numbers of `fixed`, or constants
    frames, normal_equations    what a problem costs at a configuration
    masked_newton, gradient     what the box step needs of H
    advance, box_step           the step: the clipped one, and the one that takes its place
    rank_target, fill_rotation  what depends on a target's kind

and the rest of a module is the same for all (module.py).  Numba compiles only what an entry
reaches, so that a front may hold more than that.  There are three kinds:

    general     reads the chain's numbers, and serves any chain and shape
    folded      frames written out for one chain; the rest as in the general one, with known sizes
    straight    plain targets, few joints: the whole step written out, for one lane or several
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from optik.compiled import boxqp, descent, entries, general, rows
from optik.compiled import layout as at
from optik.compiled.fold import Record, frames_source, trig_count
from optik.compiled.normal import NormalChain
from optik.compiled.straight import (
    advance_source,
    gradient_source,
    masked_newton_source,
    normal_equations_source,
)

Kernel = Callable[..., Any]

STRAIGHT = 10  # joints up to which H, its factors and its gradient are written out
LANES = 8  # problems that a batch works on at once

# In the order of use: a kernel's callees stand before it.
SIZES: tuple[Kernel, ...] = (
    general.size,
    general.targets,
    general.frame_count,
    general.trig_size,
    general.lane_count,
    general.target_field,
)
PLACES: tuple[Kernel, ...] = (
    general.state_at,
    general.goal_at,
    general.blocks_at,
    general.program_at,
    general.distances_at,
    general.workspace,
)
ROWS: tuple[Kernel, ...] = (
    rows.turn_between,
    rows.symmetric_axis,
    rows.long_axis,
    rows.opposite_axes,
    rows.pose_rows,
    rows.axis_rows,
    rows.block_of,
    rows.normal_equations,
)
BY_KIND: tuple[Kernel, ...] = (
    descent.rank_position,
    descent.rank_axis,
    descent.rank_pose,
    descent.rank_target,
    entries.fill_axis,
    entries.fill_pose,
    entries.fill_rotation,
)
STEP: tuple[Kernel, ...] = (descent.judge, descent.take_step)


def general_front(*, projected: bool) -> str:
    """The front of the data-driven module, which serves any chain.

    Args:
        projected: two-metric projection in place of the exact box step.

    Returns:
        Source, to stand before the shared kernels.
    """
    front = sources(
        *SIZES, *PLACES, general.frames, *ROWS, boxqp.fixed_size, boxqp.masked_newton,
        boxqp.gradient, boxqp.free_step, *STEP, descent.advance, *BY_KIND,
    )  # fmt: skip
    return f"{front}\n\n{_box_step(projected=projected)}"


def _box_step(*, projected: bool) -> str:
    if projected:
        kernels = sources(boxqp.projected_step, descent.clipped_step)
        return f"{kernels}\n\nbox_step = clipped_step\n"
    return sources(boxqp.active_set, descent.box_step)


def folded_front(
    chains: Sequence[NormalChain],
    records: Sequence[Record],
    n: int,
    *,
    log: bool,
    projected: bool,
    lanes: int = 1,
) -> str:
    """The front of a folded module that solves.

    Args:
        chains: one for each frame.
        records: one for each target.
        n: number of joints.
        log: whether the rotation residual is the logarithm.
        projected: two-metric projection in place of the exact box step.
        lanes: problems worked on at once; more than one for plain shapes only, and not with
            `projected`, which looks at a single lane's program in place.

    Returns:
        Source, to stand before the shared kernels; straight where the shape allows it.
    """
    parts = [_sizes(chains, records, n, lanes), sources(*PLACES)]
    parts.append(f"@inner\ndef fixed_size(n):\n    return {n}\n")
    if n <= STRAIGHT:
        newton = f"{masked_newton_source(n)}\n\n{gradient_source(n)}"
    else:
        newton = sources(boxqp.masked_newton, boxqp.gradient)
    if is_plain(records, n, log=log):
        parts.append(sources(rows.symmetric_axis, rows.opposite_axes))
        parts += [newton, sources(boxqp.free_step, *STEP)]
        parts.append(advance_source(chains, records, n, lanes))
        if lanes == 1:
            parts.append(normal_equations_source(chains, records, n))
    else:
        parts += [frames_source(chains, len(records), n), sources(*ROWS), newton]
        parts += [sources(boxqp.free_step, *STEP, descent.advance)]
    parts += [_box_step(projected=projected), _by_kind(records)]
    return "\n\n".join(parts)


def _by_kind(records: Sequence[Record]) -> str:
    """`rank_target` and `fill_rotation` of a folded module: each target's kind is known."""
    kinds = {int(record[0]) for record in records}
    if len(kinds) > 1:
        return sources(*BY_KIND)
    (kind,) = kinds
    kernels: list[Kernel] = [descent.rank_position]
    kernels += [descent.rank_axis, entries.fill_axis] if kind == at.AXIS else []
    kernels += [descent.rank_pose, entries.fill_pose] if kind == at.POSE else []
    name, features = {at.POSITION: ("", 4), at.AXIS: ("axis", 13), at.POSE: ("pose", 8)}[kind]
    rank = f"rank_position(t, lane, at, {features}, fixed, w)"
    if name:
        rank = f"{rank}\n    return rank_{name}(t, lane, at, fixed, w)"
        fill = f"fill_{name}(rotations, r, o, fixed, w)"
    else:
        rank, fill = f"return {rank}", "pass"
    return (
        f"{sources(*kernels)}\n\n"
        f"@inner\ndef rank_target(t, lane, at, fixed, w):\n    {rank}\n\n"
        f"@inner\ndef fill_rotation(rotations, r, t, o, fixed, w):\n    {fill}\n"
    )


def folded_frames(chains: Sequence[NormalChain], records: Sequence[Record], n: int) -> str:
    """The front of a folded module that only gives poses and Jacobians."""
    parts = [_sizes(chains, records, n, 1), sources(*PLACES)]
    parts += [frames_source(chains, len(records), n), sources(rows.block_of)]
    return "\n\n".join(parts)


def is_plain(records: Sequence[Record], n: int, *, log: bool) -> bool:
    """Whether a shape's whole step can be written out: a straight front."""
    return n <= STRAIGHT and not log and all(r[2] < 0.0 and r[3] == 0.0 for r in records)


def sources(*kernels: Kernel) -> str:
    """The kernels' own source, each to be compiled inside a module."""
    return "\n\n".join("@inner\n" + source_of(k) for k in kernels)


@functools.cache
def source_of(kernel: Kernel) -> str:
    """A kernel's source; finding it takes a while."""
    return inspect.getsource(kernel)


def _sizes(chains: Sequence[NormalChain], records: Sequence[Record], n: int, lanes: int) -> str:
    values = {
        "size": n,
        "targets": len(records),
        "frame_count": len(chains),
        "trig_size": 3 * trig_count(chains) if lanes == 1 else 0,
        "lane_count": lanes,
    }
    parts = [f"@inner\ndef {name}(fixed):\n    return {value}\n" for name, value in values.items()]
    parts.append(
        "@inner\ndef target_field(fixed, k, field):\n"
        f"    return int(fixed[{at.HEADER + 5 * n} + {at.TARGET_RECORD} * k + field])\n"
    )
    return "\n\n".join(parts)
