from __future__ import annotations

import gc
import sys

import pytest

from bidibeam.interpreter import taking_turns, uncollected


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
