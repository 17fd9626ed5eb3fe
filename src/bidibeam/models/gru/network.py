"""The paper's network: an encoder, and a decoder for each direction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bidibeam.data.tokenization import PAD_ID
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.gru.decoder import Decoders
from bidibeam.models.gru.encoder import Encoder
from bidibeam.models.gru.projection import projected_cross_entropy
from bidibeam.models.gru.settings import ModelSettings

EMBEDDING_SCALE = 0.1
"""Standard deviation of a learned embedding's components at the start; pretrained ones are scaled to it."""


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


class BidirectionalModel(nn.Module):
    """Reads a source once and writes the reply in one or both directions.

    With a shared encoder, embeddings and encoder serve every decoder; otherwise each direction is a network
    of its own. Decoders never share weights, except that a tied output projection is the embeddings.

    Args:
        settings: The network's shape.
        vocabulary_size: Number of tokens.
    """

    def __init__(self, settings: ModelSettings, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.vocabulary_size = vocabulary_size
        self.directions = [Direction(name) for name in settings.directions]
        count = len(self.directions)
        networks = 1 if settings.shared_encoder else count
        self.embeddings = nn.ModuleList(
            nn.Embedding(vocabulary_size, settings.embedding_size, padding_idx=PAD_ID)
            for _ in range(networks)
        )
        self.encoders = nn.ModuleList(Encoder(settings) for _ in range(networks))
        self.decoders = Decoders(settings)
        self.b_output = nn.Parameter(torch.zeros(count, vocabulary_size))
        if not settings.tied_output:
            self.w_output = nn.Parameter(torch.empty(count, vocabulary_size, settings.output_width))
            nn.init.uniform_(self.w_output, -(settings.output_width**-0.5), settings.output_width**-0.5)
        self.dropout = nn.Dropout(settings.dropout)
        with torch.no_grad():
            for index in range(networks):
                nn.init.normal_(self.embedding(index).weight, std=EMBEDDING_SCALE)
                self.embedding(index).weight[PAD_ID] = 0

    def embedding(self, index: int) -> nn.Embedding:
        """The embeddings that a direction, by its index, reads with."""
        embedding = self.embeddings[index if len(self.embeddings) > 1 else 0]
        assert isinstance(embedding, nn.Embedding)
        return embedding

    def output_weight(self, index: int) -> Tensor:
        """A direction's output projection, (vocabulary, width)."""
        return self.embedding(index).weight if self.settings.tied_output else self.w_output[index]

    def encode(self, sources: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encoder states, (networks, batch, source, memory), and the attention mask, (batch, 1, source)."""
        memory = torch.stack(
            [
                encoder(self.dropout(embedding(sources)), lengths)
                for embedding, encoder in zip(self.embeddings, self.encoders, strict=True)
            ]
        )
        return memory, attention_mask(lengths, sources.shape[1])

    def forward(
        self,
        sources: Tensor,
        lengths: Tensor,
        inputs: Tensor,
        targets: Tensor,
        regular_weight: float = 0.5,
    ) -> Losses:
        """Teacher forcing in every direction, in one pass over the encoder; see `data.batching.Batch`."""
        memory, mask = self.encode(sources, lengths)
        words = self._embed_inputs(inputs)  # (D, T, B, E)
        readout = self.decoders(self.dropout(words), memory, mask)  # (D, T, B, R)
        is_real = targets != PAD_ID  # (D, T, B)
        tokens = is_real[0].sum()
        total = torch.zeros((), device=sources.device)
        sums = []
        for index, weight in enumerate(self.shares(regular_weight)):
            hidden, target, real = (
                readout[index].flatten(0, 1),
                targets[index].flatten(),
                is_real[index].flatten(),
            )
            row_weights = real.float() * (weight / tokens)  # (T * B,)
            if hidden.device.type == "cpu":  # elsewhere shapes stay fixed, so that the step can be captured
                rows = real.nonzero().squeeze(1)
                hidden, target, row_weights, real = hidden[rows], target[rows], row_weights[rows], real[rows]
            loss, rows_losses = projected_cross_entropy(
                hidden,
                self.output_weight(index).to(hidden.dtype),
                self.b_output[index].to(hidden.dtype),
                target,
                row_weights,
            )
            total = total + loss
            sums.append((rows_losses * real).sum())
        return Losses(total, torch.stack(sums), tokens)

    def _embed_inputs(self, inputs: Tensor) -> Tensor:
        if len(self.embeddings) == 1:
            return self.embedding(0)(inputs)  # type: ignore[no-any-return]
        return torch.stack([self.embedding(index)(line) for index, line in enumerate(inputs)])

    def shares(self, regular_weight: float) -> list[float]:
        """Each direction's share of the loss; one that is alone has all of it."""
        if len(self.directions) == 1:
            return [1.0]
        return [
            regular_weight if direction is Direction.REGULAR else 1 - regular_weight
            for direction in self.directions
        ]

    def save_pretrained(self, directory: Path | str, **facts: Any) -> None:
        """Write config.json and model.safetensors; `facts` are kept in the configuration."""
        folder = Path(directory)
        checkpoint.write_config(folder, self.settings, self.vocabulary_size, facts)
        checkpoint.write_weights(folder / checkpoint.WEIGHTS_FILE, self.state_dict())

    @classmethod
    def from_pretrained(
        cls, directory: Path | str, *, device: torch.device | str = "cpu"
    ) -> BidirectionalModel:
        """Load what `save_pretrained` or training wrote, ready to decode with.

        Raises:
            RunError: If a file is missing, damaged or of another version; the message says which.
        """
        folder = Path(directory)
        config = checkpoint.read_config(folder)
        model = cls(config.model, config.vocabulary_size)
        model.load_weights(checkpoint.read_weights(folder / checkpoint.WEIGHTS_FILE), folder)
        return model.to(device).eval()

    def load_weights(self, weights: Mapping[str, Tensor], origin: Path) -> None:
        """Take weights over, having checked that they are this network's; half precision becomes float32.

        Raises:
            RunError: If a tensor is missing, left over or of another shape.
        """
        checkpoint.check_weights(weights, self.state_dict(), origin)
        self.load_state_dict(dict(weights))


def attention_mask(lengths: Tensor, width: int) -> Tensor:
    """0 at real positions and -inf behind them: (batch, 1, width)."""
    is_padding = torch.arange(width, device=lengths.device) >= lengths.unsqueeze(1)  # (batch, width)
    return (
        torch.zeros(is_padding.shape, device=lengths.device).masked_fill_(is_padding, -torch.inf).unsqueeze(1)
    )
