"""One decoder in many threads, under asyncio, and after a fork."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import bidibeam
from bidibeam.api import load_decoder
from bidibeam.api.scoring import ListScorer
from bidibeam.decoding.decoder import Decoder
from bidibeam.hf import BidiGenerate
from bidibeam.hypotheses import Direction
from bidibeam.search.settings import SearchSettings
from tests.unit.models.huggingface.folders import SOURCES, write_pair

THREADS = 8
SEARCH = SearchSettings(beam_size=4, max_length=6)
SAID = ["how are you?", "i love pizza .", "hello", "what is your name ?"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("pair"), "bart")


@pytest.fixture(params=["bundled", "huggingface"])
def job(request: pytest.FixtureRequest, pair: tuple[Path, Path]) -> tuple[list[Decoder], list[str]]:
    """Several decoders of one model, and what they answer."""
    model = bidibeam.load(device="cpu") if request.param == "bundled" else bidibeam.load(*pair, device="cpu")
    decoders = [load_decoder(model, name, settings=SEARCH) for name in ("bidia", "bidis", "bidia wmd_t")]
    return decoders, SAID if request.param == "bundled" else SOURCES


def replies(decoder: Decoder, sources: list[str], first: int) -> list[list[tuple[str, float | None]]]:
    """The n-best lists of the sources, from another one on."""
    lists = decoder.decode(sources[first % len(sources) :])
    return [[(one.text, one.score) for one in nbest] for nbest in lists]


def test_threads_and_tasks_get_the_same_replies_as_one(job: tuple[list[Decoder], list[str]]) -> None:
    decoders, sources = job
    calls = [(decoder, sources, number) for decoder in decoders for number in range(THREADS)]

    async def gather() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(replies, *call) for call in calls[::THREADS]))

    with ThreadPoolExecutor(THREADS) as pool:
        in_threads = list(pool.map(replies, *zip(*calls, strict=True)))
    assert in_threads == [replies(*call) for call in calls]
    assert asyncio.run(gather()) == in_threads[::THREADS]


def test_threads_may_load_the_same_model(pair: tuple[Path, Path]) -> None:
    def answer(_: int) -> Any:
        return replies(load_decoder(bidibeam.load(*pair, device="cpu"), settings=SEARCH), SOURCES, 0)

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(answer, range(THREADS)))

    assert found == [answer(0)] * THREADS


def test_threads_may_generate_from_both_ends(pair: tuple[Path, Path]) -> None:
    model = bidibeam.load(*pair, device="cpu")
    regular, reverse = (loaded.model for loaded in model.models.values())  # type: ignore[attr-defined]
    ids = torch.tensor([[5, 6, 7, 3], [8, 9, 10, 3]])
    both = BidiGenerate(reverse)

    def generate(_: int) -> Any:
        return regular.generate(
            ids, attention_mask=torch.ones_like(ids), custom_generate=both, num_beams=4, max_new_tokens=6
        ).tolist()

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(generate, range(THREADS))) == [generate(0)] * THREADS


def in_child(task: Callable[[], str]) -> str:
    """What a forked process says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(100)  # or what waits for ever would be waited for
        try:
            said = task()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of every fork with threads, by newer Pythons
def test_after_a_fork_a_decoder_works_with_one_thread_and_says_why_not_with_more(
    pair: tuple[Path, Path],
) -> None:
    model = bidibeam.load(*pair, device="cpu")
    decoder = load_decoder(model, settings=SEARCH)
    threads = torch.get_num_threads()

    def answer() -> str:
        return str(replies(decoder, SOURCES, 0))

    def answer_anew() -> str:
        return str(replies(load_decoder(model, settings=SEARCH), SOURCES, 0))

    def score() -> str:
        penalty: Any = None  # there is nothing to score
        return str(list(ListScorer(model, [Direction.REGULAR], penalty).score([], 1)))

    def alone() -> str:
        torch.set_num_threads(1)
        return answer()

    torch.set_num_threads(2)
    try:
        found = in_child(alone)
        told = [in_child(each) for each in (answer, answer_anew, score)]
        expected = alone()  # as many threads round alike
    finally:
        torch.set_num_threads(threads)

    assert found == expected
    for refused in told:  # whether the decoder was made before the fork or behind it
        assert "This process was forked from one that had a model, and torch's 2" in refused
        assert "call torch.set_num_threads(1) here, or start the process by" in refused
