"""What every metric asks of its input, and the recipe that every metric starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam._version import __version__
from bidibeam.errors import InputError
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_paired(replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> None:
    """Make sure that there is something to score, and one reference for each reply.

    Raises:
        InputError: If there are no replies, or not as many references.
    """
    if len(replies) != len(references):
        raise InputError(
            f"A score needs one reference for each reply, but there are {len(replies)} replies and "
            f"{len(references)} references."
        )
    if not replies:
        raise InputError("There are no replies to score: give at least one reply and its reference.")


def recipe(**facts: object) -> Signature:
    """A signature of these facts, behind them the version that computed the score."""
    return Signature(()).extended(**facts, bidibeam=__version__)
