"""Corpus BLEU, computed by sacreBLEU on our tokens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from sacrebleu.metrics.bleu import BLEU

from bidibeam.metrics.pairing import check_paired, recipe
from bidibeam.scores import Score

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Bleu:
    """Corpus BLEU-4 from 0 to 100, one reference a reply; replies that are all empty score 0.

    Reference: Papineni et al. (2002); Post (2018), whose sacreBLEU computes it. Its own signature stands
    inside ours.
    """

    def score(self, replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Score:
        """Score the whole list at once."""
        check_paired(replies, references)
        # sacreBLEU splits lines at white space. Numbers in place of tokens keep one that holds a space whole;
        # BLEU only asks which tokens are equal.
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        metric = BLEU(tokenize="none", force=True)
        value = metric.corpus_score(_lines(replies, numbers), [_lines(references, numbers)]).score
        theirs = dict(fact.split(":", 1) for fact in str(metric.get_signature()).split("|"))
        return Score("bleu", float(value), recipe(metric="bleu", order=4, **theirs))


def _lines(sequences: Sequence[Sequence[str]], numbers: defaultdict[str, int]) -> list[str]:
    return [" ".join(str(numbers[token]) for token in tokens) for tokens in sequences]
