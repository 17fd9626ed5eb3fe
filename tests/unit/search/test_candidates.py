from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from bidibeam.search import candidates as module
from bidibeam.search.candidates import (
    PLACES,
    best_candidates,
    forbid,
    pack_keys,
    summarise_rows,
    unpack_log_probs,
    unpack_places,
)

CPU = torch.device("cpu")
FEW_VALUES = torch.tensor([-1.0, 0.0, 0.5, 2.0, -torch.inf])


def log_sum_exps(logits: Tensor) -> Tensor:
    return summarise_rows(logits)[1]


def slow_candidates(
    logits: Tensor, log_probs: Tensor, count: int, forbidden: set[int], *, is_normalised: bool
) -> tuple[Tensor, Tensor]:
    """The whole log-softmax, or what is one already, and a stable sort."""
    sources, beams, vocabulary = logits.shape
    sums = log_sum_exps(logits.view(-1, vocabulary)).view(sources, beams, 1)
    if is_normalised:
        sums = torch.zeros_like(sums)
    scores = (logits - sums) + log_probs.unsqueeze(-1)  # (sources, beams, vocabulary)
    scores[..., list(forbidden)] = -torch.inf
    ranked = scores.flatten(1).sort(dim=1, descending=True, stable=True)
    return ranked.values[:, :count], ranked.indices[:, :count]


@settings(max_examples=40, deadline=None)
@given(
    sources=st.integers(1, 3),
    beams=st.integers(1, 4),
    vocabulary=st.one_of(st.integers(1, 8), st.integers(60, 70), st.integers(120, 300)),
    count=st.integers(1, 12),
    has_ties=st.booleans(),
    is_normalised=st.booleans(),
    chunk=st.sampled_from([1, 100, 1 << 18]),
    seed=st.integers(0, 10**6),
    data=st.data(),
)
def test_they_are_the_best_of_the_whole_log_softmax(
    sources: int,
    beams: int,
    vocabulary: int,
    count: int,
    has_ties: bool,
    is_normalised: bool,
    chunk: int,
    seed: int,
    data: st.DataObject,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (sources, beams, vocabulary)
    logits = torch.randn(shape, generator=generator) * 3
    if has_ties:
        logits = FEW_VALUES[torch.randint(len(FEW_VALUES), shape, generator=generator)]
    log_probs = FEW_VALUES[torch.randint(len(FEW_VALUES), shape[:2], generator=generator)]
    if not is_normalised:
        log_probs -= 2
    forbidden = data.draw(st.sets(st.integers(0, vocabulary - 1), max_size=5))
    untouched = logits.clone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CPU_CHUNK", chunk)
        banned = forbid(forbidden, vocabulary, CPU)
        found = best_candidates(logits, log_probs, count, banned, is_normalised=is_normalised)
        scores, flat = slow_candidates(logits, log_probs, count, forbidden, is_normalised=is_normalised)

    assert torch.equal(logits, untouched)
    assert torch.equal(found.log_probs, scores)
    is_possible = scores > -torch.inf
    assert torch.equal(found.flat[is_possible], flat[is_possible])
    assert ((found.flat >= 0) & (found.flat < beams * vocabulary)).all()
    assert not found.is_broken.any()


@pytest.mark.parametrize("vocabulary", [1, 63, 64, 65, 1000, 40_000])
def test_log_sum_exps_are_torchs(vocabulary: int) -> None:
    logits = torch.randn(5, vocabulary) * 10

    expected = torch.logsumexp(logits.double(), 1).float()

    torch.testing.assert_close(log_sum_exps(logits), expected, rtol=1e-6, atol=1e-6)


def test_a_rows_log_sum_exp_does_not_depend_on_the_other_rows_and_large_ones_do_not_overflow() -> None:
    logits = torch.randn(40, 50_257, generator=torch.Generator().manual_seed(1))  # torch.sum splits a row

    assert torch.equal(log_sum_exps(logits), torch.cat([log_sum_exps(row[None]) for row in logits]))
    large = log_sum_exps(torch.tensor([[1000.0, 1000.0], [-1000.0, -1000.0]]))
    assert large.tolist() == pytest.approx([1000.6931, -999.3069], abs=1e-3)


def test_a_row_without_any_possible_token_has_no_candidates() -> None:
    logits = torch.tensor([[[-torch.inf] * 5, [0.0, -torch.inf, 1.0, -torch.inf, -torch.inf]]])

    found = best_candidates(logits, torch.zeros(1, 2), 4, forbid((), 5, CPU))

    assert found.flat[0, :2].tolist() == [5 + 2, 5 + 0]
    assert found.log_probs[0, 2:].tolist() == [-torch.inf] * 2
    assert not found.is_broken.any()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_logits_that_are_not_numbers_are_told(value: float) -> None:
    logits = torch.zeros(3, 2, 70)
    logits[1, 1, 66] = value

    found = best_candidates(logits, torch.zeros(3, 2), 4, forbid({66}, 70, CPU))

    assert found.is_broken.tolist() == [False, True, False]


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just(-torch.inf)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(FLOATS, st.integers(0, PLACES - 1)), min_size=1, max_size=20))
@example([(-1.0, 5), (0.0, 4), (-torch.inf, PLACES - 1), (-0.0, 2), (-1.0, 1), (-1e-45, (1 << 31) + 7)])
def test_keys_rank_by_value_then_place(entries: list[tuple[float, int]]) -> None:
    values, places = torch.tensor([one for one, _ in entries]), torch.tensor([one for _, one in entries])

    keys = pack_keys(values, places)

    expected = sorted(range(len(entries)), key=lambda index: (-entries[index][0], entries[index][1]))
    assert keys.argsort(stable=True).tolist() == expected
    assert torch.equal(unpack_log_probs(keys), values)
    assert torch.equal(unpack_places(keys), places)
