"""The tables of `optik list`: robots, solvers and problem sets, with rich."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from optik.problem_sets import problem_set_names
from optik.robot import Robot, bundled_robots, robot_file
from optik.set_files import read_spec
from optik.solvers import SOLVERS


def robots_table() -> Table:
    """One row a robot: joints, limits, frame, source."""
    table = Table(
        "robot", "joints", "frame", "limits [rad or m]", "source, licence", show_lines=True
    )
    for name in bundled_robots():
        robot, file = Robot.load(name), robot_file(name)
        limits = "\n".join(
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
    return _whole(table)


def solvers_table() -> Table:
    """A block a solver: what it does, then its options with their defaults and units."""
    table = Table("solver, option", "default", "what it is", title_justify="left")
    families: dict[str, list[str]] = {}
    for name, cls in SOLVERS.items():
        families.setdefault(cls.family, []).append(name)
    for family, names in families.items():
        for name in names:
            cls = SOLVERS[name]
            reference = f"  ({cls.reference})" if cls.reference else ""
            table.add_section()
            table.add_row(Text(name, "bold"), Text(family, "dim"), Text(cls.summary + reference))
            described = option_descriptions(cls)
            for f in fields(cls):
                table.add_row(Text(f"  {f.name}"), _default(f), Text(described.get(f.name, "")))
    return _whole(table)


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
    return _whole(table)


def _whole(table: Table) -> Table:
    """Breaks words that are too long for their column: a name with its end cut off is no name."""
    for column in table.columns:
        column.overflow = "fold"
    return table


def _range(low: float, high: float) -> str:
    if np.isinf(low) and np.isinf(high):
        return "unlimited"
    return f"[{low:.4g}, {high:.4g}]"


def _default(field: Any) -> str:
    value = field.default
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def option_descriptions(cls: type) -> dict[str, str]:
    """What the docstrings of a solver and its bases say of each option, unit included.

    Args:
        cls: a solver class whose docstrings have an "Attributes:" section.

    Returns:
        Option to description, on one line.
    """
    found: dict[str, str] = {}
    for base in cls.__mro__:
        text = inspect.getdoc(base) if base.__doc__ else ""
        _, _, attributes = (text or "").partition("Attributes:\n")
        name = ""
        own: dict[str, str] = {}
        for line in attributes.splitlines():
            head, colon, rest = line.strip().partition(":")
            if line.startswith("    ") and not line.startswith("     ") and colon:
                name = head
                own[name] = rest.strip()
            elif line.startswith("     ") and name:
                own[name] += " " + line.strip()
            elif line.strip():
                break
        for key, value in own.items():
            found.setdefault(key, value.rstrip("."))
    return found
