"""Bare pointers to the numbers of an array, for the kernels inside a module.

An array that is handed from kernel to kernel costs two atomic operations on its reference count and
seven arguments, an index into it a look at its sign, and both keep a loop out of vector registers.
A pointer costs none of that, and nothing holds its array: an entry must use the array once more
after the last kernel that has the pointer (`keep`).
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def _pointer(typing_context: Any, array: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate  # type: ignore[no-untyped-call]


# The address of an array's first number.
pointer: Any = intrinsic(_pointer)


def _singles(typing_context: Any, address: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        single = context.get_value_type(types.float32)
        return builder.bitcast(arguments[0], single.as_pointer())

    return types.CPointer(types.float32)(address), generate  # type: ignore[no-untyped-call]


# The same address, for numbers of single precision.
singles: Any = intrinsic(_singles)
