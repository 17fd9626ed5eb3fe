"""What systems are called, and what the names stand for."""

from __future__ import annotations

from typing import Any

import pytest

from bidibeam.errors import BidibeamError, SettingsError
from bidibeam.evaluation.systems import BASELINES, SYSTEMS
from bidibeam.hypotheses import Direction
from bidibeam.similarities.bleu import BleuT
from bidibeam.strategies.settings import StrategySettings, check_systems, requirements_of, strategy_named

Tuned = dict[str, dict[str, Any]]

BIDIA = (
    "bidia takes: bleu_t, wmd_t, bleu, wmd, token_f1, edit, embedding_cosine, package.module:name, either, "
    "expected, mean, tuned."
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
    tuned: Tuned = {
        "bidia bleu_t": {"T": value},
        "bidia bleu_t either": {"T": 3},
        "bidia wmd_t": {"T": 7},
    }

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
    for name in SYSTEMS:
        if StrategySettings.named(name).wants_tuned:
            assert StrategySettings.named(name).untuned in SYSTEMS  # a tuned T stands beside the paper's


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
