"""Log-probabilities of sequences that are known: whole sequences at once, of similar length together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bidibeam import work
from bidibeam.models.huggingface.attention import ForcedReading, Pass

if TYPE_CHECKING:
    from bidibeam.models.huggingface.decoders import Decoder
    from bidibeam.models.huggingface.heads import Head
    from bidibeam.models.huggingface.states import HFState

SCORED_TOKENS = 1 << 14
"""Tokens scored in one forced pass, padding included: a bound on the memory needed."""


def forced_log_probs(
    decoder: Decoder, head: Head, state: HFState, sequences: Sequence[Sequence[Sequence[int]]]
) -> list[list[float]]:
    """What a model makes of each source's sequences, ids in writing order with the end token if any.

    Args:
        decoder: The model's.
        head: The model's.
        state: The sources, without hypotheses.
        sequences: Those of each source.
    """
    totals = [[0.0] * len(line) for line in sequences]
    for part in _passes(sequences):
        found = _forced(decoder, head, state, [(source, sequences[source][place]) for source, place in part])
        for (source, place), value in zip(part, found, strict=True):
            totals[source][place] = value
    return totals


def _forced(
    decoder: Decoder, head: Head, state: HFState, asked: Sequence[tuple[int, Sequence[int]]]
) -> list[float]:
    """Log-probabilities of sequences, each with the number of its source; sources rise."""
    device = decoder.device
    owners = sorted({source for source, _ in asked})
    by_owner: list[list[Sequence[int]]] = [[] for _ in owners]
    numbers = {source: number for number, source in enumerate(owners)}
    for source, sequence in asked:
        by_owner[numbers[source]].append(sequence)
    each = max(map(len, by_owner))
    longest = max(len(sequence) for _, sequence in asked)
    table = torch.full((len(owners), each, longest), -1)  # (sources, sequences of each, tokens)
    for number, line in enumerate(by_owner):
        for place, sequence in enumerate(line):
            table[number, place, : len(sequence)] = torch.tensor(sequence)
    targets = table.view(-1, longest).to(device)  # (rows, tokens)
    hidden = _before(decoder, state.of_sources(torch.tensor(owners, device=device)), targets.clamp(min=0))
    is_token = targets >= 0  # (rows, tokens)
    work.count(projected_rows=int(is_token.sum()))
    found = torch.zeros(targets.shape, dtype=torch.float64, device=device)
    found[is_token] = head.log_probs(hidden[is_token], targets[is_token]).double()
    totals = found.sum(1).view(len(owners), each).tolist()
    return [totals[number][place] for number, line in enumerate(by_owner) for place in range(len(line))]


def _before(decoder: Decoder, state: HFState, targets: Tensor) -> Tensor:
    """What the decoder says before each token of (rows, tokens), as many rows of each source."""
    each = len(targets) // state.sources
    begun = state.read if state.begin is None else state.begin.shape[1]
    decoder.check_room(begun + targets.shape[1] - 1)
    if state.begin is not None:
        begin = state.begin.repeat_interleave(each, 0)  # (rows, start)
        read = torch.cat((begin, targets[:, :-1]), dim=1)
        hidden = decoder.said(read, Pass(ForcedReading(None), state.cross), state)
        return hidden[:, begin.shape[1] - 1 :]
    last = state.last.repeat_interleave(each, 0)[:, None]  # (rows, 1, size)
    if targets.shape[1] == 1:
        return last
    hidden = decoder.said(targets[:, :-1], Pass(ForcedReading(state.prompt)), state)
    return torch.cat((last, hidden), dim=1)


def _passes(sequences: Sequence[Sequence[Sequence[int]]]) -> Iterator[list[tuple[int, int]]]:
    """The sequences scored together, as (source, place): of similar length, and not too many tokens."""
    numbered = sorted(
        (len(sequence), source, place)
        for source, line in enumerate(sequences)
        for place, sequence in enumerate(line)
        if len(sequence)
    )
    part: list[tuple[int, int]] = []
    for length, source, place in numbered:
        if part and (len(part) + 1) * length > SCORED_TOKENS:
            yield sorted(part)
            part = []
        part.append((source, place))
    if part:
        yield sorted(part)
