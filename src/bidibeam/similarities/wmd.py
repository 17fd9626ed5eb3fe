"""Word mover's distance: how far the words of one hypothesis must travel to become those of another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from bidibeam.errors import SettingsError
from bidibeam.protocols import ClosestPair
from bidibeam.scores import FACT, Signature
from bidibeam.similarities import closeness, transport
from bidibeam.similarities.brevity import DEFAULT_MAX_LENGTH, check_max_length, penalties_of
from bidibeam.similarities.tokens import number_lists
from bidibeam.work import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Comparison, Matrix
    from bidibeam.similarities.spaces import Bags, WordVectors
    from bidibeam.similarities.tokens import Numbers

    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

WEIGHTS = ("count", "log")
FORMS = {
    "similarity": closeness.SIMILARITY,
    "ratio": closeness.RATIO,
    "literal-max": closeness.LITERAL_MAX,
    "literal-min": closeness.LITERAL_MIN,
}


@dataclass(frozen=True)
class Wmd:
    """1 / (1 + WMD), from 0 to 1: the least that the words' vectors must move, as Euclidean distance.

    A word counts if it has a vector and is no stop word. Where that leaves nothing of a hypothesis, its stop
    words count; where it has no vectors at all, it is like those with the same tokens and unlike all others.

    Cost: a lookup a token and a bound a pair; an optimal transport for each pair, or, where only the closest
    is wanted, for the few that can be it.

    Args:
        space: The vectors.
        weights: What a word weighs: its "count", or "log", log(1 + count).
        remove_stop_words: Whether English stop words are left out.
        form: With BP = BP_T in `wmd_t` and 1 in `wmd`, "similarity" is BP / (1 + WMD); "ratio" is highest
            where WMD / BP is lowest; "literal-max" and "literal-min", for study, are highest where WMD * BP,
            the paper's formula taken at its word, is highest or lowest.

    Reference: Kusner et al. (2015).

    Raises:
        SettingsError: If a setting is none of these.
    """

    space: WordVectors
    weights: Literal["count", "log"] = field(default="count", metadata={FACT: "word_weights"})
    remove_stop_words: bool = True
    form: Literal["similarity", "ratio", "literal-max", "literal-min"] = "similarity"

    is_parallel: ClassVar[bool] = True
    least_share: ClassVar[int] = 16
    name: ClassVar[str] = "wmd"

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS:
            raise SettingsError(f"weights must be one of {', '.join(WEIGHTS)}, not {self.weights!r}.")
        if not isinstance(self.remove_stop_words, bool):
            raise SettingsError(f"remove_stop_words must be true or false, not {self.remove_stop_words!r}.")
        if self.form not in FORMS:
            raise SettingsError(f"form must be one of {', '.join(FORMS)}, not {self.form!r}.")

    @property
    def signature(self) -> Signature:
        """Its name and settings."""
        return Signature.of_settings(self, similarity=self.name)

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Matrix:
        """Each judged hypothesis with each other one."""
        distances, plans = transport.distances(*self._bags(judged, others))
        count(compared_pairs=distances.size, exact_transports=plans)
        lengths = np.array([len(each.tokens) for each in judged], dtype=np.int32)
        return closeness.closeness(distances, self._penalties(lengths), FORMS[self.form])

    def closest(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> ClosestPair:
        """The first highest entry of `pairwise`, row by row, bit for bit; neither list is empty."""
        return self.closest_pairs([(judged, others)])[0]

    def closest_pairs(self, comparisons: Sequence[Comparison]) -> list[ClosestPair]:
        """What `closest` finds for each comparison."""
        if self.form == "literal-max":  # bounds below distances do not help to find the farthest
            return [_highest(self.pairwise(judged, others)) for judged, others in comparisons]
        lists = number_lists(comparisons)
        bags = self.space.bag(
            lists.sequences, remove_stop_words=self.remove_stop_words, logarithmic=self.weights == "log"
        )
        lengths = np.fromiter(map(len, lists.sequences), np.int32, len(lists.sequences))
        *found, plans = closeness.closest(
            bags, lists.places, lists.cuts, self._penalties(lengths), FORMS[self.form]
        )
        pairs = sum(len(judged) * len(others) for judged, others in comparisons)
        count(compared_pairs=pairs, exact_transports=plans)
        return list(map(ClosestPair, *(each.tolist() for each in found)))

    def _bags(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> tuple[Bags, Bags]:
        return self.space.bags(
            judged, others, remove_stop_words=self.remove_stop_words, logarithmic=self.weights == "log"
        )

    def _penalties(self, lengths: Numbers) -> Vector:
        """BP of judged hypotheses of these lengths."""
        return np.ones(len(lengths))


@dataclass(frozen=True)
class WmdT(Wmd):
    """WMD_T: BP_T / (1 + WMD), where BP_T is that of the judged hypothesis, stop words and all.

    Args:
        space: As in `Wmd`.
        weights: As in `Wmd`.
        remove_stop_words: As in `Wmd`.
        form: As in `Wmd`.
        max_length: T of BP_T.

    Reference: Colombo et al. (2021), arXiv:2110.03389.

    Raises:
        SettingsError: If a setting is out of range.
    """

    max_length: int = field(default=DEFAULT_MAX_LENGTH, metadata={FACT: "T"})

    name: ClassVar[str] = "wmd_t"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_max_length(self.max_length)

    def _penalties(self, lengths: Numbers) -> Vector:
        return penalties_of(lengths, self.max_length)


def _highest(matrix: Matrix) -> ClosestPair:
    """The first highest entry, row by row."""
    row, column = divmod(int(matrix.argmax()), matrix.shape[1])
    return ClosestPair(row, column, float(matrix[row, column]))
