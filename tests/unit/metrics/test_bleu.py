"""N-gram counts and BLEU beside sacreBLEU, nltk and arithmetic done by hand."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

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


@pytest.mark.parametrize("token", ["new york", "a\u00a0b", "\u2028", ""])
def test_a_token_with_white_space_in_it_stays_one_token(token: str) -> None:
    odd, plain = ["in", token, "we", "met"], ["in", "paris", "we", "met"]

    assert CorpusBleu().score([odd], [odd]).value == pytest.approx(100)
    assert CorpusBleu().score([odd], [plain]).value < 99


@given(pairs)
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


def test_signatures_bring_sacrebleus_and_name_smoothing_and_penalty() -> None:
    corpus, sentence = (
        str(metric.score([["a"]], [["a"]]).signature) for metric in (CorpusBleu(), SentenceBleu())
    )

    assert f"nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:{sacrebleu.__version__}" in corpus
    assert sentence.startswith("metric:sentence_bleu|order:4|smoothing:floor|brevity:ordinary|mean:replies|")
