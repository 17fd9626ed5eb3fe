"""Positions: how many words compete for each of the first places of a reply, read from either end."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COMMON = 1000
"""A word that stands somewhere more often than this is a likely choice there: the paper's measure."""


def positions(
    responses: Iterable[Sequence[str]], *, words_shown: int = 50, places: int = 3
) -> dict[str, Any]:
    """Count the words at the first places from the left and from the right.

    Args:
        responses: What people answered, as words.
        words_shown: How many of the commonest words are told.
        places: How many places are counted from each end.

    Raises:
        SettingsError: If either number is below 1.
        InputError: If there are no responses.
    """
    for name, value in (("words_shown", words_shown), ("places", places)):
        if value < 1:
            raise SettingsError(f"{name} must be at least 1, not {value}.")
    counts: dict[str, list[Counter[str]]] = {
        side: [Counter() for _ in range(places)] for side in ("left", "right")
    }
    pairs = 0
    for words in responses:
        pairs += 1
        for place in range(min(places, len(words))):
            counts["left"][place][words[place]] += 1
            counts["right"][place][words[-1 - place]] += 1
    if not pairs:
        raise InputError("There are no responses whose words could be counted.")
    return {
        "words_shown": words_shown,
        "pairs": pairs,
        "from": {
            side: [_summary(place, counter, words_shown) for place, counter in enumerate(counters, start=1)]
            for side, counters in counts.items()
        },
    }


def _summary(position: int, counter: Counter[str], words_shown: int) -> dict[str, Any]:
    """Equally common words stand in the order of the alphabet."""
    shown = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:words_shown]
    return {
        "position": position,
        "words": [word for word, _ in shown],
        "counts": [count for _, count in shown],
        "different": len(counter),
        "entropy_bits": _entropy(counter),
        "above_1000": sum(count > COMMON for count in counter.values()),
    }


def _entropy(counter: Counter[str]) -> float:
    total = counter.total()
    return math.fsum(count / total * math.log2(total / count) for count in counter.values())
