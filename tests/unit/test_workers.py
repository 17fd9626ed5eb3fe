from __future__ import annotations

import threading
import time
from random import Random

import numpy as np
import pytest

from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.tokens import worth_a_thread
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


def test_compiled_comparisons_leave_the_turn_to_others() -> None:
    words = [f"w{number}" for number in range(20)]
    beam = NBest(
        tuple(Hypothesis(" ".join(words[at:]), tuple(words[at:]), -1.0, 3, -1.0) for at in range(len(words)))
    )
    lines = [Beams(str(number), "", regular=beam, reverse=beam) for number in range(2000)]
    turns, began, went = Turns(), threading.Event(), []

    def other() -> None:
        began.set()
        with turns.mine():
            went.append(time.perf_counter())

    with turns.mine():
        thread = threading.Thread(target=other)
        thread.start()
        began.wait()
        BleuT().closest_pairs([(line.regular.hypotheses, line.reverse.hypotheses) for line in lines])
        done = time.perf_counter()
    thread.join()

    assert went[0] < done


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


@pytest.mark.parametrize("similarity", [BleuT(), BleuT(order=2)])
def test_parts_of_many_comparisons_find_what_one_finds(
    similarity: BleuT, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(0)

    def beam() -> tuple[Hypothesis, ...]:
        lines = [chance.choices("abcdef", k=chance.randint(1, 9)) for _ in range(chance.randint(1, 6))]
        return tuple(Hypothesis(" ".join(line), tuple(line), -1.0, 3, -1.0) for line in lines)

    comparisons = [(beam(), beam()) for _ in range(50)]
    alone = similarity.closest_pairs(comparisons)
    monkeypatch.setattr("bidibeam.similarities.tokens.WORTHWHILE", 20)

    with workers(7):
        assert similarity.closest_pairs(comparisons) == alone


def test_what_is_worth_a_thread_depends_on_the_pairs() -> None:
    assert worth_a_thread(np.array([0, 25, 50], np.int32)) == 160  # of 25 x 25 pairs
    assert worth_a_thread(np.array([0, 100, 200, 300, 400], np.int32)) == 10
    assert worth_a_thread(np.array([0, 5000, 10000], np.int32)) == 1
    assert worth_a_thread(np.array([0], np.int32)) == 1
