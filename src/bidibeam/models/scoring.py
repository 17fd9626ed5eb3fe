"""A network as a search sees it: step by step, or a whole sequence at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from bidibeam.data.tokenization import PAD_ID, START_ID
from bidibeam.errors import RunError
from bidibeam.hypotheses import Direction
from bidibeam.models.decoder import Decoders
from bidibeam.models.gru import BidirectionalModel, attention_mask
from bidibeam.models.projection import projected_cross_entropy


@dataclass(frozen=True, slots=True)
class GRUState:
    """A search's rows. Only `hidden` exists once per row; the rest once per source.

    Attributes:
        hidden: (1, sources, beams, decoder)
        memory: (1, sources, positions, memory)
        keys: (1, sources, positions, attention)
        mask: (sources, 1, positions)
    """

    hidden: Tensor
    memory: Tensor
    keys: Tensor
    mask: Tensor


class GRUScorer:
    """One direction of a network, as a step scorer and as a sequence scorer.

    Args:
        model: The network, in evaluation mode.
        direction: Which of its decoders.

    Raises:
        RunError: If the network has no such decoder.
    """

    def __init__(self, model: BidirectionalModel, direction: Direction) -> None:
        if direction not in model.directions:
            raise RunError(
                f"This run has no {direction.value} decoder, only: {', '.join(model.directions)}. "
                "Train one with both directions."
            )
        index = model.directions.index(direction)
        network = index if len(model.encoders) > 1 else 0
        self._embedding, self._encoder = model.embedding(index), model.encoders[network]
        self._decoder = _only(model.decoders, model, index)
        self._weight = model.output_weight(index).detach()
        self._bias = model.b_output[index].detach()
        self._extended = torch.cat((self._weight, self._bias.unsqueeze(1)), dim=1)  # (vocabulary, width + 1)
        self._logits = self._weight.new_empty(0)

    @torch.inference_mode()
    def start(self, sources: Tensor) -> GRUState:
        """Read padded sources, (sources, length)."""
        sources = sources.to(self._weight.device)
        lengths = (sources != PAD_ID).sum(1)  # (sources,)
        memory = self._encoder(self._embedding(sources), lengths).unsqueeze(
            0
        )  # (1, sources, positions, memory)
        hidden = self._decoder.initial(memory).unsqueeze(2)  # (1, sources, 1, decoder)
        return GRUState(hidden, memory, self._decoder.keys(memory), attention_mask(lengths, sources.shape[1]))

    @torch.inference_mode()
    def step(self, last_tokens: Tensor, state: GRUState) -> tuple[Tensor, GRUState]:
        """Read one token a row, (rows,); the logits, (rows, vocabulary), stand until the next step."""
        readout, hidden = self._advance(last_tokens, state)
        return self._project(readout), replace(state, hidden=hidden)

    @torch.inference_mode()
    def select(self, state: GRUState, rows: Tensor) -> GRUState:
        """Repeat, reorder and drop rows: (sources, beams)."""
        beams = state.hidden.shape[2]
        hidden = state.hidden.flatten(1, 2)[:, rows.flatten()].view(1, *rows.shape, -1)
        if rows.shape[0] == state.hidden.shape[1]:  # the same sources, in the same order
            return replace(state, hidden=hidden)
        kept = rows[:, 0] // beams  # (sources,)
        return GRUState(hidden, state.memory[:, kept], state.keys[:, kept], state.mask[kept])

    @torch.inference_mode()
    def log_probs(self, sources: Tensor, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        """Log-probabilities of each source's sequences, ids in writing order with the end token if any."""
        beams = max((len(line) for line in sequences), default=0)
        steps = max((len(sequence) for line in sequences for sequence in line), default=0)
        if not beams or not steps:
            return [[0.0] * len(line) for line in sequences]
        targets = torch.full((len(sequences), beams, steps), PAD_ID)
        for line, row in zip(sequences, targets, strict=True):
            for sequence, slot in zip(line, row, strict=False):
                slot[: len(sequence)] = torch.tensor(sequence)
        totals = self._forced(sources, targets.to(self._weight.device)).tolist()
        return [row[: len(line)] for line, row in zip(sequences, totals, strict=True)]

    def _forced(self, sources: Tensor, targets: Tensor) -> Tensor:
        """(sources, beams), summed over the real tokens of `targets`, (sources, beams, steps)."""
        count, beams, steps = targets.shape
        state = self.start(sources)
        state = replace(state, hidden=state.hidden.expand(-1, -1, beams, -1))
        inputs = torch.cat((torch.full_like(targets[..., :1], START_ID), targets[..., :-1]), dim=-1)
        flat = targets.flatten(0, 1)  # (sources * beams, steps)
        totals = torch.zeros(flat.shape[0], device=flat.device)
        for number in range(steps):
            readout, hidden = self._advance(inputs[..., number].flatten(), state)
            state = replace(state, hidden=hidden)
            rows = (flat[:, number] != PAD_ID).nonzero().squeeze(1)  # only what is real is projected
            weights = torch.ones(len(rows), device=flat.device)
            _, losses = projected_cross_entropy(
                readout[rows], self._weight, self._bias, flat[rows, number], weights
            )
            totals.index_add_(0, rows, losses, alpha=-1)
        return totals.view(count, beams)

    def _advance(self, last_tokens: Tensor, state: GRUState) -> tuple[Tensor, Tensor]:
        """The readout, (rows, width), and the new hidden state."""
        words = self._embedding(
            last_tokens.view(1, *state.hidden.shape[1:3])
        )  # (1, sources, beams, embedding)
        readout, hidden = self._decoder.step(words, state.hidden, state.keys, state.memory, state.mask)
        return readout[0], hidden

    def _project(self, readout: Tensor) -> Tensor:
        """Logits, written where the last step's were: fresh memory costs as much as the products.

        The bias is one more column of the weights, since adding it would be another pass over the logits. A
        GPU adds it on the way out, and there an odd width would cost more.
        """
        needed = readout.shape[0] * self._weight.shape[0]
        if self._logits.numel() < needed:
            self._logits = self._weight.new_empty(needed)
        logits = self._logits[:needed].view(readout.shape[0], -1)
        if readout.device.type == "cpu":
            return torch.mm(F.pad(readout, (0, 1), value=1.0), self._extended.t(), out=logits)
        return torch.addmm(self._bias, readout, self._weight.t(), out=logits)


def _only(decoders: Decoders, model: BidirectionalModel, index: int) -> Decoders:
    """One direction's decoder by itself."""
    alone = Decoders(replace(model.settings, directions=(model.settings.directions[index],)))
    alone.load_state_dict({name: tensor[index : index + 1] for name, tensor in decoders.state_dict().items()})
    return alone.to(decoders.v.device).eval()
