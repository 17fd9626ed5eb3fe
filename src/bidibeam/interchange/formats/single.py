"""What formats share that hold one list a source and say less of a hypothesis than our own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bidibeam.data import words
from bidibeam.errors import InputError
from bidibeam.hypotheses import Hypothesis

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Direction, NBest


def hypothesis(
    text: str,
    *,
    tokens: tuple[str, ...] | None = None,
    log_prob: float | None = None,
    other_log_prob: float | None = None,
    length: int | None = None,
    score: float | None = None,
    finished: bool = True,
) -> Hypothesis:
    """A hypothesis of which not all is known; without tokens, they and the length are those of its words."""
    found = tuple(words.split(text)) if tokens is None else tokens
    return Hypothesis(
        text=text,
        tokens=found,
        log_prob=log_prob,
        length=len(found) + finished if length is None else length,
        score=score,
        finished=finished,
        other_log_prob=other_log_prob,
    )


def chosen(beams: Beams, direction: Direction) -> NBest:
    """The list that is to be written.

    Raises:
        InputError: If it is empty and the other direction's is not.
    """
    if not beams.of(direction) and beams.of(direction.other):
        raise InputError(
            f"Source {beams.id!r} has {direction.other.value} hypotheses only, where {direction.value} ones "
            f"are to be written. Choose the direction {direction.other.value} to write those."
        )
    return beams.of(direction)


def check_found(found: object, id_: str, place: str) -> None:
    """Refuse a source without hypotheses.

    Raises:
        InputError: If nothing was found.
    """
    if not found:
        raise InputError(
            f"{place}: the source with the id {id_!r} has no hypotheses. Give it at least one, or leave it "
            "out."
        )


def one_line(text: str) -> str:
    """A text as a file of lines can hold it: line breaks become spaces, as in what `rerank` prints."""
    return " ".join(words.well_formed(text).splitlines())


def finite(text: str) -> float | None:
    """The finite number that a text spells, or None if it spells something else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def spelled(value: float, beams: Beams) -> str:
    """A number with all its digits, so that it is read back as it was.

    Raises:
        InputError: If it is not finite.
    """
    if not math.isfinite(value):
        raise InputError(
            f"The hypotheses for source {beams.id!r} hold a number that is not finite; "
            "an n-best file has no way to write one."
        )
    return repr(float(value))
