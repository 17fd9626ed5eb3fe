from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from bidibeam.interpreter import Turns, away, holding, pause, pausing, taking_turns, uncollected


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests froze is forgotten."""
    monkeypatch.setattr("bidibeam.interpreter._FROZEN", False)


def test_that_something_is_frozen_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Mock(return_value=7)
    monkeypatch.setattr("bidibeam.interpreter.MANY", -1)
    monkeypatch.setattr("gc.get_freeze_count", counting)

    for _ in range(5):
        with uncollected():
            pass

    counting.assert_called_once()


def test_little_work_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Mock(return_value=0)
    monkeypatch.setattr("gc.get_freeze_count", counting)
    gc.collect()

    with uncollected():
        pass

    counting.assert_not_called()


def test_garbage_is_left_alone_for_a_while() -> None:
    with uncollected(), uncollected():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass

        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads_take_turns_more_often_for_a_while() -> None:
    before = sys.getswitchinterval()

    with taking_turns():
        assert sys.getswitchinterval() == pytest.approx(0.0002)

    assert sys.getswitchinterval() == before


@contextmanager
def in_another_thread(block: AbstractContextManager[None]) -> Iterator[None]:
    """Open there what closes here, so that the two overlap in any way wanted."""
    thread = threading.Thread(target=block.__enter__)
    thread.start()
    thread.join(timeout=20)
    yield
    thread = threading.Thread(target=block.__exit__, args=(None, None, None))
    thread.start()
    thread.join(timeout=20)


def test_the_collector_stays_off_until_the_last_of_overlapping_threads_is_done() -> None:
    ours, theirs = uncollected(), in_another_thread(uncollected())
    ours.__enter__()
    theirs.__enter__()
    ours.__exit__(None, None, None)
    assert not gc.isenabled()

    theirs.__exit__(None, None, None)

    assert gc.isenabled()


def test_the_turns_are_as_before_after_the_last_of_overlapping_threads_is_done() -> None:
    before = sys.getswitchinterval()
    ours, theirs = taking_turns(0.0001), in_another_thread(taking_turns(0.0003))
    ours.__enter__()
    theirs.__enter__()
    assert sys.getswitchinterval() == pytest.approx(0.0001)
    ours.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(0.0003)

    theirs.__exit__(None, None, None)

    assert sys.getswitchinterval() == before


def test_what_was_made_meanwhile_is_not_walked_at_once() -> None:
    gc.unfreeze()  # what a command froze, if one was called in this process before
    gc.collect()
    started: list[int] = []

    def watch(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            started.append(info["generation"])

    gc.callbacks.append(watch)
    try:
        with uncollected():
            made: list[list[int]] = [[] for _ in range(20_000)]
        more: list[list[int]] = [[] for _ in range(100)]
    finally:
        gc.callbacks.remove(watch)

    assert started == []
    assert len(made) + len(more) == 20_100


def test_cycles_made_meanwhile_are_found_later() -> None:
    class Node:
        itself: Node

    with uncollected():
        node = Node()
        node.itself = node
        known = weakref.ref(node)
        del node

    assert known() is not None
    gc.collect()
    assert known() is None


def test_what_somebody_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with uncollected():
            pass

        assert gc.isenabled()
        assert gc.get_freeze_count() >= frozen * 0.9
    finally:
        gc.unfreeze()


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    turns, order = Turns(), []

    def work(name: str) -> None:
        with turns.mine():
            order.append(name)

    with turns.mine():
        threads = []
        for name in "abcd":
            threads.append(threading.Thread(target=work, args=(name,)))
            threads[-1].start()
            while len(turns._waiting) < len(threads):
                time.sleep(0.001)
        assert order == []
    for thread in threads:
        thread.join(timeout=20)

    assert order == ["a", "b", "c", "d"]
    assert not turns.is_wanted


def test_who_waits_or_pauses_lets_the_others_go_first() -> None:
    turns, order = Turns(), []
    is_done, is_back = threading.Event(), threading.Event()

    def other() -> None:
        with turns.mine():
            order.append("other, while one waits")
            is_done.set()
        assert is_back.wait(timeout=20)
        with turns.mine():
            order.append("other, while one pauses")

    thread = threading.Thread(target=other)
    with turns.mine():
        thread.start()
        with away():
            assert is_done.wait(timeout=20)
        order.append("one again")
        is_back.set()
        while not turns.is_wanted:
            time.sleep(0.001)
        list(pausing(range(3), every=2))
        order.append("one at last")
    thread.join(timeout=20)

    assert order == ["other, while one waits", "one again", "other, while one pauses", "one at last"]


@pytest.mark.parametrize("kind", [threading.Lock, Turns])
def test_who_waits_for_a_lock_leaves_the_turn_to_its_holder(kind: Callable[[], Any]) -> None:
    turns, lock, is_held = Turns(), kind(), threading.Event()

    def holder() -> None:
        with turns.mine(), holding(lock):
            with away():
                is_held.set()
                time.sleep(0.01)  # the other one has the turn, and wants the lock
            assert not lock.acquire(blocking=False)

    thread = threading.Thread(target=holder)
    thread.start()
    assert is_held.wait(timeout=20)
    with turns.mine(), holding(lock):
        pass
    thread.join(timeout=20)

    assert not thread.is_alive()
    assert lock.acquire(blocking=False)


def test_an_error_ends_a_turn_and_without_a_turn_nothing_happens() -> None:
    turns = Turns()

    with pytest.raises(ValueError, match="broken"), turns.mine(), away():
        raise ValueError("broken")

    with turns.mine():
        pause()  # nobody waits
    with away():
        pause()
    assert list(pausing("abc", every=1)) == ["a", "b", "c"]
