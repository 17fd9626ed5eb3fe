"""Attention to ancestors in one kernel of a GPU is what fetching keys and values gives."""

from __future__ import annotations

import pytest
import torch

from bidibeam.models.huggingface.branches import ancestors_gathered

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 16, 17, 18, 40])
@pytest.mark.parametrize(("heads", "groups", "size"), [(4, 4, 64), (4, 2, 24), (2, 1, 8), (12, 12, 64)])
def test_one_kernel_writes_and_reads_what_several_do(
    heads: int, groups: int, size: int, steps: int, has_bias: bool, dtype: torch.dtype
) -> None:
    from bidibeam.models.huggingface.ancestors import extended_on_gpu

    rows = 13
    torch.manual_seed(steps)
    keys = torch.randn(steps + 3, rows + 5, groups, size, device="cuda", dtype=dtype)
    values = torch.randn_like(keys)
    places = torch.randint(0, rows, (rows, steps), device="cuda")
    places[:, -1] = torch.arange(rows, device="cuda")
    mixed = torch.randn(rows, heads + 2 * groups, size, device="cuda", dtype=dtype)
    bias = torch.randn(steps, heads, device="cuda", dtype=dtype).t() if has_bias else None
    query, new_keys, new_values = torch.split(mixed, [heads, groups, groups], dim=1)
    known = keys.clone(), values.clone()
    for stored, new in zip(known, (new_keys, new_values), strict=True):
        stored[steps - 1, :rows] = new

    attended, log_sums = extended_on_gpu((keys, values), places, mixed, heads, 0.3, bias)

    expected, expected_sums = ancestors_gathered(
        tuple(one.float() for one in known),  # type: ignore[arg-type]
        places,
        query.float() * 0.3,
        None if bias is None else bias.float(),
    )
    assert attended.dtype == dtype
    assert torch.equal(keys, known[0])
    assert torch.equal(values, known[1])
    assert torch.allclose(attended.float(), expected, atol=TOLERANCES[dtype])
    assert torch.allclose(log_sums, expected_sums, atol=TOLERANCES[dtype])
