"""The stop words that the package brings along."""

from __future__ import annotations

from importlib.resources import files

from bidibeam.data.words import split
from bidibeam.similarities.stop_words import english


def shipped() -> list[str]:
    return (files("bidibeam.similarities") / "stopwords_english.txt").read_text(encoding="utf-8").split()


def test_nltks_whole_list_is_shipped() -> None:
    words = shipped()

    assert len(words) == len(set(words)) == 179
    assert {"don't", "it's", "you're", "should've", "the", "yourselves", "m"} <= set(words)
    assert set(words) <= english()


def test_the_endings_of_contractions_count_and_nothing_else() -> None:
    added = english() - set(shipped())

    assert added == {"n't", "'s", "'re", "'ve", "'ll", "'d", "'m"}  # not the "need" of needn't: a word


def test_our_tokens_of_a_sentence_of_stop_words_are_all_stop_words() -> None:
    tokens = split("I'm sure you're who they'll say he's been, and we've what she'd have; it isn't, can")

    assert [token for token in tokens if token not in english()] == ["sure", "say", ",", ";", ","]
