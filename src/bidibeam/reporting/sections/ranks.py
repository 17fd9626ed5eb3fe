"""Where in the regular beam the reply stood."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from bidibeam.reporting.blocks import Column, Picture, Section, Table, text_column
from bidibeam.reporting.figures.ranks import draw_ranks
from bidibeam.reporting.figures.systems import looks
from bidibeam.reporting.numbers import averaged, fixed, joined, percent
from bidibeam.reporting.paper import RANKED
from bidibeam.reporting.results import Results

Shares = tuple[list[float], list[float]]
"""By place, of the sources that chose it, and of the mass of ties."""


def ranks(results: Results) -> Section | None:
    """Histograms of the places chosen."""
    found = averaged(results.analyses("ranks"))
    if not found or not found.get("systems"):
        return None
    order = [name for name in RANKED if name in found["systems"]]
    order += [name for name in found["systems"] if name not in order]
    systems = {name: found["systems"][name] for name in order}
    shares = {name: _shares(system) for name, system in systems.items()}
    caption = (
        f"Place of the reply in the regular beam of {len(shares[order[0]][0])}. Bars: the reply; outline: "
        f"each source counted in equal parts for the places tied for first."
    )
    picture = Picture("ranks", caption, partial(draw_ranks, shares, looks(results.names)))
    sentences = _sentences({name: (systems[name], shares[name][0][0]) for name in order})
    return Section(
        "ranks", "Rank of the reply in the beam", sentences, [picture, _table(results, systems, shares)]
    )


def _table(results: Results, systems: Mapping[str, Mapping[str, Any]], shares: Mapping[str, Shares]) -> Table:
    labels = ("first place", "mean place", "median place", "tied for first")
    rows = [
        [
            name,
            percent(shares[name][0][0], 1),
            *(fixed(system.get(fact), 1) for fact in ("mean", "median", "tied")),
        ]
        for name, system in systems.items()
    ]
    notes = [
        *results.means_note,
        "Tied for first: hypotheses that nothing but the order of the beam tells apart, mean over sources.",
    ]
    return Table("Places chosen", [text_column("system"), *map(Column, labels)], rows, notes)


def _shares(system: Mapping[str, Any]) -> Shares:
    """Counts and tie mass as shares of all sources."""
    counts, mass = system["counts"], system.get("tie_mass") or []
    total = sum(counts) or 1
    return [count / total for count in counts], [part / (sum(mass) or 1) for part in mass]


def _sentences(systems: Mapping[str, tuple[Mapping[str, Any], float]]) -> list[str]:
    firsts = joined([f"of {name} for {percent(share)}" for name, (_, share) in systems.items()])
    sentences = [f"The most likely hypothesis is the reply {firsts} of the sources."]
    medians = [
        f"{fixed(facts['median'], 0)} ({name})" for name, (facts, _) in systems.items() if "median" in facts
    ]
    if medians:
        sentences.append(f"The median place is {joined(medians)}.")
    return sentences
