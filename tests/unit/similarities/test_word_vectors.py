"""Word vectors, stop words, and hypotheses as bags of words."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from bidibeam.errors import InputError
from bidibeam.similarities.word_vectors import Bags, WordVectors, english_stop_words
from tests.unit.similarities.made import hypotheses

SPACE = WordVectors(["the", "cat", "dog", "sat", "n't"], np.arange(10, dtype=np.float32).reshape(5, 2), "toy")


def weigh(bags: Bags) -> list[dict[str, float]]:
    """Each bag's words, in order, and what they weigh."""
    return [
        {
            SPACE.words[key]: float(mass)
            for key, mass in zip(bags.keys[start:end], bags.masses[start:end], strict=True)
        }
        for start, end in zip(bags.starts[:-1], bags.starts[1:], strict=True)
    ]


def test_a_file_gives_all_its_words_or_those_wanted(tmp_path: Path) -> None:
    path, other = tmp_path / "animals.vec", tmp_path / "other" / "animals.vec"
    path.write_text("3 2\ncat 1 2\ndog 3 4\nemu 5 6\n")
    other.parent.mkdir()
    other.write_text("3 2\ncat 1 2\ndog 3 4\nemu 5 7\n")

    every, wanted = WordVectors.from_file(path), WordVectors.from_file(path, wanted={"emu", "cat", "gnu"})

    assert every.rows == {"cat": 0, "dog": 1, "emu": 2}
    assert wanted.rows == {"cat": 0, "emu": 1}
    assert wanted.matrix.tolist() == [[1, 2], [5, 6]]
    assert re.fullmatch("vectors:animals.vec@[0-9a-f]{8}", str(wanted.signature))
    assert str(WordVectors.from_file(other).signature) != str(every.signature) == str(wanted.signature)
    assert str(WordVectors(["cat"], np.ones((1, 2))).signature) == "vectors:model"
    with pytest.raises(InputError, match=r"none of the words wanted\. Is it for another language\?$"):
        WordVectors.from_file(path, wanted=["Katze"])


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e200])
def test_rows_that_are_not_finite_are_dropped_and_first_rows_kept(odd: float) -> None:
    matrix = np.array([[odd, 0.0], [1.0, 2.0], [0.0, odd], [3.0, 4.0], [5.0, 6.0]])

    space = WordVectors(["cat", "cat", "dog", "emu", "cat"], matrix)

    assert space.words == ("cat", "emu")
    assert space.rows == {"cat": 0, "emu": 1}
    assert space.matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("words", "matrix", "message"),
    [
        (["cat"], np.ones((2, 3)), r"shape \(2, 3\) does not fit 1 words\. Give one row for each"),
        (["cat", "dog"], np.ones(2), r"shape \(2,\) does not fit 2 words\."),
        ([], np.ones((0, 3)), r"shape \(0, 3\) does not fit 0 words\."),
        (["cat"], np.ones((1, 0)), r"shape \(1, 0\) does not fit 1 words\."),
        (["cat"], np.full((1, 3), np.nan), r"^Not one of the 1 vectors in model is finite\. Give others\.$"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_refused(words: list[str], matrix: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        WordVectors(words, matrix)


def test_words_are_sorted_and_counted_and_stop_words_left_out() -> None:
    texts = hypotheses("the dog sat , the cat sat n't sat", "cat sat sat sat dog")

    without, same = SPACE.bags(texts, texts[::-1], remove_stop_words=True)
    complete, _ = SPACE.bags(texts, [], remove_stop_words=False)

    assert weigh(without) == [{"cat": 1, "dog": 1, "sat": 3}] * 2
    assert list(weigh(without)[0]) == ["cat", "dog", "sat"]
    assert without.totals.tolist() == [5, 5]
    assert weigh(complete)[0] == {"the": 2, "cat": 1, "dog": 1, "sat": 3, "n't": 1}
    assert without.vectors.tolist() == [[2, 3], [4, 5], [6, 7]]
    assert all(mine.tolist() == theirs.tolist() for mine, theirs in zip(without, same, strict=True))


def test_where_stop_words_are_all_there_is_they_stay() -> None:
    texts = hypotheses("the n't", "the zebra", "zebra", "", "the cat")

    bags, _ = SPACE.bags(texts, [], remove_stop_words=True)

    assert weigh(bags) == [{"the": 1, "n't": 1}, {"the": 1}, {}, {}, {"cat": 1}]
    assert bags.totals.tolist() == [2, 1, 0, 0, 1]


def test_bags_without_words_are_twins_where_the_tokens_are_the_same() -> None:
    texts = hypotheses("", "gnu", "cat", "gnu gnu"), hypotheses("gnu gnu", "", "gnu")

    one, other = SPACE.bags(*texts, remove_stop_words=True)

    assert one.twins[[0, 1, 3]].tolist() == other.twins[[1, 2, 0]].tolist()
    assert len(set(other.twins.tolist())) == 3


def test_of_subwords_only_what_begins_a_word_can_be_a_stop_word() -> None:
    pieces = ["\u0120the", "\u0120The", "\u0120cat", "s", "the"]

    space = WordVectors(pieces, np.ones((5, 2)), word_start="\u0120")

    assert space.is_stop_word.tolist() == [True, True, False, False, False]


def test_stop_words_are_nltks_whole_list_and_the_endings_of_contractions() -> None:
    shipped = (files("bidibeam.similarities") / "stopwords_english.txt").read_text(encoding="utf-8").split()

    assert len(shipped) == len(set(shipped)) == 179
    assert {"don't", "it's", "you're", "should've", "the", "yourselves", "m"} <= set(shipped)
    assert set(shipped) <= english_stop_words()
    endings = {"n't", "'s", "'re", "'ve", "'ll", "'d", "'m"}  # not the "need" of needn't: a word
    assert english_stop_words() - set(shipped) == endings
