"""What systems choose: from which ranks, how much of the oracle's gain it brings, where they disagree."""

from __future__ import annotations

from itertools import islice
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.evaluation.systems import AGREEING, ORACLE
from bidibeam.hypotheses import Direction
from bidibeam.metrics.resampling import Resampling, bootstrap, interval
from bidibeam.metrics.scoring import orient
from bidibeam.strategies.bidia import similarity_matrix
from bidibeam.strategies.settings import (
    DEFAULT_SIMILARITY,
    TUNED_VBS,
    StrategySettings,
    build_similarity,
    strategy_named,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bidibeam.evaluation.systems import Evidence
    from bidibeam.hypotheses import Beams, Hypothesis, Ranking

RANKED = (AGREEING, "bidia wmd_t")
DIGITS = 3


def ranks(evidence: Evidence) -> dict[str, Any]:
    """Counts how often each place was chosen by BidiA, and by the oracle, among the same regular hypotheses.

    Those are bidia's at the largest N_B. Of equal scores the better place is chosen; as most hypotheses share
    nothing with the reference, the number of equal ones is reported too.
    """
    agreeing = evidence.agreeing
    beams = agreeing.beams
    regular = [line.regular for line in beams]
    width = max((agreeing.beam_size + 1) // 2, *map(len, regular))
    systems = {}
    for name in RANKED:
        system = evidence.widest.get(name)
        if system is None or [line.regular for line in system.beams] != regular:
            continue
        pairs = zip(system.rankings, regular, strict=True)
        if all(len(ranking) == len(found) for ranking, found in pairs):
            systems[name] = _count_places(system.rankings, width)
        elif name == AGREEING or evidence.load_vectors is not None:  # it kept the replies alone
            systems[name] = _count_places(evidence.rank(strategy_named(name), system.beams), width)
    if all(line.references for line in beams):
        by_reference = evidence.rank(StrategySettings(ORACLE), beams)
        systems[ORACLE] = _count_places(by_reference, width, finished_first=False)
    return {"beam_size": width, "systems": systems}


def _count_places(rankings: Iterable[Ranking], width: int, *, finished_first: bool = True) -> dict[str, Any]:
    """Counts the places chosen, and those tied for the first, over the sources with a reply.

    Where those that finished come first, a hypothesis that was cut off ties with none that was not.
    """
    counts, mass = [0] * width, [0.0] * width
    places, ties = [], []
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
        counts[first.place] += 1
        for place in tied:
            mass[place] += 1 / len(tied)
        places.append(first.place + 1)
        ties.append(len(tied))
    if not places:
        raise InputError("Nothing was found for any source, so no place was chosen.")
    return {
        "counts": counts,
        "mean": fmean(places),
        "median": median(places),
        "tied": fmean(ties),
        "tie_mass": mass,
    }


def headroom(evidence: Evidence) -> dict[str, Any]:
    """Computes (system - tuned VBS) / (oracle - tuned VBS) by the metric, at each N_B that has all three.

    None where the oracle is no better than tuned VBS. Where the systems themselves are at hand, each share
    has its 95 % interval: between percentiles of the shares on bootstrap resamples of the sources, the same
    resamples for all three; those on which the oracle is no better do not count.
    """
    for needed in (TUNED_VBS, ORACLE):
        if not evidence.sizes_of(needed):
            raise evidence.lack(needed)
    names = [
        name
        for name in dict.fromkeys([*evidence.systems, *evidence.known])
        if name not in (TUNED_VBS, ORACLE)
    ]
    shares: dict[str, dict[str, float | None]] = {}
    intervals: dict[str, dict[str, list[float] | None]] = {}
    for beam_size in sorted(evidence.sizes_of(TUNED_VBS) & evidence.sizes_of(ORACLE)):
        low, high = (evidence.value_of(name, beam_size) for name in (TUNED_VBS, ORACLE))
        has_room = orient(evidence.metric, high) > orient(evidence.metric, low)
        found: dict[str, float | None] = {
            name: (evidence.value_of(name, beam_size) - low) / (high - low) if has_room else None
            for name in names
            if beam_size in evidence.sizes_of(name)
        }
        if not found:
            continue
        shares[str(beam_size)] = found
        here = {name: sizes[beam_size] for name, sizes in evidence.systems.items() if beam_size in sizes}
        if {TUNED_VBS, ORACLE} <= here.keys():
            order = (TUNED_VBS, ORACLE, *(name for name in found if name in here))
            measured = [here[name].measure(evidence.metric) for name in order]
            lows, highs, *resampled = bootstrap(evidence.metric, measured, Resampling())
            is_room = orient(evidence.metric, highs) > orient(evidence.metric, lows)
            intervals[str(beam_size)] = {
                name: None
                if found[name] is None or not is_room.any()
                else list(interval((values - lows)[is_room] / (highs - lows)[is_room]))
                for name, values in zip(order[2:], resampled, strict=True)
            }
    if not shares:
        raise InputError(f"No other system has an N_B at which there are {TUNED_VBS!r} and {ORACLE!r} too.")
    metric = evidence.metric.name
    return {"metric": metric, "baseline": TUNED_VBS, "by_beam_size": shares, "intervals": intervals}


def examples(evidence: Evidence) -> dict[str, Any]:
    """Returns the sources on which systems disagree most, with both beams and how alike they are.

    Sources have the most different replies, the first of equal ones, each system at its largest N_B; of those
    that ask the same, the first counts.
    """
    agreeing = evidence.agreeing
    replies = {name: system.replies for name, system in evidence.widest.items()}
    sources = [
        source
        for source, (line, ranking) in enumerate(zip(agreeing.beams, agreeing.rankings, strict=True))
        if len(line.reverse) and len(ranking)
    ]
    sources.sort(key=lambda source: -len({each[source] for each in replies.values()}))  # a stable sort
    different: dict[str, int] = {}
    for source in sources:
        different.setdefault(agreeing.beams[source].source, source)
    similarity = build_similarity(DEFAULT_SIMILARITY, {}, max_length=evidence.max_length)
    shown = []
    for source in islice(different.values(), evidence.examples):
        line, row = agreeing.beams[source], agreeing.rankings[source].entries[0].place
        matrix = similarity_matrix(
            similarity, line.regular.hypotheses, line.reverse.hypotheses
        )  # (regular, reverse)
        shown.append(
            {
                "id": line.id,
                "source": line.source,
                "reference": line.reference,
                **({"references": list(line.references)} if len(line.references) > 1 else {}),
                "replies": {name: each[source] for name, each in replies.items()},
                **{direction.value: [each.text for each in line.of(direction)] for direction in Direction},
                "tokens": _list_of(line, lambda each: [*each.tokens]),
                "scores": _list_of(
                    line, lambda each: None if each.score is None else round(each.score, DIGITS)
                ),
                "finished": _list_of(line, lambda each: each.finished),
                "similarity": DEFAULT_SIMILARITY,
                "matrix": matrix.round(DIGITS).tolist(),
                "pair": [row, int(matrix[row].argmax())],
            }
        )
    return {"beam_size": agreeing.beam_size, "examples": shown}


def _list_of(line: Beams, read: Callable[[Hypothesis], Any]) -> dict[str, list[Any]]:
    """Returns something of every hypothesis, by direction."""
    return {direction.value: [read(each) for each in line.of(direction)] for direction in Direction}
