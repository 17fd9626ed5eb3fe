from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModel, AutoModelForSeq2SeqLM

from bidibeam.errors import InputError, SettingsError
from bidibeam.hf import BidirectionalSeq2Seq, BidirectionalSeq2SeqConfig, direction_of, reverse_labels
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface import joint as joint_module
from tests.unit.models.huggingface.tiny import tiny_config, tiny_model

KINDS: dict[str, dict[str, Any]] = {
    "bart": {},
    "t5": {},
    "t5 untied": {"tie_word_embeddings": False},
    "marian": {},
    "marian with two vocabularies": {"share_encoder_decoder_embeddings": False},
}


def joint(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    config = tiny_config(kind.split()[0], **KINDS[kind])
    return BidirectionalSeq2Seq.from_encoder_decoder(config, **options).eval()


def batch() -> dict[str, torch.Tensor]:
    chooser = torch.Generator().manual_seed(0)
    sources = torch.randint(4, 40, (3, 7), generator=chooser)
    mask = torch.ones_like(sources)
    mask[1, 5:] = 0
    labels = torch.randint(4, 40, (3, 5), generator=chooser)
    labels[:, 4] = 2
    labels[0, 3:] = -100
    return {"input_ids": sources, "attention_mask": mask, "labels": labels}


def stored(folder: Path) -> list[str]:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return list(file.keys())


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_two_separate_passes(kind: str) -> None:
    given, calls = batch(), []
    turned = reverse_labels(given["labels"], joint(kind).config.special_ids)
    mean, total = joint(kind), joint(kind, reduction="sum")
    total.get_encoder().register_forward_hook(lambda *_: calls.append(1))

    with torch.no_grad():
        regular = mean.regular(**given).loss
        reverse = mean.reverse(**{**given, "labels": turned}).loss
        output = mean(**given)

    torch.testing.assert_close(output.loss, (regular + reverse) / 2)
    torch.testing.assert_close(total(**given).loss.detach(), regular + reverse)
    torch.testing.assert_close(output.regular_loss, regular)
    torch.testing.assert_close(output.reverse_loss, reverse)
    assert not torch.equal(regular, reverse)
    assert len(calls) == 1  # the encoder is run once


@pytest.mark.parametrize("kind", KINDS)
def test_both_halves_teach_one_encoder_and_each_its_own_decoder(kind: str) -> None:
    model = joint(kind)
    assert model.regular.get_encoder() is model.reverse.get_encoder()
    encoder = next(p for n, p in model.get_encoder().named_parameters() if "embed" not in n)

    gradients = []
    for name in ("regular_loss", "reverse_loss"):
        model.zero_grad()
        model(**batch())[name].backward()
        assert encoder.grad is not None
        gradients.append(encoder.grad.clone())
        idle = model.of(Direction.REVERSE if name == "regular_loss" else Direction.REGULAR).get_decoder()
        layers = [p for n, p in idle.named_parameters() if "embed_tokens" not in n and p.requires_grad]
        assert all(p.grad is None or not p.grad.any() for p in layers)
    model.zero_grad()
    model(**batch()).loss.backward()
    torch.testing.assert_close(encoder.grad, sum(gradients) / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_the_encoder_is_there_once_and_loaded_it_is_shared_again(kind: str, tmp_path: Path) -> None:
    model = joint(kind)

    model.save_pretrained(tmp_path)
    loaded, told = BidirectionalSeq2Seq.from_pretrained(tmp_path, output_loading_info=True)

    assert not any(".encoder." in f".{name}" and name.startswith("reverse") for name in stored(tmp_path))
    assert any(".encoder." in name for name in stored(tmp_path))
    assert not any(told.values())
    assert loaded.regular.get_encoder() is loaded.reverse.get_encoder()
    assert torch.equal(loaded.eval()(**batch()).loss, model(**batch()).loss)
    ours, theirs = dict(model.named_parameters()), dict(loaded.named_parameters())
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert isinstance(AutoModel.from_pretrained(tmp_path), BidirectionalSeq2Seq)
    numbers = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    assert (tmp_path / "model.safetensors").stat().st_size < 4 * numbers + 20_000


def test_a_half_is_an_ordinary_model_with_its_direction(tmp_path: Path) -> None:
    model = joint("bart")
    sources = batch()["input_ids"]

    for direction in Direction:
        one = model.of(direction)
        assert one is model.of(direction.value)
        assert direction_of(one) is direction
        one.save_pretrained(tmp_path / direction)
        alone = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / direction)
        assert direction_of(alone) is direction
        written = [m.generate(sources, max_new_tokens=5, do_sample=False) for m in (one, alone)]
        assert torch.equal(*written)


def test_half_is_half_precision_as_in_every_module() -> None:
    model = joint("bart")

    assert model.half() is model

    assert {weight.dtype for weight in model.parameters()} == {torch.float16}
    assert model.regular.get_encoder() is model.reverse.get_encoder()
    assert model.float().regular.dtype == model.reverse.dtype == torch.float32


def test_it_starts_from_the_weights_of_a_model_and_keeps_how_that_generates(tmp_path: Path) -> None:
    base = tiny_model("bart")
    base.generation_config.num_beams = 7

    model = BidirectionalSeq2Seq.from_encoder_decoder(base, special_ids=[0, 1, 2, 3])
    model.save_pretrained(tmp_path)
    loaded = BidirectionalSeq2Seq.from_pretrained(tmp_path)

    for one in (model.regular, model.reverse, loaded.reverse):
        assert all(torch.equal(one.state_dict()[name], value) for name, value in base.state_dict().items())
        assert one.generation_config.num_beams == 7
    assert loaded.config.special_ids == [0, 1, 2, 3]
    config = BidirectionalSeq2SeqConfig.from_pretrained(tmp_path)
    assert (config.model_type, config.base["model_type"]) == ("bidibeam-joint", "bart")
    assert config.base_config.d_model == 32


def test_what_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^A gpt2 model has no encoder to share: both directions need"):
        BidirectionalSeq2Seq.from_encoder_decoder(tiny_config("gpt2"))
    with pytest.raises(SettingsError, match=r"^reduction is 'max'; choose one of: mean, sum\.$"):
        joint("bart", reduction="max")
    with pytest.raises(InputError, match=r"^A joint model needs labels; to write replies, generate with"):
        joint("bart")(input_ids=batch()["input_ids"])
    with pytest.raises(InputError, match=r"holds both directions: take one of them, `model\.regular` or"):
        direction_of(joint("bart"))
    monkeypatch.setattr(vars(joint_module)["transformers"], "__version__", "4.56.0")
    with pytest.raises(SettingsError, match=r"need transformers 5 or later, and 4\.56\.0 is installed"):
        joint("bart")
