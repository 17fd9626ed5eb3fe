"""All that is needed to make the numbers again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bidibeam.reporting.blocks import Block, Column, Section, Table, text_column
from bidibeam.reporting.numbers import NOTHING, fixed, joined, mean, number, plain
from bidibeam.reporting.results import NO_SIZE, Results


def provenance(results: Results) -> Section | None:
    """Training, perplexities, tuned settings, data, settings and signatures."""
    tables = [
        _facts(results),
        _training(results),
        _perplexity(results),
        _tuned(results),
        _settings(results),
        _left_out(results),
        _signatures(results),
    ]
    blocks: list[Block] = [table for table in tables if table is not None and table.rows]
    if not blocks:
        return None
    return Section("provenance", "How the numbers were made", _sentences(results), blocks)


def _sentences(results: Results) -> list[str]:
    values: dict[str, list[Any]] = {}
    for seed in results.seeds:
        for direction, score in (seed.get("perplexity") or {}).items():
            values.setdefault(direction, []).append(score.get("value"))
    parts = [f"{fixed(mean(found), 1)} ({direction})" for direction, found in values.items()]
    several = ", means over seeds" if len(results.seeds) > 1 else ""
    return [f"The perplexity of the test references is {joined(parts)}{several}."] if parts else []


def _columns(results: Results, first: str) -> list[Column]:
    """A column of names and one for each seed."""
    if len(results.seeds) == 1:
        return [text_column(first), Column("value")]
    return [text_column(first), *(Column(plain(seed.get("seed", NOTHING)), "seed") for seed in results.seeds)]


def _facts(results: Results) -> Table | None:
    content = results.content
    data = content.get("data") or {}
    pairs = data.get("pairs") or {}
    facts = {
        "corpus": results.corpus,
        "preset": content.get("preset"),
        "bidibeam": content.get("bidibeam"),
        "command": content.get("command"),
        "data fingerprint": data.get("fingerprint"),
        "vocabulary": data.get("vocabulary_size"),
        **{f"{split} pairs": count for split, count in pairs.items()},
        "test sources answered": content.get("sources"),
        "vectors": (content.get("settings") or {}).get("vectors"),
    }
    rows = [[name, plain(value)] for name, value in facts.items() if value not in (None, "")]
    return Table("Data and command", [text_column("fact"), text_column("value")], rows)


def _training(results: Results) -> Table | None:
    names = dict.fromkeys(name for seed in results.seeds for name in seed.get("training") or {})
    rows = [
        [name, *(plain((seed.get("training") or {}).get(name, NOTHING)) for seed in results.seeds)]
        for name in names
    ]
    return Table("Training", _columns(results, "fact"), rows)


def _perplexity(results: Results) -> Table | None:
    found = [seed.get("perplexity") or {} for seed in results.seeds]
    names = dict.fromkeys(name for one in found for name in one)
    rows = [[name, *(fixed((one.get(name) or {}).get("value"), 2) for one in found)] for name in names]
    return Table("Perplexity of the test references", _columns(results, "direction"), rows)


def _tuned(results: Results) -> Table | None:
    found = [seed.get("tuned") or {} for seed in results.seeds]
    sizes = sorted({size for one in found for size in one}, key=int)
    settings = dict.fromkeys(
        (system, name)
        for one in found
        for size in one
        for system, options in one[size].items()
        for name in options
    )
    columns = [
        Column("N_B"),
        *(Column(name.rstrip("_").replace("_", " "), system) for system, name in settings),
    ]
    rows = [
        [
            size,
            *(
                "; ".join(_option(one, size, system, name) for one in found if size in one)
                for system, name in settings
            ),
        ]
        for size in sizes
    ]
    notes = ["One value a seed, in their order."] if len(found) > 1 else []
    return Table("Settings tuned on validation", columns, rows, notes)


def _option(tuned: Mapping[str, Any], size: str, system: str, name: str) -> str:
    value = (tuned[size].get(system) or {}).get(name)
    return NOTHING if number(value) is None else f"{value:g}"


def _settings(results: Results) -> Table | None:
    settings = results.content.get("settings") or {}
    rows = [
        [name, plain(value)]
        for name, value in _flat(
            {**settings, "data": (results.content.get("data") or {}).get("settings") or {}}
        )
    ]
    return Table("All settings", [text_column("setting"), text_column("value")], rows, is_folded=True)


def _flat(mapping: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _left_out(results: Results) -> Table | None:
    rows = [[name, reason] for name, reason in results.left_out.items()]
    return Table("Analyses that could not be made", [text_column("analysis"), text_column("why")], rows)


def _signatures(results: Results) -> Table | None:
    """Every signature once, with the first thing that has it."""
    found: dict[str, str] = {}
    for what, signature in _signed(results):
        if signature:
            found.setdefault(str(signature), what)
    rows = [[what, signature] for signature, what in found.items()]
    return Table("Signatures", [text_column("of"), text_column("signature")], rows, is_folded=True)


def _signed(results: Results) -> Iterator[tuple[str, Any]]:
    for name, sizes in (results.content.get("signatures") or {}).items():
        for size, signature in sizes.items():
            yield f"{name}, N_B = {size}", signature
    several = len(results.seeds) > 1
    for seed in results.seeds:
        of = f", seed {seed.get('seed')}" if several else ""
        for direction, score in (seed.get("perplexity") or {}).items():
            yield f"perplexity, {direction}{of}", score.get("signature")
        alone = Results(results.content, [seed])
        for size in reversed(alone.sizes):
            at = "" if size == NO_SIZE else f", N_B = {size}"
            for name in alone.systems:
                for entry in alone.entries(name, size):
                    yield f"{name}{at}{of}", entry.get("signature")
                    yield from (
                        (metric, one.get("signature")) for metric, one in entry.get("scores", {}).items()
                    )
        for test in seed.get("tests") or ():
            yield f"test of {test.get('metric', 'bleu')}", test.get("signature")
