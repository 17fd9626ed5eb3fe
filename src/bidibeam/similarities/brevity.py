"""BP_T, the paper's brevity penalty: it keeps two models from agreeing on nothing but "i don't know"."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bidibeam.errors import SettingsError

if TYPE_CHECKING:
    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
    Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]

DEFAULT_MAX_LENGTH = 20
"""T where nobody said otherwise: the search's own default."""

LARGEST_MAX_LENGTH = 1_000_000


def check_max_length(value: object) -> None:
    """Refuse a T that no hypothesis can have.

    Raises:
        SettingsError: If so.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_MAX_LENGTH:
        raise SettingsError(
            f"max_length (T) must be a whole number from 1 to {LARGEST_MAX_LENGTH:,}, not {value!r}."
        )


def penalties_of(lengths: Numbers, max_length: int) -> Floats:
    """BP_T = exp(1 - T / c), at most 1, where c is a hypothesis' number of tokens; 0 for an empty one."""
    return by_length(max_length)[np.minimum(lengths, max_length)]


@cache
def by_length(max_length: int) -> Floats:
    """BP_T of 0 tokens to T."""
    with np.errstate(divide="ignore"):
        return np.exp(1.0 - max_length / np.arange(max_length + 1, dtype=np.float64))
