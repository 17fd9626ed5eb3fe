"""Lists to tune on, a tuner of them, and what it is to reach."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.metrics import build_metric
from bidibeam.protocols import Strategy
from bidibeam.scores import Signature
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.loglinear import LogLinear
from bidibeam.strategies.tuning import Tuner

BLEU: Any = build_metric("bleu", tokenize="words")
REGULAR, REVERSE = Direction
BOTH = (REGULAR, REVERSE)
SPACE = WordVectors(list("abcdefgh"), np.random.default_rng(1).normal(size=(8, 5)), "toy")


@dataclass(frozen=True)
class ErrorRate:
    """How many replies are not the reference: a metric that is to be low."""

    name: str = "ser"
    higher_is_better: bool = False
    signature: ClassVar[Signature] = Signature((("metric", "ser"),))

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Any:
        wrong = [reply not in right for reply, right in zip(replies, references, strict=True)]
        return np.column_stack([wrong, np.ones(len(wrong))]).astype(np.float64)

    def values(self, sums: Any) -> Any:
        return 100 * sums[:, 0] / np.maximum(1, sums[:, 1])


def score(metric: Any, strategy: Strategy, lines: Iterable[Beams]) -> float:
    """The metric of a strategy's replies."""
    lines = list(lines)
    replies = [strategy.rank(line).text for line in lines]
    sums = metric.statistics(replies, [line.references for line in lines]).sum(axis=0, keepdims=True)
    return float(metric.values(sums)[0])


def tuner_of(lines: Sequence[Beams], metric: Any = BLEU, **options: Any) -> Tuner:
    """A tuner on the same lists, whichever directions a strategy needs."""
    lists = {(REGULAR,): lines, (REVERSE,): lines, BOTH: lines}
    return Tuner(metric, lists, space=lambda: SPACE, **options)


def realistic(seed: int, sources: int = 40) -> list[Beams]:
    """Sources whose longer hypotheses share more with the reference and are less likely."""
    chooser = random.Random(seed)
    words = list("abcdefgh")

    def one(reference: Sequence[str]) -> Hypothesis:
        tokens = [
            chooser.choice(words) if chooser.random() < 0.5 else reference[place % len(reference)]
            for place in range(chooser.randint(1, 9))
        ]
        length = len(tokens) + 1
        log_prob = -length * chooser.uniform(0.5, 2.0)
        score = log_prob / ((5 + length) / 6) ** 0.6
        other = -length * chooser.uniform(0.2, 3.0)
        return Hypothesis(
            " ".join(tokens), tuple(tokens), log_prob, length, score, chooser.random() < 0.8, other
        )

    lines = []
    for number in range(sources):
        reference = [chooser.choice(words) for _ in range(chooser.randint(3, 9))]
        regular, reverse = (
            NBest(tuple(one(reference) for _ in range(chooser.randint(1, 8)))) for _ in range(2)
        )
        lines.append(Beams(str(number), "hi", (" ".join(reference),), regular, reverse))
    return lines


def planted(seed: int, weights: dict[str, float], sources: int = 300, width: int = 12) -> list[Beams]:
    """Sources whose right answer is what a log-linear choice with these weights would take."""
    chooser = random.Random(seed)
    strategy = LogLinear(**weights, length_exponent=0.0)  # type: ignore[arg-type]
    lines = []
    for number in range(sources):
        found = []
        for place in range(width):
            length = chooser.randint(2, 9)
            own, other = (-chooser.uniform(0, 4) - 0.5 * length for _ in range(2))
            score = own * ((5 + length) / 6) ** -0.6
            tokens = tuple(f"w{place}" for _ in range(length - 1))
            found.append(Hypothesis(" ".join(tokens), tokens, own, length, score, other_log_prob=other))
        line = Beams(str(number), "hi", (), NBest(tuple(found)), NBest(tuple(found)))
        lines.append(replace(line, references=(strategy.rank(line).text,)))
    return lines
