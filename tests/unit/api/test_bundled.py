"""The model that comes with the package: small, tuned for its own weights, with a card that is right."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from bidibeam.api import load_decoder, load_run
from bidibeam.api.cards import render_card
from bidibeam.api.tuned import TunedSettings
from bidibeam.config import resolve
from bidibeam.errors import RunError
from bidibeam.metrics.ngrams import split_words
from bidibeam.models import loading
from bidibeam.models.checkpoint import tensor_shapes, to_half_precision
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.loading import bundled_path
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies import STRATEGIES

LARGEST = 12 * 2**20


def test_it_answers_by_every_strategy_that_needs_no_reference() -> None:
    run = load_run(device="cpu")
    settings = SearchSettings(beam_size=4, max_length=8)

    for name in set(STRATEGIES.names()) - {"oracle"}:  # the tuned ones have their settings from tuned.json
        first, second = load_decoder(run, name, settings=settings).decode(["how are you?", "hello"])
        assert first.best.text
        assert second.best.text


def test_it_is_at_most_12_mib_and_says_nothing_of_a_machine() -> None:
    files = list(bundled_path().iterdir())

    assert sum(path.stat().st_size for path in files) <= LARGEST
    config = json.loads((bundled_path() / "config.json").read_text(encoding="utf-8"))
    assert "path" not in config["data"]
    assert config["exported"]["precision"] == "float16"


def test_its_settings_were_tuned_for_its_weights() -> None:
    run = load_run(device="cpu")
    tuned = TunedSettings(run.path / "tuned.json")

    tuned.check_weights(run.fingerprint)
    assert {"bidis", "vbs-tuned", "loglinear both"} < set(tuned.options)
    assert tuned.recommended == "loglinear bleu_t closest both"
    assert tuned.search["no_repeat_ngram_size"] == 3


def test_its_card_is_what_its_files_say() -> None:
    card = (bundled_path() / "MODEL_CARD.md").read_text(encoding="utf-8")

    assert card == render_card(bundled_path())
    for told in (
        "chitchat-dataset 0.9.0",
        "MIT",
        "## Data",
        "## Settings",
        "## Metrics",
        "## Limits",
        "bidibeam prepare chitchat",
        "--preset compact",
        "--no-repeat-ngram-size 3",
        "## Exchanges",
        "--half",
    ):
        assert told in card


def test_it_has_the_shape_of_the_compact_preset() -> None:
    preset = asdict(resolve(preset="compact").model)
    found = asdict(load_run(device="cpu").config.model)

    for settings in (preset, found):
        settings.pop("dropout")  # which leaves no trace in weights
    assert found == preset


def test_the_compact_preset_fits_with_its_vocabulary() -> None:
    run = load_run(device="cpu")
    fresh = BidirectionalModel(resolve(preset="compact").model, run.network.vocabulary_size)
    stored = to_half_precision(fresh.state_dict())

    assert {name: tuple(tensor.shape) for name, tensor in stored.items()} == tensor_shapes(
        run.path / "model.safetensors"
    )
    assert sum(tensor.nbytes for tensor in stored.values()) <= LARGEST - 2**20


def test_an_installation_without_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BUNDLED", "nowhere")

    with pytest.raises(RunError, match=r"came without a model: there is no .*nowhere\. Name a run"):
        load_run()


def test_no_reply_of_it_repeats_three_words_and_they_are_those_of_its_card() -> None:
    content = json.loads((bundled_path() / "exchanges.json").read_text(encoding="utf-8"))
    sources = [each["source"] for each in content["exchanges"]]

    replies = [ranking.best.text for ranking in load_decoder(load_run(device="cpu")).decode(sources)]

    assert replies == [each["now"] for each in content["exchanges"]]
    for reply in replies:
        words = split_words(reply)
        trigrams = list(zip(words, words[1:], words[2:], strict=False))
        assert len(set(trigrams)) == len(trigrams)
