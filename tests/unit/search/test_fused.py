"""The summary of logits in one kernel says what torch's own kernels say."""

from __future__ import annotations

import pytest
import torch

from bidibeam.gpu import if_it_works
from bidibeam.search.candidates import _fused, _summarise, _summarise_apart

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
@pytest.mark.parametrize("vocabulary", [1, 5, 63, 64, 65, 300, 2047, 2048, 2049, 16_000, 50_265])
def test_one_kernel_says_what_several_say(vocabulary: int) -> None:
    rows = 4 * torch.randn(9, vocabulary, generator=torch.Generator().manual_seed(vocabulary)).cuda()
    rows[1] = -torch.inf
    rows[2, : vocabulary // 2] = -torch.inf
    rows[3] = torch.finfo(torch.float32).min

    assert _fused(rows.device) is not None
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


@needs_gpu
def test_a_row_does_not_depend_on_others() -> None:
    rows = torch.randn(300, 20_000, device="cuda")

    alone = torch.cat([_summarise(rows[number : number + 1])[1] for number in range(0, 300, 37)])

    assert torch.equal(_summarise(rows)[1][::37], alone)


def test_a_kernel_that_is_missing_or_fails_is_not_used() -> None:
    def missing() -> int:
        raise ImportError("no triton")

    def failing(_: int) -> None:
        raise RuntimeError("no C compiler")

    assert if_it_works(missing, print) is None
    assert if_it_works(lambda: 3, failing) is None
    assert if_it_works(lambda: 3, lambda kernel: kernel + 1) == 3
