"""The planar two-link arm in closed form: both branches, the edges, the family, the unreachable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optik.closed_form import Reach, two_link
from optik.errors import ProblemError


def tip(q, lengths):
    a, b = lengths
    return np.array(
        [
            a * np.cos(q[0]) + b * np.cos(q[0] + q[1]),
            a * np.sin(q[0]) + b * np.sin(q[0] + q[1]),
        ]
    )


length = st.floats(0.05, 5.0)
angle = st.floats(-np.pi, np.pi)


@settings(max_examples=300, deadline=None)
@given(length, length, angle, angle)
def test_every_branch_reaches_and_the_truth_is_among_them(a, b, q1, q2):
    target = tip((q1, q2), (a, b))
    found = two_link(target, lengths=(a, b))
    assert found.reachable
    for q in found.branches:
        assert np.abs(tip(q, (a, b)) - target).max() < 1e-9 * (a + b) + 1e-11
    if found.reach is Reach.TWO_BRANCHES and abs(np.sin(q2)) > 1e-3:
        gaps = [abs(np.sin((q[1] - q2) / 2)) for q in found.branches]
        assert min(gaps) < 1e-6
        assert found.branches[0, 1] > 0 > found.branches[1, 1]


@settings(max_examples=200, deadline=None)
@given(length, length, angle, st.floats(1e-6, 3.0))
def test_beyond_the_ring_the_nearest_point_is_told(a, b, direction, beyond):
    u = np.array([np.cos(direction), np.sin(direction)])
    found = two_link((a + b + beyond) * u, lengths=(a, b))
    assert found.reach is Reach.TOO_FAR and not found.reachable
    assert found.distance == pytest.approx(beyond, abs=1e-9)
    assert np.abs(tip(found.branches[0], (a, b)) - found.nearest).max() < 1e-9


@pytest.mark.parametrize(("a", "b"), [(2.0, 1.0), (1.0, 2.0)])
def test_inside_the_hole_the_nearest_point_is_told(a, b):
    found = two_link((0.3, -0.4), lengths=(a, b))
    assert found.reach is Reach.TOO_NEAR
    assert found.distance == pytest.approx(0.5)
    assert np.abs(tip(found.branches[0], (a, b)) - found.nearest).max() < 1e-12
    centre = two_link((0.0, 0.0), lengths=(a, b))
    assert centre.reach is Reach.TOO_NEAR and centre.distance == pytest.approx(1.0)


def test_edges_are_one_solution():
    outer = two_link((3.0, 0.0), lengths=(2.0, 1.0))
    assert outer.reach is Reach.OUTER_EDGE and outer.branches.tolist() == [[0.0, 0.0]]
    inner = two_link((0.0, 1.0), lengths=(2.0, 1.0))
    assert inner.reach is Reach.INNER_EDGE
    assert np.abs(tip(inner.branches[0], (2.0, 1.0)) - [0, 1]).max() < 1e-12


def test_equal_links_at_the_shoulder_are_a_family():
    found = two_link((0.0, 0.0), lengths=(0.5, 0.5))
    assert found.reach is Reach.FAMILY and found.reachable
    for q1 in np.linspace(-3, 3, 7):
        assert np.abs(tip((q1, found.branches[0, 1]), (0.5, 0.5))).max() < 1e-15


def test_known_branches():
    found = two_link((2.0, 1.0), lengths=(2.0, 1.0))
    degrees = np.degrees(found.branches)
    assert degrees[0] == pytest.approx([0.0, 90.0], abs=1e-9)
    assert degrees[1] == pytest.approx([53.13010235415598, -90.0], abs=1e-9)


def test_digits_are_kept_near_the_outer_edge():
    """A target 1e-10 inside the edge: arccos would lose half of the digits of q2."""
    q2 = 1e-5
    target = tip((0.0, q2), (1.0, 1.0))
    assert two_link(target, lengths=(1.0, 1.0)).branches[0, 1] == pytest.approx(q2, rel=2e-6)


@pytest.mark.parametrize(
    ("target", "lengths"),
    [((1, 2, 3), (1, 1)), ((np.nan, 0), (1, 1)), ((1, 0), (0, 1)), ((1, 0), (1, -1))],
)
def test_wrong_input(target, lengths):
    with pytest.raises(ProblemError):
        two_link(target, lengths=lengths)
