"""Dynamic batching: what is done together, what is refused, and what no item can spoil."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from threading import Event
from typing import Any

import pytest

from bidibeam.serving.batching import Batcher, ClosedError, QueueFullError, Task
from bidibeam.work import StoppedError, count

WAIT_S = 30


class PanicException(BaseException):
    """What is no Exception."""


class Recorder:
    """Task that notes each call, and can be held up."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.begun, self.may_go = Event(), Event()
        self.may_go.set()

    def work(self, key: str = "key") -> Task:
        return Task(key, key, self.run)

    def run(self, items: Sequence[Any]) -> list[str]:
        self.calls.append([*items])
        self.begun.set()
        assert self.may_go.wait(WAIT_S)
        if "poison" in items:
            raise ValueError("poison")
        if "panic" in items:
            raise PanicException("panic")
        return [f"<{item}>" for item in items]

    def hold(self, batcher: Batcher) -> Future[Any]:
        """Keep the worker busy until `may_go` is set."""
        self.may_go.clear()
        (future,) = batcher.submit(self.work("holding"), ["first"])
        assert self.begun.wait(WAIT_S)
        return future


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def batcher(recorder: Recorder) -> Iterator[Batcher]:
    made = Batcher(max_batch=3, max_wait_ms=0, capacity=6)
    yield made
    recorder.may_go.set()
    made.close(WAIT_S)


def results(futures: Sequence[Future[Any]]) -> list[Any]:
    return [future.result(WAIT_S) for future in futures]


def test_what_waits_is_done_together_by_key_and_in_order(batcher: Batcher, recorder: Recorder) -> None:
    first = recorder.hold(batcher)
    ours = batcher.submit(recorder.work("a"), ["a1", "a2"])
    other = batcher.submit(recorder.work("b"), ["b1"])
    more = batcher.submit(recorder.work("a"), ["a3", "a4"])
    recorder.may_go.set()

    assert results([first, *ours, *other, *more]) == ["<first>", "<a1>", "<a2>", "<b1>", "<a3>", "<a4>"]
    assert recorder.calls == [["first"], ["a1", "a2", "a3"], ["b1"], ["a4"]]


def test_a_young_item_waits_for_others_until_the_batch_is_full(recorder: Recorder) -> None:
    batcher = Batcher(max_batch=2, max_wait_ms=60_000, capacity=9)

    one = batcher.submit(recorder.work(), ["one"])
    assert not recorder.calls
    two = batcher.submit(recorder.work(), ["two"])

    assert results([*one, *two]) == ["<one>", "<two>"]
    assert recorder.calls == [["one", "two"]]
    batcher.close(WAIT_S)


def test_a_full_queue_takes_all_of_a_request_or_nothing(batcher: Batcher, recorder: Recorder) -> None:
    recorder.hold(batcher)
    waiting = batcher.submit(recorder.work(), ["1", "2", "3", "4"])

    with pytest.raises(QueueFullError) as refused:
        batcher.submit(recorder.work(), ["5", "6", "7"])

    assert refused.value.retry_after_s >= 1
    assert batcher.waiting == 4
    waiting[0].cancel()  # its client has left, so there is room
    assert len(batcher.submit(recorder.work(), ["5", "6", "7"])) == 3


def test_an_item_that_nobody_waits_for_is_never_worked_on(batcher: Batcher, recorder: Recorder) -> None:
    recorder.hold(batcher)
    left, stays = batcher.submit(recorder.work(), ["left", "stays"])
    left.give_up()
    recorder.may_go.set()

    assert stays.result(WAIT_S) == "<stays>"
    assert recorder.calls == [["first"], ["stays"]]


def test_work_goes_on_while_one_of_a_batch_wants_it(batcher: Batcher) -> None:
    steps = Event()

    def run(items: Sequence[Any]) -> Sequence[Any]:
        assert steps.wait(WAIT_S)
        count(projected_rows=1)
        return items

    one, other = batcher.submit(Task("stepping", "key", run), ["one", "other"])
    one.give_up()
    steps.set()
    assert other.result(WAIT_S) == "other"

    steps.clear()
    both = batcher.submit(Task("stepping", "key", run), ["one", "other"])
    while batcher.running < 2:
        pass
    for each in both:
        each.give_up()
    steps.set()
    for each in both:
        with pytest.raises(StoppedError):
            each.result(WAIT_S)
    assert batcher.is_alive


def test_an_item_that_left_fills_no_batch(recorder: Recorder) -> None:
    batcher = Batcher(max_batch=2, max_wait_ms=60_000, capacity=9)
    (left,) = batcher.submit(recorder.work(), ["left"])
    left.give_up()

    futures = [*batcher.submit(recorder.work(), ["one"]), *batcher.submit(recorder.work(), ["two"])]

    assert results(futures) == ["<one>", "<two>"]
    assert recorder.calls == [["one", "two"]]
    batcher.close(WAIT_S)


@pytest.mark.parametrize("bad", ["poison", "panic"])
def test_a_bad_item_fails_alone_and_the_worker_lives(batcher: Batcher, recorder: Recorder, bad: str) -> None:
    recorder.hold(batcher)
    good, spoilt, other = batcher.submit(recorder.work(), ["good", bad, "other"])
    recorder.may_go.set()

    assert good.result(WAIT_S) == "<good>"
    assert other.result(WAIT_S) == "<other>"
    with pytest.raises(BaseException, match=bad):
        spoilt.result(WAIT_S)
    assert results(batcher.submit(recorder.work(), ["after"])) == ["<after>"]
    assert batcher.is_alive


def test_work_that_returns_too_few_results_fails(batcher: Batcher) -> None:
    (future,) = batcher.submit(Task("short", "key", lambda _: []), ["one"])

    with pytest.raises(ValueError, match="shorter"):
        future.result(WAIT_S)


def test_closing_answers_what_was_accepted_and_takes_nothing_more(
    batcher: Batcher, recorder: Recorder
) -> None:
    first = recorder.hold(batcher)
    waiting = batcher.submit(recorder.work(), ["1", "2", "3", "4"])
    recorder.may_go.set()

    batcher.close(WAIT_S)

    assert results([first, *waiting]) == ["<first>", "<1>", "<2>", "<3>", "<4>"]
    assert not batcher.is_alive
    with pytest.raises(ClosedError):
        batcher.submit(recorder.work(), ["late"])


def test_it_tells_how_long_items_waited(recorder: Recorder) -> None:
    seen: list[tuple[object, int]] = []
    batcher = Batcher(
        max_batch=9, max_wait_ms=0, capacity=9, watch=lambda key, waits: seen.append((key, len(waits)))
    )

    results(batcher.submit(recorder.work("k"), ["1", "2"]))

    assert seen == [("k", 2)]
    batcher.close(WAIT_S)
