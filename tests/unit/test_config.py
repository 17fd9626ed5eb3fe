"""Settings in layers, and what is said when one does not fit."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam import config, fields
from bidibeam.errors import SettingsError, UnknownNameError
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.training.settings import FineTuneSettings, RunSettings

BOMB = "a: &a1 [x, x, x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(2, 60))


@dataclass(frozen=True)
class Inner:
    """A section."""

    rate: float = 0.5
    limit: int | None = None


@dataclass(frozen=True)
class Outer:
    """One field of each kind."""

    count: int = 1
    is_on: bool = False
    name: str = "x"
    names: tuple[str, ...] = ()
    own: Literal["theirs"] | str = "theirs"  # of a kind that another package may have
    inner: Inner = field(default_factory=Inner)


rates = st.floats(allow_nan=False, allow_infinity=False)
inners = st.builds(Inner, rate=rates, limit=st.none() | st.integers())
names = st.lists(st.text()).map(tuple)
outers = st.builds(Outer, st.integers(), st.booleans(), st.text(), names, inner=inners)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_layer_overrules_the_one_before(tmp_path: Path) -> None:
    path = write(tmp_path, "model: {encoder_size: 7, decoder_size: 7}\ntraining:\n")
    demo = config.resolve(preset="demo")

    resolved = config.resolve(
        preset="demo", config=path, overrides=["model.decoder_size=9", "training.seed=3"]
    )

    assert resolved.model.encoder_size == 7
    assert resolved.model.decoder_size == 9
    assert resolved.model.embedding_size == demo.model.embedding_size != ModelSettings().embedding_size
    assert resolved.training.seed == 3
    assert resolved.training.epochs == demo.training.epochs


@pytest.mark.parametrize("name", config.preset_names())
def test_every_preset_resolves_and_survives_json(name: str) -> None:
    settings = config.resolve(preset=name)

    assert isinstance(settings, RunSettings)
    assert config.build_run(json.loads(json.dumps(asdict(settings)))) == settings


def test_the_paper_preset_is_the_papers_network() -> None:
    paper = config.resolve(preset="paper")

    assert (paper.model.embedding_size, paper.model.encoder_layers, paper.model.encoder_size) == (300, 2, 256)
    assert (paper.model.decoder_size, paper.model.dropout) == (512, 0.1)
    assert (paper.training.learning_rate, paper.training.weight_decay) == (1e-3, 1e-5)
    assert (paper.training.gradient_norm, paper.training.regular_weight) == (5.0, 0.5)


def test_the_transformer_preset_is_a_config_of_transformers() -> None:
    settings = config.resolve(preset="transformer", overrides=["model.d_model=64", "training.warmup=0.2"])

    assert settings.architecture == "huggingface"
    assert isinstance(settings.training, FineTuneSettings)
    assert settings.training.warmup == 0.2
    assert (settings.model["model_type"], settings.model["d_model"]) == ("bart", 64)
    with pytest.raises(SettingsError, match=r"^Unknown setting training\.plateau_factor\."):
        config.resolve(preset="transformer", overrides=["training.plateau_factor=1"])


def test_a_preset_for_another_architecture_says_only_how_to_train(tmp_path: Path) -> None:
    path = write(tmp_path, "architecture: huggingface\nmodel: {model_type: t5}\n")

    assert config.resolve(preset="demo", config=path).model == {"model_type": "t5"}
    assert config.resolve(preset="demo", config=path).training == FineTuneSettings()
    assert config.resolve(preset="transformer", architecture="gru").model == ModelSettings()


def test_an_unknown_preset_is_answered_with_the_list() -> None:
    choices = "Choose one of: compact, demo, gru, paper, transformer."
    for name, hint in (("dmo", "Did you mean 'demo'? "), ("zzz", "")):
        with pytest.raises(
            UnknownNameError, match=rf"^Unknown preset '{name}'\. {re.escape(hint + choices)}$"
        ):
            config.resolve(preset=name)


@hypothesis.settings(max_examples=30)
@given(outers)
def test_settings_survive_json(settings: Outer) -> None:
    mapping = json.loads(json.dumps(asdict(settings)))

    assert fields.build(Outer, mapping) == settings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("inner.rate=1e-3", 0.001),  # YAML 1.1 calls this a string
        ("inner.rate=1E5", 1e5),
        ("inner.rate=2", 2.0),
        ("inner.rate=.5", 0.5),
        ("name=a b/c=d", "a b/c=d"),
        ("inner.limit=null", None),
        ("inner.limit=", None),
        ("own=slow", "slow"),
        ("count=-3", -3),
        ("is_on=yes", True),
        ("name='3'", "3"),
        ("names=[a, b]", ("a", "b")),
        ("names=[]", ()),
        (" count = 3", 3),
    ],
)
def test_a_flag_is_read_as_yaml(text: str, value: object) -> None:
    built: Any = fields.build(Outer, config.parse_override(text))
    for key in text.partition("=")[0].strip().split("."):
        built = getattr(built, key)

    assert built == value
    assert type(built) is type(value)


@pytest.mark.parametrize("text", ["count", "=3", "inner.=3", ".count=3", "", "names=[a"])
def test_a_flag_without_key_and_value_is_refused(text: str) -> None:
    message = r"^(A setting is given as key=value, for example|The value of names, line 1: this is not YAML)"
    with pytest.raises(SettingsError, match=message):
        config.parse_override(text)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"count": "ten"}, 'The setting count is "ten"; it must be a whole number.'),
        ({"count": True}, "The setting count is true; it must be a whole number."),
        ({"is_on": 1}, "The setting is_on is 1; it must be true or false."),
        ({"name": 3}, "The setting name is 3; it must be a string."),
        ({"names": "a"}, 'The setting names is "a"; it must be a list, each item a string.'),
        (config.parse_override("count=2020-01-01"), 'The setting count is "2020-01-01"; it must be a whole'),
        ({"names": ["a", 1]}, "The setting names[1] is 1; it must be a string."),
        ({"inner": 3}, "The setting inner is 3; it must be a section of settings."),
        ({"inner": {"rate": "fast"}}, 'The setting inner.rate is "fast"; it must be a finite number.'),
        ({"inner": {"rate": float("nan")}}, "The setting inner.rate is NaN; it must be a finite number."),
        (
            {"inner": {"rate": 10**400}},
            f"The setting inner.rate is 1{'0' * 56}...; it must be a finite number.",
        ),
        ({"inner": {"limit": "x"}}, 'The setting inner.limit is "x"; it must be a whole number or null.'),
        ({"count": {"x": 1}}, 'The setting count is {"x": 1}; it must be a whole number.'),
        ({"inner": {"rat": 1}}, "Unknown setting inner.rat. Did you mean inner.rate? Valid settings: inne"),
        ({"rate": 1}, "Unknown setting rate. Did you mean inner.rate? Valid settings: count, is_on, name, "),
        ({"zzz": 1}, "Unknown setting zzz. Valid settings: count, is_on, name, names, own, inner.rate, "),
    ],
)
def test_values_of_another_type_and_unknown_keys_are_named(mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        fields.build(Outer, mapping)

    assert str(caught.value).startswith(message)


def test_a_setting_out_of_range_is_refused_by_its_own_dataclass() -> None:
    with pytest.raises(SettingsError, match=r"^model\.dropout is 2\.0; it must lie in \[0, 1\)\.$"):
        config.resolve(overrides=["model.dropout=2"])


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "model:\n", "model: {}\ntraining: null\n", "\ufeffmodel:\n"]
)
def test_empty_files_and_sections_change_nothing(tmp_path: Path, text: str) -> None:
    demo = config.resolve(preset="demo")

    assert config.resolve(preset="demo", config=write(tmp_path, text)) == demo


def test_a_section_written_twice_is_one_section_and_anchors_work(tmp_path: Path) -> None:
    twice = write(tmp_path, "model: {encoder_size: 7, decoder_size: 7}\nmodel: {decoder_size: 8}\nmodel:\n")
    assert config.load_yaml(twice) == {"model": {"encoder_size": 7, "decoder_size": 8}}
    anchored = write(tmp_path, "model: &size {a: 1, b: 2}\ntraining: {<<: *size, b: 3}\n")
    assert config.load_yaml(anchored)["training"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model:\n  dropout: [1\n", "line 3: this is not YAML: expected ',' or ']', but got '<stream end>'."),
        ("- 1\n", "holds [1]; settings are sections of key: value lines."),
        ("model: \x00\n", "is not YAML for settings: unacceptable character #x0000"),
        ("model: !!set {a}\n", "is not YAML for settings: the tag 'set' stands for no plain value."),
        ("model: !!bool a\n", "is not YAML for settings: 'a'."),
        ("model: &a [*a]\n", "is not YAML for settings: it holds itself, or more than 10,000 values."),
        (f"model: 0x{'f' * 5000}\n", "is not YAML for settings: a number of 5,002 characters."),
        (f"model: {'9' * 5000}\n", "is not YAML for settings: a number of 5,000 characters."),
        (BOMB, "is not YAML for settings: it holds itself, or more than 10,000 values."),
        ("model: " + "[" * 3000 + "\n", "is nested too deeply for settings."),
        ("model: !!python/name:os.system\n", "the tag 'python/name:os.system' stands for no plain value."),
    ],
)
def test_a_file_that_is_not_settings_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)

    with pytest.raises(SettingsError) as caught:
        config.load_yaml(path)

    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_a_key_that_is_no_word_is_an_unknown_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^Unknown setting \[1, 2\]\. Valid settings: model\."):
        config.resolve(config=write(tmp_path, "[1, 2]: 3\n"))


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    with pytest.raises(SettingsError, match=r"^The settings file .*run\.yaml cannot be read: No such file"):
        config.load_yaml(path)
    path.write_bytes(b"model: \xff\n")
    with pytest.raises(SettingsError, match=r"run\.yaml is not UTF-8: byte 8 is wrong\.$"):
        config.load_yaml(path)
