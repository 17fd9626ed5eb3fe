"""The other direction's log-probabilities of hypotheses: of all of them, or of those that can still win."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bidibeam.hypotheses import Hypothesis, NBest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bidibeam.protocols import SequenceScorer

WHOLE_FIRST = 2
"""How many hypotheses of each source, those with the best scores, are scored whole at first."""
BEGINNING = 2
"""Tokens of the others that are scored next: hypotheses share them, so they cost little."""
MARGIN = 1e-4
"""A model's log-probabilities of the same tokens differ by rounding from call to call; by less than this."""


def score_by_other(
    scorer: SequenceScorer, sources: Sequence[str], lists: Sequence[NBest], *, weight: float | None = None
) -> list[NBest]:
    """Fill in `other_log_prob`: what the other direction makes of each hypothesis as a whole reply.

    It is the model's own log-probability: options of the search, such as a repetition penalty, do not count.
    With a weight of 0 or more, only the reply is wanted, the hypothesis with the highest
    score + weight * (other_log_prob, normalised as the score is). A log-probability only falls as a sequence
    goes on, so that of its beginning bounds that of the whole. Hypotheses whose bound is below the best total
    cannot be the reply and keep `other_log_prob=None`, as do those cut off where another one finished.
    `lists` are best first, with ids.
    """
    if weight is None or weight < 0:
        rows = [
            Row(source, place, each) for source, nbest in enumerate(lists) for place, each in enumerate(nbest)
        ]
        _score(scorer, sources, rows)
    else:
        rows = _score_prunable(scorer, sources, lists, weight)
    filled = [list(nbest) for nbest in lists]
    for row in rows:
        filled[row.source][row.place] = row.hypothesis._replace(other_log_prob=row.log_prob)
    return [NBest(tuple(line)) for line in filled]


@dataclass(slots=True)
class Row:
    """One hypothesis that is to be scored."""

    source: int  # the number of its source
    place: int  # in the source's list
    hypothesis: Hypothesis
    log_prob: float = 0.0  # the other direction's, once it is known

    def total(self, weight: float, log_prob: float) -> float:
        """What it is ranked by if the other direction's log-probability is this one."""
        score, own = self.hypothesis.score or 0.0, self.hypothesis.log_prob or 0.0
        return score + weight * log_prob * (score / own if own else 1.0)


def _score_prunable(
    scorer: SequenceScorer, sources: Sequence[str], lists: Sequence[NBest], weight: float
) -> list[Row]:
    """Score the best few hypotheses of each source, then those of the others that can still win."""
    eligible: list[list[Row]] = []
    for source, nbest in enumerate(lists):
        is_finished = any(each.finished for each in nbest)
        rows = [Row(source, place, each) for place, each in enumerate(nbest)]
        eligible.append([row for row in rows if row.hypothesis.finished or not is_finished])
    first = [row for rows in eligible for row in rows if row.place < WHOLE_FIRST]
    _score(scorer, sources, first)
    best = [-math.inf] * len(lists)
    for row in first:
        best[row.source] = max(best[row.source], row.total(weight, row.log_prob))
    rest = [
        row
        for rows in eligible
        for row in rows
        if row.place >= WHOLE_FIRST and row.total(weight, MARGIN) >= best[row.source]
    ]
    beginnings = _log_probs(scorer, sources, rest, first=BEGINNING)
    rest = [
        row
        for row, log_prob in zip(rest, beginnings, strict=True)
        if row.total(weight, log_prob + MARGIN) >= best[row.source]
    ]
    _score(scorer, sources, rest)
    return first + rest


def _score(scorer: SequenceScorer, sources: Sequence[str], rows: Sequence[Row]) -> None:
    for row, log_prob in zip(rows, _log_probs(scorer, sources, rows), strict=True):
        row.log_prob = log_prob


def _log_probs(
    scorer: SequenceScorer, sources: Sequence[str], rows: Sequence[Row], *, first: int | None = None
) -> Iterable[float]:
    """The other direction's log-probabilities of rows, which are sorted by source."""
    wanted = sorted({row.source for row in rows})
    lines: dict[int, list[tuple[int, ...]]] = {source: [] for source in wanted}
    for row in rows:  # as whole replies: one that was cut off ends here
        ended = () if row.hypothesis.finished else (scorer.end_id,)
        lines[row.source].append((*row.hypothesis.ids, *ended))
    if not wanted:
        return []
    log_probs = scorer.log_probs([sources[source] for source in wanted], list(lines.values()), first=first)
    return [value for line in log_probs for value in line]
