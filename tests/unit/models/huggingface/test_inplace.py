"""Products with matrices where they lie against products in double precision."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bidibeam.models.huggingface.inplace import COLUMNS, ROWS, WIDE, InPlace
from bidibeam.models.huggingface.machine import LANES
from bidibeam.models.huggingface.tiles import Tiles


def product(
    rows: Tensor, weight: Tensor, bias: Tensor | None = None, more: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Written into the middle of a larger matrix; and what is around it."""
    around = torch.full((len(rows), len(weight) + 20), 7.0)
    out = around[:, 10:-10]
    InPlace([(weight, bias)]).times(rows, out, more)
    return out.clone(), torch.cat((around[:, :10], around[:, -10:]), dim=1)


@settings(max_examples=100, deadline=None)
@given(
    count=st.one_of(st.integers(1, 4 * ROWS), st.just(64)),
    depth=st.one_of(st.integers(1, 70), st.just(1500)),
    width=st.one_of(st.integers(1, 4 * COLUMNS + 1), st.just(500)),
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


@pytest.mark.parametrize("count", [7, 8, 9, 15, 16, 17, 25, 32, 50])
@pytest.mark.parametrize("depth", [256, 68, 66, 4])
@pytest.mark.parametrize("width", [WIDE - 1, WIDE, WIDE + 35])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_product_with_a_large_matrix_is_that_of_the_matrix(
    count: int, depth: int, width: int, has_bias: bool
) -> None:
    torch.manual_seed(count)
    rows, weight = torch.randn(count, depth + 3)[:, :depth], torch.randn(width, depth)
    bias = torch.randn(width) if has_bias else None

    found, around = product(rows, weight, bias)

    expected = rows.double() @ weight.double().t() + (0 if bias is None else bias)
    torch.testing.assert_close(found.double(), expected, atol=1e-5 * depth**0.5, rtol=1e-5)
    assert (around == 7.0).all()


@pytest.mark.parametrize("count", [50, 75, 24 * LANES + 17])
@pytest.mark.parametrize(("depth", "width"), [(1500, 500), (256, 4500), (70_000, 70)])
def test_matrices_and_rows_may_be_larger_than_what_is_read_at_once(
    count: int, depth: int, width: int
) -> None:
    chance = torch.Generator().manual_seed(count)

    def whole(*shape: int) -> Tensor:
        """Small whole numbers, the sums of which are exact."""
        return torch.randint(-2, 3, shape, generator=chance).float()

    rows, weight, more, bias = whole(count, depth), whole(width, depth), whole(count, width), whole(width)

    found, around = product(rows, weight, bias, more)

    assert torch.equal(found, torch.nn.functional.linear(rows, weight, bias) + more)
    assert (around == 7.0).all()


@pytest.mark.parametrize("widths", [(5, 5, 5), (WIDE, 3, WIDE + 9), (40, 40, 40)])
@pytest.mark.parametrize("count", [3, 8, 25, 50])
def test_several_matrices_stand_side_by_side(count: int, widths: tuple[int, ...]) -> None:
    torch.manual_seed(count)
    rows, more = torch.randn(count, 36), torch.randn(count, sum(widths))
    weights = [torch.randn(width, 36) for width in widths]
    biases = [torch.randn(widths[0]), None, torch.randn(widths[2])]

    matrices = InPlace(list(zip(weights, biases, strict=True)))
    found = matrices.times(rows, torch.empty(count, matrices.width), more)

    said = [
        rows @ weight.t() + (0 if bias is None else bias)
        for weight, bias in zip(weights, biases, strict=True)
    ]
    torch.testing.assert_close(found, torch.cat(said, dim=1) + more, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("depth", [7680, 7681, 8192, 16384])
@pytest.mark.parametrize("count", [1, 4, 20])
def test_rows_may_be_larger_than_a_cache(depth: int, count: int) -> None:
    torch.manual_seed(0)
    rows, weight = torch.randn(count, depth), torch.randn(9, depth)

    found, _ = product(rows, weight)

    torch.testing.assert_close(found.double(), rows.double() @ weight.double().t(), atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 3])
def test_one_row_may_be_added_to_all(count: int) -> None:
    rows, weight, more = torch.zeros(count, 4), torch.ones(9, 4), torch.arange(9.0).expand(3, 9)[:count]

    found, _ = product(rows, weight, more=more)

    assert found.tolist() == [list(range(9))] * count


@pytest.mark.parametrize("bias", [torch.ones(4).half(), torch.ones(3), torch.ones(8)[::2]])
def test_a_bias_that_is_not_as_it_should_be_is_refused(bias: Tensor) -> None:
    with pytest.raises(ValueError, match="strides"):
        InPlace([(torch.ones(4, 2), bias)])


def test_matrices_of_different_depths_are_refused() -> None:
    with pytest.raises(ValueError, match="strides"):
        InPlace([(torch.ones(4, 2), None), (torch.ones(4, 3), None)])


@pytest.mark.parametrize("more", [torch.ones(1, 4), torch.ones(3, 4).double()])
def test_what_cannot_be_added_is_refused(more: Tensor) -> None:
    tiles = Tiles.of(torch.ones(4, 2))
    with pytest.raises(ValueError, match="is not"):
        InPlace([(torch.ones(4, 2), None)]).times(torch.ones(3, 2), torch.empty(3, 4), more)
    with pytest.raises(ValueError, match="is not"):
        tiles.times(torch.ones(3, 2), tiles.bias(None), torch.empty(3, 4), more)


@pytest.mark.parametrize(
    ("weight", "out"),
    [
        (torch.ones(4, 2, dtype=torch.bfloat16), torch.empty(3, 4)),
        (torch.ones(2, 4).t(), torch.empty(3, 4)),
        (torch.ones(4, 2), torch.empty(4, 3).t()),
    ],
)
def test_what_does_not_lie_as_it_should_is_refused(weight: Tensor, out: Tensor) -> None:
    with pytest.raises(ValueError, match="strides"):
        InPlace([(weight, None)]).times(torch.ones(3, 2), out)


def test_what_torch_makes_by_default_changes_nothing() -> None:
    code = (
        "import torch; torch.set_default_dtype(torch.bfloat16)\n"
        "from bidibeam.hf import inplace, sharing, tiles\n"
        "for zeros in (inplace._NOTHING, tiles._NOTHING, sharing._zeros(4)):\n"
        "    assert zeros.dtype == torch.float32 and zeros.device.type == 'cpu' and not zeros.any()"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_more_rows_are_added_to_those_of_a_large_matrix() -> None:
    torch.manual_seed(0)
    width = WIDE + 5
    rows, weight, more = torch.randn(30, 8), torch.randn(width, 8), torch.randn(30, width)

    found, around = product(rows, weight, more=more)

    torch.testing.assert_close(found, rows @ weight.t() + more)
    assert (around == 7.0).all()


@pytest.mark.parametrize("depth", [300, 20, 7])
def test_a_row_does_not_depend_on_the_others(depth: int) -> None:
    torch.manual_seed(0)
    width = min(203, WIDE - 1)
    rows, weight, more = torch.randn(61, depth), torch.randn(width, depth), torch.randn(61, width)

    together, _ = product(rows, weight, more=more)

    for count in (1, 2, 3, ROWS, ROWS + 1, 40):
        apart = [
            product(rows[first : first + count], weight, more=more[first : first + count])[0]
            for first in range(0, 61, count)
        ]
        assert torch.equal(torch.cat(apart), together)


def test_rows_that_stand_side_by_side_do_not_depend_on_how_many_do() -> None:
    torch.manual_seed(0)
    rows, weight = torch.randn(7 * LANES, 20), torch.randn(WIDE + LANES, 20)
    alone = torch.cat([product(rows[at : at + LANES], weight)[0] for at in range(0, len(rows), LANES)])

    for count in range(LANES, len(rows) + 1, LANES):
        assert torch.equal(product(rows[:count], weight)[0], alone[:count])


def test_rows_that_are_not_side_by_side_are_read_as_they_are() -> None:
    torch.manual_seed(0)
    weight = torch.randn(33, 10)
    for rows, more in (
        (torch.randn(40, 30)[::2, ::3], torch.randn(33, 20).t()),
        (torch.randn(20, 30)[:, 5:15], torch.randn(20, 50)[:, 3:36]),
    ):
        found, _ = product(rows, weight, more=more)

        torch.testing.assert_close(found, rows @ weight.t() + more)


def test_nothing_behind_a_matrix_is_read() -> None:
    """A last block that is not full has no numbers of others in it, whatever they are."""
    store = torch.full((9, 21), torch.nan)
    rows, weight = torch.ones(3, 21), store[:5]
    weight.fill_(1.0)

    found, _ = product(rows, weight)

    assert found.tolist() == [[21.0] * 5] * 3


def test_what_is_not_a_number_stays_in_its_row_and_column() -> None:
    rows, weight = torch.ones(3, 4), torch.ones(5, 4)
    rows[1, 2], weight[3, 0] = torch.nan, torch.inf

    found, _ = product(rows, weight)

    assert found.isnan().tolist() == [[False] * 5, [True] * 5, [False] * 5]
    assert found[0].tolist() == [4.0, 4.0, 4.0, torch.inf, 4.0]


@pytest.mark.parametrize("shape", [(3, 5), (3, 3), (4, 4)])
def test_a_place_of_another_shape_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"\(3, 2\) by \(2, 4\) is not"):
        InPlace([(torch.ones(4, 2), None)]).times(torch.ones(3, 2), torch.empty(shape))


def test_numbers_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="float32"):
        InPlace([(torch.ones(4, 2), None)]).times(torch.ones(3, 2).double(), torch.empty(3, 4))
