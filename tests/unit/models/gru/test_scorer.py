"""The network as a search sees it: the numbers of training, whatever the batch, its padding or a replay."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bidibeam.data.batching import pad_sources
from bidibeam.errors import RunError
from bidibeam.hypotheses import Direction
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.search.beam import beam_search
from bidibeam.search.graphs import GraphCache
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.work import counting
from tests.conftest import TINY_MODEL
from tests.unit.search.emulation import EmulatedCapture
from tests.unit.search.test_oracles import RULES

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


def random_sources(count: int, seed: int = 0, *, longest: int | None = None) -> list[list[int]]:
    """Sources of up to 8 tokens, or of one token to so many, the first one so long."""
    generator = torch.Generator().manual_seed(seed)
    least, most = (0, 8) if longest is None else (1, longest)
    lengths = torch.randint(least, most + 1, (count,), generator=generator).tolist()
    lengths[0] = lengths[0] if longest is None else longest
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


def test_states_are_held_once_per_source_and_follow_their_rows() -> None:
    scorer = GRUScorer(network(), Direction.REVERSE)
    sources = pad_sources([[5, 6, 7], [8], [9, 10]])
    state = scorer.start(sources)
    _, state = scorer.step(torch.tensor([2, 2, 2]), state)
    widened = scorer.select(state, torch.tensor([[0, 0], [1, 1], [2, 2]]))
    logits, widened = scorer.step(torch.tensor([20, 21, 22, 23, 24, 25]), widened)
    logits = logits.clone()

    assert widened.keys is state.keys
    assert widened.memory is state.memory
    fewer = scorer.select(widened, torch.tensor([[1], [5]]), torch.tensor([0, 2]))  # the second source leaves
    assert fewer.keys.shape[1] == fewer.memory.shape[1] == fewer.mask.shape[0] == 2
    torch.testing.assert_close(fewer.hidden[0, :, 0], widened.hidden[0].flatten(0, 1)[[1, 5]])
    lone = scorer.start(pad_sources([[9, 10]]))
    _, lone = scorer.step(torch.tensor([2]), lone)
    expected, _ = scorer.step(torch.tensor([25]), lone)
    torch.testing.assert_close(expected[0], logits[5], rtol=1e-4, atol=1e-5)


def test_threads_that_search_and_score_at_once_find_what_one_finds() -> None:
    scorer = GRUScorer(network(), Direction.REGULAR)
    settings = SearchSettings(beam_size=5, max_length=8)
    batches = [pad_sources(random_sources(4, seed=seed)) for seed in range(8)]

    def work(sources: Tensor) -> tuple[Any, list[list[float]]]:
        found = beam_search(scorer, sources, settings, ROLES)
        tokens = [[(*sequence.tokens, 3) for sequence in line] for line in found]
        return found, scorer.log_probs(sources, tokens)

    alone = [work(sources) for sources in batches]
    with ThreadPoolExecutor(2) as pool:
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


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("stopping", RULES)
def test_a_replayed_search_finds_what_an_eager_one_finds(stopping: str, direction: Direction) -> None:
    how = SearchSettings(beam_size=5, max_length=9, stopping=stopping)
    eager, static = GRUScorer(network(), direction), GRUScorer(network(), direction)
    capture = EmulatedCapture()
    static.graphs = GraphCache(capture)

    for seed, (count, longest) in enumerate([(6, 7), (6, 5), (7, 3), (5, 7), (8, 1)]):  # one shape
        sources = pad_sources(random_sources(count, seed, longest=longest))
        found, expected = (
            [{one.tokens: one.score for one in line} for line in beam_search(scorer, sources, how, ROLES)]
            for scorer in (static, eager)
        )
        # Padding to a multiple of 8 positions changes the last bits of numbers, so that ties change places.
        for line, same in zip(found, expected, strict=True):
            assert line == pytest.approx(same, abs=1e-4)
            assert [*line.values()] == pytest.approx([*same.values()], abs=1e-4)  # in this order
    assert capture.recorded == 2
    assert capture.replayed > 3

    beam_search(static, pad_sources(random_sources(6, 9, longest=8)), how, ROLES)
    assert capture.recorded == 2, "a longer source is of another shape, which comes the first time"


def test_replayed_steps_are_counted() -> None:
    how = SearchSettings(beam_size=5, max_length=6, min_length=5)  # so that all five steps are replayed
    scorer = GRUScorer(network(), Direction.REGULAR)
    scorer.graphs = GraphCache(EmulatedCapture())
    for _ in range(2):
        beam_search(scorer, pad_sources(random_sources(4, 0, longest=8)), how, ROLES)

    with counting() as work:
        beam_search(scorer, pad_sources(random_sources(4, 0, longest=8)), how, ROLES)

    assert work.projected_rows == 4 + 5 * 4 * 5
