"""Products of few rows on one thread of a CPU with a matrix that is read where it lies, row by row.

A linear layer keeps its weight as (out, in), so that each number of a product is a sum along a row of the
rows and one of the weight. As many such sums as registers allow grow at once, in all lanes, and are added
up at the end, which takes a part of the time. Where there are as many rows as a register
has lanes, they are read another way (`bidibeam.models.huggingface.lanes`). With AVX-512, tiles (`bidibeam.models.huggingface.tiles`) are
faster than both, but are a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba.extending import intrinsic
from torch import Tensor

from bidibeam.compiling import compiled
from bidibeam.models.huggingface.lanes import PLACES, side_by_side, write_lanes
from bidibeam.models.huggingface.machine import FLOAT, LANES, LONG, REGISTERS, VECTOR, Emitter

ROWS, COLUMNS = (5, 4) if REGISTERS == 32 else (3, 4)
"""Rows and columns at once: 20 or 12 registers for their sums, and some for what is read."""
NEAR_ROWS_BYTES, NEAR_BYTES = 30 << 10, 160 << 10
"""Rows that stay in the nearest cache while columns pass, and columns that stay in the next one."""
COPIED_BYTES = 4 << 20
"""Rows that are turned around at once, so that they stand side by side."""
AHEAD = 10
"""Blocks of columns that are asked for ahead."""
WIDE = 4096 if LANES == 16 else 64
"""Columns for which it pays to turn the rows around, so that `LANES` of them stand side by side."""

Array = np.ndarray[Any, np.dtype[Any]]

_FOUR = ir.VectorType(FLOAT, COLUMNS)


class _Code(Emitter):
    """The code of one block: each of up to `ROWS` rows by `COLUMNS` columns, plus a bias, plus a row of more.

    Args:
        builder: LLVM's.
        arguments: Those of `_block_type`.
    """

    def __init__(self, builder: Any, arguments: Any) -> None:
        super().__init__(builder)
        self._rows, self._weight, self._bias, self._more, self._out = map(self.pointer, arguments[:5])
        self._row_step, self._more_step, self._out_step, self._depth, left = arguments[5:10]
        last = builder.sub(left, LONG(1))
        steps = [
            builder.select(builder.icmp_signed("<", LONG(column), left), LONG(column), last)
            for column in range(COLUMNS)
        ]  # where there are fewer columns, the last one again
        self._lines = [builder.gep(self._weight, [builder.mul(step, self._depth)]) for step in steps]
        self._is_whole = builder.icmp_signed(">=", left, LONG(COLUMNS))
        self._is_column = self.is_below(COLUMNS, left)
        self._whole = builder.and_(self._depth, LONG(-LANES))
        self._is_rest = self.is_below(LANES, builder.sub(self._depth, self._whole))

    def write(self, count: int, start: Any, done: Any) -> None:
        """That of `count` rows, from one block of code to another."""
        build = self.build
        names = ("check", "loop", "rest", "more", "end")
        check, loop, rest, more, end = (build.function.append_basic_block(f"{name}{count}") for name in names)
        build.position_at_end(start)
        rows = [self.moved(self._rows, self._row_step, row) for row in range(count)]
        zeros = [ir.Constant(VECTOR, [0.0] * LANES)] * (count * COLUMNS)
        build.branch(check)
        build.position_at_end(check)
        build.cbranch(build.icmp_signed(">", self._whole, LONG(0)), loop, rest)

        build.position_at_end(loop)
        place = build.phi(LONG)
        sums = [build.phi(VECTOR) for _ in zeros]
        found = self._grown(rows, place, sums, None)
        self.once()
        after = build.add(place, LONG(LANES))
        for phi, first, then in zip((place, *sums), (LONG(0), *zeros), (after, *found), strict=True):
            phi.add_incoming(first, check)
            phi.add_incoming(then, loop)
        build.cbranch(build.icmp_signed("<", after, self._whole), loop, rest)

        build.position_at_end(rest)
        so_far = [build.phi(VECTOR) for _ in zeros]
        for phi, first, then in zip(so_far, zeros, found, strict=True):
            phi.add_incoming(first, check)
            phi.add_incoming(then, loop)
        build.cbranch(build.icmp_signed("<", self._whole, self._depth), more, end)

        build.position_at_end(more)
        grown = self._grown(rows, self._whole, so_far, self._is_rest)
        build.branch(end)

        build.position_at_end(end)
        totals = [build.phi(VECTOR) for _ in zeros]
        for phi, first, then in zip(totals, so_far, grown, strict=True):
            phi.add_incoming(first, rest)
            phi.add_incoming(then, more)
        found = self._added_up(totals, count)
        whole, part = (build.function.append_basic_block(f"{name}{count}") for name in ("whole", "part"))
        build.cbranch(self._is_whole, whole, part)
        for block, mask in ((whole, None), (part, self._is_column)):  # some processors are slow with masks
            build.position_at_end(block)
            self._finish(found, mask)
            build.branch(done)

    def _grown(self, rows: list[Any], place: Any, sums: list[Any], mask: Any) -> list[Any]:
        """The sums with the products of a register's places more, or of those of a mask."""
        build = self.build
        own = [self.loaded(build.gep(line, [place]), mask) for line in rows]
        found = list(sums)
        for number, line in enumerate(self._lines):  # all of them at once are too many registers
            column = self.loaded(build.gep(line, [place]), mask)
            for row, numbers in enumerate(own):
                total = row * COLUMNS + number
                found[total] = self.grown(found[total], numbers, column)
        return found

    def _added_up(self, sums: list[Any], count: int) -> list[Any]:
        """Each row's totals, (columns,): halves of registers are added, until each sum is one number.

        All rows go the same way, whichever others there are, so that the order of the additions is the same.
        """
        each = LANES // COLUMNS  # rows whose totals one register holds in the end
        numbers, size = sums + sums[-COLUMNS:] * (-count % each), LANES
        while size > 1:
            numbers = [self._paired(numbers[at : at + 2], size) for at in range(0, len(numbers), 2)]
            size //= 2
        found = []
        for row in range(count):
            held, first = numbers[row // each], row % each * COLUMNS
            found.append(self.shuffled(held, held, range(first, first + COLUMNS)))
        return found

    def _paired(self, both: list[Any], size: int) -> Any:
        """Two registers of groups of a size as one of groups of half the size: their halves added."""
        (one, other), half = both, size // 2
        lower = [group + place for group in range(0, 2 * LANES, size) for place in range(half)]
        return self.build.fadd(
            self.shuffled(one, other, lower), self.shuffled(one, other, [place + half for place in lower])
        )

    def _finish(self, totals: list[Any], mask: Any) -> None:
        """Add what is to be added to each row, and write its columns, or those of a mask."""
        bias = self.loaded(self._bias, mask, _FOUR)
        for row, total in enumerate(totals):
            more = self.loaded(self.moved(self._more, self._more_step, row), mask, _FOUR)
            summed = self.build.fadd(self.build.fadd(total, bias), more)
            self.store(summed, self.moved(self._out, self._out_step, row), mask)


def _block_type(  # pragma: no cover
    _context: Any,
    _rows: Any,
    _weight: Any,
    _bias: Any,
    _more: Any,
    _out: Any,
    _row_step: Any,
    _more_step: Any,
    _out_step: Any,
    _depth: Any,
    _left: Any,
    _count: Any,
) -> Any:
    """One block: addresses, steps from row to row in numbers, then how many."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        code = _Code(builder, arguments)
        code.for_each_count(arguments[10], ROWS, code.write)
        return context.get_dummy_value()

    return numba.void(*[numba.int64] * 11), generate


_write_block = intrinsic(_block_type)


@compiled
def _add_up(
    rows: int,
    weight: int,
    bias: int,
    more: int,
    out: int,
    row_step: int,
    bias_step: int,
    more_step: int,
    out_step: int,
    count: int,
    depth: int,
    width: int,
) -> None:  # pragma: no cover
    """Some rows by some columns of one matrix: addresses, steps in numbers, then how many."""
    parts = min(count, -(-4 * count * depth // NEAR_ROWS_BYTES))  # a row may be larger than that
    for part in range(parts):
        first, last = count * part // parts, count * (part + 1) // parts
        groups = -(-(last - first) // ROWS)
        size, larger = (last - first) // groups, (last - first) % groups
        for column in range(0, width, COLUMNS):
            begin = first
            for group in range(groups):
                here = size + 1 if group < larger else size
                _write_block(
                    rows + 4 * begin * row_step,
                    weight + 4 * column * depth,
                    bias + 4 * column * bias_step,
                    more + 4 * (begin * more_step + column) if more_step else more,
                    out + 4 * (begin * out_step + column),
                    row_step,
                    more_step,
                    out_step,
                    depth,
                    width - column,
                    here,
                )
                begin += here


@compiled
def _multiply(
    rows: int,
    parts: Array,
    more: int,
    out: int,
    row_step: int,
    more_step: int,
    out_step: int,
    count: int,
    depth: int,
) -> None:  # pragma: no cover
    """All rows by all columns of some matrices; addresses, steps from row to row in numbers, then how many.

    Of each matrix, `parts` has its address, that of its bias, the step from bias to bias in numbers, and how
    many columns it has, which are written side by side. Where a step is 0, there are `LANES` zeros.
    """
    near = max(LANES, NEAR_BYTES // (4 * depth) // LANES * LANES)
    abreast = count // LANES * LANES if parts[:, 3].max() >= WIDE and depth % PLACES == 0 else 0
    lanes = side_by_side(rows, row_step, abreast, depth)
    before = 0
    for part in range(len(parts)):
        weight, bias, bias_step, width = parts[part]
        beside = abreast if width >= WIDE else 0
        for start in range(0, width, near):
            columns = min(near, width - start)
            whole = columns // LANES * LANES if beside else 0
            here, its_bias = weight + 4 * start * depth, bias + 4 * start * bias_step
            added, there = more + 4 * (before + start) if more_step else more, out + 4 * (before + start)
            write_lanes(
                lanes.ctypes.data,
                here,
                its_bias,
                added,
                there,
                bias_step,
                more_step,
                out_step,
                beside,
                whole,
                depth,
                AHEAD * LANES * depth,
            )
            for first, begin, end in ((beside, 0, whole), (0, whole, columns)):
                if first < count and begin < end:
                    _add_up(
                        rows + 4 * first * row_step,
                        here + 4 * begin * depth,
                        its_bias + 4 * begin * bias_step,
                        added + 4 * (first * more_step + begin) if more_step else added,
                        there + 4 * (first * out_step + begin),
                        row_step,
                        bias_step,
                        more_step,
                        out_step,
                        count - first,
                        depth,
                        end - begin,
                    )
        before += width


@compiled
def multiply_in_place(
    rows: int,
    parts: Array,
    more: int,
    out: int,
    row_step: int,
    more_step: int,
    out_step: int,
    count: int,
    depth: int,
) -> None:  # pragma: no cover
    """The same for as many rows at a time as may stand side by side, which is a copy."""
    most = max(LANES, COPIED_BYTES // (4 * depth) // LANES * LANES)
    for first in range(0, count, most):
        _multiply(
            rows + 4 * first * row_step,
            parts,
            more + 4 * first * more_step,
            out + 4 * first * out_step,
            row_step,
            more_step,
            out_step,
            min(most, count - first),
            depth,
        )


_NOTHING = torch.zeros(LANES, dtype=torch.float32, device="cpu")


class InPlace:
    """Matrices that read the same rows, as linear layers have them.

    Attributes:
        width: How many columns they have together.

    Args:
        parts: Weights, (out, in), float32 on a CPU, contiguous, and biases, (out,), contiguous, or None.
    """

    __slots__ = ("_depth", "_kept", "_parts", "width")

    def __init__(self, parts: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        for weight, bias in parts:
            if not _are_numbers(weight) or weight.shape[1] != parts[0][0].shape[1]:
                raise ValueError(f"{weight.dtype} of {tuple(weight.shape)}, strides {weight.stride()}")
            if bias is not None and (not _are_numbers(bias) or bias.shape != (len(weight),)):
                raise ValueError(f"{bias.dtype} of {tuple(bias.shape)}, strides {bias.stride()}")
        self._kept = tuple(parts)  # an address keeps nothing alive
        self._depth = parts[0][0].shape[1]
        self.width = sum(len(weight) for weight, _ in parts)
        self._parts = np.array(
            [
                (
                    weight.data_ptr(),
                    (_NOTHING if bias is None else bias).data_ptr(),
                    bias is not None,
                    len(weight),
                )
                for weight, bias in parts
            ],
            np.int64,
        )

    def times(self, rows: Tensor, out: Tensor, more: Tensor | None = None) -> Tensor:
        """Rows times the matrices, plus biases, plus as many rows more, side by side, written to `out`.

        Args:
            rows: (rows, in), float32 on a CPU, as are all.
            out: (rows, out), each row contiguous; nothing that is read.
            more: (rows, out), each row contiguous.
        """
        count, depth = rows.shape
        if depth != self._depth or out.shape != (count, self.width) or rows.dtype != torch.float32:
            raise ValueError(
                f"{tuple(rows.shape)} by {self._depth, self.width} is not {tuple(out.shape)}, float32"
            )
        if more is not None and (more.shape != out.shape or more.dtype != torch.float32):
            raise ValueError(f"{tuple(more.shape)}, {more.dtype}, is not {tuple(out.shape)}, float32")
        row_step, out_step = depth, self.width
        if not rows.is_contiguous():
            row_step, place = rows.stride()
            if place != 1:
                rows, row_step = rows.contiguous(), depth
        if not out.is_contiguous():
            out_step, place = out.stride()
            if place != 1:
                raise ValueError(f"to strides {out.stride()}")
        if more is None:
            more, more_step = _NOTHING, 0
        elif more.is_contiguous():
            more_step = self.width
        else:
            more_step, place = more.stride()
            if place != 1 or not more_step:
                more, more_step = more.contiguous(), self.width
        multiply_in_place(
            rows.data_ptr(),
            self._parts,
            more.data_ptr(),
            out.data_ptr(),
            row_step,
            more_step,
            out_step,
            count,
            depth,
        )
        return out


def _are_numbers(tensor: Tensor) -> bool:
    """Whether numbers are as a kernel reads them, one behind the other."""
    return tensor.dtype == torch.float32 and tensor.is_cpu and tensor.is_contiguous()
