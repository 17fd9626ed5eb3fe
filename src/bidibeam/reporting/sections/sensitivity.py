"""How much hangs on each choice that the paper leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bidibeam.reporting.blocks import Block, Column, Picture, Section, Table, text_column
from bidibeam.reporting.figures.options import draw_options
from bidibeam.reporting.figures.penalty import Trial, draw_penalty
from bidibeam.reporting.figures.systems import looks
from bidibeam.reporting.numbers import LABELS, averaged_rows, fixed, metric_text, number
from bidibeam.reporting.results import Results

LENGTH = "T"
COLUMNS = ("bleu", "length_ratio", "distinct-2")
LEVELS = ("longest", "random")
"""Systems that have no option: baselines that look at length alone, or at nothing."""

Trials = dict[str, list[Trial]]


def sensitivity(results: Results) -> Section | None:
    """BLEU by T and by every other option."""
    analyses = results.analyses("sensitivity")
    rows = averaged_rows([one.get("rows") or [] for one in analyses], ["system", "option", "value"])
    if not rows:
        return None
    groups = _groups(rows)
    levels = {name: line[0] for name, line in groups.pop("", {}).items()}
    lengths = groups.pop(LENGTH, {})
    size = analyses[0].get("beam_size")
    at = f" at N_B = {size}" if size else ""
    look = looks(results.names)
    blocks: list[Block] = []
    if lengths:
        caption = (
            f"BLEU and length ratio{at} by T, the length that BP_T asks for; “none” has no penalty, a ring "
            f"marks the default."
        )
        blocks.append(Picture("penalty", caption, partial(draw_penalty, lengths, levels, look)))
    if groups:
        caption = f"BLEU by the other options{at}, on a scale that does not begin at 0."
        blocks.append(Picture("options", caption, partial(draw_options, groups, look)))
    blocks.append(_table(rows, at, results.means_note))
    sentences = [*_length_sentences(lengths), *_option_sentences(groups)]
    return Section("sensitivity", "Sensitivity to what the paper leaves open", sentences, blocks)


def _groups(rows: Sequence[Mapping[str, Any]]) -> dict[str, Trials]:
    """By option, by system, what was tried; the length-only baselines stand under no option."""
    groups: dict[str, Trials] = {}
    for row in rows:
        bleu = number(row.get("bleu"))
        option = "" if row["system"] in LEVELS else str(row.get("option") or "")
        if bleu is not None:
            trial = Trial(
                str(row.get("value")), bleu, number(row.get("length_ratio")), bool(row.get("is_default"))
            )
            groups.setdefault(option, {}).setdefault(row["system"], []).append(trial)
    return groups


def _length_sentences(lengths: Trials) -> list[str]:
    sentences = []
    for name, line in lengths.items():
        low, high = min(line, key=lambda one: one.bleu), max(line, key=lambda one: one.bleu)
        text = (
            f"By T, {name} goes from {fixed(low.bleu, 2)} BLEU (T = {low.value}) to {fixed(high.bleu, 2)} "
            f"(T = {high.value})"
        )
        default = next((one for one in line if one.is_default), None)
        sentences.append(
            f"{text}; the default, {default.value}, has {fixed(default.bleu, 2)}." if default else f"{text}."
        )
    return sentences


def _option_sentences(others: Mapping[str, Trials]) -> list[str]:
    """The option that moves BLEU most, T aside."""
    ranges = {
        (option, name): max(one.bleu for one in line) - min(one.bleu for one in line)
        for option, systems in others.items()
        for name, line in systems.items()
        if len(line) > 1
    }
    if not ranges:
        return []
    option, name = max(ranges, key=lambda key: ranges[key])
    most = fixed(ranges[option, name], 2)
    return [f"Of the other options {option} of {name} matters most: {most} BLEU between its values."]


def _table(rows: Sequence[Mapping[str, Any]], at: str, notes: Sequence[str]) -> Table:
    metrics = [name for name in COLUMNS if any(name in row for row in rows)]
    columns = [
        text_column("system"),
        text_column("option"),
        text_column("value"),
        *(Column(LABELS.get(name, name)) for name in metrics),
    ]
    cells = [
        [
            row["system"],
            str(row.get("option") or ""),
            f"{row.get('value')}{' (default)' if row.get('is_default') else ''}",
            *(metric_text(name, row.get(name)) for name in metrics),
        ]
        for row in rows
    ]
    return Table(f"All options{at}", columns, cells, notes, is_folded=True)
