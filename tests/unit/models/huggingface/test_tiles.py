"""Products by tiles against products in double precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bidibeam.models.huggingface.tiles import ROWS, WIDTH, Tiles


def product(
    rows: Tensor, weight: Tensor, bias: Tensor | None = None, more: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """By tiles, written into the middle of a larger matrix; and what is around it."""
    tiles = Tiles.of(weight)
    around = torch.full((len(rows), len(weight) + 20), 7.0)
    out = around[:, 10:-10]
    tiles.times(rows, tiles.bias(bias), out, more)
    return out.clone(), torch.cat((around[:, :10], around[:, -10:]), dim=1)


@settings(max_examples=100, deadline=None)
@given(
    count=st.one_of(st.integers(1, 3 * ROWS), st.just(200)),
    depth=st.one_of(st.integers(1, 70), st.just(1500)),
    width=st.one_of(st.integers(1, 3 * WIDTH + 1), st.just(500)),
    has_bias=st.booleans(),
    has_more=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_a_product_is_that_of_the_matrix(
    count: int, depth: int, width: int, has_bias: bool, has_more: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    rows, weight = torch.randn(count, depth), torch.randn(width, depth)
    bias = torch.randn(width) if has_bias else None
    more = torch.randn(count, width) if has_more else None

    found, around = product(rows, weight, bias, more)

    expected = rows.double() @ weight.double().t()
    for added in (bias, more):
        expected = expected if added is None else expected + added
    torch.testing.assert_close(found.double(), expected, atol=1e-5 * depth**0.5, rtol=1e-5)
    assert (around == 7.0).all()


def test_a_row_does_not_depend_on_the_others() -> None:
    torch.manual_seed(0)
    rows, weight, more = torch.randn(61, 300), torch.randn(200, 300), torch.randn(61, 200)

    together, _ = product(rows, weight, more=more)

    for count in (1, 2, ROWS, ROWS + 1):
        apart = [
            product(rows[first : first + count], weight, more=more[first : first + count])[0]
            for first in range(0, 61, count)
        ]
        assert torch.equal(torch.cat(apart), together)


def test_rows_that_are_not_side_by_side_are_read_as_they_are() -> None:
    torch.manual_seed(0)
    rows, weight, more = torch.randn(40, 30)[::2, ::3], torch.randn(33, 10), torch.randn(33, 20).t()

    found, _ = product(rows, weight, more=more)

    torch.testing.assert_close(found, rows @ weight.t() + more)


def test_what_is_not_a_number_stays_in_its_row_and_column() -> None:
    rows, weight = torch.ones(3, 4), torch.ones(5, 4)
    rows[1, 2], weight[3, 0] = torch.nan, torch.inf

    found, _ = product(rows, weight)

    assert found.isnan().tolist() == [[False] * 5, [True] * 5, [False] * 5]
    assert found[0].tolist() == [4.0, 4.0, 4.0, torch.inf, 4.0]


@pytest.mark.parametrize("shape", [(3, 5), (3, 3), (4, 4)])
def test_a_place_of_another_shape_is_refused(shape: tuple[int, int]) -> None:
    tiles = Tiles.of(torch.ones(4, 2))

    with pytest.raises(ValueError, match=r"\(3, 2\) by \(2, 4\) is not"):
        tiles.times(torch.ones(3, 2), tiles.bias(None), torch.empty(shape))


def test_numbers_of_another_kind_are_refused() -> None:
    tiles = Tiles.of(torch.ones(4, 2))

    with pytest.raises(ValueError, match="float32"):
        tiles.times(torch.ones(3, 2).double(), tiles.bias(None), torch.empty(3, 4))
