"""Scores from remembered counts are those of the metrics."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.evaluation.analyses.tally import Tally
from bidibeam.metrics import METRICS

sentences = st.lists(st.sampled_from(["a", "b", "c", "d", "don't", "."]), max_size=9).map(" ".join)


@given(
    st.lists(st.tuples(sentences, sentences, sentences), min_size=1, max_size=6),
)
@settings(deadline=None, max_examples=150)
def test_every_score_is_the_metrics_own_to_the_last_bit(rows: list[tuple[str, str, str]]) -> None:
    references = [split(reference) for _, _, reference in rows]
    tally = Tally(references)

    for column in (0, 1, 0):  # the third time everything is remembered
        replies = [row[column] for row in rows]
        words = [split(reply) for reply in replies]
        expected = {
            name: METRICS.create(name).score(words, references).value
            for name in ("bleu", "length_ratio", "distinct-1", "distinct-2")
        }
        assert tally.scores(replies) == expected
        assert tally.bleu(replies) == expected["bleu"]


def test_the_same_reply_to_another_source_is_counted_anew() -> None:
    tally = Tally([["a", "b", "c", "d"], ["e", "f", "g", "h"]])

    assert tally.bleu(["a b c d", "e f g h"]) == pytest.approx(100)
    assert tally.bleu(["e f g h", "a b c d"]) == 0.0


def test_as_many_replies_as_references_are_needed() -> None:
    with pytest.raises(InputError, match="there are 1 replies and 2 references"):
        Tally([["a"], ["b"]]).bleu(["a"])
