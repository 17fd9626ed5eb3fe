"""How far two searches for one source may differ where only its batch was another one."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bidibeam.hypotheses import Hypothesis, NBest

TOLERANCE = 1e-4
NUMBERS = ("log_prob", "score", "other_log_prob")


def differences(one: NBest, other: NBest) -> list[str]:
    """What two n-best lists of a source do not agree on, beyond ties; nothing if they keep the promise.

    Numbers agree to `TOLERANCE`. Those whose scores are that near may have changed places, and where a list
    ends, others that are as near to its last one may stand.
    """
    return [*_differences(one, other), *_differences(other, one)]


def _differences(one: NBest, other: NBest) -> Iterator[str]:
    """What is wrong with one list in the eyes of another."""
    theirs = {(each.text, each.finished): each for each in other}
    pairs = [(each, theirs.get((each.text, each.finished))) for each in one]
    common = [(ours, same) for ours, same in pairs if same is not None]
    if len(one) != len(other):
        yield f"{len(one)} hypotheses, not {len(other)}"
    for ours, same in common:
        for name in NUMBERS:
            value, expected = getattr(ours, name), getattr(same, name)
            if (value is None) != (expected is None) or abs((value or 0) - (expected or 0)) > TOLERANCE:
                yield f"{ours.text!r} has the {name} {value}, not {expected}"
    for (_, first), (_, second) in pairwise(common):
        if rank(first) < rank(second) and not is_tie(first, second):
            yield f"{first.text!r} is before {second.text!r}"
    for ours, found in pairs:
        if found is None and not (len(other) and is_tie(ours, other[-1])):
            yield f"{ours.text!r} is not in the other list"


def rank(one: Hypothesis) -> tuple[bool, float]:
    """Finished hypotheses are before those that were cut off, whatever their scores."""
    return one.finished, one.score or 0.0


def is_tie(one: Hypothesis, other: Hypothesis) -> bool:
    """Whether rounding may decide which is first."""
    return one.finished == other.finished and abs((one.score or 0.0) - (other.score or 0.0)) <= TOLERANCE
