"""What a gain over VBS is worth: over a tuned VBS, and over a VBS that answers at the same length."""

from __future__ import annotations

from dataclasses import dataclass

from bidibeam.reporting.blocks import Cell, Column, Table, text_column
from bidibeam.reporting.numbers import averaged, fixed, mean, number, p_text, percent, signed
from bidibeam.reporting.results import NO_SIZE, Results

BASE, TUNED = "vbs", "vbs-tuned"
LEAST = 0.1
"""BLEU: of a smaller gain there are no shares."""
CLOSE = 0.05
"""Length ratios that differ by more than this are not called the same."""


@dataclass(frozen=True)
class Gain:
    """How far a system's BLEU is above others', as a mean over seeds; None where one of the two is missing.

    Attributes:
        system: Its name.
        bleu: Its BLEU.
        over_base: Over VBS.
        over_tuned: Over VBS with its length settings tuned.
        over_matched: Over VBS with the word reward that brings its length ratio nearest the system's.
        ratios: The length ratios of the system and of that VBS.
    """

    system: str
    bleu: float
    over_base: float | None
    over_tuned: float | None
    over_matched: float | None
    ratios: tuple[float, float] | None

    def remaining(self, part: float | None) -> str:
        """A part of the gain over VBS, as a share of it; empty if there is hardly a gain."""
        if part is None or self.over_base is None or self.over_base < LEAST:
            return ""
        return percent(part / self.over_base) if part > 0 else "none"


def gains(results: Results, size: int) -> list[Gain]:
    """The gains of all systems that use the reverse direction."""
    names = [name for name in results.systems if name.split()[0] in ("bidia", "bidis")]
    found = (_gain(results, name, size) for name in names)
    return [gain for gain in found if gain is not None]


def _gain(results: Results, system: str, size: int) -> Gain | None:
    bleu = results.mean(system, size)
    if bleu is None:
        return None
    analyses = [one for one in results.analyses("diversity") if one.get("beam_size", size) == size]
    facts = averaged([one.get("systems", {}).get(system) for one in analyses]) or {}
    matched = facts.get("matched") or {}
    own_bleu, its_bleu = number(facts.get("bleu")), number(matched.get("bleu"))
    own_ratio, its_ratio = number(facts.get("length_ratio")), number(matched.get("length_ratio"))
    return Gain(
        system,
        bleu,
        _difference(results, system, BASE, size),
        _difference(results, system, TUNED, size),
        None if own_bleu is None or its_bleu is None else own_bleu - its_bleu,
        None if own_ratio is None or its_ratio is None else (own_ratio, its_ratio),
    )


def _difference(results: Results, system: str, other: str, size: int) -> float | None:
    """The mean, over seeds that have both, of the difference in BLEU."""
    differences = []
    for seed in results.seeds:
        one = Results(results.content, [seed])
        ours, theirs = one.mean(system, size), one.mean(other, size)
        if ours is not None and theirs is not None:
            differences.append(ours - theirs)
    return mean(differences)


def gains_table(results: Results, size: int) -> Table | None:
    """Every gain and what remains of it."""
    found = [gain for gain in gains(results, size) if gain.over_base is not None]
    if not found:
        return None
    has_tuned = any(gain.over_tuned is not None for gain in found)
    has_matched = any(gain.over_matched is not None for gain in found)
    columns = [text_column("system"), Column("gain", "over vbs")]
    columns += [Column(label, "over vbs-tuned") for label in ("gain", "remains") if has_tuned]
    matched = ("gain", "remains", "length ratios")
    columns += [Column(label, "over vbs at its length ratio") for label in matched if has_matched]
    rows = []
    for gain in found:
        row: list[Cell | str] = [gain.system, signed(gain.over_base)]
        if has_tuned:
            row += [signed(gain.over_tuned), gain.remaining(gain.over_tuned)]
        if has_matched:
            ratios = "" if gain.ratios is None else " / ".join(fixed(ratio, 2) for ratio in gain.ratios)
            row += [signed(gain.over_matched), gain.remaining(gain.over_matched), ratios]
        rows.append(row)
    at = "" if size == NO_SIZE else f" at N_B = {size}"
    notes = [f"“Remains” is the share of the gain over vbs, where that is at least {LEAST} BLEU."]
    if has_matched:
        notes.append("A vbs at a system's length ratio has the word reward that brings it nearest to that.")
    return Table(f"Gain in BLEU{at}: how much is more than length", columns, rows, notes)


def gains_sentences(results: Results, size: int) -> list[str]:
    """How much of BidiA's gain remains, and what the paper claims."""
    found = [gain for gain in gains(results, size) if gain.system.startswith("bidia")]
    if not found or found[0].over_base is None:
        return []
    gain = found[0]
    sentences = [_what_remains(results, gain, size), *_the_claim(results, gain, size)]
    return [sentence for sentence in sentences if sentence]


def _what_remains(results: Results, gain: Gain, size: int) -> str:
    assert gain.over_base is not None
    if gain.over_base <= 0:
        return (
            f"{gain.system} has {fixed(gain.bleu, 2)} BLEU, {signed(gain.over_base)} against vbs: there is "
            f"no gain to explain."
        )
    parts = []
    if gain.over_tuned is not None:
        text = _part(gain, gain.over_tuned, "over vbs-tuned")
        parts.append(text + _significance(results, gain.system, size))
    if gain.over_matched is not None and gain.ratios is not None:
        own, other = gain.ratios
        is_close = abs(own - other) <= CLOSE
        where = "at the same length ratio" if is_close else "at the nearest length ratio that it reaches"
        text = _part(gain, gain.over_matched, f"over vbs {where}")
        parts.append(f"{text} ({fixed(other, 2)} against {fixed(own, 2)})")
    begin = f"{gain.system} is {fixed(gain.over_base, 2)} BLEU above vbs"
    return f"{begin}; of this gain {', and '.join(parts)}." if parts else f"{begin}."


def _part(gain: Gain, part: float, where: str) -> str:
    if part <= 0:
        return f"nothing remains {where} ({signed(part)})"
    share = gain.remaining(part)
    return f"{fixed(part, 2)}{f' ({share})' if share else ''} remains {where}"


def _significance(results: Results, system: str, size: int) -> str:
    """The largest p of the tests against the tuned VBS."""
    found = [
        number(test.get("approximate_randomisation", test.get("paired_bootstrap")))
        for test in results.tests(size)
        if (test["system"], test["baseline"], test.get("metric", "bleu")) == (system, TUNED, "bleu")
    ]
    known = [value for value in found if value is not None]
    if not known:
        return ""
    text = p_text(max(known))
    return f" (p {text})" if text.startswith("<") else f" (p = {text})"


def _the_claim(results: Results, gain: Gain, size: int) -> list[str]:
    if results.paper is None or gain.over_base is None or gain.system != "bidia bleu_t":
        return []
    base, tuned = results.mean(BASE, size), results.mean(TUNED, size)
    ours = f"{signed(100 * gain.over_base / base, 0)} %" if base else "not defined (vbs has 0)"
    over_tuned = (
        f" and {signed(100 * gain.over_tuned / tuned, 0)} % over vbs-tuned"
        if tuned and gain.over_tuned is not None
        else ""
    )
    claim = f"{signed(100 * results.paper.gain, 0)} % over VBS on {results.paper.name}"
    return [f"The paper claims {claim}; ours is {ours} over vbs{over_tuned}."]
