"""What engines that search by themselves find, scored and ranked as our own search does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from bidibeam.hypotheses import Hypothesis, NBest
from bidibeam.search.length import LENGTH_PENALTIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.search.settings import SearchSettings


def normalise(
    log_prob: float, tokens: int, settings: SearchSettings, *, is_finished: bool
) -> tuple[int, float]:
    """|Y| of a hypothesis of so many tokens, the end included, and its score."""
    length = settings.counted(tokens) if is_finished else tokens
    penalty = LENGTH_PENALTIES.create(settings.length_formula, settings.length_penalty)
    return length, float(penalty.score(torch.tensor(log_prob, dtype=torch.float64), length))


def rank_hypotheses(hypotheses: Sequence[Hypothesis], settings: SearchSettings) -> NBest:
    """Rank by score, those cut off as `settings.unfinished` says; the best of a text stands for all of it."""
    merged: dict[tuple[str, bool], Hypothesis] = {}
    for one in sorted(hypotheses, key=lambda one: -(one.score or 0.0)):
        known = merged.get((one.text, one.finished))
        more = one if known is None else known._replace(multiplicity=known.multiplicity + 1)
        merged[one.text, one.finished] = more
    ranked = [*merged.values()]
    if settings.unfinished == "drop":
        ranked = [one for one in ranked if one.finished]
    elif settings.unfinished == "keep":
        ranked.sort(key=lambda one: not one.finished)
    return NBest(tuple(ranked[: settings.beam_size]))
