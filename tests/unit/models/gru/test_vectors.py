"""Embeddings that start from pretrained vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bidibeam.data.vectors import read_vectors
from bidibeam.errors import InputError
from bidibeam.models.gru.network import EMBEDDING_SCALE, BidirectionalModel
from tests.conftest import TINY_MODEL


def test_embeddings_start_from_the_vectors_in_the_networks_own_scale(tmp_path: Path) -> None:
    path = tmp_path / "vectors.vec"
    generator = np.random.default_rng(0)
    table = generator.normal(scale=8, size=(2, TINY_MODEL.embedding_size))
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(("cat", "dog"), table, strict=True)]
    path.write_text(f"2 {TINY_MODEL.embedding_size}\n" + "\n".join(lines) + "\n")
    model = BidirectionalModel(TINY_MODEL, 8)
    before = model.embedding(0).weight.detach().clone()

    model.use_vectors(read_vectors(path, {"cat": 4, "dog": 6}))

    after = model.embedding(0).weight.detach()
    rows = after[[4, 6]].numpy()
    assert np.sqrt(np.mean(np.square(rows))) == pytest.approx(EMBEDDING_SCALE, rel=1e-4)
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
