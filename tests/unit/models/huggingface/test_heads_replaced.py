"""Output layers of any make are called as they are, and are asked again when they are others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from bidibeam.errors import ScorerError
from bidibeam.hf import BidiGenerate
from bidibeam.models.huggingface.heads import Head
from bidibeam.models.huggingface.scoring import HFScorer
from tests.unit.models.huggingface.test_generate import inputs
from tests.unit.models.huggingface.test_parity import model_of as strong_model
from tests.unit.models.huggingface.test_steps import is_lean, model_of

NAMES = ("bart", "t5", "gpt2", "llama")


class Louder(nn.Module):
    """A layer in another, with no weight to show."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, rows: Tensor) -> Tensor:
        said: Tensor = self.inner(rows)
        return 1.7 * said


class Bent(nn.Module):
    """A layer, and beside it what is no product."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner, self.down = inner, nn.Linear(inner.in_features, 2)
        self.up = nn.Linear(2, inner.out_features, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        said: Tensor = self.inner(rows) + 3.0 * self.up(self.down(rows).relu())
        return said


def normalise(model: Any) -> None:
    model.lm_head.weight = nn.Parameter(model.lm_head.weight + 0.01)  # no row of zeros
    nn.utils.parametrizations.weight_norm(model.lm_head)


LAYERS: dict[str, Callable[[Any], Any]] = {
    "a wrapper": lambda model: setattr(model, "lm_head", Louder(model.lm_head)),
    "a sequence": lambda model: setattr(model, "lm_head", nn.Sequential(model.lm_head)),
    "an adapter that is no product": lambda model: setattr(model, "lm_head", Bent(model.lm_head)),
    "a normalised weight": normalise,
}


@pytest.mark.parametrize("change", LAYERS)
@pytest.mark.parametrize("name", NAMES)
def test_an_output_layer_of_any_make_is_called(name: str, change: str) -> None:
    model = model_of(name)
    torch.manual_seed(5)
    LAYERS[change](model)

    assert is_lean(model.eval())  # which compares all logits with the model's own
    assert HFScorer(model).vocabulary_size == 40


@pytest.mark.filterwarnings("ignore")  # torch has other plans for quantisation
@pytest.mark.parametrize("name", NAMES)
def test_quantised_layers_are_called(name: str) -> None:
    quantised: Any = torch.ao.quantization.quantize_dynamic
    model = quantised(strong_model(name, 1), {nn.Linear})
    scorer, ids = HFScorer(model), torch.tensor([[5, 6, 7]])

    logits, _ = scorer.step(torch.zeros(1, dtype=torch.long), scorer.start(ids))

    begun = {"decoder_input_ids": scorer.inputs(ids).begin} if model.config.is_encoder_decoder else {}
    own = model(input_ids=ids, **begun).logits[0, -1]
    assert type(model.lm_head) is not nn.Linear
    torch.testing.assert_close(
        logits[0], own, atol=0.02 * float(own.abs().max()), rtol=0
    )  # rows are rounded together


def louder(model: Any) -> Callable[[], None]:
    def shout(_: nn.Module, __: Any, output: Any) -> Any:
        output.logits = 2.0 * output.logits
        return output

    return model.register_forward_hook(shout).remove  # type: ignore[no-any-return]


def patched(model: Any) -> Callable[[], None]:
    own = model.forward

    def forward(*args: Any, **options: Any) -> Any:
        output = own(*args, **options)
        output.logits = 0.5 * output.logits
        return output

    model.forward = forward
    return lambda: delattr(model, "forward")


def emptied(model: Any) -> Callable[[], None]:
    weight = model.lm_head.weight.data
    kept = weight.clone()
    weight.zero_()
    return lambda: weight.copy_(kept)


@pytest.mark.parametrize("change", [louder, patched, emptied])
@pytest.mark.parametrize("name", NAMES)
def test_what_was_changed_for_a_while_leaves_nothing_behind(
    name: str, change: Callable[[Any], Callable[[], None]]
) -> None:
    model = model_of(name)
    undo = change(model)
    HFScorer(model).start(torch.tensor([[5, 6]]))

    undo()

    assert is_lean(model)  # which compares all logits with the model's own


def test_a_model_is_asked_again_when_its_output_layer_has_other_numbers() -> None:
    model = model_of("bart")
    head, own = Head(model), type(model).forward

    def bent(self: Any, *args: Any, **options: Any) -> Any:
        output = own(self, *args, **options)
        output.logits = 9.0 * (output.logits / 9.0).tanh()
        return output

    type(model).forward = bent
    try:
        with torch.no_grad():
            model.lm_head.weight.data *= 1e-3
        head.renew()  # with so small numbers there is nothing to be seen
        model.lm_head.weight.data *= 1e5
        with pytest.raises(ScorerError, match="makes its logits in a way of its own"):
            head.renew()
    finally:
        type(model).forward = own


def test_whoever_searches_meanwhile_keeps_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("t5")
    model.lm_head = Louder(model.lm_head)
    head, said, seen = Head(model), Head._said, set()

    def watched(self: Head, scaled: Tensor) -> Tensor:
        seen.add(self._scale)
        return said(self, scaled)

    monkeypatch.setattr(Head, "_said", watched)
    head.renew()

    assert [*seen] == pytest.approx([32**-0.5])


def test_capped_logits_are_refused_however_small_they_are() -> None:
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = AutoConfig.for_model("nanochat", vocab_size=40, num_key_value_heads=1, **shape)
    model = AutoModelForCausalLM.from_config(config).eval()
    assert config.final_logit_softcapping

    with pytest.raises(
        ScorerError, match=r"^NanoChatForCausalLM makes its logits in a way of its own, which"
    ):
        HFScorer(model)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_weights_are_told_by_the_first_search_as_by_others(name: str) -> None:
    model = strong_model(name, 1)
    model.lm_head.weight = nn.Parameter(torch.full_like(model.lm_head.weight, torch.nan))

    for _ in range(2):
        with pytest.raises(ScorerError, match="were NaN or infinite at step 1"):
            model.generate(
                **inputs(model), num_beams=3, max_new_tokens=4, custom_generate=BidiGenerate(None, "vbs")
            )


@pytest.mark.filterwarnings("ignore:TF32")
def test_a_model_that_computes_in_half_precision_for_a_while_is_searched() -> None:
    for seed in range(6):
        model = model_of("t5", seed)
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.backends.mkldnn.flags(enabled=False):
            assert HFScorer(model).model is model  # and not refused


def test_a_config_that_asks_for_tuples_is_no_hindrance() -> None:
    model = strong_model("t5", 1)
    how: dict[str, Any] = {"num_beams": 3, "max_new_tokens": 4, "custom_generate": BidiGenerate(None, "vbs")}
    expected = strong_model("t5", 1).generate(**inputs(model), **how)

    model.config.return_dict = False

    assert torch.equal(model.generate(**inputs(model), **how), expected)
