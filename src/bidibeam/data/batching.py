"""Prepared pairs to batches of ids; here alone targets are reversed for the reverse direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bidibeam.data.prepared import PairArrays
from bidibeam.data.tokenization import END_ID, PAD_ID, START_ID
from bidibeam.hypotheses import Direction

SOURCE_EDGES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
RESPONSE_EDGES = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480)
"""Lengths are grouped up to these: little padding in a batch, and few shapes in all."""

Integers = np.ndarray[Any, np.dtype[np.int64]]


class Batch(NamedTuple):
    """What one training step reads; targets are in each direction's writing order.

    The inputs are the token that each step reads: the start token, then the target of the step before.
    """

    sources: Tensor  # (batch, source), each ended and then padded
    source_lengths: Tensor  # (batch,), the end token counted
    inputs: Tensor  # (directions, response, batch)
    targets: Tensor  # (directions, response, batch), ended and then padded


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


class PairBatches:
    """All pairs of a split, ready to be cut into batches on a device, with targets for each direction."""

    def __init__(
        self,
        pairs: PairArrays,
        directions: Sequence[Direction],
        *,
        batch_size: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.directions = list(directions)
        self.batch_size = batch_size
        self.shapes = group_lengths(pairs.source_length, pairs.response_length) + 1  # (pairs, 2)
        self._target_lengths = np.asarray(pairs.response_length, dtype=np.int64) + 1  # (pairs,)

        def move(values: np.ndarray[Any, Any]) -> Tensor:
            return torch.from_numpy(np.array(values, dtype=np.int64)).to(device)

        self._tokens = move(pairs.tokens)
        self._source_start, self._source_length = move(pairs.source_start), move(pairs.source_length)
        self._response_start, self._response_length = move(pairs.response_start), move(pairs.response_length)

    def __len__(self) -> int:
        return len(self.shapes)

    def plan(self, *, seed: Sequence[int] | None) -> list[BatchPlan]:
        """Cuts the split into batches of similar lengths; see `plan_batches`."""
        return plan_batches(self.shapes, self._target_lengths, batch_size=self.batch_size, seed=seed)

    def batch(self, plan: BatchPlan, *, rows: int | None = None) -> Batch:
        """Builds one batch, filled up to `rows` with empty sources and no targets."""
        device = self._tokens.device
        indices = torch.from_numpy(plan.indices)
        if device.type == "cuda":  # pinned memory is copied without waiting for the steps before
            indices = indices.pin_memory()
        indices = indices.to(device, non_blocking=True)
        fill = (0, (rows or len(indices)) - len(indices))
        source_lengths = torch.nn.functional.pad(self._source_length[indices], fill)  # (rows,)
        response_lengths = torch.nn.functional.pad(self._response_length[indices], fill, value=-1)
        source_start = torch.nn.functional.pad(self._source_start[indices], fill)
        response_start = torch.nn.functional.pad(self._response_start[indices], fill)
        sources = self._gather(source_start, source_lengths, plan.source_width, Direction.REGULAR)
        targets = torch.stack(
            [
                self._gather(response_start, response_lengths, plan.response_width, direction).t()
                for direction in self.directions
            ]
        )  # (directions, response, batch)
        first = torch.full_like(targets[:, :1], START_ID)
        inputs = torch.cat((first, targets[:, :-1]), dim=1)
        return Batch(sources, source_lengths + 1, inputs, targets)

    def _gather(self, starts: Tensor, lengths: Tensor, width: int, direction: Direction) -> Tensor:
        """Returns tokens in a direction's order, ended, then padded: (rows, width)."""
        positions = torch.arange(width, device=starts.device).unsqueeze(0)  # (1, width)
        lengths = lengths.unsqueeze(1)  # (rows, 1)
        offsets = positions if direction is Direction.REGULAR else lengths - 1 - positions
        is_token = positions < lengths  # (rows, width)
        tokens = self._tokens[(starts.unsqueeze(1) + offsets) * is_token]
        return torch.where(is_token, tokens, torch.where(positions == lengths, END_ID, PAD_ID))
