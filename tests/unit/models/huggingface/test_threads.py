"""Threads that share a model do not disturb each other, nor does a search leave anything on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from bidibeam.errors import ScorerError
from bidibeam.models.huggingface.attention import IMPLEMENTATION, ForcedReading, Pass, attend, attending
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.models.huggingface.test_parity import model_of

SOURCES = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
ROUNDS = 8


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def hooked(kind: str) -> Any:
    """A model whose own modules are called, since somebody looks at them."""
    model = model_of(kind, seed=1)
    next(iter(model.get_decoder().modules())).register_forward_hook(lambda *_: None)
    return model


def searched(scorer: HFScorer) -> Any:
    how = SearchSettings(beam_size=4, max_length=8, min_length=0, stopping="constant")
    return [[one.tokens for one in line] for line in beam_search(scorer, SOURCES, how, VocabularyRoles(0, 2))]


def generated(model: Any) -> Any:
    mask = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]])
    if model.config.is_encoder_decoder:
        mask = mask.flip(1)
    return model.generate(input_ids=SOURCES, attention_mask=mask, num_beams=3, max_new_tokens=8).tolist()


def at_once(*calls: Callable[[], Any]) -> list[list[Any]]:
    """What each says, time and again, in a thread of its own."""
    begin = Barrier(len(calls))

    def repeated(call: Callable[[], Any]) -> list[Any]:
        begin.wait()
        return [call() for _ in range(ROUNDS)]

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(repeated, call) for call in calls]]


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_searches_and_generate_run_beside_each_other(kind: str, implementation: str) -> None:
    model = hooked(kind)
    model.set_attn_implementation(implementation)
    alone, theirs, own = searched(HFScorer(model)), generated(model), type(model.config)

    found = at_once(
        lambda: searched(HFScorer(model)), lambda: searched(HFScorer(model)), lambda: generated(model)
    )

    assert found == [[alone] * ROUNDS, [alone] * ROUNDS, [theirs] * ROUNDS]
    assert model.config._attn_implementation == implementation
    assert type(model.config) is own


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_threads_may_share_a_scorer(kind: str) -> None:
    scorer = HFScorer(model_of(kind, seed=1))
    alone = searched(scorer)

    assert at_once(*[lambda: searched(scorer)] * 3) == [[alone] * ROUNDS] * 3


def in_another_thread(call: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def test_a_pass_is_its_own_thread_s_alone() -> None:
    config = AutoConfig.for_model("bart", attn_implementation="eager")
    own, now = type(config), Pass(ForcedReading(None))

    with attending([config], now):
        with attending([config], now):
            assert config._attn_implementation == IMPLEMENTATION
        assert config._attn_implementation == IMPLEMENTATION
        assert in_another_thread(lambda: config._attn_implementation) == "eager"
        assert isinstance(config, own)
        in_another_thread(lambda: setattr(config, "_attn_implementation", "sdpa"))

    assert config._attn_implementation == "sdpa"
    assert type(config) is own


def test_a_pass_that_fails_leaves_nothing() -> None:
    config = AutoConfig.for_model("gpt2", attn_implementation="eager")
    own = type(config)

    with pytest.raises(KeyError), attending([config], Pass(ForcedReading(None))):
        raise KeyError

    assert type(config) is own
    assert config._attn_implementation == "eager"


def test_to_attend_without_a_pass_is_refused() -> None:
    rows = torch.zeros(1, 1, 1, 4)

    with pytest.raises(ScorerError, match=r"^Linear is set to attend with 'bidibeam', which is for searches"):
        attend(torch.nn.Linear(1, 1), rows, rows, rows, None)
