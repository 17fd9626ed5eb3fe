"""Mean sentence BLEU beside nltk's, beside what similarities compute, and beside arithmetic done by hand."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from bidibeam.metrics.ngrams import count_ngrams
from bidibeam.metrics.sentence_bleu import SentenceBleu, sentence_bleus
from bidibeam.similarities import bleu as similarities

sentences = st.lists(st.sampled_from(["a", "b", "c", "the", "."]), max_size=9)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


@given(pairs)
def test_it_is_the_mean_of_nltks_sentence_bleu(pairs: list[tuple[list[str], list[str]]]) -> None:
    smoothing = SmoothingFunction().method1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [
            sentence_bleu([reference], reply, smoothing_function=smoothing) for reply, reference in pairs
        ]

    score = SentenceBleu().score([reply for reply, _ in pairs], [reference for _, reference in pairs])

    assert score.value == pytest.approx(100 * sum(theirs) / len(theirs), abs=1e-9)


@given(pairs)
@settings(deadline=None)  # the first call may have to compile
def test_each_reply_scores_what_the_oracle_would_give_it(pairs: list[tuple[list[str], list[str]]]) -> None:
    counts = count_ngrams([reply for reply, _ in pairs], [reference for _, reference in pairs], 4)

    expected = [similarities.sentence_bleus([reply], reference)[0] for reply, reference in pairs]

    assert sentence_bleus(counts) == pytest.approx(expected, abs=1e-12)


def test_it_equals_the_arithmetic() -> None:
    replies = [["a", "b", "x"], ["a", "b", "c", "d", "e"], []]
    references = [["a", "b", "c", "d"], ["a", "b", "c", "d", "e"], ["a"]]

    # 2/3, 1/2, then a tenth of a match among one trigram and among no 4-gram; one word short of four
    first = math.exp(1 - 4 / 3) * (2 / 3 * 1 / 2 * 0.1 * 0.1) ** 0.25

    assert SentenceBleu().score(replies, references).value == pytest.approx(100 * (first + 1 + 0) / 3)


def test_a_long_reply_counts_no_more_than_a_short_one() -> None:
    long, short = ["a"] * 50, ["b", "c", "d", "e"]

    value = SentenceBleu().score([long, short], [["x"] * 50, short]).value

    assert value == pytest.approx(50)


def test_counts_that_are_there_already_give_the_same_score() -> None:
    replies, references = [["a", "b"], ["c"]], [["a", "b", "c"], ["c", "d"]]

    counts = count_ngrams(replies, references, 4)

    assert SentenceBleu().of_counts(counts) == SentenceBleu().score(replies, references)


def test_the_signature_names_smoothing_and_penalty() -> None:
    signature = str(SentenceBleu().score([["a"]], [["a"]]).signature)

    assert signature.startswith("metric:sentence_bleu|order:4|smoothing:floor|brevity:ordinary|mean:replies|")
