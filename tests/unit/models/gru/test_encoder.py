"""The encoder against PyTorch's packed bidirectional GRU."""

from __future__ import annotations

import torch
from torch import nn

from bidibeam.models.gru.network import Encoder, reversal
from tests.conftest import TINY_MODEL


def test_reversal_turns_real_tokens_and_leaves_padding() -> None:
    indices = reversal(torch.tensor([3, 1, 4]), 4)

    assert indices.tolist() == [[2, 1, 0, 3], [0, 1, 2, 3], [3, 2, 1, 0]]


def test_states_equal_those_of_a_packed_bidirectional_gru() -> None:
    encoder = Encoder(TINY_MODEL).eval()
    packed = nn.GRU(
        TINY_MODEL.embedding_size, TINY_MODEL.encoder_size, num_layers=2, bidirectional=True, batch_first=True
    )
    with torch.no_grad():
        for layer in range(2):
            for suffix, grus in (("", encoder.rightward), ("_reverse", encoder.leftward)):
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    ours = getattr(grus[layer], f"{kind}_l0")
                    getattr(packed, f"{kind}_l{layer}{suffix}").copy_(ours)
    embedded, lengths = torch.randn(3, 6, TINY_MODEL.embedding_size), torch.tensor([6, 2, 4])

    states = encoder(embedded, lengths)
    sequence = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = nn.utils.rnn.pad_packed_sequence(packed(sequence)[0], batch_first=True)

    for line, (length, real) in enumerate(zip(lengths.tolist(), expected, strict=True)):
        torch.testing.assert_close(states[line, :length], real[:length])
