"""Products of few rows on one thread of a CPU: a matrix is read once, in the order in which it lies.

A library's product first brings a matrix into an order of its own, which with few rows takes about as long
as the product itself. Here that order is made once: tiles of `WIDTH` columns, one behind the other. The sums
of up to `ROWS` rows of a tile stay in registers.

What a row becomes does not depend on the other rows, to the last bit: its terms are added one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import torch
from numba.extending import intrinsic
from torch import Tensor
from torch.nn import functional as F

from bidibeam.compiling import compiled
from bidibeam.models.huggingface.machine import LANES, LONG, REGISTERS, VECTOR, Emitter

VECTORS = 2
"""Registers for the sums of a row."""
ROWS = (REGISTERS - 4) // VECTORS
"""Rows at once: four registers are left for what is read."""
WIDTH = LANES * VECTORS
NEAR_BYTES = 160 << 10
"""Tiles that all rows read before the next tiles: they stay in the cache of a core."""


class _Code(Emitter):
    """The code of the sums of one tile: each row times the tile, plus a bias, plus a row of more.

    Args:
        builder: LLVM's.
        arguments: Those of `_tile_type`.
    """

    def __init__(self, builder: Any, arguments: Any) -> None:
        super().__init__(builder)
        self._rows, self._tile, self._bias, self._more, self._out = map(self.pointer, arguments[:5])
        self._row_step, self._more_step, self._out_step, self._depth, left, self._ahead = arguments[5:11]
        self._is_column = [self.is_below(LANES, left, number * LANES) for number in range(VECTORS)]

    def write(self, count: int, start: Any, done: Any) -> None:
        """That of `count` rows, from one block of code to another."""
        build = self.build
        loop, end = (build.function.append_basic_block(f"{name}{count}") for name in ("loop", "end"))
        build.position_at_end(start)
        bias = self._line(self._bias)
        lines = [self.moved(self._rows, self._row_step, row) for row in range(count)]
        build.branch(loop)

        build.position_at_end(loop)
        place = build.phi(LONG)
        sums = [build.phi(VECTOR) for _ in range(count * VECTORS)]
        weights = self._weights(build.gep(self._tile, [build.mul(place, LONG(WIDTH))]))
        found = []
        for row, line in enumerate(lines):
            factor = self.spread(build.load(build.gep(line, [place])), VECTOR)
            for number, weight in enumerate(weights):
                found.append(self.grown(sums[row * VECTORS + number], factor, weight))
        after = build.add(place, LONG(1))
        for phi, first, then in zip((place, *sums), (LONG(0), *bias * count), (after, *found), strict=True):
            phi.add_incoming(first, start)
            phi.add_incoming(then, loop)
        build.cbranch(build.icmp_signed("<", after, self._depth), loop, end)

        build.position_at_end(end)
        for row in range(count):
            self._finish(row, found[row * VECTORS : (row + 1) * VECTORS])
        build.branch(done)

    def _weights(self, column: Any) -> list[Any]:
        """One row of the tile; the same of a later tile is asked for meanwhile."""
        later = self.build.gep(column, [self._ahead])
        for number in range(VECTORS):
            self.prefetch(self.build.gep(later, [LONG(number * LANES)]))
        return self._line(column)

    def _line(self, pointer: Any) -> list[Any]:
        """As many numbers as a tile is wide."""
        return [self.loaded(self.build.gep(pointer, [LONG(number * LANES)])) for number in range(VECTORS)]

    def _finish(self, row: int, sums: list[Any]) -> None:
        """Add what is to be added to a row, and write those of its columns that there are."""
        more, out = self.moved(self._more, self._more_step, row), self.moved(self._out, self._out_step, row)
        for number, (total, is_column) in enumerate(zip(sums, self._is_column, strict=True)):
            place, there = (self.build.gep(one, [LONG(number * LANES)]) for one in (more, out))
            self.store(self.build.fadd(total, self.loaded(place, is_column)), there, is_column)


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
        code.for_each_count(arguments[11], ROWS, code.write)
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


_NOTHING = torch.zeros(WIDTH, dtype=torch.float32, device="cpu")


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
        whole = width - width % WIDTH
        numbers = weight.new_zeros(-(-width // WIDTH), depth, WIDTH)
        numbers[: whole // WIDTH] = weight[:whole].view(-1, WIDTH, depth).transpose(1, 2)
        if whole < width:
            numbers[-1, :, : width - whole] = weight[whole:].t()
        return Tiles(numbers, width)

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
        if rows.shape[1] != depth or out.shape != (rows.shape[0], self.width) or rows.dtype != torch.float32:
            raise ValueError(f"{tuple(rows.shape)} by {depth, self.width} is not {tuple(out.shape)}, float32")
        if more is not None and (more.shape != out.shape or more.dtype != torch.float32):
            raise ValueError(f"{tuple(more.shape)}, {more.dtype}, is not {tuple(out.shape)}, float32")
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
            rows.shape[0],
            depth,
            self.width,
        )
        return out
