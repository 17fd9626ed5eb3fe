"""What a gain over VBS is worth: over a tuned VBS, and over a VBS that answers at the same length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bidibeam.evaluation.names import BASE, TUNED
from bidibeam.reporting.blocks import Cell, Column, Table, text_column
from bidibeam.reporting.numbers import averaged, fixed, mean, number, percent, signed
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.reporting.sections.intervals import Compared, compared, interval_label, reach_text

LEAST = 0.1
"""BLEU: of a smaller gain there are no shares."""
ROUNDING = 0.005
"""BLEU: differences that print alike are alike."""
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
        tested: The interval and the test of the last.
        ratios: The length ratios of the system and of that VBS.
    """

    system: str
    bleu: float
    over_base: float | None
    over_tuned: float | None
    over_matched: float | None
    tested: Compared
    ratios: tuple[float, float] | None

    def is_part(self, part: float) -> bool:
        """Whether a difference is a part of the gain: over something worse than VBS it is more than that."""
        return self.over_base is not None and part <= self.over_base + ROUNDING

    def remaining(self, part: float | None) -> str:
        """A part of the gain over VBS, as a share of it; empty if it is none, or there is hardly a gain."""
        if part is None or self.over_base is None or self.over_base < LEAST or not self.is_part(part):
            return ""
        return percent(min(1.0, part / self.over_base)) if part > 0 else "none"


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
    tested = beside_matched(analyses, system)
    own_ratio, its_ratio = number(facts.get("length_ratio")), number(matched.get("length_ratio"))
    return Gain(
        system,
        bleu,
        _difference(results, system, BASE, size),
        _difference(results, system, TUNED, size),
        tested.difference,
        tested,
        None if own_ratio is None or its_ratio is None else (own_ratio, its_ratio),
    )


def beside_matched(analyses: Sequence[Mapping[str, Any]], system: str) -> Compared:
    """A system's BLEU beside that of a VBS of its length, over the analyses of diversity of all seeds."""
    tests = []
    for one in analyses:
        facts = one.get("systems", {}).get(system) or {}
        matched = facts.get("matched") or {}
        difference = number(matched.get("difference"))
        ours, theirs = number(facts.get("bleu")), number(matched.get("bleu"))
        if difference is None and ours is not None and theirs is not None:
            difference = ours - theirs
        tests.append({**matched, "difference": difference})
    return compared(tests)


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
    parts = [
        ({"gain": [signed(gain.over_base) for gain in found]}, "over vbs"),
        (_tuned_columns(found), "over vbs-tuned"),
        (_matched_columns(results, found), "over vbs at its length ratio"),
    ]
    kept = [
        (label, group, cells) for columns, group in parts for label, cells in columns.items() if any(cells)
    ]
    rows: list[list[Cell | str]] = [
        [gain.system, *(cells[place] for _, _, cells in kept)] for place, gain in enumerate(found)
    ]
    at = "" if size == NO_SIZE else f" at N_B = {size}"
    return Table(
        f"Gain in BLEU{at}: how much is more than length",
        [text_column("system"), *(Column(label, group) for label, group, _ in kept)],
        rows,
        _notes(results, found, has_remains=any(label == "remains" for label, _, _ in kept)),
    )


def _tuned_columns(found: Sequence[Gain]) -> dict[str, list[str]]:
    if all(gain.over_tuned is None for gain in found):
        return {}
    return {
        "gain": [signed(gain.over_tuned) for gain in found],
        "remains": [gain.remaining(gain.over_tuned) for gain in found],
    }


def _matched_columns(results: Results, found: Sequence[Gain]) -> dict[str, list[str]]:
    if all(gain.over_matched is None for gain in found):
        return {}
    return {
        "gain": [signed(gain.over_matched) for gain in found],
        interval_label(results): [reach_text(gain.tested.reach, signed) for gain in found],
        "p": [gain.tested.p for gain in found],
        "remains": [gain.remaining(gain.over_matched) for gain in found],
        "length ratios": [
            "" if gain.ratios is None else " / ".join(fixed(ratio, 2) for ratio in gain.ratios)
            for gain in found
        ],
    }


def _notes(results: Results, found: Sequence[Gain], *, has_remains: bool) -> list[str]:
    notes = [*results.means_note]
    parts = [(gain, part) for gain in found for part in (gain.over_tuned, gain.over_matched)]
    if has_remains:
        notes.append(f"“Remains” is the share of the gain over vbs, where that is at least {LEAST} BLEU.")
        if any(part is not None and not gain.is_part(part) for gain, part in parts):
            notes.append(
                "It is empty where what is compared with is itself worse than vbs: the difference is no part "
                "of the gain then."
            )
    if any(gain.over_matched is not None for gain in found):
        notes.append("A vbs at a system's length ratio has the word reward that brings it nearest to that.")
    if len(results.seeds) > 1 and any(gain.tested.p for gain in found):
        notes.append("p is the largest over seeds.")
    return notes


def gains_sentences(results: Results, size: int) -> list[str]:
    """How much of BidiA's gain remains, with and without its T tuned, and what the paper claims."""
    found = [gain for gain in gains(results, size) if gain.system.startswith("bidia")]
    if not found or found[0].over_base is None:
        return []
    gain = found[0]
    tuned = [one for one in found if one.system == f"{gain.system} tuned" and one.over_base is not None]
    remains = [sentence for one in (gain, *tuned) for sentence in _what_remains(results, one, size)]
    return [*remains, *_the_claim(results, gain, size)]


def _what_remains(results: Results, gain: Gain, size: int) -> list[str]:
    assert gain.over_base is not None
    if gain.over_base <= 0:
        level = f"{fixed(gain.bleu, 2)} BLEU, {signed(gain.over_base)} against vbs"
        return [f"{gain.system} has {level}: there is no gain to explain."]
    parts, more = [], []
    for part, where, about in _baselines(results, gain, size):
        if gain.is_part(part):
            parts.append(_part(gain, part, where, about))
        else:
            told = f" ({about})" if about else ""
            more.append(f"It is {fixed(part, 2)} BLEU above {where}{told}, which is itself worse than vbs.")
    begin = f"{gain.system} is {fixed(gain.over_base, 2)} BLEU above vbs"
    return [f"{begin}; of this gain {', and '.join(parts)}." if parts else f"{begin}.", *more]


def _baselines(results: Results, gain: Gain, size: int) -> list[tuple[float, str, str]]:
    """What a gain is set beside: how far above it the system is, what it is, and what is to be said of it."""
    found = []
    if gain.over_tuned is not None:
        tests = [
            test
            for test in results.tests(size)
            if (test["system"], test["baseline"], test.get("metric", "bleu")) == (gain.system, TUNED, "bleu")
        ]
        found.append((gain.over_tuned, TUNED, compared(tests).p_equation))
    if gain.over_matched is not None and gain.ratios is not None:
        own, other = gain.ratios
        same = abs(own - other) <= CLOSE
        where = "a VBS of the same length" if same else "a VBS of the nearest length that it reaches"
        ratios = f"length ratio {fixed(other, 2)} against {fixed(own, 2)}"
        interval = reach_text(gain.tested.reach, signed)
        about = [
            ratios,
            *([f"{interval_label(results)} {interval}"] if interval else []),
            gain.tested.p_equation,
        ]
        found.append((gain.over_matched, where, ", ".join(filter(None, about))))
    return found


def _part(gain: Gain, part: float, where: str, about: str) -> str:
    """What of a gain is left beside something better than VBS."""
    if part <= 0:
        return f"nothing remains over {where} ({', '.join(filter(None, (signed(part), about)))})"
    share = gain.remaining(part)
    amount = f"{fixed(part, 2)} ({share})" if share else fixed(part, 2)
    return f"{amount} remains over {where}{f' ({about})' if about else ''}"


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
