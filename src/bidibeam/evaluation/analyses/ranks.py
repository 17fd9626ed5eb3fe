"""Ranks: which places of the regular beam replies come from."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.evaluation.analyses.evidence import AGREEING
from bidibeam.evaluation.names import ORACLE
from bidibeam.evaluation.systems import System
from bidibeam.strategies.naming import strategy_named
from bidibeam.strategies.settings import StrategySettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bidibeam.evaluation.analyses.evidence import Evidence
    from bidibeam.hypotheses import Ranking

SYSTEMS = (AGREEING, "bidia wmd_t")


def ranks(evidence: Evidence) -> dict[str, Any]:
    """How often each place was chosen by BidiA, and by the oracle, all among the same regular hypotheses.

    Those are bidia's at the largest N_B. Of equal scores the better place is chosen; as most hypotheses share
    nothing with the reference, how many were equal is told too.

    Raises:
        InputError: If there are no such beams.
    """
    agreeing = evidence.agreeing
    beams = agreeing.beams
    regular = [line.regular for line in beams]
    found = {}
    for name in SYSTEMS:
        system = evidence.widest.get(name)
        if system is not None and [line.regular for line in system.beams] == regular:
            rankings = _whole(evidence, system)
            if rankings is not None:
                found[name] = _outcomes(rankings)
    if all(line.reference is not None for line in beams):
        by_reference = evidence.rank(StrategySettings(ORACLE), beams)
        found[ORACLE] = _outcomes(by_reference, finished_first=False)
    width = max((agreeing.beam_size + 1) // 2, *map(len, regular))
    return {
        "beam_size": width,
        "systems": {name: _summary(outcomes, width) for name, outcomes in found.items()},
    }


def _whole(evidence: Evidence, system: System) -> Sequence[Ranking] | None:
    """A system's rankings: its own, or made again where it kept the replies alone.

    None where that would take word vectors, and there are none.
    """
    pairs = zip(system.rankings, system.beams, strict=True)
    if all(len(ranking) == len(line.regular) for ranking, line in pairs):
        return system.rankings
    if system.name != AGREEING and evidence.space is None:
        return None
    return evidence.rank(strategy_named(system.name), system.beams)


def _outcomes(rankings: Iterable[Ranking], *, finished_first: bool = True) -> list[list[int]]:
    """For each source that was answered, the places tied for the first, counted from 0; the best is chosen.

    Where those that finished come first, a hypothesis that was cut off ties with none that was not.
    """
    outcomes = []
    for ranking in rankings:
        if not len(ranking):
            continue
        first = ranking.entries[0]
        tied = [
            entry.place
            for entry in ranking
            if entry.score == first.score
            and (not finished_first or entry.hypothesis.finished == first.hypothesis.finished)
        ]
        outcomes.append([first.place, *(place for place in tied if place != first.place)])
    if not outcomes:
        raise InputError("Nothing was found for any source, so no place was chosen.")
    return outcomes


def _summary(outcomes: list[list[int]], width: int) -> dict[str, Any]:
    counts, mass = [0] * width, [0.0] * width
    for chosen, *others in outcomes:
        counts[chosen] += 1
        for place in (chosen, *others):
            mass[place] += 1 / (1 + len(others))
    places = [outcome[0] + 1 for outcome in outcomes]
    return {
        "counts": counts,
        "mean": fmean(places),
        "median": median(places),
        "tied": fmean(map(len, outcomes)),
        "tie_mass": mass,
    }
