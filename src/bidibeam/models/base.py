"""The seam: all that commands, experiments and a server know of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import torch
    from torch import Tensor

    from bidibeam.hypotheses import Direction, NBest
    from bidibeam.protocols import SequenceScorer, StepScorer
    from bidibeam.scores import Signature
    from bidibeam.search.settings import SearchSettings
    from bidibeam.similarities.spaces import WordVectors


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a model reads and writes, in its own tokens; None where nothing is known to limit it.

    Attributes:
        max_source_length: Longer sources keep their last tokens only.
        max_length: The longest response that training saw: what `max_length` of a search is by default.
    """

    max_source_length: int | None = None
    max_length: int | None = None


class Model(Protocol):
    """A model that writes in one direction or in both, whatever engine runs it.

    Attributes:
        name: What messages call it: the name of its folder, or its name on the Hub.
        path: Its folder, where what was tuned for it lies; None if it has none.
        directions: The directions it writes in.
        tokenizer: The engine's own tokenizer.
        limits: How much it reads and writes.
        device: Where it computes.
        fingerprint: Tells its weights from any others.
        signature: What tells its replies from another model's: weights, engine, precision.
    """

    name: str
    path: Path | None
    directions: tuple[Direction, ...]
    tokenizer: Any
    limits: Limits
    device: torch.device

    @property
    def fingerprint(self) -> str: ...

    @property
    def signature(self) -> Signature: ...

    def word_vectors(self) -> WordVectors:
        """The vectors that its own embeddings are of the words it writes.

        Raises:
            SettingsError: If its tokens are no words.
        """
        ...

    def n_best(
        self, direction: Direction, sources: Sequence[str], settings: SearchSettings
    ) -> list[NBest]:
        """Search in one direction: the hypotheses of each source, best first, in reading order.

        Raises:
            SettingsError: If the engine does not have a setting; the message names it.
            RunError: If the model does not write in that direction.
        """
        ...

    def sequence_scorer(self, direction: Direction) -> SequenceScorer:
        """What scores given texts, or another direction's hypotheses, under one direction."""
        ...

    def scorer(self, direction: Direction) -> StepScorer[Any] | None:
        """What our own search steps through; None where the engine searches by itself."""
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
