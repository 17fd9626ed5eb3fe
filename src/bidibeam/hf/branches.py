"""Keys and values that hypotheses wrote, as branches of a tree: stored once, read through pointers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from bidibeam.similarities.kernels import fast

if TYPE_CHECKING:
    from bidibeam.hf.attention import KeyValues

FIRST_STEPS = 16
"""Steps there is room for at first; then twice as many, and so on."""
ROWS_A_THREAD = 1 << 11
"""Ancestors that a thread must have to read to be worth its start."""

Array = np.ndarray[Any, np.dtype[Any]]


class Branches:
    """All that was written in a search, layer by layer; what a step writes stays where it is."""

    def __init__(self) -> None:
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}  # both (steps, rows, heads, head size)

    def write(self, layer: int, step: int, keys: Tensor, values: Tensor) -> None:
        """Keep what rows wrote from a step on: both (rows, heads, steps, head size)."""
        rows, _, count, _ = keys.shape
        stored = self._layers[layer] = (
            _with_room(self._layers[layer][0] if layer in self._layers else None, keys, step + count),
            _with_room(self._layers[layer][1] if layer in self._layers else None, values, step + count),
        )
        for place, new in zip(stored, (keys, values), strict=True):
            place[step : step + count, :rows] = new.permute(2, 0, 1, 3)

    def stored(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values: both (steps, rows, heads, head size)."""
        return self._layers[layer]


def _with_room(stored: Tensor | None, new: Tensor, steps: int) -> Tensor:
    """The same memory, or more where it does not hold so many steps and as many rows as the new has."""
    rows, heads, _, size = new.shape
    if stored is None:
        return new.new_empty(max(steps, FIRST_STEPS), rows, heads, size)
    old_steps, old_rows = stored.shape[:2]
    if steps <= old_steps and rows <= old_rows:
        return stored
    room = 2 * old_steps if steps > old_steps else old_steps
    grown = new.new_empty(max(room, steps), max(rows, old_rows), heads, size)
    grown[:old_steps, :old_rows] = stored
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
    is_kernel = query.device.type == "cpu" and query.dtype == torch.float32
    attend = ancestors_in_place if is_kernel else ancestors_gathered
    attended, log_sums = attend(branches.stored(layer), places, query.squeeze(2) * scaling, own_bias)
    if prompt is not None:
        before, before_sums = _attend_prompt(query.squeeze(2) * scaling, prompt, mask)
        share = torch.sigmoid(log_sums - before_sums).unsqueeze(-1)  # (rows, heads, 1)
        attended = before + share * (attended - before)
    return attended.unsqueeze(2)


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
    rows = len(query)
    attended, log_sums = torch.empty_like(query), query.new_empty(query.shape[:2])
    shifts = query.new_zeros(query.shape[1], places.shape[1]) if bias is None else bias
    tensors = (*stored, places, query, shifts, attended, log_sums)
    read: Callable[[int, int], None] = partial(read_ancestors, *(_array(tensor) for tensor in tensors))
    threads = min(torch.get_num_threads(), max(1, rows * places.shape[1] // ROWS_A_THREAD))
    if threads == 1:
        read(0, rows)
    else:
        edges = [rows * number // threads for number in range(threads + 1)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(read, edges[:-1], edges[1:]))
    return attended, log_sums


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
    first: int,
    last: int,
) -> None:
    """Write what rows from `first` up to `last` read, and the log-sums of their products."""
    steps = places.shape[1]
    heads, size = query.shape[1], query.shape[2]
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
                product += bias[head, step]
                weights[step] = product
                highest = max(highest, product)
            total = np.float32(0.0)
            for step in range(steps):
                weights[step] = np.exp(weights[step] - highest)
                total += weights[step]
            read = attended[row, head]
            read[:] = np.float32(0.0)
            for step in range(steps):
                value = values[step, places[row, step], head // each]
                weight = weights[step] / total
                for index in range(size):
                    read[index] += weight * value[index]
            log_sums[row, head] = highest + np.log(total)


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
