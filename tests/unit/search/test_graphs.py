"""Searches replayed from a capture find what eager ones find; CUDA graphs are emulated on a CPU."""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bidibeam.errors import ScorerError
from bidibeam.search.beam import beam_search
from bidibeam.search.graphs import MOST_GRAPHS, GraphCache
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.search.emulation import EmulatedCapture
from tests.unit.search.test_oracles import RULES, search_settings

VOCABULARY, SIZE = 70, 5
ROLES = VocabularyRoles(
    start=0, end=1, forbidden=frozenset({0, 2}), forbidden_first=frozenset({5}), other_ends=frozenset({66})
)


@dataclass(frozen=True)
class State:
    hidden: Tensor  # (sources, beams, size)
    sources: Tensor  # (sources, 1, size)


class RecurrentScorer:
    """A small recurrent network with rounded logits, so that ties abound."""

    def __init__(self, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.embedding, self.output = (
            torch.randn(VOCABULARY, SIZE, generator=generator) * scale for scale in (1.0, 2.0)
        )
        self.bias = torch.zeros(VOCABULARY)
        self.bias[[1, 66]] = 7.0
        self.steps = 0

    def start(self, sources: Tensor) -> State:
        vectors = self.embedding[sources[:, :1]]  # (sources, 1, size)
        return State(torch.zeros_like(vectors), vectors)

    def step(self, last_tokens: Tensor, state: State) -> tuple[Tensor, State]:
        self.steps += 1
        hidden = self.advance(last_tokens, state)
        return self.project(hidden), replace(state, hidden=hidden)

    def advance(self, tokens: Tensor, state: State) -> Tensor:
        words = self.embedding[tokens].view(state.hidden.shape)
        return torch.tanh(state.hidden.flip(-1) * 1.5 + words + state.sources)

    def project(self, hidden: Tensor) -> Tensor:
        return (hidden.flatten(0, 1) @ self.output.t() * 2).round() / 2 + self.bias

    def select(self, state: State, rows: Tensor, sources: Tensor | None = None) -> State:
        hidden = state.hidden.flatten(0, 1)[rows]
        return State(hidden, state.sources if sources is None else state.sources[sources])


class StaticRecurrence:
    dtype = torch.float32

    def __init__(self, scorer: RecurrentScorer, state: State) -> None:
        self.scorer = scorer
        self.state = State(torch.empty_like(state.hidden), torch.empty_like(state.sources))

    def load(self, state: State) -> None:
        self.state.hidden.copy_(state.hidden)
        self.state.sources.copy_(state.sources)

    def step(self, tokens: Tensor) -> Tensor:
        self.state.hidden.copy_(self.scorer.advance(tokens, self.state))
        return self.scorer.project(self.state.hidden)

    def reorder(self, rows: Tensor) -> None:
        flat = self.state.hidden.flatten(0, 1)
        flat.copy_(flat.index_select(0, rows))


class StaticScorer(RecurrentScorer):
    """The same with graphs."""

    memory: type[Any] = StaticRecurrence

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.capture = EmulatedCapture()
        self.graphs = GraphCache(self.capture)
        self.key: Hashable | None = "recurrent"

    def static_key(self, state: State) -> Hashable | None:  # noqa: ARG002
        return self.key

    def static_state(self, state: State, steps: int) -> Any:  # noqa: ARG002
        return self.memory(self, state)


def batch(*sources: int) -> Tensor:
    return torch.tensor([[source] for source in sources])


@settings(max_examples=30, deadline=None)
@given(search_settings(), st.lists(st.integers(3, 60), min_size=1, max_size=11), st.integers(0, 10**6))
def test_a_replayed_search_finds_what_an_eager_one_finds(
    how: SearchSettings, sources: list[int], seed: int
) -> None:
    how = replace(how, max_length=how.max_length + 4)
    eager, static = RecurrentScorer(seed), StaticScorer(seed)

    expected = beam_search(eager, batch(*sources), how, ROLES)

    for _ in range(3):
        assert beam_search(static, batch(*sources), how, ROLES) == expected
    assert static.capture.recorded == 2 or not how.min_length, "unless all ended at the first step"


@pytest.mark.parametrize("stopping", RULES)
@pytest.mark.parametrize("unfinished", ["keep", "rank", "drop"])
def test_one_capture_replays_searches_of_other_sources(stopping: str, unfinished: str) -> None:
    how = SearchSettings(4, 9, min_length=3, stopping=stopping, unfinished=unfinished)
    scorer = StaticScorer()
    for _ in range(2):
        beam_search(scorer, batch(*range(3, 9)), how, ROLES)

    for sources in (range(10, 16), range(20, 28), range(30, 35)):  # all padded to 8
        steps = scorer.steps
        found = beam_search(scorer, batch(*sources), how, ROLES)

        assert scorer.steps == steps + 1, "only the first step is eager"
        assert found == beam_search(RecurrentScorer(), batch(*sources), how, ROLES)
    assert scorer.capture.recorded == 2


def test_a_replay_stops_soon_after_all_sources_are_done() -> None:
    how = SearchSettings(4, 60, stopping="patience=0.25")
    scorer = StaticScorer()
    needed = RecurrentScorer()
    beam_search(needed, batch(3, 4), how, ROLES)
    for _ in range(2):
        beam_search(scorer, batch(3, 4), how, ROLES)
    before = scorer.capture.replayed

    beam_search(scorer, batch(3, 4), how, ROLES)

    assert needed.steps < 40
    assert scorer.capture.replayed - before <= needed.steps + 4


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"max_length": 1, "min_length": 0}, "recurrent"),  # there is nothing to replay
        ({"beam_size": VOCABULARY + 5}, "recurrent"),  # the first step does not fill the beam
        ({}, None),  # the scorer has no key
        ({"no_repeat_ngram_size": 2}, "recurrent"),  # what may follow depends on what was written
        ({"repetition_penalty": 1.2}, "recurrent"),
    ],
)
def test_some_searches_are_always_eager(options: dict[str, Any], key: str | None) -> None:
    scorer = StaticScorer()
    scorer.key = key
    for _ in range(3):
        beam_search(scorer, batch(3), SearchSettings(**options), ROLES)

    assert scorer.capture.recorded == 0


class Waiting(StaticRecurrence):
    """Looks at a number on the device."""

    def step(self, tokens: Tensor) -> Tensor:
        assert tokens.sum().item() >= 0
        return super().step(tokens)


class Forgetful(StaticRecurrence):
    """Does not load the sources."""

    def load(self, state: State) -> None:
        self.state.hidden.copy_(state.hidden)
        self.state.sources.zero_()


@pytest.mark.parametrize("memory", [Waiting, Forgetful])
def test_what_cannot_be_captured_or_replays_otherwise_stays_eager(memory: type[Any]) -> None:
    scorer = StaticScorer()
    scorer.memory = memory
    expected = beam_search(RecurrentScorer(), batch(3, 4, 5), SearchSettings(), ROLES)

    found = [beam_search(scorer, batch(3, 4, 5), SearchSettings(), ROLES) for _ in range(2)]
    recorded, replayed = scorer.capture.recorded, scorer.capture.replayed
    found += [beam_search(scorer, batch(3, 4, 5), SearchSettings(), ROLES) for _ in range(2)]

    assert found == [expected] * 4
    assert (scorer.capture.recorded, scorer.capture.replayed) == (recorded, replayed), "it is remembered"


def test_a_few_graphs_are_kept() -> None:
    scorer = StaticScorer()
    shapes = [SearchSettings(beam_size=size) for size in range(1, MOST_GRAPHS + 2)]
    for how in shapes:
        for _ in range(2):
            beam_search(scorer, batch(3), how, ROLES)
    assert scorer.capture.recorded == 2 * len(shapes)

    for how in shapes[1:]:
        beam_search(scorer, batch(3), how, ROLES)
    assert scorer.capture.recorded == 2 * len(shapes), "those used last are there"

    beam_search(scorer, batch(3), shapes[0], ROLES)
    assert scorer.capture.recorded == 2 * len(shapes) + 2


@pytest.mark.parametrize("step", [1, 2, 5])
def test_broken_logits_are_told_with_source_and_step(step: int) -> None:
    how = SearchSettings(3, 6, min_length=5)
    scorer = StaticScorer()
    for _ in range(2):
        lists = beam_search(scorer, batch(3, 4, 5), how, ROLES)
    assert lists[1][0].length > step
    # The word that is read at that step breaks, in the memory that the graph reads.
    scorer.embedding[0 if step == 1 else lists[1][0].tokens[step - 2]] = torch.nan
    eager = RecurrentScorer()
    eager.embedding = scorer.embedding

    with pytest.raises(ScorerError) as expected:
        beam_search(eager, batch(3, 4, 5), how, ROLES)
    with pytest.raises(ScorerError) as caught:
        beam_search(scorer, batch(3, 4, 5), how, ROLES)
    assert str(caught.value) == str(expected.value)


def test_threads_share_a_graph() -> None:
    scorer, how = StaticScorer(), SearchSettings(4, 9)
    batches = [batch(*range(first, first + 6)) for first in range(3, 60, 6)]
    expected = [beam_search(RecurrentScorer(), sources, how, ROLES) for sources in batches]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda sources: beam_search(scorer, sources, how, ROLES), batches * 2))

    assert found == expected * 2
    assert scorer.capture.recorded == 2


def test_a_scorer_without_graphs_on_its_device_is_eager() -> None:
    scorer = StaticScorer()
    scorer.graphs = GraphCache()  # of a GPU

    found = [beam_search(scorer, batch(3), SearchSettings(), ROLES) for _ in range(3)]

    assert found == [beam_search(RecurrentScorer(), batch(3), SearchSettings(), ROLES)] * 3
