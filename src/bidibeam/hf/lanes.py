"""Products of 16 rows at once with a large matrix that is read where it lies, on one thread of a CPU.

The rows stand side by side in registers, one in each lane, so that a number of the matrix is read once for
all of them, in the order in which it lies; nothing is to be added up at the end, as it is with fewer rows
(`bidibeam.hf.inplace`), and only turned around. A row's last bits depend on whether it is one of the 16.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic

from bidibeam.compiling import compiled
from bidibeam.hf.machine import LANES, LONG, VECTOR, Emitter, pointer_to

COLUMNS, PLACES = 16, 4
"""Columns at once, and places of each that are read before the next column's."""


class _Code(Emitter):
    """The code of one block: 16 rows by 16 columns, plus a bias.

    Args:
        builder: LLVM's.
        arguments: Those of `_block_type`.
    """

    def __init__(self, builder: Any, arguments: Any) -> None:
        super().__init__(builder)
        self._rows, self._weight, self._bias, self._out = map(self.pointer, arguments[:4])
        self._out_step, self._depth, self._ahead = arguments[4:7]

    def run(self) -> None:
        """The code, from where the builder is."""
        build = self.build
        start = build.block
        loop, end = (build.function.append_basic_block(name) for name in ("lanes", "turned"))
        lines = [self.moved(self._weight, self._depth, column) for column in range(COLUMNS)]
        build.branch(loop)

        build.position_at_end(loop)
        place = build.phi(LONG)
        sums = [build.phi(VECTOR) for _ in lines]
        found = self._grown(lines, place, sums)
        self.once()
        after = build.add(place, LONG(PLACES))
        zeros = [ir.Constant(VECTOR, [0.0] * LANES)] * COLUMNS
        for phi, first, then in zip((place, *sums), (LONG(0), *zeros), (after, *found), strict=True):
            phi.add_incoming(first, start)
            phi.add_incoming(then, loop)
        build.cbranch(build.icmp_signed("<", after, self._depth), loop, end)

        build.position_at_end(end)
        bias = self.loaded(self._bias)
        everything = ir.Constant(ir.VectorType(ir.IntType(1), LANES), [1] * LANES)
        for row, numbers in enumerate(self._turned(found)):
            self.store(build.fadd(numbers, bias), self.moved(self._out, self._out_step, row), everything)

    def _grown(self, lines: list[Any], place: Any, sums: list[Any]) -> list[Any]:
        """The sums with the products of some places more."""
        build = self.build
        rows = build.gep(self._rows, [build.mul(place, LONG(LANES))])
        own = [self.loaded(build.gep(rows, [LONG(LANES * at)])) for at in range(PLACES)]
        later = build.gep(self._weight, [build.add(self._ahead, build.mul(place, LONG(COLUMNS)))])
        for at in range(PLACES):  # as many lines of a later block as there are in this one
            self.prefetch(build.gep(later, [LONG(COLUMNS * at)]))
        found = []
        for line, total in zip(lines, sums, strict=True):
            here = build.gep(line, [place])
            for at, numbers in enumerate(own):
                number = self.spread(build.load(build.gep(here, [LONG(at)])), VECTOR)
                total = self.called("llvm.fma.v16f32", numbers, number, total)
            found.append(total)
        return found

    def _turned(self, columns: list[Any]) -> list[Any]:
        """16 registers of a column each as 16 of a row each: halves change places, then quarters ..."""
        for size in (8, 4, 2, 1):
            turned = list(columns)
            for first in (number for number in range(LANES) if not number & size):
                one, other = columns[first], columns[first + size]
                lower = [lane if not lane & size else LANES + lane - size for lane in range(LANES)]
                upper = [lane + size if not lane & size else LANES + lane for lane in range(LANES)]
                turned[first], turned[first + size] = (
                    self.shuffled(one, other, lower),
                    self.shuffled(one, other, upper),
                )
            columns = turned
        return columns


def _block_type(  # pragma: no cover
    _context: Any,
    _rows: Any,
    _weight: Any,
    _bias: Any,
    _out: Any,
    _out_step: Any,
    _depth: Any,
    _ahead: Any,
) -> Any:
    """One block: addresses, the step from row to row in numbers, then how many."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        _Code(builder, arguments).run()
        return context.get_dummy_value()

    return numba.void(*[numba.int64] * 7), generate


write_lanes = intrinsic(_block_type)


@compiled
def side_by_side(rows: int, row_step: int, count: int, depth: int) -> Any:  # pragma: no cover
    """Rows, a multiple of 16, as `write_lanes` reads them: (groups of 16, depth, 16)."""
    lanes = np.empty((count // LANES, depth, LANES), np.float32)
    given = numba.carray(pointer_to(rows), (count * row_step,), np.float32)
    for row in range(count):
        for place in range(depth):
            lanes[row // LANES, place, row % LANES] = given[row * row_step + place]
    return lanes
