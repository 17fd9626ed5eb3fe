"""A decoder's step in a GPU's own kernels is what torch's kernels make of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from bidibeam.hypotheses import Direction
from bidibeam.models.gru import recurrence
from bidibeam.models.gru.decoder import Decoders
from bidibeam.models.gru.joined import Joined, kernels_of
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.gru.pairs import JoinedScorer, PairScorer, side_by_side
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
TOLERANCE = 1e-5
SIZES = {
    "embedding_size": 12,
    "encoder_size": 20,
    "decoder_size": 24,
    "attention_size": 40,
    "readout_size": 28,
}


def slow_weights(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor, first_sources: int) -> Tensor:
    """What the kernel does, a decoder at a time."""
    by_beam = query.reshape(len(keys), -1, query.shape[1])
    parts = ((v[0], slice(0, first_sources)), (v[-1], slice(first_sources, None)))
    found = [
        recurrence.attend(by_beam[None, here], keys[None, here], own[None, :, None], mask[here])[0][0]
        for own, here in parts
        if len(keys[here])
    ]
    return torch.cat(found)


def slow_update(gates: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
    _, update, candidate, _ = recurrence.gru_gates(gates, from_state)
    return candidate + update * (state - candidate)


SLOW = SimpleNamespace(MOST_POSITIONS=128, attention_weights=slow_weights, updated=slow_update)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("positions", [1, 5, 16, 17, 50, 128, 129])
@pytest.mark.parametrize("counts", [(3,), (9,), (3, 2), (0, 4), (4, 0)])
def test_a_step_says_what_each_decoder_says(counts: tuple[int, ...], positions: int, device: str) -> None:
    torch.manual_seed(positions)
    decoders = [
        Decoders(ModelSettings(**SIZES, directions=("regular",))).to(device).eval()  # type: ignore[arg-type]
        for _ in counts
    ]
    for decoder in decoders:
        for parameter in decoder.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    sources, beams = sum(counts), 7
    words = torch.randn(1, sources, beams, 12, device=device)
    state = torch.randn(1, sources, beams, 24, device=device)
    memory = torch.randn(1, sources, positions, 40, device=device)
    keys = torch.randn(1, sources, positions, 40, device=device)
    mask = torch.zeros(sources, 1, positions, device=device)
    mask[0, 0, positions // 2 + 1 :] = -torch.inf
    kernels = SLOW if device == "cpu" else kernels_of(words.device)
    assert kernels is not None

    found = Joined(decoders, kernels).step(  # type: ignore[arg-type]
        counts, words.flatten(0, 2), state.flatten(0, 2), keys[0], memory[0], mask
    )

    edges = [0, counts[0], sources]
    for decoder, first, last in zip(decoders, edges, edges[1:], strict=False):
        if first == last:
            continue
        here, rows = slice(first, last), slice(first * beams, last * beams)
        with torch.no_grad():
            read, new = decoder.step(
                words[:, here], state[:, here], keys[:, here], memory[:, here], mask[here]
            )
        torch.testing.assert_close(found[0][rows], read[0], atol=TOLERANCE, rtol=TOLERANCE)
        torch.testing.assert_close(found[1][rows], new[0].flatten(0, 1), atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("is_shared", [True, False])
def test_two_directions_joined_find_what_they_find_apart(is_shared: bool, device: str) -> None:
    torch.manual_seed(0)
    settings = ModelSettings(**SIZES, shared_encoder=is_shared)  # type: ignore[arg-type]
    model = BidirectionalModel(settings, 60).to(device).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    first, second = (GRUScorer(model, direction) for direction in Direction)
    kernels = SLOW if device == "cpu" else kernels_of(first.device)
    assert kernels is not None
    joined = JoinedScorer(first, second, Joined([first.decoder, second.decoder], kernels))  # type: ignore[arg-type]
    sources = torch.randint(5, 60, (6, 9), device=device)
    sources[2, 4:] = 0
    roles = VocabularyRoles(start=2, end=3, forbidden=frozenset({0, 1, 2}))
    search = SearchSettings(beam_size=5, max_length=12)

    together = beam_search(joined, sources.repeat(2, 1), search, roles)

    apart = [*beam_search(first, sources, search, roles), *beam_search(second, sources, search, roles)]
    for one, other in zip(together, apart, strict=True):
        assert [found.tokens for found in one] == [found.tokens for found in other]
        scores = [found.log_prob for found in other]
        assert [found.log_prob for found in one] == pytest.approx(scores, abs=1e-4)


@needs_gpu
def test_a_gpu_joins_them() -> None:
    model = BidirectionalModel(ModelSettings(**SIZES), 60).cuda().eval()  # type: ignore[arg-type]
    scorers = [GRUScorer(model, direction) for direction in Direction]

    assert isinstance(side_by_side(*scorers), JoinedScorer)


def test_a_cpu_does_not() -> None:
    model = BidirectionalModel(ModelSettings(**SIZES), 60).eval()  # type: ignore[arg-type]
    scorers = [GRUScorer(model, direction) for direction in Direction]

    assert kernels_of(torch.device("cpu")) is None
    assert isinstance(side_by_side(*scorers), PairScorer)
