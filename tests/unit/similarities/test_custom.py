"""Anybody's similarity: a function, an object, a class; by itself or by its Python name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bidibeam.errors import SimilarityError, UnknownNameError
from bidibeam.hypotheses import Hypothesis
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.custom import as_similarity, import_similarity, per_pair
from bidibeam.work import counting
from tests.unit.similarities.made import hypotheses


def common_letters(one: Sequence[Hypothesis], other: Sequence[Hypothesis]) -> list[list[int]]:
    return [[len(set(a.text) & set(b.text)) for b in other] for a in one]


@per_pair
def same_ending(hypothesis: str, other: str) -> float:
    return float(hypothesis[-1:] == other[-1:])


class Letters:
    """Our function as an object."""

    is_parallel = True

    def pairwise(self, one: Sequence[Hypothesis], other: Sequence[Hypothesis]) -> list[list[int]]:
        return common_letters(one, other)


class NeedsArguments(Letters):
    def __init__(self, power: int) -> None:
        self.power = power


class Called:
    """An object that is called itself."""

    def __call__(self, one: Sequence[Hypothesis], other: Sequence[Hypothesis]) -> list[list[int]]:
        return common_letters(one, other)


LETTERS, OTHERS = hypotheses("ab", "cd", "abc"), hypotheses("bc", "dd")
EXPECTED = [[1, 0], [1, 1], [2, 0]]


@pytest.mark.parametrize("given", [common_letters, Letters, Letters(), Called, Called()])
def test_all_of_them_answer_alike(given: Any) -> None:
    similarity: Any = as_similarity(given)

    with counting() as work:
        answered = similarity.pairwise(LETTERS, OTHERS)

    assert answered == EXPECTED
    assert work.compared_pairs == 3 * 2


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (common_letters, "common_letters"),
        (Letters, "Letters"),
        (Letters(), "Letters"),
        (same_ending, "same_ending"),
    ],
    ids=["function", "class", "object", "per pair"],
)
def test_it_goes_by_its_python_name_unless_told_another(given: Any, name: str) -> None:
    by_itself: Any = as_similarity(given)
    told: Any = as_similarity(given, "mine")

    assert str(by_itself.signature) == f"similarity:{__name__}:{name}"
    assert str(told.signature) == "similarity:mine"


def test_a_signature_and_whether_it_is_parallel_are_kept() -> None:
    ours = BleuT(max_length=7)

    assert as_similarity(ours, "another name") is ours
    assert getattr(as_similarity(Letters()), "is_parallel", None) is True
    assert getattr(as_similarity(common_letters), "is_parallel", None) is False


@pytest.mark.parametrize(
    "given", [7, None, "text", [common_letters]], ids=["number", "nothing", "text", "list"]
)
def test_what_is_no_similarity_is_refused(given: Any) -> None:
    with pytest.raises(SimilarityError) as caught:
        as_similarity(given, "mine")

    assert f"mine is of type {type(given).__name__}. Give a function of two lists" in str(caught.value)


def test_a_class_that_needs_arguments_is_refused() -> None:
    with pytest.raises(SimilarityError, match=r"NeedsArguments cannot be made: .*\. Give a class"):
        as_similarity(NeedsArguments)

    assert as_similarity(NeedsArguments(2)).pairwise(LETTERS, OTHERS) == EXPECTED


def test_per_pair_makes_a_matrix_of_two_texts_at_a_time() -> None:
    matrix = same_ending(hypotheses("so", "no", "yes"), hypotheses("to", "as"))

    assert isinstance(matrix, np.ndarray)
    assert matrix.dtype == np.float64
    assert matrix.tolist() == [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert same_ending([], hypotheses("a", "b")).shape == (0, 2)
    assert same_ending(hypotheses("a", "b"), []).shape == (2, 0)


def test_per_pair_takes_anything_that_is_called() -> None:
    class Longer:
        def __call__(self, hypothesis: str, other: str) -> float:
            return float(len(hypothesis) > len(other))

    assert per_pair(Longer())(hypotheses("aa"), hypotheses("b", "cc")).tolist() == [[1.0, 0.0]]


def test_what_stands_at_a_python_name() -> None:
    assert import_similarity("bidibeam.similarities.bleu:BleuT") is BleuT
    assert import_similarity("bidibeam.similarities.bleu:BleuT.pairwise") is BleuT.pairwise


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("no_such_module:x", "No module named 'no_such_module'"),
        ("bidibeam.similarities.bleu:Blue", "module 'bidibeam.similarities.bleu' has no attribute 'Blue'"),
        ("bidibeam.similarities.bleu:", "module 'bidibeam.similarities.bleu' has no attribute ''"),
        (":x", "Empty module name"),
        (".bleu:BleuT", "the 'package' argument is required to perform a relative import for '.bleu'"),
    ],
)
def test_a_python_name_that_leads_nowhere_is_one_sentence(location: str, reason: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        import_similarity(location)

    assert f"{location!r} cannot be imported: {reason}. Write package.module:name" in str(caught.value)


def test_a_module_that_does_not_even_parse_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_similarity.py").write_text("def same(:\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(UnknownNameError, match=r"^The similarity 'broken_similarity:same' cannot be"):
        import_similarity("broken_similarity:same")


def test_a_function_of_two_texts_that_fails_says_on_which() -> None:
    @per_pair
    def ratio(one: str, other: str) -> float:
        return len(one) / len(other)

    with pytest.raises(
        SimilarityError, match=r"^The similarity ratio failed with ZeroDivisionError for 'a' and"
    ):
        ratio(hypotheses("a"), hypotheses("b", ""))
