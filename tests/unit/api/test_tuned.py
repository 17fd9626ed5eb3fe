"""tuned.json: written once, used from then on, and refused where it does not belong."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bidibeam._version import __version__
from bidibeam.api import load_decoder, load_run
from bidibeam.api.tuned import TUNED_FILE, TunedSettings, write_tuned
from bidibeam.errors import RunError, SettingsError
from bidibeam.models.run import RunModel as Run
from bidibeam.scores import Signature
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.baselines import VbsTuned
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.settings import StrategySettings
from bidibeam.strategies.tuning import Curve, TuningResult

FOUND = TuningResult(
    options={
        "bidis": {"lambda_": 0.3},
        "vbs-tuned": {"length_exponent": 1.5, "word_reward": 0.4},
        "bidia bleu_t": {"T": 8.0},
    },
    bleu={"vbs": 1.0, "vbs-tuned": 2.5, "bidis": 1.25},
    curves=(
        Curve("lambda", {}, (0.0, 0.3), (1.0, 1.25)),
        Curve("length_exponent", {"word_reward": 0.4}, (1.0, 1.5, 4.0), (1.0, 2.5, 1.0)),
        Curve("word_reward", {"length_exponent": 1.5}, (0.4, 4.0), (2.5, 1.0)),
        Curve("T", {}, (5, 8, 20), (1.0, 1.5, 1.0)),
    ),
    sources=17,
)


def write(path: Path, weights: str) -> None:
    metric = Signature((("metric", "bleu"), ("order", "4")))
    write_tuned(
        path,
        FOUND,
        search=SearchSettings(beam_size=7),
        weights=weights,
        split="validation",
        metric=metric,
    )


@pytest.fixture
def run(toy_run: Path, tmp_path: Path) -> Run:
    """A copy of the toy run, so that the others stay untuned."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(toy_run / name, folder / name)
    return load_run(folder)


@pytest.fixture
def tuned_run(run: Run) -> Run:
    write(run.path / TUNED_FILE, run.fingerprint)
    return run


def strategy_of(run: Run, name: str, **options: Any) -> object:
    return load_decoder(run, StrategySettings(name, options)).ranker.strategy


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / TUNED_FILE, "abc")

    tuned = TunedSettings(tmp_path / TUNED_FILE)

    assert tuned.options == FOUND.options
    assert tuned.content == {
        "format_version": 1,
        "bidibeam_version": __version__,
        "weights": "abc",
        "split": "validation",
        "sources": 17,
        "search": asdict(SearchSettings(beam_size=7)),
        "metric": "metric:bleu|order:4",
        "options": FOUND.options,
        "bleu": FOUND.bleu,
        "at_end": [
            {"name": "bidis", "setting": "lambda", "value": 0.3},
            {"name": "vbs-tuned", "setting": "word_reward", "value": 0.4},
        ],
        "curves": json.loads(json.dumps([asdict(curve) for curve in FOUND.curves])),
    }
    tuned.check_weights("abc")


def test_its_name_tells_its_content(tmp_path: Path) -> None:
    for folder, weights in (("one", "abc"), ("two", "abc"), ("three", "abd")):
        write(tmp_path / folder / TUNED_FILE, weights)

    one, two, three = (
        TunedSettings(tmp_path / folder / TUNED_FILE).name for folder in ("one", "two", "three")
    )

    assert one == two != three
    assert one.startswith("tuned.json@")
    assert len(one) == len("tuned.json@") + 8


def test_it_is_used_and_named_in_the_signature(tuned_run: Run) -> None:
    name = TunedSettings(tuned_run.path / TUNED_FILE).name

    assert strategy_of(tuned_run, "bidis") == BidiS(0.3)
    assert strategy_of(tuned_run, "vbs-tuned") == VbsTuned(1.5, 0.4)
    signature = load_decoder(tuned_run, "bidis").signature
    assert ("lambda", "0.3") in signature.facts
    assert ("tuned", name) in signature.facts
    assert [key for key, _ in signature.facts[-3:]] == ["tuned", "model", "bidibeam"]


def test_a_tuned_t_is_used_where_the_systems_name_asks_for_it(tuned_run: Run) -> None:
    tuned, plain = (
        dict(load_decoder(tuned_run, name, settings=SearchSettings()).signature.facts)
        for name in ("bidia bleu_t tuned", "bidia bleu_t")
    )

    assert (tuned["T"], plain["T"]) == ("8", "20")
    assert tuned["tuned"] == TunedSettings(tuned_run.path / TUNED_FILE).name
    assert "tuned" not in plain


def test_a_t_that_nobody_tuned_is_missed(run: Run) -> None:
    with pytest.raises(SettingsError, match=r"^The system 'bidia bleu_t tuned' must be tuned first"):
        load_decoder(run, "bidia bleu_t tuned")
    write(run.path / TUNED_FILE, run.fingerprint)
    with pytest.raises(SettingsError, match=r"^The system 'bidia wmd_t tuned' must be tuned first"):
        load_decoder(run, "bidia wmd_t tuned")


def test_a_strategys_own_options_win(tuned_run: Run) -> None:
    assert strategy_of(tuned_run, "bidis", lambda_=2.0) == BidiS(2.0)
    assert strategy_of(tuned_run, "vbs-tuned", word_reward=0.0) == VbsTuned(1.5, 0.0)
    own = load_decoder(tuned_run, StrategySettings("bidis", {"lambda_": 2.0}))
    assert "tuned" not in dict(own.signature.facts)
    partly = load_decoder(tuned_run, StrategySettings("vbs-tuned", {"word_reward": 0.0}))
    assert "tuned" in dict(partly.signature.facts)


@pytest.mark.parametrize("name", ["bidia", "vbs", "random"])
def test_strategies_that_are_not_tuned_do_not_mind(tuned_run: Run, name: str) -> None:
    assert "tuned" not in dict(load_decoder(tuned_run, name).signature.facts)


def test_an_untuned_run_has_defaults_or_says_what_is_missing(run: Run) -> None:
    assert strategy_of(run, "bidis") == BidiS(1.0)
    with pytest.raises(
        SettingsError,
        match=r"^The strategy vbs-tuned needs length_exponent and word_re",
    ):
        load_decoder(run, "vbs-tuned")


def test_what_was_tuned_for_other_weights_is_refused_where_it_would_be_used(run: Run) -> None:
    path = run.path / TUNED_FILE
    write(path, "0123456789ab")

    for name in ("bidis", "vbs-tuned"):
        with pytest.raises(SettingsError) as caught:
            load_decoder(run, name)
        assert str(caught.value) == (
            f"{path} was tuned for other weights (0123456789ab, not {run.fingerprint}). Run `bidibeam tune` "
            "again, or give the strategy's settings yourself."
        )
    assert strategy_of(run, "bidis", lambda_=0.5) == BidiS(0.5)
    load_decoder(run, "bidia")


def message_of(path: Path) -> str:
    with pytest.raises(RunError) as caught:
        TunedSettings(path)
    return str(caught.value)


def test_a_missing_file_says_who_writes_it(tmp_path: Path) -> None:
    path = tmp_path / TUNED_FILE

    assert message_of(path) == f"There is no {path}: `bidibeam tune RUN` writes it."


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "JSONDecodeError("),
        ("", "JSONDecodeError("),
        ("[1]", "TypeError("),
        ("{}", "KeyError('format_version')"),
        ('{"format_version": 1}', "KeyError('options')"),
        ('{"format_version": 1, "options": [1]}', "AttributeError("),
        ('{"format_version": 1, "options": {"bidis": {"lambda_": "much"}}}', "ValueError("),
        ('{"format_version": 1, "options": {"bidis": {"lambda_": null}}}', "TypeError("),
        ("\udcff", "UnicodeDecodeError("),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / TUNED_FILE
    path.write_bytes(content.encode("utf-8", "surrogateescape"))

    message = message_of(path)

    assert message.startswith(f"{path} is damaged ({reason}")
    assert message.endswith("). Make it again with `bidibeam tune RUN`.")


def test_a_folder_in_its_place_is_one_sentence(tmp_path: Path) -> None:
    assert message_of(tmp_path).startswith(f"{tmp_path} is damaged (IsADirectoryError(")


@pytest.mark.parametrize(
    "options", [{}, {"options": {"bidis": 0.3}}], ids=["without options", "in another way"]
)
def test_another_version_is_named_however_it_is_written(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / TUNED_FILE
    path.write_text(json.dumps({"format_version": 2, **options}), encoding="utf-8")

    assert message_of(path) == (
        f"{path} has format version 2; bidibeam {__version__} reads version 1. Make it again with `bidibeam "
        "tune RUN`."
    )


def test_a_damaged_file_is_no_hindrance_to_whoever_tunes_again(run: Run) -> None:
    (run.path / TUNED_FILE).write_text("{", encoding="utf-8")

    assert strategy_of(run, "bidis", lambda_=1.0) == BidiS(1.0)
    with pytest.raises(RunError, match="is damaged"):
        load_decoder(run, "bidis")
