"""The seam: all that commands and experiments know of a model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

from bidibeam.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from pathlib import Path

    import torch
    from torch import Tensor

    from bidibeam.hypotheses import Direction, NBest
    from bidibeam.protocols import SequenceScorer, StepScorer
    from bidibeam.scores import Signature
    from bidibeam.search.settings import SearchSettings
    from bidibeam.similarities.word_vectors import WordVectors


SPECIAL_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "unk_token_id")
"""What tokenizers call the ids of their special tokens."""


class LoadOptions(TypedDict, total=False):
    """How a model is loaded, whatever engine runs it; `models.loading.load` says what each means."""

    device: str | None
    dtype: str | None
    trust_remote_code: bool
    device_map: str | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a model reads and writes, in its own tokens; None where nothing is known to limit it.

    Attributes:
        max_source_length: Longer sources keep their last tokens only.
        max_length: What `max_length` of a search is by default: room for the longest response that its data
            may have, and for its end token.
    """

    max_source_length: int | None = None
    max_length: int | None = None


def read_length(metadata: Any, *keys: str) -> int | None:
    """A length in what training left beside a model; None if there is no such number."""
    for key in keys:
        metadata = metadata.get(key) if isinstance(metadata, dict) else None
    return metadata if isinstance(metadata, int) and metadata > 0 else None


def longest_search(data: Any, most: int | None = None) -> int | None:
    """T of a search by default: the longest response that data were prepared with, and its end; or `most`.

    Data are prepared with tokens of their own; for a model with others, T is its longest training response.
    """
    if (longest := read_length(data, "lengths", "longest")) is not None:
        return longest
    length = read_length(data, "settings", "max_response_length")
    return None if length is None else min(length + 1, most or length + 1)


def usual_length(model: Model) -> int | None:
    """T of similarities: the median length of the responses that training saw; None if nobody knows."""
    return read_length(model.data, "lengths", "response")


def writes_capitals(model: Model) -> bool:
    """Whether a model may write capital letters: its tokenizer, where it says so, keeps them."""
    return getattr(model.tokenizer, "is_cased", True)


def compare_tokens(first: Any, second: Any) -> str | None:
    """Returns the first difference between the ids of two tokenizers, in words; None if there is none."""
    ours, theirs = first.get_vocab(), second.get_vocab()
    if ours != theirs:
        token, _ = min(ours.items() ^ theirs.items(), key=lambda item: (item[1], item[0]))
        one, other = ("no id" if token not in known else f"id {known[token]}" for known in (ours, theirs))
        return f"the token {token!r} has {one} in one and {other} in the other"
    for name in SPECIAL_IDS:
        ids = [getattr(tokenizer, name) for tokenizer in (first, second) if hasattr(tokenizer, name)]
        if len(set(ids)) > 1:
            return f"{name} is {ids[0]} in one and {ids[1]} in the other"
    return None


@cache
def first_process() -> int:
    """The process in which a model was first loaded, or a decoder made; one forked from it remembers."""
    return os.getpid()


def check_fork(model: Model) -> None:
    """Refuse to compute where a fork has left behind what computes: torch would wait for it for ever."""
    if os.getpid() == first_process():
        return
    import torch  # which is not loaded to rank alone

    device, threads = model.device.type, torch.get_num_threads()
    if device != "cpu" or threads > 1:
        what = "its GPU" if device != "cpu" else f"torch's {threads} threads"
        way_out = "" if device != "cpu" else "call torch.set_num_threads(1) here, or "
        raise SettingsError(
            f"This process was forked from one that had a model, and {what} cannot be used after a fork: "
            f'{way_out}start the process by multiprocessing.get_context("spawn").'
        )


def spell_bad_words(
    words: Sequence[str], spellings: Sequence[Sequence[Sequence[int]]], name: str, special: Container[int]
) -> list[tuple[int, ...]]:
    """The token sequences that spell words, in reading order, where a tokenizer may have several for each.

    Raises:
        SettingsError: If all spellings of a word are empty or need a `special` token, as the unknown one is.
    """
    found: dict[tuple[int, ...], None] = {}
    for word, rows in zip(words, spellings, strict=True):
        known = [tuple(ids) for ids in rows if ids and not any(token in special for token in ids)]
        if not known:
            raise SettingsError(
                f"bad_words has {word!r}, which the tokenizer of {name} cannot spell, so that no reply could "
                "contain it: leave it out."
            )
        found |= dict.fromkeys(known)
    return [*found]


class Model(Protocol):
    """A model that writes in one direction or in both, whatever engine runs it.

    Attributes:
        name: The name of its folder, or its name on the Hub.
        directions: The directions it writes in.
        tokenizer: The engine's own tokenizer.
        limits: How much it reads and writes.
        default_stopping: The stopping rule where none is asked for: the paper's, or that of the engine.
        vocabulary_size: The number of tokens it chooses among.
    """

    name: str
    directions: tuple[Direction, ...]
    tokenizer: Any
    limits: Limits
    default_stopping: str
    vocabulary_size: int

    @property
    def path(self) -> Path | None:
        """Where what was tuned for it lies; None if it has no folder."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    @property
    def batch_size(self) -> int:
        """How many sources to search at once by default."""
        ...

    @property
    def data(self) -> Mapping[str, Any]:
        """What training knew of its data: path, fingerprint and settings, as far as they are known."""
        ...

    @property
    def fingerprint(self) -> str:
        """Tells its weights from any others."""
        ...

    @property
    def signature(self) -> Signature:
        """What tells its replies from another model's: weights, engine, precision."""
        ...

    def word_vectors(self, file: Path | None = None) -> WordVectors:
        """The vectors of the words it writes: a file's, or its own embeddings."""
        ...

    def check_shared_tokens(self) -> None:
        """Refuse directions that do not know the same tokens: none can score the other's hypotheses."""
        ...

    def check_settings(self, settings: SearchSettings) -> None:
        """Refuse settings that the engine does not have or the model cannot follow; nothing is read yet."""
        ...

    def n_best(self, direction: Direction, sources: Sequence[str], settings: SearchSettings) -> list[NBest]:
        """Search in one direction: the hypotheses of each source, best first, in reading order.

        Raises:
            SettingsError: If the engine does not have a setting; the message names it.
            RunError: If the model does not write in that direction.
        """
        ...

    def find_unknown(self, sources: Sequence[str]) -> list[bool]:
        """Which sources have no token that the model knows."""
        ...

    def sequence_scorer(self, direction: Direction) -> SequenceScorer:
        """What scores given texts, or another direction's hypotheses, under one direction."""
        ...

    def scorer(self, direction: Direction) -> StepScorer[Any] | None:
        """One direction as a step scorer of padded ids, for `beam_search`; None where there is none.

        It follows the weights alone. `n_best` may search by another one, which follows a generation config.
        """
        ...


class Losses(NamedTuple):
    """What a batch cost.

    Attributes:
        total: What training minimises: the directions' mean losses, weighted.
        sums: (directions,), each direction's cross-entropy summed over its tokens; no gradient.
        tokens: The number of target tokens, the same in every direction.
    """

    total: Tensor
    sums: Tensor
    tokens: Tensor
