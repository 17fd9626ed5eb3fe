"""N-gram counts and BLEU beside sacreBLEU, nltk and a Counter; several references included."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, closest_ref_length, sentence_bleu

from bidibeam.data.words import split
from bidibeam.errors import SettingsError
from bidibeam.metrics.bleu import CorpusBleu, SentenceBleu, corpus_bleu
from bidibeam.metrics.ngrams import count_ngrams
from bidibeam.metrics.scoring import measure, score, sign_references

Sentence = list[str]
Item = tuple[Sentence, list[Sentence]]

sentences = st.lists(st.sampled_from(["a", "b", "c", "the", "."]), max_size=9)
items = st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=6)
texts = st.text(st.sampled_from("aBc. ,-é1漢\u00a0&\n"), max_size=12)
text_items = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=5)


def columns(references: list[list[str]]) -> list[list[str | None]]:
    """The references as sacreBLEU takes them: a list for each place."""
    most = max(map(len, references))
    return [[each[at] if at < len(each) else None for each in references] for at in range(most)]


@given(items, st.integers(1, 6))
def test_counts_are_those_of_a_counter_for_each_item(items: list[Item], order: int) -> None:
    def grams(tokens: Sentence, n: int) -> Counter[tuple[str, ...]]:
        return Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))

    counts = count_ngrams([reply for reply, _ in items], [references for _, references in items], order)

    for row, (reply, references) in enumerate(items):
        assert counts.reference_lengths[row] == closest_ref_length(references, len(reply))
        for n in range(1, order + 1):
            ours, theirs = grams(reply, n), Counter[tuple[str, ...]]()
            for reference in references:
                theirs |= grams(reference, n)
            assert counts.matches[row, n - 1] == (ours & theirs).total()
            assert counts.reply_ngrams[row, n - 1] == ours.total()


def test_a_large_vocabulary_does_not_overflow() -> None:
    words = [f"w{number}" for number in range(70_000)]  # to the fourth power, it takes 65 bits

    counts = count_ngrams([words, words[::-1]], [[words, ["x"]], [words]], 4)

    assert counts.matches.tolist() == [[70_000, 69_999, 69_998, 69_997], [70_000, 0, 0, 0]]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", ["13a", "intl", "char", "none"])
@given(text_items)
def test_corpus_bleu_equals_sacrebleu_to_the_last_bit(
    tokenize: str, lowercase: bool, items: list[tuple[str, list[str]]]
) -> None:
    replies, references = [reply for reply, _ in items], [each for _, each in items]
    theirs = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    expected = theirs.corpus_score(replies, columns(references))
    metric = CorpusBleu(tokenize, lowercase)

    measured = metric.statistics(replies, references)

    sums = [expected.sys_len, expected.ref_len, *expected.counts, *expected.totals]
    assert measured.sum(axis=0).tolist() == sums
    assert score(metric, measured) == expected.score
    signature = str(sign_references(metric.signature, references))
    assert f"|{theirs.get_signature()}|" in signature


@given(items)
def test_own_words_are_compared_as_sacrebleu_compares_them_with_spaces_between(items: list[Item]) -> None:
    replies = [" ".join(reply) for reply, _ in items]
    references = [list(map(" ".join, each)) for _, each in items]
    lines = [[" ".join(split(text)) for text in each] for each in references]
    theirs = sacrebleu.BLEU(tokenize="none", force=True)
    expected = theirs.corpus_score([" ".join(split(reply)) for reply in replies], columns(lines))

    metric = CorpusBleu("words")

    assert score(metric, measure(metric, replies, references)) == expected.score
    assert metric == CorpusBleu("words", lowercase=True)  # they are lower-cased anyway
    assert str(metric.signature).endswith("|words:lower-cased, by bidibeam")


def test_corpus_bleu_takes_sums_of_any_precision() -> None:
    sums = np.array([[20, 19, 12, 7, 3, 0, 20, 17, 14, 11]])

    whole = sacrebleu.BLEU.compute_bleu([12, 7, 3, 0], [20, 17, 14, 11], 20, 19, smooth_method="exp").score
    assert corpus_bleu(sums.astype(np.float64)).tolist() == [whole]
    assert corpus_bleu(sums.astype(np.float32)).tolist() == [pytest.approx(whole, rel=1e-5)]


def test_another_tokenizer_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"^tokenize must be one of 13a, intl, char, none, words, not 'v9'"
    ):
        CorpusBleu("v9")


@given(items)
def test_sentence_bleu_is_the_mean_of_nltks_and_each_replys_is_nltks(items: list[Item]) -> None:
    smoothing = SmoothingFunction().method1
    items = [(split(" ".join(reply)), [split(" ".join(one)) for one in each]) for reply, each in items]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [sentence_bleu(each, reply, smoothing_function=smoothing) for reply, each in items]
    replies = [" ".join(reply) for reply, _ in items]
    references = [list(map(" ".join, each)) for _, each in items]
    metric = SentenceBleu()

    measured = metric.statistics(replies, references)

    assert measured[:, 0] == pytest.approx(theirs, abs=1e-12)
    assert score(metric, measured) == pytest.approx(100 * sum(theirs) / len(theirs), abs=1e-9)


def test_the_signature_of_sentence_bleu_names_smoothing_and_penalty() -> None:
    assert str(SentenceBleu().signature).startswith(
        "metric:sentence_bleu|order:4|smoothing:floor|brevity:ordinary|mean:replies|"
    )


def test_a_signature_says_how_many_references_there_are() -> None:
    signature = SentenceBleu().signature

    assert sign_references(signature, [("a",)]) == signature
    assert str(sign_references(signature, [("a", "b")])).endswith("|nrefs:2")
    assert str(sign_references(signature, [("a", "b"), ("a",)])).endswith("|nrefs:var")
    assert "|nrefs:var|" in str(sign_references(CorpusBleu().signature, [("a", "b"), ("a",)]))
