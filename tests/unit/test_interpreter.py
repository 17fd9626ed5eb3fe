from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import Mock

import pytest

from bidibeam.interpreter import (
    _Collector,
    settle,
    taking_turns,
    uncollected,
)


class Clock:
    """Goes on by as much as it is told to, each time that it is looked at."""

    def __init__(self) -> None:
        self.now_s, self.step_s = 1000.0, 1.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """That of a collector that knows nothing of what others froze."""
    gc.unfreeze()
    clock = Clock()
    monkeypatch.setattr("bidibeam.interpreter._COLLECTOR", _Collector(clock))
    yield clock
    gc.unfreeze()


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that were collected."""
    started: list[int] = []

    def watch(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            started.append(info["generation"])

    gc.collect()
    gc.callbacks.append(watch)
    yield started
    gc.callbacks.remove(watch)


def test_that_something_is_frozen_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Mock(return_value=100_000)
    monkeypatch.setattr("gc.get_freeze_count", counting)

    for _ in range(5):
        with uncollected():
            pass

    counting.assert_called_once()


def test_all_is_looked_through_by_the_clock(clock: Clock, collections: list[int]) -> None:
    clock.step_s = 0.01
    looked = []
    for _ in range(30):
        clock.now_s += 1.0
        with uncollected():
            pass
        looked.append(collections.count(2))

    # After 10 seconds at the earliest; a look takes 0.01 of them here, so that the next is 100 * 0.01 later.
    assert looked[:9] == [0] * 9
    assert looked[10:] == list(range(looked[10], looked[10] + 20))


def test_looks_that_take_long_are_ten_seconds_apart(clock: Clock, collections: list[int]) -> None:
    clock.step_s = 0.5
    for _ in range(60):
        with uncollected():
            pass  # takes half a second, and a look does, too

    assert collections.count(2) == 6


@pytest.mark.parametrize(("step_s", "times"), [(0.0001, 0), (0.1, 1)])
def test_the_collector_is_left_alone_after_short_work(
    clock: Clock, step_s: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.step_s, freezing = step_s, Mock()
    monkeypatch.setattr("gc.freeze", freezing)

    with uncollected():
        pass

    assert freezing.call_count == times


def test_an_interrupted_look_leaves_the_collector_on(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    clock.step_s = 20.0
    monkeypatch.setattr("gc.collect", Mock(side_effect=KeyboardInterrupt))

    with pytest.raises(KeyboardInterrupt), uncollected():
        pass

    assert gc.isenabled()


def test_a_look_holds_nothing_that_others_wait_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finalizers run in it, and may wait for somebody who is about to begin such work."""
    clock.step_s = 20.0
    went = threading.Event()

    def other() -> None:
        clock.step_s = 0.0
        with uncollected():
            went.set()

    def finalizing() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        assert went.wait(timeout=20)
        thread.join()

    monkeypatch.setattr("gc.collect", finalizing)
    with uncollected():
        pass

    assert gc.isenabled()


def test_without_the_interpreters_lock_nothing_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    freezing = Mock()
    monkeypatch.setattr("gc.freeze", freezing)

    with uncollected():
        pass

    freezing.assert_not_called()


def test_what_is_settled_is_frozen_until_something_was_made(collections: list[int]) -> None:
    settle()
    assert gc.get_freeze_count() > 0
    assert collections == [2]

    with uncollected():
        made: list[list[int]] = [[] for _ in range(20_000)]

    assert gc.get_freeze_count() == 0
    assert collections == [2]
    assert len(made) == 20_000


def test_old_objects_that_die_do_not_hide_the_young() -> None:
    old: list[list[int]] = [[] for _ in range(20_000)]
    gc.collect()

    with uncollected():
        made: list[list[int]] = [[] for _ in range(20_000)]
        old.clear()  # the collector's count of what is new falls with it

    assert len(gc.get_objects(generation=0)) < 1_000
    assert len(made) == 20_000


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


def test_what_was_made_meanwhile_is_not_walked_at_once(collections: list[int]) -> None:
    with uncollected():
        made: list[list[int]] = [[] for _ in range(20_000)]
    more: list[list[int]] = [[] for _ in range(100)]

    assert collections == []
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
