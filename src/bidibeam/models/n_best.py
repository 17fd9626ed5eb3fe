"""N-best lists: hypotheses scored and ranked as our own search does, one per text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from bidibeam.data.words import split
from bidibeam.hypotheses import Hypothesis, NBest
from bidibeam.search.length import LENGTH_PENALTIES

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from bidibeam.search.settings import SearchSettings


def merge_texts(hypotheses: Iterable[Hypothesis], *, is_end_told: bool = True) -> list[list[Hypothesis]]:
    """Hypotheses in groups that read as the same text, best first; the first of each stands for all.

    One that was cut off does not stand for those that finished, since it ranks after them, where
    `is_end_told`.
    """
    groups: dict[Hashable, list[Hypothesis]] = {}
    for one in hypotheses:
        groups.setdefault((one.text, one.finished) if is_end_told else one.text, []).append(one)
    return [
        group if len(group) == 1 else [group[0]._replace(multiplicity=len(group)), *group[1:]]
        for group in groups.values()
    ]


def to_n_best(hypotheses: Sequence[Hypothesis], *, is_end_told: bool = True) -> NBest:
    """An n-best list with one hypothesis per text, as `merge_texts` has them."""
    if len({one.text for one in hypotheses}) == len(hypotheses):  # as a rule: groups would take longer
        return NBest(tuple(hypotheses))
    return NBest(tuple(group[0] for group in merge_texts(hypotheses, is_end_told=is_end_told)))


def score_hypothesis(
    text: str, ids: Sequence[int], log_prob: float, settings: SearchSettings, *, is_finished: bool
) -> Hypothesis:
    """A hypothesis of ids in reading order, the end included, with |Y| and the score by the settings."""
    length = settings.length_after(len(ids)) if is_finished else len(ids)
    penalty = LENGTH_PENALTIES.create(settings.length_formula, settings.length_penalty)
    score = float(penalty.score(torch.tensor(log_prob, dtype=torch.float64), length))
    return Hypothesis(text, tuple(split(text)), log_prob, length, score, is_finished, ids=tuple(ids))


def rank_hypotheses(hypotheses: Sequence[Hypothesis], settings: SearchSettings) -> NBest:
    """Rank by score, those cut off as `settings.unfinished` says; the best of a text stands for all of it."""
    ranked = [*to_n_best(sorted(hypotheses, key=lambda one: -(one.score or 0.0)))]
    if settings.unfinished == "drop":
        ranked = [one for one in ranked if one.finished]
    elif settings.unfinished == "keep":
        ranked.sort(key=lambda one: not one.finished)
    return NBest(tuple(ranked[: settings.beam_size]))
