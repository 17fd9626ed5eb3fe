"""Matrices as products read them fastest.

A linear layer keeps its weight as (out, in). With few rows, a CPU's products first turn such a matrix around,
and with 10 to 50 rows that takes a third to a half of the time. One thread reads the matrix where it lies
instead (`bidibeam.models.huggingface.inplace`). With AVX-512, and for several threads, copies are faster, which are kept with
the model: as tiles, which one thread reads (`bidibeam.models.huggingface.tiles`), or as (in, out). They are limited by the
size of the logits, and a search looks whether they still say what the parameters say. On a GPU the number of
products counts, so those of one input are joined; and of many rows its matrix units find them
(`bidibeam.models.huggingface.split`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from bidibeam.compiling import is_on
from bidibeam.gpu import kernels_on
from bidibeam.models.huggingface.inplace import InPlace
from bidibeam.models.huggingface.machine import REGISTERS, are_fast
from bidibeam.models.huggingface.prints import printed
from bidibeam.models.huggingface.tiles import WIDTH, Tiles

if TYPE_CHECKING:
    from transformers import PreTrainedModel

COPIED_BYTES = 1 << 27
"""What the copies of one model may take in all."""
LEAST_ROWS, COPIED_LOGITS = 16, 6
"""How many rows copies are made for, and how many times as large as the logits of a step they may be in all:
`generate` has more such tensors at once, so that a search with copies needs less memory, too."""
PANEL, LEAST_COLUMNS = 320 * 256, 256
"""Numbers in a panel of a large matrix: it fits into a cache. And how many columns it has at least."""
FEW_ROWS = 256
"""Up to so many rows a copy pays, where one does: with 200 it saves a twentieth, with 400 nothing."""


@dataclass(frozen=True)
class Ways:
    """How one thread of a processor reads matrices.

    Attributes:
        in_place: Up to so many rows a matrix is read where it lies.
        is_copied: Whether a copy is faster.
    """

    in_place: int
    is_copied: bool


AVX512, AVX2 = Ways(64, is_copied=True), Ways(4096, is_copied=False)
WAYS = AVX512 if REGISTERS == 32 else AVX2


class Rooms:
    """Memory that is written to again and again: fresh memory costs a tenth of a product with many rows."""

    def __init__(self) -> None:
        self._known: dict[str, Tensor] = {}

    def of(self, kind: str, rows: int, width: int, like: Tensor) -> Tensor:
        """(rows, width), in which the last user of that kind wrote."""
        room = self._known.get(kind)
        if room is None or room.shape[0] < rows or room.shape[1] != width:
            room = self._known[kind] = like.new_empty(rows, width)
        return room if room.shape[0] == rows else room[:rows]


SplitTimes = Callable[[Tensor, Tensor, Tensor | None, Tensor, Tensor | None], Tensor]
"""`bidibeam.models.huggingface.split.times`."""


class Product(Protocol):
    """Rows times matrices, plus biases: what linear layers with one input say, side by side."""

    def __call__(self, rows: Tensor, more: Tensor | None = None) -> Tensor:
        """(rows, in) to (rows, all outs), plus as many rows more; until the next product of its kind."""
        ...


class _Parts:
    """A product by torch's own.

    Args:
        kind: Products of a kind write to the same memory.
        parts: Matrices, (in, out) each, and biases, (out,), or None.
        rooms: Where to write.
    """

    __slots__ = ("_kind", "_parts", "_rooms", "_width")

    def __init__(self, kind: str, parts: Sequence[tuple[Tensor, Tensor | None]], rooms: Rooms) -> None:
        self._kind, self._parts, self._rooms = kind, parts, rooms
        self._width = sum(matrix.shape[1] for matrix, _ in parts)

    def __call__(self, rows: Tensor, more: Tensor | None = None) -> Tensor:
        """See `Product`."""
        out = self._rooms.of(self._kind, rows.shape[0], self._width, rows)
        if len(self._parts) == 1:
            multiply(rows, *self._parts[0], out)
        else:
            first = 0
            for matrix, bias in self._parts:
                last = first + matrix.shape[1]
                multiply(rows, matrix, bias, out[:, first:last])
                first = last
        return out if more is None else out.add_(more)


class _Tiled:
    """A product by tiles; the arguments are those of `_Parts`."""

    __slots__ = ("_bias", "_kind", "_rooms", "_tiles")

    def __init__(self, kind: str, tiles: Tiles, bias: Tensor | None, rooms: Rooms) -> None:
        self._kind, self._tiles, self._bias, self._rooms = kind, tiles, tiles.bias(bias), rooms

    def __call__(self, rows: Tensor, more: Tensor | None = None) -> Tensor:
        """See `Product`."""
        out = self._rooms.of(self._kind, rows.shape[0], self._tiles.width, rows)
        return self._tiles.times(rows, self._bias, out, more)


class _Split:
    """A product by a GPU's matrix units: with one matrix, (out, in), and a bias, (out,), or None."""

    __slots__ = ("_bias", "_kind", "_rooms", "_times", "_weight")

    def __init__(
        self, kind: str, weight: Tensor, bias: Tensor | None, rooms: Rooms, times: SplitTimes
    ) -> None:
        self._kind, self._weight, self._bias, self._rooms, self._times = kind, weight, bias, rooms, times

    def __call__(self, rows: Tensor, more: Tensor | None = None) -> Tensor:
        """See `Product`."""
        out = self._rooms.of(self._kind, rows.shape[0], self._weight.shape[0], rows)
        return self._times(rows, self._weight, self._bias, out, more)


class _InPlace:
    """A product by matrices where they lie; the arguments are those of `_Parts`, but matrices (out, in)."""

    __slots__ = ("_kind", "_matrices", "_rooms")

    def __init__(self, kind: str, parts: Sequence[tuple[Tensor, Tensor | None]], rooms: Rooms) -> None:
        self._kind, self._matrices, self._rooms = kind, InPlace(parts), rooms

    def __call__(self, rows: Tensor, more: Tensor | None = None) -> Tensor:
        """See `Product`."""
        out = self._rooms.of(self._kind, rows.shape[0], self._matrices.width, rows)
        return self._matrices.times(rows, out, more)


def multiply(rows: Tensor, matrix: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """Rows times a matrix, plus a bias if there is one, written to `out`."""
    return torch.mm(rows, matrix, out=out) if bias is None else torch.addmm(bias, rows, matrix, out=out)


@dataclass
class _Copy:
    """A copy, (in, out), by panels of columns or as tiles, and prints of what it was made from."""

    panels: tuple[Tensor, ...]
    prints: Tensor
    is_tiled: bool


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


@lru_cache
def split_on(device: torch.device) -> Any:
    """`bidibeam.models.huggingface.split`, where a GPU has such units and runs it; else None."""

    def load() -> ModuleType:
        from bidibeam.models.huggingface import split

        return split

    def trial(split: ModuleType) -> None:
        if torch.cuda.get_device_capability(device) < (8, 0):
            raise RuntimeError("no matrix units for float32")
        ones = torch.ones(1, split.DEPTH, device=device)
        split.times(ones, ones, None, torch.empty(1, 1, device=device))

    return kernels_on(device, load, trial)


def split_for(device: torch.device, dtype: torch.dtype) -> Any:
    """The same for numbers of a kind: not where torch's own products may be less exact, and faster still."""
    if device.type != "cuda" or dtype != torch.float32 or not _is_exact():
        return None
    return split_on(device)


def _is_exact() -> bool:
    """Whether torch's products of float32 are not to be of shorter numbers."""
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # told in another of torch's ways
        return False


class Layout:
    """Where a model's products find their matrices in one search.

    Args:
        model: The model.
        rows: How many rows a step has.
        is_recorded: Whether a GPU records what is made here, and so makes it anew for every search.
    """

    def __init__(self, model: PreTrainedModel, rows: int, *, is_recorded: bool = False) -> None:
        device, dtype = model.device, model.dtype
        is_ours = device.type == "cpu" and dtype == torch.float32 and not is_recorded and is_on()
        has_kernels = is_ours and torch.get_num_threads() == 1 and are_fast()
        self._is_near = has_kernels and rows <= WAYS.in_place
        self._is_turned = is_ours and rows <= FEW_ROWS and (WAYS.is_copied or not has_kernels)
        self._is_tiled = self._is_turned and has_kernels
        self._is_joined = device.type == "cuda" or is_recorded
        self._rows, self._split = rows, split_for(device, dtype)
        self._left = COPIED_BYTES  # of what this search may join
        self._copies = _COPIES.setdefault(model, _Copies())
        self._room = min(COPIED_BYTES, COPIED_LOGITS * rows * 4 * _vocabulary(model))
        if rows < LEAST_ROWS:
            self._room = 0
        self._rooms = Rooms()

    def product(self, name: str, *layers: nn.Linear) -> Product:
        """The product of linear layers that read the same rows.

        Args:
            name: Its own in the model, as "layer.kind"; those of a kind are never needed at the same time.
            *layers: The layers.
        """
        weights = [layer.weight.detach() for layer in layers]
        biases = [None if layer.bias is None else layer.bias.detach().contiguous() for layer in layers]
        panels = None
        if self._is_turned:
            panels = self._copied(name, weights)
        elif self._is_joined and len(layers) > 1:
            panels = self._joined(weights)
        if self._split is not None and (panels is not None or len(weights) == 1):
            weight = weights[0] if panels is None else panels[0].t()
            if self._split.is_taken(self._rows, weight):
                bias = _side_by_side(weights, biases)
                return _Split(_kind(name), weight, bias, self._rooms, self._split.times)
        if panels is None and self._is_near and all(map(_is_plain, weights)):
            return _InPlace(_kind(name), list(zip(weights, biases, strict=True)), self._rooms)
        if panels is None:
            return self.ready(name, *zip([weight.t() for weight in weights], biases, strict=True))
        bias = _side_by_side(weights, biases)
        if not self._is_tiled:
            return self.ready(name, (panels[0], bias))
        return _Tiled(_kind(name), Tiles(panels[0], sum(map(len, weights))), bias, self._rooms)

    def ready(self, name: str, *parts: tuple[Tensor, Tensor | None]) -> Product:
        """The product with matrices that are (in, out) already, and biases."""
        return _Parts(_kind(name), parts, self._rooms)

    def large(self, name: str, weight: Tensor, bias: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
        """The product with a large weight, (out, in), and a bias, (out,): of rows, and written to a place."""
        width = max(LEAST_COLUMNS, PANEL // weight.shape[1])
        bias = None if bias is None else bias.contiguous()
        if self._is_near and _is_plain(weight):  # so large that a copy would gain nothing
            return InPlace([(weight, bias)]).times
        if self._split is not None and self._split.is_taken(self._rows, weight):
            times = self._split.times
            return lambda rows, out: times(rows, weight, bias, out)
        copied = self._copied(name, [weight], width) if self._is_turned else None
        if copied is None:
            return lambda rows, out: multiply(rows, weight.t(), bias, out)
        if self._is_tiled:
            tiles = Tiles(copied[0], len(weight))
            return partial(_tiled, tiles, tiles.bias(bias))
        biases = [None] * len(copied) if bias is None else torch.split(bias, width)
        return partial(_by_panels, list(zip(copied, biases, strict=True)), width)

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
        known = self._copies.by_name.get(name)
        if known is None and not self._has_room(weights):
            return None
        prints = printed(weights)
        if known is not None and known.is_tiled == self._is_tiled and torch.equal(known.prints, prints):
            return known.panels
        self._copies.by_name.pop(name, None)
        if not self._has_room(weights):
            return None
        joined = torch.cat(list(weights)) if len(weights) > 1 else weights[0]
        if self._is_tiled:
            panels: tuple[Tensor, ...] = (Tiles.of(joined).numbers,)
        else:
            parts = (joined,) if width is None else torch.split(joined, width)
            panels = tuple(part.t().contiguous() for part in parts)
        self._copies.by_name[name] = _Copy(panels, prints, self._is_tiled)
        return panels

    def _has_room(self, weights: Sequence[Tensor]) -> bool:
        return self._copies.size + self._copied_bytes(weights) <= self._room

    def _copied_bytes(self, weights: Sequence[Tensor]) -> int:
        """The size of a copy; the last tile is as wide as the others."""
        columns = sum(map(len, weights))
        width = -(-columns // WIDTH) * WIDTH if self._is_tiled else columns
        return width * weights[0].shape[1] * weights[0].element_size()


def _vocabulary(model: PreTrainedModel) -> int:
    """How many logits a row has, or about as many."""
    found = getattr(model.get_output_embeddings(), "weight", None)
    weight: Tensor = model.get_input_embeddings().weight if found is None else found
    return weight.shape[0]


def _is_plain(weight: Tensor) -> bool:
    """Whether the rows of a matrix lie one behind the other."""
    return weight.is_contiguous()


def _kind(name: str) -> str:
    """What products that are never needed at the same time have in common."""
    return name.rpartition(".")[2]


def _side_by_side(weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> Tensor | None:
    """The biases of joined weights, zeros where one has none; None if none has one."""
    if all(bias is None for bias in biases):
        return None
    filled = [
        weight.new_zeros(len(weight)) if bias is None else bias
        for weight, bias in zip(weights, biases, strict=True)
    ]
    return torch.cat(filled) if len(filled) > 1 else filled[0]


def _tiled(tiles: Tiles, bias: Tensor, rows: Tensor, out: Tensor) -> Tensor:
    return tiles.times(rows, bias, out)


def _by_panels(
    panels: Sequence[tuple[Tensor, Tensor | None]], width: int, rows: Tensor, out: Tensor
) -> Tensor:
    """The product with panels of a width and their biases: one at a time stays in a cache."""
    for (panel, bias), part in zip(panels, torch.split(out, width, dim=1), strict=True):
        multiply(rows, panel, bias, part)
    return out
