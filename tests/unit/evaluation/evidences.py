"""Systems that chose among beams written by hand or drawn at random, as evidence."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bidibeam.evaluation.systems import Evidence, System
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.metrics import build_metric
from bidibeam.metrics.scoring import measure, score
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.ranking import choose
from bidibeam.strategies.settings import strategy_named

WORDS = ["a", "b", "c", "d", "e", "the", "of"]
SPACE = WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 4)), "toy")
TUNED: dict[str, dict[str, float]] = {
    "vbs-tuned": {"length_exponent": 1.0, "word_reward": 0.3},
    "bidis": {"lambda_": 0.5},
    "bidia bleu_t": {"T": 3},
    "bidia wmd_t": {"T": 5},
    "loglinear": {"regular_weight": 1.0, "reverse_weight": 0.5, "length_weight": 0.1},
    "loglinear both": {"regular_weight": 1.0, "reverse_weight": 2.0},
}
MAX_LENGTH = 8

ONE_SIDED = ("vbs", "vbs-tuned", "bidis", "longest", "random", "oracle")
TWO_SIDED = (
    "bidia bleu_t",
    "bidia wmd_t",
    "bidia bleu_t tuned",
    "bidia bleu_t either",
    "bidia bleu_t expected",
)


def value_of(metric: str, replies: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """A metric's value, by the metric itself; BLEU of words."""
    judge = build_metric(metric, tokenize="words" if metric == "bleu" else None)
    return score(judge, measure(judge, replies, references))


def system(name: str, beams: Sequence[Beams], beam_size: int, *, whole: bool = False) -> System:
    """A system that chose among beams; with whole rankings, or the replies alone."""
    selection = strategy_named(name, TUNED).build(max_length=MAX_LENGTH, space=lambda: SPACE)
    rankings = [selection.rank(line) if whole else choose(selection, line) for line in beams]
    return System(name, beam_size, beams, rankings, selection.signature)


def without_scores(beams: Sequence[Beams]) -> list[Beams]:
    """The same hypotheses as texts alone."""

    def bare(found: NBest) -> NBest:
        return NBest(tuple(Hypothesis(each.text, each.tokens, None, each.length, None) for each in found))

    return [replace(line, regular=bare(line.regular), reverse=bare(line.reverse)) for line in beams]


def answering(
    name: str, replies: Sequence[str], references: Sequence[str | None], beam_size: int = 4
) -> System:
    """A system with these replies, each the only hypothesis of a regular beam."""
    beams = [
        Beams(str(number), "hi", () if reference is None else (reference,), NBest((hypothesis(reply, -1.0),)))
        for number, (reply, reference) in enumerate(zip(replies, references, strict=True))
    ]
    return replace(system("longest", beams, beam_size), name=name)


def hypothesis(text: str, score: float, *, finished: bool = True, other: float = -1.0) -> Hypothesis:
    words = tuple(text.split())
    return Hypothesis(text, words, 2 * score, len(words) + finished, score, finished, other)


def random_beams(sources: int, *, regular: int, reverse: int, seed: int = 0) -> list[Beams]:
    """Beams of few words, so that ties abound; some hypotheses are cut off, some empty, some lists short."""
    chooser = random.Random(seed)

    def sentence(longest: int) -> str:
        return " ".join(chooser.choices([*WORDS, "unheard"], k=chooser.randint(0, longest)))

    def nbest(size: int) -> NBest:
        count = size if chooser.random() < 0.8 else chooser.randint(0, size)
        return NBest(
            tuple(
                hypothesis(
                    sentence(7),
                    -chooser.randint(0, 12) / 4,
                    finished=chooser.random() < 0.7,
                    other=-chooser.randint(0, 12) / 4,
                )
                for _ in range(count)
            )
        )

    return [
        Beams(f"s{number}", sentence(3), (sentence(6),), nbest(regular), nbest(reverse))
        for number in range(sources)
    ]


def random_evidence(sources: int = 30, *, seed: int = 0, whole: bool = False, **settings: Any) -> Evidence:
    """Every system at N_B = 4 and 8."""
    systems: dict[str, dict[int, System]] = {}
    references: list[tuple[str, ...]] = []
    for size in (4, 8):
        wide = random_beams(sources, regular=size, reverse=0, seed=seed)
        both = random_beams(sources, regular=size // 2, reverse=size // 2, seed=seed + 1)
        references = references or [line.references for line in wide]
        wide, both = (
            [replace(line, references=texts) for line, texts in zip(each, references, strict=True)]
            for each in (wide, both)
        )
        for name in (*ONE_SIDED, *TWO_SIDED):
            beams = wide if name in ONE_SIDED else both
            systems.setdefault(name, {})[size] = system(name, beams, size, whole=whole)
    return evidence_of(systems, **settings)


def evidence_of(
    systems: Mapping[str, Mapping[int, System]], *, space: WordVectors | None = SPACE, **settings: Any
) -> Evidence:
    settings = {"max_length": MAX_LENGTH, **settings}
    return Evidence(systems, load_vectors=None if space is None else lambda: space, **settings)
