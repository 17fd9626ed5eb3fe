"""What all strategies share: reading a hypothesis' numbers, ranking a beam, choosing the reply alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked, Ranking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bidibeam.protocols import Requirements, Strategy

Field = Literal["log_prob", "score", "other_log_prob"]
Result = TypeVar("Result")

REMEDIES: dict[Field, str] = {
    "log_prob": "`bidibeam score` adds it, given the model",
    "score": "`bidibeam score` adds it, given the model, or choose a strategy without, such as longest",
    "other_log_prob": (
        "`bidibeam decode` writes it into n-best lists for a model of both directions, and `bidibeam score` "
        "adds it, given the reverse model"
    ),
}
EXAMPLE = Hypothesis("a b", ("a", "b"), log_prob=-1.0, length=3, score=-1.0, other_log_prob=-1.0)
BATCH_SIZE = 256
"""Sources ranked at once, shared out among the workers."""
CHUNK = 16
"""Sources that a thread takes at once: far fewer would cost more in waiting than they save."""


def number(hypothesis: Hypothesis, field: Field) -> float:
    """Returns one of a hypothesis' numbers."""
    value = getattr(hypothesis, field)
    if value is None:
        raise InputError(f'The hypothesis {hypothesis.text!r} has no "{field}"; {REMEDIES[field]}.')
    return float(value)


def normalisation(hypothesis: Hypothesis) -> float:
    """Returns score / log-probability: the inverse of the length penalty, whichever that was."""
    log_prob, score = number(hypothesis, "log_prob"), number(hypothesis, "score")
    if log_prob == 0.0 and score == 0.0:
        return 1.0
    if log_prob == 0.0 or score / log_prob <= 0.0:
        raise InputError(
            f'The hypothesis {hypothesis.text!r} has the "score" {score!r} and the "log_prob" {log_prob!r}; '
            "a score must be the log-probability divided by a positive length penalty."
        )
    return score / log_prob


def check_requirements(beams: Beams, requirements: Requirements, strategy: str) -> None:
    """Makes sure that a list from elsewhere holds what a strategy needs."""
    for direction in requirements.directions:
        if not len(beams.of(direction)):
            instead = ', such as "mbr mean"' if len(beams.regular) else ""  # which texts are enough for
            raise InputError(
                f"source {beams.id!r} has no {direction.value} hypotheses, and {strategy} needs them; add a "
                f'list "{direction.value}", or choose another strategy{instead}.'
            )
    for direction in requirements.directions:
        is_needed: dict[Field, bool] = {
            "log_prob": requirements.log_prob,
            "score": requirements.score,
            "other_log_prob": direction in requirements.scored,
        }
        for place, hypothesis in enumerate(beams.of(direction)):
            for field in REMEDIES:
                if is_needed[field] and getattr(hypothesis, field) is None:
                    raise InputError(
                        f'source {beams.id!r}, {direction.value}[{place}] has no "{field}", and {strategy} '
                        f"needs it; {REMEDIES[field]}."
                    )
            if requirements.other_weight is not None:
                normalisation(hypothesis)
    if requirements.reference and not beams.references:
        raise InputError(
            f'source {beams.id!r} has no "reference", and {strategy} chooses by it; add one, or choose '
            "another strategy."
        )


def rank_by(beams: Beams, direction: Direction, value: Callable[[Hypothesis], float]) -> Ranking:
    """Ranks one direction's hypotheses, highest number first, those cut off last; ties keep beam order."""
    return Ranking.of(
        Ranked(hypothesis, direction, place, value(hypothesis))
        for place, hypothesis in enumerate(beams.of(direction))
    )


def best_by(beams: Beams, direction: Direction, value: Callable[[Hypothesis], float]) -> Ranked | None:
    """Returns the first entry of `rank_by`, without the others."""
    hypotheses = beams.of(direction).hypotheses
    places = [place for place, hypothesis in enumerate(hypotheses) if hypothesis.finished]
    scores = [(value(hypotheses[place]), -place) for place in places or range(len(hypotheses))]
    if not scores:
        return None
    score, place = max(scores)
    return Ranked(hypotheses[-place], direction, -place, score)


def choose(strategy: Strategy, beams: Beams) -> Ranking:
    """Returns the first entry of the strategy's ranking alone, by its shortcut where it has one."""
    shortcut = getattr(strategy, "choose", None)  # isinstance would take as long as choosing
    if shortcut is None:
        return Ranking(strategy.rank(beams).entries[:1])
    best: Ranked | None = shortcut(beams)
    return Ranking((best,) if best is not None else ())


def rank_all(
    strategy: Strategy, batch: Sequence[Beams], *, workers: int = 1, replies_only: bool = False
) -> list[Ranking]:
    """Ranks sources in order, in threads where the similarity allows; if `replies_only`, the first alone."""
    rank = partial(choose, strategy) if replies_only else strategy.rank
    return map_in_threads(rank, batch, workers if is_parallel(strategy) else 1)


def map_in_threads(function: Callable[[Beams], Result], batch: Sequence[Beams], workers: int) -> list[Result]:
    """Calls a function for each source, in up to so many threads, and returns the results in order."""
    if workers < 2 or len(batch) < 2:
        return list(map(function, batch))
    size = min(CHUNK, -(-len(batch) // workers))
    chunks = [batch[start : start + size] for start in range(0, len(batch), size)]
    with ThreadPoolExecutor(workers) as pool:
        done = pool.map(lambda chunk: list(map(function, chunk)), chunks)
        return [result for results in done for result in results]


def is_parallel(strategy: Strategy) -> bool:
    """Tells whether ranking in several threads is safe and worth it: where the similarity says so."""
    return bool(getattr(getattr(strategy, "similarity", None), "is_parallel", False))


def warm_up(strategy: Strategy) -> None:
    """Ranks two short beams, so that kernels compile now; somebody else's similarity is left alone."""
    if hasattr(strategy, "similarity") and not is_parallel(strategy):
        return
    beams = Beams("", "", ("a b",), regular=NBest((EXAMPLE, EXAMPLE)), reverse=NBest((EXAMPLE, EXAMPLE)))
    strategy.rank(beams)
    choose(strategy, beams)
