"""One direction of the network as a search sees it: step by step, or whole sequences by teacher forcing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bidibeam import work
from bidibeam.data.tokenization import PAD_ID, START_ID
from bidibeam.models.gru.projection import projected_cross_entropy
from bidibeam.models.networks import check_direction
from bidibeam.search.candidates import round_up
from bidibeam.search.graphs import GraphCache

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from bidibeam.hypotheses import Direction
    from bidibeam.models.gru.network import BidirectionalModel

BUCKET = 8
"""A captured search has room for a multiple of so many positions, so that few shapes come about."""


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

    def of_sources(self, sources: Tensor) -> GRUState:
        """The same with what exists once per source for some of them, (sources left,); `hidden` stays."""
        return GRUState(self.hidden, self.memory[:, sources], self.keys[:, sources], self.mask[sources])


class GRUScorer:
    """One direction of a network in evaluation mode, as a step scorer and for teacher forcing."""

    def __init__(self, model: BidirectionalModel, direction: Direction) -> None:
        check_direction(direction, model.directions, "This run")
        index = model.directions.index(direction)
        self.embedding = model.embedding(index)
        self._encoder = model.encoders[index if len(model.encoders) > 1 else 0]
        self.decoder = model.decoders.only(model.settings, index)
        self._weight = model.output_weight(index).detach()  # (vocabulary, width)
        self._bias = model.b_output[index].detach()  # (vocabulary,)
        self.graphs = GraphCache()

    @torch.inference_mode()
    def start(self, sources: Tensor) -> GRUState:
        """Read padded sources, (sources, length)."""
        sources = sources.to(self._weight.device)
        lengths = (sources != PAD_ID).sum(1)  # (sources,)
        memory = self._encoder(self.embedding(sources), lengths)[None]  # (1, sources, positions, memory)
        hidden = self.decoder.initial(memory).unsqueeze(2)  # (1, sources, 1, decoder)
        return GRUState(hidden, memory, self.decoder.keys(memory), attention_mask(lengths, sources.shape[1]))

    @torch.inference_mode()
    def step(self, last_tokens: Tensor, state: GRUState) -> tuple[Tensor, GRUState]:
        """Read one token per row, (rows,); return logits, (rows, vocabulary), and the new state."""
        work.count(projected_rows=len(last_tokens))
        logits, hidden = self.advance(last_tokens, state)
        return logits, replace(state, hidden=hidden)

    def advance(self, last_tokens: Tensor, state: GRUState) -> tuple[Tensor, Tensor]:
        """Return the logits after one more token per row, and the new hidden states."""
        rows = last_tokens.view(1, *state.hidden.shape[1:3])
        words = self.embedding(rows)  # (1, sources, beams, embedding)
        readout, hidden = self.decoder.step(words, state.hidden, state.keys, state.memory, state.mask)
        return self._project(readout[0]), hidden

    @torch.inference_mode()
    def select(self, state: GRUState, rows: Tensor, sources: Tensor | None = None) -> GRUState:
        """Repeat, reorder and drop rows: (sources, beams)."""
        hidden = state.hidden.flatten(1, 2)[:, rows.flatten()].view(1, *rows.shape, -1)
        return replace(state if sources is None else state.of_sources(sources), hidden=hidden)

    def static_key(self, state: GRUState) -> Hashable:
        """Return where the weights are, and the room for encoder states."""
        return self._weight.data_ptr(), self.decoder.v.data_ptr(), round_up(state.memory.shape[2], BUCKET)

    def static_state(self, state: GRUState, steps: int) -> StaticGRUState:  # noqa: ARG002 (it does not grow)
        """Return memory for states like this one."""
        return StaticGRUState(self, state)

    @torch.inference_mode()
    def log_probs(self, sources: Tensor, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        """Score each source's sequences, ids in writing order with the end token if any.

        Sequences of one source share the work on their common beginnings: each distinct prefix is read, and
        projected, once.
        """
        levels, rows, tokens, owners = distinct_prefixes(sequences)
        if not tokens:
            return [[0.0] * len(line) for line in sequences]
        device = self._weight.device
        read = self.start(sources)
        hidden, readouts = read.hidden, []
        for level in levels:
            here, parents, last = torch.tensor(level, device=device)  # (prefixes,) each
            state = read.of_sources(here)
            words = self.embedding(last).view(1, len(last), 1, -1)
            parent = hidden[:, parents]  # (1, prefixes, 1, decoder)
            readout, hidden = self.decoder.step(words, parent, state.keys, state.memory, state.mask)
            readouts.append(readout[0])
        readout = torch.cat(readouts)  # (prefixes, width)
        row, token, owner = torch.tensor((rows, tokens, owners), device=device)  # (targets,) each

        def logits_at(readout: Tensor, tokens: Tensor) -> Tensor:
            """One logit per row of (rows, width): (rows,)."""
            logits: Tensor = torch.linalg.vecdot(readout, self._weight[tokens]) + self._bias[tokens]
            return logits

        first = torch.zeros(len(readout), dtype=torch.long, device=device)
        first[row] = token  # any target of a row: its loss gives the row's log-sum-exp
        work.count(projected_rows=len(readout))
        ones = torch.ones(len(readout), device=device)
        _, losses = projected_cross_entropy(readout, self._weight, self._bias, first, ones)
        log_sums = losses + logits_at(readout, first)  # (prefixes,)
        log_probs = logits_at(readout[row], token) - log_sums[row]  # (targets,)
        totals = torch.zeros(sum(map(len, sequences)), dtype=torch.float64, device=device)
        values = iter(totals.index_add_(0, owner, log_probs.double()).tolist())
        return [list(islice(values, len(line))) for line in sequences]

    def _project(self, readout: Tensor) -> Tensor:
        """The logits of (rows, width): (rows, vocabulary)."""
        return torch.addmm(self._bias, readout, self._weight.t())


class StaticGRUState:
    """A state in memory that never moves, with room for sources that are somewhat longer."""

    def __init__(self, scorer: GRUScorer, like: GRUState) -> None:
        self._advance, self.dtype = scorer.advance, like.hidden.dtype
        _, sources, positions, memory = like.memory.shape
        room = round_up(positions, BUCKET)
        self._state = GRUState(
            like.hidden.new_zeros(like.hidden.shape),
            like.memory.new_zeros(1, sources, room, memory),
            like.keys.new_zeros(1, sources, room, like.keys.shape[3]),
            like.mask.new_zeros(sources, 1, room),
        )

    def load(self, state: GRUState) -> None:
        """Copy a state here; attention sees nothing behind its positions."""
        positions = state.memory.shape[2]
        self._state.hidden.copy_(state.hidden)
        self._state.memory[:, :, :positions] = state.memory
        self._state.keys[:, :, :positions] = state.keys
        self._state.mask[..., :positions] = state.mask
        self._state.mask[..., positions:] = -torch.inf

    def step(self, tokens: Tensor) -> Tensor:
        """Read one token per row, (rows,); return logits, (rows, vocabulary)."""
        logits, hidden = self._advance(tokens, self._state)
        self._state.hidden.copy_(hidden)
        return logits

    def reorder(self, rows: Tensor) -> None:
        """Put what row `rows[i]` holds into row i."""
        hidden = self._state.hidden.flatten(1, 2)  # (1, rows, decoder)
        hidden.copy_(hidden.index_select(1, rows))


def distinct_prefixes(
    sequences: Sequence[Sequence[Sequence[int]]],
) -> tuple[list[tuple[list[int], list[int], list[int]]], list[int], list[int], list[int]]:
    """Gather the distinct proper prefixes of each source's sequences, shortest first.

    Returns:
        By length, of each prefix the source, the row of the prefix one token shorter in the level before, and
        the last token (at first the start token); then, for every token of every sequence, the row of the
        prefix it follows among all levels, the token, and the number of its sequence.
    """
    levels, rows, tokens, owners, offset = [], [], [], [], 0
    numbered = [(source, sequence) for source, line in enumerate(sequences) for sequence in line]
    last_rows = [source for source, _ in numbered]  # each sequence's prefix in the level before
    for length in range(max((len(sequence) for _, sequence in numbered), default=0)):
        known: dict[tuple[int, int], tuple[int, int]] = {}  # parent and token: row and source
        for number, (source, sequence) in enumerate(numbered):
            if length >= len(sequence):
                continue
            prefix = last_rows[number], sequence[length - 1] if length else START_ID
            last_rows[number], _ = known.setdefault(prefix, (len(known), source))
            rows.append(offset + last_rows[number])
            tokens.append(sequence[length])
            owners.append(number)
        parents, last = map(list, zip(*known, strict=True))
        levels.append(([source for _, source in known.values()], parents, last))
        offset += len(known)
    return levels, rows, tokens, owners


def attention_mask(lengths: Tensor, width: int) -> Tensor:
    """0 at real positions and -inf behind them: (batch, 1, width)."""
    is_padding = torch.arange(width, device=lengths.device) >= lengths.unsqueeze(1)  # (batch, width)
    zeros = torch.zeros(is_padding.shape, device=lengths.device)
    return zeros.masked_fill_(is_padding, -torch.inf).unsqueeze(1)
