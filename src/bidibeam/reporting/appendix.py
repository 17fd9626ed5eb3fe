"""The end of a report: everything that is needed to compute the numbers again, and examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bidibeam.fields import flatten
from bidibeam.reporting.blocks import (
    Column,
    Examples,
    Section,
    Table,
    make_table,
    number_columns,
    text_columns,
)
from bidibeam.reporting.numbers import NOTHING, format_fixed, join_words, to_number, to_numbers
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, REWARDS
from bidibeam.text import format_value, spell_name

GRIDS = {"lambda_": LAMBDAS, "length_exponent": EXPONENTS, "word_reward": REWARDS, "T": PENALTIES}
EDGES = {name: tuple(end for end in (min(grid), max(grid)) if end) for name, grid in GRIDS.items()}
"""By setting, the ends of the values that tuning tries by itself; not 0, since nothing lies beyond it."""
DIRECTIONS = ("regular", "reverse")
LABEL = 70
"""Letters of a source in the list of examples."""
CELL, MARGIN = 12, 34
"""Pixels of a heat map: the side of a cell, and the room for labels."""
LEVELS, LIGHT, DARK, OUTLINE = 24, (247, 251, 255), (8, 48, 107), "#d55e00"
EVERY = 5
"""Every fifth row and column has its number beside it."""


def provenance(results: Results) -> Section | None:
    """Data, training, perplexities, tuned settings, all settings and signatures."""
    content, data = results.content, results.content.get("data") or {}
    about = {
        "corpus": results.corpus,
        "preset": content.get("preset"),
        "bidibeam": content.get("bidibeam"),
        "command": content.get("command"),
        "data fingerprint": data.get("fingerprint"),
        "vocabulary": data.get("vocabulary_size"),
        **{f"{split} pairs": count for split, count in (data.get("pairs") or {}).items()},
        "test sources answered": content.get("sources"),
        "openings of the test set": len(content.get("test_openings") or []) or None,
        "vectors": (content.get("settings") or {}).get("vectors"),
    }
    settings = {**(content.get("settings") or {}), "data": data.get("settings") or {}}
    signatures: dict[str, str] = {}
    for what, signature in (*_sign_systems(results), *_sign_scores(results)):
        if signature:
            signatures.setdefault(str(signature), what)
    known = [(name, format_value(value)) for name, value in about.items() if value not in (None, "")]
    flat = [(name, format_value(value)) for name, value in flatten(settings).items()]
    signed = [(what, signature) for signature, what in signatures.items()]
    tables = [
        make_table("Data and command", text_columns("fact", "value"), known),
        _make_seed_table("Training", "fact", results, "training", format_value),
        _make_seed_table(
            "Perplexity of the test references",
            "direction",
            results,
            "perplexity",
            lambda score: format_fixed(score["value"], 2) if isinstance(score, Mapping) else NOTHING,
        ),
        _make_tuned_table(results),
        make_table(
            "Every opening of the test set",
            text_columns("time", "what for"),
            [(each.get("time"), each.get("purpose")) for each in content.get("test_openings") or []],
            is_folded=True,
        ),
        make_table("All settings", text_columns("setting", "value"), flat, is_folded=True),
        make_table("What could not be made", text_columns("kind", "name", "why"), results.missing),
        make_table("Signatures", text_columns("of", "signature"), signed, is_folded=True),
    ]
    blocks = [table for table in tables if table.rows]
    return Section("provenance", "How the numbers were made", blocks) if blocks else None


def _make_seed_table(
    caption: str, head: str, results: Results, key: str, format_one: Callable[[Any], str]
) -> Table:
    """Makes a table of what is known of each seed, a column per seed."""
    found = [seed.get(key) or {} for seed in results.seeds]
    labels = [format_value(seed.get("seed", NOTHING)) for seed in results.seeds]
    values = number_columns(*labels, group="seed") if results.is_mean else [Column("value")]
    names = dict.fromkeys(name for one in found for name in one)
    rows = [[name, *(format_one(one.get(name, NOTHING)) for one in found)] for name in names]
    return make_table(caption, [*text_columns(head), *values], rows)


def _make_tuned_table(results: Results) -> Table:
    found = [seed.get("tuned") or {} for seed in results.seeds]
    settings = dict.fromkeys(
        (system, name)
        for one in found
        for by_system in one.values()
        for system, options in by_system.items()
        for name in options
    )
    rows, edges = [], defaultdict(list)  # the edges: at which N_B, by what is on one
    for size in sorted({size for one in found for size in one}, key=int):
        row = [size]
        for system, name in settings:
            values = [to_number((one[size].get(system) or {}).get(name)) for one in found if size in one]
            row.append("; ".join(NOTHING if value is None else f"{value:g}" for value in values))
            for value in dict.fromkeys(values):
                if value in EDGES.get(name, ()):
                    edges[f"{spell_name(name)} of {system} ({value:g})"].append(size)
        rows.append(row)
    notes = ["One value a seed, in their order."] if results.is_mean else []
    if edges:
        listed = "; ".join(f"{what} at N_B = {join_words(at)}" for what, at in edges.items())
        notes.append(f"On the edge of what was tried, so that the best value may lie beyond: {listed}.")
    columns = [Column("N_B"), *(Column(spell_name(name), system) for system, name in settings)]
    return make_table("Settings tuned on validation", columns, rows, notes)


def _sign_systems(results: Results) -> Iterator[tuple[str, str]]:
    listed = results.content.get("signatures") or {}
    yield from _merge_sizes((name, size, text) for name in listed for size, text in listed[name].items())
    for one in results.by_seed:
        of = f", seed {one.seeds[0].get('seed')}" if results.is_mean else ""
        entries = (
            (name, str(size), entry.get("signature"))
            for name in one.systems
            for size in one.sizes
            for entry in one.entries(name, size)
        )
        yield from ((f"{what}{of}", signature) for what, signature in _merge_sizes(entries))


def _merge_sizes(entries: Iterable[tuple[str, str, Any]]) -> Iterator[tuple[str, str]]:
    """Merges signatures of a system that differ only in N_B."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, size, signature in entries:
        if signature:
            parts = str(signature).split("|")
            common = "|".join(part for part in parts if part != f"beam_size:{size}")
            groups.setdefault((name, common), []).append((size, str(signature)))
    for (name, common), found in groups.items():
        sizes = [size for size, _ in found if size != str(NO_SIZE)]
        at = f", N_B = {join_words(sizes)}" if sizes else ""
        yield f"{name}{at}", found[0][1] if len(found) == 1 else common


def _sign_scores(results: Results) -> Iterator[tuple[str, Any]]:
    for seed in results.seeds:
        of = f", seed {seed.get('seed')}" if results.is_mean else ""
        for direction, score in (seed.get("perplexity") or {}).items():
            yield f"perplexity, {direction}{of}", score.get("signature")
        for entry in (entry for sizes in (seed.get("systems") or {}).values() for entry in sizes.values()):
            yield from ((metric, score.get("signature")) for metric, score in entry.get("scores", {}).items())
        for test in seed.get("tests") or ():
            yield f"test of {test.get('metric', 'bleu')}", test.get("signature")


def examples(results: Results) -> Section | None:
    """The examples of the first seed that has any, with both beams and the similarities of all pairs."""
    for seed in results.seeds:
        analysis = (seed.get("analyses") or {}).get("examples") or {}
        if analysis.get("examples"):
            found = [_make_example(one, number) for number, one in enumerate(analysis["examples"], start=1)]
            at = f" at N_B = {analysis['beam_size']}" if analysis.get("beam_size") else ""
            of = f" (seed {seed.get('seed')})" if results.is_mean else ""
            sentence = f"The {len(found)} sources on which the systems' replies differ most{at}{of}."
            return Section("examples", "Examples", [Examples(found)], sentence)
    return None


def _make_example(one: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Returns what the templates show: the beams' texts, best first, each with whether it won."""
    source = str(one.get("source", ""))
    pair, matrix = one.get("pair") or [], one.get("matrix") or []
    values = to_numbers(value for row in matrix for value in row)
    caption = ""
    if values:
        low, high = format_fixed(min(values), 3), format_fixed(max(values), 3)
        caption = (
            f"{one.get('similarity', 'similarity')}: white {low}, darkest {high}; outlined: the winning pair"
        )
    winners = dict(zip(DIRECTIONS, pair, strict=False))
    return {
        "label": f"{number}. {source if len(source) <= LABEL else f'{source[: LABEL - 1]}…'}",
        "source": source,
        "reference": str(one.get("reference") or ""),
        "replies": [(name, str(reply)) for name, reply in (one.get("replies") or {}).items()],
        "beams": [
            (side, [(str(text), winners.get(side) == rank) for rank, text in enumerate(one[side])])
            for side in DIRECTIONS
            if one.get(side)
        ],
        "heat_map": draw_heat_map(matrix, pair),
        "heat_map_caption": caption,
    }


def draw_heat_map(matrix: Sequence[Sequence[float | None]], pair: Sequence[int]) -> str:
    """Draws a matrix (regular, reverse) as an `svg` element, dark where it is high, the pair outlined."""
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
    paths = []
    for level in sorted(squares):
        shade = zip(LIGHT, DARK, strict=True)
        colour = "".join(f"{round(a + level / (LEVELS - 1) * (b - a)):02x}" for a, b in shade)
        paths.append(f'<path fill="#{colour}" d="{"".join(squares[level])}"/>')
    width, height = MARGIN + columns * CELL + 6, MARGIN + rows * CELL + 6
    outline = ""
    if len(pair) == 2 and 0 <= pair[0] < rows and 0 <= pair[1] < columns:
        left, top = MARGIN + pair[1] * CELL, MARGIN + pair[0] * CELL
        box = f'x="{left - 1}" y="{top - 1}" width="{CELL + 2}" height="{CELL + 2}" fill="none"'
        white = f'<rect {box} stroke="#fff" stroke-width="5"/>'
        outline = f'{white}<rect {box} stroke="{OUTLINE}" stroke-width="3"/>'
    return (
        f'<svg class="heat" xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="similarity of every pair">'
        f'<g transform="translate({MARGIN} {MARGIN}) scale({CELL})" shape-rendering="crispEdges">'
        f"{''.join(paths)}</g>{_draw_labels(rows, columns)}{outline}</svg>"
    )


def _draw_labels(rows: int, columns: int) -> str:
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
