"""Keys and values that hypotheses wrote, as branches of a tree: stored once, read through pointers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import torch
from torch import Tensor

from bidibeam.compiling import fast, is_on
from bidibeam.gpu import kernels_on
from bidibeam.models.huggingface.machine import over, pointer_to

if TYPE_CHECKING:
    from bidibeam.models.huggingface.attention import KeyValues

FIRST_STEPS = 16
"""Steps there is room for at first; then twice as many, and so on."""
UNTOUCHED = 4
"""How many times as many on a CPU: there, room that is not written to takes no memory."""
ROWS_A_THREAD = 1 << 11
"""Ancestors that a thread must have to read to be worth its start."""

Array = np.ndarray[Any, np.dtype[Any]]


class Branches:
    """All that was written in a search, layer by layer; what a step writes stays where it is."""

    def __init__(self) -> None:
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}  # both (steps, rows, heads, head size)

    def write(self, layer: int, step: int, keys: Tensor, values: Tensor) -> None:
        """Keep what rows wrote from a step on: both (rows, heads, steps, head size)."""
        rows, heads, count, size = keys.shape
        stored = self.with_room(layer, step + count, (rows, heads, size), keys)
        for place, new in zip(stored, (keys, values), strict=True):
            place[step : step + count, :rows] = new.permute(2, 0, 1, 3)

    def with_room(
        self, layer: int, steps: int, shape: tuple[int, int, int], like: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keys and values with room for so many steps of (rows, heads, head size)."""
        known = self._layers.get(layer)
        if known is None:
            first = FIRST_STEPS * (UNTOUCHED if like.device.type == "cpu" else 1)
            known = self._layers[layer] = (
                like.new_empty(max(steps, first), *shape),
                like.new_empty(max(steps, first), *shape),
            )
        elif len(known[0]) < steps or known[0].shape[1] < shape[0]:
            known = self._layers[layer] = (
                _grown(known[0], steps, shape[0]),
                _grown(known[1], steps, shape[0]),
            )
        return known

    def tensors(self, steps: int, rows: int) -> list[Tensor]:
        """What so many rows wrote in so many steps, layer by layer."""
        layers = (self._layers[layer] for layer in sorted(self._layers))
        return [tensor[:steps, :rows] for layer in layers for tensor in layer]

    def cloned(self, rows: int, steps: int) -> Branches:
        """The same in memory of its own, with room for so many rows and steps."""
        other = Branches()
        for layer, stored in self._layers.items():
            keys, values = (tensor.new_empty(steps, rows, *tensor.shape[2:]) for tensor in stored)
            for new, old in zip((keys, values), stored, strict=True):
                here = new[: len(old), : old.shape[1]]
                here.copy_(old[: len(here), : here.shape[1]])
            other._layers[layer] = (keys, values)
        return other

    def stored(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values: both (steps, rows, heads, head size)."""
        return self._layers[layer]


def _grown(stored: Tensor, steps: int, rows: int) -> Tensor:
    """The same with room for so many rows and steps, of which all that are written are the first.

    Where there were too few steps, there is room for twice as many. What nobody wrote is not copied.
    """
    old_steps, old_rows, heads, size = stored.shape
    room = max(2 * old_steps, steps) if steps > old_steps else old_steps
    grown = stored.new_empty(room, max(rows, old_rows), heads, size)
    kept = min(old_steps, steps)
    grown[:kept, :old_rows] = stored[:kept]
    return grown


def branch_attention(
    branches: Branches,
    layer: int,
    places: Tensor,
    query: Tensor,
    scaling: float,
    bias: Tensor | None,
    prompt: KeyValues | None,
    mask: Tensor | None,
) -> Tensor:
    """Attend from each row to its prompt and its ancestors: the shape of the query.

    Args:
        branches: What was written.
        layer: Which layer's.
        places: (rows, steps), the row in which each ancestor wrote.
        query: (rows, heads, 1, head size).
        scaling: What products are multiplied by.
        bias: (1, heads, 1, positions), added to products.
        prompt: (sources, key heads, positions, head size) each; rows of a source are together.
        mask: (sources, prompt positions), where there is something.
    """
    past = 0 if bias is None else bias.shape[-1] - places.shape[1]
    own_bias = None if bias is None else bias[0, :, 0, past:]  # (heads, steps)
    attend = ancestors_in_place if _is_in_place(query) else ancestors_gathered
    attended, log_sums = attend(branches.stored(layer), places, query.squeeze(2) * scaling, own_bias)
    if prompt is not None:
        attended = _with_prompt(attended, log_sums, query.squeeze(2) * scaling, prompt, mask)
    return attended.unsqueeze(2)


def extended_attention(
    branches: Branches,
    layer: int,
    places: Tensor,
    mixed: Tensor,
    heads: int,
    scaling: float,
    bias: Tensor | None,
    prompt: KeyValues | None,
    mask: Tensor | None,
) -> Tensor:
    """Write what rows say now, and attend as `branch_attention` does.

    Args:
        branches: What was written before.
        layer: Which layer's.
        places: (rows, steps), the row in which each ancestor wrote; every row itself last.
        mixed: (rows, heads + 2 * key heads, head size), contiguous: queries, then keys, then values.
        heads: How many heads queries have.
        scaling: What products are multiplied by.
        bias: (heads, steps), added to products.
        prompt: (sources, key heads, positions, head size) each; rows of a source are together.
        mask: (sources, prompt positions), where there is something.

    Returns:
        (rows, heads * head size).
    """
    rows, all_heads, size = mixed.shape
    groups = (all_heads - heads) // 2
    steps = places.shape[1]
    stored = branches.with_room(layer, steps, (rows, groups, size), mixed)
    kernel = _kernel(mixed.device)
    if _is_in_place(mixed):
        attended, log_sums = extended_in_place(stored, places, mixed, heads, scaling, bias)
    elif kernel is not None:
        attended, log_sums = kernel(stored, places, mixed, heads, scaling, bias)
    else:
        stored[0][steps - 1, :rows] = mixed[:, heads : heads + groups]
        stored[1][steps - 1, :rows] = mixed[:, heads + groups :]
        attended, log_sums = ancestors_gathered(stored, places, mixed[:, :heads] * scaling, bias)
    if prompt is not None:
        attended = _with_prompt(attended, log_sums, mixed[:, :heads] * scaling, prompt, mask)
    return attended.reshape(rows, -1)


def _is_in_place(numbers: Tensor) -> bool:
    """Whether ancestors are read where they are, by a kernel of a CPU."""
    return numbers.device.type == "cpu" and numbers.dtype == torch.float32 and is_on()


@lru_cache
def _kernel(device: torch.device) -> Callable[..., tuple[Tensor, Tensor]] | None:
    """What `extended_in_place` does on a CPU, where a GPU has it."""

    def load() -> Callable[..., tuple[Tensor, Tensor]]:
        from bidibeam.models.huggingface.ancestors import extended_on_gpu

        return extended_on_gpu

    def trial(kernel: Callable[..., tuple[Tensor, Tensor]]) -> None:
        zeros = torch.zeros(1, 3, 1, device=device)
        stored = (zeros.new_zeros(1, 1, 1, 1), zeros.new_zeros(1, 1, 1, 1))
        kernel(stored, torch.zeros(1, 1, dtype=torch.long, device=device), zeros, 1, 1.0, None)

    return kernels_on(device, load, trial)


def ancestors_gathered(
    stored: tuple[Tensor, Tensor], places: Tensor, query: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Attend to ancestors, whose keys and values are fetched.

    Args:
        stored: Keys and values, both (steps, rows, key heads, head size).
        places: (rows, steps).
        query: (rows, heads, head size), scaled.
        bias: (heads, steps).

    Returns:
        What was read, (rows, heads, head size), and the log-sum-exp of the products, (rows, heads).
    """
    keys, values = stored
    rows, heads, size = query.shape
    groups = keys.shape[2]  # heads of keys; several of the query's may share one
    offsets = torch.arange(places.shape[1], device=places.device) * keys.shape[1]  # (steps,)
    flat = (places + offsets).flatten()  # (rows * steps,)
    own_keys = keys.flatten(0, 1).index_select(0, flat).view(rows, -1, groups, size)
    own_values = values.flatten(0, 1).index_select(0, flat).view(rows, -1, groups, size)
    scores = torch.einsum("rghd,rtgd->rght", query.view(rows, groups, -1, size), own_keys)
    if bias is not None:
        scores = scores + bias.view(groups, heads // groups, -1)
    attended = torch.einsum("rght,rtgd->rghd", scores.softmax(-1), own_values)
    return attended.reshape(query.shape), scores.logsumexp(-1).view(rows, heads)


def ancestors_in_place(
    stored: tuple[Tensor, Tensor], places: Tensor, query: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The same on a CPU in float32, with keys and values read where they are."""
    attended, log_sums = torch.empty_like(query), query.new_empty(query.shape[:2])
    shifts = query.new_empty(0, 0) if bias is None else bias
    tensors = (*stored, places, query, shifts, attended, log_sums)
    arrays = [_array(tensor) for tensor in tensors]
    read: Callable[..., None] = read_ancestors
    _shared_out(partial(read, *arrays, np.float32(1.0)), places)
    return attended, log_sums


def extended_in_place(
    stored: tuple[Tensor, Tensor],
    places: Tensor,
    mixed: Tensor,
    heads: int,
    scaling: float,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The same, after keys and values were written as the last step: see `extended_attention`."""
    rows, _, size = mixed.shape
    attended, log_sums = mixed.new_empty(rows, heads, size), mixed.new_empty(rows, heads)
    read = [places.contiguous(), mixed.contiguous(), None if bias is None else bias.contiguous()]
    addresses = [0 if one is None else one.data_ptr() for one in (*stored, *read, attended, log_sums)]
    shape = (*stored[0].shape[:3], *places.shape, heads, size)
    read_on: Callable[..., None] = extend_at
    _shared_out(partial(read_on, *addresses, *shape, np.float32(scaling)), places)
    return attended, log_sums


def _shared_out(read: Callable[[int, int], None], places: Tensor) -> None:
    """Have all rows read, (rows, steps), by as many threads as are worth it."""
    rows, steps = places.shape
    threads = min(torch.get_num_threads(), max(1, rows * steps // ROWS_A_THREAD))
    if threads == 1:
        read(0, rows)
        return
    edges = [rows * number // threads for number in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, edges[:-1], edges[1:]))


def _array(tensor: Tensor) -> Any:
    return tensor.contiguous().numpy()


@fast
def read_ancestors(
    keys: Array,
    values: Array,
    places: Array,
    query: Array,
    bias: Array,
    attended: Array,
    log_sums: Array,
    scaling: float,
    first: int,
    last: int,
) -> None:
    """Write what rows from `first` up to `last` read, and the log-sums of their products."""
    steps = places.shape[1]
    heads, size = attended.shape[1], attended.shape[2]
    each = heads // keys.shape[2]
    weights = np.empty(steps, dtype=np.float32)
    for row in range(first, last):
        for head in range(heads):
            asked = query[row, head]
            highest = np.float32(-np.inf)
            for step in range(steps):
                key = keys[step, places[row, step], head // each]
                product = np.float32(0.0)
                for index in range(size):
                    product += asked[index] * key[index]
                product *= scaling
                if len(bias):
                    product += bias[head, step]
                weights[step] = product
                highest = max(highest, product)
            total = np.float32(0.0)
            for step in range(steps):
                weights[step] = np.exp(weights[step] - highest)
                total += weights[step]
            read = attended[row, head]
            read[:] = np.float32(0.0)
            inverse = over(np.float32(1.0), total)
            for step in range(steps):
                value = values[step, places[row, step], head // each]
                weight = weights[step] * inverse
                for index in range(size):
                    read[index] += weight * value[index]
            log_sums[row, head] = highest + np.log(total)


@fast
def extend_and_read(
    keys: Array,
    values: Array,
    places: Array,
    mixed: Array,
    bias: Array,
    attended: Array,
    log_sums: Array,
    scaling: float,
    first: int,
    last: int,
) -> None:
    """Write the keys and values of rows from `first` up to `last`, then what they read with their queries."""
    now = places.shape[1] - 1
    heads, groups = attended.shape[1], keys.shape[2]
    for row in range(first, last):
        for group in range(groups):
            for index in range(keys.shape[3]):
                keys[now, row, group, index] = mixed[row, heads + group, index]
                values[now, row, group, index] = mixed[row, heads + groups + group, index]
    read_ancestors(keys, values, places, mixed, bias, attended, log_sums, scaling, first, last)


@fast
def extend_at(
    keys: int,
    values: int,
    places: int,
    mixed: int,
    bias: int,
    attended: int,
    log_sums: int,
    room: int,
    lines: int,
    groups: int,
    rows: int,
    steps: int,
    heads: int,
    size: int,
    scaling: float,
    first: int,
    last: int,
) -> None:
    """What `extend_and_read` does, by addresses: keys and values are (room, lines, groups, size)."""
    stored = (room, lines, groups, size)
    extend_and_read(
        numba.carray(pointer_to(keys), stored, np.float32),
        numba.carray(pointer_to(values), stored, np.float32),
        numba.carray(pointer_to(places), (rows, steps), np.int64),
        numba.carray(pointer_to(mixed), (rows, heads + 2 * groups, size), np.float32),
        numba.carray(pointer_to(bias), (heads if bias else 0, steps), np.float32),
        numba.carray(pointer_to(attended), (rows, heads, size), np.float32),
        numba.carray(pointer_to(log_sums), (rows, heads), np.float32),
        scaling,
        first,
        last,
    )


def _with_prompt(
    attended: Tensor, log_sums: Tensor, query: Tensor, prompt: KeyValues, mask: Tensor | None
) -> Tensor:
    """What rows read of their ancestors and of their prompt, (rows, heads, head size), by their weights."""
    before, before_sums = _attend_prompt(query, prompt, mask)
    share = torch.sigmoid(log_sums - before_sums).unsqueeze(-1)  # (rows, heads, 1)
    return (before + share * (attended - before)).to(query.dtype)  # the sums are float32 on a GPU


def _attend_prompt(query: Tensor, prompt: KeyValues, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """What rows, (rows, heads, head size), read of their source's: as `ancestors_gathered` returns it."""
    rows, heads, size = query.shape
    sources, groups = prompt.keys.shape[:2]
    by_source = query.view(sources, -1, groups, heads // groups, size).transpose(1, 2)
    by_source = by_source.reshape(
        sources, groups, -1, size
    )  # (sources, groups, rows and heads of each, size)
    scores = by_source @ prompt.keys.transpose(2, 3)  # (sources, groups, rows and heads of each, positions)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
    sums = scores.logsumexp(-1, keepdim=True)  # (sources, groups, rows and heads of each, 1)
    attended = (scores - sums).exp() @ prompt.values

    def by_row(found: Tensor) -> Tensor:
        apart = found.view(sources, groups, rows // sources, heads // groups, -1)
        return apart.transpose(1, 2).reshape(rows, heads, -1)

    return by_row(attended), by_row(sums).squeeze(-1)
