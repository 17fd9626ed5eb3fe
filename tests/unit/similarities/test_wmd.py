"""Word mover's similarities by hand, in every form and for every kind of hypothesis."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.errors import SettingsError
from bidibeam.protocols import ClosestPairFinder
from bidibeam.similarities.wmd import FORMS, Wmd, WmdT
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.work import counting
from tests.unit.similarities.made import compare, hypotheses, is_first_highest

LINE = WordVectors(
    ["paris", "london", "rome", "see", "the", "in"], np.array([[0.0, 3, 7, 100, 20, 24]]).T, "line"
)
ROUNDED = WordVectors(
    [*LINE.words], np.random.default_rng(1).normal(size=(6, 7)).astype(np.float32), "seven dimensions"
)
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


BP = exp(1 - 4 / 2)  # T = 4, two tokens


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [
        (Wmd(LINE), 1 / 2.5),
        (Wmd(LINE, form="ratio"), 1 / 2.5),
        (Wmd(LINE, form="literal-max"), 1.5 / 2.5),
        (Wmd(LINE, form="literal-min"), 1 / 2.5),
        (WmdT(LINE, max_length=4), BP / 2.5),
        (WmdT(LINE, form="ratio", max_length=4), BP / (BP + 1.5)),
        (WmdT(LINE, form="literal-max", max_length=4), 1.5 * BP / (1 + 1.5 * BP)),
        (WmdT(LINE, form="literal-min", max_length=4), 1 / (1 + 1.5 * BP)),
        (WmdT(LINE, max_length=2), 1 / 2.5),
        (WmdT(LINE, max_length=1), 1 / 2.5),
    ],
    ids=str,
)
def test_every_form_by_hand(similarity: Wmd, expected: float) -> None:
    # half of the mass stays at "see", half goes 3 from "paris" to "london": WMD = 1.5
    assert compare(similarity, "see paris", "see london") == pytest.approx(expected)


def test_a_word_weighs_its_count_or_the_logarithm_of_it() -> None:
    pair = "paris paris paris rome", "london"

    assert compare(Wmd(LINE), *pair) == pytest.approx(1 / (1 + (3 * 3 + 4) / 4))
    share = log(4) / (log(4) + log(2))
    assert compare(Wmd(LINE, weights="log"), *pair) == pytest.approx(1 / (1 + share * 3 + (1 - share) * 4))


def test_stop_words_move_only_if_asked_but_always_count_towards_the_length() -> None:
    pair = "in the paris", "london"

    assert compare(Wmd(LINE), *pair) == 1 / 4
    assert compare(Wmd(LINE, remove_stop_words=False), *pair) == pytest.approx(1 / (1 + (3 + 17 + 21) / 3))
    assert compare(WmdT(LINE, max_length=6), *pair) == pytest.approx(exp(1 - 6 / 3) / 4)


# What a hypothesis is where words are stop words or have no vectors: similarities without a penalty.
FALLBACKS = [
    ("in the", "the", 1 / (1 + 2)),  # nothing but stop words: they count
    ("in", "london", 1 / (1 + 21)),
    ("in atlantis", "london", 1 / (1 + 21)),  # the rest has no vector: the stop word counts
    ("in paris", "atlantis paris", 1.0),  # words without a vector do not
    ("atlantis", "atlantis", 1.0),  # no vectors at all: only the same tokens are alike
    ("atlantis", "eldorado", 0.0),
    ("atlantis", "atlantis atlantis", 0.0),
    ("atlantis", "paris", 0.0),
    ("paris", "atlantis", 0.0),
    ("", "", 1.0),
    ("", "paris", 0.0),
    ("paris", "", 0.0),
    ("", "atlantis", 0.0),
]


@pytest.mark.parametrize(("hypothesis", "reference", "expected"), FALLBACKS)
def test_hypotheses_with_little_to_go_by(hypothesis: str, reference: str, expected: float) -> None:
    length = len(hypothesis.split())
    penalty = exp(1 - 3 / length) if length else 0.0

    assert compare(Wmd(LINE), hypothesis, reference) == pytest.approx(expected)
    assert compare(WmdT(LINE, max_length=3), hypothesis, reference) == pytest.approx(expected * penalty)


@EVERY_FORM
def test_where_there_are_no_vectors_no_form_prefers_the_unlike(form: Any) -> None:
    texts = hypotheses("atlantis", "eldorado", "paris", "")

    matrix = WmdT(LINE, form=form, max_length=2).pairwise(texts[:2], texts)

    assert (matrix[[0, 0, 0, 1, 1, 1], [1, 2, 3, 0, 2, 3]] == 0.0).all()


def test_a_penalty_of_zero_and_a_distance_of_zero_are_still_a_ratio() -> None:
    similarity = WmdT(LINE, form="ratio", max_length=10_000)  # exp(-9999) is 0

    assert compare(similarity, "paris", "paris") == 1.0
    assert compare(similarity, "paris", "london") == 0.0
    assert compare(similarity, "", "") == 1.0


def test_the_closest_pair_is_found_with_few_transports_and_both_are_counted() -> None:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(100)]
    space = WordVectors(words, generator.normal(size=(100, 50)))
    one, other = (
        hypotheses(
            *(generator.choice(words, size=size).tolist() for size in generator.integers(5, 20, size=25))
        )
        for _ in range(2)
    )

    for similarity in (Wmd(space), WmdT(space), WmdT(space, form="ratio", weights="log")):
        with counting() as everything:
            matrix = similarity.pairwise(one, other)
        with counting() as work:
            closest = similarity.closest(one, other)

        assert isinstance(similarity, ClosestPairFinder)
        assert is_first_highest(closest, matrix)
        assert everything.compared_pairs == everything.exact_transports == work.compared_pairs == 625
        assert 0 < work.exact_transports < 100


@EVERY_FORM
@pytest.mark.parametrize("weights", ["count", "log"])
@settings(deadline=None, max_examples=30)
@given(
    pool=st.lists(
        st.lists(st.sampled_from([*LINE.words, "atlantis", "eldorado"]), max_size=6), min_size=1, max_size=6
    ),
    data=st.data(),
    max_length=st.sampled_from([None, 1, 3, 6, 20, 10_000]),
    remove_stop_words=st.booleans(),
    space=st.sampled_from([LINE, ROUNDED]),
)
def test_the_closest_pair_is_the_first_highest_of_the_matrix(
    pool: list[list[str]],
    data: st.DataObject,
    max_length: int | None,
    remove_stop_words: bool,
    space: WordVectors,
    weights: Any,
    form: Any,
) -> None:
    options: dict[str, Any] = {"weights": weights, "remove_stop_words": remove_stop_words, "form": form}
    similarity = (
        Wmd(space, **options) if max_length is None else WmdT(space, **options, max_length=max_length)
    )
    some = st.lists(st.sampled_from(pool), min_size=1, max_size=5)  # few texts, so that they recur
    one, other = (hypotheses(*data.draw(some)) for _ in range(2))

    assert is_first_highest(similarity.closest(one, other), similarity.pairwise(one, other))


def test_the_signature_has_every_setting() -> None:
    assert (
        str(Wmd(LINE).signature)
        == "similarity:wmd|vectors:line|word_weights:count|remove_stop_words:True|form:similarity"
    )
    assert str(WmdT(LINE, weights="log", remove_stop_words=False, form="ratio", max_length=7).signature) == (
        "similarity:wmd_t|vectors:line|word_weights:log|remove_stop_words:False|form:ratio|T:7"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "tfidf"}, r"^weights must be one of count, log, not 'tfidf'\.$"),
        ({"remove_stop_words": "no"}, r"^remove_stop_words must be true or false, not 'no'\.$"),
        ({"form": "distance"}, r"^form must be one of similarity, ratio, .*, not 'distance'\.$"),
        ({"max_length": 0}, r"^max_length \(T\) must be a whole number .*, not 0\.$"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        WmdT(LINE, **options)
