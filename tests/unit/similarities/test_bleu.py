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
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate import bleu_score

from bidibeam.errors import SettingsError
from bidibeam.similarities.bleu import Bleu, BleuT, brevity_penalties, count_matches, number_tokens
from tests.unit.similarities.made import compare, hypotheses

METHODS = {"floor": "method1", "none": "method0", "add-1": "method2"}
UNEVEN = (0.4, 0.3, 0.2, 0.1)
Lists = list[list[str]]
sequences = st.lists(st.sampled_from(["a", "b", "c", "the", ""]), max_size=10)
lists = st.lists(sequences, max_size=5)
filled = st.lists(sequences, min_size=1, max_size=5)


def assert_counts_are_nltks(one: Lists, other: Lists, order: int = 4) -> None:
    counts = count_matches(*number_tokens(one, other), order)
    assert counts.shape == (order, len(one), len(other))
    for (row, hypothesis), (column, reference), n in product(enumerate(one), enumerate(other), range(order)):
        theirs = bleu_score.modified_precision([reference], hypothesis, n + 1)
        assert counts[n, row, column] == theirs.numerator, (hypothesis, reference, n + 1)


@given(lists, lists, st.integers(1, 7))
def test_counts_are_nltks(one: Lists, other: Lists, order: int) -> None:
    assert_counts_are_nltks(one, other)
    assert_counts_are_nltks(one, other[:2], order)


@pytest.mark.parametrize("words", [1, 2, 3, 30, 2000], ids="{} words".format)
def test_counts_are_nltks_for_long_sequences(words: int) -> None:
    generator = np.random.default_rng(words)
    both = [generator.integers(words, size=size).astype(str).tolist() for size in (200, 63, 64, 65, 1, 128)]

    assert_counts_are_nltks(both[:4], both[1:])


def nltks(
    hypothesis: Sequence[str], reference: Sequence[str], method: str, weights: tuple[float, ...] = (0.25,) * 4
) -> float:
    """nltk's sentence BLEU without its brevity penalty."""
    smoothing = getattr(bleu_score.SmoothingFunction(), method)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*The hypothesis contains 0 counts")
        score = bleu_score.sentence_bleu(
            [reference], hypothesis, weights=weights, smoothing_function=smoothing
        )
    if not score:
        return 0.0
    return float(score / bleu_score.brevity_penalty(len(reference), len(hypothesis)))


@pytest.mark.parametrize("smoothing", METHODS)
@pytest.mark.parametrize("weights", [None, UNEVEN, (0.5, 0.5), (0.0, 0.0, 1.0)], ids=str)
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


def test_a_pair_by_hand() -> None:
    # Precisions 4/5, 2/4, 1/3, and no four words in a row.
    pair, product_of_three = ("a b c x d", "a b c d e"), 4 / 5 * 2 / 4 * 1 / 3

    assert compare(Bleu(), *pair) == pytest.approx((product_of_three * 0.1 / 2) ** 0.25)
    assert compare(Bleu(smoothing="none"), *pair) == 0
    assert compare(Bleu(smoothing="add-1"), *pair) == pytest.approx((4 / 5 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert compare(Bleu(order=3), *pair) == pytest.approx(product_of_three ** (1 / 3))
    assert compare(Bleu(), "a b c d", "a b c d e f g h") == 1.0  # no ordinary brevity penalty
    assert compare(Bleu(order=2, weights=(0.8, 0.2)), *pair) == pytest.approx(0.8**0.8 * 0.5**0.2)


def test_the_penalty_is_the_hypothesis_own() -> None:
    both = hypotheses("a b c d", "a b c d e f g h")

    matrix, plain = BleuT(max_length=8).pairwise(both, both), Bleu().pairwise(both, both)

    assert matrix[0].tolist() == pytest.approx((math.exp(1 - 8 / 4) * plain[0]).tolist())
    assert matrix[1].tolist() == plain[1].tolist()


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


def test_signatures_name_every_setting() -> None:
    assert str(BleuT().signature) == "similarity:bleu_t|order:4|smoothing:floor|T:median"
    assert str(BleuT(max_length=30, smoothing="add-1").signature).endswith("|smoothing:add-1|T:30")
    weighted = Bleu(order=2, weights=(0.75, 0.25), smoothing="none")
    assert str(weighted.signature) == "similarity:bleu|order:2|order_weights:0.75,0.25|smoothing:none"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 0}, "order must be a whole number from 1 to 16, not 0"),
        ({"order": 2.0}, "not 2.0"),
        ({"order": True}, "not True"),
        ({"order": 2, "weights": (0.5, 0.6)}, "one for each order, that sum to 1; received (0.5, 0.6)"),
        ({"order": 2, "weights": (1.0,)}, "received (1.0,)"),
        ({"order": 2, "weights": (1.5, -0.5)}, "received (1.5, -0.5)"),
        ({"order": 2, "weights": (0.5, math.nan)}, "received (0.5, nan)"),
        ({"order": 2, "weights": ("a", "b")}, "received ('a', 'b')"),
        ({"order": 2, "weights": 0.5}, "received 0.5"),
        ({"smoothing": "method7"}, "smoothing must be one of floor, none, add-1, not 'method7'"),
        ({"max_length": 0}, "(T) must be a whole number from 1 to 1,000,000, or median, not 0"),
        ({"max_length": 1.5}, "not 1.5"),
    ],
    ids=str,
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        BleuT(**options)

    assert str(caught.value).endswith(f"{message}.")


@pytest.mark.parametrize("module", ["bleu", "wmd"])
def test_importing_it_does_not_import_torch(module: str) -> None:
    command = f"import sys, bidibeam.similarities.{module}; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
