"""What stands first, read from the left and from the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bidibeam.reporting.blocks import Column, Picture, Section, Table, text_column
from bidibeam.reporting.figures.positions import draw_positions
from bidibeam.reporting.numbers import fixed, plain
from bidibeam.reporting.paper import POSITIONS
from bidibeam.reporting.results import Results

SIDES = {"left": "regular", "right": "reverse"}
NAMED = 8


def positions(results: Results) -> Section | None:
    """Word frequency by position."""
    found = results.positions
    sides: Mapping[str, Sequence[Mapping[str, Any]]] = (found or {}).get("from", {})
    rows = {side: sides[side] for side in SIDES if sides.get(side)}
    if found is None or not rows:
        return None
    panels = {
        side: [(one["position"], one["words"], one["counts"], one["above_1000"]) for one in row]
        for side, row in rows.items()
    }
    shown = found.get("words_shown", 50)
    pairs = f" in {plain(found['pairs'])} replies" if "pairs" in found else ""
    caption = f"Counts of the {shown} commonest words by position{pairs}; the dotted line is at 1,000."
    sentences = [_sentence(rows)]
    if results.corpus in POSITIONS:
        sentences.append(POSITIONS[results.corpus])
    picture = Picture("positions", caption, partial(draw_positions, panels))
    return Section("positions", "Words by position", sentences, [picture, _table(rows)])


def _sentence(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    parts = []
    for side, (first, *_) in rows.items():
        entropy = f"{fixed(first['entropy_bits'], 1)} bits of entropy"
        parts.append(
            f"{first['above_1000']:,} words appear more than 1,000 times at position {first['position']} "
            f"from the {side}, where the {SIDES[side]} direction begins ({entropy})"
        )
    return "; ".join(parts) + "."


def _table(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    columns = [
        text_column("from"),
        Column("position"),
        Column("different words"),
        Column("entropy (bits)"),
        Column("above 1,000"),
        text_column("commonest"),
    ]
    cells = [
        [
            side,
            plain(one["position"]),
            plain(one["different"]),
            fixed(one["entropy_bits"], 2),
            plain(one["above_1000"]),
            " ".join(one["words"][:NAMED]),
        ]
        for side, row in rows.items()
        for one in row
    ]
    return Table("Words at the first positions", columns, cells)
