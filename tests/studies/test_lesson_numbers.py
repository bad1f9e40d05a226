"""Every number that the source documents print and that holds, found again at its tolerance."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path

import pytest

STUDIES = Path(__file__).resolve().parents[2] / "studies"
sys.path.insert(0, str(STUDIES))

import lesson  # noqa: E402

LESSONS = [
    name for name in ("clamped_dls", "two_link", "so101", "six_axis", "humanoid_foot")
    if (STUDIES / f"lesson_{name}.py").is_file()
]  # fmt: skip
HOLDS = [
    (name, key)
    for name in LESSONS
    for key, entry in lesson.printed_numbers(name).items()
    if entry["holds"] is True
]


@cache
def measured(name: str):
    return importlib.import_module(f"lesson_{name}").measured()


@pytest.mark.parametrize(("name", "key"), HOLDS)
def test_number_is_found_again(name, key):
    entry = lesson.printed_numbers(name)[key]
    ours = measured(name)[key]
    assert lesson.within(entry["printed"], ours, entry["tolerance"]), (entry["printed"], ours)


@pytest.mark.parametrize("name", LESSONS)
def test_what_does_not_hold_is_measured_too(name):
    missing = [
        key
        for key, entry in lesson.printed_numbers(name).items()
        if entry["holds"] is not True and key not in measured(name)
    ]
    assert missing == []


def test_comparison_can_fail():
    assert not lesson.within([1.0, 2.0], [1.0, 2.1], [0, 0.05])
    assert not lesson.within([1.0, 2.0], [1.0], 0.1)
    assert not lesson.within("converged", "stalled", 0)
    assert lesson.within([1, [2.0, 3.0]], [1, [2.04, 3.0]], 0.05)
