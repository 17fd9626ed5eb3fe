"""BLEU beside nltk's, and beside arithmetic done by hand."""

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
from bidibeam.hypotheses import Hypothesis
from bidibeam.protocols import ClosestPairFinder
from bidibeam.similarities.bleu import Bleu, BleuT, sentence_bleus
from bidibeam.similarities.brevity import penalties_of
from bidibeam.work import counting

METHODS = {"floor": "method1", "none": "method0", "add-1": "method2"}
compiling = settings(deadline=None)  # the first example may wait for the compiler

UNEVEN = (0.4, 0.3, 0.2, 0.1)

sequences = st.lists(st.sampled_from(["a", "b", "c", "the", "."]), max_size=10)
lists = st.lists(sequences, max_size=5)
filled = st.lists(sequences, min_size=1, max_size=5)


def hypotheses(*texts: str | Sequence[str]) -> list[Hypothesis]:
    tokens = [tuple(text.split() if isinstance(text, str) else text) for text in texts]
    return [Hypothesis(" ".join(each), each, None, len(each) + 1, None) for each in tokens]


def nltks(
    hypothesis: Sequence[str], reference: Sequence[str], method: str, weights: tuple[float, ...]
) -> float:
    """nltk's sentence BLEU, its brevity penalty included."""
    smoothing = getattr(bleu_score.SmoothingFunction(), method)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*The hypothesis contains 0 counts")
        score = bleu_score.sentence_bleu(
            [reference], hypothesis, weights=weights, smoothing_function=smoothing
        )
    return float(score)


def nltks_without_penalty(
    hypothesis: Sequence[str], reference: Sequence[str], method: str, weights: tuple[float, ...]
) -> float:
    score = nltks(hypothesis, reference, method, weights)
    return score and score / float(bleu_score.brevity_penalty(len(reference), len(hypothesis)))


@pytest.mark.parametrize("smoothing", METHODS)
@pytest.mark.parametrize("weights", [None, UNEVEN, (0.5, 0.5), (0.0, 0.0, 1.0)], ids=str)
@compiling
@given(judged=lists, others=lists)
def test_scores_are_nltks(
    judged: list[list[str]], others: list[list[str]], weights: tuple[float, ...] | None, smoothing: Any
) -> None:
    similarity = Bleu(order=len(weights) if weights else 4, weights=weights, smoothing=smoothing)

    ours = similarity.pairwise(hypotheses(*judged), hypotheses(*others))

    for (row, hypothesis), (column, reference) in product(enumerate(judged), enumerate(others)):
        theirs = nltks_without_penalty(hypothesis, reference, METHODS[smoothing], weights or (0.25,) * 4)
        if smoothing == "none" and theirs:
            # Where an order has no match, nltk calculates with the smallest float instead of 0.
            used = [n for n, weight in enumerate(weights or (0.25,) * 4, 1) if weight]
            precisions = [bleu_score.modified_precision([reference], hypothesis, n) for n in used]
            theirs *= all(precision.numerator for precision in precisions)
        assert ours[row, column] == pytest.approx(theirs, rel=1e-12, abs=1e-12), (hypothesis, reference)


@compiling
@given(judged=st.lists(sequences, max_size=6), reference=sequences)
def test_sentence_bleus_are_nltks(judged: list[list[str]], reference: list[str]) -> None:
    ours = sentence_bleus(judged, reference)

    assert ours.dtype == np.float64
    assert ours.shape == (len(judged),)
    theirs = [nltks(hypothesis, reference, "method1", (0.25,) * 4) for hypothesis in judged]
    assert ours.tolist() == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@compiling
@given(judged=filled, others=filled, max_length=st.integers(1, 12))
def test_the_closest_pair_is_the_exhaustive_searchs(
    judged: list[list[str]], others: list[list[str]], max_length: int
) -> None:
    similarity = BleuT(max_length=max_length)
    found, compared = hypotheses(*judged), hypotheses(*others)
    penalties = penalties_of(np.array([len(each) for each in judged], dtype=np.int32), max_length)

    # Rounded, so that nltk's last digits do not break ties; `max` keeps the first of equals.
    pairs = list(product(range(len(judged)), range(len(others))))
    scores = {
        (row, column): round(
            penalties[row] * nltks_without_penalty(judged[row], others[column], "method1", (0.25,) * 4), 12
        )
        for row, column in pairs
    }
    best = max(pairs, key=scores.__getitem__)
    closest = similarity.closest(found, compared)

    assert (closest.judged, closest.other) == best
    assert closest.value == similarity.pairwise(found, compared).max()


@st.composite
def many_comparisons(draw: st.DrawFn) -> list[tuple[list[Hypothesis], list[Hypothesis]]]:
    """Few sequences, so that they recur: in one list, in both, and in other comparisons."""
    pool = draw(st.lists(sequences, min_size=1, max_size=6))
    some = st.lists(st.sampled_from(pool), min_size=1, max_size=5).map(lambda few: hypotheses(*few))
    return draw(st.lists(st.tuples(some, some), max_size=4))


@pytest.mark.parametrize("smoothing", METHODS)
@pytest.mark.parametrize(
    "weights", [1, 2, 3, 4, 6, UNEVEN, (0.5, 0.5, 0.0), (0.0, 1.0), (0.0, 0.0, 0.3, 0.7)], ids=str
)
@settings(deadline=None, max_examples=60)
@given(comparisons=many_comparisons(), max_length=st.sampled_from([None, 1, 3, 5, 9, 20, 5000]))
def test_many_at_once_are_each_the_first_highest_of_its_own_matrix(
    comparisons: list[tuple[list[Hypothesis], list[Hypothesis]]],
    max_length: int | None,
    weights: int | tuple[float, ...],
    smoothing: Any,
) -> None:
    options: dict[str, Any] = (
        {"order": weights} if isinstance(weights, int) else {"order": len(weights), "weights": weights}
    )
    options["smoothing"] = smoothing
    similarity = Bleu(**options) if max_length is None else BleuT(**options, max_length=max_length)

    found = similarity.closest_pairs(comparisons)

    assert len(found) == len(comparisons)
    for closest, (judged, others) in zip(found, comparisons, strict=True):
        matrix = similarity.pairwise(judged, others)
        assert (closest.judged, closest.other) == divmod(int(matrix.argmax()), len(others))
        assert closest.value == matrix.max()


def test_a_copy_settles_what_is_shorter_but_not_what_is_longer_or_stands_before_it() -> None:
    copy, inside, longer = "a b c d", "b c d e", "a b c d e f"
    others = hypotheses("x b c d e", copy, "a b c d e y")
    similarity = BleuT(max_length=8)

    # What is part of another hypothesis scores as high as a copy: the first of both is closest.
    assert similarity.closest_pairs([(hypotheses(inside, copy), others)] * 2)[1][:2] == (0, 0)
    assert similarity.closest_pairs([(hypotheses(copy, inside), others)] * 2)[1][:2] == (0, 1)
    assert similarity.closest_pairs([(hypotheses(copy, longer), others)] * 2)[1][:2] == (1, 2)
    assert similarity.closest_pairs([(hypotheses("a b c", copy), others)] * 2)[1][:2] == (1, 1)


def test_a_copy_with_fewer_tokens_than_the_order_settles_nothing() -> None:
    copy = "a b c"  # its precision of order 4 is floored: 0.1 to the power of 1/4
    judged, others = hypotheses(copy, "x a b c d e"), hypotheses(copy, "a b c d e")

    found = BleuT(max_length=3).closest_pairs([(judged, others), (judged[:1], others)])

    assert [pair[:2] for pair in found] == [(1, 1), (0, 0)]
    assert found[1].value == pytest.approx(0.1**0.25)


def test_a_pair_by_hand() -> None:
    # Precisions 4/5, 2/4, 1/3, and no four words in a row.
    judged, others = hypotheses("a b c x d"), hypotheses("a b c d e")
    product_of_three = 4 / 5 * 2 / 4 * 1 / 3

    scores = {
        smoothing: Bleu(smoothing=smoothing).pairwise(judged, others).item()
        for smoothing in ("floor", "none", "add-1")
    }

    assert scores["floor"] == pytest.approx((product_of_three * 0.1 / 2) ** 0.25)
    assert scores["none"] == 0
    assert scores["add-1"] == pytest.approx((4 / 5 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert Bleu(order=3).pairwise(judged, others).item() == pytest.approx(product_of_three ** (1 / 3))
    weighted = Bleu(order=2, weights=(0.8, 0.2)).pairwise(judged, others).item()
    assert weighted == pytest.approx(0.8**0.8 * 0.5**0.2)


def test_the_penalty_is_the_judged_hypothesis_own() -> None:
    short, long = hypotheses("a b c d")[0], hypotheses("a b c d e f g h")[0]

    matrix = BleuT(max_length=8).pairwise([short, long], [short, long])

    plain = Bleu().pairwise([short, long], [short, long])
    assert matrix[0].tolist() == pytest.approx((math.exp(1 - 8 / 4) * plain[0]).tolist())
    assert matrix[1].tolist() == plain[1].tolist()


def test_there_is_no_ordinary_brevity_penalty() -> None:
    assert Bleu().pairwise(hypotheses("a b c d"), hypotheses("a b c d e f g h")).item() == 1.0


def test_no_matching_word_scores_zero_however_smoothed() -> None:
    for smoothing in ("floor", "none", "add-1"):
        assert Bleu(smoothing=smoothing).pairwise(hypotheses("a b"), hypotheses("c d e")).item() == 0.0


def test_a_copy_scores_one_from_four_words_on() -> None:
    assert Bleu().pairwise(hypotheses("a b c d"), hypotheses("a b c d")).item() == 1.0
    assert Bleu().pairwise(hypotheses("a"), hypotheses("a")).item() == pytest.approx(0.001**0.25)


@compiling
@given(judged=lists, others=lists)
def test_scores_rank_and_tie_as_exact_fractions_do(judged: list[list[str]], others: list[list[str]]) -> None:
    scores = Bleu().pairwise(hypotheses(*judged), hypotheses(*others))

    by_fraction: dict[Fraction, set[float]] = {}
    for (row, hypothesis), (column, reference) in product(enumerate(judged), enumerate(others)):
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
    judged = hypotheses("a b c d e x", "a b c d e f g h x y")

    six, ten = Bleu().pairwise(judged, hypotheses("a b c d e f g h"))[:, 0].tolist()

    assert six == ten


def test_uniform_weights_given_are_uniform_weights() -> None:
    judged = hypotheses("a b x y", "a b c x y z")

    given_weights = Bleu(order=3, weights=(1 / 3, 1 / 3, 1 / 3)).pairwise(judged, judged)

    assert given_weights.tolist() == Bleu(order=3).pairwise(judged, judged).tolist()


def test_the_first_of_equal_pairs_is_closest() -> None:
    judged, others = hypotheses("x y z", "a b c", "a b c"), hypotheses("u", "a b c", "a b c")

    closest = Bleu().closest(judged, others)

    assert (closest.judged, closest.other) == (1, 1)
    assert isinstance(closest.value, float)


def test_compared_pairs_are_counted() -> None:
    three, two = hypotheses("a", "b", "c"), hypotheses("a", "b")

    with counting() as work:
        Bleu().pairwise(three, two)
        BleuT().closest(two, two)
        BleuT().closest_pairs([(three, two), (two, two)])

    assert work.compared_pairs == 2 * (3 * 2 + 2 * 2)


def test_signatures_name_every_setting() -> None:
    assert str(BleuT().signature) == "similarity:bleu_t|order:4|smoothing:floor|T:20"
    assert str(BleuT(max_length=30, smoothing="add-1").signature).endswith("|smoothing:add-1|T:30")
    weighted = Bleu(order=2, weights=(0.75, 0.25), smoothing="none")
    assert str(weighted.signature) == "similarity:bleu|order:2|order_weights:0.75,0.25|smoothing:none"


def test_it_is_parallel_and_finds_the_closest_pair() -> None:
    assert isinstance(BleuT(), ClosestPairFinder)
    assert BleuT().is_parallel


def test_weights_may_come_as_a_list() -> None:
    listed: Any = [0.75, 0.25]

    assert Bleu(order=2, weights=listed) == Bleu(order=2, weights=(0.75, 0.25))


@pytest.mark.parametrize("order", [0, 17, 2.0, True, "4"], ids=repr)
def test_an_impossible_order_is_one_sentence(order: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Bleu(order=order)

    assert str(caught.value) == f"order must be a whole number from 1 to 16, not {order!r}."


@pytest.mark.parametrize(
    "weights",
    [(0.5, 0.6), (1.0,), (1.5, -0.5), (0.5, math.nan), (0.5, math.inf), ("a", "b"), 0.5, ()],
    ids=repr,
)
def test_impossible_weights_are_one_sentence(weights: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Bleu(order=2, weights=weights)

    assert str(caught.value) == (
        f"weights must be 2 numbers of at least 0, one for each order, that sum to 1; received {weights!r}."
    )


@pytest.mark.parametrize("similarity", [Bleu, BleuT])
def test_an_unknown_smoothing_is_one_sentence(similarity: type[Bleu]) -> None:
    unknown: Any = "method7"

    with pytest.raises(SettingsError) as caught:
        similarity(smoothing=unknown)

    assert str(caught.value) == "smoothing must be one of floor, none, add-1, not 'method7'."


@pytest.mark.parametrize("max_length", [0, 1.5, True], ids=repr)
def test_an_impossible_maximum_length_is_one_sentence(max_length: Any) -> None:
    with pytest.raises(SettingsError, match=r"^max_length \(T\) must be a whole number from 1 to 1,000,000"):
        BleuT(max_length=max_length)


def test_importing_it_does_not_import_torch() -> None:
    command = "import sys, bidibeam.similarities.bleu; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
