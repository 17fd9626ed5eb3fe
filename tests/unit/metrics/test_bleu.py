"""N-gram counts and BLEU beside sacreBLEU, nltk and arithmetic done by hand."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from bidibeam.metrics import ngrams
from bidibeam.metrics.bleu import CorpusBleu, SentenceBleu, corpus_bleu, sentence_bleus
from bidibeam.metrics.ngrams import count_ngrams
from bidibeam.similarities import bleu as similarities

Sentence = list[str]

sentences = st.lists(st.sampled_from(["a", "b", "c", "the", "."]), max_size=9)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


def split_pairs(pairs: list[tuple[Sentence, Sentence]]) -> tuple[list[Sentence], list[Sentence]]:
    return [reply for reply, _ in pairs], [reference for _, reference in pairs]


@given(pairs, st.integers(1, 6))
def test_counts_are_those_of_a_counter_for_each_pair(
    pairs: list[tuple[Sentence, Sentence]], order: int
) -> None:
    def grams(tokens: Sentence, n: int) -> Counter[tuple[str, ...]]:
        return Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))

    counts = count_ngrams(*split_pairs(pairs), order)

    for row, (reply, reference) in enumerate(pairs):
        for n in range(1, order + 1):
            ours, theirs = grams(reply, n), grams(reference, n)
            assert counts.matches[row, n - 1] == (ours & theirs).total()
            assert counts.reply_ngrams[row, n - 1] == ours.total()
            assert counts.reference_ngrams[row, n - 1] == theirs.total()


@pytest.mark.parametrize("largest", [1, 20, 300])
def test_numbers_that_would_grow_too_large_are_made_smaller(
    monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    replies = [["a", "b", "c", "d", "a", "b"], ["c", "c", "c"], ["d"]]
    references = [["b", "c", "d", "a", "a", "b"], ["c", "c"], []]
    expected = count_ngrams(replies, references, 4).matches.tolist()

    monkeypatch.setattr(ngrams, "LARGEST", largest)

    assert count_ngrams(replies, references, 4).matches.tolist() == expected
    assert expected[0] == [6, 4, 2, 1]


def test_a_large_vocabulary_does_not_overflow() -> None:
    words = [f"w{number}" for number in range(70_000)]  # to the fourth power, it takes 65 bits

    counts = count_ngrams([words, words[::-1]], [words, words], 4)

    assert counts.matches.tolist() == [[70_000, 69_999, 69_998, 69_997], [70_000, 0, 0, 0]]


@given(pairs)
def test_corpus_bleu_equals_sacrebleu_called_on_lines_of_text(pairs: list[tuple[Sentence, Sentence]]) -> None:
    replies, references = split_pairs(pairs)
    expected = sacrebleu.corpus_bleu(
        list(map(" ".join, replies)), [list(map(" ".join, references))], tokenize="none", force=True
    )

    sums = count_ngrams(replies, references, 4).statistics.sum(axis=0)

    assert sums.tolist() == [expected.sys_len, expected.ref_len, *expected.counts, *expected.totals]
    assert corpus_bleu(sums[np.newaxis])[0] == expected.score  # to the last bit
    assert CorpusBleu().score(replies, references).value == pytest.approx(expected.score)
    copied = CorpusBleu().score(references, references).value
    assert copied >= expected.score - 1e-9 or copied == 0


def test_corpus_bleu_equals_the_arithmetic() -> None:
    reply, reference = ["a", "b", "c", "d", "x"], ["a", "b", "c", "d", "e", "f"]

    # precisions 4/5, 3/4, 2/3, 1/2 and a reply one word short of six
    expected = 100 * math.exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25

    assert CorpusBleu().score([reply], [reference]).value == pytest.approx(expected)
    assert CorpusBleu().score([reference], [reference]).value == pytest.approx(100)


@pytest.mark.parametrize("token", ["new york", "a\u00a0b", "\u2028", ""])
def test_a_token_with_white_space_in_it_stays_one_token(token: str) -> None:
    odd, plain = ["in", token, "we", "met"], ["in", "paris", "we", "met"]

    assert CorpusBleu().score([odd], [odd]).value == pytest.approx(100)
    assert CorpusBleu().score([odd], [plain]).value < 99


@given(pairs)
@settings(deadline=None)  # the first call may have to compile
def test_sentence_bleu_is_the_mean_of_nltks_and_each_replys_that_of_the_oracle(
    pairs: list[tuple[Sentence, Sentence]],
) -> None:
    smoothing = SmoothingFunction().method1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [
            sentence_bleu([reference], reply, smoothing_function=smoothing) for reply, reference in pairs
        ]

    counts = count_ngrams(*split_pairs(pairs), 4)

    score = SentenceBleu().score(*split_pairs(pairs))
    assert score.value == pytest.approx(100 * sum(theirs) / len(theirs), abs=1e-9)
    assert SentenceBleu().of_counts(counts) == score
    oracle = [similarities.sentence_bleus([reply], reference)[0] for reply, reference in pairs]
    assert sentence_bleus(counts) == pytest.approx(oracle, abs=1e-12)


def test_sentence_bleu_equals_the_arithmetic_and_every_reply_counts_alike() -> None:
    replies = [["a", "b", "x"], ["a", "b", "c", "d", "e"], []]
    references = [["a", "b", "c", "d"], ["a", "b", "c", "d", "e"], ["a"]]

    # 2/3, 1/2, then a tenth of a match among one trigram and among no 4-gram; one word short of four
    first = math.exp(1 - 4 / 3) * (2 / 3 * 1 / 2 * 0.1 * 0.1) ** 0.25

    assert SentenceBleu().score(replies, references).value == pytest.approx(100 * (first + 1 + 0) / 3)


def test_signatures_bring_sacrebleus_and_name_smoothing_and_penalty() -> None:
    corpus, sentence = (
        str(metric.score([["a"]], [["a"]]).signature) for metric in (CorpusBleu(), SentenceBleu())
    )

    assert f"nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:{sacrebleu.__version__}" in corpus
    assert sentence.startswith("metric:sentence_bleu|order:4|smoothing:floor|brevity:ordinary|mean:replies|")
