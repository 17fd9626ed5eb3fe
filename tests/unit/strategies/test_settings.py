"""From the names of systems and options to strategies, and what is said where they do not fit."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bidibeam import registry
from bidibeam.errors import BidibeamError, SettingsError
from bidibeam.evaluation.systems import BASELINES, SYSTEMS
from bidibeam.hypotheses import Direction
from bidibeam.protocols import Requirements, Strategy
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.custom import per_pair
from bidibeam.similarities.wmd import WmdT
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.baselines import Random, Vbs, VbsTuned
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.settings import StrategySettings, check_systems, requirements_of, strategy_named
from tests.unit.strategies.lists import READY_MADE, beams, same_first_letter, texts

HERE = "tests.unit.strategies.lists"
SPACE = WordVectors(["a", "b"], np.eye(2), "toy")
FOUND = beams("x y", "a b", reverse=["a c"])


def no_space() -> WordVectors:
    raise AssertionError("nobody needs word vectors here")


def similarity_of(strategy: Strategy) -> Any:
    assert isinstance(strategy, BidiA)
    return strategy.similarity


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (StrategySettings(), BidiA(BleuT(max_length="median"), answer="regular", agreement="closest")),
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


REFUSED = [
    (
        StrategySettings("bidja"),
        "Unknown strategy 'bidja'. Did you mean 'bidia'? Choose one of: bidia, bidis",
    ),
    (StrategySettings("bidis", {"answer": "either"}), "bidis has no option answer. It has: lambda_."),
    (StrategySettings("vbs", {"word_reward": 1.0}), "vbs has no option word_reward. It has: none."),
    (StrategySettings("bidia", {"lambda_": 1.0}), "It has: similarity, answer, agreement."),
    (StrategySettings("vbs-tuned"), "vbs-tuned needs length_exponent and word_reward; `bidibeam tune` finds"),
    (StrategySettings("vbs-tuned", {"word_reward": 0.0}), "vbs-tuned needs length_exponent; `bidibeam"),
    (StrategySettings("bidis", {"lambda_": "x"}), "lambda must be"),
    (StrategySettings("bidia", {"answer": {}}), "answer must be one of regular, either, not {}."),
    (StrategySettings(similarity_options={"smoothing": []}), "smoothing must be one of floor, none, add-1"),
    (StrategySettings(similarity="blue"), "Unknown similarity 'blue'. Did you mean 'bleu'? Choose one of"),
    (
        StrategySettings(similarity_options={"smooth": 1}),
        "bleu_t has no option smooth. Did you mean 'smoothing'? It has: order, weights",
    ),
    (
        StrategySettings(similarity="wmd"),
        "The similarity wmd needs word vectors: give `vectors`, a file of them.",
    ),
    (StrategySettings(vectors=Path("words.vec")), "bleu_t uses no word vectors: leave `vectors` out."),
    (
        StrategySettings(similarity="wmd_t", similarity_options={"space": 3}),
        "given by `vectors`, a file, not as",
    ),
    (StrategySettings(similarity=f"{HERE}:WORDS"), f"{HERE}:WORDS is of type list. Give a function"),
    (StrategySettings(similarity=f"{HERE}:WORD"), f"'{HERE}:WORD' cannot be imported: module "),
    (StrategySettings(similarity="theirs"), "The similarity theirs needs power."),
    *(
        (
            StrategySettings(similarity=given, similarity_options={"power": 2, "base": 3}),
            f"{name} takes no opt",
        )
        for given, name in (
            (f"{HERE}:same_first_letter", f"{HERE}:same_first_letter"),
            ("letters", "letters"),
            (same_first_letter, f"{HERE}:same_first_letter"),
            (BleuT(), "bleu_t"),
        )
    ),
]


@pytest.mark.usefixtures("_entry_points")
@pytest.mark.parametrize(("settings", "fragment"), REFUSED)
def test_what_does_not_fit_is_named(settings: StrategySettings, fragment: str) -> None:
    with pytest.raises(BidibeamError) as caught:
        settings.build()

    assert fragment in str(caught.value)


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


def test_requirements_are_known_before_anything_is_built() -> None:
    expected = StrategySettings("bidia", {"agreement": "expected"}, similarity="wmd_t")

    assert expected.requirements == Requirements((Direction.REGULAR, Direction.REVERSE), log_prob=True)
    assert StrategySettings("bidis", {"lambda_": 2.0}).requirements.other_weight == 2.0
    assert [StrategySettings(name).compares for name in ("bidia", "bidis", "oracle")] == [True, False, False]


@pytest.mark.parametrize("name", ["same_first_letter", "SameFirstLetter", "READY_MADE"])
def test_a_similarity_by_its_python_name_or_itself(name: str) -> None:
    built = StrategySettings(similarity=f"{HERE}:{name}").build(max_length=9, space=no_space)

    assert texts(built.rank(FOUND)) == ["a b", "x y"]
    assert str(built.signature) == (
        f"strategy:bidia|similarity:{HERE}:{name}|answer:regular|agreement:closest"
    )
    for given in (same_first_letter, READY_MADE, per_pair(lambda one, other: float(one[0] == other[0]))):
        assert texts(StrategySettings(similarity=given).build().rank(FOUND)) == ["a b", "x y"]


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
def test_other_packages_similarities_and_strategies_by_entry_point() -> None:
    letters = StrategySettings(similarity="letters").build(max_length=9)
    theirs = StrategySettings(similarity="theirs", similarity_options={"power": 2}).build(max_length=9)

    assert texts(letters.rank(FOUND)) == texts(theirs.rank(FOUND)) == ["a b", "x y"]
    assert "|similarity:letters|" in str(letters.signature)

    settings = StrategySettings("first", {"skip": 4})
    assert settings.build() == Random(4)
    assert not settings.compares


Tuned = dict[str, dict[str, Any]]

BIDIA = (
    "bidia takes: bleu_t, wmd_t, bleu, wmd, token_f1, edit, embedding_cosine, package.module:name, either, "
    "expected, mean, closest, tuned."
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vbs", StrategySettings("vbs")),
        (" bidia ", StrategySettings("bidia", similarity="bleu_t")),
        ("bidia edit", StrategySettings("bidia", similarity="edit")),
        ("bidia my.own:similarity", StrategySettings("bidia", similarity="my.own:similarity")),
        (
            "bidia  either wmd_t mean",
            StrategySettings("bidia", {"answer": "either", "agreement": "mean"}, "wmd_t"),
        ),
        ("bidia bleu_t expected", StrategySettings("bidia", {"agreement": "expected"})),
    ],
)
def test_each_word_means_what_it_says(name: str, expected: StrategySettings) -> None:
    assert strategy_named(name) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("  ", "A system is named by its strategy, such as 'bidia bleu_t', not '  '"),
        ("vsb", "Unknown strategy 'vsb'. Did you mean 'vbs'? Choose one of: bidia, bidis"),
        (
            "bidia blue_t",
            f"Unknown word 'blue_t' in the system 'bidia blue_t'. Did you mean 'bleu_t'? {BIDIA}",
        ),
        ("vbs x", "Unknown word 'x' in the system 'vbs x'. vbs takes no further words"),
        ("vbs bleu_t", "'vbs bleu_t' cannot have the word 'bleu_t'. vbs takes no further words"),
        ("oracle my:own", "cannot have the word 'my:own'"),
        ("bidis either", "cannot have the word 'either'"),
        ("vbs-tuned tuned", "cannot have the word 'tuned'"),
        ("bidia bleu_t wmd", "has both 'bleu_t' and 'wmd'. It takes one similarity at most"),
        ("bidia mean bleu_t expected", "has both 'mean' and 'expected'. It takes one agreement"),
        ("bidia either either", "has 'either' twice. It takes one answer at most"),
        ("bidia edit tuned", "The similarity edit has no T to be tuned. Leave"),
        ("bidia my:own tuned", "The similarity my:own has no T to be tuned"),
    ],
)
def test_a_word_that_cannot_be_is_named_with_the_choices(name: str, message: str) -> None:
    for use in (strategy_named, requirements_of, lambda name: check_systems(["random", name])):
        with pytest.raises(BidibeamError) as caught:
            use(name)
        assert message in str(caught.value)


@pytest.mark.parametrize("value", [10, 10.0])
def test_tuned_is_the_t_that_was_tuned_for_the_same_system_without_it(value: float) -> None:
    tuned: Tuned = {"bidia bleu_t": {"T": value}, "bidia bleu_t either": {"T": 3}, "bidia wmd_t": {"T": 7}}

    settings = strategy_named("bidia bleu_t tuned", tuned)

    assert settings == StrategySettings("bidia", similarity_options={"max_length": 10})
    assert settings.build(max_length=20).similarity == BleuT(max_length=10)  # type: ignore[attr-defined]
    assert strategy_named("bidia tuned", tuned) == settings
    assert strategy_named("bidia tuned either", tuned).similarity_options == {"max_length": 3}
    assert strategy_named("bidia wmd_t tuned", tuned).similarity_options == {"max_length": 7}
    assert strategy_named("bidia bleu_t", tuned).similarity_options == {}
    options: Tuned = {"bidis": {"lambda_": 0.5}, "bidia": {"agreement": "mean"}}
    assert strategy_named("bidis", options).options == {"lambda_": 0.5}
    assert strategy_named("bidia bleu_t expected", options).options == {"agreement": "expected"}


@pytest.mark.parametrize("tuned", [None, {}, {"bidia wmd_t": {"T": 3}}, {"bidia bleu_t": {}}])
def test_what_was_not_tuned_must_be_first(tuned: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        strategy_named("bidia tuned", tuned)

    assert "'bidia bleu_t tuned' must be tuned first: no T was tuned for 'bidia bleu_t'. `bidi" in str(
        caught.value
    )
    with pytest.raises(SettingsError, match="no T was tuned for 'bidia bleu_t mean'"):
        StrategySettings.named("bidia bleu_t tuned mean").build(max_length=20)
    with pytest.raises(SettingsError, match=r"^The similarity bleu has no T to be tuned"):
        StrategySettings.named("bidia bleu_t tuned").override(similarity="bleu").build()


@pytest.mark.parametrize("value", [1, 0, 0.5, -3])
def test_what_a_system_needs_does_not_depend_on_what_is_tuned(value: float) -> None:
    tuned = {"bidia bleu_t": {"T": value}, "vbs-tuned": {"length_exponent": value, "word_reward": value}}
    for name in ("bidia bleu_t tuned", "vbs-tuned", "bidia bleu_t", "oracle"):
        assert strategy_named(name, tuned).requirements == requirements_of(name)
    assert requirements_of("bidia wmd_t tuned").directions == (Direction.REGULAR, Direction.REVERSE)
    assert requirements_of("vbs-tuned").log_prob


@pytest.mark.parametrize(
    ("names", "twice"),
    [
        (["vbs", "bidis", "vbs"], "as 'vbs' and as 'vbs'"),
        (["bidia", "bidia  bleu_t"], "as 'bidia' and as 'bidia  bleu_t'"),
        (["bidia mean either", "bidia bleu_t either mean"], "as 'bidia mean either' and as"),
        (["bidia tuned", "bidia bleu_t tuned"], "as 'bidia tuned' and as 'bidia bleu_t tuned'"),
    ],
)
def test_no_system_is_named_twice(names: list[str], twice: str) -> None:
    with pytest.raises(SettingsError, match=rf"^A system is named twice, {twice}.*\. Name each"):
        check_systems(names)


def test_our_own_systems_are_named_once_in_the_usual_order_of_words() -> None:
    check_systems(SYSTEMS)
    assert [StrategySettings.named(name).system for name in SYSTEMS] == list(SYSTEMS)
    assert set(BASELINES) < set(SYSTEMS)
    assert {StrategySettings.named(name).untuned for name in SYSTEMS} <= {*SYSTEMS}  # beside the paper's T


@pytest.mark.parametrize(
    ("given", "changed", "system"),
    [
        ({}, {}, "bidia wmd_t either tuned"),
        ({"similarity": "bleu_t", "similarity_options": {"order": 2}}, ..., "bidia bleu_t either tuned"),
        ({"options": {"answer": "regular"}}, ..., "bidia wmd_t tuned"),
        (
            {"similarity_options": {"max_length": 9}},
            {"similarity_options": {"max_length": 9}, "wants_tuned": False},
            "bidia wmd_t either",
        ),
        ({"similarity": "wmd_t", "options": {"answer": "either"}}, {}, "bidia wmd_t either tuned"),
    ],
)
def test_what_is_given_besides_goes_over_the_words(given: dict[str, Any], changed: Any, system: str) -> None:
    words = {"options": {"answer": "either"}, "similarity": "wmd_t", "wants_tuned": True}

    settings = StrategySettings.named("bidia either wmd_t tuned").override(**given)

    assert settings == StrategySettings("bidia", **{**words, **(given if changed is ... else changed)})
    assert settings.system == system
