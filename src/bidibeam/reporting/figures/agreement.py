"""A matrix of similarities as a picture of squares, written by hand: small, and sharp at any size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bidibeam.reporting.numbers import number

CELL = 12
MARGIN = 34
LEVELS = 24
LIGHT, DARK = (247, 251, 255), (8, 48, 107)
OUTLINE = "#d55e00"
EVERY = 5
"""Which rows and columns have their number beside them."""


def heat_map(matrix: Sequence[Sequence[float | None]], pair: Sequence[int]) -> str:
    """Draw a matrix as SVG, dark where it is high, the winning pair outlined.

    Args:
        matrix: A row for each regular hypothesis, a column for each reverse one.
        pair: Row and column of the winning pair, from 0; empty if there is none.

    Returns:
        An `svg` element; empty for an empty matrix.
    """
    values = [[number(value) for value in row] for row in matrix]
    known = [value for row in values for value in row if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    rows, columns = len(values), max(map(len, values))
    squares: dict[int, list[str]] = defaultdict(list)
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            if value is not None:
                level = round((LEVELS - 1) * (value - low) / (high - low)) if high > low else 0
                squares[level].append(f"M{x} {y}h1v1h-1z")
    width, height = MARGIN + columns * CELL + 6, MARGIN + rows * CELL + 6
    paths = "".join(
        f'<path fill="{_colour(level)}" d="{"".join(squares[level])}"/>' for level in sorted(squares)
    )
    return (
        f'<svg class="heat" xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="similarity of every pair">'
        f'<g transform="translate({MARGIN} {MARGIN}) scale({CELL})" shape-rendering="crispEdges">{paths}</g>'
        f"{_numbers(rows, columns)}{_outline(pair, rows, columns)}</svg>"
    )


def _colour(level: int) -> str:
    part = level / (LEVELS - 1)
    return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in zip(LIGHT, DARK, strict=True))


def _numbers(rows: int, columns: int) -> str:
    """What the sides are, and the number of every fifth row and column."""
    x, y = MARGIN + columns * CELL / 2, MARGIN + rows * CELL / 2
    texts = [
        f'<text x="{x:g}" y="11" text-anchor="middle">reverse</text>',
        f'<text transform="translate(11 {y:g}) rotate(-90)" text-anchor="middle">regular</text>',
    ]
    for index in _numbered(columns):
        x = MARGIN + (index - 0.5) * CELL
        texts.append(f'<text x="{x:g}" y="{MARGIN - 5}" text-anchor="middle">{index}</text>')
    for index in _numbered(rows):
        y = MARGIN + (index - 0.5) * CELL + 4
        texts.append(f'<text x="{MARGIN - 4}" y="{y:g}" text-anchor="end">{index}</text>')
    return f'<g font-size="11" font-family="sans-serif">{"".join(texts)}</g>'


def _numbered(count: int) -> list[int]:
    return [1, *range(EVERY, count + 1, EVERY)]


def _outline(pair: Sequence[int], rows: int, columns: int) -> str:
    if len(pair) != 2 or not (0 <= pair[0] < rows and 0 <= pair[1] < columns):
        return ""
    x, y = MARGIN + pair[1] * CELL, MARGIN + pair[0] * CELL
    side = f'x="{x - 1}" y="{y - 1}" width="{CELL + 2}" height="{CELL + 2}" fill="none"'
    return f'<rect {side} stroke="#fff" stroke-width="5"/><rect {side} stroke="{OUTLINE}" stroke-width="3"/>'
