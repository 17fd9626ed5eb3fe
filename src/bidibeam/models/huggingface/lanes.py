"""Products of rows that stand side by side with a matrix that is read where it lies, on one thread.

Each row has a lane of the registers, so that a number of the matrix is read once for all of them, in the
order in which it lies; nothing is to be added up at the end, as with fewer rows (`bidibeam.models.huggingface.inplace`), and
only turned around. A row's last bits depend on whether it is one of those, and on nothing else.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic

from bidibeam.compiling import compiled
from bidibeam.models.huggingface.machine import FLOAT, LANES, LONG, REGISTERS, VECTOR, Emitter, pointer_to

PLACES = 4
"""Places of a column that are read before the next column's."""
LINE = 16
"""Numbers in a line of memory."""
MOST = 1 if REGISTERS == 32 else 3
"""Registers of rows at once. With few registers there are several, so that a number read is of more use."""
COLUMNS = LANES if MOST == 1 else 4
"""Columns at once, if there are several registers of rows; if there is one, as many as it has lanes."""


class _Turner(Emitter):
    """Turns registers around."""

    def turned(self, columns: list[Any]) -> list[Any]:
        """Registers of a column each as each row's columns.

        Halves of as many lanes as there are columns change places, then quarters ..., so that in the end each
        register has the columns of some rows.
        """
        count = size = len(columns)
        while size > 1:
            size //= 2
            turned = list(columns)
            for first in (number for number in range(count) if not number & size):
                one, other = columns[first], columns[first + size]
                lower = [lane if not lane & size else LANES + lane - size for lane in range(LANES)]
                upper = [lane + size if not lane & size else LANES + lane for lane in range(LANES)]
                turned[first], turned[first + size] = (
                    self.shuffled(one, other, lower),
                    self.shuffled(one, other, upper),
                )
            columns = turned
        return [
            self.shuffled(columns[row % count], columns[row % count], range(first, first + count))
            for first in range(0, LANES, count)
            for row in range(count)
        ]


class _Code(_Turner):
    """The code of one block: some registers of rows by some columns, plus a bias, plus a row of more.

    Args:
        builder: LLVM's.
        arguments: Those of `_block_type`.
        columns: How many columns, a power of two up to `LANES`.
    """

    def __init__(self, builder: Any, arguments: Any, columns: int) -> None:
        super().__init__(builder)
        self._rows, self._weight, self._bias, self._more, self._out = map(self.pointer, arguments[:5])
        self._more_step, self._out_step, self._depth, self._ahead = arguments[5:9]
        self._columns = columns

    def run(self, registers: int) -> None:
        """The code for so many registers of rows, from where the builder is."""
        build = self.build
        start = build.block
        loop, end = (build.function.append_basic_block(name) for name in ("lanes", "turned"))
        rows = [self.moved(self._rows, self._depth, LANES * number) for number in range(registers)]
        lines = [self.moved(self._weight, self._depth, column) for column in range(self._columns)]
        build.branch(loop)

        build.position_at_end(loop)
        place = build.phi(LONG)
        sums = [build.phi(VECTOR) for _ in range(registers * len(lines))]  # those of a register together
        found = self._summed(rows, lines, place, sums)
        self.once()
        after = build.add(place, LONG(PLACES))
        zeros = [ir.Constant(VECTOR, [0.0] * LANES)] * len(sums)
        for phi, first, then in zip((place, *sums), (LONG(0), *zeros), (after, *found), strict=True):
            phi.add_incoming(first, start)
            phi.add_incoming(then, loop)
        build.cbranch(build.icmp_signed("<", after, self._depth), loop, end)

        build.position_at_end(end)
        kind = ir.VectorType(FLOAT, self._columns)
        bias = self.loaded(self._bias, kind=kind)
        for number in range(registers):
            turned = self.turned(found[number * len(lines) : (number + 1) * len(lines)])
            for row, numbers in enumerate(turned, start=number * LANES):
                more = self.loaded(self.moved(self._more, self._more_step, row), kind=kind)
                summed = build.fadd(build.fadd(numbers, bias), more)
                self.store(summed, self.moved(self._out, self._out_step, row))

    def _summed(self, rows: list[Any], lines: list[Any], place: Any, sums: list[Any]) -> list[Any]:
        """The sums with the products of some places more."""
        build = self.build
        later = build.gep(self._weight, [build.add(self._ahead, build.mul(place, LONG(len(lines))))])
        for at in range(0, len(lines) * PLACES, LINE):  # as many of a later block as there are in this one
            self.prefetch(build.gep(later, [LONG(at)]))
        found = list(sums)
        first = build.mul(place, LONG(LANES))
        for at in range(PLACES):
            own = [self.loaded(build.gep(row, [build.add(first, LONG(LANES * at))])) for row in rows]
            for column, line in enumerate(lines):
                number = self.spread(build.load(build.gep(line, [build.add(place, LONG(at))])), VECTOR)
                for register, numbers in enumerate(own):
                    total = register * len(lines) + column
                    found[total] = self.grown(found[total], numbers, number)
        return found


def _block_type(registers: int, columns: int) -> Any:
    """The type of a function for one block: addresses, steps from row to row in numbers, then how many."""

    def kind(  # pragma: no cover
        _context: Any,
        _rows: Any,
        _weight: Any,
        _bias: Any,
        _more: Any,
        _out: Any,
        _more_step: Any,
        _out_step: Any,
        _depth: Any,
        _ahead: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            _Code(builder, arguments, columns).run(registers)
            return context.get_dummy_value()

        return numba.void(*[numba.int64] * 9), generate

    return kind


_large, _middle, _small = (
    intrinsic(_block_type(MOST, COLUMNS)),
    intrinsic(_block_type(min(2, MOST), COLUMNS)),
    intrinsic(_block_type(1, LANES)),
)
"""Where one register of rows is all there is, they are alike, and the last alone is called."""


def _turn_type(_context: Any, _rows: Any, _row_step: Any, _lanes: Any) -> Any:  # pragma: no cover
    """`LANES` places of as many rows, side by side: addresses, and the step from row to row in numbers."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        code = _Turner(builder)
        rows, lanes = code.pointer(arguments[0]), code.pointer(arguments[2])
        read = [code.loaded(code.moved(rows, arguments[1], row)) for row in range(LANES)]
        for place, numbers in enumerate(code.turned(read)):
            code.store(numbers, builder.gep(lanes, [LONG(LANES * place)]))
        return context.get_dummy_value()

    return numba.void(numba.int64, numba.int64, numba.int64), generate


_turn = intrinsic(_turn_type)


@compiled
def side_by_side(rows: int, row_step: int, count: int, depth: int) -> Any:  # pragma: no cover
    """Rows, a multiple of `LANES`, as `write_lanes` reads them: (groups, depth, `LANES`)."""
    lanes = np.empty((count // LANES, depth, LANES), np.float32)
    given = numba.carray(pointer_to(rows), (count * row_step,), np.float32)
    whole = depth - depth % LANES
    for row in range(0, count, LANES):
        for place in range(0, whole, LANES):
            here = rows + 4 * (row * row_step + place)
            _turn(here, row_step, lanes.ctypes.data + 4 * (row * depth + place * LANES))
        for lane in range(LANES):
            for place in range(whole, depth):
                lanes[row // LANES, place, lane] = given[(row + lane) * row_step + place]
    return lanes


@compiled
def write_lanes(
    rows: int,
    weight: int,
    bias: int,
    more: int,
    out: int,
    bias_step: int,
    more_step: int,
    out_step: int,
    count: int,
    width: int,
    depth: int,
    ahead: int,
) -> None:  # pragma: no cover
    """Rows by columns, multiples of `LANES` both: addresses, steps in numbers, then how many.

    Few rows stay near while all columns pass, in a cache that holds these.
    Where more_step is 0, there are `LANES` zeros.
    """
    row = 0
    while row < count:
        registers = min((count - row) // LANES, MOST)
        later = 0 if row else ahead
        place = rows + 4 * row * depth
        for column in range(0, width, COLUMNS if registers > 1 else LANES):
            here, its_bias = weight + 4 * column * depth, bias + 4 * column * bias_step
            added = more + 4 * (row * more_step + column) if more_step else more
            there = out + 4 * (row * out_step + column)
            if registers == 1:
                _small(place, here, its_bias, added, there, more_step, out_step, depth, later)
            elif registers == MOST:
                _large(place, here, its_bias, added, there, more_step, out_step, depth, later)
            else:
                _middle(place, here, its_bias, added, there, more_step, out_step, depth, later)
        row += registers * LANES
