"""Word mover's similarities by hand, in every form and for every kind of hypothesis."""

from __future__ import annotations

import os
import subprocess
import sys
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Hypothesis
from bidibeam.protocols import ClosestPairFinder
from bidibeam.similarities.closeness import MOST_SHARED
from bidibeam.similarities.spaces import WordVectors
from bidibeam.similarities.stop_words import english
from bidibeam.similarities.wmd import FORMS, Wmd, WmdT
from bidibeam.work import counting

LINE = WordVectors(
    ["paris", "london", "rome", "see", "the", "in"], np.array([[0.0, 3, 7, 100, 20, 24]]).T, "line"
)
ROUNDED = WordVectors(
    [*LINE.words], np.random.default_rng(1).normal(size=(6, 7)).astype(np.float32), "seven dimensions"
)
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


def hypotheses(*texts: str) -> list[Hypothesis]:
    return [Hypothesis(text, tuple(text.split()), None, len(text.split()) + 1, None) for text in texts]


def value(similarity: Wmd, judged: str, other: str) -> float:
    return float(similarity.pairwise(hypotheses(judged), hypotheses(other)).item())


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
    assert value(similarity, "see paris", "see london") == pytest.approx(expected)


@EVERY_FORM
def test_the_same_words_are_as_close_as_the_form_allows(form: Any) -> None:
    closest = {"similarity": BP, "ratio": 1.0, "literal-max": 0.0, "literal-min": 1.0}

    assert value(WmdT(LINE, form=form, max_length=4), "paris see", "see paris") == closest[form]


def test_a_word_weighs_its_count_or_the_logarithm_of_it() -> None:
    judged, other = "paris paris paris rome", "london"

    assert value(Wmd(LINE), judged, other) == pytest.approx(1 / (1 + (3 * 3 + 4) / 4))
    share = log(4) / (log(4) + log(2))
    assert value(Wmd(LINE, weights="log"), judged, other) == pytest.approx(
        1 / (1 + share * 3 + (1 - share) * 4)
    )


def test_stop_words_move_only_if_asked_but_always_count_towards_the_length() -> None:
    judged, other = "in the paris", "london"

    assert value(Wmd(LINE), judged, other) == 1 / 4
    assert value(Wmd(LINE, remove_stop_words=False), judged, other) == pytest.approx(
        1 / (1 + (3 + 17 + 21) / 3)
    )
    assert value(WmdT(LINE, max_length=6), judged, other) == pytest.approx(exp(1 - 6 / 3) / 4)


def test_the_penalty_is_that_of_the_judged_hypothesis() -> None:
    similarity = WmdT(LINE, max_length=8)

    assert value(similarity, "paris", "paris see see see") < value(similarity, "paris see see see", "paris")


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


@pytest.mark.parametrize(("judged", "other", "expected"), FALLBACKS)
def test_hypotheses_with_little_to_go_by(judged: str, other: str, expected: float) -> None:
    length = len(judged.split())

    assert value(Wmd(LINE), judged, other) == pytest.approx(expected)
    penalty = exp(1 - 3 / length) if length else 0.0
    assert value(WmdT(LINE, max_length=3), judged, other) == pytest.approx(expected * penalty)


@EVERY_FORM
@pytest.mark.parametrize("kind", [Wmd, WmdT])
def test_there_is_no_such_thing_as_nan(kind: type[Wmd], form: Any) -> None:
    texts = hypotheses(*{text for pair in FALLBACKS for text in pair[:2]})
    similarity = kind(LINE, form=form)

    matrix = similarity.pairwise(texts, texts)
    closest = similarity.closest(texts, texts)

    assert ((matrix >= 0) & (matrix <= 1)).all()
    assert (closest.judged, closest.other) == divmod(int(matrix.argmax()), len(texts))
    assert closest.value == matrix.max()


@EVERY_FORM
def test_where_there_are_no_vectors_no_form_prefers_the_unlike(form: Any) -> None:
    similarity = WmdT(LINE, form=form, max_length=2)
    texts = hypotheses("atlantis", "eldorado", "paris", "")

    matrix = similarity.pairwise(texts[:2], texts)

    assert (matrix[[0, 0, 0, 1, 1, 1], [1, 2, 3, 0, 2, 3]] == 0.0).all()


def test_a_penalty_of_zero_and_a_distance_of_zero_are_still_a_ratio() -> None:
    similarity = WmdT(LINE, form="ratio", max_length=10_000)  # exp(-9999) is 0

    assert value(similarity, "paris", "paris") == 1.0
    assert value(similarity, "paris", "london") == 0.0
    assert value(similarity, "", "") == 1.0


def test_the_closest_pair_is_found_with_few_transports_and_both_are_counted() -> None:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(100)]
    space = WordVectors(words, generator.normal(size=(100, 50)))
    judged, others = (
        hypotheses(
            *(" ".join(generator.choice(words, size=size)) for size in generator.integers(5, 20, size=25))
        )
        for _ in range(2)
    )

    for similarity in (Wmd(space), WmdT(space), WmdT(space, form="ratio", weights="log")):
        with counting() as everything:
            matrix = similarity.pairwise(judged, others)
        with counting() as work:
            closest = similarity.closest(judged, others)

        assert isinstance(similarity, ClosestPairFinder)
        assert (closest.judged, closest.other) == divmod(int(matrix.argmax()), 25)
        assert closest.value == matrix.max()
        assert everything.compared_pairs == everything.exact_transports == work.compared_pairs == 625
        assert 0 < work.exact_transports < 100


@st.composite
def many_comparisons(draw: st.DrawFn) -> list[tuple[list[Hypothesis], list[Hypothesis]]]:
    """Few texts, so that they recur; stop words and words without vectors among them."""
    words = st.sampled_from(["paris", "london", "rome", "see", "the", "in", "atlantis", "eldorado"])
    pool = draw(st.lists(st.lists(words, max_size=6).map(" ".join), min_size=1, max_size=6))
    some = st.lists(st.sampled_from(pool), min_size=1, max_size=5).map(lambda few: hypotheses(*few))
    return draw(st.lists(st.tuples(some, some), max_size=4))


@EVERY_FORM
@pytest.mark.parametrize("weights", ["count", "log"])
@settings(deadline=None, max_examples=60)
@given(
    comparisons=many_comparisons(),
    max_length=st.sampled_from([None, 1, 3, 6, 20, 10_000]),
    remove_stop_words=st.booleans(),
    space=st.sampled_from([LINE, ROUNDED]),
)
def test_many_at_once_are_each_the_first_highest_of_its_own_matrix(
    comparisons: list[tuple[list[Hypothesis], list[Hypothesis]]],
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

    found = similarity.closest_pairs(comparisons)

    assert len(found) == len(comparisons)
    for closest, (judged, others) in zip(found, comparisons, strict=True):
        matrix = similarity.pairwise(judged, others)
        assert (closest.judged, closest.other) == divmod(int(matrix.argmax()), len(others))
        assert closest.value == matrix.max()


@pytest.mark.parametrize(
    ("words", "count"), [(200, 60), (200, 20), (MOST_SHARED, 300), (MOST_SHARED + 1, 300)]
)
def test_many_at_once_are_the_closest_of_each_with_any_number_of_words(words: int, count: int) -> None:
    chance = np.random.default_rng(0)
    vocabulary = [f"w{number}" for number in range(words)]
    similarity = WmdT(WordVectors(vocabulary, chance.normal(size=(words, 9)).astype(np.float32)))

    def beam() -> list[Hypothesis]:
        return hypotheses(*(" ".join(chance.choice(vocabulary, chance.integers(1, 9))) for _ in range(12)))

    comparisons = [(beam(), beam()) for _ in range(count)]
    comparisons.append((hypotheses(*vocabulary), beam()))  # so that each of them occurs

    found = similarity.closest_pairs(comparisons)

    assert found == [similarity.closest(*comparison) for comparison in comparisons]
    for pair, (judged, others) in zip(found, comparisons, strict=True):
        matrix = similarity.pairwise(judged, others)
        assert matrix[pair.judged, pair.other] == matrix.max() == pair.value


def test_many_at_once_count_what_each_would() -> None:
    comparisons = [
        (hypotheses("paris see", "rome"), hypotheses("london", "see london")),
        (hypotheses("rome"), hypotheses("rome", "paris", "london")),
    ]

    with counting() as together:
        Wmd(LINE).closest_pairs(comparisons)
    with counting() as alone:
        for judged, others in comparisons:
            Wmd(LINE).closest(judged, others)

    assert together == alone
    assert together.compared_pairs == 2 * 2 + 1 * 3


def test_the_farthest_pair_needs_every_transport() -> None:
    judged, others = hypotheses("paris", "see"), hypotheses("rome", "london")
    similarity = Wmd(LINE, form="literal-max")

    with counting() as work:
        closest = similarity.closest(judged, others)

    assert (closest.judged, closest.other) == (1, 1)
    assert closest.value == pytest.approx(97 / 98)
    assert work.exact_transports == work.compared_pairs == 4


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
        (
            {"form": "distance"},
            r"^form must be one of similarity, ratio, literal-max, literal-min, not 'distance'\.$",
        ),
        ({"max_length": 0}, r"^max_length \(T\) must be a whole number from 1 to 1,000,000, not 0\.$"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        WmdT(LINE, **options)


def test_it_does_without_torch() -> None:
    command = "import sys, bidibeam.similarities.wmd; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0


@pytest.mark.corpus
def test_real_vectors_bring_together_what_means_the_same() -> None:
    folder = os.environ.get("BIDIBEAM_TEST_DATA")
    if not folder:
        pytest.skip("BIDIBEAM_TEST_DATA is not set: the real vectors are not here")
    judged = hypotheses(
        "i do n't know what you 're talking about .", "the president greets the press in chicago ."
    )
    others = hypotheses(
        "he plays the guitar every night .",
        "obama speaks to the media in illinois .",
        "you have no idea what i mean .",
    )
    words = {token for each in (*judged, *others) for token in each.tokens}
    space = WordVectors.from_file(Path(folder) / "vectors" / "en-300d.vec.xz", wanted=words)

    matrix = Wmd(space).pairwise(judged, others)

    assert matrix.argmax(axis=1).tolist() == [2, 1]
    assert Wmd(space).closest(judged, others) == (0, 2, matrix.max())
    for (row, one), (column, other) in [(a, b) for a in enumerate(judged) for b in enumerate(others)]:
        tokens = [[token for token in each.tokens if token not in english()] for each in (one, other)]
        points = [space.matrix[[space.rows[token] for token in each]].astype(np.float64) for each in tokens]
        costs = np.linalg.norm(points[0][:, None] - points[1], axis=-1)
        expected = ot.emd2(ot.unif(len(points[0])), ot.unif(len(points[1])), costs)
        assert 1 / matrix[row, column] - 1 == pytest.approx(expected, rel=1e-9)
