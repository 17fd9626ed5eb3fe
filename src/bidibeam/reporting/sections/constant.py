"""What one and the same reply to every source scores, beside the systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bidibeam.reporting.blocks import Column, Section, Table, text_column
from bidibeam.reporting.numbers import fixed, joined, percent, plain
from bidibeam.reporting.results import Results


def constant(results: Results) -> Section | None:
    """The constant reply that validation chose, and the next best."""
    found = results.constant
    if found is None:
        return None
    sentences = [_sentence(found), *_beside(results, found["chosen"]["bleu"])]
    return Section("constant", "One reply to every source", sentences, [_table(found)])


def _sentence(found: Mapping[str, Any]) -> str:
    chosen, references = found["chosen"], found["references"]
    short = f"{percent(references['share_short'])} have at most {references['short']} words"
    return (
        f"“{chosen['reply']}”, said to all {plain(references['sources'])} sources, has "
        f"{fixed(chosen['bleu'], 2)} BLEU and {fixed(chosen['length_ratio'], 2)} of the references' length; "
        f"{plain(chosen['exact'])} references are exactly this, and {short}. Of "
        f"{plain(found['candidates']['tried'])} replies it is the best on "
        f"{plain(found['validation_sources'])} validation sources."
    )


def _beside(results: Results, bleu: float) -> list[str]:
    """Which systems are no better, at the largest N_B."""
    scored = {name: results.mean(name, results.largest) for name in results.systems}
    known = {name: value for name, value in scored.items() if value is not None}
    if not known:
        return []
    behind = [name for name, value in known.items() if value <= bleu]
    at = f"at N_B = {results.largest} " if results.largest else ""
    told = joined(behind) if behind else "no system"
    return [f"By BLEU {at}{told} {'are' if len(behind) > 1 else 'is'} no better than that."]


def _table(found: Mapping[str, Any]) -> Table:
    chosen, common = found["chosen"], found["most_common"]
    rows = [("chosen", chosen), *(("", one) for one in found["runners_up"])]
    if all(one != common for _, one in rows):
        rows.append(("commonest in training", common))
    columns = [
        text_column("reply"),
        text_column(""),
        Column("BLEU, validation"),
        Column("BLEU"),
        Column("95 % interval"),
        Column("length ratio"),
        Column("exact matches"),
    ]
    cells = [
        [
            one["reply"],
            label,
            fixed(one["validation_bleu"], 2),
            fixed(one["bleu"], 2),
            f"{fixed(one['low'], 2)} to {fixed(one['high'], 2)}",
            fixed(one["length_ratio"], 2),
            plain(one["exact"]),
        ]
        for label, one in rows
    ]
    tried = found["candidates"]
    how = (
        f"Tried: the {tried['commonest']} commonest training replies, and the commonest {tried['parts']} of "
        "them followed by each other. The best by BLEU on validation is chosen; test sources only judge."
    )
    notes = [how, f"BLEU: {found['signature']}."]
    return Table("The best constant replies", columns, cells, notes)
