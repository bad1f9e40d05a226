"""A generated module as plain Python, on memory that knows its bounds and what was written where.

The compiled kernels work on bare pointers: an index out of range is silent there.  Here the same
text runs with Numba's decorators left out, and an index that is negative, too large or no whole
number raises, as does a number that is read before it is written, or in another precision than it
was written in, or written where only reading is meant.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNWRITTEN, DOUBLE, SINGLE = 0, 1, 2


class MemoryFaultError(Exception):
    """An access that the compiled kernel would have made silently."""


class Memory:
    """Numbers of double precision in a row, as an array or a bare pointer to them.

    Attributes:
        numbers: shape (size,).
        state: of each half of a number, 2 size bytes: how it was last written.
    """

    def __init__(self, name: str, numbers: NDArray[Any], *, state: int, fixed: bool = False):
        self.name = name
        self.numbers = numbers
        self.size = numbers.size
        self.state = bytearray([state]) * (2 * numbers.size)
        self.fixed = fixed

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    def __getitem__(self, i: Any) -> Any:
        if type(i) is not int or not 0 <= i < self.size:
            raise MemoryFaultError(f"{self.name}[{i}] of {self.size}")
        if self.state[2 * i] != DOUBLE or self.state[2 * i + 1] != DOUBLE:
            raise MemoryFaultError(f"{self.name}[{i}] holds no number of double precision")
        return self.numbers.item(i)

    def __setitem__(self, i: Any, value: Any) -> None:
        if self.fixed or type(i) is not int or not 0 <= i < self.size:
            raise MemoryFaultError(f"{self.name}[{i}] of {self.size}, fixed: {self.fixed}")
        self.numbers[i] = value
        self.state[2 * i] = self.state[2 * i + 1] = DOUBLE


class Singles:
    """The same memory as numbers of single precision, two to each."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.numbers = memory.numbers.view(np.float32)
        self.size = self.numbers.size

    def __getitem__(self, i: Any) -> np.float32:
        if type(i) is not int or not 0 <= i < self.size:
            raise MemoryFaultError(f"singles of {self.memory.name}[{i}] of {self.size}")
        if self.memory.state[i] != SINGLE:
            raise MemoryFaultError(f"singles of {self.memory.name}[{i}] hold no number")
        return self.numbers[i]

    def __setitem__(self, i: Any, value: Any) -> None:
        if self.memory.fixed or type(i) is not int or not 0 <= i < self.size:
            raise MemoryFaultError(f"singles of {self.memory.name}[{i}] of {self.size}")
        if not isinstance(value, np.float32):
            raise MemoryFaultError(f"{type(value).__name__} among the singles")
        self.numbers[i] = value
        self.memory.state[i] = SINGLE


class Grid:
    """An array of several axes that takes whole, non-negative indices only."""

    def __init__(self, numbers: NDArray[Any]):
        self.numbers = numbers

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    def __setitem__(self, place: tuple[int, ...], value: Any) -> None:
        inside = all(0 <= i < k for i, k in zip(place, self.numbers.shape, strict=True))
        if not inside or not all(isinstance(i, int) for i in place):
            raise MemoryFaultError(f"{place} of {self.numbers.shape}")
        self.numbers[place] = value


def read(name: str, numbers: NDArray[np.float64]) -> Memory:
    """An argument that a kernel reads."""
    return Memory(name, np.ascontiguousarray(numbers).reshape(-1), state=DOUBLE, fixed=True)


def write(name: str, numbers: NDArray[Any]) -> Memory:
    """An argument, shape (size,), that a kernel writes."""
    return Memory(name, numbers, state=UNWRITTEN)


def module_of(text: str) -> dict[str, Any]:
    """The names of a module's text, which runs as plain Python on checked memory."""

    def pointer(array: Any) -> Memory:
        return array if isinstance(array, Memory) else write("w", array)

    def njit(*_: Any, **__: Any) -> Any:
        return lambda function: function

    stand_ins = {"_pointer": pointer, "_singles": Singles}
    own = ("\nimport numba\n", "\nfrom numba.extending import intrinsic\n")
    for line in own:
        assert line in text
        text = text.replace(line, "\n", 1)
    names = {
        "numba": SimpleNamespace(njit=njit),
        "intrinsic": lambda function: stand_ins[function.__name__],
        "CACHED": False,
    }
    exec(compile(text, "<generated module>", "exec"), names)
    return names
