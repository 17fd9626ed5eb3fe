"""Pretrained word vectors in fastText's text format, read as a stream and only as far as needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bidibeam.errors import InputError
from bidibeam.files import open_binary
from bidibeam.models.gru import EMBEDDING_SCALE, BidirectionalModel


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors found for a vocabulary.

    Attributes:
        ids: (found,), the vocabulary ids that have a vector.
        values: (found, dimension), float32.
        vocabulary_size: How many tokens were looked for.
    """

    ids: np.ndarray[tuple[int], np.dtype[np.int64]]
    values: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    vocabulary_size: int

    @property
    def coverage(self) -> float:
        """The share of tokens that have a vector."""
        return len(self.ids) / max(1, self.vocabulary_size)


def read_vectors(path: Path, ids_by_word: Mapping[str, int]) -> Vectors:
    """Read a `.vec` file (plain, .gz or .xz), keeping only the words asked for.

    A word that the file holds twice keeps its first vector. Words are compared as they are: a lower-cased
    vocabulary finds lower-case entries.

    Raises:
        InputError: If the file is missing or is not in fastText's text format; the message has the line.
    """
    if not path.is_file():
        raise InputError(f"There is no vector file {path}. Give a .vec file, plain, .gz or .xz.")
    wanted = {word.encode(): index for word, index in ids_by_word.items()}
    found: dict[int, np.ndarray[tuple[int], np.dtype[np.float32]]] = {}
    try:
        with open_binary(path) as file:
            dimension = _dimension(file.readline(), path)
            for number, line in enumerate(file, start=2):
                word, _, rest = line.rstrip(b"\r\n ").partition(b" ")
                index = wanted.get(word)
                if index is None or index in found:
                    continue
                found[index] = _values(rest, dimension, f"{path}, line {number}")
    except (OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read to its end ({error}). Is the file complete?") from error
    ids = np.array(sorted(found), dtype=np.int64)
    values = np.stack([found[int(index)] for index in ids]) if found else np.zeros((0, dimension), np.float32)
    return Vectors(ids, values, len(wanted))


def use_vectors(model: BidirectionalModel, vectors: Vectors) -> None:
    """Start a network's embeddings from pretrained vectors.

    All vectors are scaled by one number, so that their components are as large as those of the words that
    have none; the geometry stays, and the network's other weights need not adapt to the file's units.

    Raises:
        InputError: If the dimensions differ, or no word has a vector.
    """
    size = model.settings.embedding_size
    if not len(vectors.ids):
        raise InputError("The vector file holds none of the vocabulary's words. Is it for another language?")
    if vectors.values.shape[1] != size:
        raise InputError(
            f"The vectors have {vectors.values.shape[1]} dimensions, but model.embedding_size is {size}. "
            f"Add --set model.embedding_size={vectors.values.shape[1]}."
        )
    spread = float(np.sqrt(np.mean(np.square(vectors.values, dtype=np.float64)))) or 1.0
    values: Tensor = torch.from_numpy(vectors.values * np.float32(EMBEDDING_SCALE / spread))
    with torch.no_grad():
        for index in range(len(model.embeddings)):
            weight = model.embedding(index).weight
            weight[torch.from_numpy(vectors.ids).to(weight.device)] = values.to(weight.device)


def _dimension(header: bytes, path: Path) -> int:
    fields = header.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        shown = header[:60].decode(errors="replace").rstrip()
        raise InputError(
            f"{path} does not begin with a word count and a dimension, as fastText's text format does, "
            f"but with {shown!r}."
        )
    return int(fields[1])


def _values(text: bytes, dimension: int, place: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    try:
        values = np.array(text.split(), dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{place} holds something that is not a number ({error}).") from error
    if len(values) != dimension:
        raise InputError(f"{place} has {len(values)} numbers, but the first line promises {dimension}.")
    if not np.isfinite(values).all():
        raise InputError(f"{place} holds a number that is not finite.")
    return values
