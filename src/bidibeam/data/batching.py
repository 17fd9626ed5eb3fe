"""Pairs of token ids to batches; targets of a run's reverse direction are reversed here."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bidibeam.data.prepared import PairArrays
from bidibeam.data.tokenization import END_ID, PAD_ID, START_ID
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction

SOURCE_EDGES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
RESPONSE_EDGES = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480)
"""Lengths are grouped up to these: little padding in a batch, and few shapes in all."""
IGNORED = -100
"""The label that no loss counts, in transformers as in PyTorch."""

Integers = np.ndarray[Any, np.dtype[np.int64]]


class Batch(NamedTuple):
    """What one training step reads; targets are in each direction's writing order.

    The inputs are the token that each step reads: the start token, then the target of the step before.
    """

    sources: Tensor  # (batch, source), each ended and then padded
    source_lengths: Tensor  # (batch,), the end token counted
    inputs: Tensor  # (directions, response, batch)
    targets: Tensor  # (directions, response, batch), ended and then padded


@dataclass(frozen=True, slots=True, eq=False)
class TokenPairs:
    """Pairs as a model reads and writes them, special tokens included, rows end to end, in reading order."""

    sources: Integers  # (source tokens,)
    source_lengths: Integers  # (pairs,)
    responses: Integers  # (response tokens,)
    response_lengths: Integers  # (pairs,)

    def __len__(self) -> int:
        return len(self.source_lengths)

    @classmethod
    def from_prepared(
        cls,
        pairs: PairArrays,
        *,
        source_end: Sequence[int] = (END_ID,),
        response_end: int = END_ID,
        max_source_length: int | None = None,
        max_response_length: int | None = None,
    ) -> TokenPairs:
        """Prepared ids, each ended: the last tokens of long sources, and no pair with a longer response."""
        longest = math.inf if max_response_length is None else max_response_length
        kept = np.flatnonzero(pairs.response_length < longest)  # the end is a token too
        whole = lengths = pairs.source_length[kept]
        if max_source_length is not None:
            lengths = np.minimum(whole, max(1, max_source_length - len(source_end)))
        sources = _end_rows(pairs.tokens, pairs.source_start[kept] + whole - lengths, lengths, source_end)
        starts, lengths = pairs.response_start[kept], pairs.response_length[kept]
        return cls(*sources, *_end_rows(pairs.tokens, starts, lengths, [response_end]))

    def reversed_responses(self, special: Collection[int]) -> Integers:
        """(tokens,), the responses as `reverse_labels` arranges them, special tokens where they were."""
        moving = np.flatnonzero(~np.isin(self.responses, list(special)))  # (moving tokens,)
        rows = np.repeat(np.arange(len(self)), self.response_lengths)[moving]
        counts = np.bincount(rows, minlength=len(self))  # (pairs,)
        first = np.cumsum(counts) - counts  # (pairs,), each row's first among the moving tokens
        mirrored = 2 * first[rows] + counts[rows] - 1 - np.arange(len(moving))
        arranged = self.responses.copy()
        arranged[moving] = self.responses[moving[mirrored]]
        return arranged


def _end_rows(
    tokens: np.ndarray[Any, Any], starts: Integers, lengths: Integers, suffix: Sequence[int]
) -> tuple[Integers, Integers]:
    """Rows of an array of tokens with a suffix behind each, end to end, and their lengths."""
    widths = lengths + len(suffix)  # (rows,)
    ends = np.cumsum(widths)
    positions = np.arange(widths.sum()) - np.repeat(ends - widths, widths)  # (tokens,), within a row
    is_token = positions < np.repeat(lengths, widths)
    ids = np.asarray(tokens)[(np.repeat(starts, widths) + positions) * is_token].astype(np.int64)
    for place, index in enumerate(suffix):
        ids[ends - len(suffix) + place] = index
    return ids, widths


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Which pairs make a batch, the shape it is padded to and its target tokens, end tokens counted."""

    indices: Integers
    source_width: int
    response_width: int
    tokens: int


def group_lengths(source_lengths: Integers, response_lengths: Integers) -> Integers:
    """Returns the widths that pairs are padded to, so that few shapes serve all: (pairs, 2)."""
    columns = []
    for lengths, edges in ((source_lengths, SOURCE_EDGES), (response_lengths, RESPONSE_EDGES)):
        longest = int(np.max(lengths, initial=1))
        used = np.array([*(edge for edge in edges if edge <= 0.8 * longest), longest])
        columns.append(used[np.searchsorted(used, np.asarray(lengths))])
    return np.stack(columns, axis=1)


def plan_batches(
    shapes: Integers, response_lengths: Integers, *, batch_size: int, seed: Sequence[int] | None
) -> list[BatchPlan]:
    """Cuts pairs into batches of one shape each, shuffled by a seed; None keeps a fixed order."""
    generator = np.random.Generator(np.random.PCG64(seed))
    order = np.arange(len(shapes)) if seed is None else generator.permutation(len(shapes))
    order = order[np.lexsort(shapes[order].T)]  # stable, so a shape's pairs stay shuffled
    ordered = shapes[order]
    cuts = np.flatnonzero(np.any(ordered[1:] != ordered[:-1], axis=1)) + 1
    plans = [
        BatchPlan(
            chunk, int(shapes[chunk[0], 0]), int(shapes[chunk[0], 1]), int(response_lengths[chunk].sum())
        )
        for group in np.split(order, cuts)
        for chunk in np.split(group, range(batch_size, len(group), batch_size))
        if len(chunk)
    ]
    return plans if seed is None else [plans[index] for index in generator.permutation(len(plans))]


def pad_sources(sources: Sequence[Sequence[int]]) -> Tensor:
    """Returns token ids of several sources, each ended, as one padded tensor: (sources, length)."""
    width = max((len(source) for source in sources), default=0) + 1
    padded = np.full((len(sources), width), PAD_ID, dtype=np.int64)
    for line, source in zip(padded, sources, strict=True):
        line[: len(source)] = source
        line[len(source)] = END_ID
    return torch.from_numpy(padded)


class TokenBatches:
    """All pairs of a split, ready to be cut into batches on a device.

    A batch is (input_ids, lengths, labels, is_real): (rows, width), (rows,), (directions, rows, response) and
    (rows,). An encoder-decoder reads the source; a decoder-only model reads source and response in one row.
    Labels are in each direction's writing order, padded with -100; `special` ids stay in place there.
    """

    def __init__(
        self,
        pairs: TokenPairs,
        directions: Sequence[Direction],
        *,
        special: Collection[int],
        pad_id: int,
        is_encoder_decoder: bool,
        batch_size: int,
        device: torch.device | str = "cpu",
    ) -> None:
        if not is_encoder_decoder and len(directions) > 1:
            raise SettingsError("A decoder-only model learns one direction: train two models.")
        self.batch_size = batch_size
        self._pad_id, self._is_encoder_decoder = pad_id, is_encoder_decoder
        self._target_lengths = pairs.response_lengths
        self.shapes = group_lengths(pairs.source_lengths - 1, pairs.response_lengths - 1) + 1  # (pairs, 2)
        orders = {Direction.REGULAR: pairs.responses}
        if Direction.REVERSE in directions:
            orders[Direction.REVERSE] = pairs.reversed_responses(special)

        def move(values: np.ndarray[Any, Any]) -> Tensor:
            return torch.from_numpy(values).to(device)

        self._sources = move(pairs.sources)  # (tokens,)
        self._responses = move(np.stack([orders[direction] for direction in directions]))  # (D, tokens)
        self._source_length, self._response_length = move(pairs.source_lengths), move(pairs.response_lengths)
        self._source_start = self._source_length.cumsum(0) - self._source_length
        self._response_start = self._response_length.cumsum(0) - self._response_length

    def __len__(self) -> int:
        return len(self.shapes)

    def plan(self, *, seed: Sequence[int] | None) -> list[BatchPlan]:
        """Cut the split into batches of similar lengths; see `plan_batches`."""
        return plan_batches(self.shapes, self._target_lengths, batch_size=self.batch_size, seed=seed)

    def share(self, plans: Sequence[BatchPlan], processes: int, index: int) -> list[BatchPlan]:
        """One process' part of a step; each has as many batches, since each waits for the others' gradients.

        Of batches that are left over every process takes some rows.
        """
        even = len(plans) - len(plans) % processes
        parts = [self._part(plan, processes, index) for plan in plans[even:]]
        return [*plans[index:even:processes], *parts]

    def _part(self, plan: BatchPlan, processes: int, index: int) -> BatchPlan:
        """One process' rows of a batch; if there are none, a row that counts no tokens."""
        rows = plan.indices[index::processes]
        tokens = int(self._target_lengths[rows].sum())
        return replace(plan, indices=rows if len(rows) else plan.indices[:1], tokens=tokens)

    def batch(self, plan: BatchPlan, *, rows: int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Build one batch, filled up to so many rows with pairs that are there already and do not count."""
        device = self._sources.device
        indices = torch.from_numpy(np.resize(plan.indices, rows or len(plan.indices)))
        if device.type == "cuda":  # pinned memory is copied without waiting for the steps before
            indices = indices.pin_memory()
        indices = indices.to(device, non_blocking=True)  # (rows,)
        source_start, lengths = self._source_start[indices], self._source_length[indices]
        response_start, response_lengths = self._response_start[indices], self._response_length[indices]
        labels = _gather_rows(self._responses, response_start, response_lengths, plan.response_width, IGNORED)
        if self._is_encoder_decoder:
            inputs = _gather_rows(self._sources, source_start, lengths, plan.source_width, self._pad_id)
        else:
            width = plan.source_width + plan.response_width
            inputs = _gather_rows(self._sources, source_start, lengths, width, IGNORED)
            offset = response_start - lengths  # so that the response begins where the source ends
            whole = lengths + response_lengths
            behind = _gather_rows(self._responses[0], offset, whole, width, self._pad_id)
            inputs, lengths = torch.where(inputs == IGNORED, behind, inputs), whole
        is_real = torch.arange(len(indices), device=device) < len(plan.indices)  # (rows,)
        return inputs, lengths, labels, is_real


def _gather_rows(tokens: Tensor, starts: Tensor, lengths: Tensor, width: int, fill: int) -> Tensor:
    """Rows of (..., tokens), filled up on the right: (..., rows, width)."""
    positions = torch.arange(width, device=starts.device)  # (width,)
    is_token = positions < lengths.unsqueeze(1)  # (rows, width)
    index = ((starts.unsqueeze(1) + positions) * is_token).clamp(min=0)  # (rows, width)
    return torch.where(is_token, tokens[..., index], fill)


class PairBatches(TokenBatches):
    """Prepared pairs as a network of our own reads them: a batch is a `Batch`."""

    def __init__(
        self,
        pairs: PairArrays,
        directions: Sequence[Direction],
        *,
        batch_size: int,
        device: torch.device | str = "cpu",
    ) -> None:
        ids: dict[str, Any] = {"special": {END_ID}, "pad_id": PAD_ID, "is_encoder_decoder": True}
        ended = TokenPairs.from_prepared(pairs)
        super().__init__(ended, directions, **ids, batch_size=batch_size, device=device)

    def batch(self, plan: BatchPlan, *, rows: int | None = None) -> Batch:
        """Builds one batch, filled up to so many rows with sources that have no targets."""
        sources, lengths, labels, is_real = super().batch(plan, rows=rows)
        is_target = (labels != IGNORED) & is_real.unsqueeze(1)  # (directions, rows, response)
        targets = torch.where(is_target, labels, PAD_ID).transpose(1, 2).contiguous()
        first = torch.full_like(targets[:, :1], START_ID)
        return Batch(sources, lengths, torch.cat((first, targets[:, :-1]), dim=1), targets)
