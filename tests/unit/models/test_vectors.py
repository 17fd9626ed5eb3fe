"""Pretrained vectors: streamed, only what is needed, and clear about what is wrong."""

from __future__ import annotations

import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from bidibeam.errors import InputError
from bidibeam.models.gru import EMBEDDING_SCALE, BidirectionalModel
from bidibeam.models.vectors import read_vectors, use_vectors
from tests.conftest import TINY_MODEL

CONTENT = "4 3\ncat 1 2 3\ndog -1 0.5 2e-1\n'\u2019s 7 7 7\ncat 9 9 9\n"
WRITERS: dict[str, Callable[[Path, bytes], object]] = {
    ".vec": Path.write_bytes,
    ".vec.gz": lambda path, data: path.write_bytes(gzip.compress(data)),
    ".vec.xz": lambda path, data: path.write_bytes(lzma.compress(data)),
}


@pytest.mark.parametrize("ending", WRITERS)
def test_only_the_words_asked_for_are_kept(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"vectors{ending}"
    WRITERS[ending](path, CONTENT.encode())

    vectors = read_vectors(path, {"<pad>": 0, "dog": 5, "cat": 4, "horse": 6})

    assert vectors.ids.tolist() == [4, 5]
    assert vectors.values.tolist() == [[1, 2, 3], pytest.approx([-1, 0.5, 0.2])]
    assert vectors.coverage == 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cat 1 2 3\n", r"does not begin with a word count and a dimension.*'cat 1 2 3'"),
        ("", "does not begin with a word count"),
        ("1 3\ncat 1 2\n", "line 2 has 2 numbers, but the first line promises 3"),
        ("1 3\ncat 1 2 x\n", "line 2 holds something that is not a number"),
        ("1 3\ncat 1 2 nan\n", "line 2 holds a number that is not finite"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.vec"
    path.write_text(content)

    with pytest.raises(InputError, match=message):
        read_vectors(path, {"cat": 4})


def test_a_missing_and_a_truncated_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no vector file"):
        read_vectors(tmp_path / "none.vec", {})
    cut = tmp_path / "cut.vec.gz"
    cut.write_bytes(gzip.compress(os.urandom(10).hex().encode() * 9000)[:50])
    with pytest.raises(InputError, match="cannot be read to its end"):
        read_vectors(cut, {"cat": 4})


def test_embeddings_start_from_the_vectors_in_the_networks_own_scale(tmp_path: Path) -> None:
    path = tmp_path / "vectors.vec"
    generator = np.random.default_rng(0)
    table = generator.normal(scale=8, size=(2, TINY_MODEL.embedding_size))
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(("cat", "dog"), table, strict=True)]
    path.write_text(f"2 {TINY_MODEL.embedding_size}\n" + "\n".join(lines) + "\n")
    model = BidirectionalModel(TINY_MODEL, 8)
    before = model.embedding(0).weight.detach().clone()

    use_vectors(model, read_vectors(path, {"cat": 4, "dog": 6}))

    after = model.embedding(0).weight.detach()
    rows = after[[4, 6]].numpy()
    assert np.sqrt(np.mean(np.square(rows))) == pytest.approx(EMBEDDING_SCALE, rel=1e-4)
    np.testing.assert_allclose(rows / np.linalg.norm(rows), table / np.linalg.norm(table), rtol=1e-4)
    assert torch.equal(after[[0, 1, 2, 3, 5, 7]], before[[0, 1, 2, 3, 5, 7]])


def test_vectors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.vec"
    path.write_text("1 3\ncat 1 2 3\n")
    model = BidirectionalModel(TINY_MODEL, 8)

    with pytest.raises(InputError, match=r"3 dimensions, but model\.embedding_size is 16\. Add --set"):
        use_vectors(model, read_vectors(path, {"cat": 4}))
    with pytest.raises(InputError, match="none of the vocabulary's words"):
        use_vectors(model, read_vectors(path, {"Katze": 4}))


@pytest.mark.corpus
def test_the_real_vectors_cover_common_words() -> None:
    folder = os.environ.get("BIDIBEAM_TEST_DATA")
    if not folder:
        pytest.skip("BIDIBEAM_TEST_DATA is not set: the real vectors are not here")
    words = {word: index for index, word in enumerate(["the", "n't", "'s", "you", "zzqqxx"])}

    vectors = read_vectors(Path(folder) / "vectors" / "en-300d.vec.xz", words)

    assert vectors.ids.tolist() == [0, 1, 2, 3]
    assert vectors.values.shape == (4, 300)
