"""The length ratio, by hand."""

from __future__ import annotations

from bidibeam.metrics.length_ratio import LengthRatio


def test_it_is_all_words_written_over_all_words_wanted() -> None:
    replies = [["a"], ["b", "c"]]
    references = [["x", "y", "z"], ["x"]]

    assert LengthRatio().score(replies, references).value == 3 / 4


def test_references_without_a_word_give_zero() -> None:
    assert LengthRatio().score([["a"]], [[]]).value == 0.0
