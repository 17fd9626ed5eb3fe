"""Analyses of the replies and their cost: constant replies, ranks, diversity, words by position, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bidibeam.reporting.blocks import Block, Cell, Column, Picture, Section, Table, text_column
from bidibeam.reporting.numbers import (
    LABELS,
    average,
    average_rows,
    format_fixed,
    format_metric,
    format_percent,
    format_signed,
    format_value,
    to_number,
)
from bidibeam.reporting.paper import COMPLEXITY, FOOTNOTE_AT, FOOTNOTE_RATIO, POSITIONS, RANKED, sorting_ratio
from bidibeam.reporting.plots import BLUE, SMALL, VERMILLION, Look, assign_looks, new_figure
from bidibeam.reporting.results import NO_SIZE, Results, format_interval
from bidibeam.reporting.summary import compare_matched

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN_METRICS = ("distinct-1", "distinct-2", "length_ratio", "bleu")
MATCHED_METRICS = ("length_ratio", "bleu", "distinct-1", "distinct-2")
SAME_WORDS_METRICS = ("distinct-1", "distinct-2")
SIDES = {"left": BLUE, "right": VERMILLION}
"""The sides that positions are counted from, with their colours."""
FREQUENT = 1000
WORDS_IN_TABLE, WORDS_IN_PANEL, LETTERS = 8, 4, 10
WORK = {
    "projected_rows": "rows projected",
    "compared_pairs": "pairs compared",
    "exact_transports": "exact transports",
}
"""Counted work per source."""
TIMES = {"ms_a_source": "ms a source", "ratio": "to vbs"}


def constant(results: Results) -> Section | None:
    """The constant reply that validation chose, and the next best."""
    found = results.constant
    if found is None:
        return None
    rows = [("chosen", found["chosen"]), *(("", one) for one in found["runners_up"])]
    if all(one != found["most_common"] for _, one in rows):
        rows.append(("commonest in training", found["most_common"]))
    labels = ("BLEU, validation", "BLEU", "95 % interval", "length ratio", "exact matches")
    columns = [text_column("reply"), text_column(""), *map(Column, labels)]
    cells = [
        [
            one["reply"],
            label,
            format_fixed(one["validation_bleu"], 2),
            format_fixed(one["bleu"], 2),
            f"{format_fixed(one['low'], 2)} to {format_fixed(one['high'], 2)}",
            format_fixed(one["length_ratio"], 2),
            format_value(one["exact"]),
        ]
        for label, one in rows
    ]
    tried, references = found["candidates"], found["references"]
    how = (
        f"Tried: the {tried['commonest']} commonest training replies, and the commonest {tried['parts']} of "
        f"them followed by each other, {format_value(tried['tried'])} in all. The best by BLEU on "
        f"{format_value(found['validation_sources'])} validation sources is chosen; test sources only judge."
    )
    short = format_percent(references["share_short"])
    count = format_value(references["sources"])
    words = f"{short} of {count} references have at most {references['short']} words."
    notes = [how, words, f"BLEU: {found['signature']}."]
    table = Table("The best constant replies", columns, cells, notes)
    return Section("constant", "One reply to every source", [table])


def ranks(results: Results) -> Section | None:
    """The rank of the reply in the regular beam."""
    found = average(results.analyses("ranks"))
    if not found or not found.get("systems"):
        return None
    order = dict.fromkeys([*(name for name in RANKED if name in found["systems"]), *found["systems"]])
    systems = {name: found["systems"][name] for name in order}
    shares = {}
    for name, system in systems.items():
        counts, mass = system["counts"], system.get("tie_mass") or []
        total, total_mass = sum(counts) or 1, sum(mass) or 1
        shares[name] = ([count / total for count in counts], [part / total_mass for part in mass])
    first = next(iter(shares.values()))[0]
    caption = (
        f"Place of the reply in the regular beam of {len(first)}. Bars: the reply; outline: each source "
        "counted in equal parts for the places tied for first."
    )
    labels = ("first place", "mean place", "median place", "tied for first")
    rows = [
        [
            name,
            format_percent(shares[name][0][0], 1),
            *(format_fixed(system.get(fact), 1) for fact in ("mean", "median", "tied")),
        ]
        for name, system in systems.items()
    ]
    notes = [
        *results.means_note,
        "Tied for first: hypotheses that nothing but the order of the beam tells apart, mean over sources.",
    ]
    blocks: list[Block] = [
        Picture("ranks", caption, partial(draw_ranks, shares, assign_looks(results.names))),
        Table("Places chosen", [text_column("system"), *map(Column, labels)], rows, notes),
    ]
    return Section("ranks", "Rank of the reply in the beam", blocks)


def draw_ranks(
    systems: Mapping[str, tuple[Sequence[float], Sequence[float]]], looks: Mapping[str, Look]
) -> Figure:
    """Draws a histogram of ranks per system.

    Args:
        systems: By system, the share of sources that chose each place, and each place's share of the places
            tied for first (empty if nobody counted).
        looks: The look of each system.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = new_figure(min(8.0, 2.4 * len(systems) + 0.8), 2.9)
    panels = figure.subplots(1, len(systems), sharey=True, squeeze=False)[0]
    for axes, (name, (chosen, tied)) in zip(panels, systems.items(), strict=True):
        count = len(chosen)
        heights = [100 * share for share in chosen]
        axes.bar(range(1, count + 1), heights, width=0.9, color=looks[name].colour, alpha=0.65)
        if len(tied):
            edges = [place - 0.5 for place in range(1, len(tied) + 2)]
            axes.stairs([100 * share for share in tied], edges, color="black", linewidth=1.2)
        axes.set_title(name)
        axes.grid(visible=False, axis="x")
        step = max(1, round(count / 25)) * 5 if count > 5 else 1  # the first place and about five others
        axes.set_xticks([1, *range(step if step > 1 else 2, count + 1, step)])
    figure.supxlabel("place in the regular beam (1 = most likely)", fontsize=10)
    panels[0].set_ylabel("sources (%)")
    bars, outline = Patch(color="#9a9a9a"), Line2D([], [], color="black", linewidth=1.2)
    figure.legend([bars, outline], ["the reply", "ties shared equally"], loc="outside upper right", ncols=2)
    return figure


def diversity(results: Results) -> Section | None:
    """distinct-n as it is, beside a VBS of the same length, and on the same number of words."""
    analyses = results.analyses("diversity")
    found = average(analyses)
    if not found or not found.get("systems"):
        return None
    systems: Mapping[str, Mapping[str, Any]] = found["systems"]
    largest = int(found.get("beam_size") or results.largest)
    sizes = {name: int(system.get("beam_size") or largest) for name, system in systems.items()}
    has_sizes = len(set(sizes.values())) > 1  # imported lists need not be equally long
    same = [system["same_words"] for system in systems.values() if system.get("same_words")]
    has_matched = any(system.get("matched") for system in systems.values())
    tests = {name: compare_matched(analyses, name) for name in systems}
    has_tests = any(test.interval or test.p for test in tests.values())

    columns = [text_column("system"), *([Column("N_B")] if has_sizes else [])]
    columns += [Column(LABELS.get(name, name)) for name in OWN_METRICS]
    if has_matched:
        columns += [Column(LABELS.get(name, name), "VBS at its length ratio") for name in MATCHED_METRICS]
    if has_tests:
        labels = ("difference", results.interval_label, "p")
        columns += [Column(label, "BLEU above that VBS") for label in labels]
    if same:
        group = f"on {format_value(round(same[0]['words']))} words"
        columns += [Column(name, group) for name in SAME_WORDS_METRICS]
    rows = []
    for name, system in systems.items():
        matched, same_words = system.get("matched") or {}, system.get("same_words") or {}
        row: list[Cell | str] = [name, *([format_value(sizes[name])] if has_sizes else [])]
        for metric in OWN_METRICS:
            text = format_metric(metric, system.get(metric))
            row.append(Cell(text, results.paper_score(name, metric, sizes[name])))
        if has_matched:
            row += [format_metric(metric, matched.get(metric)) for metric in MATCHED_METRICS]
        if has_tests:
            test = tests[name]
            row += [format_signed(test.difference), format_interval(test.interval, format_signed), test.p]
        if same:
            row += [format_metric(metric, same_words.get(metric)) for metric in SAME_WORDS_METRICS]
        rows.append(row)

    notes = [*results.means_note, "distinct-n is the number of different n-grams over the number of words."]
    if has_matched:
        notes.append(
            "VBS at its length ratio is VBS on its own beam, with the word reward that brings its length "
            "ratio nearest the system's."
        )
    if same:
        notes.append(
            "The last columns are means over random replies that together have as many words as the tersest "
            "system's, since distinct-n falls as text grows."
        )
    size = next(iter(sizes.values()))
    at = "" if has_sizes or size == NO_SIZE else f" at N_B = {size}"
    return Section("diversity", "Diversity of the replies", [Table(f"Diversity{at}", columns, rows, notes)])


def positions(results: Results) -> Section | None:
    """The frequencies of words at the first positions from the left and from the right."""
    found = results.positions
    if found is None:
        return None
    rows = {side: found["from"][side] for side in SIDES if (found.get("from") or {}).get(side)}
    if not rows:
        return None
    panels = {
        side: [(one["position"], one["words"], one["counts"], one["above_1000"]) for one in row]
        for side, row in rows.items()
    }
    pairs = f" in {format_value(found['pairs'])} replies" if "pairs" in found else ""
    caption = (
        f"Counts of the {found.get('words_shown', 50)} commonest words by position{pairs}; the dotted line "
        "is at 1,000. The regular direction begins on the left, the reverse one on the right."
    )
    labels = ("position", "different words", "entropy (bits)", "above 1,000")
    columns = [text_column("from"), *map(Column, labels), text_column("commonest")]
    cells = [
        [
            side,
            format_value(one["position"]),
            format_value(one["different"]),
            format_fixed(one["entropy_bits"], 2),
            format_value(one["above_1000"]),
            " ".join(one["words"][:WORDS_IN_TABLE]),
        ]
        for side, row in rows.items()
        for one in row
    ]
    blocks: list[Block] = [
        Picture("positions", caption, partial(draw_positions, panels)),
        Table("Words at the first positions", columns, cells),
    ]
    sentences = [POSITIONS[results.corpus]] if results.corpus in POSITIONS else []
    return Section("positions", "Words by position", blocks, sentences)


def draw_positions(panels: Mapping[str, Sequence[tuple[int, Sequence[str], Sequence[int], int]]]) -> Figure:
    """Draws counts by rank on a logarithmic scale: a row per side, a column per position.

    Args:
        panels: By side ("left", "right"): the position, the commonest words there, their counts, and how many
            words appear more than a thousand times there.
    """
    from matplotlib.ticker import FuncFormatter, NullLocator

    columns = max(len(row) for row in panels.values())
    figure = new_figure(8.0, 2.35 * len(panels) + 0.4)
    grid = figure.subplots(len(panels), columns, sharex=True, sharey=True, squeeze=False)
    for axes_row, (side, row) in zip(grid, panels.items(), strict=True):
        for axes, (position, words, counts, above) in zip(axes_row, row, strict=False):
            edges = [rank + 0.5 for rank in range(len(counts) + 1)]
            axes.stairs(counts, edges, fill=True, color=SIDES.get(side, BLUE), alpha=0.75)
            axes.set_title(f"position {position} from the {side}")
            axes.axhline(FREQUENT, color="black", linewidth=1, linestyle=(0, (1, 2)))
            axes.grid(visible=False, axis="x")
            named = " ".join(map(_shorten, words[:WORDS_IN_PANEL]))
            for height, text in ((0.97, f"{above:,} above {FREQUENT:,}"), (0.86, named)):
                axes.text(0.97, height, text, transform=axes.transAxes, ha="right", va="top", fontsize=SMALL)
        axes_row[0].set_ylabel("count")
    first = grid[0][0]
    first.set_yscale("log")
    first.yaxis.set_minor_locator(NullLocator())
    first.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    counts = [count for row in panels.values() for _, _, counts, _ in row for count in counts if count > 0]
    bottom = 10.0 ** math.floor(math.log10(min(counts, default=1)))
    first.set_ylim(min(bottom, FREQUENT / 10), max(counts, default=FREQUENT) * 8)  # room for the notes
    longest = max(len(one[2]) for row in panels.values() for one in row)
    first.set_xticks([1, *range(10, longest + 1, 10)])
    figure.supxlabel("rank of the word at its position", fontsize=10)
    return figure


def _shorten(word: str) -> str:
    """Drops what cannot be printed and cuts long words."""
    letters = "".join(letter for letter in word if letter.isprintable())
    return letters if len(letters) <= LETTERS else f"{letters[: LETTERS - 1]}…"


def cost(results: Results) -> Section | None:
    """Cost by time, by counted work and by formula."""
    analyses = results.analyses("cost")
    if not analyses:
        return None
    facts = analyses[0]
    rows = average_rows([one.get("rows") or [] for one in analyses], ["strategy"])
    formulas = average_rows([one.get("formulas") or [] for one in analyses], ["strategy"])
    blocks: list[Block] = [_measured_table(facts, rows)] if rows else []
    if formulas:
        columns = [text_column("strategy"), text_column("formula"), Column("value"), Column("to vbs")]
        cells = []
        for row in formulas:
            value = to_number(row.get("value"))
            text = format_fixed(value, 0) if value is None or abs(value) < 1e6 else f"{value:.3g}"
            cells.append(
                [row["strategy"], str(row.get("formula", "")), text, format_fixed(row.get("ratio"), 3)]
            )
        at = ", ".join(
            f"{name} = {format_value(facts[name])}" for name in ("N_B", "T", "V") if facts.get(name)
        )
        blocks.append(Table(f"By formula ({at}; natural logarithms)" if at else "By formula", columns, cells))
    paper = [text_column("algorithm"), text_column("complexity")]
    note = "V is the size of the vocabulary, B of the beam, T the greatest length."
    blocks.append(Table("The paper's formulas", paper, list(COMPLEXITY.items()), [note], is_folded=True))
    at = ", ".join(f"{name} = {value:,}" for name, value in FOOTNOTE_AT.items())
    footnote = (
        f"The paper's footnote puts VBS at {FOOTNOTE_RATIO} times BidiA for {at}; its formulas give "
        f"{sorting_ratio(FOOTNOTE_AT['B'], FOOTNOTE_AT['V']):.2f} there before any comparison of replies."
    )
    notes = dict.fromkeys(str(one["note"]).strip() for one in analyses if one.get("note"))
    return Section("cost", "Cost", blocks, [footnote], notice=" ".join(notes))


def _measured_table(facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Table:
    """Times, if there are any, and counted work."""
    times = TIMES if any(to_number(row.get(name)) is not None for row in rows for name in TIMES) else {}
    work = [name for name in WORK if any(name in row for row in rows)]
    columns = [
        text_column("strategy"),
        *(Column(label, "time") for label in times.values()),
        *(Column(WORK[name], "work a source") for name in work),
    ]
    cells = [
        [
            row["strategy"],
            *(format_fixed(row.get(name), 2) for name in times),
            *(_format_count(row.get(name)) for name in work),
        ]
        for row in rows
    ]
    caption = "Measured" if times else "Counted work"
    labels = {"device": "on", "N_B": "N_B =", "sources": "sources:", "turns": "turns:"}
    shown = [name for name in labels if facts.get(name) and (times or name not in ("device", "turns"))]
    where = ", ".join(f"{labels[name]} {format_value(facts[name])}" for name in shown)
    return Table(f"{caption} ({where})" if where else caption, columns, cells)


def _format_count(value: Any) -> str:
    number = to_number(value)
    return format_fixed(value, 0 if number is None or number >= 100 or number.is_integer() else 1)
