"""Matrices as products read them fastest.

A linear layer keeps its weight as (out, in). With few rows, a CPU's products first turn such a matrix around,
and with 10 to 50 rows that takes a third to a half of the time; so copies as (in, out) are kept with the
model. On a GPU the number of products counts, so those of one input are joined. Copies are limited, and a
search looks whether they still say what the parameters say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

COPIED_BYTES = 1 << 27
"""What the copies of one model may take in all."""
PANEL, LEAST_COLUMNS = 320 * 256, 256
"""Numbers in a panel of a large matrix: it fits into a cache. And how many columns it has at least."""
FEW_ROWS = 256
"""Up to so many rows a copy pays on a CPU; with 200 it saves a twentieth, with 400 nothing."""


class Rooms:
    """Memory that is written to again and again: fresh memory costs a tenth of a product with many rows."""

    def __init__(self) -> None:
        self._known: dict[str, Tensor] = {}

    def of(self, kind: str, rows: int, width: int, like: Tensor) -> Tensor:
        """(rows, width), in which the last user of that kind wrote."""
        room = self._known.get(kind)
        if room is None or len(room) < rows or room.shape[1] != width:
            room = self._known[kind] = like.new_empty(rows, width)
        return room if len(room) == rows else room[:rows]


class Product:
    """Rows times matrices, plus biases: what linear layers with one input say, side by side.

    What it returns stands until the next product of its kind.

    Args:
        kind: Products of a kind write to the same memory.
        parts: Matrices, (in, out) each, and biases, (out,), or None.
        rooms: Where to write.
    """

    __slots__ = ("_kind", "_parts", "_rooms", "_width")

    def __init__(self, kind: str, parts: Sequence[tuple[Tensor, Tensor | None]], rooms: Rooms) -> None:
        self._kind, self._parts, self._rooms = kind, parts, rooms
        self._width = sum(matrix.shape[1] for matrix, _ in parts)

    def __call__(self, rows: Tensor) -> Tensor:
        """(rows, in) to (rows, all outs)."""
        out = self._rooms.of(self._kind, len(rows), self._width, rows)
        if len(self._parts) == 1:
            return multiply(rows, *self._parts[0], out)
        first = 0
        for matrix, bias in self._parts:
            last = first + matrix.shape[1]
            multiply(rows, matrix, bias, out[:, first:last])
            first = last
        return out


def multiply(rows: Tensor, matrix: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """Rows times a matrix, plus a bias if there is one, written to `out`."""
    return torch.mm(rows, matrix, out=out) if bias is None else torch.addmm(bias, rows, matrix, out=out)


@dataclass
class _Copy:
    """A copy, (in, out), by panels of columns, and what it was made from: each row times the probe."""

    panels: tuple[Tensor, ...]
    printed: Tensor


@dataclass
class _Copies:
    by_name: dict[str, _Copy] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(panel.nbytes for copy in list(self.by_name.values()) for panel in copy.panels)


_COPIES: WeakKeyDictionary[PreTrainedModel, _Copies] = WeakKeyDictionary()


def kept_bytes(model: PreTrainedModel) -> int:
    """What the copies of a model's matrices take, from its first search of few rows on."""
    known = _COPIES.get(model)
    return 0 if known is None else known.size


class Layout:
    """Where a model's products find their matrices in one search.

    Args:
        model: The model.
        rows: How many rows a step has.
        is_recorded: Whether a GPU records what is made here, and so makes it anew for every search.
    """

    def __init__(self, model: PreTrainedModel, rows: int, *, is_recorded: bool = False) -> None:
        device, dtype = model.device, model.dtype
        is_small = device.type == "cpu" and dtype == torch.float32 and rows <= FEW_ROWS
        self._is_turned = is_small and not is_recorded
        self._is_joined = device.type == "cuda" or is_recorded
        self._left = COPIED_BYTES  # of what this search may join
        self._copies = _COPIES.setdefault(model, _Copies())
        self._rooms = Rooms()

    def product(self, name: str, *layers: nn.Linear) -> Product:
        """The product of linear layers that read the same rows.

        Args:
            name: Its own in the model, as "layer.kind"; those of a kind are never needed at the same time.
            *layers: The layers.
        """
        weights = [layer.weight.detach() for layer in layers]
        biases = [None if layer.bias is None else layer.bias.detach() for layer in layers]
        panels = None
        if self._is_turned:
            panels = self._copied(name, weights)
        elif self._is_joined and len(layers) > 1:
            panels = self._joined(weights)
        if panels is None:
            return self.ready(name, *zip([weight.t() for weight in weights], biases, strict=True))
        if all(bias is None for bias in biases):
            return self.ready(name, (panels[0], None))
        filled = [
            weight.new_zeros(len(weight)) if bias is None else bias
            for weight, bias in zip(weights, biases, strict=True)
        ]
        return self.ready(name, (panels[0], torch.cat(filled) if len(filled) > 1 else filled[0]))

    def ready(self, name: str, *parts: tuple[Tensor, Tensor | None]) -> Product:
        """The product with matrices that are (in, out) already, and biases."""
        return Product(name.rpartition(".")[2], parts, self._rooms)

    def panels(self, name: str, weight: Tensor) -> tuple[Tensor, ...]:
        """A large weight, (out, in), as (in, some of out) each: products read a panel at a time."""
        width = max(LEAST_COLUMNS, PANEL // weight.shape[1])
        copied = self._copied(name, [weight], width) if self._is_turned else None
        return (weight.t(),) if copied is None else copied

    def _joined(self, weights: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
        """Side by side, for this search alone; None where there is no room for it.

        To make it again for every search takes a GPU less time than to see whether it is up to date.
        """
        self._left -= sum(weight.nbytes for weight in weights)
        return (torch.cat(list(weights)).t(),) if self._left >= 0 else None

    def _copied(
        self, name: str, weights: Sequence[Tensor], width: int | None = None
    ) -> tuple[Tensor, ...] | None:
        """A copy that is up to date, in panels of a width or in one; None where there is no room for it."""
        printed = _printed(weights)
        known = self._copies.by_name.get(name)
        is_of_kind = known is not None and known.panels[0].dtype == weights[0].dtype
        if known is not None and is_of_kind and _is_same(known.printed, printed):
            return known.panels
        self._copies.by_name.pop(name, None)
        if self._copies.size + sum(weight.nbytes for weight in weights) > COPIED_BYTES:
            return None
        joined = torch.cat(list(weights)) if len(weights) > 1 else weights[0]
        parts = (joined,) if width is None else torch.split(joined, width)
        panels = tuple(part.t().contiguous() for part in parts)
        self._copies.by_name[name] = _Copy(panels, printed)
        return panels


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.device == other.device and torch.equal(one, other)


def _printed(weights: Sequence[Tensor]) -> Tensor:
    """A number for each row of the weights, that changes with the row.

    A parameter's version would not do: it stays the same where `parameter.data` is written to.
    """
    probe = _probe(weights[0].shape[1], weights[0].device)
    return torch.cat([torch.mv(weight.float(), probe) for weight in weights])


@cache
def _probe(size: int, device: torch.device) -> Tensor:
    chance = torch.Generator().manual_seed(size)
    return torch.rand(size, generator=chance).add_(0.5).to(device)
