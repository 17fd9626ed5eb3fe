"""How every number was computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bidibeam.reporting.blocks import Table, text_column
from bidibeam.reporting.numbers import joined
from bidibeam.reporting.results import NO_SIZE, Results

SIZE_KEY = "beam_size:"
"""How the part of a signature begins that has N_B."""


def signatures_table(results: Results) -> Table:
    """Every signature once, with the first thing that has it; those that N_B alone tells apart are one."""
    found: dict[str, str] = {}
    for what, signature in (*_signed_systems(results), *_signed_scores(results)):
        if signature:
            found.setdefault(str(signature), what)
    rows = [[what, signature] for signature, what in found.items()]
    return Table("Signatures", [text_column("of"), text_column("signature")], rows, is_folded=True)


def _signed_systems(results: Results) -> Iterator[tuple[str, str]]:
    """Systems, each with the N_B at which its signature is the same but for N_B."""
    several = len(results.seeds) > 1
    listed = results.content.get("signatures") or {}
    yield from _over_sizes(
        (name, size, signature) for name in listed for size, signature in listed[name].items()
    )
    for seed in results.seeds:
        alone = Results(results.content, [seed])
        entries = (
            (name, str(size), entry.get("signature"))
            for name in alone.systems
            for size in alone.sizes
            for entry in alone.entries(name, size)
        )
        of = f", seed {seed.get('seed')}" if several else ""
        yield from ((f"{what}{of}", signature) for what, signature in _over_sizes(entries))


def _over_sizes(entries: Iterable[tuple[str, str, Any]]) -> Iterator[tuple[str, str]]:
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, size, signature in entries:
        if signature:
            parts = str(signature).split("|")
            common = "|".join(part for part in parts if part != f"{SIZE_KEY}{size}")
            groups.setdefault((name, common), []).append((size, str(signature)))
    for (name, common), found in groups.items():
        sizes = [size for size, _ in found if size != str(NO_SIZE)]
        at = f", N_B = {joined(sizes)}" if sizes else ""
        yield f"{name}{at}", found[0][1] if len(found) == 1 else common


def _signed_scores(results: Results) -> Iterator[tuple[str, Any]]:
    several = len(results.seeds) > 1
    for seed in results.seeds:
        of = f", seed {seed.get('seed')}" if several else ""
        for direction, score in (seed.get("perplexity") or {}).items():
            yield f"perplexity, {direction}{of}", score.get("signature")
        for sizes in (seed.get("systems") or {}).values():
            for entry in sizes.values():
                scores = entry.get("scores", {})
                yield from ((metric, one.get("signature")) for metric, one in scores.items())
        for test in seed.get("tests") or ():
            yield f"test of {test.get('metric', 'bleu')}", test.get("signature")
