"""Systems: strategies with all that they are told, what they chose, and among what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.evaluation.names import BASE, ORACLE, TUNED
from bidibeam.hypotheses import Beams, Ranking
from bidibeam.scores import Signature

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


@lru_cache(1 << 16)
def _words(text: str) -> tuple[str, ...]:
    """The words of a text; systems have references and many replies in common."""
    return tuple(split(text))
