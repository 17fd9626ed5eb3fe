"""A network as a search sees it: step by step, or a whole sequence at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from bidibeam import work
from bidibeam.data.tokenization import PAD_ID
from bidibeam.errors import RunError
from bidibeam.gpu import current
from bidibeam.hypotheses import Direction
from bidibeam.models.gru.decoder import Decoders
from bidibeam.models.gru.forcing import FlatLines, distinct_prefixes, flattened
from bidibeam.models.gru.joined import Joined, kernels_of
from bidibeam.models.gru.network import BidirectionalModel, attention_mask
from bidibeam.models.gru.projection import projected_cross_entropy
from bidibeam.remembered import once
from bidibeam.turns import away, pause


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

    def of_sources(self, lines: Tensor | None) -> GRUState:
        """What exists once per source, for some of them, (lines,), or for all; `hidden` is left as it is."""
        if lines is None:
            return self
        return GRUState(self.hidden, self.memory[:, lines], self.keys[:, lines], self.mask[lines])


class OfThread(threading.local):
    """What a scorer keeps from one call to the next, for each thread its own: threads may search at once.

    Attributes:
        logits: Memory for those of a step.
    """

    def __init__(self) -> None:
        self.logits = torch.empty(0)


class GRUScorer:
    """One direction of a network, as a step scorer and as a sequence scorer; in several threads at once.

    Attributes:
        embedding: Its words.
        decoder: Its decoder, alone.

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
                "Train one with both directions, or choose a --strategy that does without."
            )
        index = model.directions.index(direction)
        network = index if len(model.encoders) > 1 else 0
        self.embedding, self._encoder = model.embedding(index), model.encoders[network]
        self.decoder = _only(model.decoders, model, index)
        self._weight = model.output_weight(index).detach()
        self._bias = model.b_output[index].detach()
        self._extended = torch.cat((self._weight, self._bias.unsqueeze(1)), dim=1)  # (vocabulary, width + 1)
        self._own = OfThread()
        kernels = kernels_of(self._weight.device)
        self._joined = None if kernels is None else Joined([self.decoder], kernels)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._weight.device

    @property
    def vocabulary_size(self) -> int:
        """How many logits a row has."""
        return self._weight.shape[0]

    @torch.inference_mode()
    def start(self, sources: Tensor) -> GRUState:
        """Read padded sources, (sources, length)."""
        sources = sources.to(self._weight.device)
        memory, mask = once(lambda: self._read(sources), sources, self._encoder, self.embedding)
        return self._begin(memory.unsqueeze(0), mask)

    @torch.inference_mode()
    def start_beside(self, other: GRUScorer, sources: Tensor) -> tuple[GRUState, GRUState]:
        """Both states for the same sources; an encoder that the two share reads them once."""
        state = self.start(sources)
        if other._encoder is not self._encoder:
            return state, other.start(sources)
        return state, other._begin(state.memory, state.mask)

    @torch.inference_mode()
    def step(self, last_tokens: Tensor, state: GRUState) -> tuple[Tensor, GRUState]:
        """Read one token a row, (rows,); the logits, (rows, vocabulary), stand until the next step."""
        own = self._own
        own.logits = grown(own.logits, len(last_tokens) * self.vocabulary_size, like=self._weight)
        return self.step_into(own.logits, last_tokens, state)

    @torch.inference_mode()
    def step_into(self, memory: Tensor, last_tokens: Tensor, state: GRUState) -> tuple[Tensor, GRUState]:
        """The same with the logits written into given memory: fresh memory costs as much as the products."""
        words = last_tokens.view(1, *state.hidden.shape[1:3])  # (1, sources, beams)
        readout, hidden = self._advance(words, state)
        rows = len(last_tokens)
        work.count(projected_rows=rows)
        logits = memory[: rows * self.vocabulary_size].view(rows, -1)
        self.project_into(logits, readout)
        return logits, replace(state, hidden=hidden)

    def project_into(self, logits: Tensor, readout: Tensor) -> None:
        """Write the logits of (rows, width).

        The bias is one more column of the weights, since adding it would be another pass over the logits. A
        GPU adds it on the way out, and there an odd width would cost more.
        """
        if readout.device.type == "cpu":
            torch.mm(F.pad(readout, (0, 1), value=1.0), self._extended.t(), out=logits)
        else:
            torch.addmm(self._bias, readout, self._weight.t(), out=logits)

    @torch.inference_mode()
    def select(self, state: GRUState, rows: Tensor, kept: Sequence[int] | None = None) -> GRUState:
        """Repeat, reorder and drop rows: (sources, beams)."""
        beams, size = state.hidden.shape[2:]
        hidden = state.hidden.flatten(1, 2)[:, rows.flatten()].view(1, *rows.shape, size)
        if kept is None:
            return replace(state, hidden=hidden)
        lines = rows[:, 0] // beams  # (sources,)
        return replace(state.of_sources(lines), hidden=hidden)

    @torch.inference_mode()
    def log_probs(self, sources: Tensor, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        """Log-probabilities of each source's sequences, ids in writing order with the end token if any.

        All of them in one forced pass, in which sequences of one source share the work on what they begin
        with: each distinct prefix is read, and projected, once. Sequences that are arrays as well
        (`bidibeam.models.gru.forcing.FlatLines`) are taken as such.
        """
        with current(self.device):
            return self._log_probs(sources, flattened(sequences))

    def _log_probs(self, sources: Tensor, lines: FlatLines) -> list[list[float]]:
        counts = lines.counts.tolist()
        if not len(lines.tokens):
            return [[0.0] * count for count in counts]
        steps, targets = distinct_prefixes(lines).to(self._weight.device)
        read = once(lambda: self.start(sources), sources, self)
        state, readouts = read, []
        for forced in steps:
            pause()
            hidden = state.hidden.flatten(1, 2)[:, forced.parents]  # (1, lines, width, decoder)
            state = replace(read.of_sources(forced.sources), hidden=hidden)
            readout, hidden = self._advance(forced.tokens.unsqueeze(0), state)
            state = replace(state, hidden=hidden)
            readouts.append(readout[forced.rows])
        totals = iter(self._totals(torch.cat(readouts), *targets, count=sum(counts)))
        return [list(islice(totals, count)) for count in counts]

    def _totals(
        self, readout: Tensor, rows: Tensor, tokens: Tensor, owners: Tensor, *, count: int
    ) -> list[float]:
        """Every sequence's log-probabilities summed.

        Args:
            readout: (rows, width), of all prefixes.
            rows: (targets,), the prefix that each token follows.
            tokens: (targets,)
            owners: (targets,), the sequences they are of.
            count: How many sequences there are.
        """
        weight, bias = self._weight, self._bias
        first = torch.zeros(len(readout), dtype=torch.long, device=readout.device)
        first[rows] = tokens  # any target of a row: its loss gives the row's log-sum-exp
        ones = torch.ones(len(readout), device=readout.device)
        work.count(projected_rows=len(readout))
        _, losses = projected_cross_entropy(readout, weight, bias, first, ones)
        log_sums = losses + _logits_at(readout, first, weight, bias)  # (rows,)
        found = _logits_at(readout[rows], tokens, weight, bias) - log_sums[rows]  # (targets,)
        totals = torch.zeros(count, dtype=torch.float64, device=readout.device)
        totals.index_add_(0, owners, found.double())
        with away():
            summed: list[float] = totals.tolist()
        return summed

    def _read(self, sources: Tensor) -> tuple[Tensor, Tensor]:
        """Padded sources, (sources, length), as the encoder reads them, and where there is something."""
        lengths = (sources != PAD_ID).sum(1)  # (sources,)
        memory = self._encoder(self.embedding(sources), lengths)  # (sources, positions, memory)
        return memory, attention_mask(lengths, sources.shape[1])

    def _begin(self, memory: Tensor, mask: Tensor) -> GRUState:
        hidden = self.decoder.initial(memory).unsqueeze(2)  # (1, sources, 1, decoder)
        return GRUState(hidden, memory, self.decoder.keys(memory), mask)

    def _advance(self, tokens: Tensor, state: GRUState) -> tuple[Tensor, Tensor]:
        """Read (1, sources, beams) tokens: the readout, (rows, width), and the new hidden state."""
        words = self.embedding(tokens)  # (1, sources, beams, embedding)
        if self._joined is not None:
            lines, hidden = words.flatten(0, 2), state.hidden
            read, new = self._joined.step(
                [hidden.shape[1]], lines, hidden.flatten(0, 2), state.keys[0], state.memory[0], state.mask
            )
            return read, new.view(hidden.shape)
        readout, hidden = self.decoder.step(words, state.hidden, state.keys, state.memory, state.mask)
        return readout[0], hidden


def grown(memory: Tensor, needed: int, *, like: Tensor) -> Tensor:
    """The same memory, or new one where it is too small or elsewhere: (at least `needed`,)."""
    if memory.numel() >= needed and memory.device == like.device:
        return memory
    return like.new_empty(needed)


def _logits_at(readout: Tensor, tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One logit for each row of (rows, width): (rows,)."""
    found: Tensor = torch.linalg.vecdot(readout, weight[tokens]) + bias[tokens]
    return found


def _only(decoders: Decoders, model: BidirectionalModel, index: int) -> Decoders:
    """One direction's decoder by itself."""
    alone = Decoders(replace(model.settings, directions=(model.settings.directions[index],)))
    alone.load_state_dict({name: tensor[index : index + 1] for name, tensor in decoders.state_dict().items()})
    return alone.to(decoders.v.device).eval()
