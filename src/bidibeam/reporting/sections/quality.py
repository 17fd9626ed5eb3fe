"""BLEU against N_B, and how near the best hypothesis in the beam anybody comes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import fmean

from bidibeam.reporting.blocks import Block, Cell, Column, Picture, Section, Table, text_column
from bidibeam.reporting.figures.headroom import LOWEST, draw_headroom
from bidibeam.reporting.figures.quality import draw_quality
from bidibeam.reporting.figures.systems import Line, looks
from bidibeam.reporting.numbers import averaged, fixed, number, over_seeds, percent, spread
from bidibeam.reporting.paper import BEAM_SIZES, NAMES, PaperCorpus
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.reporting.sections.intervals import interval_text

ORACLE, BASE, TUNED = "oracle", "vbs", "vbs-tuned"

Shares = Mapping[str, Mapping[str, float | None]]
"""By N_B and by system, headroom captured."""


def quality(results: Results) -> Section | None:
    """BLEU of every system at every N_B."""
    lines = _lines(results)
    if not lines or results.sizes == [NO_SIZE]:
        return None
    paper = results.paper
    sentences = [*_course(results), *_highest(results), *(_in_the_paper(paper) if paper else ())]
    several = ", mean and standard deviation over seeds" if len(results.seeds) > 1 else ""
    marks = f"; open marks: the paper, {paper.name}" if paper else ""
    draw = partial(
        draw_quality,
        lines,
        looks(results.names),
        paper={BASE: paper.bleu[BASE]} if paper else {},
        claim=_claim(paper) if paper else None,
    )
    picture = Picture("bleu", f"Corpus BLEU-4 against N_B{several}{marks}.", draw)
    tables = [_bleu_table(results), *_interval_tables(results)]
    return Section("bleu", "BLEU-4 against N_B", sentences, [picture, *tables])


def _lines(results: Results) -> list[Line]:
    lines = []
    for name in results.systems:
        scores = {size: results.values(name, size, "bleu") for size in results.sizes}
        found = {size: values for size, values in scores.items() if values}
        if found:
            means = [fmean(values) for values in found.values()]
            lines.append(Line(name, [*found], means, [spread(values) for values in found.values()]))
    return lines


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
    where = f"that is drawn at B = {max(bleu)}, since the text does not say where it holds"
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
    several = ["The lowest end and the highest of the seeds' intervals."] if len(results.seeds) > 1 else []
    return [Table("95 % intervals of corpus BLEU-4 by N_B", columns, rows, several, is_folded=True)]


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
        blocks.append(_headroom_table(results, shares))
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


def _headroom_table(results: Results, shares: Shares) -> Table:
    sizes = sorted(shares, key=int)
    columns = [text_column("system"), *(Column(size, "N_B") for size in sizes)]
    rows = [[name, *(percent(shares[size].get(name)) for size in sizes)] for name in _shared(results, shares)]
    return Table("Headroom captured by N_B", columns, rows, is_folded=True)
