"""BLEU against N_B, and how near the best hypothesis in the beam anybody comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

from bidibeam.evaluation.names import BASE, ORACLE, TUNED
from bidibeam.reporting.blocks import Block, Cell, Column, Picture, Section, Table, text_column
from bidibeam.reporting.figures.headroom import LOWEST, draw_headroom
from bidibeam.reporting.figures.quality import draw_quality, panels
from bidibeam.reporting.figures.systems import Line, looks
from bidibeam.reporting.numbers import TWO, averaged, fixed, number, over_seeds, percent, spread
from bidibeam.reporting.paper import BEAM_SIZES, NAMES, PaperCorpus
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.reporting.sections.intervals import headroom_reach, interval_text, reach_text

Shares = Mapping[str, Mapping[str, float | None]]
"""By N_B and by system, headroom captured."""


def quality(results: Results) -> Section | None:
    """BLEU of every system at every N_B."""
    lines = _lines(results)
    if not lines or results.sizes == [NO_SIZE]:
        return None
    paper = results.paper
    sentences = [*_course(results), *_highest(results), *(_in_the_paper(paper) if paper else ())]
    draw = partial(
        draw_quality,
        lines,
        looks(results.names),
        paper=paper.bleu if paper else {},
        claim=_claim(paper) if paper else None,
    )
    picture = Picture("bleu", _caption(results, lines), draw)
    tables = [_bleu_table(results), *_interval_tables(results)]
    return Section("bleu", "BLEU-4 against N_B", sentences, [picture, *tables])


def _caption(results: Results, lines: Sequence[Line]) -> str:
    count = len(results.seeds)
    reach = "to both values" if count == TWO else "of one standard deviation to either side"
    parts = [
        "Corpus BLEU-4 against N_B",
        *([f"mean of {count} seeds with bars {reach}, moved aside a little"] if count > 1 else []),
    ]
    shown = panels(lines)
    if any(not panel.from_zero for panel in shown):
        parts.append("then BidiA and its variants, on a scale that does not begin at 0")
    if shown[-1].is_best and len(shown) > 1:
        parts.append("the oracle, which would flatten all others, below on a scale of its own")
    if results.paper:
        parts.append(f"white marks, a little aside: the paper, {results.paper.name}")
    return "; ".join(parts) + "."


def _lines(results: Results) -> list[Line]:
    lines = []
    for name in results.systems:
        scores = {size: results.values(name, size, "bleu") for size in results.sizes}
        found = {size: values for size, values in scores.items() if values}
        if found:
            means = [fmean(values) for values in found.values()]
            lines.append(Line(name, [*found], means, [_width(values) for values in found.values()]))
    return lines


def _width(values: Sequence[float]) -> float | None:
    """How far a bar goes to either side of the mean: of two values, to both of them."""
    return abs(values[0] - values[1]) / 2 if len(values) == TWO else spread(values)


def _claim(paper: PaperCorpus) -> tuple[str, str, int, float]:
    """What the paper says of BidiA in words, as a point at its largest B."""
    size = max(paper.bleu[BASE])
    label = f"paper: bidia bleu_t, +{100 * paper.gain:.0f} %"
    return label, "bidia bleu_t", size, paper.bleu[BASE][size] * (1 + paper.gain)


def _course(results: Results) -> list[str]:
    """How VBS fares as N_B grows."""
    course = {size: results.mean(BASE, size) for size in results.sizes}
    known = {size: bleu for size, bleu in course.items() if bleu is not None}
    if len(known) < 2:
        return []
    ends = [f"{fixed(known[size], 2)} at N_B = {size}" for size in (min(known), max(known))]
    best = max(known, key=lambda size: known[size])
    highest = f"its highest BLEU is {fixed(known[best], 2)} at N_B = {best}"
    return [f"vbs goes from {ends[0]} to {ends[1]}; {highest}."]


def _highest(results: Results) -> list[str]:
    size = results.largest
    scores = {name: results.mean(name, size) for name in results.systems if name != ORACLE}
    known = {name: bleu for name, bleu in scores.items() if bleu is not None}
    if len(known) < 2:
        return []
    best = max(known, key=lambda name: known[name])
    return [f"At N_B = {size} the highest, the oracle aside, is {best} with {fixed(known[best], 2)}."]


def _in_the_paper(paper: PaperCorpus) -> list[str]:
    bleu = paper.bleu[BASE]
    ends = [f"{fixed(bleu[size], 2)} at B = {size}" for size in (min(bleu), max(bleu))]
    above = f"BidiA with BLEU_T is {100 * paper.gain:.0f} % above it"
    where = f"that is drawn right of B = {max(bleu)}, since the text does not say where it holds"
    return [f"In the paper VBS goes from {ends[0]} to {ends[1]}, and {above}; {where}."]


def _bleu_table(results: Results) -> Table:
    columns = [text_column("system"), *(Column(str(size), "N_B") for size in results.sizes)]
    rows = [[name, *(_bleu(results, name, size) for size in results.sizes)] for name in results.systems]
    return Table("Corpus BLEU-4 by N_B", columns, rows, is_folded=True)


def _interval_tables(results: Results) -> list[Table]:
    """The intervals of the same, if there are any."""
    columns = [text_column("system"), *(Column(str(size), "N_B") for size in results.sizes)]
    rows = [
        [name, *(interval_text(results, name, size) for size in results.sizes)] for name in results.systems
    ]
    if not any(any(cells) for _, *cells in rows):
        return []
    return [_by_size(results, "corpus BLEU-4", columns, rows)]


def _by_size(
    results: Results, what: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]
) -> Table:
    """A table of intervals."""
    several = len(results.seeds) > 1
    caption = f"{'Reach of the ' if several else ''}95 % intervals of {what} by N_B"
    notes = ["From the lowest end of the seeds' intervals to the highest."] if several else []
    return Table(caption, columns, rows, notes, is_folded=True)


def _bleu(results: Results, system: str, size: int) -> str:
    return over_seeds("bleu", results.values(system, size, "bleu"), len(results.seeds))


def headroom(results: Results) -> Section | None:
    """VBS beside the best hypothesis in its beam, and how much of the way others go."""
    blocks: list[Block] = []
    sentences: list[str] = []
    table = _oracle_table(results)
    if table is not None:
        blocks.append(table)
        sentences.extend(_oracle_sentences(results))
    analyses = results.analyses("headroom")
    shares: Shares = averaged([one.get("by_beam_size") for one in analyses]) or {}
    baseline = str(analyses[0].get("baseline", TUNED)) if analyses else TUNED
    lines = _headroom_lines(results, shares)
    if lines:
        sentences.extend(_headroom_sentences(lines, baseline))
        caption = f"Headroom captured: 0 is {baseline}, 100 % the oracle at the same N_B."
        if any(100 * value < LOWEST for line in lines for value in line.values):
            caption += f" What lies below {LOWEST:.0f} % is not drawn; the table has it."
        blocks.append(
            Picture(
                "headroom", caption, partial(draw_headroom, lines, looks(results.names), baseline=baseline)
            )
        )
        blocks.extend(_headroom_tables(results, shares))
    if not blocks:
        return None
    return Section("headroom", "VBS, Best Hypothesis and the headroom between", sentences, blocks)


def _oracle_table(results: Results) -> Table | None:
    if not {BASE, ORACLE} <= set(results.systems) or results.sizes == [NO_SIZE]:
        return None
    sizes = [size for size in BEAM_SIZES if size in results.sizes]
    sizes = sizes if len(sizes) > 1 else results.sizes
    columns = [text_column("BLEU-4"), *(Column(f"B = {size}") for size in sizes)]
    rows = []
    for name in (BASE, TUNED, ORACLE):
        if name not in results.systems:
            continue
        cells: list[Cell | str] = [f"{name} ({NAMES[name]})" if name in NAMES else name]
        for size in sizes:
            paper = results.paper.score(name, "bleu", size) if results.paper else None
            cells.append(Cell(_bleu(results, name, size), "" if paper is None else fixed(paper, 2)))
        rows.append(cells)
    return Table("VBS and the best hypothesis in its beam", columns, rows)


def _oracle_sentences(results: Results) -> list[str]:
    size = results.largest
    base, best = results.mean(BASE, size), results.mean(ORACLE, size)
    if base is None or best is None:
        return []
    sentence = f"At N_B = {size} the best hypothesis in the beam has {fixed(best, 2)} BLEU"
    sentence += f", {best / base:.1f} times vbs." if base > 0 else ", and vbs has none."
    if results.paper and size in results.paper.bleu[BASE]:
        ratio = results.paper.bleu[ORACLE][size] / results.paper.bleu[BASE][size]
        sentence += f" In the paper it is {ratio:.1f} times VBS."
    return [sentence]


def _shared(results: Results, shares: Shares) -> list[str]:
    """The systems that have a share, in the order of the report."""
    known = dict.fromkeys(name for at_size in shares.values() for name in at_size)
    return list(dict.fromkeys([*(name for name in results.systems if name in known), *known]))


def _headroom_lines(results: Results, shares: Shares) -> list[Line]:
    lines = []
    for name in _shared(results, shares):
        found = {int(size): number(shares[size].get(name)) for size in sorted(shares, key=int)}
        known = {size: share for size, share in found.items() if share is not None}
        if known:
            lines.append(Line(name, [*known], [*known.values()]))
    return lines


def _headroom_sentences(lines: list[Line], baseline: str) -> list[str]:
    largest = max(size for line in lines for size in line.sizes)
    at_end = {line.name: line.values[-1] for line in lines if line.sizes[-1] == largest}
    best = max(at_end, key=lambda name: at_end[name])
    if at_end[best] <= 0:
        return [f"At N_B = {largest} nothing but the oracle is better than {baseline}."]
    share = f"{percent(at_end[best])} of the way from {baseline} to the oracle"
    return [f"At N_B = {largest} {best} captures {share}; no other system captures more."]


def _headroom_tables(results: Results, shares: Shares) -> list[Table]:
    """Shares at every N_B, and their intervals if there are any."""
    sizes = sorted(shares, key=int)
    names = _shared(results, shares)
    columns = [text_column("system"), *(Column(size, "N_B") for size in sizes)]
    rows = [[name, *(percent(shares[size].get(name)) for size in sizes)] for name in names]
    tables = [Table("Headroom captured by N_B", columns, rows, results.means_note, is_folded=True)]
    reaches = [
        [name, *(reach_text(headroom_reach(results, name, size), percent) for size in sizes)]
        for name in names
    ]
    if any(any(cells) for _, *cells in reaches):
        tables.append(_by_size(results, "headroom captured", columns, reaches))
    return tables
