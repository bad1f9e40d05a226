"""The tables of `optik list`: robots, solvers and problem sets, with rich."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from optik.problem_sets import problem_set_names, read_spec
from optik.robot import Robot, bundled_robots, robot_file
from optik.solvers import SOLVERS


def robots_table() -> Table:
    """One row a robot: joints, limits, frame, source."""
    table = Table(
        "robot", "joints", "frame", "limits [rad or m]", "source, licence", show_lines=True
    )
    for name in bundled_robots():
        robot, file = Robot.load(name), robot_file(name)
        limits = "  ".join(
            f"{joint} {_range(lo, hi)}"
            for joint, lo, hi in zip(robot.joint_names, robot.lower, robot.upper, strict=True)
        )
        table.add_row(
            f"{name}\n{file.title}",
            str(robot.n),
            f"{robot.frame} ({robot.frame_ref.kind})",
            Text(limits),
            f"{file.source}\n{file.licence}",
        )
    return table


def solvers_table() -> Table:
    """One row a solver: what it does, its options with their defaults and units."""
    table = Table("solver", "family", "method", "options", show_lines=True)
    for name, cls in SOLVERS.items():
        units = _units(cls)
        options = "\n".join(f"{f.name}={_default(f)}  {units.get(f.name, '')}" for f in fields(cls))
        method = cls.summary + (f"\n({cls.reference})" if cls.reference else "")
        table.add_row(name, cls.family, method, Text(options))
    return table


def problems_table() -> Table:
    """One row a problem set: robot, kind, count, start, tolerance."""
    table = Table("problem set", "robot", "kind", "stratum", "count", "start", "tolerance", "title")
    for name in problem_set_names():
        spec = read_spec(name)
        tolerance = f"{spec.position_tolerance:g} m"
        if spec.target != "position":
            tolerance += f", {spec.rotation_tolerance:g} rad"
        table.add_row(
            name,
            spec.robot,
            spec.target,
            spec.stratum,
            str(spec.count),
            spec.start,
            tolerance,
            spec.title,
        )
    return table


def _range(low: float, high: float) -> str:
    if np.isinf(low) and np.isinf(high):
        return "unlimited"
    return f"[{low:.4g}, {high:.4g}]"


def _default(field: Any) -> str:
    value = field.default
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _units(cls: type) -> dict[str, str]:
    """The unit in brackets that the docstrings of a class and its bases give for each option."""
    units: dict[str, str] = {}
    name = ""
    for line in "\n".join(base.__doc__ or "" for base in cls.__mro__).splitlines():
        head, colon, _ = line.strip().partition(":")
        if colon and head.isidentifier() and line.startswith("        "):
            name = head
        if name and name not in units and "[" in line:
            units[name] = line[line.index("[") : line.rindex("]") + 1] if "]" in line else ""
    return units
