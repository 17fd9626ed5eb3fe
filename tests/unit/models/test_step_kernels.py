"""A decoder's step in a GPU's own kernels is what torch's kernels make of it."""

from __future__ import annotations

import pytest
import torch

from bidibeam.models.decoder import Decoders, kernels_of
from bidibeam.models.settings import ModelSettings

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
TOLERANCE = 1e-5


@needs_gpu
@pytest.mark.parametrize("positions", [1, 5, 16, 17, 50, 128, 129])
@pytest.mark.parametrize(("sources", "beams"), [(1, 1), (3, 7), (9, 50)])
def test_a_step_says_the_same(sources: int, beams: int, positions: int) -> None:
    torch.manual_seed(positions)
    settings = ModelSettings(
        embedding_size=12,
        encoder_size=20,
        decoder_size=24,
        attention_size=40,
        readout_size=28,
        directions=("regular",),
    )
    decoder = Decoders(settings).cuda().eval()
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    words = torch.randn(1, sources, beams, 12, device="cuda")
    state = torch.randn(1, sources, beams, 24, device="cuda")
    memory = torch.randn(1, sources, positions, 40, device="cuda")
    mask = torch.zeros(sources, 1, positions, device="cuda")
    mask[0, 0, positions // 2 + 1 :] = -torch.inf
    assert kernels_of(words.device) is not None

    with torch.no_grad():
        keys = decoder.keys(memory)
        found = decoder.step(words, state, keys, memory, mask)
    expected = decoder.step(words, state, keys, memory, mask)  # with a gradient, which kernels have none of

    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other.detach(), atol=TOLERANCE, rtol=TOLERANCE)


def test_without_a_gpu_there_are_none() -> None:
    assert kernels_of(torch.device("cpu")) is None
