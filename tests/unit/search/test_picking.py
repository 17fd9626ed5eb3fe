"""What one thread of a CPU does in compiled code, against torch's own kernels."""

from __future__ import annotations

import numba
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.search import candidates as module
from bidibeam.search import picking
from bidibeam.search.candidates import Candidates, Forbidden, best_candidates
from bidibeam.search.kernels import kernels_of
from bidibeam.search.parting import parted_apart

CPU = torch.device("cpu")


@pytest.mark.parametrize(("sources", "beams", "vocabulary", "count"), [(1, 10, 16_000, 20), (3, 25, 997, 50)])
@pytest.mark.parametrize("forbidden", [(), (0, 3, 700)])
@pytest.mark.parametrize("is_normalised", [False, True])
def test_the_best_are_those_that_torch_finds(
    sources: int,
    beams: int,
    vocabulary: int,
    count: int,
    forbidden: tuple[int, ...],
    is_normalised: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(vocabulary)
    logits = torch.randn(sources, beams, vocabulary).mul_(4).mul(8).round().div(8)  # with ties
    log_probs = -torch.rand(sources, beams).mul(9).sort(1).values
    log_probs[-1, beams // 2 :] = -torch.inf
    banned = Forbidden(forbidden, vocabulary=vocabulary, device=CPU)

    def found(kernels: object) -> Candidates:
        monkeypatch.setattr(module, "_fits", lambda *_: kernels is picking)  # the sums are ours either way
        monkeypatch.setattr(module, "kernels_of", lambda _: picking)
        return best_candidates(logits, log_probs, count, banned, is_normalised=is_normalised)

    ours, torchs = found(picking), found(None)

    assert torch.equal(ours.log_probs, torchs.log_probs)
    assert torch.equal(ours.flat, torchs.flat)
    assert not ours.is_broken.any()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_source_that_is_not_all_numbers_is_told(value: float) -> None:
    logits = torch.zeros(3, 2, 100)
    logits[1, 1, 70] = value

    _, flat, is_broken = picking.best(logits, torch.zeros(3, 2), 4, None, 64, is_normalised=False)

    assert is_broken.tolist() == [False, True, False]
    assert flat[[0, 2]].tolist() == [[0, 1, 2, 3]] * 2


@settings(max_examples=200, deadline=None)
@given(
    sources=st.integers(1, 3),
    count=st.integers(1, 12),
    width=st.integers(1, 14),
    vocabulary=st.integers(2, 5),
    ends=st.sets(st.integers(0, 4), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
)
def test_candidates_are_parted_as_by_torch(
    sources: int, count: int, width: int, vocabulary: int, ends: set[int], seed: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    flat = torch.stack([torch.randperm(3 * count, generator=chance)[:count] for _ in range(sources)])
    log_probs = -torch.rand(sources, count, generator=chance).sort(1).values
    log_probs[0, int(torch.randint(count + 1, (1,), generator=chance)) :] = -torch.inf
    finished, allowed = (torch.randint(count + 1, (sources,), generator=chance) for _ in range(2))
    given = (finished, allowed, torch.tensor(sorted(ends)), width, vocabulary)

    ours = picking.parted(log_probs, flat, *given)

    expected = parted_apart(Candidates(log_probs, flat, flat[:, 0] < 0), *given)
    for one, other in zip(ours, expected, strict=True):
        assert torch.equal(one, other)
        assert one.dtype == other.dtype


def test_one_thread_has_kernels_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert kernels_of(CPU) is picking
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert kernels_of(CPU) is None
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert kernels_of(CPU) is None


def test_numbers_may_have_gradients() -> None:
    logits, log_probs = torch.randn(1, 2, 70, requires_grad=True), torch.zeros(1, 2, requires_grad=True)

    found, flat, _ = picking.best(logits, log_probs, 3, None, 64, is_normalised=False)

    assert found.shape == flat.shape == (1, 3)
    assert picking.summarised(logits[0], 64)[1].shape == (2,)
