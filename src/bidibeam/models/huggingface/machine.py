"""What kernels are made of that Numba does not have itself.

Registers are those of the processor: 32 of 16 numbers with AVX-512, and 16 of 8 with AVX2.

Tensors are handed to kernels by address: as arrays, that takes longer than many a kernel does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config
from numba.core.cgutils import get_or_insert_function
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from bidibeam.compiling import is_on


def _features() -> set[str]:
    """What the processor has for which Numba compiles: that of this machine, if nobody has named another.

    What Numba keeps on disk is told apart by the same names, so that code for other registers is never found.
    """
    told = config.CPU_FEATURES
    return {
        name[1:] for name in (get_host_cpu_features() if told is None else told).split(",") if name[:1] == "+"
    }


_FEATURES = _features()
LANES, REGISTERS = (16, 32) if "avx512f" in _FEATURES else (8, 16)
"""Numbers in a register, and registers."""
FLOAT, INT, LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)


def are_fast() -> bool:
    """Whether the processor has such registers; elsewhere kernels say the same, and torch is faster."""
    return is_on() and {"avx2", "fma"} <= _FEATURES


class Emitter:
    """Writes LLVM's code for registers of `LANES` numbers.

    Attributes:
        build: LLVM's builder.

    Args:
        builder: The same.
    """

    def __init__(self, builder: Any) -> None:
        self.build = builder

    def for_each_count(self, count: Any, most: int, write: Callable[[int, Any, Any], None]) -> None:
        """The code for each number of rows up to the most, of which the one for `count` is run.

        Args:
            count: How many rows there are.
            most: How many there may be.
            write: Writes the code for a number of rows, from one block of code to another.
        """
        build = self.build
        done = build.function.append_basic_block("done")
        choice = build.switch(count, done)
        for number in range(1, most + 1):
            start = build.function.append_basic_block(f"rows{number}")
            choice.add_case(LONG(number), start)
            write(number, start, done)
        build.position_at_end(done)

    def pointer(self, address: Any) -> Any:
        """An address as one of numbers."""
        return self.build.inttoptr(address, FLOAT.as_pointer())

    def moved(self, pointer: Any, step: Any, count: int) -> Any:
        """A pointer so many steps further."""
        return self.build.gep(pointer, [self.build.mul(step, LONG(count))])

    def loaded(self, pointer: Any, mask: Any = None, kind: Any = None) -> Any:
        """A register's numbers, or those of a smaller kind; zeros where a mask has none."""
        kind = VECTOR if kind is None else kind
        place = self.build.bitcast(pointer, kind.as_pointer())
        if mask is not None:
            zeros, name = ir.Constant(kind, [0.0] * kind.count), f"v{kind.count}f32"
            return self.called(f"llvm.masked.load.{name}.p0{name}", place, INT(4), mask, zeros, result=kind)
        found = self.build.load(place)
        found.align = 4
        return found

    def store(self, numbers: Any, pointer: Any, mask: Any = None) -> None:
        """Write a register's numbers, or those of them that a mask has."""
        place, name = self.build.bitcast(pointer, numbers.type.as_pointer()), f"v{numbers.type.count}f32"
        if mask is None:
            self.build.store(numbers, place, align=4)
            return
        function = f"llvm.masked.store.{name}.p0{name}"
        self.called(function, numbers, place, INT(4), mask, result=ir.VoidType())

    def grown(self, total: Any, one: Any, other: Any) -> Any:
        """A sum with a product more, rounded once."""
        return self.called(f"llvm.fma.v{LANES}f32", one, other, total)

    def prefetch(self, pointer: Any) -> None:
        """Have a line of memory brought nearer."""
        line = self.build.bitcast(pointer, ir.IntType(8).as_pointer())
        self.called("llvm.prefetch.p0i8", line, INT(0), INT(2), INT(1), result=ir.VoidType())

    def spread(self, value: Any, kind: Any) -> Any:
        """A value in every place of a register of a kind."""
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.build.insert_element(nothing, value, INT(0))
        return self.shuffled(first, nothing, [0] * kind.count)

    def shuffled(self, one: Any, other: Any, places: Iterable[int]) -> Any:
        """Numbers of two registers, by their places in the one and then the other."""
        numbers = [INT(place) for place in places]
        return self.build.shuffle_vector(one, other, ir.Constant(ir.VectorType(INT, len(numbers)), numbers))

    def is_below(self, count: int, bound: Any, first: int = 0) -> Any:
        """A mask: which of so many numbers, from the first on, are below a bound."""
        kind = ir.VectorType(LONG, count)
        numbers = ir.Constant(kind, [LONG(first + place) for place in range(count)])
        return self.build.icmp_signed("<", numbers, self.spread(bound, kind))

    def once(self) -> None:
        """Nothing, in a loop that is not to be unrolled: that would take more registers than there are."""
        nothing = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "", side_effect=True)
        self.build.call(nothing, [], attrs=("convergent",))

    def called(self, name: str, *arguments: Any, result: Any = None) -> Any:
        """The result of a function of LLVM's, a register's numbers or another."""
        kind = ir.FunctionType(
            VECTOR if result is None else result, [argument.type for argument in arguments]
        )
        function = get_or_insert_function(self.build.module, kind, name)
        return self.build.call(function, arguments)


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
