"""A scorer's steps and teacher-forced scores are the model's own, whatever was done to the model."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import AutoConfig, AutoModelForCausalLM

from bidibeam.errors import ScorerError
from bidibeam.hf import HFScorer
from bidibeam.models.huggingface.by_generate import score_by_forward
from bidibeam.models.huggingface.scorer import Inputs
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.models.huggingface.tiny import FAMILIES, SHAPES, VOCABULARY, model_of, tiny_model

TOLERANCE = 1e-4


def inputs_of(model: Any, chance: Random) -> Inputs:
    """Sources of different lengths, and for an encoder-decoder three tokens to begin with."""
    ids, mask = torch.full((3, 7), 1), torch.zeros(3, 7, dtype=torch.long)
    is_encoded = model.config.is_encoder_decoder
    for row, length in enumerate((3, 7, 5)):
        place = slice(0, length) if is_encoded else slice(7 - length, 7)
        ids[row, place] = torch.tensor([chance.randrange(3, VOCABULARY) for _ in range(length)])
        mask[row, place] = 1
    begin = torch.tensor([[2, chance.randrange(3, VOCABULARY), 5]] * 3) if is_encoded else None
    return Inputs(ids, mask, begin)


@torch.no_grad()
def own_log_probs(model: Any, given: Inputs, source: int, written: list[int]) -> Tensor:
    """The model's own log-probabilities before each token and after the last: (tokens + 1, vocabulary)."""
    ids = given.ids[source][given.mask[source].bool()][None]
    if given.begin is None:
        logits = model(input_ids=torch.cat((ids, torch.tensor([written], dtype=torch.long)), dim=1)).logits
    else:
        read = torch.cat((given.begin[source], torch.tensor(written, dtype=torch.long)))[None]
        logits = model(input_ids=ids, decoder_input_ids=read).logits
    found: Tensor = logits[0, -len(written) - 1 :].float().log_softmax(-1)
    return found


def check_steps(model: Any, *, length: int = 4, beams: int = 3) -> None:
    """Search at random, and compare every row of every step with the model itself."""
    chance = Random(1)
    given, scorer = inputs_of(model, chance), HFScorer(model)
    logits, state = scorer.step(torch.zeros(3, dtype=torch.long), scorer.start(given))
    written: list[list[int]] = [[], [], []]
    rows, sources = torch.arange(3)[:, None].expand(-1, beams).tolist(), [0, 1, 2]
    for step in range(length):
        each = len(written) // len(sources)
        expected = [
            own_log_probs(model, given, sources[row // each], one)[-1] for row, one in enumerate(written)
        ]
        found = logits.log_softmax(-1)
        torch.testing.assert_close(found, torch.stack(expected), atol=TOLERANCE, rtol=TOLERANCE)
        left = [0, 2] if step == 2 else None  # a source is done
        if left is not None:
            rows, sources = [rows[source] for source in left], left
        state = scorer.select(state, torch.tensor(rows), None if left is None else torch.tensor(left))
        written = [[*written[row], chance.randrange(3, VOCABULARY)] for line in rows for row in line]
        logits, state = scorer.step(torch.tensor([ids[-1] for ids in written]), state)
        rows = [
            [first * beams + chance.randrange(beams) for _ in range(beams)] for first in range(len(sources))
        ]


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_steps_are_those_of_the_model(kind: str, implementation: str) -> None:
    model = model_of(kind, seed=1)
    model.set_attn_implementation(implementation)

    check_steps(model)

    assert model.get_decoder().config._attn_implementation == implementation


def test_positions_far_apart_have_their_bias() -> None:
    check_steps(model_of("t5", seed=1), length=40, beams=1)


@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_cross_attention_is_held_once_per_source(kind: str) -> None:
    scorer = HFScorer(model_of(kind, seed=1))
    _, state = scorer.step(torch.zeros(2, dtype=torch.long), scorer.start(torch.tensor([[5, 6], [7, 8]])))

    state = scorer.select(state, torch.tensor([[0] * 5, [1] * 5]))
    _, state = scorer.step(torch.full((10,), 9), state)

    assert len(state.cache.cross_attention_cache.layers[0].keys) == 2
    assert len(state.cache.self_attention_cache.layers[0].keys) == 10


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("kind", FAMILIES)
def test_sequences_have_the_log_probabilities_that_the_model_itself_gives(
    kind: str, *, is_cached: bool
) -> None:
    model, chance = model_of(kind, seed=1), Random(0)
    given = inputs_of(model, chance)
    if given.begin is not None:
        hidden = model.get_encoder()(input_ids=given.ids, attention_mask=given.mask)[0]
        given = Inputs(given.ids, given.mask, given.begin, hidden)
    sequences = [
        [[chance.randrange(2, VOCABULARY) for _ in range(length)] for length in lengths]
        for lengths in ((1, 5, 0, 2), (), (9, 3))
    ]

    if is_cached:
        found = HFScorer(model).log_probs(given, sequences)
    else:
        found = score_by_forward(model, given, sequences)

    for source, line in enumerate(sequences):
        expected = [
            float(own_log_probs(model, given, source, ids)[torch.arange(len(ids)), ids].sum()) for ids in line
        ]
        assert found[source] == pytest.approx(expected, abs=TOLERANCE)


class Adapted(nn.Module):
    """A layer with an addition of low rank, and no weight to show."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner, self.down = inner, nn.Linear(inner.in_features, 2, bias=False)
        self.up = nn.Linear(2, inner.out_features, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        added: Tensor = self.inner(rows) + self.up(self.down(rows).relu())
        return added


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2.0 * weight


def double_logits(_: nn.Module, __: Any, output: Any) -> Any:
    output.logits = 2.0 * output.logits
    return output


def first(model: Any) -> Any:
    """The first layer of BART's decoder."""
    return model.get_decoder().layers[0]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a hook": lambda model: first(model).fc1.register_forward_hook(lambda _, __, out: out + 1.0),
    "a hook on the model": lambda model: model.register_forward_hook(double_logits),
    "an adapter": lambda model: setattr(first(model), "fc1", Adapted(first(model).fc1).eval()),
    "a parametrised layer": lambda model: parametrize.register_parametrization(
        first(model).fc1, "weight", Doubled()
    ),
    "another scale": lambda model: setattr(model.get_decoder().embed_tokens, "embed_scale", 3.0),
    "other weights": lambda model: model.load_state_dict(model_of("bart", seed=2).state_dict()),
    "a replaced weight": lambda model: setattr(
        first(model).fc1, "weight", nn.Parameter(torch.randn(64, 32) * 0.3)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_asked_as_it_is_now(change: str) -> None:
    model = model_of("bart", seed=1)
    check_steps(model)

    CHANGES[change](model)

    check_steps(model)


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_threads_may_share_a_model(kind: str) -> None:
    model, ids = model_of(kind, seed=1), torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
    how = SearchSettings(beam_size=4, max_length=8, min_length=0, stopping="constant")

    def search() -> Any:
        lists = beam_search(HFScorer(model), ids, how, VocabularyRoles(0, 2))
        return [[one.tokens for one in line] for line in lists]

    def generate() -> Any:
        mask = torch.ones_like(ids)
        return model.generate(input_ids=ids, attention_mask=mask, num_beams=3, max_new_tokens=8).tolist()

    expected = [search(), search(), generate()]
    with ThreadPoolExecutor(3) as pool:
        for _ in range(4):
            assert [task.result() for task in map(pool.submit, (search, search, generate))] == expected

    assert model.config._attn_implementation == "sdpa"


ROPE: dict[str, Any] = {"rope_theta": 10_000.0, "factor": 2.0, "original_max_position_embeddings": 32}
DYNAMIC_ROPE = {**ROPE, "rope_type": "dynamic"}
LONG_ROPE = {**ROPE, "rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.0] * 8}


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("bloom", {"n_head": 2, "hidden_size": 32, "num_hidden_layers": 2}, "its model type is not among"),
        ("llama", {**SHAPES["llama"], "rope_parameters": DYNAMIC_ROPE}, "type dynamic"),
        ("llama", {**SHAPES["llama"], "rope_parameters": LONG_ROPE}, "type longrope"),
    ],
)
def test_models_that_are_not_listed_are_refused_in_a_sentence(
    kind: str, changes: dict[str, Any], reason: str
) -> None:
    config = AutoConfig.for_model(kind, vocab_size=VOCABULARY, **changes)
    model = AutoModelForCausalLM.from_config(config).eval()

    message = rf"is a {kind} model, which cannot be searched here \(.*{reason}.*\); write"
    with pytest.raises(ScorerError, match=message):
        HFScorer(model)


ROOM = 8
ROOMS = {"bart": "max_position_embeddings", "marian": "max_position_embeddings", "gpt2": "n_positions"}


def small(kind: str) -> Any:
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    begin = {} if kind == "gpt2" else {"decoder_start_token_id": 2}
    return tiny_model(kind, **{**ids, **begin, ROOMS[kind]: ROOM})


def last_logits(scorer: HFScorer, source: Tensor, steps: int) -> Tensor:
    """The logits of the last of so many steps: (sources, vocabulary)."""
    state = scorer.start(source)
    for _ in range(steps):
        logits, state = scorer.step(torch.full((len(source),), 7), state)
    return logits


@pytest.mark.parametrize("kind", ROOMS)
def test_too_few_positions_are_told_at_the_step_that_lacks_one(kind: str) -> None:
    model = small(kind)
    scorer, source = HFScorer(model), torch.tensor([[5, 6, 7]])
    begun = 1 if model.config.is_encoder_decoder else 3
    steps = ROOM - begun + 1  # the first reads nothing
    message = rf"^{type(model).__name__} has 8 positions, too few for .* 9 tokens"

    last_logits(scorer, source, steps)
    with pytest.raises(ScorerError, match=message):
        last_logits(scorer, source, steps + 1)
    scorer.log_probs(source, [[[5] * steps]])
    with pytest.raises(ScorerError, match=message):
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
            scorer.start(Inputs(long[:, 1:], torch.ones_like(long[:, 1:]), long))


def test_padding_takes_no_position_of_a_decoder() -> None:
    scorer, ids = HFScorer(small("gpt2")), torch.tensor([[1] * ROOM + [5, 6]])

    padded, alone = (last_logits(scorer, source, ROOM - 1) for source in (ids, ids[:, ROOM:]))

    assert torch.allclose(padded, alone, atol=1e-5)


def test_a_decoder_without_a_start_token_needs_one() -> None:
    model = tiny_model("bart", decoder_start_token_id=None)
    model.generation_config.decoder_start_token_id = None

    with pytest.raises(ScorerError, match=r"has no decoder_start_token_id; name what it reads first"):
        HFScorer(model).start(torch.tensor([[5, 6]]))
    assert HFScorer(model, begin=[2]).start(torch.tensor([[5, 6]])).sources == 1
