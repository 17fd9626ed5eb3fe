"""Output layers and models that are changed between searches are seen, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from bidibeam.errors import ScorerError
from bidibeam.hf import heads
from bidibeam.models.huggingface.heads import Head
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.steps.layout import Layout
from tests.unit.models.huggingface.test_steps import TOLERANCE, Adapted, inputs_of, is_lean, model_of, said

NAMES = ("bart", "t5", "gpt2", "llama")
RISING = torch.arange(40) * 0.05


def adapt(model: Any) -> None:
    torch.manual_seed(7)
    model.lm_head = Adapted(model.lm_head).eval()


def train_the_adapter(model: Any) -> None:
    """An adapter that adds nothing at first, as those of PEFT; then it does."""
    adapt(model)
    model.lm_head.up.weight.data.zero_()
    assert is_lean(model)
    model.lm_head.up.weight.data.normal_()


def replace_forward(layer: Any) -> None:
    layer.forward = lambda rows: 2.0 * nn.functional.linear(rows, layer.weight, layer.bias)


LAYERS: dict[str, Callable[[Any], Any]] = {
    "an adapter": adapt,
    "an adapter that is trained": train_the_adapter,
    "a hook": lambda model: model.lm_head.register_forward_hook(lambda _, __, out: out + RISING),
    "a hook before": lambda model: model.lm_head.register_forward_pre_hook(lambda _, rows: (rows[0] * 2,)),
    "another forward": lambda model: replace_forward(model.lm_head),
    "a bias": lambda model: setattr(model.lm_head, "bias", nn.Parameter(RISING.clone())),
}


@pytest.mark.parametrize("change", LAYERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_output_layer_is_called_itself(name: str, change: str) -> None:
    model = model_of(name)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias[0, 5:9] = 3.0
    assert is_lean(model)

    LAYERS[change](model)

    assert is_lean(model)  # which compares all logits with the model's own; its decoder is as before
    source, written = torch.tensor([[5, 6, 7]]), [7, 8, 2]
    scorer = HFScorer(model)
    inputs = scorer.inputs(source)
    expected = sum(float(said(model, inputs, 0, written[:place])[written[place]]) for place in range(3))
    assert scorer.log_probs(source, [[written]])[0][0] == pytest.approx(expected, abs=1e-4)


def test_a_scorer_sees_a_change_of_its_output_layer_between_searches() -> None:
    model, inputs = model_of("bart"), inputs_of(model_of("bart"), Random(0))
    scorer = HFScorer(model)
    scorer.start_with(inputs)

    hook = model.lm_head.register_forward_hook(lambda _, __, out: out + RISING)
    for _ in range(2):
        logits, _ = scorer.step(torch.zeros(3, dtype=torch.long), scorer.start_with(inputs))
        expected = torch.stack([said(model, inputs, row, []) for row in range(3)])
        torch.testing.assert_close(logits.log_softmax(-1), expected, atol=TOLERANCE, rtol=TOLERANCE)
        hook.remove()


def shift(_: nn.Module, __: Any, output: Any) -> Any:
    output.logits = output.logits + RISING
    return output


def turn(_: nn.Module, __: Any, output: Any) -> Any:
    output.last_hidden_state = output.last_hidden_state.flip(-1)
    return output


def bend_forward(model: Any) -> None:
    before = model.forward

    def forward(*args: Any, **options: Any) -> Any:
        output = before(*args, **options)
        output.logits = output.logits.tanh()
        return output

    model.forward = forward


MODELS: dict[str, Callable[[Any], Any]] = {
    "a hook": lambda model: model.register_forward_hook(shift),
    "a hook between": lambda model: model.base_model.register_forward_hook(turn),
    "another forward": bend_forward,
}


@pytest.mark.parametrize("change", MODELS)
def test_a_model_that_changes_its_logits_is_refused(change: str) -> None:
    model = model_of("bart")
    scorer, source = HFScorer(model), torch.tensor([[5, 6]])
    scorer.start(source)

    MODELS[change](model)

    for search in (lambda: scorer.start(source), lambda: HFScorer(model)):
        with pytest.raises(ScorerError, match=r"^BartForConditionalGeneration has a hook on it or a forward"):
            search()


def test_a_hook_that_changes_nothing_is_no_hindrance() -> None:
    model, calls = model_of("bart"), []
    assert is_lean(model)

    model.register_forward_hook(lambda *_: calls.append(1))

    assert is_lean(model)
    assert calls


@pytest.fixture
def shifted() -> Iterator[None]:
    """All linear layers everywhere say more."""
    hook = register_module_forward_hook(lambda part, _, out: out * 1.1 if type(part) is nn.Linear else None)
    yield
    hook.remove()


def test_a_hook_on_all_modules_is_seen(shifted: None) -> None:  # noqa: ARG001
    assert not is_lean(model_of("bart"))


def test_a_model_as_it_was_made_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, own = [], heads._answer

    def answer(*args: Any) -> Any:
        asked.append(args)
        return own(*args)

    monkeypatch.setattr(heads, "_answer", answer)
    model = model_of("t5")

    for _ in range(3):
        HFScorer(model).start(torch.tensor([[5, 6]]))

    assert len(asked) == 1


def test_what_a_recording_relies_on_has_the_bias_and_the_scale() -> None:
    model = model_of("bart")
    head = Head(model)
    kinds = [head.kind]
    model.final_logits_bias[0, 5] = 3.0
    head.renew()
    kinds.append(head.kind)
    model.lm_head.bias = nn.Parameter(RISING.clone())
    head.renew()
    kinds.append(head.kind)
    model.final_logits_bias[0, 6] = 2.0  # other numbers are no other kind
    head.renew()

    assert head.kind == kinds[-1]
    assert len(set(kinds)) == 3
    other = Head(model)
    other._scale = 0.5
    assert other.kind != head.kind


def test_what_is_recorded_reads_both_biases_anew() -> None:
    model = model_of("bart")
    model.lm_head.bias = nn.Parameter(RISING.clone())
    model.final_logits_bias[0, 5] = 3.0
    layout = Layout(model, 2, is_recorded=True)
    logits, hidden = Head(model).apart(layout), torch.randn(2, 32)
    before: Tensor = logits(hidden)

    with torch.no_grad():
        model.final_logits_bias[0, 6] = 2.0
        model.lm_head.bias[7] += 1.0

    added = (logits(hidden) - before)[:, [5, 6, 7]]
    torch.testing.assert_close(added, torch.tensor([[0.0, 2.0, 1.0]] * 2), atol=1e-5, rtol=0)
