"""The encoder against PyTorch's packed bidirectional GRU, and embeddings that start from vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bidibeam.data.vectors import read_vectors
from bidibeam.errors import InputError
from bidibeam.models.gru.network import BidirectionalModel, Encoder, reversal
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


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_embeddings_start_from_the_vectors_in_the_networks_own_scale(tmp_path: Path, scale: float) -> None:
    path = tmp_path / "vectors.vec"
    generator = np.random.default_rng(0)
    table = generator.normal(scale=8, size=(2, TINY_MODEL.embedding_size))
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(("cat", "dog"), table, strict=True)]
    path.write_text(f"2 {TINY_MODEL.embedding_size}\n" + "\n".join(lines) + "\n")
    model = BidirectionalModel(replace(TINY_MODEL, embedding_scale=scale), 8)
    before = model.embedding(0).weight.detach().clone()

    model.use_vectors(read_vectors(path, {"cat": 4, "dog": 6}))

    after = model.embedding(0).weight.detach()
    rows = after[[4, 6]].numpy()
    assert np.sqrt(np.mean(np.square(rows))) == pytest.approx(scale, rel=1e-4)
    assert before[1:].std().item() == pytest.approx(scale, rel=0.3)
    np.testing.assert_allclose(rows / np.linalg.norm(rows), table / np.linalg.norm(table), rtol=1e-4)
    assert torch.equal(after[[0, 1, 2, 3, 5, 7]], before[[0, 1, 2, 3, 5, 7]])


def test_vectors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.vec"
    path.write_text("1 3\ncat 1 2 3\n")
    model = BidirectionalModel(TINY_MODEL, 8)

    with pytest.raises(InputError, match=r"3 dimensions, but model\.embedding_size is 16\. Set model"):
        model.use_vectors(read_vectors(path, {"cat": 4}))
    with pytest.raises(InputError, match="none of the vocabulary's words"):
        model.use_vectors(read_vectors(path, {"Katze": 4}))
