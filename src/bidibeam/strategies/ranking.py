"""What strategies share: reading what they need, and ranking a beam by one number a hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bidibeam.errors import InputError
from bidibeam.hypotheses import Direction, Ranked, Ranking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bidibeam.hypotheses import Beams, Hypothesis
    from bidibeam.protocols import Requirements

Field = Literal["log_prob", "score", "other_log_prob"]

REMEDIES: dict[Field, str] = {
    "log_prob": "`bidibeam score FILE --model MODEL` adds it",
    "score": "`bidibeam score FILE --model MODEL` adds it, or choose a strategy without, such as longest",
    "other_log_prob": (
        "`bidibeam decode --n-best` writes it for a model of both directions, and `bidibeam score FILE "
        "--model REVERSE_MODEL` adds it"
    ),
}


def number(hypothesis: Hypothesis, field: Field) -> float:
    """One of its numbers.

    Raises:
        InputError: If the list it comes from did not say.
    """
    value = getattr(hypothesis, field)
    if value is None:
        raise InputError(f'The hypothesis {hypothesis.text!r} has no "{field}"; {REMEDIES[field]}.')
    return float(value)


def normalisation(hypothesis: Hypothesis) -> float:
    """What its score is over its log-probability: the inverse of the length penalty, whichever that was.

    Raises:
        InputError: If the score is not a log-probability over some length penalty.
    """
    log_prob, score = number(hypothesis, "log_prob"), number(hypothesis, "score")
    if log_prob == 0.0 and score == 0.0:
        return 1.0
    if log_prob == 0.0 or score / log_prob <= 0.0:
        raise InputError(
            f'The hypothesis {hypothesis.text!r} has the "score" {score!r} and the "log_prob" {log_prob!r}; '
            "a score must be the log-probability divided by a positive length penalty."
        )
    return score / log_prob


def ranking_by(beams: Beams, direction: Direction, value: Callable[[Hypothesis], float]) -> Ranking:
    """One direction's hypotheses by a number, highest first, those cut off last; ties keep their order."""
    return Ranking.of(
        Ranked(hypothesis, direction, place, value(hypothesis))
        for place, hypothesis in enumerate(beams.of(direction))
    )


def best_by(beams: Beams, direction: Direction, value: Callable[[Hypothesis], float]) -> Ranked | None:
    """The first entry of `ranking_by`, without the others."""
    hypotheses = beams.of(direction).hypotheses
    places = [place for place, hypothesis in enumerate(hypotheses) if hypothesis.finished]
    scores = [(value(hypotheses[place]), -place) for place in places or range(len(hypotheses))]
    if not scores:
        return None
    score, place = max(scores)
    return Ranked(hypotheses[-place], direction, -place, score)


def check_requirements(beams: Beams, requirements: Requirements, strategy: str) -> None:
    """Make sure that a list from elsewhere holds what a strategy needs.

    Raises:
        InputError: Which of it is missing, and where.
    """
    for direction in requirements.directions:
        if not len(beams.of(direction)):
            raise InputError(
                f"source {beams.id!r} has no {direction.value} hypotheses, and {strategy} needs them; add a "
                f'list "{direction.value}", or choose another strategy.'
            )
    for field in _fields(requirements):
        for direction in requirements.directions:
            for place, hypothesis in enumerate(beams.of(direction)):
                if getattr(hypothesis, field) is None:
                    raise InputError(
                        f'source {beams.id!r}, {direction.value}[{place}] has no "{field}", and {strategy} '
                        f"needs it; {REMEDIES[field]}."
                    )
    if requirements.other_weight is not None:
        for direction in requirements.directions:
            for hypothesis in beams.of(direction):
                normalisation(hypothesis)
    if requirements.reference and beams.reference is None:
        raise InputError(
            f'source {beams.id!r} has no "reference", and {strategy} chooses by it; add one, or choose '
            "another strategy."
        )


def _fields(requirements: Requirements) -> Iterator[Field]:
    if requirements.log_prob:
        yield "log_prob"
    if requirements.score:
        yield "score"
    if requirements.other_weight is not None:
        yield "other_log_prob"
