"""Maxima and log-sum-exps in one pass, against torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from bidibeam.compiling import compiled
from bidibeam.search.candidates import BLOCK
from bidibeam.search.picking import summarised
from bidibeam.search.summary import CHUNK, exponential

LOWEST = torch.finfo(torch.float32).min


def block_maxima(rows: Tensor) -> Tensor:
    padded = F.pad(rows, (0, -rows.shape[1] % BLOCK), value=-torch.inf)
    return padded.view(len(rows), -1, BLOCK).amax(2)


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(1, 4),
    vocabulary=st.one_of(
        st.integers(1, 200), st.integers(CHUNK - 2, CHUNK + 66), st.sampled_from([16_000, 50_257])
    ),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e4, 1e37]),
    hidden=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 10**6),
)
def test_they_are_those_of_double_precision(
    count: int, vocabulary: int, scale: float, hidden: float, seed: int
) -> None:
    torch.manual_seed(seed)
    rows = torch.randn(count, vocabulary) * scale
    rows[torch.rand(count, vocabulary) < hidden] = -torch.inf

    maxima, log_sums = summarised(rows, BLOCK)

    assert torch.equal(maxima, block_maxima(rows))
    expected = rows.double().logsumexp(1).clamp(min=LOWEST)
    torch.testing.assert_close(log_sums.double(), expected, atol=3e-6, rtol=3e-7)


def test_a_row_does_not_depend_on_the_others() -> None:
    rows = torch.randn(30, 5_000, generator=torch.Generator().manual_seed(0))

    _, together = summarised(rows, BLOCK)

    assert torch.equal(torch.cat([summarised(row[None], BLOCK)[1] for row in rows]), together)


@pytest.mark.parametrize("place", [0, 63, 64, CHUNK, 2_999])
@pytest.mark.parametrize("value", [torch.nan, -torch.nan, torch.inf])
def test_a_row_that_is_not_all_numbers_is_told(value: float, place: int) -> None:
    rows = torch.zeros(3, 3_000)
    rows[1, place] = value

    _, log_sums = summarised(rows, BLOCK)

    assert log_sums.isnan().tolist() == [False, True, False]


def test_nan_of_any_bits_is_told() -> None:
    rows = torch.zeros(400, 70)
    rows.view(torch.int32)[:, 66] = torch.arange(0x7F800001, 0x7F800001 + 400, dtype=torch.int32)

    assert summarised(rows, BLOCK)[1].isnan().all()


def test_rows_that_are_not_side_by_side_are_read_as_they_are() -> None:
    rows = torch.randn(200, 6).t()

    maxima, log_sums = summarised(rows, BLOCK)

    assert torch.equal(maxima, block_maxima(rows))
    torch.testing.assert_close(log_sums, rows.logsumexp(1))


@compiled
def _exponentials(numbers: Any, found: Any) -> None:
    for place in range(len(numbers)):
        found[place] = exponential(numbers[place])


def test_exponentials_are_right_to_the_last_bits() -> None:
    numbers = np.linspace(-87, 0, 1_000_001).astype(np.float32)
    found = np.empty_like(numbers)

    _exponentials(numbers, found)

    expected = np.exp(numbers.astype(np.float64))
    assert (np.abs(found - expected) / np.spacing(expected.astype(np.float32))).max() <= 2.0
    assert found[-1] == 1.0
    _exponentials(np.array([-np.inf, -1e30, np.nan], np.float32), found[:3])
    assert found[0] == found[1] == pytest.approx(np.exp(-87.0))
    assert np.isnan(found[2])
