"""Products of few rows on one thread of a CPU: a matrix is read once, in the order in which it lies.

A library's product first brings a matrix into an order of its own, which with few rows takes about as long
as the product itself. Here that order is made once: tiles of `WIDTH` columns, one behind the other. The sums
of up to `ROWS` rows of a tile stay in registers, if the processor has as many as AVX-512 has.

What a row becomes does not depend on the other rows, to the last bit: its terms are added one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numba
import torch
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic
from torch import Tensor
from torch.nn import functional as F

from bidibeam.compiling import compiled, is_on

LANES, VECTORS, ROWS = 16, 2, 14
"""Numbers in a register, registers for the sums of a row, and rows at once: 28 of 32 registers."""
WIDTH = LANES * VECTORS
NEAR_BYTES = 160 << 10
"""Tiles that all rows read before the next tiles: they stay in the cache of a core."""

_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _MASK = ir.VectorType(_FLOAT, LANES), ir.VectorType(ir.IntType(1), LANES)
_POINTER = _FLOAT.as_pointer()


@cache
def are_fast() -> bool:
    """Whether the processor has enough registers; elsewhere tiles say the same, and torch is faster."""
    return is_on() and bool(binding.get_host_cpu_features().get("avx512f", False))


class _Code:
    """The code of the sums of one tile: each row times the tile, plus a bias, plus a row of more.

    Args:
        builder: LLVM's.
        arguments: Those of `_tile_type`.
    """

    def __init__(self, builder: Any, arguments: Any) -> None:
        self._build = builder
        pointers = [builder.inttoptr(one, _POINTER) for one in arguments[:5]]
        self._rows, self._tile, self._bias, self._more, self._out = pointers
        self._row_step, self._more_step, self._out_step, self._depth, left, self._ahead = arguments[5:11]
        places = ir.VectorType(_LONG, LANES)
        self._is_column = [
            builder.icmp_signed(
                "<",
                ir.Constant(places, [number * LANES + lane for lane in range(LANES)]),
                self._spread(left, places),
            )
            for number in range(VECTORS)
        ]

    def write(self, count: int, start: Any, done: Any) -> None:
        """That of `count` rows, from one block of code to another."""
        build = self._build
        loop, end = (build.function.append_basic_block(f"{name}{count}") for name in ("loop", "end"))
        build.position_at_end(start)
        bias = [self._loaded(self._bias, number) for number in range(VECTORS)]
        lines = [self._moved(self._rows, self._row_step, row) for row in range(count)]
        build.branch(loop)

        build.position_at_end(loop)
        place = build.phi(_LONG)
        sums = [build.phi(_VECTOR) for _ in range(count * VECTORS)]
        weights = self._weights(build.gep(self._tile, [build.mul(place, _LONG(WIDTH))]))
        found = []
        for row, line in enumerate(lines):
            factor = self._spread(build.load(build.gep(line, [place])), _VECTOR)
            for number, weight in enumerate(weights):
                found.append(self._called("llvm.fma.v16f32", factor, weight, sums[row * VECTORS + number]))
        after = build.add(place, _LONG(1))
        for phi, first, then in zip((place, *sums), (_LONG(0), *bias * count), (after, *found), strict=True):
            phi.add_incoming(first, start)
            phi.add_incoming(then, loop)
        build.cbranch(build.icmp_signed("<", after, self._depth), loop, end)

        build.position_at_end(end)
        for row in range(count):
            self._finish(row, found[row * VECTORS : (row + 1) * VECTORS])
        build.branch(done)

    def _weights(self, column: Any) -> list[Any]:
        """One row of the tile; the same of a later tile is asked for meanwhile."""
        later = self._build.gep(column, [self._ahead])
        for number in range(VECTORS):
            line = self._build.bitcast(
                self._build.gep(later, [_LONG(number * LANES)]), ir.IntType(8).as_pointer()
            )
            self._called("llvm.prefetch.p0i8", line, _INT(0), _INT(2), _INT(1), result=ir.VoidType())
        return [self._loaded(column, number) for number in range(VECTORS)]

    def _finish(self, row: int, sums: list[Any]) -> None:
        """Add what is to be added to a row, and write those of its columns that there are."""
        build = self._build
        more, out = self._moved(self._more, self._more_step, row), self._moved(self._out, self._out_step, row)
        zeros = ir.Constant(_VECTOR, [0.0] * LANES)
        for number, (total, is_column) in enumerate(zip(sums, self._is_column, strict=True)):
            place, there = (self._vector(one, number) for one in (more, out))
            added = self._called("llvm.masked.load.v16f32.p0v16f32", place, _INT(4), is_column, zeros)
            summed = build.fadd(total, added)
            self._called(
                "llvm.masked.store.v16f32.p0v16f32", summed, there, _INT(4), is_column, result=ir.VoidType()
            )

    def _moved(self, pointer: Any, step: Any, count: int) -> Any:
        return self._build.gep(pointer, [self._build.mul(step, _LONG(count))])

    def _loaded(self, pointer: Any, number: int) -> Any:
        loaded = self._build.load(self._vector(pointer, number))
        loaded.align = 4
        return loaded

    def _vector(self, pointer: Any, number: int) -> Any:
        """Where the numbers of a register stand."""
        place = self._build.gep(pointer, [_LONG(number * LANES)])
        return self._build.bitcast(place, _VECTOR.as_pointer())

    def _spread(self, value: Any, kind: Any) -> Any:
        nothing = ir.Constant(kind, ir.Undefined)
        first = self._build.insert_element(nothing, value, _INT(0))
        return self._build.shuffle_vector(
            first, nothing, ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES)
        )

    def _called(self, name: str, *arguments: Any, result: Any = _VECTOR) -> Any:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = get_or_insert_function(self._build.module, kind, name)
        return self._build.call(function, arguments)


def _tile_type(  # pragma: no cover
    _context: Any,
    _rows: Any,
    _tile: Any,
    _bias: Any,
    _more: Any,
    _out: Any,
    _row_step: Any,
    _more_step: Any,
    _out_step: Any,
    _depth: Any,
    _left: Any,
    _ahead: Any,
    _count: Any,
) -> Any:
    """One tile's sums for up to `ROWS` rows: addresses, steps from row to row in numbers, then how many."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        code = _Code(builder, arguments)
        done = builder.function.append_basic_block("done")
        choice = builder.switch(arguments[11], done)
        for count in range(1, ROWS + 1):
            start = builder.function.append_basic_block(f"rows{count}")
            choice.add_case(_LONG(count), start)
            code.write(count, start, done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return numba.void(*[numba.int64] * 12), generate


_write_tile = intrinsic(_tile_type)


@compiled
def multiply(
    rows: int,
    tiles: int,
    bias: int,
    more: int,
    out: int,
    row_step: int,
    more_step: int,
    out_step: int,
    count: int,
    depth: int,
    width: int,
) -> None:  # pragma: no cover
    """All tiles times all rows; addresses, steps from row to row in numbers, then how many.

    Where more_step is 0, there is one tile's width of zeros at `more`.
    """
    size, groups = depth * WIDTH, -(-count // ROWS)
    near = max(1, NEAR_BYTES // (4 * size))
    for start in range(0, width, near * WIDTH):
        for group in range(groups):
            first, last = count * group // groups, count * (group + 1) // groups
            for column in range(start, min(start + near * WIDTH, width), WIDTH):
                _write_tile(
                    rows + 4 * first * row_step,
                    tiles + 4 * column * depth,
                    bias + 4 * column,
                    more + 4 * (first * more_step + column) if more_step else more,
                    out + 4 * (first * out_step + column),
                    row_step,
                    more_step,
                    out_step,
                    depth,
                    width - column,
                    0 if group else near * size,
                    last - first,
                )


_NOTHING = torch.zeros(WIDTH)


@dataclass(frozen=True)
class Tiles:
    """A matrix, (in, out).

    Attributes:
        numbers: (tiles, in, `WIDTH`); the last tile ends with zeros.
        width: How many columns there are.
    """

    numbers: Tensor
    width: int

    @staticmethod
    def of(weight: Tensor) -> Tiles:
        """That of a linear layer, (out, in), float32, on a CPU."""
        width, depth = weight.shape
        padded = F.pad(weight, (0, 0, 0, -width % WIDTH))
        return Tiles(padded.view(-1, WIDTH, depth).transpose(1, 2).contiguous(), width)

    def bias(self, given: Tensor | None) -> Tensor:
        """A bias, (out,), as `times` wants it: as long as the tiles are wide."""
        if given is None:
            return self.numbers.new_zeros(len(self.numbers) * WIDTH)
        return F.pad(given, (0, -self.width % WIDTH)).contiguous()

    def times(self, rows: Tensor, bias: Tensor, out: Tensor, more: Tensor | None = None) -> Tensor:
        """Rows times the matrix, plus a bias, plus as many rows more, written to `out`.

        Args:
            rows: (rows, in), float32, as are all.
            bias: From `bias`.
            out: (rows, out), each row contiguous; nothing that is read.
            more: (rows, out).
        """
        depth = self.numbers.shape[1]
        if rows.shape[1] != depth or out.shape != (len(rows), self.width) or rows.dtype != torch.float32:
            raise ValueError(f"{tuple(rows.shape)} by {depth, self.width} is not {tuple(out.shape)}, float32")
        rows = rows.contiguous()
        more = None if more is None else more.contiguous()
        multiply(
            rows.data_ptr(),
            self.numbers.data_ptr(),
            bias.data_ptr(),
            (_NOTHING if more is None else more).data_ptr(),
            out.data_ptr(),
            depth,
            0 if more is None else self.width,
            out.stride(0),
            len(rows),
            depth,
            self.width,
        )
        return out
