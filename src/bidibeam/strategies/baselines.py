"""Baselines of agreement: the most likely reply (VBS), the longest, a random one, and the best there is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random as Generator
from typing import TYPE_CHECKING, Any, ClassVar

from bidibeam.errors import InputError, SettingsError, check_finite, check_setting
from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.metrics import build_metric
from bidibeam.metrics.bleu import SentenceBleu
from bidibeam.metrics.scoring import has_statistics, orient
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature, Signed
from bidibeam.strategies.ranking import best_by, number, rank_by
from bidibeam.strategies.reasons import compare_next, count_digits, name_entry, tell_range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.hypotheses import Beams, Hypothesis

LARGEST_EXPONENT = 10
"""As in a search; far beyond it, powers of a length overflow."""
LARGEST_WEIGHT = 10_000


class BeamRanking(Signed, ABC):
    """Ranks one direction's beam by a number of each hypothesis, which a subclass gives."""

    requirements: ClassVar[Requirements] = Requirements((Direction.REGULAR,))
    measure: ClassVar[str] = "score"  # what a sentence calls the number

    @abstractmethod
    def score(self, hypothesis: Hypothesis) -> float:
        """Returns the number; the highest comes first."""

    def rank(self, beams: Beams) -> Ranking:
        """Ranks the hypotheses; ties keep beam order."""
        return rank_by(beams, self.requirements.directions[0], self.score)

    def choose(self, beams: Beams) -> Ranked | None:
        """Returns the first of `rank`."""
        return best_by(beams, self.requirements.directions[0], self.score)

    def reason(self, beams: Beams, ranking: Ranking) -> str:  # noqa: ARG002
        """Returns why the first entry is the first."""
        first, digits = ranking.entries[0], count_digits(ranking)
        own = first.hypothesis
        is_likeliest = (self.requirements.score or self.requirements.log_prob) and own.log_prob is not None
        detail = f" (log P {own.log_prob:.2f}, |Y| {own.length})" if is_likeliest else ""
        highest = f"{self.measure}{tell_range(ranking)}, {first.score:.{digits}f}{detail}"
        return f"{name_entry(first)} has the highest {highest}{compare_next(ranking)}"


@dataclass(frozen=True)
class Vbs(BeamRanking):
    """VBS: rank the regular beam by length-normalised log-probability, as the search did."""

    recipe: ClassVar[Mapping[str, str]] = {"strategy": "vbs"}
    requirements: ClassVar[Requirements] = Requirements((Direction.REGULAR,), score=True)
    measure: ClassVar[str] = "length-normalised log-probability"

    def score(self, hypothesis: Hypothesis) -> float:
        """Returns the search's own score."""
        return number(hypothesis, "score")


@dataclass(frozen=True)
class ReverseVbs(Vbs):
    """VBS with the reverse decoder in the regular one's place."""

    recipe: ClassVar[Mapping[str, str]] = {"strategy": "reverse-vbs"}
    requirements: ClassVar[Requirements] = Requirements((Direction.REVERSE,), score=True)


@dataclass(frozen=True)
class VbsTuned(BeamRanking):
    """VBS with other length settings than the search's: what agreement must beat to be more than length.

    The score is log P / lp + word_reward * |Y|, lp = (5 + |Y|)^length_exponent / 6^length_exponent.

    Args:
        length_exponent: The exponent a of lp; `bidibeam tune` finds it.
        word_reward: What each token is worth, in natural logarithms; found likewise.
    """

    length_exponent: float
    word_reward: float
    recipe: ClassVar[Mapping[str, str]] = {"strategy": "vbs-tuned"}
    requirements: ClassVar[Requirements] = Requirements((Direction.REGULAR,), log_prob=True)
    measure: ClassVar[str] = "log-probability with tuned length settings"

    def __post_init__(self) -> None:
        check_finite("length_exponent", self.length_exponent, LARGEST_EXPONENT)
        check_finite("word_reward", self.word_reward, LARGEST_WEIGHT)

    def score(self, hypothesis: Hypothesis) -> float:
        """Returns the log-probability with the length settings."""
        inverse: float = ((5.0 + hypothesis.length) / 6.0) ** -self.length_exponent
        return number(hypothesis, "log_prob") * inverse + self.word_reward * hypothesis.length


@dataclass(frozen=True)
class Longest(BeamRanking):
    """Rank the regular beam by number of tokens, to see how far length alone goes; ties keep beam order."""

    recipe: ClassVar[Mapping[str, str]] = {"strategy": "longest"}
    measure: ClassVar[str] = "number of tokens"

    def score(self, hypothesis: Hypothesis) -> float:
        """Returns the number of tokens."""
        return float(len(hypothesis.tokens))


@dataclass(frozen=True)
class Random(Signed):
    """Shuffle the regular beam; by seed and source id, so that neither order nor batches matter.

    Args:
        seed: Another seed, another shuffle.
    """

    seed: int = 0
    recipe: ClassVar[Mapping[str, str]] = {"strategy": "random"}
    requirements: ClassVar[Requirements] = Requirements((Direction.REGULAR,))

    def __post_init__(self) -> None:
        is_whole = isinstance(self.seed, int) and not isinstance(self.seed, bool)
        check_setting(is_whole, "seed", self.seed, "a whole number")

    def rank(self, beams: Beams) -> Ranking:
        """Returns the regular hypotheses in a random order, finished ones first."""
        generator = Generator(f"{self.seed}:{beams.id}".encode("utf-8", "surrogatepass"))
        return rank_by(beams, Direction.REGULAR, lambda _: generator.random())


@dataclass(frozen=True)
class Oracle:
    """Rank the regular beam by a metric of each reply alone: by sentence BLEU, the paper's Best Hypothesis.

    That is BLEU-4 of words, smoothed as nltk's method 1, with the ordinary brevity penalty. Ties go to the
    better rank; most hypotheses share no word with the reference, so `Ranking.tied` tells how many there are.

    Args:
        metric: What the choice is judged by: a name, "package.module:name", or a metric itself.
    """

    metric: Any = "sentence_bleu"
    requirements: ClassVar[Requirements] = Requirements((Direction.REGULAR,), reference=True)

    def __post_init__(self) -> None:
        metric = build_metric(self.metric) if isinstance(self.metric, str) else self.metric
        if not has_statistics(metric):
            raise SettingsError(
                f"The oracle needs a per-reply metric, and {metric.name} is known only for all replies "
                "together. Choose another, such as sentence_bleu."
            )
        object.__setattr__(self, "metric", metric)

    @property
    def signature(self) -> Signature:
        """Its name, and how the metric is computed."""
        by = "sentence-bleu,order:4,smoothing:floor"
        if not isinstance(self.metric, SentenceBleu):
            facts = [fact for fact in self.metric.signature.facts if fact[0] != "nrefs"]  # which sources tell
            by = ",".join(f"{name}:{value}" for name, value in facts)
        return Signature((("strategy", "oracle"), ("by", by)))

    def rank(self, beams: Beams) -> Ranking:
        """Ranks the regular hypotheses, nearest to a reference first, whether finished or not."""
        if not beams.references:
            raise InputError(
                f"Source {beams.id!r} has no reference, and the oracle chooses by it. "
                "Choose another strategy."
            )
        scores = self._score([hypothesis.text for hypothesis in beams.regular], beams.references)
        entries = [
            Ranked(hypothesis, Direction.REGULAR, place, score)
            for place, (hypothesis, score) in enumerate(zip(beams.regular, scores, strict=True))
        ]
        return Ranking(tuple(sorted(entries, key=lambda entry: -entry.score)))

    def _score(self, texts: Sequence[str], references: Sequence[str]) -> list[float]:
        """Returns for each text a number that is higher where it is better."""
        if not texts:
            return []
        statistics = self.metric.statistics(texts, [references] * len(texts))
        is_bleu = isinstance(self.metric, SentenceBleu)  # which is shown from 0 to 1
        scores = statistics[:, 0] if is_bleu else orient(self.metric, self.metric.values(statistics))
        listed: list[float] = scores.tolist()
        return listed
