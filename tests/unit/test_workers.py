from __future__ import annotations

import threading

import pytest

from bidibeam.turns import Turns
from bidibeam.workers import in_parts, shared_out, workers


@pytest.mark.parametrize("number", [1, 2, 3, 100])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 47, 48, 200])
def test_everything_is_done_once_and_in_order(number: int, count: int) -> None:
    with workers(number):
        assert shared_out(str, range(count)) == [str(item) for item in range(count)]
        parts = in_parts(range, count, least=16)

    assert [item for part in parts for item in part] == list(range(count))
    assert len(parts) == max(1, min(number, count // 16))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_threads_are_used_where_allowed_alone_and_begin_no_others() -> None:
    def seen(_: int) -> tuple[int, int]:
        return threading.get_ident(), len(in_parts(range, 64))

    with workers(4):
        shared = {thread for thread, _ in shared_out(seen, range(64))}
        inner = {parts for _, parts in shared_out(seen, range(64))}
    alone = {thread for thread, _ in shared_out(seen, range(64))}

    assert threading.get_ident() not in shared
    assert inner == {1}
    assert alone == {threading.get_ident()}


def test_the_first_failure_is_the_callers() -> None:
    def failing(item: int) -> int:
        if item % 20 == 19:
            raise ValueError(f"no {item}")
        return item

    with workers(3), pytest.raises(ValueError, match="no 19"):
        shared_out(failing, range(60))


def test_whoever_waits_for_threads_leaves_the_turn_to_others() -> None:
    turns, went = Turns(), threading.Event()

    def other() -> None:
        with turns.mine():
            went.set()

    def waiting(_: int) -> bool:
        return went.wait(timeout=20)

    with workers(2), turns.mine():
        thread = threading.Thread(target=other)
        thread.start()
        assert all(shared_out(waiting, range(32)))
    thread.join()


def test_after_a_failure_the_others_are_waited_for_without_the_turn() -> None:
    turns, went = Turns(), threading.Event()

    def other() -> None:
        with turns.mine():
            went.set()

    def failing(item: int) -> None:
        if not item:
            raise ValueError("no")
        assert went.wait(timeout=20)

    with turns.mine():
        thread = threading.Thread(target=other)
        thread.start()
        with workers(2), pytest.raises(ValueError, match="no"):
            shared_out(failing, range(2))
    thread.join()
