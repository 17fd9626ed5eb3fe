"""The end of a report: everything that is needed to compute the numbers again, and examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bidibeam.evaluation.systems import AGREEING
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
from bidibeam.reporting.numbers import NOTHING, format_fixed, join_words, to_number
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.strategies.settings import DEFAULT_SIMILARITY
from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, REWARDS
from bidibeam.text import format_value, spell_name

GRIDS = {"lambda_": LAMBDAS, "length_exponent": EXPONENTS, "word_reward": REWARDS, "T": PENALTIES}
EDGES = {name: tuple(end for end in (min(grid), max(grid)) if end) for name, grid in GRIDS.items()}
"""By setting, the ends of the values that tuning tries by itself; not 0, since nothing lies beyond it."""
DIRECTIONS = ("regular", "reverse")
LABEL = 70
"""Letters of a source in the list of examples."""
NGRAMS = 4
"""The longest n-grams that examples are compared by."""


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
    """Returns what the templates show: a label, the replies, and the document of the explanation."""
    source = str(one.get("source", ""))
    replies = [(name, str(reply)) for name, reply in (one.get("replies") or {}).items()]
    return {
        "label": f"{number}. {source if len(source) <= LABEL else f'{source[: LABEL - 1]}…'}",
        "source": source,
        "reference": str(one.get("reference") or ""),
        "replies": replies,
        "document": _make_document(one, replies),
    }


def _make_document(one: Mapping[str, Any], replies: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Returns an example as the page of explanations takes it, with what results know of it.

    The system that chose by the pair answers; the others are marked where the two beams hold their replies.
    """
    beams = {side: _make_beam(one, side) for side in DIRECTIONS}
    pair = [place for place in one.get("pair") or () if isinstance(place, int)]
    is_pair = len(pair) == 2 and all(
        0 <= place < len(beams[side]) for side, place in zip(DIRECTIONS, pair, strict=True)
    )
    reply = beams["regular"][pair[0]]["text"] if is_pair else None
    system = next((name for name, text in replies if name == AGREEING and text == reply), None)
    choices = [
        {"system": name, "text": text, **(_choose(pair) if name == system else _find(text, beams))}
        for name, text in replies
    ]
    references = one.get("references") or [one.get("reference")]
    return {
        "source": str(one.get("source", "")),
        "references": [str(each) for each in references if each],
        "reply": reply if system else "",
        "system": system,
        **beams,
        "similarity": {
            "name": str(one.get("similarity", "similarity")),
            "matrix": _fill_matrix(one.get("matrix") or [], *(len(beams[side]) for side in DIRECTIONS)),
            "order": NGRAMS if "tokens" in one and one.get("similarity") == DEFAULT_SIMILARITY else None,
        },
        "choices": choices,
        "pair": pair if is_pair else None,
    }


def _make_beam(one: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    """Returns the hypotheses of one side; of older results the texts are all that is known."""
    known = {name: (one.get(name) or {}).get(side) or [] for name in ("tokens", "scores", "finished")}
    beam: list[dict[str, Any]] = [{"text": str(text), "score": None} for text in one.get(side) or []]
    for hypothesis, tokens in zip(beam, known["tokens"], strict=False):
        hypothesis["tokens"] = [str(token) for token in tokens]
    for hypothesis, score in zip(beam, known["scores"], strict=False):
        hypothesis["score"] = to_number(score)
    for hypothesis, is_finished in zip(beam, known["finished"], strict=False):
        hypothesis["finished"] = bool(is_finished)
    return beam


def _choose(pair: Sequence[int]) -> dict[str, Any]:
    return {"direction": "regular", "rank": pair[0] + 1, "partner": pair[1] + 1}


def _find(text: str, beams: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Returns where a reply stands first, if anywhere."""
    for side in DIRECTIONS:
        for rank, hypothesis in enumerate(beams[side], start=1):
            if hypothesis["text"] == text:
                return {"direction": side, "rank": rank, "partner": None}
    return {"direction": None, "rank": None, "partner": None}


def _fill_matrix(matrix: Sequence[Sequence[Any]], rows: int, columns: int) -> list[list[float]]:
    """Returns a matrix of this size, 0 where a value is missing or none."""
    filled = [[0.0] * columns for _ in range(rows)]
    for row, values in zip(filled, matrix, strict=False):
        row[:] = [to_number(value) or 0.0 for value in [*values, *row[len(values) :]][:columns]]
    return filled
