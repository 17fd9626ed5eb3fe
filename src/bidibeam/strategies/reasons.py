"""Why a strategy chose what it chose, in sentences with numbers: what their `reason` methods share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.hypotheses import Direction

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Ranked, Ranking
    from bidibeam.protocols import Strategy


def name_hypothesis(direction: Direction, place: int) -> str:
    """Returns what a sentence calls a hypothesis; ranks are counted from 1."""
    return f"{direction.value} hypothesis {place + 1}"


def name_entry(entry: Ranked, *, with_partner: bool = False) -> str:
    """Returns what a sentence calls an entry, together with its partner in the other beam if asked."""
    name = name_hypothesis(entry.direction, entry.place)
    if not with_partner or entry.partner is None:
        return name
    return f"{name} with {name_hypothesis(entry.direction.other, entry.partner)}"


def count_digits(ranking: Ranking) -> int:
    """Returns how many decimals tell the first score from the next other one: 2 to 6, or 0 for counts."""
    best = ranking.entries[0].score
    other = next((entry.score for entry in ranking if entry.score != best), None)
    if float(best).is_integer() and (other is None or float(other).is_integer()):
        return 0
    if other is None:
        return 2
    return next((digits for digits in range(2, 6) if f"{best:.{digits}f}" != f"{other:.{digits}f}"), 6)


def tell_range(ranking: Ranking) -> str:
    """Returns what qualifies "the highest": nothing, or that of the finished ones, which rank first."""
    best = ranking.entries[0].score
    return " of those that finished" if any(entry.score > best for entry in ranking) else ""


def compare_next(ranking: Ranking, *, with_partner: bool = False) -> str:
    """Returns the end of a sentence about the first entry: how far the second is behind."""
    first, *others = ranking
    if not others:
        return "; there is no other."
    second = others[0]
    name = name_entry(second, with_partner=with_partner)
    if first.hypothesis.finished and not second.hypothesis.finished:
        return "; all others were cut off at the maximum length, and rank behind it."
    if second.score == first.score:
        goes_to = "better rank" if second.direction is first.direction else "regular beam"
        return f"; {name} has as much, and ties go to the {goes_to}."
    return f"; the next, {name}, has {second.score:.{count_digits(ranking)}f}."


def explain_choice(strategy: Strategy, beams: Beams, ranking: Ranking) -> str:
    """Returns why the first entry of a strategy's ranking is the first, in its own words if it has any."""
    reason = getattr(strategy, "reason", None)
    if reason is not None:
        return str(reason(beams, ranking))
    first = ranking.entries[0]
    value = f"{first.score:.{count_digits(ranking)}f}"
    return f"{name_entry(first)} has the highest score{tell_range(ranking)}, {value}{compare_next(ranking)}"
