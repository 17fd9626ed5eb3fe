"""Networks of our own, by the `architecture` that config.json names. A new one is a folder and a line."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from bidibeam.errors import RunError, SettingsError
from bidibeam.protocols import StepScorer
from bidibeam.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from bidibeam.hypotheses import Direction
    from bidibeam.models.base import Losses


class NetworkScorer(StepScorer[Any], Protocol):
    """One direction of a network, for the search and for teacher forcing."""

    def log_probs(self, sources: Tensor, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        """Score each source's sequences, ids in writing order with the end token if any."""
        ...


class Network(Protocol):
    """An `nn.Module` that the training loop trains and a run decodes with.

    It is made by `Network(settings, vocabulary_size)`. One that takes a third argument, `output_size`, can
    have sources whose tokens it never writes: it then writes the first so many of its tokens alone.

    Attributes:
        Settings: Its settings' frozen dataclass; `directions`, a tuple of names, is one of the fields.
        settings: Its settings.
        vocabulary_size: The number of tokens.
        directions: The directions it writes in.
    """

    Settings: ClassVar[type]
    settings: Any
    vocabulary_size: int
    directions: list[Direction]

    def forward(
        self,
        sources: Tensor,
        lengths: Tensor,
        inputs: Tensor,
        targets: Tensor,
        shares: Sequence[float] | None = None,
    ) -> Losses:
        """Teacher forcing of a `data.batching.Batch`; of the loss each direction has its share, all alike."""
        ...

    def scorer(self, direction: Direction) -> NetworkScorer:
        """What the search steps through, and what scores whole sequences."""
        ...

    def input_embeddings(self) -> Tensor:
        """The embeddings of its tokens, (vocabulary, size)."""
        ...


NETWORKS: Registry[Any] = Registry(
    "architecture",
    group="bidibeam.networks",
    locations={"gru": "bidibeam.models.gru.network:BidirectionalModel"},
)


def create_network(architecture: str, settings: Any, vocabulary_size: int, output_size: int | None) -> Any:
    """A network with fresh weights that reads all tokens, and writes the first `output_size`, None for all.

    Raises:
        SettingsError: If a network of this architecture cannot but write all.
    """
    if output_size is None:
        return NETWORKS.create(architecture, settings, vocabulary_size)
    if "output_size" not in inspect.signature(NETWORKS.get(architecture)).parameters:
        raise SettingsError(
            f"A network of the architecture {architecture} has one vocabulary, and these data have one for "
            "sources and one for responses: prepare them with one tokenizer for both."
        )
    return NETWORKS.create(architecture, settings, vocabulary_size, output_size)


def check_direction(direction: Direction, known: Sequence[Direction], name: object) -> None:
    """Refuse a direction that a network does not write in; `name` is what the message calls it."""
    if direction not in known:
        raise RunError(
            f"{name} has no {direction.value} decoder, only: {', '.join(known)}. Train one with both "
            "directions, or choose a strategy that does without."
        )
