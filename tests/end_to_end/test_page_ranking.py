"""The page's winners beside Python's: the same beams, strategies and settings of the sliders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from bidibeam import Beams, Explanation, Hypothesis, NBest
from bidibeam.decoding.documents import FORMULAS
from bidibeam.decoding.explaining import Choice, explain_beams
from bidibeam.hypotheses import Direction, Ranking
from bidibeam.reporting.page import render_page
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.baselines import ReverseVbs, Vbs, VbsTuned
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.loglinear import LogLinear
from bidibeam.strategies.settings import StrategySettings
from tests.end_to_end.browser import Browser

WORDS = ["at", "noon", "see", "you", "paris", "rome", "!"]
SPACE = WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 4)))
SYSTEMS: list[tuple[str, dict[str, Any]]] = [
    ("bidis lambda=0.7", {}),
    ("bidia bleu_t", {}),
    ("bidia bleu_t either expected", {"max_length": 4}),
    ("bidia bleu_t mean", {"order": 2, "smoothing": "add-1"}),
    ("bidia token_f1 either", {}),
    *(
        ("bidia wmd_t either", {"form": form})
        for form in ("similarity", "ratio", "literal-max", "literal-min")
    ),
    ("mbr wmd_t mean", {}),
    ("loglinear both", {}),
    ("loglinear bleu_t both", {}),
    ("loglinear edit reverse mean", {}),
    ("loglinear wmd closest", {}),
    ("random", {}),
]
TUNED: dict[str, dict[str, float]] = {
    "vbs-tuned": {"length_exponent": 1.3, "word_reward": 0.2},
    "loglinear edit both": {"regular_weight": 0.4, "reverse_weight": 1.2, "length_weight": 0.3},
}
PENALTIES = {"gnmt": lambda length: (5 + length) / 6, "power": lambda length: max(length, 1)}


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Browser:
    (tmp_path / "page.html").write_text(render_page([]), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    return browser


def make_hypotheses(chooser: Random, formula: str, exponent: float) -> NBest:
    made = []
    for _ in range(chooser.randint(1, 7)):
        words = tuple(chooser.choices(WORDS, k=chooser.randint(0, 6)))
        log_prob, length = -chooser.uniform(0.1, 9), len(words) + 1
        score = log_prob * PENALTIES[formula](length) ** -exponent
        other = -chooser.uniform(0.1, 9)
        is_finished = chooser.random() < 0.8
        made.append(Hypothesis(" ".join(words), words, log_prob, length, score, is_finished, other))
    return NBest(tuple(made))


def explain(chooser: Random, system: str, options: dict[str, Any]) -> Explanation:
    formula, exponent = chooser.choice([*PENALTIES]), chooser.choice([0.0, 0.6, 1.0])
    beams = Beams("1", "hello", (), *(make_hypotheses(chooser, formula, exponent) for _ in Direction))
    settings = StrategySettings.named(system).override(similarity_options=options)
    strategy = settings.build(max_length=chooser.choice([3, 7, None]), space=lambda: SPACE)
    signature = f"length_penalty:{exponent}|length_formula:{formula}"
    return explain_beams(beams, strategy, tuned=TUNED, signature=signature)


def draw_settings(chooser: Random) -> dict[str, float | None]:
    drawn = {
        "T": chooser.randint(1, 12),
        "lambda": chooser.uniform(0, 3),
        "exponent": chooser.uniform(-0.5, 3),
    }
    return {name: value if chooser.random() < 0.6 else None for name, value in drawn.items()}


def score_again(beams: Beams, formula: str, exponent: float) -> Beams:
    for direction in Direction:
        again = [
            each._replace(score=(each.log_prob or 0.0) * PENALTIES[formula](each.length) ** -exponent)
            for each in beams.of(direction)
        ]
        beams = beams.with_hypotheses(direction, NBest(tuple(again)))
    return beams


def rank_by_python(explanation: Explanation, choice: Choice, settings: dict[str, float | None]) -> Any:
    """What the strategy says that is built with the options of the sliders."""
    strategy: Any = choice.strategy
    length, weight, exponent = settings["T"], settings["lambda"], settings["exponent"]
    beams, similarity = explanation.beams, getattr(strategy, "similarity", None)
    if length is not None and hasattr(similarity, "max_length") and similarity == explanation.similarity:
        strategy = replace(strategy, similarity=replace(similarity, max_length=length))
    if weight is not None and isinstance(strategy, BidiS):
        strategy = replace(strategy, lambda_=weight)
    if exponent is not None and isinstance(strategy, VbsTuned | LogLinear):
        strategy = replace(strategy, length_exponent=exponent)
    if exponent is not None and isinstance(strategy, Vbs | ReverseVbs | BidiS):
        formula = explanation.signature.rpartition(":")[2]
        beams = score_again(beams, formula, exponent)
    return strategy.rank(beams)


def is_tie(ranking: Ranking) -> bool:
    """Whether the first two are equal but for rounding."""
    if len(ranking) < 2:
        return False
    first, second = ranking.entries[:2]
    is_close = second.score == pytest.approx(first.score, abs=1e-12, rel=0)
    return is_close and second.hypothesis.finished == first.hypothesis.finished


def test_the_page_has_a_formula_for_whatever_python_says_it_has(page: Browser) -> None:
    assert {*page.run("return bidibeam.formulas")} == {each.recipe["strategy"] for each in FORMULAS}


@pytest.mark.parametrize(("system", "options"), SYSTEMS, ids=lambda value: str(value))
def test_the_page_ranks_as_python_does(page: Browser, system: str, options: dict[str, Any]) -> None:
    chooser = Random(f"{system}{options}")
    explanations = [explain(chooser, system, options) for _ in range(25)]
    cases = [(each, draw_settings(chooser)) for each in explanations for _ in range(4)]
    documents = [[each.to_dict(), settings] for each, settings in cases]

    found = page.run(
        "return arguments[0].map(([known, settings]) => bidibeam.rankAgain(known, settings))", documents
    )

    changed = 0
    for (explanation, settings), winners in zip(cases, found, strict=True):
        assert len(winners) == len(explanation.choices)
        for choice, winner in zip(explanation.choices, winners, strict=True):
            ranking = rank_by_python(explanation, choice, settings)
            first = ranking.entries[0]
            assert winner["score"] == pytest.approx(first.score, abs=1e-9), (choice.system, settings)
            picked = next(
                entry
                for entry in ranking
                if (entry.direction, entry.place) == (winner["direction"], winner["place"])
            )
            is_tied = picked.score == pytest.approx(first.score, abs=1e-12)  # but for rounding
            assert picked == first or (is_tied and picked.hypothesis.finished == first.hypothesis.finished)
            assert winner["text"] == picked.hypothesis.text
            assert winner["partner"] == picked.partner
            if "isTied" in winner:  # ranked again, with a reason of the page's own
                assert winner["isTied"] is is_tie(ranking)
                assert ("has as much, and ties go to the" in winner["reason"]) is is_tie(ranking)
            changed += bool(winner.get("isChanged"))
    assert changed > 20
