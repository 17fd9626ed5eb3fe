"""Sequences to be scored, with what they begin with in common counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bidibeam.data.tokenization import START_ID

Whole = np.ndarray[tuple[int], np.dtype[np.int64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Depth:
    """The distinct prefixes of one length, those of a source together, sources in order.

    Attributes:
        sources: (prefixes), whose they are.
        columns: (prefixes), each one's place among its source's.
        parents: (prefixes), the column of the prefix that is one token shorter.
        tokens: (prefixes), the last token; the start token in the empty prefix.
        readers: (sequences that go on), the prefix that each of them has.
        targets: (sequences that go on), the token that comes next.
        owners: (sequences that go on), which sequences they are.
    """

    sources: Whole
    columns: Whole
    parents: Whole
    tokens: Whole
    readers: Whole
    targets: Whole
    owners: Whole


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

    def to(self, device: torch.device) -> tuple[list[tuple[Tensor, Tensor, Tensor]], tuple[Tensor, ...]]:
        """All of it on a device, sent in one piece.

        Returns:
            By length: parents' columns and last tokens, both (sources, columns), padded; and where the real
            prefixes lie in the flattened columns, (prefixes,). Then, for every token of every sequence: its
            prefix's place among all, the token, and the sequence; each (targets,).
        """
        arrays = list(chain.from_iterable(self._at(here) for here in self.depths))
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
        triples = list(zip(by_depth[::3], by_depth[1::3], by_depth[2::3], strict=True))
        return triples, (rows, tokens, owners)

    def _at(self, here: Depth) -> tuple[Numbers, Numbers, Numbers]:
        width = int(here.columns.max()) + 1
        parents = np.zeros((self.sources, width), dtype=np.int64)
        tokens = np.full((self.sources, width), START_ID, dtype=np.int64)
        parents[here.sources, here.columns] = here.parents
        tokens[here.sources, here.columns] = here.tokens
        return parents, tokens, here.sources * width + here.columns


def distinct_prefixes(sequences: Sequence[Sequence[Sequence[int]]]) -> Prefixes:
    """Gather the prefixes of each source's sequences; every sequence's last token is a target only."""
    flat = [sequence for line in sequences for sequence in line]
    lengths = np.fromiter(map(len, flat), np.int64, len(flat))  # (sequences,)
    tokens = np.fromiter(chain.from_iterable(flat), np.int64, int(lengths.sum()))
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))  # (sequences,)
    # The prefix that each sequence has so far, named by its place among all of that length.
    having = np.repeat(np.arange(len(sequences)), [len(line) for line in sequences])
    sources, columns = np.arange(len(sequences)), np.zeros(len(sequences), dtype=np.int64)
    size = int(tokens.max()) + 1
    depths = []
    for depth in range(int(lengths.max())):
        going_on = np.flatnonzero(lengths > depth)
        last: Any = tokens[starts[going_on] + depth - 1] if depth else START_ID
        keys = having[going_on] * max(size, START_ID + 1) + last
        names, first, readers = np.unique(keys, return_index=True, return_inverse=True)
        parents = having[going_on][first]  # (prefixes,)
        owners = sources[parents]  # (prefixes,), rising
        new_columns = np.arange(len(names)) - np.searchsorted(owners, owners)
        depths.append(
            Depth(
                sources=owners,
                columns=new_columns,
                parents=columns[parents],
                tokens=names - parents * max(size, START_ID + 1),
                readers=readers,
                targets=tokens[starts[going_on] + depth],
                owners=going_on,
            )
        )
        having = having.copy()
        having[going_on] = readers
        sources, columns = owners, new_columns
    return Prefixes(len(sequences), len(flat), depths)
