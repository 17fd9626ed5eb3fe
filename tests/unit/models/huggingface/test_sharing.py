"""Attention by tiles against torch's own, and its activation."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from bidibeam.models.huggingface.attention import KeyValues, attend_shared
from bidibeam.models.huggingface.rowwise import are_ours, gelu_
from bidibeam.models.huggingface.sharing import FEW_POSITIONS, are_read_fast, read_shared


@settings(max_examples=80, deadline=None)
@given(
    sources=st.integers(1, 3),
    beams=st.sampled_from([1, 4, 15]),
    groups=st.sampled_from([1, 2]),
    each=st.sampled_from([1, 3]),
    positions=st.sampled_from([1, 7, 32, 33, 80]),
    size=st.sampled_from([4, 32, 40]),
    scale=st.sampled_from([0.3, 100.0]),
    is_masked=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_rows_read_what_they_share(
    sources: int,
    beams: int,
    groups: int,
    each: int,
    positions: int,
    size: int,
    scale: float,
    is_masked: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    query = torch.randn(sources * beams, groups * each, size)
    keys, values = torch.randn(2, sources, groups, positions, size)
    mask = None
    if is_masked:
        mask = torch.rand(sources, positions) < 0.5
        mask[torch.arange(sources), torch.randint(positions, (sources,))] = True

    found = read_shared(query, keys, values, mask, scale)

    memory = KeyValues(keys.double(), values.double())
    expected = attend_shared(query.double().unsqueeze(2), memory, mask, scale).squeeze(2)
    torch.testing.assert_close(found.double(), expected, atol=1e-4 * max(1.0, scale / 10), rtol=1e-4)


def test_rows_do_not_depend_on_how_many_there_are() -> None:
    torch.manual_seed(0)
    query, (keys, values) = torch.randn(20, 2, 32), torch.randn(2, 1, 2, 15, 32)

    together = read_shared(query, keys, values, None, 0.2)

    apart = [read_shared(row[None], keys, values, None, 0.2) for row in query]
    assert torch.equal(torch.cat(apart), together)


def test_what_is_not_a_number_stays_with_its_row() -> None:
    query, (keys, values) = torch.ones(3, 1, 4), torch.ones(2, 1, 1, 5, 4)
    query[1, 0, 2] = torch.nan

    found = read_shared(query, keys, values, None, 1.0)

    assert found.isnan().all(2).flatten().tolist() == [False, True, False]
    assert not found[[0, 2]].isnan().any()


def test_only_one_thread_reads_this_way_and_few_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys = torch.ones(3, 1, 4), torch.ones(1, 1, FEW_POSITIONS + 1, 4)
    monkeypatch.setattr("bidibeam.models.huggingface.sharing.are_fast", lambda: True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert are_read_fast(query, keys[:, :, 1:])
    assert not are_read_fast(query, keys)
    assert not are_read_fast(query.double(), keys[:, :, 1:])

    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    assert not are_read_fast(query, keys[:, :, 1:])


def test_gelu_is_torchs() -> None:
    numbers = torch.cat((torch.linspace(-8, 8, 100_001), torch.tensor([-1e30, 1e30, 0.0, -0.0])))
    expected = F.gelu(numbers.double())

    found = gelu_(numbers.clone())

    torch.testing.assert_close(found.double(), expected, atol=2e-6, rtol=1e-6)
    assert gelu_(torch.tensor([torch.nan, 1.0])).isnan().tolist() == [True, False]


def test_gelu_is_for_floats_that_are_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)

    assert are_ours(torch.ones(4, 6))
    assert not are_ours(torch.ones(4, 6)[:, ::2])
    assert not are_ours(torch.ones(4, 6).double())


UNDER_PERTURBED_MEMORY = """
import torch
from torch.nn import functional as F
from bidibeam.models.huggingface.sharing import read_shared

torch.set_num_threads(1)
for size in (32, 256):
    query, keys, values = torch.randn(20, 4, size), torch.randn(2, 4, 40, size), torch.randn(2, 4, 40, size)
    by_source = query.view(2, -1, 4, size).transpose(1, 2)
    expected = F.scaled_dot_product_attention(by_source, keys, values, scale=0.1)
    found = read_shared(query, keys, values, None, 0.1)
    torch.testing.assert_close(found, expected.transpose(1, 2).reshape(20, 4, size), atol=1e-5, rtol=1e-5)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone overwrites memory that was given back")
def test_no_memory_is_read_that_was_given_back() -> None:
    overwriting = {"GLIBC_TUNABLES": "glibc.malloc.perturb=65:glibc.malloc.tcache_count=0"}

    subprocess.run(
        [sys.executable, "-c", UNDER_PERTURBED_MEMORY],
        check=True,
        timeout=120,
        env={**os.environ, **overwriting},
    )
