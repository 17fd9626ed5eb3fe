from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError
from bidibeam.hf import BidirectionalSeq2Seq, FineTuneSettings, PairCollator, direction_of, fine_tune
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.pairs import encode_pairs, source_ids
from bidibeam.models.huggingface.trainer import DirectionalTrainer, uses_bf16
from bidibeam.models.huggingface.training import started_with
from bidibeam.training.logs import Silence
from tests.unit.models.huggingface.tiny import (
    ENCODER_DECODERS,
    FAMILIES,
    LIMITS,
    prepared,
    tiny_model,
    write_config,
)

QUICK = FineTuneSettings(epochs=2, batch_size=8, learning_rate=1e-2, log_every=1, **LIMITS)
LEARNING = replace(QUICK, epochs=60, batch_size=6, log_every=50, warmup=0.1, weight_decay=0.0, keep="last")
SAVED = ["README.md", "bidibeam.json", "config.json", "generation_config.json", "model.safetensors"]
SAVED += ["tokenizer.json", "tokenizer_config.json"]


class Killed(BaseException):
    """What a test kills training with."""


class Diary(Silence):
    """Notes what it is told; dies on demand."""

    def __init__(self, *, dies_at: int | None = None) -> None:
        self.steps: list[int] = []
        self.reports: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.begin: dict[str, Any] = {}
        self.dies_at = dies_at

    def started(self, *, step: int, total_steps: int, facts: dict[str, Any]) -> None:
        self.begin = {"step": step, "total": total_steps, **facts}

    def stepped(self, *, step: int) -> None:
        if step == self.dies_at:
            raise Killed
        self.steps.append(step)

    def reported(self, *, step: int, record: dict[str, Any]) -> None:
        self.reports.append({"step": step, **record})

    def evaluated(self, *, step: int, record: dict[str, Any]) -> None:
        self.evaluations.append({"step": step, **record})


def loaded(folder: Path, kind: str) -> tuple[Any, Any]:
    auto = AutoModelForSeq2SeqLM if kind in ENCODER_DECODERS else AutoModelForCausalLM
    return auto.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def written(model: Any, tokenizer: Any, source: str) -> str:
    """What a model generates greedily, as it wrote it."""
    ids = torch.tensor(source_ids([source], tokenizer, model.config))
    mask = torch.ones_like(ids)
    out = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)[0].tolist()
    begin = 0 if model.config.is_encoder_decoder else ids.shape[1]
    return str(tokenizer.decode(out[begin:], skip_special_tokens=True))


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return dict(load_file(folder / "model.safetensors"))


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_reverse_model_learns_to_write_replies_from_their_end(
    kind: str, copies: PreparedData, tmp_path: Path
) -> None:
    base, out = write_config(tmp_path / "base", kind), tmp_path / "out"

    settings = replace(LEARNING, epochs=80, learning_rate=5e-3) if kind == "t5" else LEARNING
    fine_tune(copies, out, base=str(base), direction="reverse", settings=settings)

    model, tokenizer = loaded(out, kind)
    assert direction_of(model) is Direction.REVERSE
    examples = list(copies.examples("train"))
    turned = [" ".join(reversed(example["reference"].split())) for example in examples]
    right = sum(
        written(model, tokenizer, example["source"]) == reply
        for example, reply in zip(examples, turned, strict=True)
    )
    assert right >= 0.9 * len(examples)


def test_a_joint_model_learns_both(copies: PreparedData, tmp_path: Path) -> None:
    base, out = write_config(tmp_path / "base", "bart"), tmp_path / "out"
    diary = Diary()

    fine_tune(
        copies, out, base=str(base / "config.json"), direction="both", settings=LEARNING, observer=diary
    )

    model, tokenizer = BidirectionalSeq2Seq.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    examples = list(copies.examples("train"))
    for one in (model.regular, model.reverse):
        replies = [written(one, tokenizer, example["source"]).split() for example in examples]
        expected = [direction_of(one).arrange(example["reference"].split()) for example in examples]
        assert sum(map(list.__eq__, replies, expected)) >= 0.9 * len(examples)
    assert {"loss", "loss_regular", "loss_reverse"} <= set(diary.evaluations[-1])
    both = diary.evaluations[-1]["loss_regular"] + diary.evaluations[-1]["loss_reverse"]
    assert diary.evaluations[-1]["loss"] == pytest.approx(both / 2)


def test_the_folder_is_one_that_from_pretrained_reads(copies: PreparedData, tmp_path: Path) -> None:
    base, out = write_config(tmp_path / "base", "bart"), tmp_path / "out"

    facts = fine_tune(copies, out, base=str(base), direction="reverse", settings=QUICK)

    assert sorted(path.name for path in out.iterdir()) == sorted(SAVED)
    model, tokenizer = loaded(out, "bart")
    assert (model.config.pad_token_id, model.config.eos_token_id) == (0, 3)
    assert model.generation_config.decoder_start_token_id == tokenizer.bos_token_id == 2
    assert model.config.vocab_size == len(tokenizer) == copies.tokenizer.vocabulary_size
    text = next(copies.examples("test"))["source"]
    assert tokenizer(text).input_ids == [*copies.tokenizer.encode(text), 3]
    assert json.loads((out / "bidibeam.json").read_text()) == json.loads(json.dumps(facts))
    card = (out / "README.md").read_text()
    for part in (
        "library_name: transformers",
        "from their last token to their first",
        "| learning rate | `0.01`",
    ):
        assert part in card
    assert f"| {facts['best']['loss']:.4f} |" in card
    assert f"| train pairs | {copies.info['pairs']['train']} |" in card


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_the_validation_loss_counts_every_token_alike(
    kind: str, copies: PreparedData, tmp_path: Path
) -> None:
    base, out = write_config(tmp_path / "base", kind), tmp_path / "out"
    settings = replace(QUICK, batch_size=2, label_smoothing=0.1)

    facts = fine_tune(copies, out, base=str(base), direction="reverse", settings=settings)

    model, tokenizer = loaded(out, kind)
    collate = PairCollator(tokenizer, model, direction=Direction.REVERSE)
    total, tokens = 0.0, 0
    for pair in encode_pairs(copies.examples("validation"), tokenizer, model.config, **LIMITS):
        row = collate([pair])
        with torch.no_grad():
            total += float(model(**row).loss) * len(pair["labels"])
        tokens += len(pair["labels"])
    assert facts["best"]["loss"] == pytest.approx(total / tokens, abs=1e-5)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_best_weights_are_kept_or_the_last(
    keep: str, copies: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = str(write_config(tmp_path / "base", "bart"))
    evaluate, save = DirectionalTrainer.evaluate, DirectionalTrainer._save_checkpoint
    saved: list[bytes] = []

    def worse_and_worse(trainer: Any, *args: Any, **options: Any) -> dict[str, float]:
        return {**evaluate(trainer, *args, **options), "eval_loss": float(trainer.state.global_step)}

    def note(trainer: Any, *args: Any, **options: Any) -> None:
        save(trainer, *args, **options)
        newest = Path(trainer.args.output_dir) / f"checkpoint-{trainer.state.global_step}"
        saved.append((newest / "model.safetensors").read_bytes())

    monkeypatch.setattr(DirectionalTrainer, "evaluate", worse_and_worse)
    monkeypatch.setattr(DirectionalTrainer, "_save_checkpoint", note)
    fine_tune(copies, tmp_path / "out", base=base, settings=replace(QUICK, epochs=4, keep=keep))

    final = (tmp_path / "out" / "model.safetensors").read_bytes()
    assert [weights == final for weights in saved] == [keep == "best", False, False, keep == "last"]


@pytest.mark.parametrize(("kind", "direction"), [("bart", "reverse"), ("bart", "both"), ("gpt2", "regular")])
def test_killed_and_resumed_it_ends_as_if_nothing_had_happened(
    kind: str, direction: str, copies: PreparedData, tmp_path: Path
) -> None:
    changes = {"dropout": 0.1} if kind == "bart" else {"resid_pdrop": 0.1}
    base = str(write_config(tmp_path / "base", kind, **changes))
    settings = replace(QUICK, epochs=3, batch_size=4)
    options: dict[str, Any] = {"base": base, "direction": direction, "settings": settings}
    whole = fine_tune(copies, tmp_path / "whole", **options)
    out = tmp_path / "out"

    steps = whole["steps"] // 3
    with pytest.raises(Killed):
        fine_tune(copies, out, observer=Diary(dies_at=2 * steps - 1), **options)
    assert sorted(path.name for path in out.iterdir()) == ["training"]
    assert started_with(out) is not None
    torn = out / "training" / f"checkpoint-{2 * steps}"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"half of")
    diary = Diary()
    facts = fine_tune(copies, out, resume=True, observer=diary, **options)

    assert diary.begin["step"] == steps
    assert diary.steps == list(range(steps + 1, 3 * steps + 1))
    assert facts["evaluations"] == whole["evaluations"]
    one, other = weights_of(tmp_path / "whole"), weights_of(out)
    assert set(one) == set(other)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert sorted(path.name for path in out.iterdir()) == sorted(
        SAVED if direction != "both" else _joint_files()
    )


def _joint_files() -> list[str]:
    return [name for name in SAVED if name != "generation_config.json"]


def test_killed_before_the_first_checkpoint_it_starts_over(copies: PreparedData, tmp_path: Path) -> None:
    base, out = str(write_config(tmp_path / "base", "bart")), tmp_path / "out"
    with pytest.raises(Killed):
        fine_tune(copies, out, base=base, settings=QUICK, observer=Diary(dies_at=1))

    diary = Diary()
    fine_tune(copies, out, base=base, settings=QUICK, resume=True, observer=diary)

    assert diary.steps[0] == 1


def test_an_observer_hears_of_steps_losses_and_evaluations(copies: PreparedData, tmp_path: Path) -> None:
    base, diary = str(write_config(tmp_path / "base", "llama")), Diary()

    facts = fine_tune(copies, tmp_path / "out", base=base, settings=QUICK, observer=diary)

    assert diary.begin["pairs"] == copies.info["pairs"]["train"]
    assert diary.begin["total"] == facts["steps"] == diary.steps[-1]
    assert [each["epoch"] for each in diary.evaluations] == [0, 1]
    assert len(diary.reports) == facts["steps"]
    assert diary.reports[0]["loss_regular"] == pytest.approx(3, abs=1)
    assert diary.reports[-1]["loss_regular"] < diary.reports[0]["loss_regular"]
    assert diary.reports[0]["tokens_per_s"] > 0


def test_fresh_weights_follow_from_the_seed(copies: PreparedData, tmp_path: Path) -> None:
    base = str(write_config(tmp_path / "base", "bart"))
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fine_tune(copies, tmp_path / name, base=base, settings=replace(QUICK, seed=seed, epochs=1))

    a, b, c = (weights_of(tmp_path / name)["model.shared.weight"] for name in "abc")
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_it_goes_on_from_weights_with_their_tokenizer(copies: PreparedData, tmp_path: Path) -> None:
    base = str(write_config(tmp_path / "base", "t5"))
    fine_tune(copies, tmp_path / "one", base=base, settings=LEARNING)

    tiny = replace(QUICK, learning_rate=1e-9, epochs=1)
    first = json.loads((tmp_path / "one" / "bidibeam.json").read_text())
    facts = fine_tune(copies, tmp_path / "two", base=str(tmp_path / "one"), settings=tiny)

    assert not facts["is_fresh"]
    assert facts["best"]["loss"] == pytest.approx(first["evaluations"][-1]["loss"], abs=1e-4)
    both = replace(tiny, epochs=1)
    joint = fine_tune(copies, tmp_path / "both", base=str(tmp_path / "one"), direction="both", settings=both)
    assert joint["best"]["loss_regular"] == pytest.approx(first["evaluations"][-1]["loss"], abs=1e-4)
    again = fine_tune(copies, tmp_path / "more", base=str(tmp_path / "both"), direction="both", settings=both)
    assert again["best"]["loss"] == pytest.approx(joint["best"]["loss"], abs=1e-4)


def test_smoothed_labels_are_torchs(copies: PreparedData, tmp_path: Path) -> None:
    base = str(write_config(tmp_path / "base", "gpt2"))
    noted: list[tuple[float, float]] = []
    compute = DirectionalTrainer.compute_loss

    def check(trainer: Any, model: Any, inputs: Any, **options: Any) -> Any:
        loss, outputs = compute(trainer, model, dict(inputs), **{**options, "return_outputs": True})
        logits, labels = outputs.logits[:, :-1].flatten(0, 1), inputs["labels"][:, 1:].flatten()
        expected = F.cross_entropy(logits, labels, label_smoothing=0.3)
        noted.append((float(loss.detach()), float(expected.detach())))
        return (loss, outputs) if options.get("return_outputs") else loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectionalTrainer, "compute_loss", check)
        settings = replace(QUICK, epochs=1, label_smoothing=0.3)
        fine_tune(copies, tmp_path / "out", base=base, settings=settings)

    assert noted
    for loss, expected in noted:
        assert loss == pytest.approx(expected, abs=1e-4)


def test_accumulated_batches_are_one_larger_batch(copies: PreparedData, tmp_path: Path) -> None:
    base = str(write_config(tmp_path / "base", "gpt2"))
    for name, settings in {
        "large": replace(QUICK, batch_size=8, max_steps=1),
        "small": replace(QUICK, batch_size=4, accumulation=2, max_steps=1),
    }.items():
        fine_tune(copies, tmp_path / name, base=base, settings=settings)

    large, small = weights_of(tmp_path / "large"), weights_of(tmp_path / "small")
    for name, weight in large.items():
        torch.testing.assert_close(small[name], weight, atol=1e-3, rtol=0)


def test_early_stopping_ends_it(copies: PreparedData, tmp_path: Path) -> None:
    base = str(write_config(tmp_path / "base", "bart"))
    settings = replace(QUICK, epochs=9, early_stopping=2, learning_rate=1e-30)

    facts = fine_tune(copies, tmp_path / "out", base=base, settings=settings)

    assert [each["epoch"] for each in facts["evaluations"]] == [1, 2, 3]


def test_data_without_training_text_say_how_to_get_it(tmp_path: Path) -> None:
    data = prepared(tmp_path, keep_text=False)
    base = write_config(tmp_path / "base", "bart")

    with pytest.raises(RunError, match=r"their text is needed: prepare again with --keep-text\.$"):
        fine_tune(data, tmp_path / "out", base=str(base), settings=QUICK)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_refused(copies: PreparedData, tmp_path: Path) -> None:
    base, out = str(write_config(tmp_path / "base", "bart")), tmp_path / "out"

    with pytest.raises(
        RunError, match=r"base holds a finished model already\. Choose another --out; to train"
    ):
        fine_tune(copies, tmp_path / "base", base=base, settings=QUICK)
    with pytest.raises(RunError, match=r"holds other things\. Name an empty or new directory as --out\.$"):
        fine_tune(copies, tmp_path, base=base, settings=QUICK)
    with pytest.raises(Killed):
        fine_tune(copies, out, base=base, settings=QUICK, observer=Diary(dies_at=1))
    with pytest.raises(
        RunError, match=r"out holds an unfinished training\. Add --resume to go on with it, or"
    ):
        fine_tune(copies, out, base=base, settings=QUICK)
    other: dict[str, dict[str, Any]] = {
        r"began with the learning rate 0\.01, not 0\.5\. Resume": {
            "settings": replace(QUICK, learning_rate=0.5)
        },
        r"began with the direction 'regular', not 'reverse'\. Resume": {"direction": "reverse"},
    }
    for message, changes in other.items():
        options: dict[str, Any] = {"base": base, "settings": QUICK, "resume": True, **changes}
        with pytest.raises(SettingsError, match=message):
            fine_tune(copies, out, **options)
    (out / "training" / "started.json").write_text("{")
    with pytest.raises(RunError, match=r"started\.json is damaged \(.+\)\. Remove .*out, and train again\.$"):
        fine_tune(copies, out, base=base, settings=QUICK, resume=True)


def test_settings_out_of_range_are_named(copies: PreparedData, tmp_path: Path) -> None:
    wrong: list[tuple[str, Any, str]] = [
        ("epochs", 0, "at least 1"),
        ("learning_rate", float("nan"), "a positive number"),
        ("label_smoothing", 1.0, "at least 0 and below 1"),
        ("max_response_length", 1, "at least 2"),
        ("seed", -1, "0 or more, and below 2^32"),
        ("weight_decay", -1.0, "0 or more"),
        ("precision", "int8", "one of auto, float32, bf16"),
        ("keep", "all", "one of best, last"),
    ]
    for name, value, rule in wrong:
        with pytest.raises(SettingsError, match=rf"^{name} is {value!r}; it must be {re.escape(rule)}\.$"):
            replace(QUICK, **{name: value})
    with pytest.raises(SettingsError, match=r"^direction is 'up'; choose one of: regular, reverse, both\.$"):
        fine_tune(copies, tmp_path / "out", base="x", direction="up")


def test_a_model_with_too_few_positions_is_refused(copies: PreparedData, tmp_path: Path) -> None:
    for kind, lengths, told in (
        ("bart", (65, 20), "--set max_source_length=64"),
        ("bart", (256, 128), "--set max_source_length=64 --set max_response_length=64"),
        ("gpt2", (45, 20), "--set max_source_length=44"),
        ("gpt2", (20, 128), "--set max_response_length=32"),
        ("gpt2", (256, 128), "--set max_source_length=32 --set max_response_length=32"),
    ):
        base = str(write_config(tmp_path / kind, kind))
        settings = replace(QUICK, max_source_length=lengths[0], max_response_length=lengths[1])
        with pytest.raises(SettingsError) as caught:
            fine_tune(copies, tmp_path / "out", base=base, settings=settings)
        assert str(caught.value) == (
            f"The model has 64 positions, too few for sources of {lengths[0]} and responses of {lengths[1]} "
            f"tokens: lower them, as by {told} (in Python: in FineTuneSettings)."
        )
    relative = str(write_config(tmp_path / "t5", "t5"))
    fine_tune(copies, tmp_path / "out", base=relative, settings=replace(QUICK, max_source_length=600))


def test_a_model_without_a_padding_token_can_be_trained(copies: PreparedData, tmp_path: Path) -> None:
    base = tmp_path / "base"
    fine_tune(copies, base, base=str(write_config(tmp_path / "config", "gpt2")), settings=QUICK)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(base)

    facts = fine_tune(copies, tmp_path / "out", base=str(base), settings=QUICK)

    assert facts["best"]["loss"] < 3
    assert tiny_model("gpt2").config.pad_token_id is None


def test_bf16_is_for_a_gpu_that_has_it_or_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_gpu in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
        assert uses_bf16("auto") is has_gpu
        assert uses_bf16("bf16")
        assert not uses_bf16("float32")
