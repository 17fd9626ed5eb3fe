"""How many different words and pairs of words, and how much of that is length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bidibeam.reporting.blocks import Cell, Column, Section, Table, text_column
from bidibeam.reporting.numbers import LABELS, averaged, fixed, metric_text, number, plain, signed
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.reporting.sections.gains import beside_matched
from bidibeam.reporting.sections.intervals import interval_label, reach_text

OWN = ("distinct-1", "distinct-2", "length_ratio", "bleu")
MATCHED = ("length_ratio", "bleu", "distinct-1", "distinct-2")
SAME = ("distinct-1", "distinct-2")

Systems = Mapping[str, Mapping[str, Any]]


def diversity(results: Results) -> Section | None:
    """Distinct-n as it is, beside a VBS of the same length, and over the same number of words."""
    found = averaged(results.analyses("diversity"))
    if not found or not found.get("systems"):
        return None
    systems: Systems = found["systems"]
    largest = int(found.get("beam_size") or results.largest)
    sizes = {name: int(system.get("beam_size") or largest) for name, system in systems.items()}
    return Section(
        "diversity", "Diversity of the replies", _sentences(systems), [_table(results, systems, sizes)]
    )


def _table(results: Results, systems: Systems, sizes: Mapping[str, int]) -> Table:
    has_sizes = len(set(sizes.values())) > 1  # lists from elsewhere need not be equally long
    same = [system["same_words"] for system in systems.values() if system.get("same_words")]
    has_matched = any(system.get("matched") for system in systems.values())
    tested = {name: beside_matched(results.analyses("diversity"), name) for name in systems}
    has_tests = any(one.reach or one.p for one in tested.values())
    columns = [text_column("system"), *([Column("N_B")] if has_sizes else [])]
    columns += [Column(LABELS.get(name, name)) for name in OWN]
    if has_matched:
        columns += [Column(LABELS.get(name, name), "VBS at its length ratio") for name in MATCHED]
    if has_tests:
        labels = ("difference", interval_label(results), "p")
        columns += [Column(label, "BLEU above that VBS") for label in labels]
    if same:
        columns += [Column(name, f"on {plain(round(same[0]['words']))} words") for name in SAME]
    rows = []
    for name, system in systems.items():
        row: list[Cell | str] = [name, *([plain(sizes[name])] if has_sizes else [])]
        row += [_own_cell(results, name, metric, system.get(metric), sizes[name]) for metric in OWN]
        if has_matched:
            row += [metric_text(metric, (system.get("matched") or {}).get(metric)) for metric in MATCHED]
        if has_tests:
            one = tested[name]
            row += [signed(one.difference), reach_text(one.reach, signed), one.p]
        if same:
            row += [metric_text(metric, (system.get("same_words") or {}).get(metric)) for metric in SAME]
        rows.append(row)
    size = next(iter(sizes.values()))
    at = "" if has_sizes or size == NO_SIZE else f" at N_B = {size}"
    notes = [*results.means_note, *_notes(has_matched=has_matched, has_same=bool(same))]
    return Table(f"Diversity{at}", columns, rows, notes)


def _own_cell(results: Results, system: str, metric: str, value: Any, size: int) -> Cell:
    paper = results.paper.score(system, metric, size) if results.paper else None
    text = "" if paper is None else fixed(paper, 2 if metric == "bleu" else 3)
    return Cell(metric_text(metric, value), text)


def _notes(*, has_matched: bool, has_same: bool) -> list[str]:
    notes = ["distinct-n is the number of different n-grams over the number of words."]
    if has_matched:
        notes.append(
            "VBS at its length ratio is VBS on its own beam, with the word reward that brings its length "
            "ratio nearest the system's."
        )
    if has_same:
        notes.append(
            "The last columns are means over random replies that together have as many words as the tersest "
            "system's, since distinct-n falls as text grows."
        )
    return notes


def _sentences(systems: Systems) -> list[str]:
    """How BidiA stands to VBS, plainly, at equal length, and in equally many words."""
    name = next((name for name in systems if name.startswith("bidia")), None)
    if name is None:
        return _highest(systems)
    own, base = systems[name], systems.get("vbs", {})
    matched = own.get("matched") or {}
    pairs = [
        (f"distinct-2 of {name} is", "vbs's", own, base),
        ("Beside a vbs that answers about as long it is", "that one's", own, matched),
        (
            "On the same number of words it is",
            "vbs's",
            own.get("same_words") or {},
            base.get("same_words") or {},
        ),
    ]
    sentences = []
    for begin, whose, ours, theirs in pairs:
        one, other = number(ours.get("distinct-2")), number(theirs.get("distinct-2"))
        if one is not None and other is not None:
            sentences.append(f"{begin} {fixed(one, 4)}, {_against(one, other)} {whose} {fixed(other, 4)}.")
    return sentences or _highest(systems)


def _highest(systems: Systems) -> list[str]:
    known = {name: number(system.get("distinct-2")) for name, system in systems.items()}
    found = {name: value for name, value in known.items() if value is not None}
    if not found:
        return []
    best = max(found, key=lambda name: found[name])
    return [f"The highest distinct-2 is that of {best}, {fixed(found[best], 4)}."]


def _against(one: float, other: float) -> str:
    """How one number stands to another."""
    if other <= 0:
        return "against"
    change = round(100 * (one / other - 1))
    return f"{abs(change)} % {'above' if change > 0 else 'below'}" if change else "level with"
