"""All that is needed to make the numbers again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bidibeam.reporting.blocks import Block, Column, Section, Table, text_column
from bidibeam.reporting.numbers import NOTHING, fixed, joined, mean, number, plain
from bidibeam.reporting.results import Results
from bidibeam.reporting.sections.signatures import signatures_table

EDGES = {"lambda_": (10.0,), "length_exponent": (4.0,), "word_reward": (4.0,), "T": (2.0, 60.0)}
"""By setting, the ends of the values that tuning tries by itself; 0 is none, since nothing lies beyond it."""


def provenance(results: Results) -> Section | None:
    """Training, perplexities, tuned settings, data, settings and signatures."""
    tables = [
        _facts(results),
        _training(results),
        _perplexity(results),
        _tuned(results),
        _settings(results),
        _left_out(results),
        signatures_table(results),
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
        *(Column(_setting(name), system) for system, name in settings),
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
    return Table("Settings tuned on validation", columns, rows, [*notes, *_on_the_edge(found, sizes)])


def _on_the_edge(found: Sequence[Mapping[str, Any]], sizes: Sequence[str]) -> list[str]:
    """Which values are the last that were tried."""
    places: dict[str, list[str]] = {}
    for size in sizes:
        tuned = [(system, name, value) for one in found for system, name, value in _options(one.get(size))]
        for system, name, value in dict.fromkeys(tuned):
            if value in EDGES.get(name, ()):
                places.setdefault(f"{_setting(name)} of {system} ({value:g})", []).append(size)
    if not places:
        return []
    told = "; ".join(f"{what} at N_B = {joined(at)}" for what, at in places.items())
    return [f"On the edge of what was tried, so that the best value may lie beyond: {told}."]


def _options(tuned: Mapping[str, Any] | None) -> Iterator[tuple[str, str, float]]:
    """Every number that was tuned: the system, the setting, the value."""
    for system, options in (tuned or {}).items():
        for name, value in options.items():
            if (found := number(value)) is not None:
                yield system, name, found


def _setting(name: str) -> str:
    return name.rstrip("_").replace("_", " ")


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
    columns = [text_column(label) for label in ("kind", "name", "why")]
    return Table("What could not be made", columns, results.left_out)
