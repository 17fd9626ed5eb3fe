"""Prepared data on disk: memory-mapped token ids, a tokenizer, statistics and texts."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bidibeam.data.conversations import SPLITS
from bidibeam.data.tokenization import Tokenizer, load_tokenizers
from bidibeam.errors import RunError
from bidibeam.fields import build_known
from bidibeam.files import parse_json, read_json, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")
FORMAT_VERSION = 1
PAIRS, TOKENIZER, INFO, STATISTICS = "pairs.safetensors", "tokenizer.json", "data.json", "stats.json"
EXAMPLE = ("id", "source", "reference")
"""What a line of a split's texts has; `references` takes the place of the last where there are several."""
HELD_OUT = {"validation": "validation.jsonl", "test": "test.jsonl"}
TRAINING_TEXT = "train.jsonl"
"""Only where it was asked for."""
SOURCE_TOKENIZER = "source_tokenizer.json"
"""Only where sources and responses are tokenised differently."""
OPTIONAL = {"training_text": TRAINING_TEXT, "source_tokenizer": SOURCE_TOKENIZER}
"""Files that are there if data.json lists them, by what it calls them."""
TEXTS = {"train": TRAINING_TEXT, **HELD_OUT}
FILES = (PAIRS, TOKENIZER, STATISTICS, *HELD_OUT.values(), INFO)
"""What all prepared data have; the last is written last, so a directory that has it has them all."""

COLUMNS = ("source_start", "source_length", "response_start", "response_length")
DTYPES: dict[str, np.dtype[Any]] = {"U16": np.dtype("<u2"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8")}

AGAIN = "Prepare it again with `bidibeam prepare`."

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class PairArrays:
    """The pairs of a split, as places in one array of tokens.

    Pair `i` has the source `tokens[source_start[i] : source_start[i] + source_length[i]]`, and so for its
    response. Neither has start or end tokens. Texts that occur in several pairs are stored once.
    """

    tokens: Array  # (tokens,), uint16, or int32 where the vocabulary needs it
    source_start: Array  # (pairs,), int64, as the other three
    source_length: Array  # (pairs,), at least 1
    response_start: Array  # (pairs,)
    response_length: Array  # (pairs,), at least 1

    def __len__(self) -> int:
        return len(self.source_start)

    def is_whole(self, count: int | None) -> bool:
        """Whether there are so many pairs, at least one, and each has its tokens."""
        sides = ((self.source_start, self.source_length), (self.response_start, self.response_length))
        return (
            bool(count)
            and self.tokens.ndim == 1
            and all(column.shape == (count,) for side in sides for column in side)
            and all(lengths.min() >= 1 and starts.min() >= 0 for starts, lengths in sides)
            and all((starts <= len(self.tokens) - lengths).all() for starts, lengths in sides)
        )


@dataclass(frozen=True, slots=True)
class Lengths:
    """What training reads of the settings that data were prepared with."""

    max_source_length: int
    max_response_length: int


@dataclass(frozen=True, slots=True)
class Info:
    """The types of what data.json must have."""

    corpus: str
    fingerprint: str
    pairs: dict[str, int]
    settings: dict[str, Any]
    training_text: str | None = None
    source_tokenizer: str | None = None
    test_sets: dict[str, int] | None = None

    def __post_init__(self) -> None:
        build_known(Lengths, self.settings, section="settings.")


class PreparedData:
    """What `bidibeam prepare` wrote, with the contents of `data.json` as `info`. Use `PreparedData.open`.

    Responses are tokenised by `tokenizer`, and sources by `source_tokenizer`, the same one where it is alike.
    """

    def __init__(
        self,
        path: Path,
        info: dict[str, Any],
        tokenizer: Tokenizer,
        arrays: dict[str, Array],
        source_tokenizer: Tokenizer | None = None,
    ) -> None:
        self.path = path
        self.info = info
        self.tokenizer = tokenizer
        self.source_tokenizer = source_tokenizer or tokenizer
        self._arrays = arrays

    @classmethod
    def open(cls, path: Path) -> PreparedData:
        """Opens a directory of prepared data; token ids stay on disk until they are used."""
        if path.is_file():
            corpus = next((kind for kind in ("jsonl", "tsv") if f".{kind}" in path.suffixes), "CORPUS")
            way_out = f"make one of it with `bidibeam prepare {corpus}`"
            if (path.parent / INFO).is_file():
                way_out = f"give {path.parent}, which it is in"
            raise RunError(f"{path} is a file, and prepared data are a directory: {way_out}.")
        if not path.is_dir():
            raise RunError(f"There is no directory {path}: make it with `bidibeam prepare`.")
        for name in FILES:
            if not (path / name).is_file():
                raise RunError(f"{path} holds no {name}: it is not prepared data, or not all of it. {AGAIN}")
        info = _read_json(path / INFO)
        for key, name in OPTIONAL.items():
            if info.get(key) and not (path / name).is_file():
                raise RunError(f"{path} holds no {name}, though {INFO} lists it. {AGAIN}")
        version = info.get("format_version")
        if version != FORMAT_VERSION:
            raise RunError(
                f"{path} is in format {version}, written by bidibeam {info.get('bidibeam_version')}; this "
                f"version reads format {FORMAT_VERSION}. {AGAIN}"
            )
        with reading(path / INFO, AGAIN):
            build_known(Info, info)
        with reading(path / PAIRS, AGAIN):
            arrays = _map_tensors(path / PAIRS)
        tokenizer, source_tokenizer = Tokenizer.load(path / TOKENIZER), None
        if info.get("source_tokenizer"):
            tokenizer, source_tokenizer = load_tokenizers(path / TOKENIZER, path / SOURCE_TOKENIZER)
        data = cls(path, info, tokenizer, arrays, source_tokenizer)
        names = {"tokens", *(f"{split}.{column}" for split in SPLITS for column in COLUMNS)}
        if set(arrays) != names:
            raise RunError(f"{path} is damaged: {PAIRS} and {INFO} do not belong together. {AGAIN}")
        for name in SPLITS:
            if not data.split(name).is_whole(info["pairs"].get(name)):
                raise RunError(f"{path / PAIRS} is damaged: its {name} split does not fit {INFO}. {AGAIN}")
        if not 0 <= arrays["tokens"].min() <= arrays["tokens"].max() < data.source_tokenizer.vocabulary_size:
            raise RunError(
                f"{path / PAIRS} is damaged: it holds ids that "
                f"{SOURCE_TOKENIZER if source_tokenizer else TOKENIZER} does not have. {AGAIN}"
            )
        return data

    @property
    def fingerprint(self) -> str:
        """A hash of the tokens, the pairs and the tokenizer: equal exactly if training sees the same."""
        return str(self.info["fingerprint"])

    @property
    def statistics(self) -> dict[str, Any]:
        """What `stats.json` holds."""
        return _read_json(self.path / STATISTICS)

    @property
    def test_sets(self) -> dict[str, slice]:
        """The test sets by name, each as its place among `examples("test")`."""
        counts: dict[str, int] = self.info.get("test_sets") or {"test": self.info["pairs"]["test"]}
        ends = accumulate(counts.values())
        return {name: slice(end - counts[name], end) for name, end in zip(counts, ends, strict=True)}

    def split(self, name: str) -> PairArrays:
        """Returns the pairs of "train", "validation" or "test": one for each reference of each example."""
        return PairArrays(self._arrays["tokens"], *(self._arrays[f"{name}.{column}"] for column in COLUMNS))

    def examples(self, name: str) -> Iterator[dict[str, Any]]:
        """Returns the items of a split as {"id", "source", "references", "reference"}, in its order.

        The last is the first of the references. In training each pair is an item.
        """
        file = TEXTS[name]
        if file == TRAINING_TEXT and not self.info.get("training_text"):
            raise RunError(
                f"{self.path} holds the training pairs as token ids only, and their text is needed: prepare "
                "again with keep_text, as `bidibeam prepare --keep-text` does."
            )

        def read() -> Iterator[dict[str, Any]]:
            with (self.path / file).open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    with reading(f"{self.path / file}, line {number}", AGAIN):
                        example = parse_json(line)
                        references = example.get("references") or [example["reference"]]
                        example |= {"references": references, "reference": references[0]}
                        if not all(
                            isinstance(text, str) for text in (*map(example.get, EXAMPLE), *references)
                        ):
                            raise TypeError(f"{', '.join(EXAMPLE)} must be strings")
                    yield example

        return read()

    def sample(self, name: str, count: int | None) -> list[dict[str, Any]]:
        """Returns so many items of a split, spread evenly over it, in its order; all if `count` is None.

        A split may be sorted, by language or by length, so that its first items stand for no others.
        """
        return spread_evenly(list(self.examples(name)), count)

    def text_pairs(self, name: str) -> Iterator[dict[str, str]]:
        """Returns the texts of `split` as {"source", "reference"}, pair for pair."""
        for example in self.examples(name):
            for reference in example["references"]:
                yield {"source": example["source"], "reference": reference}


def _read_json(path: Path) -> dict[str, Any]:
    with reading(path, AGAIN):
        return read_json(path)


def _map_tensors(path: Path) -> dict[str, Array]:
    """Maps the tensors of a safetensors file into memory: nothing is read but the header."""
    size = path.stat().st_size
    with path.open("rb") as file:
        (header_length,) = struct.unpack("<Q", file.read(8))
        if header_length > size:
            raise ValueError("its header is cut off")
        header = parse_json(file.read(header_length))
    header.pop("__metadata__", None)
    begin = 8 + header_length
    expected = begin + max(tensor["data_offsets"][1] for tensor in header.values())
    if size != expected:
        raise ValueError(f"{size} bytes instead of {expected}")
    return {
        name: np.memmap(
            path,
            dtype=DTYPES[tensor["dtype"]],
            mode="r",
            offset=begin + tensor["data_offsets"][0],
            shape=tuple(tensor["shape"]),
        )
        for name, tensor in header.items()
    }


def spread_evenly(items: Sequence[T], count: int | None) -> list[T]:
    """Returns so many items, spread evenly over all, in their order; all if `count` is None."""
    if count is None or count >= len(items):
        return list(items)
    return [items[place * len(items) // count] for place in range(count)]
