"""Threads that share out the work on a batch: as many as whoever began it allows, and no more than pay."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, pairwise
from threading import local
from typing import TYPE_CHECKING, TypeVar

from bidibeam.turns import away

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")


class _OfThread(local):
    allowed: int = 1


_OWN = _OfThread()


@contextmanager
def workers(number: int) -> Iterator[None]:
    """Allow so many threads to what this one calls in the block; those threads begin no others."""
    before, _OWN.allowed = _OWN.allowed, number
    try:
        yield
    finally:
        _OWN.allowed = before


def shared_out(work: Callable[[Item], Result], items: Sequence[Item], *, least: int = 1) -> list[Result]:
    """Do the same for every item, of which each thread has at least so many, and keep their order."""
    parts = in_parts(lambda first, last: [work(item) for item in items[first:last]], len(items), least=least)
    return list(chain.from_iterable(parts))


def in_parts(work: Callable[[int, int], Result], count: int, *, least: int = 1) -> list[Result]:
    """Do the work for ranges of some items, one for each thread: what it says for each range, in order.

    Args:
        work: Takes the first item of a range, and the first behind it.
        count: How many items there are.
        least: How many of them are worth a thread: to begin one takes as long as to compare some beams.
    """
    threads = max(1, min(_OWN.allowed, count // least))
    if threads == 1:
        return [work(0, count)]
    ranges = list(pairwise(count * number // threads for number in range(threads + 1)))
    with away(), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, *zip(*ranges, strict=True)))
