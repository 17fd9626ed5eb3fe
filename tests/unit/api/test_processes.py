"""One decoder in many threads, under asyncio, and after a fork."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import bidibeam
from bidibeam.api import load_decoder
from bidibeam.decoding.decoder import Decoder
from bidibeam.hf import BidiGenerate
from bidibeam.search.settings import SearchSettings
from tests.unit.models.huggingface.folders import SOURCES, write_pair

THREADS = 8
SEARCH = SearchSettings(beam_size=6, max_length=8)
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
        return await asyncio.gather(*(asyncio.to_thread(replies, *call) for call in calls))

    with ThreadPoolExecutor(THREADS) as pool:
        in_threads = list(pool.map(replies, *zip(*calls, strict=True)))
    assert in_threads == [replies(*call) for call in calls]
    assert asyncio.run(gather()) == in_threads


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


FORKED = """
import os, sys, torch, bidibeam

def in_child(task):
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            said = task()
        except bidibeam.BidibeamError as error:
            said = f"refused: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    return os.fdopen(reader).read()

def alone():
    torch.set_num_threads(1)
    return answer()

def answer():
    return decoder.decode(["how are you?"] * 8)[0].hypotheses[0].text

def answer_anew():
    return bidibeam.load_decoder(model).decode(["how are you?"])[0].hypotheses[0].text

torch.set_num_threads(2)
model = bidibeam.load()
print(in_child(answer_anew))
decoder = bidibeam.load_decoder(model)
assert in_child(alone) == answer()
print(in_child(answer))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_after_a_fork_a_decoder_works_with_one_thread_and_says_why_not_with_more() -> None:
    words = [sys.executable, "-W", "ignore", "-c", FORKED]  # newer Pythons warn of every fork with threads
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)

    for line in done.stdout.splitlines():  # whether the decoder was made before the fork or behind it
        assert line.startswith("refused: This process was forked from one that had a model, and torch's 2")
        assert "call torch.set_num_threads(1) here, or start the process by" in line
    assert done.stdout.count("\n") == 2
