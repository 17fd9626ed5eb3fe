"""Reads pretrained word vectors in fastText's text format as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bidibeam.errors import InputError
from bidibeam.files import UNPACKING_ERRORS, open_binary

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    Vector = np.ndarray[tuple[int], np.dtype[np.float32]]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of a vocabulary: the ids that have one, (found,), and the vectors, (found, dimension)."""

    ids: np.ndarray[tuple[int], np.dtype[np.int64]]
    values: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    vocabulary_size: int

    @property
    def coverage(self) -> float:
        """The share of tokens that have a vector."""
        return len(self.ids) / max(1, self.vocabulary_size)


def read_vectors(path: Path, ids_by_word: Mapping[str, int]) -> Vectors:
    """Reads the vectors of a vocabulary, in the order of its ids."""
    words, values = read_words(path, ids_by_word)
    ids = np.array([ids_by_word[word] for word in words], dtype=np.int64)
    order = np.argsort(ids)
    return Vectors(ids[order], values[order], len(ids_by_word))


def read_words(
    path: Path, wanted: Collection[str] | None = None
) -> tuple[list[str], np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    """Reads a `.vec` file (plain, .gz or .xz): words in the file's order, and a float32 row for each.

    A word that the file holds twice keeps its first vector. Words are compared as they are: a lower-cased
    vocabulary finds lower-case entries. With `wanted`, other words are left out.
    """
    if not path.is_file():
        raise InputError(f"There is no vector file {path}. Give a .vec file, plain, .gz or .xz.")
    names = None if wanted is None else {word.encode(errors="surrogatepass"): word for word in wanted}
    vectors: dict[str, Vector] = {}
    try:
        with open_binary(path) as file:
            header = file.readline()
            fields = header.split()
            if len(fields) != 2 or not all(field.isdigit() and len(field) < 20 for field in fields):
                raise InputError(
                    f"{path} does not begin with a word count and a dimension, as fastText's text format "
                    f"does, but with {header[:60].decode(errors='replace').rstrip()!r}."
                )
            dimension = int(fields[1])
            for number, line in enumerate(file, start=2):
                start, _, rest = line.rstrip(b"\r\n ").partition(b" ")
                word = start.decode(errors="replace") if names is None else names.get(start)
                if word is not None and word not in vectors:
                    vectors[word] = _parse_vector(rest, dimension, f"{path}, line {number}")
    except UNPACKING_ERRORS as error:
        raise InputError(f"{path} cannot be read to its end ({error}). Is the file complete?") from error
    values = np.stack(list(vectors.values())) if vectors else np.zeros((0, dimension), np.float32)
    return list(vectors), values


def _parse_vector(text: bytes, dimension: int, place: str) -> Vector:
    try:
        values = np.array(text.split(), dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{place} holds something that is not a number ({error}).") from error
    if len(values) != dimension or not dimension:
        raise InputError(f"{place} has {len(values)} numbers, but the first line promises {dimension}.")
    if not np.isfinite(values).all():
        raise InputError(f"{place} holds a number that is not finite.")
    return values
