"""Headroom: how much of what a perfect choice would gain each system gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.evaluation.names import ORACLE
from bidibeam.evaluation.names import TUNED as BASELINE
from bidibeam.evaluation.significance import Resampling, interval, resampled_bleus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.evaluation.analyses.evidence import Evidence

    Shares = dict[str, float | None]
    Intervals = dict[str, list[float] | None]


def headroom(evidence: Evidence) -> dict[str, Any]:
    """(system - tuned VBS) / (oracle - tuned VBS) in corpus BLEU, at each N_B that has all three.

    None where the oracle is no better than tuned VBS. Where the systems themselves are at hand, each share
    has its 95 % interval: between percentiles of the shares on bootstrap resamples of the sources, the same
    resamples for all three; those on which the oracle is no better do not count.

    Raises:
        InputError: If there is no such N_B, or a reference is missing.
    """
    for needed in (BASELINE, ORACLE):
        if not evidence.bleu_sizes(needed):
            raise InputError(f"It needs the system {needed!r}, which is not there.")
    names = [
        name for name in dict.fromkeys([*evidence.systems, *evidence.bleu]) if name not in (BASELINE, ORACLE)
    ]
    shares: dict[str, Shares] = {}
    intervals: dict[str, Intervals] = {}
    for beam_size in sorted(evidence.bleu_sizes(BASELINE) & evidence.bleu_sizes(ORACLE)):
        compared = [name for name in names if beam_size in evidence.bleu_sizes(name)]
        if compared:
            found = shares[str(beam_size)] = _shares(evidence, compared, beam_size)
            if all(beam_size in evidence.systems.get(name, {}) for name in (BASELINE, ORACLE)):
                intervals[str(beam_size)] = _intervals(evidence, found, beam_size)
    if not shares:
        raise InputError(f"No other system has an N_B at which there are {BASELINE!r} and {ORACLE!r} too.")
    return {"baseline": BASELINE, "by_beam_size": shares, "intervals": intervals}


def _shares(evidence: Evidence, names: Sequence[str], beam_size: int) -> Shares:
    low, high = evidence.bleu_of(BASELINE, beam_size), evidence.bleu_of(ORACLE, beam_size)
    if high <= low:
        return dict.fromkeys(names)
    return {name: (evidence.bleu_of(name, beam_size) - low) / (high - low) for name in names}


def _intervals(evidence: Evidence, shares: Shares, beam_size: int) -> Intervals:
    """Those of all systems that are at hand; None where there is no share."""
    names = [name for name in shares if beam_size in evidence.systems.get(name, {})]
    statistics = [
        evidence.tally.statistics(evidence.systems[name][beam_size].replies)
        for name in (BASELINE, ORACLE, *names)
    ]
    low, high, *others = resampled_bleus(statistics, Resampling())
    has_room = high > low
    return {
        name: None
        if shares[name] is None or not has_room.any()
        else list(interval((bleu - low)[has_room] / (high - low)[has_room]))
        for name, bleu in zip(names, others, strict=True)
    }
