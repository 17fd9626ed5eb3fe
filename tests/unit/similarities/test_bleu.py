"""BLEU and its n-gram counts beside nltk's, and beside arithmetic done by hand."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate import bleu_score

from bidibeam.errors import SettingsError
from bidibeam.protocols import ClosestPairFinder
from bidibeam.similarities.bleu import (
    Bleu,
    BleuT,
    brevity_penalties,
    count_matches,
    number_tokens,
    sentence_bleus,
)
from bidibeam.work import counting
from tests.unit.similarities.made import compare, compiling, hypotheses, is_first_highest

METHODS = {"floor": "method1", "none": "method0", "add-1": "method2"}
UNEVEN = (0.4, 0.3, 0.2, 0.1)
IMPOSSIBLE_WEIGHTS = [(0.5, 0.6), (1.0,), (1.5, -0.5), (0.5, math.nan), (0.5, math.inf), ("a", "b"), 0.5, ()]

Lists = list[list[str]]
sequences = st.lists(st.sampled_from(["a", "b", "c", "the", ""]), max_size=10)
lists = st.lists(sequences, max_size=5)
filled = st.lists(sequences, min_size=1, max_size=5)


def assert_counts_are_nltks(one: Lists, other: Lists, order: int = 4) -> None:
    numerators, denominators = count_matches(number_tokens(one, other), order)
    assert numerators.shape == (order, len(one), len(other))
    assert denominators.shape == (order, len(one))
    for (row, hypothesis), (column, reference), n in product(enumerate(one), enumerate(other), range(order)):
        theirs = bleu_score.modified_precision([reference], hypothesis, n + 1)
        ours = numerators[n, row, column], denominators[n, row]
        assert ours == (theirs.numerator, theirs.denominator), (hypothesis, reference, n + 1)


@compiling
@given(lists, lists, st.integers(1, 7))
def test_counts_are_nltks(one: Lists, other: Lists, order: int) -> None:
    assert_counts_are_nltks(one, other)
    assert_counts_are_nltks(one, other[:2], order)


@pytest.mark.parametrize("words", [1, 2, 3, 30, 2000], ids="{} words".format)
def test_counts_are_nltks_for_long_sequences(words: int) -> None:
    generator = np.random.default_rng(words)
    both = [generator.integers(words, size=size).astype(str).tolist() for size in (200, 63, 64, 65, 1, 128)]

    assert_counts_are_nltks(both[:4], both[1:])


def test_counts_by_hand() -> None:
    tokens = number_tokens([["the", "the", "the", "cat"]], [["the", "cat", "the"], []])

    numerators, denominators = count_matches(tokens, 2)

    # Two of three "the" and "cat"; of "the the" twice and "the cat", the last alone.
    assert numerators.tolist() == [[[3, 0]], [[1, 0]]]
    assert denominators.tolist() == [[4], [3]]
    assert [each.tolist() for each in tokens[:2]] == [[0, 0, 0, 1, 0, 1, 0], [0, 4, 7, 7]]


def nltks(
    hypothesis: Sequence[str],
    reference: Sequence[str],
    method: str,
    weights: tuple[float, ...] = (0.25,) * 4,
    *,
    penalised: bool = False,
) -> float:
    """nltk's sentence BLEU, with or without its brevity penalty."""
    smoothing = getattr(bleu_score.SmoothingFunction(), method)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*The hypothesis contains 0 counts")
        score = bleu_score.sentence_bleu(
            [reference], hypothesis, weights=weights, smoothing_function=smoothing
        )
    if penalised or not score:
        return float(score)
    return float(score / bleu_score.brevity_penalty(len(reference), len(hypothesis)))


@pytest.mark.parametrize("smoothing", METHODS)
@pytest.mark.parametrize("weights", [None, UNEVEN, (0.5, 0.5), (0.0, 0.0, 1.0)], ids=str)
@compiling
@given(one=lists, other=lists)
def test_scores_are_nltks(
    one: Lists, other: Lists, weights: tuple[float, ...] | None, smoothing: Any
) -> None:
    similarity = Bleu(order=len(weights) if weights else 4, weights=weights, smoothing=smoothing)

    ours = similarity.pairwise(hypotheses(*one), hypotheses(*other))

    for (row, hypothesis), (column, reference) in product(enumerate(one), enumerate(other)):
        theirs = nltks(hypothesis, reference, METHODS[smoothing], weights or (0.25,) * 4)
        if smoothing == "none" and theirs:
            # Where an order has no match, nltk calculates with the smallest float instead of 0.
            used = [n for n, weight in enumerate(weights or (0.25,) * 4, 1) if weight]
            precisions = [bleu_score.modified_precision([reference], hypothesis, n) for n in used]
            theirs *= all(precision.numerator for precision in precisions)
        assert ours[row, column] == pytest.approx(theirs, rel=1e-12, abs=1e-12), (hypothesis, reference)


@compiling
@given(one=lists, reference=sequences)
def test_sentence_bleus_are_nltks(one: Lists, reference: list[str]) -> None:
    ours = sentence_bleus(one, reference)

    assert ours.shape == (len(one),)
    theirs = [nltks(hypothesis, reference, "method1", penalised=True) for hypothesis in one]
    assert ours.tolist() == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@compiling
@given(one=filled, other=filled, max_length=st.integers(1, 12))
def test_the_closest_pair_is_the_exhaustive_searchs(one: Lists, other: Lists, max_length: int) -> None:
    penalties = brevity_penalties(np.array([len(each) for each in one], dtype=np.int32), max_length)
    # Rounded, so that nltk's last digits do not break ties; `max` keeps the first of equals.
    scores = {
        (row, column): round(penalties[row] * nltks(one[row], other[column], "method1"), 12)
        for row, column in product(range(len(one)), range(len(other)))
    }

    closest = BleuT(max_length=max_length).closest(hypotheses(*one), hypotheses(*other))

    assert closest[:2] == max(scores, key=scores.__getitem__)


@pytest.mark.parametrize("smoothing", METHODS)
@pytest.mark.parametrize(
    "weights", [1, 2, 3, 4, 6, UNEVEN, (0.5, 0.5, 0.0), (0.0, 1.0), (0.0, 0.0, 0.3, 0.7)], ids=str
)
@settings(deadline=None, max_examples=30)
@given(pool=filled, data=st.data(), max_length=st.sampled_from([None, 1, 3, 5, 9, 20, 5000]))
def test_the_closest_pair_is_the_first_highest_of_the_matrix(
    pool: Lists, data: st.DataObject, max_length: int | None, weights: Any, smoothing: Any
) -> None:
    order = {"order": weights} if isinstance(weights, int) else {"order": len(weights), "weights": weights}
    options: dict[str, Any] = {**order, "smoothing": smoothing}
    similarity = Bleu(**options) if max_length is None else BleuT(**options, max_length=max_length)
    some = st.lists(st.sampled_from(pool), min_size=1, max_size=5)  # few sequences, so that they recur
    one, other = (hypotheses(*data.draw(some)) for _ in range(2))

    assert is_first_highest(similarity.closest(one, other), similarity.pairwise(one, other))


def test_a_pair_by_hand() -> None:
    # Precisions 4/5, 2/4, 1/3, and no four words in a row.
    pair, product_of_three = ("a b c x d", "a b c d e"), 4 / 5 * 2 / 4 * 1 / 3

    assert compare(Bleu(), *pair) == pytest.approx((product_of_three * 0.1 / 2) ** 0.25)
    assert compare(Bleu(smoothing="none"), *pair) == 0
    assert compare(Bleu(smoothing="add-1"), *pair) == pytest.approx((4 / 5 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert compare(Bleu(order=3), *pair) == pytest.approx(product_of_three ** (1 / 3))
    assert compare(Bleu(order=2, weights=(0.8, 0.2)), *pair) == pytest.approx(0.8**0.8 * 0.5**0.2)


@pytest.mark.parametrize("smoothing", METHODS)
def test_no_matching_word_scores_zero_however_smoothed(smoothing: Any) -> None:
    assert compare(Bleu(smoothing=smoothing), "a b", "c d e") == 0.0


def test_a_copy_scores_one_from_four_words_on_and_there_is_no_ordinary_brevity_penalty() -> None:
    assert compare(Bleu(), "a b c d", "a b c d") == 1.0
    assert compare(Bleu(), "a", "a") == pytest.approx(0.001**0.25)
    assert compare(Bleu(), "a b c d", "a b c d e f g h") == 1.0


def test_the_penalty_is_the_hypothesis_own() -> None:
    both = hypotheses("a b c d", "a b c d e f g h")

    matrix, plain = BleuT(max_length=8).pairwise(both, both), Bleu().pairwise(both, both)

    assert matrix[0].tolist() == pytest.approx((math.exp(1 - 8 / 4) * plain[0]).tolist())
    assert matrix[1].tolist() == plain[1].tolist()


@compiling
@given(one=lists, other=lists)
def test_scores_rank_and_tie_as_exact_fractions_do(one: Lists, other: Lists) -> None:
    scores = Bleu().pairwise(hypotheses(*one), hypotheses(*other))

    by_fraction: dict[Fraction, set[float]] = {}
    for (row, hypothesis), (column, reference) in product(enumerate(one), enumerate(other)):
        precisions = [bleu_score.modified_precision([reference], hypothesis, n) for n in range(1, 5)]
        exact = Fraction(bool(precisions[0]))
        for each in precisions:  # nltk leaves them unreduced
            exact *= Fraction(10 * each.numerator or 1, 10 * each.denominator)
        by_fraction.setdefault(exact, set()).add(float(scores[row, column]))
    assert all(len(equal) == 1 for equal in by_fraction.values())
    ranked = [by_fraction[exact].pop() for exact in sorted(by_fraction)]
    assert ranked == sorted(set(ranked))


def test_a_tie_by_hand_is_one_to_the_last_bit() -> None:
    # 5/6 * 4/5 * 3/4 * 2/3 and 8/10 * 7/9 * 6/8 * 5/7 are both a third; as floats the products differ.
    matrix = Bleu().pairwise(hypotheses("a b c d e x", "a b c d e f g h x y"), hypotheses("a b c d e f g h"))

    assert matrix[0, 0] == matrix[1, 0]


def test_uniform_weights_given_are_uniform_weights_and_may_come_as_a_list() -> None:
    texts = hypotheses("a b x y", "a b c x y z")
    listed: Any = [1 / 3, 1 / 3, 1 / 3]

    weighted = Bleu(order=3, weights=listed)

    assert weighted == Bleu(order=3, weights=tuple(listed))
    assert weighted.pairwise(texts, texts).tolist() == Bleu(order=3).pairwise(texts, texts).tolist()


def test_the_first_of_equal_pairs_is_closest_and_pairs_are_counted() -> None:
    one, other = hypotheses("x y z", "a b c", "a b c"), hypotheses("u", "a b c", "a b c", "v")

    with counting() as work:
        closest = BleuT().closest(one, other)

    assert isinstance(BleuT(), ClosestPairFinder)
    assert closest[:2] == (1, 1)
    assert isinstance(closest.value, float)
    assert work.compared_pairs == 3 * 4


def test_signatures_name_every_setting() -> None:
    assert str(BleuT().signature) == "similarity:bleu_t|order:4|smoothing:floor|T:20"
    assert str(BleuT(max_length=30, smoothing="add-1").signature).endswith("|smoothing:add-1|T:30")
    weighted = Bleu(order=2, weights=(0.75, 0.25), smoothing="none")
    assert str(weighted.signature) == "similarity:bleu|order:2|order_weights:0.75,0.25|smoothing:none"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"order": order}, f"order must be a whole number from 1 to 16, not {order!r}.")
            for order in (0, 17, 2.0, True, "4")
        ),
        *(
            ({"order": 2, "weights": weights}, f"one for each order, that sum to 1; received {weights!r}.")
            for weights in IMPOSSIBLE_WEIGHTS
        ),
        ({"smoothing": "method7"}, "smoothing must be one of floor, none, add-1, not 'method7'."),
        *(
            ({"max_length": value}, f"(T) must be a whole number from 1 to 1,000,000, not {value!r}.")
            for value in (0, 1.5, True)
        ),
    ],
    ids=str,
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        BleuT(**options)

    assert str(caught.value).endswith(message)


@pytest.mark.parametrize("module", ["bleu", "wmd"])
def test_importing_it_does_not_import_torch(module: str) -> None:
    command = f"import sys, bidibeam.similarities.{module}; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
