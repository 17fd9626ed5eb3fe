"""The network as a search sees it: the same numbers as in training, whatever the batch and its padding."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bidibeam.data.batching import pad_sources
from bidibeam.decoding.rescoring import TokenLines
from bidibeam.errors import RunError
from bidibeam.hypotheses import Direction
from bidibeam.interpreter import taking_turns
from bidibeam.models.gru.forcing import best_width, distinct_prefixes
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.gru.pairs import PairScorer
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.work import counting
from tests.conftest import TINY_MODEL

VOCABULARY = 70
ROLES = VocabularyRoles(start=2, end=3, forbidden=frozenset({0, 1, 2}))
SHAPES = {
    "shared": TINY_MODEL,
    "apart": replace(TINY_MODEL, shared_encoder=False),
    "tied": replace(TINY_MODEL, tied_output=True),
    "alone": replace(TINY_MODEL, directions=("reverse",)),
    "deep": replace(TINY_MODEL, encoder_layers=3),
}


def network(settings: ModelSettings = TINY_MODEL) -> BidirectionalModel:
    """A network with random weights, large enough that it prefers some words to others."""
    torch.manual_seed(11)
    model = BidirectionalModel(settings, VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return model.eval()


def random_sources(count: int, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 9, (count,), generator=generator).tolist()
    return [torch.randint(4, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]


def teacher_forced(
    model: BidirectionalModel, source: list[int], written: list[int], direction: Direction
) -> float:
    """The log-probability that training's own forward pass gives; every direction reads the same tokens."""
    targets = torch.tensor([written] * len(model.directions)).unsqueeze(2)  # (D, T, 1)
    inputs = torch.cat((torch.full_like(targets[:, :1], 2), targets[:, :-1]), dim=1)
    sources = pad_sources([source])
    with torch.no_grad():
        losses = model(sources, torch.tensor([sources.shape[1]]), inputs, targets)
    return -float(losses.sums[model.directions.index(direction)])


@pytest.mark.parametrize("name", SHAPES)
def test_a_searched_log_probability_is_the_teacher_forced_one(name: str) -> None:
    model = network(SHAPES[name])
    sources = random_sources(6)
    for direction in model.directions:
        found = beam_search(
            GRUScorer(model, direction), pad_sources(sources), SearchSettings(beam_size=5), ROLES
        )

        for source, sequences in zip(sources, found, strict=True):
            assert len(sequences) == 5
            for sequence in sequences:
                written = [*sequence.tokens, *([3] if sequence.finished else [])]
                forced = teacher_forced(model, source, written, direction)
                assert sequence.log_prob == pytest.approx(forced, abs=1e-4)


@pytest.mark.parametrize("name", SHAPES)
def test_scoring_sequences_equals_teacher_forcing_them_one_by_one(name: str) -> None:
    model = network(SHAPES[name])
    sources = random_sources(4, seed=3)
    sequences = [[[5, 6, 7, 3], [8, 3]], [[3]], [], [[9, 10], [11, 3], [12, 13, 14, 15, 3]]]
    for direction in model.directions:
        scored = GRUScorer(model, direction).log_probs(pad_sources(sources), sequences)

        expected = [
            [teacher_forced(model, source, sequence, direction) for sequence in line]
            for source, line in zip(sources, sequences, strict=True)
        ]
        assert [len(line) for line in scored] == [2, 1, 0, 3]
        for line, expected_line in zip(scored, expected, strict=True):
            assert line == pytest.approx(expected_line, abs=1e-4)


def test_a_source_with_many_sequences_is_scored_in_several_lines() -> None:
    model = network()
    sources = random_sources(5, seed=4)
    chance = Random(0)
    many = [[chance.randrange(4, 16) for _ in range(chance.randrange(1, 7))] + [3] for _ in range(40)]
    sequences = [[[5, 3]], many, [], [[6, 7, 3]], [[8]]]
    steps, _ = distinct_prefixes(sequences).to(torch.device("cpu"))

    scored = GRUScorer(model, Direction.REVERSE).log_probs(pad_sources(sources), sequences)

    assert max(step.parents.numel() / len(step.rows) for step in steps) < 1.5  # little padding
    assert any(step.sources is not None and len(step.sources) > len(sources) for step in steps)
    for source, line, found in zip(sources, sequences, scored, strict=True):
        expected = [teacher_forced(model, source, sequence, Direction.REVERSE) for sequence in line]
        assert found == pytest.approx(expected, abs=1e-4)


def test_lines_are_as_wide_as_costs_least() -> None:
    assert best_width(np.array([50, 1, 1, 1, 0, 1])) == 1
    assert best_width(np.array([4, 4, 0, 4])) == 4
    assert best_width(np.array([3, 4, 4, 4])) == 4


def test_nothing_to_score_is_no_error() -> None:
    scorer = GRUScorer(network(), Direction.REGULAR)

    assert scorer.log_probs(pad_sources([[5]]), [[]]) == [[]]
    assert scorer.log_probs(pad_sources([[5]]), [[[]]]) == [[0.0]]


@pytest.mark.parametrize("stopping", ["shrinking", "constant", "patience", "optimal", "exhaust"])
def test_a_batch_is_searched_as_its_members_one_by_one(stopping: str) -> None:
    model = network()
    sources = random_sources(7, seed=1)
    settings = SearchSettings(beam_size=6, max_length=9, stopping=stopping)
    for direction in model.directions:
        scorer = GRUScorer(model, direction)
        together = beam_search(scorer, pad_sources(sources), settings, ROLES)
        wider = torch.nn.functional.pad(pad_sources(sources), (0, 5))
        padded = beam_search(scorer, wider, settings, ROLES)
        alone = [beam_search(scorer, pad_sources([source]), settings, ROLES)[0] for source in sources]

        for one, two, three in zip(together, padded, alone, strict=True):
            assert [found.tokens for found in one] == [found.tokens for found in two]
            assert [found.tokens for found in one] == [found.tokens for found in three]
            assert [found.score for found in one] == pytest.approx([found.score for found in three], abs=1e-5)


@pytest.mark.parametrize("name", ["shared", "apart", "tied"])
@pytest.mark.parametrize("stopping", ["shrinking", "optimal"])
def test_both_directions_in_one_search_find_what_two_searches_find(name: str, stopping: str) -> None:
    model = network(SHAPES[name])
    with torch.no_grad():
        model.b_output[:, 3] += 1.5  # replies end, some soon, so that sources leave at different times
    sources = pad_sources(random_sources(9, seed=5))
    settings = SearchSettings(beam_size=4, max_length=9, stopping=stopping)

    both = PairScorer(GRUScorer(model, Direction.REGULAR), GRUScorer(model, Direction.REVERSE))
    together = beam_search(both, torch.cat((sources, sources)), settings, ROLES)

    apart = [
        found
        for direction in (Direction.REGULAR, Direction.REVERSE)
        for found in beam_search(GRUScorer(model, direction), sources, settings, ROLES)
    ]
    assert len(together) == len(apart) == 18
    assert len({max(len(found.tokens) for found in line) for line in apart}) > 1
    for one, two in zip(together, apart, strict=True):
        assert [found.tokens for found in one] == [found.tokens for found in two]
        assert [found.log_prob for found in one] == pytest.approx([found.log_prob for found in two], abs=1e-5)


def test_sequences_share_the_work_on_what_they_begin_with() -> None:
    scorer = GRUScorer(network(), Direction.REGULAR)
    sequences = [[[5, 6, 7, 3], [5, 6, 8, 3], [5, 3]], [[5, 6, 3]]]

    with counting() as work:
        together = scorer.log_probs(pad_sources([[4, 5], [6]]), sequences)

    # Of the first source: the empty prefix, 5, 5 6, 5 6 7 and 5 6 8; of the second: the empty one, 5 and 5 6.
    assert work.projected_rows == 8
    for source, line, expected in zip(([4, 5], [6]), sequences, together, strict=True):
        alone = [scorer.log_probs(pad_sources([source]), [[sequence]])[0][0] for sequence in line]
        assert alone == pytest.approx(expected, abs=1e-5)


def test_states_are_held_once_a_source_and_follow_their_rows() -> None:
    scorer = GRUScorer(network(), Direction.REVERSE)
    sources = pad_sources([[5, 6, 7], [8], [9, 10]])
    state = scorer.start(sources)
    _, state = scorer.step(torch.tensor([2, 2, 2]), state)
    widened = scorer.select(state, torch.tensor([[0, 0], [1, 1], [2, 2]]))
    logits, widened = scorer.step(torch.tensor([20, 21, 22, 23, 24, 25]), widened)
    logits = logits.clone()

    assert widened.keys is state.keys
    assert widened.memory is state.memory
    fewer = scorer.select(widened, torch.tensor([[1], [5]]), [0, 2])  # the second source leaves
    assert fewer.keys.shape[1] == fewer.memory.shape[1] == fewer.mask.shape[0] == 2
    torch.testing.assert_close(fewer.hidden[0, :, 0], widened.hidden[0].flatten(0, 1)[[1, 5]])
    lone = scorer.start(pad_sources([[9, 10]]))
    _, lone = scorer.step(torch.tensor([2]), lone)
    expected, _ = scorer.step(torch.tensor([25]), lone)
    torch.testing.assert_close(expected[0], logits[5], rtol=1e-4, atol=1e-5)


def test_sequences_may_be_arrays() -> None:
    scorer = GRUScorer(network(), Direction.REVERSE)
    nested: list[list[tuple[int, ...]]] = [[(5, 6, 7, 3), (8, 3)], [], [(3,)], [(9, 10), ()]]
    flat = TokenLines(
        np.array([5, 6, 7, 3, 8, 3, 3, 9, 10]), np.array([4, 2, 1, 2, 0]), np.array([2, 0, 1, 2])
    )

    assert list(flat) == nested
    assert scorer.log_probs(pad_sources(random_sources(4)), flat) == scorer.log_probs(
        pad_sources(random_sources(4)), nested
    )


@pytest.mark.parametrize("is_pair", [False, True])
def test_another_threads_step_leaves_the_logits_alone(is_pair: bool) -> None:
    model = network()
    first, second = (GRUScorer(model, direction) for direction in model.directions)
    scorer: Any = PairScorer(first, second) if is_pair else first
    sources = pad_sources([[5, 6], [5, 6]])
    logits, _ = scorer.step(torch.tensor([2, 2]), scorer.start(sources))
    before = logits.clone()

    with ThreadPoolExecutor(1) as pool:
        others, _ = pool.submit(lambda: scorer.step(torch.tensor([9, 9]), scorer.start(sources))).result()

    assert torch.equal(logits, before)
    assert not torch.equal(logits, others)


def test_threads_that_search_and_score_at_once_find_what_one_finds() -> None:
    scorer = GRUScorer(network(), Direction.REGULAR)
    settings = SearchSettings(beam_size=5, max_length=8)
    batches = [pad_sources(random_sources(4, seed=seed)) for seed in range(8)]

    def work(sources: Tensor) -> tuple[Any, list[list[float]]]:
        found = beam_search(scorer, sources, settings, ROLES)
        tokens = [[(*sequence.tokens, 3) for sequence in line] for line in found]
        return found, scorer.log_probs(sources, tokens)

    alone = [work(sources) for sources in batches]
    with taking_turns(1e-5), ThreadPoolExecutor(2) as pool:
        together = list(pool.map(work, batches))

    assert together == alone


def test_padding_reaches_no_encoder_state() -> None:
    model = network()

    def memory(width: int) -> Tensor:
        sources = torch.nn.functional.pad(torch.tensor([[5, 6, 7, 3]]), (0, width - 4))
        states, _ = model.encode(sources, torch.tensor([4]))
        return states[:, :, :4]

    torch.testing.assert_close(memory(4), memory(30))


def test_a_direction_that_the_run_lacks_is_named() -> None:
    model = network(replace(TINY_MODEL, directions=("regular",)))

    with pytest.raises(
        RunError, match=r"This run has no reverse decoder, only: regular\. Train one with both"
    ):
        GRUScorer(model, Direction.REVERSE)
