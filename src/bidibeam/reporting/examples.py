"""Sources on which the systems disagree most, with both beams and the similarities of all pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bidibeam.reporting.blocks import Example, Examples, Section
from bidibeam.reporting.numbers import format_fixed, join_words, to_number, to_numbers
from bidibeam.reporting.results import Results

DIRECTIONS = ("regular", "reverse")
LABEL = 70
"""Letters of a source in the list of examples."""
CELL, MARGIN = 12, 34
LEVELS = 24
LIGHT, DARK, OUTLINE = (247, 251, 255), (8, 48, 107), "#d55e00"
EVERY = 5
"""Every fifth row and column has its number beside it."""


def examples(results: Results) -> Section | None:
    """The examples of the first seed that has any."""
    seeds = [
        (seed, analysis)
        for seed in results.seeds
        if (analysis := (seed.get("analyses") or {}).get("examples") or {}).get("examples")
    ]
    if not seeds:
        return None
    seed, analysis = seeds[0]
    found = [_example(one, number) for number, one in enumerate(analysis["examples"], start=1)]
    several = f" (seed {seed.get('seed')})" if len(results.seeds) > 1 else ""
    size = analysis.get("beam_size")
    at = f" at N_B = {size}" if size else ""
    sentence = (
        f"These are the {len(found)} sources on which the systems gave most different replies{at}{several}."
    )
    page = (
        "The picture shows the similarity of every regular hypothesis (rows) to every reverse one (columns); "
        "the winning pair is outlined there and bold in the lists."
    )
    first = Examples.first
    more = [f"all {len(found)}"] if len(found) > first else []
    more += ["both beams of each"] if any(one.beams for one in found) else []
    here = f"The first {first} are here; " if len(found) > first else ""
    block = Examples(
        found,
        page_hint=page if any(one.heat_map for one in found) else "",
        document_hint=f"{here}report.html has {join_words(more)}." if more else "",
    )
    return Section("examples", "Examples", [block], [sentence])


def _example(one: Mapping[str, Any], place: int) -> Example:
    source = str(one.get("source", ""))
    pair, matrix = one.get("pair") or [], one.get("matrix") or []
    values = to_numbers(value for row in matrix for value in row)
    caption = ""
    if values:
        low, high = format_fixed(min(values), 3), format_fixed(max(values), 3)
        caption = f"{one.get('similarity', 'similarity')}: white {low}, darkest {high}"
    winners = dict(zip(DIRECTIONS, pair, strict=False))
    return Example(
        label=f"{place}. {source if len(source) <= LABEL else f'{source[: LABEL - 1]}…'}",
        source=source,
        reference=str(one.get("reference") or ""),
        replies=[(name, str(reply)) for name, reply in (one.get("replies") or {}).items()],
        beams=[
            (
                direction,
                [(str(text), winners.get(direction) == rank) for rank, text in enumerate(one[direction])],
            )
            for direction in DIRECTIONS
            if one.get(direction)
        ],
        heat_map=draw_heat_map(matrix, pair),
        heat_map_caption=caption,
    )


def draw_heat_map(matrix: Sequence[Sequence[float | None]], pair: Sequence[int]) -> str:
    """Draws a matrix as SVG, dark where it is high, with the winning pair outlined.

    Args:
        matrix: A row per regular hypothesis, a column per reverse one.
        pair: Row and column of the winning pair, from 0; empty if there is none.

    Returns:
        An `svg` element; empty for an empty matrix.
    """
    values = [[to_number(value) for value in row] for row in matrix]
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
        f"{_labels(rows, columns)}{_outline(pair, rows, columns)}</svg>"
    )


def _colour(level: int) -> str:
    part = level / (LEVELS - 1)
    return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in zip(LIGHT, DARK, strict=True))


def _labels(rows: int, columns: int) -> str:
    """The names of the sides, and the numbers of rows and columns."""
    x, y = MARGIN + columns * CELL / 2, MARGIN + rows * CELL / 2
    texts = [
        f'<text x="{x:g}" y="11" text-anchor="middle">reverse</text>',
        f'<text transform="translate(11 {y:g}) rotate(-90)" text-anchor="middle">regular</text>',
    ]
    for column in (1, *range(EVERY, columns + 1, EVERY)):
        x = MARGIN + (column - 0.5) * CELL
        texts.append(f'<text x="{x:g}" y="{MARGIN - 5}" text-anchor="middle">{column}</text>')
    for row in (1, *range(EVERY, rows + 1, EVERY)):
        y = MARGIN + (row - 0.5) * CELL + 4
        texts.append(f'<text x="{MARGIN - 4}" y="{y:g}" text-anchor="end">{row}</text>')
    return f'<g font-size="11" font-family="sans-serif">{"".join(texts)}</g>'


def _outline(pair: Sequence[int], rows: int, columns: int) -> str:
    if len(pair) != 2 or not (0 <= pair[0] < rows and 0 <= pair[1] < columns):
        return ""
    x, y = MARGIN + pair[1] * CELL, MARGIN + pair[0] * CELL
    box = f'x="{x - 1}" y="{y - 1}" width="{CELL + 2}" height="{CELL + 2}" fill="none"'
    return f'<rect {box} stroke="#fff" stroke-width="5"/><rect {box} stroke="{OUTLINE}" stroke-width="3"/>'
