"""N-grams counted for all replies at once, beside sacreBLEU's count reply by reply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from bidibeam.metrics import ngrams
from bidibeam.metrics.ngrams import count_ngrams

sentences = st.lists(st.sampled_from(["a", "b", "c", "the", "."]), max_size=9)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


def lines(sequences: list[list[str]]) -> list[str]:
    return [" ".join(tokens) for tokens in sequences]


@given(pairs)
def test_words_are_counted_as_sacrebleu_counts_them(pairs: list[tuple[list[str], list[str]]]) -> None:
    replies, references = [reply for reply, _ in pairs], [reference for _, reference in pairs]
    metric = BLEU(tokenize="none", force=True)
    expected = metric._extract_corpus_statistics(lines(replies), [lines(references)])

    counts = count_ngrams(replies, references, 4)

    found = np.column_stack(
        [counts.reply_lengths, counts.reference_lengths, counts.matches, counts.reply_ngrams]
    )
    assert found.tolist() == expected


@given(pairs)
def test_characters_are_counted_as_sacrebleu_counts_them(pairs: list[tuple[list[str], list[str]]]) -> None:
    replies, references = ["".join(reply) for reply, _ in pairs], ["".join(each) for _, each in pairs]
    statistics = CHRF()._extract_corpus_statistics(replies, [references])
    expected = np.array(statistics).reshape(len(pairs), 6, 3)  # (pairs, order, reply / reference / matches)

    counts = count_ngrams(replies, references, 6)

    assert counts.matches.tolist() == expected[:, :, 2].tolist()
    assert counts.reference_ngrams.tolist() == expected[:, :, 1].tolist()
    assert np.where(counts.reference_ngrams, counts.reply_ngrams, 0).tolist() == expected[:, :, 0].tolist()


def test_the_counts_are_those_one_sees() -> None:
    counts = count_ngrams([["a", "a", "a", "b"], []], [["a", "a", "b", "b"], ["a"]], 3)

    assert counts.matches.tolist() == [[3, 2, 1], [0, 0, 0]]  # a a b; aa ab; aab
    assert counts.reply_ngrams.tolist() == [[4, 3, 2], [0, 0, 0]]
    assert counts.reference_ngrams.tolist() == [[4, 3, 2], [1, 0, 0]]


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
