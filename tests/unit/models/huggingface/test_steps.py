"""Lean steps say what the model itself says, and stand back where a model is not as they know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.states import HFState, Inputs
from bidibeam.models.huggingface.steps import layout
from tests.unit.models.huggingface.tiny import tiny_model

TOLERANCE = 1e-5
VOCABULARY = 40
IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
STRONG = {"init_std": 0.3, "decoder_layers": 2}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "bart": ("bart", STRONG),
    "bart that scales and uses relu": (
        "bart",
        {**STRONG, "scale_embedding": True, "activation_function": "relu"},
    ),
    "marian": ("marian", {**STRONG, "scale_embedding": True, "activation_function": "silu"}),
    "mbart": ("mbart", STRONG),
    "pegasus": ("pegasus", STRONG),
    "blenderbot": ("blenderbot", STRONG),
    "blenderbot-small": ("blenderbot-small", STRONG),
    "t5": ("t5", {"num_decoder_layers": 2}),
    "t5 with gates": ("t5", {"feed_forward_proj": "gated-gelu", "num_heads": 2}),
    "gpt2": ("gpt2", {"initializer_range": 0.3}),
    "gpt2 that scales by layer": (
        "gpt2",
        {"initializer_range": 0.3, "scale_attn_by_inverse_layer_idx": True},
    ),
    "llama": ("llama", {"initializer_range": 0.3, "num_attention_heads": 4, "num_key_value_heads": 2}),
    "llama with biases": (
        "llama",
        {"initializer_range": 0.3, "attention_bias": True, "mlp_bias": True, "head_dim": 8},
    ),
    "qwen2": ("qwen2", {"initializer_range": 0.3}),
    "mistral": ("mistral", {"initializer_range": 0.3}),
}


def model_of(name: str, seed: int = 0) -> Any:
    kind, changes = KINDS[name]
    model = tiny_model(kind, seed=seed, vocab_size=VOCABULARY, **IDS, **changes)
    torch.manual_seed(seed)
    with torch.no_grad():  # fresh biases are 0 and fresh norms 1, which would hide that they are left out
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def inputs_of(model: Any, chance: Random) -> Inputs:
    """Sources of different lengths, and for an encoder-decoder three tokens to begin with."""
    lengths = [3, 7, 5]
    ids, mask = torch.full((3, 7), 1), torch.zeros(3, 7, dtype=torch.long)
    is_encoded = model.config.is_encoder_decoder
    for row, length in enumerate(lengths):
        there = slice(0, length) if is_encoded else slice(7 - length, 7)
        ids[row, there] = torch.tensor([chance.randrange(3, VOCABULARY) for _ in range(length)])
        mask[row, there] = 1
    begin = torch.tensor([[2, chance.randrange(3, VOCABULARY), 5]] * 3) if is_encoded else None
    return Inputs(ids, mask, begin)


@torch.no_grad()
def said(model: Any, inputs: Inputs, source: int, written: list[int]) -> Tensor:
    """The model's own log-probabilities after what one row wrote: (vocabulary,)."""
    ids = inputs.ids[source][inputs.mask[source].bool()][None]
    if inputs.begin is None:
        logits = model(input_ids=torch.cat((ids, torch.tensor([written], dtype=torch.long)), dim=1)).logits
    else:
        read = torch.cat((inputs.begin[source], torch.tensor(written, dtype=torch.long)))[None]
        logits = model(input_ids=ids, decoder_input_ids=read).logits
    found: Tensor = logits[0, -1].float().log_softmax(-1)
    return found


def walk(model: Any, inputs: Inputs, chance: Random, *, length: int = 4, beams: int = 3) -> Iterator[HFState]:
    """Search at random, compare every row of every step with the model itself; the states after each."""
    scorer = HFScorer(model)
    state = scorer.start_with(inputs)
    _, state = scorer.step(torch.zeros(3, dtype=torch.long), state)
    state = scorer.select(state, torch.arange(3)[:, None].expand(-1, beams))
    written: list[list[int]] = [[] for _ in range(3 * beams)]
    for _ in range(length):
        tokens = [chance.randrange(3, VOCABULARY) for _ in written]
        written = [[*before, token] for before, token in zip(written, tokens, strict=True)]
        logits, state = scorer.step(torch.tensor(tokens), state)
        expected = torch.stack([said(model, inputs, row // beams, one) for row, one in enumerate(written)])
        torch.testing.assert_close(logits.log_softmax(-1), expected, atol=TOLERANCE, rtol=TOLERANCE)
        yield state
        rows = [[source * beams + chance.randrange(beams) for _ in range(beams)] for source in range(3)]
        state = scorer.select(state, torch.tensor(rows))
        written = [written[row] for line in rows for row in line]


def is_lean(model: Any) -> bool:
    """Whether a search takes lean steps, all of which are as the model itself."""
    chance = Random(1)
    states = list(walk(model, inputs_of(model, chance), chance))
    return all(state.way is not None and state.way.decode is not None for state in states)


WAYS = {
    "own matrices": (layout.Ways(0, is_copied=False), 1, 0),
    "in place": (layout.AVX2, 1, 0),
    "copies": (layout.AVX512, 2, 99_999),
    "tiles": (layout.AVX512, 1, 99_999),
}
"""How one thread reads matrices, how many threads there are, and the room there is for copies."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KINDS)
def test_lean_steps_are_those_of_the_model(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ways, threads, room = WAYS[way]
    monkeypatch.setattr(layout, "WAYS", ways)
    monkeypatch.setattr(layout, "LEAST_ROWS", 0)
    monkeypatch.setattr(layout, "COPIED_LOGITS", room)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(layout, "are_fast", lambda: True)  # tiles say the same on every processor
    monkeypatch.setattr(layout, "PANEL", 32 * 16)
    monkeypatch.setattr(layout, "LEAST_COLUMNS", 16)  # so that the vocabulary of 40 has three panels
    for seed in range(3):
        model, chance = model_of(name, seed), Random(seed)
        for state in walk(model, inputs_of(model, chance), chance):
            assert state.way is not None
            assert state.way.decode is not None


def test_positions_far_apart_have_their_bias() -> None:
    model, chance = model_of("t5"), Random(0)

    states = list(walk(model, inputs_of(model, chance), chance, length=70, beams=1))

    assert states[-1].places.shape[1] > 64


def test_steps_after_sources_left_are_those_of_the_model() -> None:
    model, inputs = model_of("bart"), inputs_of(model_of("bart"), Random(0))
    scorer = HFScorer(model)
    state = scorer.start_with(inputs)
    _, state = scorer.step(torch.zeros(3, dtype=torch.long), state)
    _, state = scorer.step(torch.tensor([7, 8, 9]), state)

    left = scorer.select(state, torch.tensor([[0, 0], [2, 2]]), [0, 2])
    logits, _ = scorer.step(torch.tensor([5, 6, 7, 8]), left)

    rows = [(0, [7, 5]), (0, [7, 6]), (2, [9, 7]), (2, [9, 8])]
    expected = torch.stack([said(model, inputs, source, written) for source, written in rows])
    torch.testing.assert_close(logits.log_softmax(-1), expected, atol=TOLERANCE, rtol=TOLERANCE)


ENCODED = [name for name in KINDS if KINDS[name][0] not in ("gpt2", "llama", "qwen2", "mistral")]


@pytest.mark.parametrize("name", ENCODED)
def test_a_lean_start_is_that_of_the_model(name: str) -> None:
    model, inputs = model_of(name), inputs_of(model_of(name), Random(0))
    begun = Inputs(inputs.ids, inputs.mask, torch.full((3, 1), 2))
    assert is_lean(model)  # from now on it is known to be
    scorer, rows = HFScorer(model), torch.arange(3)[:, None]

    state = scorer.start_with(begun, 1)
    assert state.way is not None
    first, state = scorer.step(torch.zeros(3, dtype=torch.long), state)
    first = first.clone()
    second, _ = scorer.step(torch.tensor([7, 8, 9]), scorer.select(state, rows))

    for logits, written in ((first, [[], [], []]), (second, [[7], [8], [9]])):
        expected = torch.stack([said(model, begun, row, one) for row, one in enumerate(written)])
        torch.testing.assert_close(logits.log_softmax(-1), expected, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("change", ["a hook", "a linear layer with an adapter"])
def test_a_changed_model_is_called_itself_from_the_start(change: str) -> None:
    model, inputs = model_of("bart"), inputs_of(model_of("bart"), Random(0))
    begun = Inputs(inputs.ids, inputs.mask, torch.full((3, 1), 2))
    assert is_lean(model)

    CHANGES[change](model)
    scorer = HFScorer(model)
    logits, _ = scorer.step(torch.zeros(3, dtype=torch.long), scorer.start_with(begun, 1))

    expected = torch.stack([said(model, begun, row, []) for row in range(3)])
    torch.testing.assert_close(logits.log_softmax(-1), expected, atol=TOLERANCE, rtol=TOLERANCE)


class Adapted(nn.Module):
    """A linear layer with an addition of low rank."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner
        self.weight, self.bias = inner.weight, inner.bias
        self.down = nn.Linear(inner.in_features, 2, bias=False)
        self.up = nn.Linear(2, inner.out_features, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        added: Tensor = self.inner(rows) + self.up(self.down(rows))
        return added


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2.0 * weight


class OwnLinear(nn.Linear):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) + 1.0


def first(model: Any) -> Any:
    """The first layer of BART's decoder."""
    return model.get_decoder().layers[0]


def adapt(model: Any) -> None:
    first(model).self_attn.q_proj = Adapted(first(model).self_attn.q_proj).eval()


def subclass(model: Any) -> None:
    fresh = OwnLinear(32, 64).eval()
    fresh.load_state_dict(first(model).fc1.state_dict())
    first(model).fc1 = fresh


def replace_forward(model: Any) -> None:
    layer = first(model).fc2
    layer.forward = lambda rows: 2.0 * nn.functional.linear(rows, layer.weight, layer.bias)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a hook": lambda model: first(model).fc1.register_forward_hook(lambda _, __, out: out + 1.0),
    "a hook before": lambda model: first(model).fc1.register_forward_pre_hook(lambda _, rows: (rows[0] * 2,)),
    "a linear layer with an adapter": adapt,
    "a linear layer of another class": subclass,
    "a linear layer with another forward": replace_forward,
    "a parametrised linear layer": lambda model: parametrize.register_parametrization(
        first(model).fc1, "weight", Doubled()
    ),
    "an activation of its own": lambda model: setattr(first(model), "activation_fn", nn.Softplus().eval()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_called_itself(change: str) -> None:
    model = model_of("bart")
    assert is_lean(model)

    CHANGES[change](model)

    assert not is_lean(model)


def test_a_decoder_with_dropout_at_work_is_called_itself() -> None:
    model = model_of("bart")
    first(model).train()
    scorer = HFScorer(model)
    _, state = scorer.step(torch.zeros(1, dtype=torch.long), scorer.start(torch.tensor([[5, 6]])))

    _, state = scorer.step(torch.tensor([7]), state)

    assert state.way is not None
    assert state.way.decode is None


def test_a_class_that_is_not_transformers_own_is_called_itself() -> None:
    model = model_of("bart")
    model.__class__ = type("BartForConditionalGeneration", (type(model),), {})

    assert not is_lean(model)


def test_a_scale_that_a_model_never_applies_is_not_applied() -> None:
    changes: dict[str, Any] = {
        **STRONG,
        "init_std": 0.02,
        "scale_embedding": True,
    }  # a norm follows: it hides large ones
    model = tiny_model("blenderbot-small", vocab_size=VOCABULARY, **IDS, **changes)

    assert is_lean(model)


def test_a_lean_step_that_says_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from bidibeam.models.huggingface.steps import bart

    monkeypatch.setattr(bart, "bart", bart.marian)  # which leaves a norm out

    assert not is_lean(model_of("bart"))


def double(weight: nn.Parameter) -> None:
    with torch.no_grad():
        weight.mul_(2.0)


def swap_rows(weight: nn.Parameter) -> None:
    weight.data[[3, 4]] = weight.data[[4, 3]]


WEIGHTS = {
    "self_attn.k_proj": lambda model: first(model).self_attn.k_proj,
    "encoder_attn.out_proj": lambda model: first(model).encoder_attn.out_proj,
    "fc2": lambda model: first(model).fc2,
    "shared": lambda model: model.get_output_embeddings(),
}


@pytest.mark.parametrize("change", [double, swap_rows])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_change_in_place_are_seen(name: str, change: Callable[[nn.Parameter], None]) -> None:
    model = model_of("bart")
    assert is_lean(model)

    change(WEIGHTS[name](model).weight)

    assert is_lean(model)


def test_loaded_and_replaced_weights_are_seen() -> None:
    model, other = model_of("bart", seed=0), model_of("bart", seed=1)
    assert is_lean(model)

    model.load_state_dict(other.state_dict())
    assert is_lean(model)

    first(model).fc1.weight = nn.Parameter(torch.randn(64, 32))
    assert is_lean(model)


def test_a_scorer_sees_weights_that_change_between_searches() -> None:
    model = model_of("bart")
    scorer, source = HFScorer(model), torch.tensor([[5, 6, 7]])

    def after() -> Tensor:
        _, state = scorer.step(torch.zeros(1, dtype=torch.long), scorer.start(source))
        logits, _ = scorer.step(torch.tensor([7]), state)
        return logits.clone()

    before = after()
    model.final_logits_bias[0, 3] = 5.0
    model.lm_head.weight = model.model.shared.weight = nn.Parameter(2.0 * model.lm_head.weight)

    assert not torch.allclose(before, after(), atol=0.1)
    expected = said(model, scorer.inputs(source), 0, [7])
    torch.testing.assert_close(after()[0].log_softmax(-1), expected, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("name", ["bart", "t5", "gpt2", "llama"])
def test_keys_that_are_fetched_say_the_same(name: str) -> None:
    model = model_of(name).double()  # the kernel that reads them in place is for float32 alone

    assert is_lean(model)


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", KINDS)
def test_a_gpu_says_the_same(name: str, dtype: torch.dtype) -> None:
    model, chance = model_of(name), Random(0)
    inputs = inputs_of(model, chance)
    expected = torch.stack([said(model, inputs, row, [token]) for row, token in enumerate((7, 8, 9))])
    model = model.to("cuda", dtype)
    begin = None if inputs.begin is None else inputs.begin.cuda()
    there = Inputs(inputs.ids.cuda(), inputs.mask.cuda(), begin)
    scorer = HFScorer(model)
    _, state = scorer.step(torch.zeros(3, dtype=torch.long, device="cuda"), scorer.start_with(there))

    logits, state = scorer.step(torch.tensor([7, 8, 9], device="cuda"), state)

    assert state.way is not None
    is_cut = name.startswith("t5") and dtype == torch.float16
    assert (state.way.decode is None) == is_cut
    close = 1e-3 if dtype == torch.float32 else 0.5
    torch.testing.assert_close(logits.log_softmax(-1).cpu(), expected, atol=close, rtol=0.1)
