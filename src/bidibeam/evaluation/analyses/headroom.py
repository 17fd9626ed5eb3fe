"""Headroom: how much of what a perfect choice would gain each system gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.evaluation.analyses.evidence import Evidence

BASELINE, ORACLE = "vbs-tuned", "oracle"


def headroom(evidence: Evidence) -> dict[str, Any]:
    """(system - tuned VBS) / (oracle - tuned VBS) in corpus BLEU, at each N_B that has all three.

    None where the oracle is no better than tuned VBS.

    Raises:
        InputError: If there is no such N_B, or a reference is missing.
    """
    for needed in (BASELINE, ORACLE):
        if not evidence.bleu_sizes(needed):
            raise InputError(f"It needs the system {needed!r}, which is not there.")
    names = [
        name for name in dict.fromkeys([*evidence.systems, *evidence.bleu]) if name not in (BASELINE, ORACLE)
    ]
    shares = {}
    for beam_size in sorted(evidence.bleu_sizes(BASELINE) & evidence.bleu_sizes(ORACLE)):
        compared = [name for name in names if beam_size in evidence.bleu_sizes(name)]
        if compared:
            shares[str(beam_size)] = _shares(evidence, compared, beam_size)
    if not shares:
        raise InputError(f"No other system has an N_B at which there are {BASELINE!r} and {ORACLE!r} too.")
    return {"baseline": BASELINE, "by_beam_size": shares}


def _shares(evidence: Evidence, names: Sequence[str], beam_size: int) -> dict[str, float | None]:
    low, high = evidence.bleu_of(BASELINE, beam_size), evidence.bleu_of(ORACLE, beam_size)
    if high <= low:
        return dict.fromkeys(names)
    return {name: (evidence.bleu_of(name, beam_size) - low) / (high - low) for name in names}
