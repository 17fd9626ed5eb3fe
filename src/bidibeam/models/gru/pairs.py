"""Two directions of a network side by side: one search serves both."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bidibeam import work
from bidibeam.models.gru.joined import Joined, kernels_of
from bidibeam.models.gru.scorer import GRUScorer, GRUState, OfThread, grown
from bidibeam.protocols import StepScorer


@dataclass(frozen=True, slots=True)
class PairState:
    """Both directions' rows, the first's before the second's."""

    first: GRUState
    second: GRUState

    @property
    def first_sources(self) -> int:
        """How many of the sources are the first direction's."""
        return self.first.hidden.shape[1]


class PairScorer:
    """Two directions of a network side by side, as one step scorer: one search serves both.

    The search is given every source twice, all for the first direction and then all for the second. It keeps
    its own books once for both, and a shared encoder reads the sources once.

    Args:
        first: One direction.
        second: The other.
    """

    def __init__(self, first: GRUScorer, second: GRUScorer) -> None:
        self._first, self._second = first, second
        self._own = OfThread()

    def start(self, sources: Tensor) -> PairState:
        """Read padded sources, (2 * sources, length): the second half repeats the first."""
        return PairState(*self._first.start_beside(self._second, sources[: len(sources) // 2]))

    def step(self, last_tokens: Tensor, state: PairState) -> tuple[Tensor, PairState]:
        """Read one token a row, (rows,); the logits, (rows, vocabulary), stand until the next step."""
        vocabulary = self._first.vocabulary_size
        rows = state.first_sources * state.first.hidden.shape[2]
        memory = self._own.logits = grown(
            self._own.logits, len(last_tokens) * vocabulary, like=state.first.hidden
        )
        first, second = state.first, state.second
        if rows:  # a direction whose sources are all done has none
            _, first = self._first.step_into(memory, last_tokens[:rows], first)
        if rows < len(last_tokens):
            _, second = self._second.step_into(memory[rows * vocabulary :], last_tokens[rows:], second)
        logits = memory[: len(last_tokens) * vocabulary].view(-1, vocabulary)
        return logits, PairState(first, second)

    def select(self, state: PairState, rows: Tensor, kept: Sequence[int] | None = None) -> PairState:
        """Repeat, reorder and drop rows: (sources, beams)."""
        sources, beams = state.first_sources, state.first.hidden.shape[2]
        middle = sources if kept is None else bisect_left(kept, sources)
        of_first, of_second = (None, None) if kept is None else (kept[:middle], kept[middle:])
        return PairState(
            self._first.select(state.first, rows[:middle], of_first),
            self._second.select(state.second, rows[middle:] - sources * beams, of_second),
        )


@dataclass(frozen=True, slots=True)
class JoinedState:
    """Both directions' rows in one, the first's before the second's.

    Attributes:
        whole: All of them.
        first_sources: How many of the sources are the first direction's.
    """

    whole: GRUState
    first_sources: int


class JoinedScorer:
    """The same for a GPU, which takes a step of both directions in few kernels.

    Args:
        first: One direction.
        second: The other.
        joined: Their decoders.
    """

    def __init__(self, first: GRUScorer, second: GRUScorer, joined: Joined) -> None:
        self._first, self._second, self._joined = first, second, joined
        self._own = OfThread()

    @torch.inference_mode()
    def start(self, sources: Tensor) -> JoinedState:
        """Read padded sources, (2 * sources, length): the second half repeats the first."""
        half = len(sources) // 2
        first, second = self._first.start_beside(self._second, sources[:half])
        whole = GRUState(
            hidden=torch.cat((first.hidden, second.hidden), dim=1),
            memory=torch.cat((first.memory, second.memory), dim=1),
            keys=torch.cat((first.keys, second.keys), dim=1),
            mask=torch.cat((first.mask, second.mask)),
        )
        return JoinedState(whole, half)

    @torch.inference_mode()
    def step(self, last_tokens: Tensor, state: JoinedState) -> tuple[Tensor, JoinedState]:
        """Read one token a row, (rows,); the logits, (rows, vocabulary), stand until the next step."""
        whole, rows = state.whole, len(last_tokens)
        _, sources, beams, size = whole.hidden.shape
        middle = state.first_sources * beams
        read, new = self._joined.step(
            [state.first_sources, sources - state.first_sources],
            self._words(last_tokens, middle),
            whole.hidden.view(rows, size),
            whole.keys[0],
            whole.memory[0],
            whole.mask,
        )
        work.count(projected_rows=rows)
        vocabulary = self._first.vocabulary_size
        self._own.logits = grown(self._own.logits, rows * vocabulary, like=read)
        logits = self._own.logits[: rows * vocabulary].view(rows, vocabulary)
        for scorer, here in ((self._first, slice(0, middle)), (self._second, slice(middle, rows))):
            if here.stop > here.start:  # a direction whose sources are all done has none
                scorer.project_into(logits[here], read[here])
        return logits, JoinedState(replace(whole, hidden=new.view(whole.hidden.shape)), state.first_sources)

    def select(self, state: JoinedState, rows: Tensor, kept: Sequence[int] | None = None) -> JoinedState:
        """Repeat, reorder and drop rows: (sources, beams)."""
        first = state.first_sources if kept is None else bisect_left(kept, state.first_sources)
        return JoinedState(self._first.select(state.whole, rows, kept), first)

    def _words(self, tokens: Tensor, middle: int) -> Tensor:
        """Tokens embedded, (rows, size), the first direction's up to the middle."""
        if self._first.embedding is self._second.embedding:
            words: Tensor = self._first.embedding(tokens)
            return words
        return torch.cat((self._first.embedding(tokens[:middle]), self._second.embedding(tokens[middle:])))


def side_by_side(first: GRUScorer, second: GRUScorer) -> StepScorer[Any]:
    """Two directions as one step scorer, as suits their device."""
    kernels = kernels_of(first.device)
    if kernels is None:
        return PairScorer(first, second)
    return JoinedScorer(first, second, Joined([first.decoder, second.decoder], kernels))
