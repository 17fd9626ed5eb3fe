"""An experiment's settings."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.errors import BidibeamError
from bidibeam.evaluation.systems import SYSTEMS
from bidibeam.experiments.settings import ExperimentSettings, resolve_experiment, stamp_settings
from bidibeam.metrics import DEFAULT_METRICS, build_metric
from bidibeam.metrics.bleu import CorpusBleu
from bidibeam.metrics.scoring import score
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.settings import DEFAULT_SYSTEM


def test_the_papers_preset_has_its_beam_sizes_and_its_network() -> None:
    settings = resolve_experiment(preset="paper", corpus="cornell")

    assert settings.beam_sizes == (1, 2, 5, 6, 10, 20, 30, 40, 50)
    assert (settings.model.encoder_size, settings.model.decoder_size) == (256, 512)
    assert settings.prepare.corpus == "cornell"
    assert settings.prepare.vocabulary_size == 20_000
    assert settings.sources is None


def test_layers_overrule_each_other_in_order(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("training: {epochs: 5}\nsources: 7\nsearch: {max_length: 12}\n")

    settings = resolve_experiment(preset="demo", config=config, overrides=["sources=9", "beam_sizes=[2,4]"])

    assert settings.training.epochs == 5
    assert settings.sources == 9
    assert settings.beam_sizes == (2, 4)
    assert settings.search_with(4).max_length == 12
    assert settings.search_with(4).beam_size == settings.largest == 4


def test_a_users_metric_goes_to_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from bidibeam.metrics.custom import per_reply\n\n\n@per_reply()\ndef size(reply, references):\n"
    (tmp_path / "sizes_of_replies.py").write_text(f"{text}    return float(len(reply))\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings = resolve_experiment(preset="demo", overrides=["metric=sizes_of_replies:size"])
    assert settings.metrics[0].name == "size"

    there = pickle.loads(pickle.dumps(settings))

    assert there == settings
    (metric, *_) = there.metrics
    assert score(metric, metric.statistics(["abc", "a"], [["x"], ["y"]])) == 2.0


def test_search_options_are_stamped_only_where_they_are_used() -> None:
    plain, used = SearchSettings(), SearchSettings(repetition_penalty=1.2, bad_words=("a b",))

    assert stamp_settings(used) == {**stamp_settings(plain), "repetition_penalty": 1.2, "bad_words": ["a b"]}
    assert not {"no_repeat_ngram_size", "repetition_penalty", "bad_words"} & stamp_settings(plain).keys()
    given = resolve_experiment(preset="demo", overrides=["search.bad_words=[a b]"]).search
    assert given.bad_words == ("a b",)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("beam_sizes=[]", "beam_sizes is \\[\\]; give numbers of at least 1"),
        ("beam_sizes=[0,2]", "at least 1"),
        ("systems=[]", "name at least one"),
        ("beam_sizes=[2,10,2]", r"beam_sizes is \[2, 10, 2\]; give each number once\."),
        ("systems=[bidi]", "Unknown strategy 'bidi'"),
        ("systems=[vbs,'']", "A system is named by its strategy, such as 'bidia bleu_t', not ''"),
        ("systems=[bidia blue_t]", "Unknown word 'blue_t' in the system 'bidia blue_t'"),
        ("systems=[vbs either]", "The system 'vbs either' cannot have the word 'either'"),
        ("systems=[vbs,bidia,bidia bleu_t]", "named twice, as 'bidia' and as 'bidia bleu_t'"),
        ("metric=blue", "Unknown metric 'blue'. Did you mean 'bleu'"),
        ("metric=length_ratio", "^The metric length_ratio is best near 1, and tuning looks for"),
        ("metric=distinct-2", "^The metric distinct-2 is known only for all replies together"),
        ("tokenize=v9", "tokenize must be one of 13a, intl, char, none, words, not 'v9'"),
        ("sources=0", "sources is 0; it must be at least 1, or null"),
        ("cost_turns=0", "cost_turns is 0; it must be at least 1"),
        ("examples=-1", "examples is -1; it must be at least 0"),
        ("epochs=3", "Did you mean training.epochs"),
        ("prepare.corpus=cornel", "Did you mean 'cornell'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(override: str, message: str) -> None:
    with pytest.raises(BidibeamError, match=message):
        resolve_experiment(preset="demo", overrides=[override])


def test_systems_are_judged_by_bleu_of_words_or_by_any_metric() -> None:
    for preset in ("demo", "paper"):
        assert resolve_experiment(preset=preset).metrics[0] == CorpusBleu("words")
    usual = [metric.name for metric in ExperimentSettings().metrics]
    other = resolve_experiment(preset="demo", overrides=["metric=ser", "lowercase=true"])

    assert usual == list(DEFAULT_METRICS)
    assert [metric.name for metric in other.metrics] == ["ser", *DEFAULT_METRICS]
    assert other.metrics[:2] == [build_metric("ser", lowercase=True), CorpusBleu("words")]
    assert ExperimentSettings(tokenize="intl").metrics[0] == CorpusBleu("intl", lowercase=True)
    kept = ExperimentSettings(PrepareSettings(cased=True), tokenize="intl")  # whose replies have capitals
    assert kept.metrics[0] == CorpusBleu("intl")


def test_data_that_are_prepared_say_how_they_are_and_are_measured_as_their_corpus(tmp_path: Path) -> None:
    lines = {".trn": 30, ".dev": 5, ".tst": 5}
    for ending, count in lines.items():
        text = "".join(f"wort{ending[2]}{place}\tN;PL\tworte{place}\n" for place in range(count))
        (tmp_path / f"deu{ending}").write_text(text, encoding="utf-8")
    known = PrepareSettings("inflection", tokenizer="char", cased=True, source_lang="deu")
    data = prepare(known, tmp_path, tmp_path / "data")

    settings = resolve_experiment(preset="demo", corpus="chitchat", data=data)

    assert settings.prepare == known
    assert (settings.metric, settings.search.max_length) == ("exact_match", 49)
    data.info["settings"]["corpus"] = "one.that:is_not_here"
    assert resolve_experiment(preset="demo", data=data).prepare == replace(
        known, corpus="chitchat", source_lang=None
    )


def test_a_search_has_room_for_the_longest_response_that_is_kept_unless_it_is_told_otherwise() -> None:
    for preset, override, expected in (
        ("demo", "prepare.max_response_length=50", 51),
        ("gru", "beam_sizes=[50]", 21),
        ("gru", "search.max_length=30", 30),
        ("paper", "prepare.max_response_length=50", 20),
    ):
        assert resolve_experiment(preset=preset, overrides=[override]).search.max_length == expected


@pytest.mark.parametrize("corpus", ["dailydialog", "inflection"])
def test_the_longest_response_that_suits_a_corpus_can_be_finished(corpus: str) -> None:
    settings = resolve_experiment(preset="gru", corpus=corpus)

    assert settings.search.max_length == settings.prepare.max_response_length + 1  # the end takes a step


def test_what_is_tuned_later_may_be_named_now() -> None:
    names = ("vbs-tuned", "bidia bleu_t tuned", "bidia wmd_t either tuned", "bidia my.own:similarity")

    assert resolve_experiment(preset="demo", overrides=[f"systems=[{','.join(names)}]"]).systems == names


def test_unasked_an_experiment_has_all_our_systems() -> None:
    assert set(ExperimentSettings().systems) == {*SYSTEMS, DEFAULT_SYSTEM}
    for preset in ("demo", "paper"):
        assert set(resolve_experiment(preset=preset).systems) <= {*SYSTEMS, DEFAULT_SYSTEM}


@pytest.mark.parametrize(
    ("preset", "told"),
    [
        (
            "compact",
            r"^The preset 'compact' is for `bidibeam train`; choose demo or gru or paper or transformer for ",
        ),
        (
            "dmo",
            r"^Unknown preset 'dmo'\. Did you mean 'demo'\? Choose one of: demo, gru, paper, transformer\.$",
        ),
    ],
)
def test_a_preset_that_is_no_experiments_is_answered_with_those_that_are(preset: str, told: str) -> None:
    with pytest.raises(BidibeamError, match=told):
        resolve_experiment(preset=preset)


def test_the_transformers_preset_is_the_grus_experiment_with_another_model() -> None:
    settings = resolve_experiment(preset="transformer", overrides=["model.d_model=64", "training.warmup=0.1"])

    assert settings.architecture == "huggingface"
    assert (settings.model["model_type"], settings.model["d_model"]) == ("bart", 64)  # type: ignore[index]
    assert settings.training.warmup == 0.1  # type: ignore[attr-defined]
    gru = resolve_experiment(preset="gru")
    assert (settings.systems, settings.beam_sizes) == (gru.systems, gru.beam_sizes)
    assert settings.control
    with pytest.raises(BidibeamError, match="plateau_factor"):
        resolve_experiment(preset="transformer", overrides=["training.plateau_factor=0.5"])
