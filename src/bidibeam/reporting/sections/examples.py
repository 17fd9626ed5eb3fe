"""Sources on which the systems disagree most, to leaf through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bidibeam.reporting.blocks import Example, Examples, Section
from bidibeam.reporting.figures.agreement import heat_map
from bidibeam.reporting.numbers import fixed, joined, numbers
from bidibeam.reporting.results import Results

DIRECTIONS = ("regular", "reverse")
LABEL = 70
"""Letters of a source that a list shows."""


def examples(results: Results) -> Section | None:
    """The examples of the first seed that has some."""
    seeds = [
        seed for seed in results.seeds if ((seed.get("analyses") or {}).get("examples") or {}).get("examples")
    ]
    if not seeds:
        return None
    analysis = seeds[0]["analyses"]["examples"]
    found = analysis["examples"]
    several = f" (seed {seeds[0].get('seed')})" if len(results.seeds) > 1 else ""
    size = analysis.get("beam_size")
    at = f" at N_B = {size}" if size else ""
    sentences = [
        f"These are the {len(found)} sources on which the systems gave most different replies{at}{several}."
    ]
    made = [_example(one, number) for number, one in enumerate(found, start=1)]
    return Section("examples", "Examples", sentences, [_hinted(made)])


def _hinted(examples: Sequence[Example]) -> Examples:
    """The examples, with what the page and the document need to say of them."""
    page, document = "", ""
    if any(one.heat_map for one in examples):
        page = (
            "The picture shows how alike every regular hypothesis (rows) and every reverse one (columns) "
            "are; the winning pair is outlined there and bold in the lists."
        )
    block = Examples(examples)
    parts = []
    if len(examples) > block.first:
        parts.append(f"all {len(examples)}")
    if any(one.beams for one in examples):
        parts.append("both beams of each")
    if parts:
        first = f"The first {block.first} are here; " if len(examples) > block.first else ""
        document = f"{first}report.html has {joined(parts)}."
    return replace(block, page_hint=page, document_hint=document)


def _example(one: Mapping[str, Any], place: int) -> Example:
    source = str(one.get("source", ""))
    pair = one.get("pair") or []
    matrix = one.get("matrix") or []
    values = numbers(value for row in matrix for value in row)
    caption = ""
    if values:
        similarity = one.get("similarity", "similarity")
        caption = f"{similarity}: white {fixed(min(values), 3)}, darkest {fixed(max(values), 3)}"
    winners = dict(zip(DIRECTIONS, pair, strict=False))
    short = source if len(source) <= LABEL else f"{source[: LABEL - 1]}…"
    return Example(
        label=f"{place}. {short}",
        source=source,
        reference=str(one.get("reference") or ""),
        replies=[(name, str(reply)) for name, reply in (one.get("replies") or {}).items()],
        beams=[
            (
                direction,
                [(str(text), winners.get(direction) == index) for index, text in enumerate(one[direction])],
            )
            for direction in DIRECTIONS
            if one.get(direction)
        ],
        heat_map=heat_map(matrix, pair),
        heat_map_caption=caption,
    )
