"""Values that are wrong, or nearly right, wherever a number, a name or a list of them is wanted."""

from __future__ import annotations

import numpy as np

SCALARS = [
    None, True, -1, 2**70, -(2**70), 10**400, 1e-320, 1e308, float("nan"), float("inf"),
    -float("inf"), 1j, "x", "", "nan", "1", b"x", object(), int, len, "a\0b", "\ud800", "x" * 5000,
]  # fmt: skip
LISTS = [
    [], (), {}, {1}, [1, 2], ["a", "b", "c"], [None] * 3, [[1, 2, 3], [1]], [np.nan] * 3,
    [np.inf, 0, 0], [1e308] * 3, np.zeros(3, complex), np.zeros(3, bool), np.array(["1", "2", "3"]),
    np.zeros(0), np.zeros((3, 4)), np.zeros(17), np.zeros(()), iter([1, 2, 3]), {"position": 1},
    np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), np.full(7, np.nan), np.zeros(7, complex),
]  # fmt: skip
JUNK = SCALARS + LISTS
