"""Systems: strategies with their settings, what they chose, and among what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from bidibeam._version import __version__
from bidibeam.data.words import split
from bidibeam.errors import BidibeamError, InputError
from bidibeam.hypotheses import Beams, Direction, Ranked, Ranking
from bidibeam.metrics.bleu import ORDER
from bidibeam.metrics.ngrams import NgramCounts, count_ngrams
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import check_requirements, rank_all
from bidibeam.strategies.settings import strategy_named

if TYPE_CHECKING:
    from bidibeam.protocols import Strategy
    from bidibeam.similarities.word_vectors import WordVectors

BASE = "vbs"
"""The most likely hypothesis."""
TUNED = "vbs-tuned"
"""The same with its length settings tuned: what a gain must be a gain over."""
ORACLE = "oracle"
"""The hypothesis nearest the reference: what a perfect choice would reach."""
AGREEMENT = "bidia"
"""The strategy in which both directions decide; its systems have more words behind it."""
SYSTEMS = (
    BASE,
    TUNED,
    "bidis",
    "bidia bleu_t",
    "bidia wmd_t",
    "bidia bleu_t tuned",
    "bidia wmd_t tuned",
    "bidia bleu_t either",
    "bidia bleu_t expected",
    "longest",
    "reverse-vbs",
    "random",
    ORACLE,
)
"""Those of the reproduction."""
BASELINES = (TUNED, BASE)
"""What the other systems are tested against."""
BATCH_SIZE = 256
"""Sources ranked at once, shared out among the workers."""


@dataclass(frozen=True)
class System:
    """One way of choosing, and what it chose for every source."""

    name: str  # as tables show it: "vbs", "bidia wmd_t", "bidia bleu_t either", "bidia bleu_t tuned"
    beam_size: int  # N_B, the hypotheses it could choose from; 0 where nobody knows
    beams: Sequence[Beams]
    rankings: Sequence[Ranking]
    signature: Signature

    @cached_property
    def replies(self) -> list[str]:
        """One per source; empty where nothing was found."""
        return [ranking.text for ranking in self.rankings]

    @cached_property
    def reply_words(self) -> list[Sequence[str]]:
        """The replies as every metric counts words."""
        return [split_words(reply) for reply in self.replies]

    @cached_property
    def reference_words(self) -> list[Sequence[str]]:
        """The references, likewise."""
        for line in self.beams:
            if line.reference is None:
                raise InputError(f"Source {line.id!r} has no reference, so its reply cannot be scored.")
        return [split_words(line.reference or "") for line in self.beams]

    @cached_property
    def counts(self) -> NgramCounts:
        """The n-grams that replies share with their references."""
        return count_ngrams(self.reply_words, self.reference_words, ORDER)


@lru_cache(1 << 16)
def split_words(text: str) -> tuple[str, ...]:
    """Returns the words of a text; systems have references and many replies in common."""
    return tuple(split(text))


def choose_system(
    name: str,
    strategy: Strategy,
    beams: Sequence[Beams],
    *,
    signature: Signature | None = None,
    beam_size: int | None = None,
    replies_only: bool = True,
    workers: int = 1,
    track: Callable[[Iterator[Ranking], int, str], Iterable[Ranking]] | None = None,
) -> System:
    """Lets a strategy choose among lists that hold what it needs: a system under test.

    By default N_B is the number of hypotheses it can choose from (the longest regular list, and with it the
    reverse one where both are used), and the signature is that of the strategy and this version. `track`
    reports rankings to a progress bar: the rankings, how many there will be, and the name.
    """
    rankings = (
        ranking
        for start in range(0, len(beams), BATCH_SIZE)
        for ranking in rank_all(
            strategy, beams[start : start + BATCH_SIZE], workers=workers, replies_only=replies_only
        )
    )
    return System(
        name,
        _beam_size(strategy, beams) if beam_size is None else beam_size,
        beams,
        list(rankings if track is None else track(rankings, len(beams), name)),
        signature or strategy.signature.extended(bidibeam=__version__),
    )


def system_from_replies(name: str, beams: Sequence[Beams], signature: Signature, *, beam_size: int) -> System:
    """Returns a system whose replies are known already: each source's only hypothesis.

    `beam_size` is 0 where nobody knows it; the signature says how the replies came about.
    """
    rankings = [
        Ranking(tuple(Ranked(reply, Direction.REGULAR, 0, 0.0) for reply in line.regular)) for line in beams
    ]
    if "bidibeam" not in dict(signature.facts):
        signature = signature.extended(bidibeam=__version__)
    return System(name, beam_size, beams, rankings, signature)


def choose_systems(
    lists: Sequence[Sequence[Beams]],
    names: Sequence[str] | None = None,
    *,
    max_length: int,
    load_vectors: Callable[[], WordVectors] | None = None,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    workers: int = 1,
) -> tuple[dict[str, dict[int, System]], dict[str, str]]:
    """Lets every system choose among every list that holds what it needs, as `choose_system` does.

    Of two lists with the same N_B the first counts. Returns systems by name and N_B; and by name, why one is
    missing. A system that was named in `names` must not be missing; by default all of `SYSTEMS` are tried.
    """
    systems: dict[str, dict[int, System]] = {}
    missing: dict[str, str] = {}
    for name in SYSTEMS if names is None else names:
        try:
            settings = strategy_named(name, tuned or {})
            if settings.name == TUNED and TUNED not in (tuned or {}):
                raise InputError("It needs tuned settings: `bidibeam tune` finds them; give them by `tuned`.")
            strategy = settings.build(max_length=max_length, space=load_vectors)
            systems[name] = _choose_at_every_size(name, strategy, lists, workers)
        except BidibeamError as error:
            if names is not None:
                raise
            missing[name] = str(error)
    if not systems:
        name, reason = next(iter(missing.items()))
        raise InputError(f"No system can choose among these lists. {name}: {reason}")
    return systems, missing


def _choose_at_every_size(
    name: str, strategy: Strategy, lists: Sequence[Sequence[Beams]], workers: int
) -> dict[int, System]:
    """Returns a system by N_B."""
    systems: dict[int, System] = {}
    lacking: InputError | None = None
    for beams in lists:
        try:
            for line in beams:
                check_requirements(line, strategy.requirements, name)
        except InputError as error:
            lacking = error
            continue
        beam_size = _beam_size(strategy, beams)
        if beam_size not in systems:
            systems[beam_size] = choose_system(name, strategy, beams, workers=workers)
    if not systems and lacking is not None:
        # The message advises to choose another strategy, and here there is none to choose.
        fact, _, advice = str(lacking).rpartition("; ")
        raise InputError(f"{fact}." if "strategy" in advice else str(lacking)) from lacking
    return systems


def _beam_size(strategy: Strategy, beams: Sequence[Beams]) -> int:
    directions = strategy.requirements.directions
    return max(sum(len(line.of(direction)) for direction in directions) for line in beams)
