"""Error rates beside sacreBLEU's TER and a slow edit distance; exact match by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.metrics import build_metric
from bidibeam.metrics.edits import CharacterErrorRate, ExactMatch, SentenceErrorRate, Ter, WordErrorRate
from bidibeam.metrics.scoring import measure, score, sign_references
from tests.unit.metrics.test_bleu import columns

texts = st.lists(st.sampled_from(["a", "B", "the", "cat", "é", ".", " "]), max_size=7).map(" ".join)
items = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=5)


def distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The fewest insertions, deletions and replacements, by trying all of them."""

    @cache
    def between(first: int, second: int) -> int:
        if not first or not second:
            return first + second
        replaced = between(first - 1, second - 1) + (one[first - 1] != other[second - 1])
        return min(replaced, between(first - 1, second) + 1, between(first, second - 1) + 1)

    return between(len(one), len(other))


def error_rate(items: list[tuple[Sequence[str], list[Sequence[str]]]]) -> float:
    """Summed edits over summed lengths, each reply beside the reference with the lowest rate."""
    edits = lengths = 0
    for reply, references in items:
        tried = []
        for reference in references:
            found, length = distance(reply, reference), len(reference)
            tried.append((found / length if length else math.inf if found else 0.0, found, length))
        _, found, length = min(tried)
        edits, lengths = edits + found, lengths + length
    return 100 * edits / lengths if lengths else 100.0 * (edits > 0)


@pytest.mark.parametrize("lowercase", [False, True])
@given(items)
def test_wer_and_cer_are_summed_edits_over_summed_lengths(
    lowercase: bool, items: list[tuple[str, list[str]]]
) -> None:
    replies, references = [reply for reply, _ in items], [each for _, each in items]
    cased = [
        (reply.lower(), [text.lower() for text in each]) if lowercase else (reply, each)
        for reply, each in items
    ]
    words = [(reply.split(), [text.split() for text in each]) for reply, each in cased]
    characters = [(reply.strip(), [text.strip() for text in each]) for reply, each in cased]

    for metric, expected in (
        (WordErrorRate(lowercase), error_rate(words)),  # type: ignore[arg-type]
        (CharacterErrorRate(lowercase), error_rate(characters)),  # type: ignore[arg-type]
    ):
        assert score(metric, measure(metric, replies, references)) == pytest.approx(expected, abs=1e-9)


def test_error_rates_by_hand() -> None:
    def rate(name: str, reply: str, *references: str) -> float:
        metric = build_metric(name)
        return score(metric, metric.statistics([reply], [references]))

    assert rate("wer", "the cat sat", "the cat sat down") == 25  # one is missing
    assert rate("wer", "the cat sat down", "The cat") == 150  # one is another, two are too many
    assert rate("wer", "a b", "a c", "a b c d e f g h") == 50  # not 75
    assert rate("wer", "a x", "a b", "a b y y") == 50  # of equal rates the fewest edits
    assert rate("wer", "a", "") == 100
    assert rate("wer", "", "") == 0
    assert rate("cer", " ab cd ", "abcd") == 25  # the space between words is a character
    assert rate("ser", "a", "b") == 100


def test_errors_are_summed_before_they_are_divided() -> None:
    metric = WordErrorRate()

    assert (
        score(metric, metric.statistics(["x", "a b c"], [("a",), ("a b c",)])) == 25
    )  # no mean of 100 and 0


@pytest.mark.parametrize("lowercase", [False, True])
@given(items)
def test_ter_equals_sacrebleus(lowercase: bool, items: list[tuple[str, list[str]]]) -> None:
    replies, references = [reply for reply, _ in items], [each for _, each in items]
    theirs = sacrebleu.TER(case_sensitive=not lowercase)
    expected = theirs.corpus_score(replies, columns(references)).score
    metric = Ter(lowercase)

    assert score(metric, measure(metric, replies, references)) == expected
    assert f"metric:ter|{theirs.get_signature()}|" in str(sign_references(metric.signature, references))
    assert Ter() == Ter(lowercase=True)  # as it is in sacreBLEU


def test_exact_match_is_equal_to_any_reference_but_for_space_around() -> None:
    replies = ["K AE1 T", " K AE1 T ", "k ae1 t", "K  AE1 T"]
    references = [("D AO1 G", "K AE1 T")] * 4

    exact, wrong = ExactMatch(), SentenceErrorRate()
    assert exact.statistics(replies, references)[:, 0].tolist() == [1, 1, 0, 0]
    assert score(exact, exact.statistics(replies, references)) == 50
    assert score(wrong, wrong.statistics(replies, references)) == 50
    typed = exact.statistics(["caf\u00e9"], [["cafe\u0301"]])  # as one character, and as two
    assert typed[:, 0].tolist() == [1]
    for rate in (WordErrorRate(), CharacterErrorRate()):
        assert rate.statistics(["cafe\u0301"], [["caf\u00e9"]])[:, 0].tolist() == [0]
    folded = ExactMatch(lowercase=True)
    assert score(folded, folded.statistics(replies, references)) == 75
    assert (exact.higher_is_better, wrong.higher_is_better) == (True, False)
    assert str(wrong.signature).startswith("metric:ser|nrefs:1|case:mixed|bidibeam:")
