"""What holds for every registered strategy; a new one is tested by being registered."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranking
from bidibeam.interchange import nbest
from bidibeam.protocols import Requirements, Strategy
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.ranking import check_requirements, choose, rank_all
from bidibeam.strategies.settings import StrategySettings

WORDS = ["a", "b", "c", "d"]
SPACE = WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 3)), "toy")
MAX_LENGTH = 5

OPTIONS: Mapping[str, Mapping[str, Any]] = {"vbs-tuned": {"length_exponent": 1.0, "word_reward": 0.5}}
"""For strategies that cannot be built without."""

CASES = {name: StrategySettings(name, OPTIONS.get(name, {})) for name in STRATEGIES.names()} | {
    "bidia, either": StrategySettings("bidia", {"answer": "either"}),
    "bidia, expected": StrategySettings("bidia", {"answer": "either", "agreement": "expected"}),
    "bidia, mean": StrategySettings("bidia", {"agreement": "mean"}),
    "bidia, wmd_t": StrategySettings("bidia", {"answer": "either"}, similarity="wmd_t"),
    "bidia, token_f1": StrategySettings("bidia", {"answer": "either"}, similarity="token_f1"),
    "loglinear, reverse": StrategySettings("loglinear", {"candidates": "reverse"}),
    "loglinear, both": StrategySettings("loglinear", {"candidates": "both", "length_weight": 0.5}),
    "loglinear, agreement": StrategySettings("loglinear", similarity="edit"),
    "loglinear, both, agreement": StrategySettings(
        "loglinear", {"candidates": "both", "agreement": "closest"}, similarity="bleu_t"
    ),
    "mbr, mean": StrategySettings("mbr", {"agreement": "mean"}, similarity="edit"),
    "bidis, no weight": StrategySettings("bidis", {"lambda_": 0.0}),
    "bidis, against": StrategySettings("bidis", {"lambda_": -0.5}),
}


def build(case: str) -> Strategy:
    return CASES[case].build(max_length=MAX_LENGTH, space=lambda: SPACE)


def hypothesis(tokens: Sequence[str], score: float, other: float, *, finished: bool) -> Hypothesis:
    """It has all that a hypothesis may have."""
    length = len(tokens) + finished
    return Hypothesis(" ".join(tokens), tuple(tokens), 2 * score, length, score, finished, other)


SCORES = (-3.0, -2.0, -1.5, -1.0, 0.0)
"""Few, so that ties abound."""


def random_beams(seed: int) -> Beams:
    """Up to five hypotheses of few words from each direction."""
    chooser = random.Random(seed)

    def nbest() -> NBest:
        return NBest(
            tuple(
                hypothesis(
                    chooser.choices([*WORDS, "unheard"], k=chooser.randint(0, 6)),
                    chooser.choice(SCORES),
                    chooser.choice(SCORES),
                    finished=chooser.random() < 0.7,
                )
                for _ in range(chooser.randint(0, 5))
            )
        )

    reference = " ".join(chooser.choices(WORDS, k=chooser.randint(0, 6)))
    return Beams(str(seed), "hi", (reference,), nbest(), nbest())


RANDOM = [random_beams(seed) for seed in range(60)]


FULL = Beams(
    "s1",
    "hi",
    ("a b",),
    NBest((Hypothesis("a b", ("a", "b"), -2.0, 3, -1.0, other_log_prob=-1.0),)),
    NBest((Hypothesis("b c", ("b", "c"), -2.0, 3, -1.0, other_log_prob=-1.0),)),
)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def strategy(case: str) -> Strategy:
    return build(case)


def outline(ranking: Ranking) -> list[tuple[Direction, int, float, int | None]]:
    """A ranking without the hypotheses, which may know more or less."""
    return [(entry.direction, entry.place, entry.score, entry.partner) for entry in ranking]


def test_ranking_is_pure_and_holds_all_that_may_answer_once_best_first(case: str, strategy: Strategy) -> None:
    for found in RANDOM:
        before = deepcopy(found)
        ranking = strategy.rank(found)

        assert found == before
        assert strategy.rank(deepcopy(found)) == ranking
        assert choose(strategy, found).entries == ranking.entries[:1]
        for is_finished in (True, False):
            scores = [entry.score for entry in ranking if entry.hypothesis.finished is is_finished]
            assert scores == sorted(scores, reverse=True)
            assert np.isfinite(scores).all()
        places = [(entry.direction, entry.place) for entry in ranking]
        assert len(places) == len(set(places))
        for entry in ranking:
            assert entry.direction in strategy.requirements.directions
            assert entry.hypothesis is found.of(entry.direction).hypotheses[entry.place]
        answering = {direction for direction, _ in places}
        texts = [each.text for direction in answering for each in found.of(direction)]
        if case.startswith("loglinear, both"):  # a text is one candidate
            assert sorted(entry.hypothesis.text for entry in ranking) == sorted(set(texts))
        else:
            assert len(places) == len(texts)  # all of a beam or none
        if len(found.of(strategy.requirements.directions[0])):
            assert strategy.requirements.directions[0] in answering


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("replies_only", [True, False])
def test_many_sources_are_ranked_in_order_in_however_many_threads(
    strategy: Strategy, workers: int, replies_only: bool
) -> None:
    rankings = rank_all(strategy, RANDOM, workers=workers, replies_only=replies_only)

    one = (lambda found: choose(strategy, found)) if replies_only else strategy.rank
    assert rankings == [one(found) for found in RANDOM]
    assert rank_all(strategy, [], workers=workers) == []


nbests = st.lists(
    st.builds(
        hypothesis,
        st.lists(st.sampled_from(WORDS), max_size=5),
        st.sampled_from(SCORES),
        st.sampled_from(SCORES),
        finished=st.booleans(),
    ),
    max_size=4,
).map(lambda found: NBest(tuple(found)))


@given(regular=nbests, reverse=nbests)
def test_no_shortcut_is_led_astray(regular: NBest, reverse: NBest) -> None:
    found = Beams("1", "hi", ("a b c",), regular, reverse)
    turned = Beams("2", "hi", ("a b c",), reverse, regular)
    for case in CASES:
        strategy = build(case)
        first = [Ranking(strategy.rank(each).entries[:1]) for each in (found, turned)]
        assert [choose(strategy, each) for each in (found, turned)] == first, case


def test_live_or_from_a_file_the_ranking_is_the_same(strategy: Strategy) -> None:
    for found in RANDOM:
        (read,) = nbest.read(io.StringIO(nbest.to_json(found)), allow_empty=True)

        assert outline(strategy.rank(read)) == outline(strategy.rank(found))
        assert outline(choose(strategy, read)) == outline(choose(strategy, found))


def stripped(found: Beams, requirements: Requirements) -> Beams:
    """The same beams without anything that is not needed."""

    def bare(direction: Direction) -> NBest:
        if direction not in requirements.directions:
            return NBest()
        return NBest(
            tuple(
                each._replace(
                    log_prob=each.log_prob if requirements.log_prob else None,
                    score=each.score if requirements.score else None,
                    other_log_prob=each.other_log_prob if direction in requirements.scored else None,
                )
                for each in found.of(direction)
            )
        )

    return replace(
        found,
        references=found.references if requirements.reference else (),
        regular=bare(Direction.REGULAR),
        reverse=bare(Direction.REVERSE),
    )


def test_what_it_does_not_need_makes_no_difference(strategy: Strategy) -> None:
    for found in (each for each in RANDOM if len(each.regular) and len(each.reverse)):
        bare = stripped(found, strategy.requirements)

        check_requirements(bare, strategy.requirements, "this")
        assert outline(strategy.rank(bare)) == outline(strategy.rank(found))


def lacking(requirements: Requirements) -> dict[str, Beams]:
    """Beams that lack one needed thing each, by what a message must name."""
    found = {
        f"no {direction.value} hypotheses": FULL.with_hypotheses(direction, NBest())
        for direction in requirements.directions
    }
    for field, is_needed in (
        ("log_prob", requirements.log_prob),
        ("score", requirements.score),
        ("other_log_prob", bool(requirements.scored)),
    ):
        for direction in requirements.directions if is_needed else ():
            if field == "other_log_prob" and direction not in requirements.scored:
                continue
            without: dict[str, Any] = {field: None}
            one = FULL.of(direction).best._replace(**without)
            found[f'{direction.value}[0] has no "{field}"'] = FULL.with_hypotheses(direction, NBest((one,)))
    if requirements.reference:
        found['no "reference"'] = replace(FULL, references=())
    return found


def test_what_it_needs_and_does_not_get_is_named(case: str, strategy: Strategy) -> None:
    check_requirements(FULL, strategy.requirements, case)

    for named, found in lacking(strategy.requirements).items():
        with pytest.raises(InputError) as caught:
            check_requirements(found, strategy.requirements, case)
        assert named in str(caught.value)
        assert case in str(caught.value)
        assert "'s1'" in str(caught.value)


def test_settings_signature_and_an_empty_list(case: str, strategy: Strategy) -> None:
    again = build(case)

    assert again == strategy
    assert CASES[case].requirements == strategy.requirements
    assert str(strategy.signature).split("|")[0] == f"strategy:{CASES[case].name}"
    nothing = Beams("1", "hi", references=("a",))
    assert strategy.rank(nothing) == choose(strategy, nothing) == Ranking()
    assert again.signature == strategy.signature
    assert strategy.signature not in [build(other).signature for other in CASES if other != case]
