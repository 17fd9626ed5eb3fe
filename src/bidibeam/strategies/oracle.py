"""The best hypothesis there is: what a perfect choice among the same hypotheses would reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.similarities.bleu import sentence_bleus

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams


@dataclass(frozen=True)
class Oracle:
    """Rank the regular beam by sentence BLEU against the reference: the paper's Best Hypothesis.

    BLEU-4 of words, smoothed as nltk's method 1, with the ordinary brevity penalty. Ties go to the better
    rank; most hypotheses share no word with the reference, so ask `Ranking.tied` how many there are.
    """

    @property
    def requirements(self) -> Requirements:
        """The regular beam and the reference."""
        return Requirements((Direction.REGULAR,), reference=True)

    @property
    def signature(self) -> Signature:
        """Its name and measure."""
        return Signature.of_settings(self, strategy="oracle", by="sentence-bleu,order:4,smoothing:floor")

    def rank(self, beams: Beams) -> Ranking:
        """The regular hypotheses, nearest to the reference first, whether finished or not.

        Raises:
            InputError: If there is no reference.
        """
        if beams.reference is None:
            raise InputError(
                f"Source {beams.id!r} has no reference, and the oracle chooses by it. "
                "Choose another strategy."
            )
        words = [split(hypothesis.text) for hypothesis in beams.regular]
        scores = sentence_bleus(words, split(beams.reference)).tolist()
        entries = [
            Ranked(hypothesis, Direction.REGULAR, place, score)
            for place, (hypothesis, score) in enumerate(zip(beams.regular, scores, strict=True))
        ]
        return Ranking(tuple(sorted(entries, key=lambda entry: -entry.score)))
