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
from bidibeam.similarities.wmd import WmdT
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.baselines import Random, Vbs, VbsTuned
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.settings import StrategySettings
from tests.unit.strategies.lists import READY_MADE, Table, beams, same_first_letter, texts

HERE = "tests.unit.strategies.lists"
SPACE = WordVectors(["a", "b"], np.eye(2), "toy")
FOUND = beams("x y", "a b", reverse=["a c"])


def no_space() -> WordVectors:
    raise AssertionError("nobody needs word vectors here")


def similarity_of(strategy: Strategy) -> Any:
    assert isinstance(strategy, BidiA)
    return strategy.similarity


def message_of(build: Callable[[], object], error: type[Exception] = SettingsError) -> str:
    with pytest.raises(error) as caught:
        build()
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (StrategySettings(), BidiA(BleuT(max_length=20), answer="regular", agreement="closest")),
        (StrategySettings("vbs"), Vbs()),
        (StrategySettings("bidis", {"lambda_": 0.5}), BidiS(0.5)),
        (StrategySettings("random", {"seed": 3}), Random(3)),
        (StrategySettings("vbs-tuned", {"length_exponent": 1, "word_reward": 0.1}), VbsTuned(1, 0.1)),
        (
            StrategySettings("bidia", {"answer": "either", "agreement": "mean"}),
            BidiA(BleuT(), "either", "mean"),
        ),
    ],
)
def test_options_reach_the_strategy(settings: StrategySettings, expected: Strategy) -> None:
    assert settings.build() == expected


def test_an_unknown_name_is_answered_with_the_list() -> None:
    for ask in (StrategySettings("bidja").build, lambda: StrategySettings("bidja").requirements):
        assert message_of(ask, UnknownNameError) == (
            "Unknown strategy 'bidja'. Did you mean 'bidia'? Choose one of: bidia, bidis, vbs, vbs-tuned, "
            "reverse-vbs, longest, random, oracle."
        )
    assert message_of(StrategySettings(similarity="blue").build, UnknownNameError).startswith(
        "Unknown similarity 'blue'. Did you mean 'bleu'? Choose one of: bleu_t, wmd_t, "
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (StrategySettings("bidis", {"answer": "either"}), "bidis has no option answer. It has: lambda_."),
        (StrategySettings("vbs", {"word_reward": 1.0}), "vbs has no option word_reward. It has: none."),
        (
            StrategySettings("bidia", {"lambda_": 1.0}),
            "bidia has no option lambda_. It has: similarity, answer, agreement.",
        ),
        (
            StrategySettings("vbs-tuned"),
            "vbs-tuned needs length_exponent and word_reward; `bidibeam tune` finds good values",
        ),
        (StrategySettings("vbs-tuned", {"word_reward": 0.0}), "vbs-tuned needs length_exponent; `bidibeam"),
    ],
)
def test_unknown_and_missing_options_are_named(settings: StrategySettings, message: str) -> None:
    for ask in (settings.build, lambda: settings.requirements):
        assert message_of(ask).startswith(f"The strategy {message}")


def test_values_out_of_range_are_named() -> None:
    assert message_of(StrategySettings("bidia", {"answer": "me"}).build).startswith("answer must be one of")
    assert message_of(StrategySettings("bidis", {"lambda_": "x"}).build).startswith("lambda must be")
    assert message_of(StrategySettings(similarity_options={"smooth": "add-1"}).build) == (
        "The similarity bleu_t has no option smooth. It has: order, weights, smoothing, max_length."
    )


def test_what_no_option_decides() -> None:
    assert StrategySettings("bidis").unset == {"lambda_"}
    assert StrategySettings("bidis", {"lambda_": 0.0}).unset == set()
    assert StrategySettings("vbs-tuned", {"word_reward": 0.0}).unset == {"length_exponent"}
    assert StrategySettings("bidia").unset == {"answer", "agreement"}


def test_the_searchs_length_is_t_unless_the_similarity_has_another() -> None:
    assert similarity_of(StrategySettings().build(max_length=7)).max_length == 7
    own = StrategySettings(similarity_options={"max_length": 30, "smoothing": "add-1"})
    assert similarity_of(own.build(max_length=7)) == BleuT(max_length=30, smoothing="add-1")
    assert StrategySettings(similarity="edit").build(max_length=7).rank(FOUND).text == "a b"


def test_word_vectors_are_read_only_where_they_are_needed() -> None:
    for settings in (
        StrategySettings("vbs"),
        StrategySettings(),
        StrategySettings(similarity="token_f1"),
        StrategySettings(similarity="wmd_t", similarity_options={"space": SPACE}),
    ):
        settings.build(space=no_space)
    wmd = StrategySettings(similarity="wmd_t", similarity_options={"form": "ratio"})
    assert similarity_of(wmd.build(max_length=9, space=lambda: SPACE)) == WmdT(
        SPACE, form="ratio", max_length=9
    )
    assert message_of(StrategySettings(similarity="wmd").build) == (
        "The similarity wmd needs word vectors: give `vectors`, a file of them."
    )
    assert message_of(StrategySettings("bidia", vectors=Path("words.vec")).build) == (
        "The similarity bleu_t uses no word vectors: leave `vectors` out."
    )
    numbers = StrategySettings("bidia", similarity="wmd_t", similarity_options={"space": 3})
    assert message_of(numbers.build) == "Word vectors are given by `vectors`, a file, not as an option."


def test_requirements_are_known_before_anything_is_built() -> None:
    expected = StrategySettings("bidia", {"agreement": "expected"}, similarity="wmd_t")

    assert expected.requirements == Requirements((Direction.REGULAR, Direction.REVERSE), log_prob=True)
    assert StrategySettings("bidis", {"lambda_": 2.0}).requirements.other_weight == 2.0
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
    built = StrategySettings(similarity=Table({})).build()
    assert str(built.signature).startswith(f"strategy:bidia|similarity:{HERE}:Table|")


def test_something_that_is_no_similarity() -> None:
    assert message_of(StrategySettings(similarity=f"{HERE}:WORDS").build, SimilarityError).startswith(
        f"The similarity {HERE}:WORDS is of type list. Give a function"
    )
    message = message_of(StrategySettings(similarity=f"{HERE}:WORD").build, UnknownNameError)
    assert message.startswith(f"The similarity '{HERE}:WORD' cannot be imported: module ")


@dataclass(frozen=True)
class Theirs:
    """Another package's similarity, with a setting that has no default."""

    power: int

    def pairwise(self, judged: Any, others: Any) -> Any:
        return np.array(same_first_letter(judged, others)) ** self.power


def first(*, skip: int) -> Strategy:
    """Another package's strategy, which is no dataclass."""
    return Random(skip)


@pytest.fixture
def _entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("letters", f"{HERE}:same_first_letter", "bidibeam.similarities"),
        EntryPoint("theirs", f"{__name__}:Theirs", "bidibeam.similarities"),
        EntryPoint("first", f"{__name__}:first", "bidibeam.strategies"),
    ]
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [point for point in points if point.group == group]
    )


@pytest.mark.usefixtures("_entry_points")
def test_one_that_is_ready_as_it_is_takes_no_options() -> None:
    options = {"power": 2, "base": 3}
    for given, name in (
        (f"{HERE}:same_first_letter", f"{HERE}:same_first_letter"),
        ("letters", "letters"),
        (same_first_letter, f"{HERE}:same_first_letter"),
        (BleuT(), "bleu_t"),
    ):
        settings = StrategySettings(similarity=given, similarity_options=options)

        assert message_of(settings.build) == f"The similarity {name} takes no options, received power, base."


@pytest.mark.usefixtures("_entry_points")
def test_other_packages_similarities_and_strategies_by_entry_point() -> None:
    letters = StrategySettings(similarity="letters").build(max_length=9)
    theirs = StrategySettings(similarity="theirs", similarity_options={"power": 2}).build(max_length=9)

    assert texts(letters.rank(FOUND)) == texts(theirs.rank(FOUND)) == ["a b", "x y"]
    assert "|similarity:letters|" in str(letters.signature)
    assert message_of(StrategySettings(similarity="theirs").build) == "The similarity theirs needs power."
    settings = StrategySettings("first", {"skip": 4})
    assert settings.build() == Random(4)
    assert not settings.compares
