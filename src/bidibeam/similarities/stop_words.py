"""Words that say little of what a sentence is about: NLTK's English list, as our tokenizer writes words."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from bidibeam.data.words import split

if TYPE_CHECKING:
    from collections.abc import Iterable


@cache
def english() -> frozenset[str]:
    """NLTK's 179 English words, and the pieces that its contractions come apart into.

    "couldn't" is two tokens of ours, "could" and "n't": the second is in, as it is nothing but an ending;
    the first is a word, which the list does not have by itself. The list also has endings without their
    apostrophe, such as the "m" of "i'm": ours are in with it.
    """
    text = (files("bidibeam.similarities") / "stopwords_english.txt").read_text(encoding="utf-8")
    words = text.split()
    return frozenset([*words, *_pieces(words)])


def _pieces(words: Iterable[str]) -> list[str]:
    contractions = [word for word in words if "'" in word]
    endings = [f"i'{word}" for word in words if "'" not in word and split(f"i'{word}") == ["i", f"'{word}"]]
    return [piece for word in (*contractions, *endings) for piece in split(word) if "'" in piece]
