"""Work that spawned processes share: order, errors, deaths and counts are those of one process."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bidibeam.errors import InputError, ProcessLostError, SettingsError
from bidibeam.processes import AHEAD, Worker, sharing
from bidibeam.work import counting
from tests.unit.doubling import Doubling


def test_results_come_in_order_and_work_is_counted_wherever_it_is_done() -> None:
    recipe = Doubling(slow=0)
    with counting() as work, sharing(Doubling().double, [recipe.on("a"), recipe.on("b")]) as share:
        results = list(share(range(60)))

    assert [each for each, _, _ in results] == [2 * number for number in range(60)]
    assert {device for _, _, device in results} <= {None, "a", "b"}
    assert len({process for _, process, _ in results}) > 1  # a slow first item keeps no other process idle
    assert work.compared_pairs == 60


def test_no_more_is_read_ahead_than_the_processes_need() -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(1000):
            read.append(number)
            yield number

    with sharing(Doubling().double, [Doubling()]) as share:
        results = share(numbers())
        for _ in range(5):
            next(results)

    assert len(read) <= 5 + 2 * AHEAD


def test_an_error_comes_where_its_result_would_have_come() -> None:
    recipe = Doubling(refused=7)
    seen = []
    with sharing(recipe.double, [recipe]) as share, pytest.raises(InputError, match=r"^7 is refused\.$"):
        seen += [each for each, _, _ in share(range(100))]
    with sharing(recipe.double, [recipe]) as share:
        results = share(range(100))
        assert [next(results)[0] for _ in range(7)] == [0, 2, 4, 6, 8, 10, 12]


def test_errors_of_another_process_keep_their_class_and_what_they_name() -> None:
    broken, odd = Worker[int, object](Doubling(is_broken=True)), Worker[int, object](Doubling(odd=3))
    try:
        with pytest.raises(SettingsError, match=r"^It cannot be built\.$") as caught:
            broken(1)
        assert caught.value.setting == "built"
        with pytest.raises(RuntimeError, match="OddError: 3 and 3"):
            odd(3)
        assert odd(4) is not None  # it works on
    finally:
        broken.stop()
        odd.stop()


def test_a_process_that_is_killed_is_told_in_a_sentence_with_the_way_on() -> None:
    worker = Worker[int, object](Doubling(fatal=3))
    try:
        with pytest.raises(ProcessLostError, match=r"before its work was done \(by the signal SIGKILL\)"):
            worker(3)
    finally:
        worker.stop()


def test_no_process_is_left_when_the_block_ends_however_it_does() -> None:
    before = len(multiprocessing.active_children())
    with pytest.raises(ZeroDivisionError), sharing(Doubling().double, [Doubling(), Doubling()]) as share:
        assert next(share(range(10)))[0] / 0
    assert len(multiprocessing.active_children()) == before


ORPHANING = """
import os, signal
from bidibeam.processes import Worker
from tests.unit.doubling import Doubling

if __name__ == "__main__":
    worker = Worker(Doubling(slow=2))
    print(worker(1)[1], flush=True)
    worker._ours.send(2)  # it is at work, and nobody is there any more for what it finds
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="looks for a process by a signal")
def test_a_process_whose_parent_is_killed_ends_by_itself(tmp_path: Path) -> None:
    script = tmp_path / "orphaning.py"
    script.write_text(ORPHANING)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment
    )
    orphan = int(done.stdout)
    assert not done.stderr  # which the orphan has, too: what it says is waited for

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(orphan, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{orphan}/stat").exists() and " Z " in Path(f"/proc/{orphan}/stat").read_text():
            return  # nobody has asked for its status
        time.sleep(0.05)
    pytest.fail("it is still there")
