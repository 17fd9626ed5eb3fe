"""A network that the package does not have: an LSTM without attention, for the change test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bidibeam.data.tokenization import PAD_ID, START_ID
from bidibeam.hypotheses import Direction
from bidibeam.models.base import Losses

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class LSTMSettings:
    """Its shape."""

    size: int = 64
    directions: tuple[str, ...] = ("regular", "reverse")


class LSTMState(NamedTuple):
    """(rows, size) each, and the beams a source has."""

    hidden: Tensor
    cell: Tensor
    beams: int


class LSTMNetwork(nn.Module):
    """Encoder and decoders are LSTM cells; the last state of the encoder is all that a decoder knows."""

    Settings: ClassVar[type] = LSTMSettings

    def __init__(self, settings: LSTMSettings, vocabulary_size: int) -> None:
        super().__init__()
        self.settings, self.vocabulary_size = settings, vocabulary_size
        self.directions = [Direction(name) for name in settings.directions]
        self.embedding = nn.Embedding(vocabulary_size, settings.size, padding_idx=PAD_ID)
        self.encoder = nn.LSTMCell(settings.size, settings.size)
        self.decoders = nn.ModuleList(nn.LSTMCell(settings.size, settings.size) for _ in self.directions)
        self.outputs = nn.ModuleList(nn.Linear(settings.size, vocabulary_size) for _ in self.directions)

    def encode(self, sources: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        hidden = cell = torch.zeros(len(sources), self.settings.size, device=sources.device)
        for place, tokens in enumerate(sources.t()):
            new = self.encoder(self.embedding(tokens), (hidden, cell))
            is_token = (place < lengths).unsqueeze(1)  # (batch, 1)
            hidden, cell = (torch.where(is_token, a, b) for a, b in zip(new, (hidden, cell), strict=True))
        return hidden, cell

    def step(self, index: int, tokens: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        state = self.decoders[index](self.embedding(tokens), state)
        return self.outputs[index](state[0]), state

    def forward(
        self, sources: Tensor, lengths: Tensor, inputs: Tensor, targets: Tensor, shares: Any = (0.5, 0.5)
    ) -> Losses:
        begin, tokens, sums = self.encode(sources, lengths), (targets[0] != PAD_ID).sum(), []
        for index in range(len(self.directions)):
            state, logits = begin, []
            for read in inputs[index]:
                scores, state = self.step(index, read, state)
                logits.append(scores)
            flat = torch.stack(logits).flatten(0, 1)
            sums.append(F.cross_entropy(flat, targets[index].flatten(), ignore_index=PAD_ID, reduction="sum"))
        total = sum(share * value for share, value in zip(shares, sums, strict=True)) / tokens
        return Losses(total, torch.stack(sums).detach(), tokens)

    def scorer(self, direction: Direction) -> LSTMScorer:
        return LSTMScorer(self, self.directions.index(direction))

    def input_embeddings(self) -> Tensor:
        return self.embedding.weight.detach()


class LSTMScorer:
    """One direction, for the search and for teacher forcing."""

    def __init__(self, network: LSTMNetwork, index: int) -> None:
        self.network, self.index = network, index

    @torch.inference_mode()
    def start(self, sources: Tensor) -> LSTMState:
        return LSTMState(*self.network.encode(sources, (sources != PAD_ID).sum(1)), 1)

    @torch.inference_mode()
    def step(self, last_tokens: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        logits, (hidden, cell) = self.network.step(self.index, last_tokens, state[:2])
        return logits, LSTMState(hidden, cell, state.beams)

    def select(self, state: LSTMState, rows: Tensor, sources: Tensor | None = None) -> LSTMState:  # noqa: ARG002
        flat = rows.flatten()
        return LSTMState(state.hidden[flat], state.cell[flat], rows.shape[1])

    def log_probs(self, sources: Tensor, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        totals: list[list[float]] = []
        for source, line in zip(sources, sequences, strict=True):
            totals.append([])
            for sequence in line:
                state, total, last = self.start(source.unsqueeze(0)), 0.0, START_ID
                for token in sequence:
                    logits, state = self.step(torch.tensor([last], device=source.device), state)
                    total += float(logits.log_softmax(-1)[0, token])
                    last = token
                totals[-1].append(total)
        return totals
