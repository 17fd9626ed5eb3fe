"""Everything that is needed to compute the numbers again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bidibeam.reporting.blocks import Block, Column, Section, Table, text_column
from bidibeam.reporting.numbers import NOTHING, format_fixed, format_value, join_words, to_number
from bidibeam.reporting.results import NO_SIZE, Results

EDGES = {"lambda_": (10.0,), "length_exponent": (4.0,), "word_reward": (4.0,), "T": (2.0, 60.0)}
"""By setting, the ends of the values that tuning tries by itself; not 0, since nothing lies beyond it."""


def provenance(results: Results) -> Section | None:
    """Data, training, perplexities, tuned settings, all settings and signatures."""
    tables = [
        _data_table(results),
        *_seed_tables(results),
        _tuned_table(results),
        _settings_table(results),
        Table("What could not be made", [*map(text_column, ("kind", "name", "why"))], results.missing),
        _signatures_table(results),
    ]
    blocks: list[Block] = [table for table in tables if table.rows]
    return Section("provenance", "How the numbers were made", blocks) if blocks else None


def _data_table(results: Results) -> Table:
    content = results.content
    data = content.get("data") or {}
    facts = {
        "corpus": results.corpus,
        "preset": content.get("preset"),
        "bidibeam": content.get("bidibeam"),
        "command": content.get("command"),
        "data fingerprint": data.get("fingerprint"),
        "vocabulary": data.get("vocabulary_size"),
        **{f"{split} pairs": count for split, count in (data.get("pairs") or {}).items()},
        "test sources answered": content.get("sources"),
        "vectors": (content.get("settings") or {}).get("vectors"),
    }
    rows = [[name, format_value(value)] for name, value in facts.items() if value not in (None, "")]
    return Table("Data and command", [text_column("fact"), text_column("value")], rows)


def _seed_tables(results: Results) -> list[Table]:
    """Training and perplexity, a column per seed."""
    if len(results.seeds) == 1:
        columns = [Column("value")]
    else:
        columns = [Column(format_value(seed.get("seed", NOTHING)), "seed") for seed in results.seeds]
    training = [seed.get("training") or {} for seed in results.seeds]
    perplexity = [seed.get("perplexity") or {} for seed in results.seeds]
    facts = [
        [name, *(format_value(one.get(name, NOTHING)) for one in training)]
        for name in dict.fromkeys(name for one in training for name in one)
    ]
    values = [
        [name, *(format_fixed((one.get(name) or {}).get("value"), 2) for one in perplexity)]
        for name in dict.fromkeys(name for one in perplexity for name in one)
    ]
    return [
        Table("Training", [text_column("fact"), *columns], facts),
        Table("Perplexity of the test references", [text_column("direction"), *columns], values),
    ]


def _tuned_table(results: Results) -> Table:
    found = [seed.get("tuned") or {} for seed in results.seeds]
    sizes = sorted({size for one in found for size in one}, key=int)
    settings = dict.fromkeys(
        (system, name)
        for one in found
        for by_system in one.values()
        for system, options in by_system.items()
        for name in options
    )
    rows = []
    for size in sizes:
        tuned = [one[size] for one in found if size in one]
        values = [[(one.get(system) or {}).get(name) for one in tuned] for system, name in settings]
        rows.append([size, *("; ".join(map(_format_setting, of_seeds)) for of_seeds in values)])
    columns = [Column("N_B"), *(Column(_spell(name), system) for system, name in settings)]
    notes = ["One value a seed, in their order."] if len(found) > 1 else []
    return Table("Settings tuned on validation", columns, rows, [*notes, *_edge_notes(found, sizes)])


def _spell(name: str) -> str:
    return name.rstrip("_").replace("_", " ")


def _format_setting(value: Any) -> str:
    return NOTHING if to_number(value) is None else f"{value:g}"


def _edge_notes(found: Sequence[Mapping[str, Any]], sizes: Sequence[str]) -> list[str]:
    """Names the tuned values that are the last that were tried."""
    places: dict[str, list[str]] = {}
    for size in sizes:
        tuned = dict.fromkeys(
            (system, name, to_number(value))
            for one in found
            for system, options in (one.get(size) or {}).items()
            for name, value in options.items()
        )
        for system, name, number in tuned:
            if number in EDGES.get(name, ()):
                places.setdefault(f"{_spell(name)} of {system} ({number:g})", []).append(size)
    listed = "; ".join(f"{what} at N_B = {join_words(at)}" for what, at in places.items())
    beginning = "On the edge of what was tried, so that the best value may lie beyond"
    return [f"{beginning}: {listed}."] if places else []


def _settings_table(results: Results) -> Table:
    settings = dict(results.content.get("settings") or {})
    settings["data"] = (results.content.get("data") or {}).get("settings") or {}
    rows = [[name, format_value(value)] for name, value in _flatten(settings)]
    return Table("All settings", [text_column("setting"), text_column("value")], rows, is_folded=True)


def _flatten(mapping: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _signatures_table(results: Results) -> Table:
    """Every signature once, with the first thing that has it; those that differ only in N_B are one."""
    found: dict[str, str] = {}
    for what, signature in (*_system_signatures(results), *_score_signatures(results)):
        if signature:
            found.setdefault(str(signature), what)
    rows = [[what, signature] for signature, what in found.items()]
    return Table("Signatures", [text_column("of"), text_column("signature")], rows, is_folded=True)


def _system_signatures(results: Results) -> Iterator[tuple[str, str]]:
    listed = results.content.get("signatures") or {}
    yield from _merge_sizes(
        (name, size, signature) for name in listed for size, signature in listed[name].items()
    )
    for seed in results.seeds:
        of = f", seed {seed.get('seed')}" if len(results.seeds) > 1 else ""
        one = Results(results.content, [seed])
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


def _score_signatures(results: Results) -> Iterator[tuple[str, Any]]:
    for seed in results.seeds:
        of = f", seed {seed.get('seed')}" if len(results.seeds) > 1 else ""
        for direction, score in (seed.get("perplexity") or {}).items():
            yield f"perplexity, {direction}{of}", score.get("signature")
        for sizes in (seed.get("systems") or {}).values():
            for entry in sizes.values():
                yield from (
                    (metric, score.get("signature")) for metric, score in entry.get("scores", {}).items()
                )
        for test in seed.get("tests") or ():
            yield f"test of {test.get('metric', 'bleu')}", test.get("signature")
