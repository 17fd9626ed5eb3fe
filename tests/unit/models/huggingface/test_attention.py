"""Attention through pointers against attention that is written out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.models.huggingface.attention import ForcedReading, KeyValues, Pass, attending
from bidibeam.models.huggingface.branches import (
    FIRST_STEPS,
    UNTOUCHED,
    Branches,
    ancestors_gathered,
    ancestors_in_place,
    branch_attention,
)
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.states import HFState
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.models.huggingface.test_parity import KINDS, model_of

SIZE = 8
LONGEST = FIRST_STEPS * UNTOUCHED
"""Steps there is room for at first."""


def written(steps: int, rows: int, groups: int) -> tuple[Branches, torch.Tensor, torch.Tensor]:
    """A store with as many steps, and what is in it: both (steps, rows, groups, size)."""
    keys, values = torch.randn(2, steps, rows, groups, SIZE)
    branches = Branches()
    for step in range(steps):
        now = (part[step].unsqueeze(2) for part in (keys, values))
        branches.write(0, step, *now)
    return branches, keys, values


def slowly(
    query: torch.Tensor, keys: list[torch.Tensor], values: list[torch.Tensor], bias: torch.Tensor | None
) -> torch.Tensor:
    """One head's attention: (size,) over a list of (size,)."""
    products = torch.stack([query @ key for key in keys])
    if bias is not None:
        products = products + bias
    return products.softmax(0) @ torch.stack(values)


@settings(max_examples=60, deadline=None)
@given(
    sources=st.integers(1, 3),
    beams=st.integers(1, 4),
    steps=st.one_of(st.integers(1, 20), st.integers(2 * LONGEST - 3, 2 * LONGEST + 3)),
    groups=st.sampled_from([1, 2]),
    each=st.sampled_from([1, 3]),
    prompt=st.integers(0, 5),
    is_biased=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_rows_read_their_prompt_and_their_ancestors(
    sources: int, beams: int, steps: int, groups: int, each: int, prompt: int, is_biased: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    rows, heads = sources * beams, groups * each
    branches, keys, values = written(steps, rows, groups)
    places = torch.randint(rows, (rows, steps))
    query = torch.randn(rows, heads, 1, SIZE)
    bias = torch.randn(1, heads, 1, prompt + steps) if is_biased and not prompt else None
    shared = KeyValues(*torch.randn(2, sources, groups, prompt, SIZE)) if prompt else None
    mask = torch.rand(sources, prompt) < 0.7 if prompt else None
    if mask is not None:
        mask[:, -1] = True

    found = branch_attention(branches, 0, places, query, 0.3, bias, shared, mask)

    for row in range(rows):
        for head in range(heads):
            group, source = head // each, row // beams
            read = [
                (keys[step, places[row, step], group], values[step, places[row, step], group])
                for step in range(steps)
            ]
            if shared is not None and mask is not None:
                there = mask[source].nonzero().flatten().tolist()
                read = [
                    (shared.keys[source, group, one], shared.values[source, group, one]) for one in there
                ] + read
            own = None if bias is None else bias[0, head, 0]
            expected = slowly(
                0.3 * query[row, head, 0], [key for key, _ in read], [value for _, value in read], own
            )
            torch.testing.assert_close(found[row, head, 0], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_reading_in_place_is_reading_what_was_fetched(threads: int) -> None:
    torch.manual_seed(0)
    branches, _, _ = written(40, 120, 2)
    places, query = torch.randint(120, (120, 40)), torch.randn(120, 4, SIZE)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        in_place = ancestors_in_place(branches.stored(0), places, query, None)
    finally:
        torch.set_num_threads(before)

    fetched = ancestors_gathered(branches.stored(0), places, query, None)

    for one, other in zip(in_place, fetched, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_search_stores_is_not_moved_and_grows_with_its_steps_alone(kind: str) -> None:
    model = model_of(kind, seed=2)
    scorer = HFScorer(model)
    state = scorer.start(torch.tensor([[5, 6, 7], [8, 9, 10]]))
    _, state = scorer.step(torch.zeros(2, dtype=torch.long), state)
    state = scorer.select(state, torch.tensor([[0, 0, 0], [1, 1, 1]]))
    _, state = scorer.step(torch.tensor([5, 6, 7, 8, 9, 10]), state)
    memory = state.branches.stored(0)[0].data_ptr()
    wrote = state.branches.stored(0)[0].clone()

    chosen = scorer.select(state, torch.tensor([[2, 2, 0], [3, 4, 3]]))
    _, after = scorer.step(torch.tensor([5, 6, 7, 8, 9, 10]), chosen)

    stored = after.branches.stored(0)[0]
    steps = state.places.shape[1]
    assert stored.data_ptr() == memory
    torch.testing.assert_close(stored[:steps, :6], wrote[:steps, :6], equal_nan=True)
    assert after.places.shape == (6, steps + 1)
    shared = after.cross or after.prompt
    assert shared is not None
    assert len(shared.layers[0].keys) == 2  # once per source


class Eager(HFScorer):
    """A model that likes more and more to come to an end."""

    def step(self, last_tokens: torch.Tensor, state: HFState) -> tuple[torch.Tensor, HFState]:
        logits, state = super().step(last_tokens, state)
        growing = 0.5 * state.places.shape[1]
        return logits + growing * torch.nn.functional.one_hot(torch.tensor(2), logits.shape[1]), state


@pytest.mark.parametrize("kind", KINDS)
def test_sources_that_leave_the_batch_do_not_disturb_the_others(kind: str) -> None:
    model = model_of(kind, seed=3)
    sources = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
    longest = max(map(len, sources))
    is_right = model.config.is_encoder_decoder
    padded = [
        [*ids, *[1] * (longest - len(ids))] if is_right else [*[1] * (longest - len(ids)), *ids]
        for ids in sources
    ]
    how = SearchSettings(beam_size=4, max_length=30, min_length=0, stopping="constant")
    roles = VocabularyRoles(0, 2)

    together = beam_search(Eager(model), torch.tensor(padded), how, roles)

    assert len({max(len(one.tokens) for one in line) for line in together}) > 1  # they end at different times
    for ids, line in zip(sources, together, strict=True):
        alone = beam_search(Eager(model), torch.tensor([ids]), how, roles)[0]
        assert [one.tokens for one in line] == [one.tokens for one in alone]
        assert [one.score for one in line] == pytest.approx([one.score for one in alone], abs=1e-4)


@pytest.mark.parametrize("copied", [deepcopy, copy, lambda config: pickle.loads(pickle.dumps(config))])
def test_a_config_may_be_copied_while_its_model_attends(copied: Callable[[Any], Any]) -> None:
    config = model_of("bart", seed=0).config
    with attending([config], Pass(ForcedReading(None))):
        found = copied(config)

    assert type(found) is type(config)
    assert found is not config
    assert found.to_dict() == config.to_dict()
    assert found._attn_implementation == config._attn_implementation
