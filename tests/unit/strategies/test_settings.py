"""From names and options to a strategy, and what is said where they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bidibeam import registry
from bidibeam.errors import SettingsError, SimilarityError, UnknownNameError
from bidibeam.hypotheses import Direction
from bidibeam.protocols import Requirements, Strategy
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.custom import per_pair
from bidibeam.similarities.spaces import WordVectors
from bidibeam.similarities.wmd import WmdT
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.chance import Chance
from bidibeam.strategies.likelihood import Vbs, VbsTuned
from bidibeam.strategies.settings import StrategySettings, flag_of
from tests.unit.strategies.lists import READY_MADE, Table, beams, same_first_letter, texts

HERE = "tests.unit.strategies.lists"
SPACE = WordVectors(["a", "b"], np.eye(2), "toy")
FOUND = beams("x y", "a b", reverse=["a c"])


def no_space() -> WordVectors:
    raise AssertionError("nobody needs word vectors here")


def similarity_of(selection: Strategy) -> Any:
    assert isinstance(selection, BidiA)
    return selection.similarity


def message_of(build: Callable[[], object], error: type[Exception] = SettingsError) -> str:
    with pytest.raises(error) as caught:
        build()
    return str(caught.value)


def test_the_default_is_the_papers() -> None:
    assert StrategySettings().build() == BidiA(BleuT(max_length=20), answer="regular", agreement="closest")


def test_options_reach_the_strategy() -> None:
    assert StrategySettings("vbs").build() == Vbs()
    assert StrategySettings("bidis", {"lambda_": 0.5}).build() == BidiS(0.5)
    assert StrategySettings("random", {"seed": 3}).build() == Chance(3)
    tuned = StrategySettings("vbs-tuned", {"length_exponent": 1, "word_reward": 0.1})
    assert tuned.build() == VbsTuned(1, 0.1)
    bidia = StrategySettings("bidia", {"answer": "either", "agreement": "mean"}).build()
    assert bidia == BidiA(BleuT(), answer="either", agreement="mean")


def test_an_unknown_strategy_is_answered_with_the_list() -> None:
    for ask in (StrategySettings("bidja").build, lambda: StrategySettings("bidja").requirements):
        assert message_of(ask, UnknownNameError) == (
            "Unknown strategy 'bidja'. Did you mean 'bidia'? Choose one of: bidia, bidis, vbs, vbs-tuned, "
            "reverse-vbs, longest, random, oracle."
        )


def test_an_unknown_similarity_is_answered_with_the_list() -> None:
    assert message_of(StrategySettings(similarity="blue").build, UnknownNameError) == (
        "Unknown similarity 'blue'. Did you mean 'bleu'? Choose one of: bleu_t, wmd_t, bleu, wmd, token_f1, "
        "edit, embedding_cosine."
    )


def test_an_unknown_option_is_named_by_its_flag() -> None:
    assert message_of(StrategySettings("bidis", {"answer": "either"}).build) == (
        "The strategy bidis has no option answer (--answer). It has: lambda_."
    )
    assert message_of(StrategySettings("vbs", {"word_reward": 1.0}).build) == (
        "The strategy vbs has no option word_reward (--word-reward). It has: none."
    )
    assert message_of(lambda: StrategySettings("bidia", {"lambda_": 1.0}).requirements) == (
        "The strategy bidia has no option lambda_ (--lambda). It has: similarity, answer, agreement."
    )


def test_an_unknown_option_of_a_similarity_is_named() -> None:
    assert message_of(StrategySettings(similarity_options={"smooth": "add-1"}).build) == (
        "The similarity bleu_t has no option smooth. It has: order, weights, smoothing, max_length."
    )


def test_missing_options_are_named_with_where_to_get_them() -> None:
    hint = (
        "; `bidibeam tune` finds good values, for a run or for Hugging Face models: decode then uses them, "
        "and rerank by --tuned."
    )
    assert message_of(StrategySettings("vbs-tuned").build) == (
        "The strategy vbs-tuned needs length_exponent (--length-exponent) and word_reward "
        f"(--word-reward){hint}"
    )
    assert message_of(StrategySettings("vbs-tuned", {"word_reward": 0.0}).build) == (
        f"The strategy vbs-tuned needs length_exponent (--length-exponent){hint}"
    )


def test_values_out_of_range_name_their_flag() -> None:
    assert message_of(StrategySettings("bidia", {"answer": "me"}).build).startswith("answer must be one of")
    assert message_of(StrategySettings("bidis", {"lambda_": "x"}).build).startswith("lambda must be")


def test_flags() -> None:
    assert [flag_of(name) for name in ("lambda_", "word_reward", "seed")] == [
        "--lambda",
        "--word-reward",
        "--seed",
    ]


def test_what_no_option_decides() -> None:
    assert StrategySettings("bidis").unset == {"lambda_"}
    assert StrategySettings("bidis", {"lambda_": 0.0}).unset == set()
    assert StrategySettings("vbs-tuned", {"word_reward": 0.0}).unset == {"length_exponent"}
    assert StrategySettings("bidia").unset == {"answer", "agreement"}
    assert StrategySettings("vbs").unset == set()


def test_the_searchs_length_is_t_unless_the_similarity_is_told_another() -> None:
    assert similarity_of(StrategySettings().build(max_length=7)).max_length == 7
    told = StrategySettings(similarity_options={"max_length": 30, "smoothing": "add-1"})
    assert similarity_of(told.build(max_length=7)) == BleuT(max_length=30, smoothing="add-1")
    assert StrategySettings(similarity="edit").build(max_length=7).rank(FOUND).text == "a b"


def test_word_vectors_are_read_only_where_they_are_needed() -> None:
    asked = []

    def space() -> WordVectors:
        asked.append("space")
        return SPACE

    for settings in (StrategySettings("vbs"), StrategySettings(), StrategySettings(similarity="token_f1")):
        settings.build(space=no_space)
    built = StrategySettings(similarity="wmd_t", similarity_options={"form": "ratio"}).build(
        max_length=9, space=space
    )

    assert asked == ["space"]
    assert similarity_of(built) == WmdT(SPACE, form="ratio", max_length=9)
    given = StrategySettings(similarity="wmd_t", similarity_options={"space": SPACE})
    assert similarity_of(given.build(space=no_space)).space is SPACE


def test_without_word_vectors_the_flag_is_named() -> None:
    assert message_of(StrategySettings(similarity="wmd").build) == (
        "The similarity wmd needs word vectors: give `--vectors FILE.vec` (in Python: vectors)."
    )


def test_needs_are_known_before_anything_is_built() -> None:
    expected = StrategySettings("bidia", {"agreement": "expected"}, similarity="wmd_t")

    assert expected.requirements == Requirements((Direction.REGULAR, Direction.REVERSE), log_prob=True)
    assert StrategySettings("bidis", {"lambda_": 2.0}).requirements.other_weight == 2.0
    assert StrategySettings("oracle").requirements.reference
    assert [StrategySettings(name).compares for name in ("bidia", "bidis", "oracle")] == [True, False, False]


@pytest.mark.parametrize("name", ["same_first_letter", "SameFirstLetter", "READY_MADE"])
def test_a_similarity_by_its_python_name(name: str) -> None:
    built = StrategySettings(similarity=f"{HERE}:{name}").build(max_length=9, space=no_space)

    assert texts(built.rank(FOUND)) == ["a b", "x y"]
    assert str(built.signature) == (
        f"strategy:bidia|similarity:{HERE}:{name}|answer:regular|agreement:closest"
    )


@pytest.mark.parametrize(
    "given", [same_first_letter, READY_MADE, per_pair(lambda one, other: float(one[0] == other[0]))]
)
def test_a_similarity_itself(given: Any) -> None:
    assert texts(StrategySettings(similarity=given).build().rank(FOUND)) == ["a b", "x y"]


def test_something_that_is_no_similarity() -> None:
    assert message_of(StrategySettings(similarity=f"{HERE}:WORDS").build, SimilarityError) == (
        f"The similarity {HERE}:WORDS is of type list. Give a function of two lists of hypotheses, or an "
        "object with a method pairwise."
    )
    message = message_of(StrategySettings(similarity=f"{HERE}:WORD").build, UnknownNameError)
    assert message.startswith(f"The similarity '{HERE}:WORD' cannot be imported: module ")


def test_one_that_is_ready_as_it_is_takes_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("letters", f"{HERE}:same_first_letter", "bidibeam.similarities")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    options = {"power": 2, "base": 3}
    for given, name in (
        (f"{HERE}:same_first_letter", f"{HERE}:same_first_letter"),
        ("letters", "letters"),
        (same_first_letter, f"{HERE}:same_first_letter"),
        (BleuT(), "bleu_t"),
    ):
        settings = StrategySettings(similarity=given, similarity_options=options)

        assert message_of(settings.build) == f"The similarity {name} takes no options, received power, base."


@dataclass(frozen=True)
class Theirs:
    """Another package's similarity, with a setting that has no default."""

    power: int

    def pairwise(self, judged: Any, others: Any) -> Any:
        return np.array(same_first_letter(judged, others)) ** self.power


def test_other_packages_similarities_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"letters": f"{HERE}:same_first_letter", "theirs": f"{HERE}:Theirs"}
    points = [EntryPoint(name, place, "bidibeam.similarities") for name, place in places.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if "similarities" in group else [])
    monkeypatch.setattr(f"{HERE}.Theirs", Theirs, raising=False)

    letters = StrategySettings(similarity="letters").build(max_length=9)
    theirs = StrategySettings(similarity="theirs", similarity_options={"power": 2}).build(max_length=9)

    assert texts(letters.rank(FOUND)) == texts(theirs.rank(FOUND)) == ["a b", "x y"]
    assert "|similarity:letters|" in str(letters.signature)
    assert message_of(StrategySettings(similarity="theirs").build) == "The similarity theirs needs power."


def test_other_packages_strategies_check_their_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(*, skip: int) -> Strategy:
        return Chance(skip)

    point = EntryPoint("first", f"{HERE}:first", "bidibeam.strategies")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    monkeypatch.setattr(f"{HERE}.first", first, raising=False)

    settings = StrategySettings("first", {"skip": 4})

    assert settings.build() == Chance(4)
    assert not settings.compares


def test_a_table_keeps_its_place_in_the_signature() -> None:
    built = StrategySettings(similarity=Table({})).build()

    assert str(built.signature).startswith(f"strategy:bidia|similarity:{HERE}:Table|")


def test_vectors_are_for_similarities_that_use_them() -> None:
    with pytest.raises(SettingsError, match=r"^The similarity bleu_t uses no word vectors: leave"):
        StrategySettings("bidia", vectors=Path("words.vec")).build()
    with pytest.raises(SettingsError, match=r"^Word vectors are given by `--vectors`"):
        StrategySettings("bidia", similarity="wmd_t", similarity_options={"space": 3}).build()
