"""Counted work: by every open count, in whichever thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bidibeam.work import Work, count, counting


def test_everything_done_in_the_block_is_counted_and_nothing_else() -> None:
    count(projected_rows=100)
    with counting() as work:
        count(projected_rows=3)
        count(projected_rows=2, compared_pairs=7)
        count(exact_transports=1)
    count(projected_rows=100)

    assert work == Work(projected_rows=5, compared_pairs=7, exact_transports=1)


def test_counts_inside_counts_each_see_their_own_block() -> None:
    with counting() as outer:
        count(compared_pairs=1)
        with counting() as inner:
            count(compared_pairs=10)
        count(compared_pairs=100)

    assert inner == Work(compared_pairs=10)
    assert outer == Work(compared_pairs=111)


def test_counts_may_close_in_any_order() -> None:
    first, second = counting(), counting()
    one, two = first.__enter__(), second.__enter__()
    count(projected_rows=1)
    first.__exit__(None, None, None)
    count(projected_rows=10)
    second.__exit__(None, None, None)
    count(projected_rows=100)

    assert one == Work(projected_rows=1)  # equal to the other at times, and still told apart
    assert two == Work(projected_rows=11)


def test_a_block_that_fails_closes_its_count() -> None:
    counts: list[Work] = []

    def fail() -> None:
        with counting() as work:
            counts.append(work)
            count(projected_rows=1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    count(projected_rows=100)

    assert counts == [Work(projected_rows=1)]


def test_no_thread_is_missed() -> None:
    def some(_: int) -> None:
        for _ in range(500):
            count(projected_rows=1, compared_pairs=2)

    with counting() as work, ThreadPoolExecutor(8) as pool:
        list(pool.map(some, range(16)))

    assert work == Work(projected_rows=8000, compared_pairs=16_000)


def test_it_prints_what_there_was() -> None:
    assert str(Work()) == "nothing counted"
    assert str(Work(1234, 0, 0)) == "1,234 rows projected"
    assert str(Work(1, 2, 3)) == "1 rows projected, 2 pairs compared, 3 transports solved exactly"
