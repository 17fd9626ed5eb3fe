"""Word mover's distance: how far the words of one hypothesis must travel to become those of another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from bidibeam.errors import check_choice, check_setting
from bidibeam.protocols import ClosestPair
from bidibeam.scores import FACT, Signed
from bidibeam.similarities import transport
from bidibeam.similarities.bleu import MEDIAN, brevity_penalties, check_max_length, find_length
from bidibeam.similarities.moves import Move, find_moves
from bidibeam.work import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix
    from bidibeam.similarities.word_vectors import Bags, WordVectors

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

WEIGHTS = ("count", "log")
FORMS = {
    "similarity": transport.SIMILARITY,
    "ratio": transport.RATIO,
    "literal-max": transport.LITERAL_MAX,
    "literal-min": transport.LITERAL_MIN,
}


@dataclass(frozen=True)
class Wmd(Signed):
    """1 / (1 + WMD), from 0 to 1: the least that the words' vectors must move, as Euclidean distance.

    A word counts if it has a vector and is no stop word. Where that leaves nothing of a hypothesis, its stop
    words count; where it has no vectors at all, it is like those with the same tokens and unlike all others.

    Cost: a lookup per token and a bound per pair; an optimal transport for each pair, or, where only the
    closest is wanted, for the few that can be it.

    Args:
        space: The vectors.
        weights: What a word weighs: its "count", or "log", log(1 + count).
        remove_stop_words: Whether English stop words are left out.
        form: With BP = BP_T in `wmd_t` and 1 in `wmd`, "similarity" is BP / (1 + WMD); "ratio" is highest
            where WMD / BP is lowest; "literal-max" and "literal-min", for study, are highest where WMD * BP,
            the paper's formula taken at its word, is highest or lowest.

    Reference: Kusner et al. (2015).
    """

    space: WordVectors
    weights: Literal["count", "log"] = field(default="count", metadata={FACT: "word_weights"})
    remove_stop_words: bool = True
    form: Literal["similarity", "ratio", "literal-max", "literal-min"] = "similarity"

    is_parallel: ClassVar[bool] = True
    recipe: ClassVar[Mapping[str, str]] = {"similarity": "wmd"}

    def __post_init__(self) -> None:
        check_choice("weights", self.weights, WEIGHTS)
        is_flag = isinstance(self.remove_stop_words, bool)
        check_setting(is_flag, "remove_stop_words", self.remove_stop_words, "true or false")
        check_choice("form", self.form, FORMS)

    def distances(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Returns the word mover's distance of every pair, (hypotheses, references)."""
        distances, solved = transport.measure_distances(*self._bags(hypotheses, references))
        count(compared_pairs=distances.size, exact_transports=solved)
        return distances

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Compares each hypothesis with each reference."""
        distances = self.distances(hypotheses, references)
        return transport.to_similarities(distances, self._penalties(hypotheses, references), FORMS[self.form])

    def moves(self, hypothesis: Hypothesis, reference: Hypothesis) -> list[Move]:
        """Returns which words of a pair become which, the costliest first; see `find_moves`."""
        return find_moves(*self._bags([hypothesis], [reference]), self.space.words)

    def closest(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> ClosestPair:
        """Returns the first highest entry of `pairwise`, row by row, bit for bit; neither list is empty."""
        if self.form == "literal-max":  # lower bounds of distances do not help to find the farthest
            return ClosestPair.of(self.pairwise(hypotheses, references))
        bags = self._bags(hypotheses, references)
        row, column, value, solved = transport.find_closest_pair(
            *bags, self._penalties(hypotheses, references), FORMS[self.form]
        )
        count(compared_pairs=len(hypotheses) * len(references), exact_transports=solved)
        return ClosestPair(row, column, value)

    def _bags(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> tuple[Bags, Bags]:
        is_log = self.weights == "log"
        return self.space.bags(
            hypotheses, references, remove_stop_words=self.remove_stop_words, logarithmic=is_log
        )

    def _penalties(
        self,
        hypotheses: Sequence[Hypothesis],
        references: Sequence[Hypothesis],  # noqa: ARG002
    ) -> Floats:
        """BP of each hypothesis."""
        return np.ones(len(hypotheses))


@dataclass(frozen=True)
class WmdT(Wmd):
    """WMD_T: BP_T / (1 + WMD), where BP_T is that of the hypothesis, stop words and all.

    Args:
        max_length: T of BP_T, or "median" for the median length of those that hypotheses are compared with.

    Reference: Colombo et al. (2021), arXiv:2110.03389.
    """

    max_length: int | Literal["median"] = field(default=MEDIAN, metadata={FACT: "T"})

    recipe: ClassVar[Mapping[str, str]] = {"similarity": "wmd_t"}

    @property
    def without_length(self) -> Wmd:
        """The same similarity without BP_T."""
        return Wmd(self.space, self.weights, self.remove_stop_words, self.form)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_max_length(self.max_length)

    def _penalties(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Floats:
        lengths, others = (
            np.array([len(each.tokens) for each in compared], dtype=np.int32)
            for compared in (hypotheses, references)
        )
        return brevity_penalties(lengths, find_length(self.max_length, others))
