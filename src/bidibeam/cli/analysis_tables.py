"""Analyses as small tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

SAMPLES = 3
"""Examples that are printed; the file has all."""


def print_tables(contents: Mapping[str, Any]) -> None:
    """A small table or two of each analysis, by its name; those of other packages go to the file alone."""
    from bidibeam.cli.console import console

    for name, content in contents.items():
        if name in _TABLES:
            for table in _TABLES[name](content):
                console.print(table)


def _ranks(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    def row(found: Mapping[str, Any]) -> list[float]:
        counts = found["counts"]
        shares = (100 * sum(counts[:first]) / sum(counts) for first in (1, 5))
        return [found["mean"], found["median"], *shares, found["tied"]]

    yield values_table(
        f"Ranks: places in the regular beam of {content['beam_size']}",
        ["mean", "median", "first, %", "first 5, %", "tied for it"],
        [(name, row(found)) for name, found in content["systems"].items()],
    )


def _headroom(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    by_size = content["by_beam_size"]
    names = dict.fromkeys(name for shares in by_size.values() for name in shares)
    yield values_table(
        f"Headroom: of the way from {content['baseline']} to the oracle, by N_B",
        list(by_size),
        [(name, [shares.get(name) for shares in by_size.values()]) for name in names],
    )
    for size, intervals in list(content["intervals"].items())[-1:]:
        yield values_table(
            f"95 % intervals of it at N_B = {size}",
            ["low", "high"],
            [(name, interval or (None, None)) for name, interval in intervals.items()],
        )


def _diversity(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    names = ("bleu", "length_ratio", "distinct-1", "distinct-2")
    systems = content["systems"]
    yield values_table(
        "Diversity: of replies, and dist-2 of as many words of each",
        ["N_B", "bleu", "length", "dist-1", "dist-2", "same words"],
        [
            (name, [found["beam_size"], *(found[each] for each in names), found["same_words"]["distinct-2"]])
            for name, found in systems.items()
        ],
    )
    if any(found["matched"] for found in systems.values()):
        yield values_table(
            "Beside it, VBS with a word reward that makes it as long",
            ["bleu", "length", "dist-1", "dist-2", "reward"],
            [
                (name, [found["matched"][each] for each in (*names, "word_reward")])
                for name, found in systems.items()
            ],
        )
        tested = ("difference", "low", "high", "approximate_randomisation")
        yield values_table(
            "BLEU beside that of this VBS",
            ["difference", "low", "high", "p, approximate\nrandomisation"],
            [(name, [found["matched"][each] for each in tested]) for name, found in systems.items()],
        )


def _sensitivity(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    rows = [
        (
            f"{row['system']}, {row['option']} {row['value']}{' *' if row['is_default'] else ''}"
            if row["option"] != "baseline"
            else row["system"],
            [row["bleu"], row["length_ratio"], row["distinct-2"]],
        )
        for row in content["rows"]
    ]
    title = f"Sensitivity at N_B = {content['beam_size']} (* is the default)"
    yield values_table(title, ["bleu", "length", "dist-2"], rows)


def _examples(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import Sample, samples_panel

    samples = [
        Sample(each["source"], each["replies"], each["reference"]) for each in content["examples"][:SAMPLES]
    ]
    if samples:
        yield samples_panel("Where the systems disagree most", samples)


def _constant(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    names = ("validation_bleu", "bleu", "low", "high", "length_ratio", "exact")
    yield values_table(
        f"One reply to all {content['references']['sources']:,} test sources, best on validation first",
        ["validation", "bleu", "low", "high", "length", "exact"],
        [
            (each["reply"], [each[name] for name in names])
            for each in (content["chosen"], *content["runners_up"])
        ],
    )


def _positions(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    yield values_table(
        f"Words by position in {content['pairs']:,} replies",
        ["different", "bits", "above 1,000"],
        [
            (
                f"{place['position']} from the {side}",
                [place["different"], place["entropy_bits"], place["above_1000"]],
            )
            for side, places in content["from"].items()
            for place in places
        ],
    )


_TABLES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[RenderableType]]] = {
    "ranks": _ranks,
    "headroom": _headroom,
    "diversity": _diversity,
    "sensitivity": _sensitivity,
    "examples": _examples,
    "constant": _constant,
    "positions": _positions,
}
"""What is made of an analysis, by its name."""
