"""The encoder: a stack of bidirectional GRU layers that padding cannot reach."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bidibeam.models.gru.settings import ModelSettings


def reversal(lengths: Tensor, width: int) -> Tensor:
    """Indices that turn the real tokens of each line around and leave its padding in place.

    Args:
        lengths: (batch,)
        width: The padded length.

    Returns:
        (batch, width)
    """
    positions = torch.arange(width, device=lengths.device).unsqueeze(0)  # (1, width)
    turned = lengths.unsqueeze(1) - 1 - positions  # (batch, width)
    return torch.where(turned >= 0, turned, positions)


class Encoder(nn.Module):
    """Source embeddings to encoder states, both reading directions side by side.

    The right-to-left GRU of a layer reads each line turned around within its own length, so that padding
    follows the tokens in both directions and no state of a real position has seen it. Packed sequences would
    do the same, but need the lengths on the host, which a captured graph cannot give.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        sizes = [settings.embedding_size] + [settings.memory_size] * (settings.encoder_layers - 1)
        self.rightward = nn.ModuleList(
            nn.GRU(size, settings.encoder_size, batch_first=True) for size in sizes
        )
        self.leftward = nn.ModuleList(nn.GRU(size, settings.encoder_size, batch_first=True) for size in sizes)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """(batch, length, embedding) to (batch, length, memory)."""
        turn = reversal(lengths, embedded.shape[1]).unsqueeze(2)  # (batch, length, 1)
        states = embedded
        for layer, (rightward, leftward) in enumerate(zip(self.rightward, self.leftward, strict=True)):
            states = self.dropout(states) if layer else states
            turned = states.gather(1, turn.expand_as(states))
            right, _ = rightward(states)  # (batch, length, encoder)
            left, _ = leftward(turned)
            states = torch.cat((right, left.gather(1, turn.expand_as(left))), dim=-1)
        return states
