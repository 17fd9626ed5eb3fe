"""Replies are scored as words, by every metric."""

from __future__ import annotations

import pytest

from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import InputError
from bidibeam.evaluation.evaluate import evaluate
from bidibeam.metrics import METRICS

TOKENIZER = Tokenizer.train(["i do not know you"], kind="word", vocabulary_size=50)


def test_every_metric_is_computed_and_a_perfect_reply_is_perfect() -> None:
    scores = evaluate(["I don't know, Zoë."], ["i don't know , zoë ."], TOKENIZER)

    assert [score.name for score in scores] == [
        METRICS.create(name).score([["a"]], [["a"]]).name for name in METRICS.names()
    ]
    assert scores[METRICS.names().index("bleu")].value == pytest.approx(100)
    assert scores[METRICS.names().index("length_ratio")].value == pytest.approx(1)


def test_words_that_the_vocabulary_lacks_count_as_themselves() -> None:
    right = evaluate(["zebra quagga okapi bongo"], ["zebra quagga okapi bongo"], TOKENIZER, metrics=["bleu"])
    wrong = evaluate(["gnu gnu gnu gnu"], ["zebra quagga okapi bongo"], TOKENIZER, metrics=["bleu"])

    assert right[0].value == pytest.approx(100)
    assert wrong[0].value < 1


def test_a_missing_reference_is_named() -> None:
    with pytest.raises(InputError, match="Source 2 has no reference"):
        evaluate(["a", "b"], ["a", None], TOKENIZER)
