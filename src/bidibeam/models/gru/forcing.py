"""Sequences to be scored, with what they begin with in common counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from bidibeam.data.tokenization import START_ID

Whole = np.ndarray[tuple[int], np.dtype[np.int64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


Line = Sequence[Sequence[int]]
"""The sequences of one source."""


@runtime_checkable
class FlatLines(Protocol):
    """Each source's sequences as arrays: who has them so need not make an object of each."""

    @property
    def tokens(self) -> Whole:
        """(tokens), those of all sequences, end to end."""
        ...

    @property
    def lengths(self) -> Whole:
        """(sequences), how many tokens each has, one source's behind the other's."""
        ...

    @property
    def counts(self) -> Whole:
        """(sources), how many sequences each has."""
        ...


class _Flat(NamedTuple):
    tokens: Whole
    lengths: Whole
    counts: Whole


def flattened(lines: Sequence[Line] | FlatLines) -> FlatLines:
    """Each source's sequences as arrays."""
    if isinstance(lines, FlatLines):
        return lines
    flat = list(chain.from_iterable(lines))
    lengths = np.fromiter(map(len, flat), np.int64, len(flat))
    tokens = np.fromiter(chain.from_iterable(flat), np.int64, int(lengths.sum()))
    return _Flat(tokens, lengths, np.fromiter(map(len, lines), np.int64, len(lines)))


@dataclass(frozen=True, slots=True)
class Depth:
    """The distinct prefixes of one length, those of a source together, sources in order.

    Attributes:
        sources: (prefixes), whose they are; they rise.
        parents: (prefixes), the prefix that is one token shorter, by its place in the depth before.
        tokens: (prefixes), the last token; the start token in the empty prefix.
        readers: (sequences that go on), the prefix that each of them has.
        targets: (sequences that go on), the token that comes next.
        owners: (sequences that go on), which sequences they are.
    """

    sources: Whole
    parents: Whole
    tokens: Whole
    readers: Whole
    targets: Whole
    owners: Whole


@dataclass(frozen=True, slots=True)
class Forced:
    """One step of a forced pass, in lines of equal width; a source with many prefixes has several lines.

    Attributes:
        sources: (lines), whose they are; None if line n is source n's, as the lines of the step before.
        parents: (lines, width), flat places among the lines of the step before.
        tokens: (lines, width), what is read.
        rows: (prefixes), where the real ones lie among the flattened lines; the others are padding.
    """

    sources: Tensor | None
    parents: Tensor
    tokens: Tensor
    rows: Tensor


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Every distinct proper prefix of each source's sequences, by its length; the empty one is of length 0.

    Attributes:
        sources: How many sources there are.
        sequences: How many sequences, over all sources.
        depths: The prefixes, shortest first.
    """

    sources: int
    sequences: int
    depths: list[Depth]

    def to(self, device: torch.device) -> tuple[list[Forced], tuple[Tensor, ...]]:
        """All of it on a device, sent in one piece.

        Returns:
            The steps of a forced pass, the first of which starts from one row a source. Then, for every token
            of every sequence: its prefix's place among all, the token, and the sequence; each (targets,).
        """
        folded = self._folded()
        arrays = list(chain.from_iterable(folded))
        starts = np.cumsum([0, *(len(here.tokens) for here in self.depths)])
        arrays.append(
            np.concatenate([start + here.readers for start, here in zip(starts, self.depths, strict=False)])
        )
        arrays.append(np.concatenate([here.targets for here in self.depths]))
        arrays.append(np.concatenate([here.owners for here in self.depths]))
        packed = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
        if device.type == "cuda":
            packed = packed.pin_memory().to(device, non_blocking=True)
        parts = packed.split_with_sizes([array.size for array in arrays])
        shaped = [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]
        *by_depth, rows, tokens, owners = shaped
        columns = zip(by_depth[::4], by_depth[1::4], by_depth[2::4], by_depth[3::4], strict=True)
        every = np.arange(self.sources)
        steps = [
            Forced(None if np.array_equal(here[0], every) else sources, *others)
            for here, (sources, *others) in zip(folded, columns, strict=True)
        ]
        return steps, (rows, tokens, owners)

    def _folded(self) -> list[tuple[Numbers, Numbers, Numbers, Numbers]]:
        """By length, what `Forced` has."""
        before = np.arange(self.sources)  # (prefixes of the depth before), their flat places
        folded = []
        for here in self.depths:
            counts = np.bincount(here.sources, minlength=self.sources)  # (sources,)
            width = best_width(counts)
            starts = np.concatenate(([0], np.cumsum(-(-counts // width))))  # (sources + 1), their first lines
            places = np.arange(len(here.sources)) - np.searchsorted(here.sources, here.sources)  # (prefixes,)
            rows = starts[here.sources] * width + places  # (prefixes,): a source's lines lie side by side
            parents = np.zeros(starts[-1] * width, dtype=np.int64)
            tokens = np.full(starts[-1] * width, START_ID, dtype=np.int64)
            parents[rows], tokens[rows] = before[here.parents], here.tokens
            lines = np.repeat(np.arange(self.sources), np.diff(starts))  # (lines,)
            folded.append((lines, parents.reshape(-1, width), tokens.reshape(-1, width), rows))
            before = rows
        return folded


def best_width(counts: Whole) -> int:
    """The width of lines that holds so many prefixes of each source with the least work.

    A line costs its width in rows, padding included, and about as much as one row more, since what its source
    was read as is fetched once a line.
    """
    held = counts[counts > 0]
    widths = np.unique(held)  # (widths,), those tried: with each of them some lines have no padding
    lines = -(-held // widths[:, None])  # (widths, sources)
    return int(widths[(lines.sum(1) * (widths + 1)).argmin()])


def distinct_prefixes(lines: Sequence[Line] | FlatLines) -> Prefixes:
    """Gather the prefixes of each source's sequences; every sequence's last token is a target only."""
    flat = flattened(lines)
    tokens, lengths = flat.tokens, flat.lengths
    starts = np.cumsum(lengths) - lengths  # (sequences,)
    # The prefix that each sequence has so far, named by its place among all of that length.
    having = np.repeat(np.arange(len(flat.counts)), flat.counts)
    sources = np.arange(len(flat.counts))
    size = int(tokens.max()) + 1
    depths = []
    for depth in range(int(lengths.max())):
        going_on = np.flatnonzero(lengths > depth)
        last: Any = tokens[starts[going_on] + depth - 1] if depth else START_ID
        keys = having[going_on] * max(size, START_ID + 1) + last
        names, first, readers = np.unique(keys, return_index=True, return_inverse=True)
        parents = having[going_on][first]  # (prefixes,)
        owners = sources[parents]  # (prefixes,), rising
        depths.append(
            Depth(
                sources=owners,
                parents=parents,
                tokens=names - parents * max(size, START_ID + 1),
                readers=readers,
                targets=tokens[starts[going_on] + depth],
                owners=going_on,
            )
        )
        having = having.copy()
        having[going_on] = readers
        sources = owners
    return Prefixes(len(flat.counts), len(lengths), depths)
