"""A step's selection on one thread of a CPU, in compiled code: torch takes longer to begin its many kernels.

`bidibeam.search.kernels.Kernels` says what the functions take and return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import torch
from numba.extending import intrinsic

from bidibeam.compiling import compiled
from bidibeam.search.candidates import BLOCK
from bidibeam.search.keys import PLACES
from bidibeam.search.summary import in_order, number_of, summarise

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Array = np.ndarray[Any, np.dtype[Any]]

_ZERO, _NEVER = np.float32(0.0), np.float32(-np.inf)
_MASK = np.int64(PLACES - 1)
MOST_PLACES = PLACES
"""Places that a key can name."""
_WORD = 8
"""Booleans that are looked at together."""


def _bits(_context: Any, _number: Any) -> Any:  # pragma: no cover
    """The bits of a float."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(numba.int32))

    return numba.int32(numba.float32), generate


_bits_of = intrinsic(_bits)


@compiled
def _key(log_prob: Any, place: Any) -> Any:  # pragma: no cover
    """What `bidibeam.search.keys.keys` makes of them; with no log-probability above 0, signed or not."""
    return (np.int64(in_order(_bits_of(_ZERO - log_prob))) << 32) | place


@compiled
def _log_prob(key: Any) -> Any:  # pragma: no cover
    """The log-probability in a key."""
    return _ZERO - number_of(in_order(np.int32(key >> 32)))


@compiled
def _sink(heap: Array, place: int, size: int) -> None:  # pragma: no cover
    """Put the key at a place of a heap, the largest first, where it belongs among those below."""
    key = heap[place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= key:
            break
        heap[place] = heap[below]
        place = below
    heap[place] = key


@compiled
def _keep(heap: Array, filled: int, key: Any) -> int:  # pragma: no cover
    """Keep a key if it is among the smallest so far; how many there are now."""
    size = len(heap)
    if filled == size:
        heap[0] = key
        _sink(heap, 0, size)
        return size
    heap[filled] = key
    if filled + 1 == size:
        for place in range(size // 2 - 1, -1, -1):
            _sink(heap, place, size)
    return filled + 1


@compiled
def _sort(heap: Array) -> None:  # pragma: no cover
    """The keys of a heap, the smallest first."""
    for last in range(len(heap) - 1, 0, -1):
        heap[0], heap[last] = heap[last], heap[0]
        _sink(heap, 0, last)


@compiled
def _allow(logits: Array, maxima: Array, is_forbidden: Array, block: int) -> None:  # pragma: no cover
    """Maxima without forbidden tokens, in the blocks that have some."""
    words = is_forbidden.view(np.int64)
    each = block // _WORD
    for number in range(maxima.shape[1]):
        if not words[number * each : (number + 1) * each].any():
            continue
        first = number * block
        last = min(first + block, logits.shape[1])
        for row in range(len(logits)):
            best = _NEVER
            for token in range(first, last):
                if not is_forbidden[token] and logits[row, token] > best:
                    best = logits[row, token]
            maxima[row, number] = best


@compiled
def _find(
    logits: Array,
    maxima: Array,
    log_sums: Array,
    log_probs: Array,
    is_forbidden: Array,
    block: int,
    best_log_probs: Array,
    flat: Array,
    is_broken: Array,
    is_normalised: bool,
) -> None:  # pragma: no cover
    """Write what `best` returns; see `bidibeam.search.candidates.best_candidates` for why it is exact."""
    beams, count = log_probs.shape[1], flat.shape[1]
    vocabulary, blocks = logits.shape[1], maxima.shape[1]
    chosen = np.empty(min(count, beams * blocks), np.int64)
    found = np.empty(count, np.int64)
    for source in range(len(log_probs)):
        start, filled, worst = source * beams, 0, _NEVER
        is_broken[source] = np.isnan(log_sums[start : start + beams]).any()
        for beam in range(beams):
            log_sum = _ZERO if is_normalised else log_sums[start + beam]
            log_prob, line = log_probs[source, beam], maxima[start + beam]
            for number in range(blocks):
                value = (line[number] - log_sum) + log_prob
                if filled == len(chosen) and value < worst:
                    continue  # most of them; whoever is as good may still come earlier
                key = _key(value, beam * blocks + number)
                if filled < len(chosen) or key < chosen[0]:
                    filled = _keep(chosen, filled, key)
                    worst = _log_prob(chosen[0])
        filled, worst = 0, _NEVER
        for key in chosen:
            beam, number = divmod(key & _MASK, blocks)
            log_sum = _ZERO if is_normalised else log_sums[start + beam]
            log_prob, line = log_probs[source, beam], logits[start + beam]
            for token in range(number * block, min((number + 1) * block, vocabulary)):
                value = (line[token] - log_sum) + log_prob
                if len(is_forbidden) and is_forbidden[token]:
                    value = _NEVER
                if filled == count and value < worst:
                    continue
                key = _key(value, beam * vocabulary + token)
                if filled < count or key < found[0]:
                    filled = _keep(found, filled, key)
                    worst = _log_prob(found[0])
        _sort(found)
        for place in range(count):
            best_log_probs[source, place] = _log_prob(found[place])
            flat[source, place] = found[place] & _MASK


@compiled
def _part(
    log_probs: Array,
    flat: Array,
    finished: Array,
    allowed: Array,
    ends: Array,
    vocabulary: int,
    ended: Array,
    finished_now: Array,
    live: Array,
    parents: Array,
    tokens: Array,
    going_on: Array,
) -> None:  # pragma: no cover
    """Write what `parted` returns."""
    count, width = flat.shape[1], live.shape[1]
    for source in range(len(flat)):
        finished_now[source] = finished[source]
        place = 0
        for is_wanted in (False, True):  # those that go on, then as many others as there are slots left
            for rank in range(count):
                parent, token = divmod(flat[source, rank], vocabulary)
                is_end = False
                for end in ends:
                    is_end = is_end or token == end
                log_prob = log_probs[source, rank]
                if not is_wanted:
                    has_ended = is_end and rank < allowed[source]
                    ended[source, rank] = log_prob if has_ended else _NEVER
                    finished_now[source] += has_ended and log_prob > _NEVER
                if is_end == is_wanted and place < width:
                    live[source, place] = flat[source, rank]
                    parents[source, place] = parent
                    tokens[source, place] = token
                    going_on[source, place] = _NEVER if is_end else log_prob
                    place += 1
            if place == width:
                break


def summarised(rows: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Block maxima and log-sum-exps."""
    count, vocabulary = rows.shape
    assert block == BLOCK
    maxima = rows.new_empty(count, -(-vocabulary // block))
    log_sums = rows.new_empty(count)
    summarise(rows.detach().contiguous().numpy(), maxima.numpy(), log_sums.numpy())
    return maxima, log_sums


def slots_for(count: int) -> int | None:
    """The room that so many candidates take: there is room for any number."""
    return count


def best(
    logits: Tensor,
    log_probs: Tensor,
    count: int,
    is_forbidden: Tensor | None,
    block: int,
    *,
    is_normalised: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The best candidates."""
    assert block == BLOCK
    sources, beams, vocabulary = logits.shape
    rows = logits.detach().view(-1, vocabulary)
    lines, maxima = rows.numpy(), np.empty((len(rows), -(-vocabulary // block)), np.float32)
    log_sums = np.empty(len(rows), np.float32)
    summarise(lines, maxima, log_sums)
    forbidden = np.zeros(0, np.bool_) if is_forbidden is None else is_forbidden.numpy()
    if len(forbidden):
        _allow(lines, maxima, forbidden, block)
    found = min(count, beams * vocabulary)
    best_log_probs = np.empty((sources, found), np.float32)
    flat, is_broken = np.empty((sources, found), np.int64), np.empty(sources, np.bool_)
    _find(
        lines,
        maxima,
        log_sums,
        log_probs.detach().contiguous().numpy(),
        forbidden,
        block,
        best_log_probs,
        flat,
        is_broken,
        is_normalised,
    )
    return torch.from_numpy(best_log_probs), torch.from_numpy(flat), torch.from_numpy(is_broken)


def parted(
    log_probs: Tensor,
    flat: Tensor,
    finished: Tensor,
    allowed: Tensor,
    ends: Tensor,
    width: int,
    vocabulary: int,
) -> tuple[Tensor, ...]:
    """The candidates parted."""
    given = [tensor.detach().contiguous().numpy() for tensor in (log_probs, flat, finished, allowed, ends)]
    shape = (len(flat), min(width, flat.shape[1]))
    into = (
        np.empty_like(given[0]),
        np.empty_like(given[2]),
        *(np.empty(shape, np.int64) for _ in range(3)),
        np.empty(shape, np.float32),
    )
    write: Callable[..., None] = _part
    write(*given, vocabulary, *into)
    return tuple(map(torch.from_numpy, into))
