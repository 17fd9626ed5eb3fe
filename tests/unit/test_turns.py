"""Threads that take turns."""

from __future__ import annotations

import copy
import pickle
import threading
import time

import pytest

from bidibeam.turns import Turns, away, first_in_line, holding, in_line, pause, pausing


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


def test_who_waits_for_a_device_leaves_the_turn_to_its_holder() -> None:
    turns, device, is_held = Turns(), Turns(), threading.Event()

    def holder() -> None:
        with turns.mine(), holding(device):
            with away():
                is_held.set()
                time.sleep(0.01)  # the other one has the turn, and wants the lock
            assert not is_free(device)

    thread = threading.Thread(target=holder)
    thread.start()
    assert is_held.wait(timeout=20)
    with turns.mine(), holding(device):
        pass
    thread.join(timeout=20)

    assert not thread.is_alive()
    assert is_free(device)


def test_an_error_ends_a_turn_and_without_a_turn_nothing_happens() -> None:
    turns = Turns()

    with pytest.raises(ValueError, match="broken"), turns.mine(), away():
        raise ValueError("broken")

    with turns.mine():
        pause()  # nobody waits
    with away():
        pause()
    assert list(pausing("abc", every=1)) == ["a", "b", "c"]


def test_whoever_feeds_a_device_goes_before_those_who_wait() -> None:
    turns, order, ready = Turns(), list[str](), threading.Semaphore(0)
    is_back = threading.Event()

    def feeding() -> None:
        with turns.mine(), first_in_line():
            ready.release()
            with away():
                is_back.wait()
            order.append("feeding")

    def working(name: str) -> None:
        ready.release()
        with turns.mine():
            order.append(name)

    feeder = threading.Thread(target=feeding)
    feeder.start()
    ready.acquire()
    with turns.mine():
        others = [threading.Thread(target=working, args=[name]) for name in ("one", "two")]
        for number, thread in enumerate(others, start=1):
            thread.start()
            ready.acquire()
            _wait_until(turns, number)
        is_back.set()
        _wait_until(turns, 3)
    for thread in (feeder, *others):
        thread.join()

    assert order == ["feeding", "one", "two"]


def test_being_away_twice_is_being_away() -> None:
    turns = Turns()
    with turns.mine():
        with away(), away():
            assert is_free(turns)
        assert not is_free(turns)
    assert is_free(turns)


def test_a_copy_has_turns_of_its_own() -> None:
    turns = Turns()
    with turns.mine():
        assert is_free(copy.deepcopy(turns))
        assert is_free(pickle.loads(pickle.dumps(turns)))


def test_places_are_in_the_order_in_which_they_were_taken() -> None:
    turns, order = Turns(), []
    places = [turns.place() for _ in range(4)]

    def work(number: int) -> None:
        with turns.mine(places[number]):
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in (3, 1, 2, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)

    assert order == [0, 1, 2, 3]
    assert is_free(turns)


@pytest.mark.parametrize("leaving", [0, 1, 2])
def test_a_place_can_be_left_before_its_turn(leaving: int) -> None:
    turns = Turns()
    places = [turns.place() for _ in range(3)]

    turns.leave(places.pop(leaving))

    assert [place.is_called for place in places] == [True, False]
    turns.leave(places[0])
    assert places[1].is_called
    turns.leave(places[1])
    assert is_free(turns)


def test_whoever_is_called_to_a_device_has_the_interpreters_next_turn() -> None:
    turns, device, order, is_waiting = Turns(), Turns(), list[str](), threading.Event()

    def next_one() -> None:
        with turns.mine(), first_in_line(), in_line(device) as place:
            is_waiting.set()
            place.wait()
            order.append("next one")

    def somebody() -> None:
        with turns.mine():
            order.append("somebody")

    threads = [threading.Thread(target=next_one), threading.Thread(target=somebody)]
    with turns.mine():
        with holding(device):
            threads[0].start()
            with away():
                assert is_waiting.wait(timeout=20)
            threads[1].start()
            _wait_until(turns, 1)
        assert turns.is_wanted  # although nobody has had the time to wake up
        assert len(turns._waiting) == 2
        pause()
        order.append("this one")
    for thread in threads:
        thread.join(timeout=20)

    assert order[0] == "next one"
    assert is_free(turns)
    assert is_free(device)


@pytest.mark.parametrize("is_waited_for", [False, True])
def test_an_error_leaves_a_place_in_a_line(is_waited_for: bool) -> None:
    turns, device = Turns(), Turns()

    def fail() -> None:
        with turns.mine(), in_line(device) as place:
            if is_waited_for:
                place.wait()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()

    assert is_free(device)
    assert is_free(turns)


def test_what_is_left_twice_is_left_once() -> None:
    turns = Turns()
    first, second, third = (turns.place() for _ in range(3))

    turns.leave(first)
    turns.leave(first)

    assert second.is_called
    assert not third.is_called


def test_a_place_is_claimed_or_abandoned() -> None:
    turns = Turns()
    first, second, third = (turns.place() for _ in range(3))

    assert turns.claim(first)
    turns.abandon(first)
    assert not first.is_left
    turns.abandon(second)
    assert second.is_left
    assert not turns.claim(second)
    turns.leave(first)
    assert third.is_called


def test_a_turn_that_has_come_is_waited_for_no_more() -> None:
    turns, device = Turns(), Turns()
    with in_line(device) as place:
        place.wait()
        place.wait()
    with turns.mine(), in_line(device) as place:
        place.wait()
        place.wait()

    assert is_free(device)


def test_turns_within_turns_leave_both() -> None:
    outer, inner = Turns(), Turns()

    with outer.mine():
        with inner.mine():
            assert not is_free(inner)
        assert is_free(inner)
        with away():
            assert is_free(outer)
        assert not is_free(outer)

    assert is_free(outer)


def is_free(turns: Turns) -> bool:
    place = turns.place()
    turns.leave(place)
    return place.is_called


def _wait_until(turns: Turns, waiting: int) -> None:
    until = time.monotonic() + 20
    while len(turns._waiting) < waiting:
        assert time.monotonic() < until
        time.sleep(0.001)
