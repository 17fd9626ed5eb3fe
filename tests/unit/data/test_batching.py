"""Batches: every pair once, turned around where the direction says so, the same order for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.batching import PairBatches, pad_sources
from bidibeam.data.prepared import PairArrays
from bidibeam.data.tokenization import END_ID, PAD_ID, START_ID
from bidibeam.hypotheses import Direction

Texts = list[tuple[list[int], list[int]]]

tokens = st.lists(st.integers(4, 60_000), min_size=1, max_size=40)
texts = st.lists(st.tuples(tokens, tokens), min_size=1, max_size=30)


def arrays(pairs: Texts) -> PairArrays:
    flat = [token for pair in pairs for text in pair for token in text]
    lengths = np.array([[len(source), len(response)] for source, response in pairs], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths.ravel())[:-1])).reshape(-1, 2)
    return PairArrays(
        np.array(flat, dtype=np.uint16), starts[:, 0], lengths[:, 0], starts[:, 1], lengths[:, 1]
    )


def read_back(targets: torch.Tensor) -> list[int]:
    """A line of targets without its end and padding."""
    line = targets.tolist()
    assert line[line.index(END_ID) :] == [END_ID] + [PAD_ID] * (len(line) - line.index(END_ID) - 1)
    return line[: line.index(END_ID)]


@given(texts, st.integers(1, 7), st.integers(0, 3))
def test_an_epoch_holds_every_pair_once_in_both_directions(pairs: Texts, batch_size: int, seed: int) -> None:
    batches = PairBatches(arrays(pairs), list(Direction), batch_size=batch_size)

    seen = []
    for plan in batches.plan(seed=(seed, 0)):
        batch = batches.batch(plan)
        assert len(plan.indices) <= batch_size
        for line, index in enumerate(plan.indices):
            source, response = pairs[index]
            assert read_back(batch.sources[line]) == source
            assert int(batch.source_lengths[line]) == len(source) + 1
            for direction, targets in zip(Direction, batch.targets, strict=True):
                written = read_back(targets[:, line])
                assert direction.arrange(written) == response  # the round trip of reversal
            assert batch.inputs[:, 0, line].tolist() == [START_ID, START_ID]
            assert torch.equal(batch.inputs[:, 1:, line], batch.targets[:, :-1, line])
        seen.extend(plan.indices.tolist())
    assert sorted(seen) == list(range(len(pairs)))


@given(texts, st.integers(1, 7), st.integers(1, 5))
def test_processes_share_a_step_evenly_and_count_every_pair_once(
    pairs: Texts, batch_size: int, processes: int
) -> None:
    batches = PairBatches(arrays(pairs), [Direction.REGULAR], batch_size=batch_size)
    step = batches.plan(seed=(0, 0))

    shares = [batches.share(step, processes, index) for index in range(processes)]

    whole, cut = divmod(len(step), processes)
    assert {len(share) for share in shares} == {whole + cut}
    parts = [part for share in shares for part in share]
    assert all(len(part.indices) for part in parts)
    counted = [part for part in parts if part.tokens]
    assert sorted(int(row) for part in counted for row in part.indices) == list(range(len(pairs)))
    for part in counted:
        assert part.tokens == sum(len(pairs[row][1]) + 1 for row in part.indices)
    assert all(any(part is plan for plan in step) for share in shares for part in share[:whole])


def test_the_order_depends_on_the_seed_and_on_nothing_else() -> None:
    pairs = arrays([([4 + n] * (n % 9 + 1), [5 + n] * (n % 7 + 1)) for n in range(60)])

    def order(seed: tuple[int, int]) -> list[list[int]]:
        batches = PairBatches(pairs, [Direction.REGULAR], batch_size=8)
        return [plan.indices.tolist() for plan in batches.plan(seed=seed)]

    assert order((1, 0)) == order((1, 0))
    assert order((1, 0)) != order((1, 1))
    assert order((1, 0)) != order((2, 0))


def test_batches_hold_pairs_of_similar_lengths() -> None:
    pairs = arrays([([4] * length, [5] * length) for length in range(1, 33) for _ in range(4)])
    batches = PairBatches(pairs, [Direction.REGULAR], batch_size=16)

    for plan in batches.plan(seed=(0, 0)):
        lengths = pairs.source_length[plan.indices]
        assert plan.source_width - 1 >= lengths.max()
        assert lengths.max() - lengths.min() <= 8


def test_filling_up_adds_lines_that_teach_nothing() -> None:
    batches = PairBatches(arrays([([7, 8], [9])]), list(Direction), batch_size=4)
    plan = batches.plan(seed=None)[0]

    batch = batches.batch(plan, rows=4)

    assert batch.sources.shape[0] == batch.targets.shape[2] == 4
    assert (batch.targets[:, :, 1:] == PAD_ID).all()
    assert torch.equal(batch.targets[:, :, :1], batches.batch(plan).targets)
    assert batch.sources.tolist() == [[7, 8, END_ID]] * 4


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([[5, 6], []], [[5, 6, END_ID], [END_ID, PAD_ID, PAD_ID]]),
        ([[]], [[END_ID]]),
    ],
)
def test_sources_are_ended_then_padded(sources: list[list[int]], expected: list[list[int]]) -> None:
    assert pad_sources(sources).tolist() == expected
