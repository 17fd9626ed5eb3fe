"""The shape of the network."""

from __future__ import annotations

from dataclasses import dataclass, fields

from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction

LARGEST_SIZE, MOST_LAYERS, LARGEST_SCALE = 1_000_000, 1_000, 100
"""No network that fits any memory, or that learns, has more: such a number is a mistake."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The paper's network by default; smaller numbers make smaller ones."""

    embedding_size: int = 300
    """Width of word embeddings, shared by source and response."""
    embedding_scale: float = 0.1
    """Standard deviation of an embedding's components at the start; where attention is not learnt, try 1."""
    encoder_size: int = 256
    """Hidden units of the encoder, in each reading direction of each layer."""
    encoder_layers: int = 2
    """Layers of the bidirectional encoder."""
    decoder_size: int = 512
    """Hidden units of a decoder."""
    attention_size: int = 512
    """Width of the additive attention's hidden layer."""
    readout_size: int = 512
    """Width of the layer below the output projection; a tied output uses embedding_size instead."""
    dropout: float = 0.1
    """Probability of dropping a unit: of embeddings, between encoder layers and of the readout."""
    shared_encoder: bool = True
    """One encoder for both directions, or two independent networks."""
    tied_output: bool = False
    """Use the embeddings as the output projection, or give each decoder a projection of its own."""
    directions: tuple[str, ...] = ("regular", "reverse")
    """Which decoders there are."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not isinstance(value, bool):
                most = MOST_LAYERS if field.name == "encoder_layers" else LARGEST_SIZE
                if not 1 <= value <= most:
                    rule = "at least 1" if value < 1 else f"at most {most:,}"
                    raise SettingsError(f"model.{field.name} is {value}; it must be {rule}.")
        if not 0 < self.embedding_scale <= LARGEST_SCALE:
            rule = f"above 0 and at most {LARGEST_SCALE}"
            raise SettingsError(f"model.embedding_scale is {self.embedding_scale}; it must be {rule}.")
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"model.dropout is {self.dropout}; it must lie in [0, 1).")
        known = [direction.value for direction in Direction]
        if not self.directions or sorted(set(self.directions)) != sorted(self.directions):
            raise SettingsError(f"model.directions is {list(self.directions)}; name each direction once.")
        for direction in self.directions:
            if direction not in known:
                raise SettingsError(f"model.directions names {direction!r}; choose from: {', '.join(known)}.")

    @property
    def output_width(self) -> int:
        """Width of what the output projection reads."""
        return self.embedding_size if self.tied_output else self.readout_size

    @property
    def memory_size(self) -> int:
        """Width of an encoder state: both reading directions side by side."""
        return 2 * self.encoder_size
