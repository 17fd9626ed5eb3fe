"""How far models reach: positions, windows, and kinds of models that cannot be searched."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from transformers import FalconConfig, FalconForCausalLM, MambaConfig, MambaForCausalLM, PreTrainedModel

from bidibeam.errors import ScorerError
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.states import HFState, Inputs
from tests.unit.models.huggingface.test_steps import IDS, KINDS, VOCABULARY, inputs_of, is_lean, walk
from tests.unit.models.huggingface.tiny import tiny_model

SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2}


def windowed(window: int | None, *, is_hooked: bool) -> Any:
    """Mistral with a window."""
    changes = {**KINDS["mistral"][1], "sliding_window": window}
    model = tiny_model("mistral", vocab_size=VOCABULARY, **IDS, **changes)
    if is_hooked:
        model.model.layers[0].mlp.register_forward_hook(lambda *_: None)
    return model


@pytest.mark.parametrize("is_hooked", [False, True], ids=["lean", "by its modules"])
@pytest.mark.parametrize("window", [4096, 11])
def test_a_window_as_wide_as_prompt_and_reply_changes_nothing(window: int, *, is_hooked: bool) -> None:
    model = windowed(window, is_hooked=is_hooked)

    assert is_lean(model) is not is_hooked  # prompts of 7 tokens, replies of 4; all compared with the model


@pytest.mark.parametrize("is_hooked", [False, True], ids=["lean", "by its modules"])
def test_a_window_that_is_too_narrow_is_refused_when_it_matters(*, is_hooked: bool) -> None:
    model, chance = windowed(10, is_hooked=is_hooked), Random(0)
    states = walk(model, inputs_of(model, chance), chance)
    for _ in range(3):
        next(states)

    message = (
        r"^Mistral\w+ attends with sliding_window 10, which is not supported yet for more tokens than th"
    )
    with pytest.raises(ScorerError, match=message):
        next(states)
    scorer, source = HFScorer(model), torch.tensor([[5, 6, 7, 8, 9, 10, 11]])
    assert scorer.log_probs(source, [[[5] * 4]])
    with pytest.raises(ScorerError, match=message):
        scorer.log_probs(source, [[[5] * 5]])


def test_padding_takes_no_place_in_a_window() -> None:
    model, ids = windowed(6, is_hooked=False), torch.tensor([[1, 1, 1, 1, 5, 6, 7]])
    scorer, alone = HFScorer(model), torch.tensor([[5, 6, 7]])

    padded = scorer.log_probs(ids, [[[8, 9, 10, 11]]])[0]

    assert padded == pytest.approx(scorer.log_probs(alone, [[[8, 9, 10, 11]]])[0], abs=1e-4)


def searchable(model: PreTrainedModel) -> None:
    scorer = HFScorer(model, pad=1)
    state = scorer.start(torch.tensor([[5, 6, 7]]))
    _, state = scorer.step(torch.tensor([0]), state)
    scorer.step(torch.tensor([8]), state)


@pytest.mark.parametrize("model", [FalconForCausalLM, MambaForCausalLM])
def test_models_of_other_makes_are_refused_in_a_sentence(model: type[PreTrainedModel]) -> None:
    kind = model.__name__.removesuffix("ForCausalLM")
    made: Any = {
        "Falcon": lambda: FalconForCausalLM(FalconConfig(**SIZES, num_attention_heads=2)),
        "Mamba": lambda: MambaForCausalLM(MambaConfig(**SIZES, state_size=4)),
    }[kind]()

    message = (
        rf"^{kind}ForCausalLM is a {kind.lower()} model, which cannot be searched here \(.*\); write n-b"
    )
    with pytest.raises(ScorerError, match=message):
        searchable(made.eval())


ROOM = 8
ROOMS = {"bart": "max_position_embeddings", "marian": "max_position_embeddings", "gpt2": "n_positions"}


def small(kind: str) -> Any:
    return tiny_model(kind, vocab_size=VOCABULARY, **{**IDS, ROOMS[kind]: ROOM})


def stepped(scorer: HFScorer, state: HFState, steps: int) -> torch.Tensor:
    """The logits of the last of so many steps: (sources, vocabulary)."""
    for _ in range(steps):
        logits, state = scorer.step(torch.full((state.sources,), 7), state)
    return logits.clone()


@pytest.mark.parametrize("is_hooked", [False, True], ids=["lean", "by its modules"])
@pytest.mark.parametrize("kind", ROOMS)
def test_too_few_positions_are_told_at_the_step_that_lacks_one(kind: str, *, is_hooked: bool) -> None:
    model = small(kind)
    if is_hooked:
        model.get_decoder().register_forward_hook(lambda *_: None)
    scorer, source = HFScorer(model), torch.tensor([[5, 6, 7]])
    begun = 1 if model.config.is_encoder_decoder else 3
    steps = ROOM - begun + 1  # the first reads nothing

    stepped(scorer, scorer.start(source), steps)
    with pytest.raises(
        ScorerError, match=rf"^{type(model).__name__} has 8 positions, too few for .* 9 tokens"
    ):
        stepped(scorer, scorer.start(source), steps + 1)

    scorer.log_probs(source, [[[5] * steps]])
    with pytest.raises(ScorerError, match=r"has 8 positions, too few for .* 9 tokens"):
        scorer.log_probs(source, [[[5] * (steps + 1)]])


@pytest.mark.parametrize("kind", ROOMS)
def test_sources_and_beginnings_that_are_too_long_are_refused(kind: str) -> None:
    model = small(kind)
    scorer, long = HFScorer(model), torch.full((1, ROOM + 1), 5)

    with pytest.raises(ScorerError, match=r"has 8 positions, too few for a (source|prompt).* 9 tokens"):
        scorer.start(long)
    scorer.start(long[:, 1:])
    if model.config.is_encoder_decoder:
        with pytest.raises(ScorerError, match=r"has 8 positions, too few for what it writes, 9 tokens"):
            scorer.start_with(Inputs(long[:, 1:], torch.ones_like(long[:, 1:]), long))


def test_padding_takes_no_position_of_a_decoder() -> None:
    scorer, ids = HFScorer(small("gpt2")), torch.tensor([[1] * ROOM + [5, 6]])

    padded, alone = (stepped(scorer, scorer.start(source), ROOM - 1) for source in (ids, ids[:, ROOM:]))

    assert torch.allclose(padded, alone, atol=1e-5)
