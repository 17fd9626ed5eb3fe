"""A GPU's own kernels say what torch's kernels say."""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import Tensor

from bidibeam.gpu import if_it_works
from bidibeam.search import candidates
from bidibeam.search.candidates import BLOCK, Candidates, Forbidden, _summarise, _summarise_apart
from bidibeam.search.kernels import kernels_of
from bidibeam.search.parting import parted, parted_apart

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CUDA = torch.device("cuda:0")


@needs_gpu
@pytest.mark.parametrize("vocabulary", [1, 5, 63, 64, 65, 300, 2047, 2048, 2049, 16_000, 50_265])
def test_one_kernel_says_what_several_say(vocabulary: int) -> None:
    rows = 4 * torch.randn(9, vocabulary, generator=torch.Generator().manual_seed(vocabulary)).cuda()
    rows[1] = -torch.inf
    rows[2, : vocabulary // 2] = -torch.inf
    rows[3] = torch.finfo(torch.float32).min

    assert kernels_of(rows.device) is not None
    maxima, log_sums = _summarise(rows)
    expected_maxima, expected_sums = _summarise_apart(rows)

    assert torch.equal(maxima, expected_maxima)
    assert torch.allclose(log_sums, expected_sums, atol=1e-5, rtol=1e-6)


@needs_gpu
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_what_is_no_number_is_noticed(broken: float) -> None:
    rows = torch.randn(4, 5000, device="cuda")
    rows[2, 4321] = broken

    assert _summarise(rows)[1].isnan().tolist() == [False, False, True, False]
    found = candidates.best_candidates(
        rows.view(2, 2, 5000),
        torch.zeros(2, 2, device="cuda"),
        9,
        Forbidden([], vocabulary=5000, device=CUDA),
    )
    assert found.is_broken.tolist() == [False, True]


@needs_gpu
def test_a_row_does_not_depend_on_others() -> None:
    rows = torch.randn(300, 20_000, device="cuda")

    alone = torch.cat([_summarise(rows[number : number + 1])[1] for number in range(0, 300, 37)])

    assert torch.equal(_summarise(rows)[1][::37], alone)


@needs_gpu
@pytest.mark.parametrize("is_normalised", [False, True])
@pytest.mark.parametrize("vocabulary", [1, 5, 64, 65, 300, 3000, 20_000])
@pytest.mark.parametrize("beams", [1, 3, 50])
def test_the_best_candidates_are_those_of_several_kernels(
    beams: int, vocabulary: int, is_normalised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounded logits have ties by the hundred, which rank by beam, then by token."""
    chance = Random(vocabulary + beams)
    torch.manual_seed(vocabulary)
    for is_rounded in (False, True):
        logits = 3 * torch.randn(5, beams, vocabulary, device="cuda")
        logits = logits.round() if is_rounded else logits
        logits[1, 0] = -torch.inf
        if is_normalised:
            logits = logits.log_softmax(-1).nan_to_num(-50) + 1.5
        log_probs = -5 * torch.rand(5, beams, device="cuda").sort(1).values
        log_probs[2, beams // 2 :] = -torch.inf
        tokens = chance.sample(range(vocabulary), min(vocabulary - 1, chance.choice([0, 1, 3])))
        forbidden = Forbidden(tokens, vocabulary=vocabulary, device=CUDA)

        def summarised_alike(rows: Tensor) -> tuple[Tensor, Tensor]:
            """Block maxima as they are, and log-sums rounded as the kernel in question rounds them."""
            maxima, expected_sums = _summarise_apart(rows)
            is_forbidden = None if forbidden.is_empty else forbidden.is_forbidden  # noqa: B023
            _, log_sums = kernels_of(CUDA)._summarised(  # type: ignore[union-attr]
                rows,
                log_probs,  # noqa: B023
                is_forbidden,
                BLOCK,
                is_ranked=True,
                is_normalised=is_normalised,
            )
            assert torch.allclose(log_sums, expected_sums, atol=1e-5, rtol=1e-6)
            return maxima, log_sums

        for count in (1, 7, 51, 100, 200):
            given = (logits.contiguous(), log_probs, count, forbidden)
            found = candidates.best_candidates(*given, is_normalised=is_normalised)
            with monkeypatch.context() as patched:
                patched.setattr(candidates, "_fits", lambda *_: False)
                patched.setattr(candidates, "_summarise", summarised_alike)
                expected = candidates.best_candidates(*given, is_normalised=is_normalised)
            is_live = expected.log_probs > -torch.inf

            assert torch.equal(found.log_probs, expected.log_probs)
            assert torch.equal(found.flat[is_live], expected.flat[is_live])
            assert int(found.flat.max()) < beams * vocabulary
            assert torch.equal(found.is_broken, expected.is_broken)


@needs_gpu
@pytest.mark.parametrize("ends", [[0], [3, 5], [1, 2, 4, 6]])
@pytest.mark.parametrize(("width", "count"), [(1, 2), (4, 9), (50, 100), (9, 5), (130, 256)])
def test_candidates_are_parted_as_by_several_kernels(width: int, count: int, ends: list[int]) -> None:
    torch.manual_seed(count)
    for vocabulary in (7, 40):
        flat = torch.rand(6, count * vocabulary, device="cuda").argsort(1)[:, :count]
        log_probs = -torch.rand(6, count, device="cuda").sort(1).values
        log_probs[3, count // 2 :] = -torch.inf
        found = Candidates(log_probs, flat, torch.zeros(6, dtype=torch.bool, device="cuda"))
        finished = torch.arange(6, device="cuda")
        given = (found, finished, width - finished, torch.tensor(ends, device="cuda"), width, vocabulary)

        for one, other in zip(parted(*given), parted_apart(*given), strict=True):
            assert torch.equal(one, other)


def test_a_block_is_what_kernels_take_it_to_be() -> None:
    assert 2048 % BLOCK == 0


def test_a_kernel_that_is_missing_or_fails_is_not_used() -> None:
    def missing() -> int:
        raise ImportError("no triton")

    def failing(_: int) -> None:
        raise RuntimeError("no C compiler")

    assert if_it_works(missing, print) is None
    assert if_it_works(lambda: 3, failing) is None
    assert if_it_works(lambda: 3, lambda kernel: kernel + 1) == 3
