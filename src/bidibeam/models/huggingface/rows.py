"""Pairs of token ids in a few arrays, from which batches are cut without a loop over tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of ids, one behind the other.

    Attributes:
        ids: (tokens,), the ids of all rows, and perhaps of others.
        starts: (rows,), where each begins.
        lengths: (rows,), how long each is.
    """

    ids: Integers
    starts: Integers
    lengths: Integers

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Rows:
        """Rows from lists."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        return cls(ids, np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """All rows of several, in order."""
        sizes = [len(part.ids) for part in parts]
        before = np.cumsum([0, *sizes[:-1]])
        return cls(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.starts + offset for part, offset in zip(parts, before, strict=True)]),
            np.concatenate([part.lengths for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def row(self, index: int) -> list[int]:
        """One row, as a list."""
        start = int(self.starts[index])
        row: list[int] = self.ids[start : start + int(self.lengths[index])].tolist()
        return row

    def taken(self, indices: Any) -> Rows:
        """Some of the rows, in any order; the ids stay where they are."""
        return Rows(self.ids, self.starts[indices], self.lengths[indices])

    def padded(self, value: int) -> Tensor:
        """(rows, longest), filled up on the right."""
        places = np.arange(self.lengths.max(initial=0))  # (longest,)
        is_token = places < self.lengths[:, None]  # (rows, longest)
        found = self.ids[(self.starts[:, None] + places) * is_token] if len(self.ids) else 0
        return torch.from_numpy(np.where(is_token, found, value))

    def mask(self) -> Tensor:
        """(rows, longest), 1 where there is an id, 0 in the padding."""
        places = np.arange(self.lengths.max(initial=0))
        return torch.from_numpy((places < self.lengths[:, None]).astype(np.int64))

    def followed_by(self, others: Rows) -> Rows:
        """Each row with that of `others` behind it."""
        return Rows.of([[*self.row(index), *others.row(index)] for index in range(len(self))])


@dataclass(frozen=True, slots=True, eq=False)
class TokenPairs(Sequence[Mapping[str, list[int]]]):
    """Pairs as `PairCollator` takes them, which need a few bytes a token and no time to batch.

    Each is {"input_ids": the source, "labels": the response}. A `DataLoader` takes a batch by one call.

    Attributes:
        sources: The sources.
        responses: The responses, as many.
    """

    sources: Rows
    responses: Rows

    @classmethod
    def of(cls, pairs: Sequence[Mapping[str, Any]]) -> TokenPairs:
        """Pairs from mappings of lists, or as they are if they are such pairs already."""
        if isinstance(pairs, TokenPairs):
            return pairs
        return cls(
            Rows.of([pair["input_ids"] for pair in pairs]), Rows.of([pair["labels"] for pair in pairs])
        )

    @classmethod
    def joined(cls, parts: Sequence[TokenPairs]) -> TokenPairs:
        """All pairs of several, in order."""
        return cls(
            Rows.joined([part.sources for part in parts]), Rows.joined([part.responses for part in parts])
        )

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, index: int) -> dict[str, list[int]]: ...

    @overload
    def __getitem__(self, index: slice) -> TokenPairs: ...

    def __getitem__(self, index: int | slice) -> dict[str, list[int]] | TokenPairs:
        if isinstance(index, slice):
            return TokenPairs(self.sources.taken(index), self.responses.taken(index))
        return {"input_ids": self.sources.row(index), "labels": self.responses.row(index)}

    def __getitems__(self, indices: Iterable[int]) -> TokenPairs:
        """What a `DataLoader` asks for: the pairs of one batch."""
        chosen = np.fromiter(indices, np.int64)
        return TokenPairs(self.sources.taken(chosen), self.responses.taken(chosen))
