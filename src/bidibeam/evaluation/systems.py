"""Systems: strategies with all that they are told, what they chose, and among what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from bidibeam._version import __version__
from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.evaluation.names import BASE, ORACLE, TUNED
from bidibeam.hypotheses import Beams, Direction, Ranked, Ranking
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import rank_all

if TYPE_CHECKING:
    from bidibeam.protocols import Strategy

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
    """One way of choosing, and what it chose for every source.

    Attributes:
        name: As tables show it: "vbs", "bidia wmd_t", "bidia bleu_t either", "bidia bleu_t tuned".
        beam_size: N_B, the hypotheses it could choose from; 0 where nobody knows.
        beams: What it chose among, source by source.
        rankings: Its order of them, the reply first.
        signature: How it chose.
    """

    name: str
    beam_size: int
    beams: Sequence[Beams]
    rankings: Sequence[Ranking]
    signature: Signature

    @cached_property
    def replies(self) -> list[str]:
        """One a source; empty where nothing was found."""
        return [ranking.text for ranking in self.rankings]

    @cached_property
    def reply_words(self) -> list[Sequence[str]]:
        """The replies as every measure counts words."""
        return [_words(reply) for reply in self.replies]

    @cached_property
    def reference_words(self) -> list[Sequence[str]]:
        """The references, likewise.

        Raises:
            InputError: If one is missing.
        """
        for line in self.beams:
            if line.reference is None:
                raise InputError(f"Source {line.id!r} has no reference, so its reply cannot be scored.")
        return [_words(line.reference or "") for line in self.beams]


def choose_system(
    name: str,
    strategy: Strategy,
    beams: Sequence[Beams],
    *,
    facts: Mapping[str, Any] | None = None,
    workers: int = 1,
    track: Callable[[Iterator[Ranking], int, str], Iterable[Ranking]] | None = None,
) -> System:
    """Let a strategy choose among lists: a system under test.

    N_B is the number of hypotheses it can choose from: the longest regular list, and with it the reverse one
    where both are used.

    Args:
        name: What the system is called.
        strategy: The strategy; the lists hold what it needs.
        beams: The lists.
        facts: What else its signature says.
        workers: Threads that compare hypotheses.
        track: Shows how far it is, given the rankings, how many there will be, and the name.
    """
    batches = (beams[at : at + BATCH_SIZE] for at in range(0, len(beams), BATCH_SIZE))
    chosen = (
        ranking
        for batch in batches
        for ranking in rank_all(strategy, batch, workers=workers, replies_only=True)
    )
    directions = strategy.requirements.directions
    return System(
        name,
        max(sum(len(line.of(direction)) for direction in directions) for line in beams),
        beams,
        list(chosen if track is None else track(chosen, len(beams), name)),
        strategy.signature.extended(**(facts or {}), bidibeam=__version__),
    )


def replied_system(name: str, beams: Sequence[Beams], signature: Signature, *, beam_size: int) -> System:
    """A system whose replies are known already: each source's only hypothesis.

    Args:
        name: What the system is called.
        beams: The sources with their replies.
        signature: How the replies came about, as far as that is known.
        beam_size: N_B, or 0 where nobody knows.
    """
    rankings = [
        Ranking(tuple(Ranked(reply, Direction.REGULAR, 0, 0.0) for reply in line.regular)) for line in beams
    ]
    if "bidibeam" not in dict(signature.facts):
        signature = signature.extended(bidibeam=__version__)
    return System(name, beam_size, beams, rankings, signature)


@lru_cache(1 << 16)
def _words(text: str) -> tuple[str, ...]:
    """The words of a text; systems have references and many replies in common."""
    return tuple(split(text))
