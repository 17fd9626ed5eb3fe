"""Prints of matrices: the same for the same bits, and for no others."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bidibeam.models.huggingface.prints import printed


def changed_rows(weight: Tensor, other: Tensor) -> list[int]:
    return (printed([weight]) != printed([other])).nonzero().flatten().tolist()


@settings(max_examples=200, deadline=None)
@given(
    count=st.integers(1, 5),
    width=st.integers(1, 70),
    bit=st.integers(0, 31),
    data=st.data(),
)
def test_one_bit_changes_the_print_of_its_row_alone(
    count: int, width: int, bit: int, data: st.DataObject
) -> None:
    weight = torch.randn(count, width, generator=torch.Generator().manual_seed(width))
    row, column = data.draw(st.integers(0, count - 1)), data.draw(st.integers(0, width - 1))
    other = weight.clone()
    other.view(torch.int32)[row, column] ^= -(1 << 31) if bit == 31 else 1 << bit

    assert changed_rows(weight, weight.clone()) == []
    assert changed_rows(weight, other) == [row]


@settings(max_examples=100, deadline=None)
@given(width=st.integers(2, 40), data=st.data())
def test_numbers_that_change_places_are_seen(width: int, data: st.DataObject) -> None:
    weight = torch.arange(3.0 * width).view(3, width)
    places = data.draw(st.permutations(range(width)))

    other = weight[:, places]

    assert changed_rows(weight, other) == ([] if places == list(range(width)) else [0, 1, 2])


def test_zeros_of_either_sign_are_different() -> None:
    assert changed_rows(torch.zeros(2, 3), torch.tensor([[0.0, 0.0, 0.0], [0.0, -0.0, 0.0]])) == [1]


def test_numbers_of_many_zero_bits_are_seen() -> None:
    """Sums of multiples would lose them: those of powers of two have few bits left."""
    zeros = torch.zeros(1 << 12, 8)
    powers = torch.zeros(1 << 12, 8)
    chance = torch.Generator().manual_seed(0)
    powers[:, 1::2] = torch.exp2(torch.randint(-20, 20, (1 << 12, 4), generator=chance).float())

    assert len(changed_rows(zeros, powers)) == 1 << 12


def test_matrices_together_have_the_prints_of_each() -> None:
    one, other = torch.randn(4, 9), torch.randn(9, 6).t()

    together = printed([one, other])

    assert torch.equal(together, torch.cat((printed([one]), printed([other.contiguous()]))))
