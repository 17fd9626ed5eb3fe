"""Hugging Face models are trained by the same loop: they learn, resume exactly, and say what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, ByT5Tokenizer

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError
from bidibeam.files import alone_in
from bidibeam.hf import (
    BidirectionalSeq2Seq,
    FineTuneSettings,
    PairCollator,
    direction_of,
    fine_tune,
    started_with,
)
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.pairs import response_ids, source_ids
from bidibeam.models.loading import load
from bidibeam.training.logs import TrainingObserver
from bidibeam.training.loop import is_bf16
from tests.unit.models.huggingface.tiny import (
    ENCODER_DECODERS,
    FAMILIES,
    LIMITS,
    prepared,
    tiny_config,
    write_config,
)
from tests.unit.training.runs import Diary, KilledError, are_same_weights, losses_of

QUICK = FineTuneSettings(epochs=2, batch_size=8, learning_rate=1e-2, log_every=1, tensorboard=False, **LIMITS)
LEARNING = replace(QUICK, epochs=60, batch_size=6, log_every=50, warmup=0.1, weight_decay=0.0, keep="last")
LEARNING = replace(LEARNING, evaluate_every=10_000, save_every=0)  # once, at the end
JOINT = ["README.md", "bidibeam.json", "config.json", "metrics.jsonl", "model.safetensors"]
JOINT += ["tokenizer.json", "tokenizer_config.json"]
SAVED = sorted([*JOINT, "generation_config.json"])


Tune = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepared(tmp_path_factory.mktemp("copies"))


@pytest.fixture
def tune(copies: PreparedData, tmp_path: Path) -> Tune:
    """Trains a kind of model with fresh weights, or from another base, into a folder."""

    def train(base: Any, out: str = "out", **options: Any) -> dict[str, Any]:
        if base in FAMILIES:
            base = str(write_config(tmp_path / base, base, **options.pop("changes", {})))
        return fine_tune(copies, tmp_path / out, base=base, **{"settings": QUICK, **options})

    return train


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def loaded(folder: Path, kind: str) -> tuple[Any, Any]:
    auto = AutoModelForSeq2SeqLM if kind in ENCODER_DECODERS else AutoModelForCausalLM
    return auto.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def right_replies(model: Any, tokenizer: Any, data: PreparedData) -> float:
    """The share of training responses that a model writes greedily, in its own order."""
    examples = list(data.examples("train"))
    right = 0
    for example in examples:
        ids = torch.tensor(source_ids([example["source"]], tokenizer, model.config))
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
        begin = 0 if model.config.is_encoder_decoder else ids.shape[1]
        written = tokenizer.decode(out[0, begin:], skip_special_tokens=True).split()
        right += written == direction_of(model).arrange(example["reference"].split())
    return right / len(examples)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_reverse_model_learns_to_write_replies_from_their_end(
    kind: str, tune: Tune, copies: PreparedData, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"t5": {"epochs": 80, "learning_rate": 5e-3}, "marian": {"epochs": 100}}

    tune(kind, direction="reverse", settings=replace(LEARNING, **changes.get(kind, {})))

    model, tokenizer = loaded(tmp_path / "out", kind)
    assert direction_of(model) is Direction.REVERSE
    assert right_replies(model, tokenizer, copies) >= 0.9


def test_a_joint_model_learns_both(copies: PreparedData, tmp_path: Path) -> None:
    base, out, diary = write_config(tmp_path / "base", "bart") / "config.json", tmp_path / "out", Diary()

    fine_tune(copies, out, base=str(base), direction="both", settings=LEARNING, observer=diary)

    model, tokenizer = BidirectionalSeq2Seq.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    assert min(right_replies(model.of(each), tokenizer, copies) for each in Direction) >= 0.9
    last = diary.evaluations[-1]
    assert last["loss"] == pytest.approx((last["loss_regular"] + last["loss_reverse"]) / 2)


def test_the_folder_is_one_that_from_pretrained_reads(
    tune: Tune, copies: PreparedData, tmp_path: Path
) -> None:
    metadata, out = tune("bart", direction="reverse"), tmp_path / "out"

    assert names_in(out) == SAVED
    model, tokenizer = loaded(out, "bart")
    assert (model.config.pad_token_id, model.config.eos_token_id) == (0, 3)
    assert model.generation_config.decoder_start_token_id == tokenizer.bos_token_id == 2
    assert model.config.vocab_size == len(tokenizer) == copies.tokenizer.vocabulary_size
    text = next(copies.examples("test"))["source"]
    assert tokenizer(text).input_ids == [*copies.tokenizer.encode(text), 3]
    assert json.loads((out / "bidibeam.json").read_text()) == json.loads(json.dumps(metadata))
    assert losses_of(out) == [each["loss"] for each in metadata["evaluations"]]
    card = (out / "README.md").read_text()
    for part in (
        "library_name: transformers",
        "from their last token to their first",
        "| learning rate | `0.01`",
        f"| {metadata['best']['loss']:.4f} |",
        f"| train pairs | {copies.info['pairs']['train']} |",
    ):
        assert part in card


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_the_validation_loss_counts_every_token_alike(
    kind: str, tune: Tune, copies: PreparedData, tmp_path: Path
) -> None:
    metadata = tune(kind, direction="reverse", settings=replace(QUICK, batch_size=2, label_smoothing=0.1))

    model, tokenizer = loaded(tmp_path / "out", kind)
    collate = PairCollator(tokenizer, model, direction=Direction.REVERSE)
    total, tokens = 0.0, 0
    for example in copies.examples("validation"):
        (source,) = source_ids([example["source"]], tokenizer, model.config)
        (labels,) = response_ids([example["reference"]], tokenizer, model.config)
        with torch.no_grad():
            total += float(model(**collate([{"input_ids": source, "labels": labels}])).loss) * len(labels)
        tokens += len(labels)
    assert metadata["best"]["loss"] == pytest.approx(total / tokens, abs=1e-5)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_best_weights_are_kept_or_the_last(keep: str, tune: Tune, tmp_path: Path) -> None:
    """The learning rate rises to the end, and the loss with it: the best weights are not the last."""
    metadata = tune("gpt2", settings=replace(QUICK, epochs=12, learning_rate=3.0, warmup=0.99, keep=keep))
    losses = [each["loss"] for each in metadata["evaluations"]]
    assert min(losses) < losses[-1] - 0.1

    still = replace(QUICK, epochs=1, learning_rate=1e-12)
    kept = tune(str(tmp_path / "out"), "again", settings=still)

    expected = min(losses) if keep == "best" else losses[-1]
    assert kept["best"]["loss"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("kind", "direction", "dies_at"),
    [("bart", "reverse", 9), ("bart", "both", 1), ("bart", "both", 12), ("gpt2", "regular", 14)],
)
def test_killed_and_resumed_it_ends_as_if_nothing_had_happened(
    kind: str, direction: str, dies_at: int, tune: Tune, tmp_path: Path
) -> None:
    changes = {"dropout": 0.1} if kind == "bart" else {"resid_pdrop": 0.1}
    settings = replace(QUICK, epochs=3, batch_size=4, save_every=4)
    options: dict[str, Any] = {"changes": changes, "direction": direction, "settings": settings}
    whole, out, diary = tune(kind, "whole", **options), tmp_path / "out", Diary()

    with pytest.raises(KilledError):
        tune(kind, observer=Diary(dies_at=dies_at), **options)
    assert names_in(out) == ["metrics.jsonl", "training"]
    assert started_with(out) is not None
    torn = out / "training" / ".step-00000099.partial"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"half of")
    torch.manual_seed(12345)  # whatever happens in between
    metadata = tune(kind, resume=True, observer=diary, **options)

    steps = whole["steps"]
    saved = max(step for step in range(dies_at) if step % 4 == 0 or step % (steps // 3) == 0)
    assert diary.begin["step"] == saved
    assert diary.steps == list(range(saved + 1, steps + 1))
    assert metadata["evaluations"] == whole["evaluations"]
    assert are_same_weights(tmp_path / "whole", out)
    assert names_in(out) == (JOINT if direction == "both" else SAVED)


def test_a_folder_that_another_process_trains_in_is_left_to_it(tune: Tune, tmp_path: Path) -> None:
    with alone_in(tmp_path / "out", "training in"), pytest.raises(RunError, match="Another process is train"):
        tune("bart")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": 5}, "The setting settings is 5"),
        ({"settings": {"epochs": "x"}}, r"The setting settings\.epochs is .x."),
        ({"direction": None}, "The setting direction is null"),
    ],
)
def test_what_a_training_started_with_is_checked_as_flags_are(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    began: dict[str, Any] = {"base": "b", "direction": "regular", "tokenizer": None, "fingerprint": "f"}
    began["settings"] = {}
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "started.json").write_text(json.dumps({**began, **changes}))

    with pytest.raises(RunError, match=rf"started\.json is damaged \({message}"):
        started_with(tmp_path)


def test_killed_while_the_model_is_written_it_is_written_again(tune: Tune, tmp_path: Path) -> None:
    class Late(TrainingObserver):
        def on_end(self, **_: Any) -> None:
            raise KilledError

    out = tmp_path / "out"
    with pytest.raises(KilledError):
        tune("bart", observer=Late())
    (out / "README.md").write_text("half of")

    tune("bart", resume=True)
    tune("bart", "whole")

    assert are_same_weights(tmp_path / "whole", out)
    assert (out / "README.md").read_text() != "half of"
    (out / "training" / "final").mkdir(parents=True)  # killed when only that was left to be removed
    assert tune("bart", resume=True) == tune("bart", "another")
    assert names_in(out) == names_in(tmp_path / "another")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"direction": "reverse"}, "direction='regular', not 'reverse'"),
        ({"settings": replace(QUICK, max_steps=9)}, "max_steps=2, not 9"),
        ({"base": "gpt2"}, "base="),
    ],
)
def test_killed_at_its_very_end_it_is_not_taken_for_another_training(
    changes: dict[str, Any], message: str, tune: Tune, tmp_path: Path
) -> None:
    tune("bart", settings=replace(QUICK, max_steps=2))
    (tmp_path / "out" / "training" / "final").mkdir(parents=True)

    with pytest.raises(SettingsError, match=message):
        tune(**{"base": "bart", "settings": replace(QUICK, max_steps=2), **changes}, resume=True)
    assert (tmp_path / "out" / "training" / "final").is_dir()


def test_an_observer_hears_of_all_and_the_learning_rate_rises_and_falls_in_straight_lines(
    tune: Tune, copies: PreparedData
) -> None:
    diary = Diary()
    metadata = tune("gpt2", settings=replace(QUICK, epochs=4, warmup=0.34), observer=diary)

    assert diary.begin["pairs"] == copies.info["pairs"]["train"]
    assert diary.begin["total"] == metadata["steps"] == diary.steps[-1] == len(diary.reports)
    assert [each["epoch"] for each in diary.evaluations] == [0, 1, 2, 3]
    assert diary.reports[0]["loss_regular"] == pytest.approx(3, abs=1)
    assert diary.reports[-1]["loss_regular"] < diary.reports[0]["loss_regular"]
    assert diary.reports[0]["tokens_per_s"] > 0
    rates = [report["learning_rate"] / QUICK.learning_rate for report in diary.reports]
    assert rates == pytest.approx(
        [step / 4 for step in range(4)] + [(12 - step) / 8 for step in range(4, 12)]
    )


def test_fresh_weights_follow_from_the_seed_and_a_config_may_be_values(tune: Tune, tmp_path: Path) -> None:
    path = str(write_config(tmp_path / "base", "bart"))
    values = {**json.loads(tiny_config("bart").to_json_string()), "model_type": "bart"}
    for name, base, seed in (("a", path, 0), ("b", values, 0), ("c", path, 1)):
        tune(base, name, settings=replace(QUICK, seed=seed, epochs=1))

    assert are_same_weights(tmp_path / "a", tmp_path / "b")
    assert not are_same_weights(tmp_path / "a", tmp_path / "c")


def test_it_goes_on_from_weights_with_their_tokenizer(tune: Tune, tmp_path: Path) -> None:
    first = tune("t5", "one")["best"]["loss"]
    still = replace(QUICK, learning_rate=1e-9, epochs=1)

    metadata = tune(str(tmp_path / "one"), "two", settings=still)
    joint = tune(str(tmp_path / "one"), "both", direction="both", settings=still)
    again = tune(str(tmp_path / "both"), "more", direction="both", settings=still)

    assert not metadata["is_fresh"]
    assert metadata["best"]["loss"] == pytest.approx(first, abs=1e-4)
    assert joint["best"]["loss_regular"] == pytest.approx(first, abs=1e-4)
    assert again["best"]["loss"] == pytest.approx(joint["best"]["loss"], abs=1e-4)


def test_a_generation_config_that_could_not_be_saved_is_refused_before_training(
    tune: Tune, tmp_path: Path
) -> None:
    tune("bart", "one", settings=replace(QUICK, epochs=1))
    path = tmp_path / "one" / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pad_token_id": -7}))

    for direction in ("regular", "both"):
        with pytest.raises(SettingsError, match=r"^generation_config\.json could not be saved .* got -7"):
            tune(str(tmp_path / "one"), "two", direction=direction)
    assert not (tmp_path / "two" / "config.json").exists()


def test_accumulated_batches_are_one_larger_batch(tune: Tune, tmp_path: Path) -> None:
    for name, batch_size, accumulation in (("large", 100, 1), ("small", 3, 100)):
        settings = replace(QUICK, batch_size=batch_size, accumulation=accumulation, warmup=0.0, epochs=1)
        assert tune("gpt2", name, settings=settings)["steps"] <= 4  # as many as there are shapes at most

    large, small = (load_file(tmp_path / name / "model.safetensors") for name in ("large", "small"))
    for name, weight in large.items():
        torch.testing.assert_close(small[name], weight, atol=1e-3, rtol=0)


def test_a_folder_that_holds_something_is_refused(tune: Tune, tmp_path: Path) -> None:
    base, out = str(write_config(tmp_path / "base", "bart")), tmp_path / "out"

    with pytest.raises(RunError, match=r"base holds a finished model already\. To train it further"):
        tune(base, "base")
    with pytest.raises(RunError, match=r"holds other things\. Name an empty or new directory\.$"):
        tune(base, ".")
    with pytest.raises(KilledError):
        tune(base, observer=Diary(dies_at=1))
    with pytest.raises(RunError, match=r"out already holds a run\. Go on with it by `resume`, or"):
        tune(base)
    other: dict[str, dict[str, Any]] = {
        r"began with learning_rate=0\.01, not 0\.5\. Resume": {"settings": replace(QUICK, learning_rate=0.5)},
        r"began with direction='regular', not 'reverse'\. Resume": {"direction": "reverse"},
    }
    for message, changes in other.items():
        with pytest.raises(SettingsError, match=message):
            tune(base, resume=True, **changes)
    (out / "training" / "checkpoint-3").mkdir()
    with pytest.raises(RunError, match=r"an earlier bidibeam began, .* start anew\.$"):
        tune(base, resume=True)
    (out / "training" / "started.json").write_text("{")
    with pytest.raises(RunError, match=r"started\.json is damaged \(.+\)\. Remove .*out, and train again\.$"):
        tune(base, resume=True)


def test_a_direction_that_is_none_is_named(tune: Tune) -> None:
    with pytest.raises(SettingsError, match=r"^direction is 'up'; choose one of: regular, reverse, both\.$"):
        tune("x", direction="up")


def test_a_model_without_a_padding_token_can_be_trained(tune: Tune, tmp_path: Path) -> None:
    base = tmp_path / "base"
    tune("gpt2", "base")
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(base)

    assert tune(str(base))["best"]["loss"] < 3


def test_bf16_is_for_a_gpu_that_has_it_or_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_gpu in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
        assert is_bf16("auto") is has_gpu
        assert is_bf16("bf16")
        assert not is_bf16("float32")


def test_a_model_with_other_tokens_than_its_data_is_searched_as_long_as_its_own_responses(
    tune: Tune, copies: PreparedData, tmp_path: Path
) -> None:
    ByT5Tokenizer().save_pretrained(tmp_path / "bytes")
    settings = replace(QUICK, epochs=1, max_response_length=60)

    metadata = tune("t5", tokenizer=str(tmp_path / "bytes"), settings=settings)

    longest = max(len(example["reference"].encode()) + 1 for example in copies.examples("train"))
    words = copies.info["settings"]["max_response_length"] + 1
    assert metadata["data"]["lengths"] == {"longest": longest}
    assert load(tmp_path / "out").limits.max_length == longest != words
