"""Measures of what must be changed: exact match and sentence error rate; WER and CER of speech; TER."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unicodedata import normalize

import numpy as np
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics.ter import TER

from bidibeam.metrics.bleu import mean_percent, sacrebleu_facts
from bidibeam.metrics.ngrams import check_paired, first_lowest, sign

if TYPE_CHECKING:
    from bidibeam.protocols import Array
    from bidibeam.scores import Signature


def _case(lowercase: bool) -> str:
    return "lc" if lowercase else "mixed"


def normalise_text(text: str, *, lowercase: bool) -> str:
    """Returns a text composed (NFC), so that a letter is one however it was typed; in lower case if asked."""
    return normalize("NFC", text.lower() if lowercase else text)


@dataclass(frozen=True)
class ExactMatch:
    """How many replies are what a person answered, in per cent; space around a text does not count.

    Nor does it how a letter was typed, as one character or as two (Unicode's NFC).

    Args:
        lowercase: Whether case is ignored.
    """

    lowercase: bool = False

    name = "exact_match"
    higher_is_better = True

    @property
    def signature(self) -> Signature:
        """Whether case counts."""
        return sign(metric=self.name, nrefs=1, case=_case(self.lowercase))

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns 1 for a reply that equals one of its references, else 0; and 1, (items, 2)."""
        check_paired(replies, references)
        pairs = zip(replies, references, strict=True)
        hits = [self._plain(reply) in map(self._plain, each) for reply, each in pairs]
        return np.column_stack([np.array(hits, dtype=np.float64), np.ones(len(hits))])

    def values(self, sums: Array) -> Array:
        """Returns the share of each row in per cent."""
        return mean_percent(sums)

    def _plain(self, text: str) -> str:
        return normalise_text(text, lowercase=self.lowercase).strip()


@dataclass(frozen=True)
class SentenceErrorRate(ExactMatch):
    """100 minus exact match: how many replies are not right as a whole; what G2P papers call WER."""

    name = "ser"
    higher_is_better = False

    def values(self, sums: Array) -> Array:
        """Returns the share of errors of each row in per cent."""
        return 100.0 - mean_percent(sums)


def edit_rates(sums: Array) -> Array:
    """Returns 100 * edits / length of each row; where there is no length, 100 if there are edits, else 0."""
    edits, lengths = sums[:, 0], sums[:, 1]
    without: Array = (edits > 0).astype(sums.dtype)
    return 100 * np.divide(edits, lengths, out=without, where=lengths > 0)


@dataclass(frozen=True)
class EditRate(ABC):
    """Edits over the lengths of the references, both summed over all replies, in per cent.

    An edit inserts, deletes or replaces one token, of texts in Unicode's composed form (NFC). Of several
    references that counts which has the lowest rate, and of equal ones that with the fewest edits.

    Args:
        lowercase: Whether case is ignored.
    """

    lowercase: bool = False

    name = ""
    unit = ""
    higher_is_better = False

    @property
    def signature(self) -> Signature:
        """The unit, and whether case counts."""
        return sign(metric=self.name, unit=self.unit, nrefs=1, case=_case(self.lowercase))

    @abstractmethod
    def tokens(self, text: str) -> Sequence[str]:
        """Returns what edits change, of a text whose case is as it should be."""

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns edits and the length of the reference, (items, 2)."""
        check_paired(replies, references)
        sizes = np.fromiter(map(len, references), np.int64, len(references))
        rows = []
        for reply, each in zip(replies, references, strict=True):
            written = self._split(reply)
            rows += [
                (Levenshtein.distance(written, wanted), len(wanted)) for wanted in map(self._split, each)
            ]
        found = np.array(rows, dtype=np.float64)  # (references of all, 2)
        if len(found) == len(sizes):
            return found
        edits, lengths = found.T
        rates = np.divide(edits, lengths, out=np.where(edits > 0, np.inf, 0.0), where=lengths > 0)
        order = np.empty(len(found))
        order[np.lexsort((edits, rates))] = np.arange(len(found))
        return found[first_lowest(order, sizes)]

    def values(self, sums: Array) -> Array:
        """Returns the rate of each row in per cent."""
        return edit_rates(sums)

    def _split(self, text: str) -> Sequence[str]:
        return self.tokens(normalise_text(text, lowercase=self.lowercase))


@dataclass(frozen=True)
class WordErrorRate(EditRate):
    """WER as in speech: edits of words, which white space separates."""

    name, unit = "wer", "words"

    def tokens(self, text: str) -> Sequence[str]:
        """Returns the words."""
        return text.split()


@dataclass(frozen=True)
class CharacterErrorRate(EditRate):
    """CER as in speech: edits of characters, the spaces between words among them."""

    name, unit = "cer", "characters"

    def tokens(self, text: str) -> Sequence[str]:
        """Returns the characters."""
        return text.strip()


@dataclass(frozen=True)
class Ter:
    """Translation edit rate in per cent, as sacreBLEU has it: a block of words may be moved at one edit.

    Reference: Snover et al. (2006); Post (2018), whose sacreBLEU computes it and whose signature stands
    inside ours. It takes long: milliseconds a reply.

    Args:
        lowercase: Whether case is ignored, as it is by default in sacreBLEU.
    """

    lowercase: bool = True

    name = "ter"
    higher_is_better = False
    resampled_as = np.float32  # as sacreBLEU does

    @property
    def signature(self) -> Signature:
        """The one of sacreBLEU."""
        return sign(metric="ter", **sacrebleu_facts(TER(case_sensitive=not self.lowercase)))

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns the fewest edits and the mean length of the references, (items, 2)."""
        check_paired(replies, references)
        metric, known = TER(case_sensitive=not self.lowercase), {}
        for reply, each in zip(replies, map(tuple, references), strict=True):
            if (reply, each) not in known:
                score = metric.sentence_score(reply, each)
                known[reply, each] = (score.num_edits, score.ref_length)
        pairs = zip(replies, map(tuple, references), strict=True)
        return np.array([known[pair] for pair in pairs], dtype=np.float64)

    def values(self, sums: Array) -> Array:
        """Returns TER of each row."""
        return edit_rates(sums)
