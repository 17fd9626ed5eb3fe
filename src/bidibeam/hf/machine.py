"""What kernels are made of that Numba does not have itself.

Tensors are handed to kernels by address: as arrays, that takes longer than many a kernel does.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic


def _pointer(_context: Any, _address: Any) -> Any:  # pragma: no cover
    """An address as what `numba.carray` takes."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(numba.types.voidptr))

    return numba.types.voidptr(numba.int64), generate


def _prefetch(_context: Any, _address: Any) -> Any:  # pragma: no cover
    """Have the line of an address brought nearer, whether it is anybody's or not."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        fetch = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(fetch, [pointer, number(0), number(2), number(1)])
        return context.get_dummy_value()

    return numba.void(numba.int64), generate


def _divide(_context: Any, _number: Any, _other: Any) -> Any:  # pragma: no cover
    """A quotient as the processor has it: Numba's own looks for 0 first, one number at a time."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fdiv(*arguments)

    return numba.float32(numba.float32, numba.float32), generate


pointer_to, prefetch, over = intrinsic(_pointer), intrinsic(_prefetch), intrinsic(_divide)
