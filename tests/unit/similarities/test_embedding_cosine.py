"""Cosines of mean vectors, by hand and beside numpy."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import SettingsError
from bidibeam.similarities.embedding_cosine import EmbeddingCosine
from bidibeam.similarities.word_vectors import WordVectors
from tests.unit.similarities.made import compare, hypotheses

WORDS = ["east", "north", "west", "far", "the", "nowhere"]
PLANE = WordVectors(WORDS, np.array([[1.0, 0], [0, 1], [-1, 0], [5, 0], [0, -1], [0, 0]]), "plane")
SCATTERED = WordVectors([*"abcdefgh"], np.random.default_rng(0).normal(scale=20, size=(8, 300)))
sentences = st.lists(st.sampled_from([*"abcdefgh"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("east", "far", 1.0),
        ("east", "north", 0.5),
        ("east", "west", 0.0),
        ("east north", "north", (1 + sqrt(0.5)) / 2),
        ("east east north", "east", (1 + 2 / sqrt(5)) / 2),
        ("east unheard", "far", 1.0),  # words without a vector do not count
        ("the", "north", 0.0),
        ("east west", "north", 0.5),  # a mean of no length
        ("east west", "nowhere", 1.0),
        ("nowhere", "", 0.0),
        ("unheard", "unheard", 1.0),  # no vectors at all: only the same tokens are alike
        ("unheard", "unseen", 0.0),
        ("unheard", "east", 0.0),
        ("east", "", 0.0),
        ("", "", 1.0),
    ],
)
def test_it_equals_the_arithmetic(hypothesis: str, reference: str, expected: float) -> None:
    assert compare(EmbeddingCosine(PLANE), hypothesis, reference) == pytest.approx(expected, abs=1e-15)


def test_stop_words_go_if_asked_and_if_anything_is_left() -> None:
    assert compare(EmbeddingCosine(PLANE), "east the", "east") == pytest.approx((1 + sqrt(0.5)) / 2)
    assert compare(EmbeddingCosine(PLANE, remove_stop_words=True), "east the", "east") == 1.0
    assert compare(EmbeddingCosine(PLANE, remove_stop_words=True), "the", "north") == 0.0


@given(st.lists(sentences, min_size=1, max_size=5))
def test_it_equals_numpys(lists: list[list[str]]) -> None:
    texts = hypotheses(*lists)
    means = np.array(
        [SCATTERED.matrix[[SCATTERED.rows[word] for word in each]].mean(axis=0) for each in lists]
    )
    lengths = np.linalg.norm(means, axis=1)

    matrix = EmbeddingCosine(SCATTERED).pairwise(texts, texts)

    np.testing.assert_allclose(matrix, (1 + means @ means.T / np.outer(lengths, lengths)) / 2, atol=1e-12)


@given(sentences, st.lists(sentences, max_size=5), st.randoms())
def test_nothing_is_closer_than_the_same_words_in_any_order(
    one: list[str], others: list[list[str]], order: Any
) -> None:
    shuffled = list(one)
    order.shuffle(shuffled)

    row = EmbeddingCosine(SCATTERED).pairwise(hypotheses(one), hypotheses(shuffled, one * 3, *others))[0]

    assert row[0] == row[1] == row.max() == 1.0


def test_the_signature_has_every_setting() -> None:
    signature = "similarity:embedding_cosine|vectors:plane|remove_stop_words:False"
    assert str(EmbeddingCosine(PLANE).signature) == signature


def test_settings_that_cannot_be() -> None:
    with pytest.raises(SettingsError, match=r"^remove_stop_words must be true or false, not 1\.$"):
        EmbeddingCosine(PLANE, remove_stop_words=1)  # type: ignore[arg-type]
