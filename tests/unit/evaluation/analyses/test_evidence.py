"""What analyses are made from."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from bidibeam.errors import InputError
from bidibeam.evaluation.analyses.evidence import Evidence, spread
from bidibeam.hypotheses import Beams
from bidibeam.metrics import METRICS
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.naming import strategy_named
from tests.unit.evaluation.analyses.evidences import (
    SPACE,
    TUNED,
    answering,
    evidence_of,
    random_beams,
    random_evidence,
    system,
)


def test_each_system_is_looked_at_where_it_has_most_to_choose_from() -> None:
    beams = random_beams(3, regular=4, reverse=4)
    evidence = evidence_of(
        {
            "vbs": {4: system("vbs", beams, 4), 2: system("vbs", beams, 2)},
            "bidia bleu_t": {8: system("bidia bleu_t", beams, 8)},
            "bidis": {},
        }
    )

    assert evidence.largest == 8
    assert {name: each.beam_size for name, each in evidence.widest.items()} == {"vbs": 4, "bidia bleu_t": 8}
    assert evidence.agreeing.name == "bidia bleu_t"


def test_n_b_that_nobody_knows_is_one_sentence() -> None:
    evidence = evidence_of({"x": {0: answering("x", ["a"], ["a"], beam_size=0)}})

    with pytest.raises(InputError, match=r"so N_B is unknown\.$"):
        evidence.largest  # noqa: B018


@pytest.mark.parametrize("systems", [{}, {"vbs": {}}, {"x": {4: answering("x", [], [])}}])
def test_nothing_to_analyse_is_one_sentence(systems: dict[str, dict[int, object]]) -> None:
    with pytest.raises(InputError, match="no systems, or no sources, to analyse"):
        Evidence(systems, 20)  # type: ignore[arg-type]


def test_systems_that_answered_other_sources_are_refused() -> None:
    one = answering("one", ["a", "b"], ["a", "b"])
    for other in (
        answering("other", ["a"], ["a"]),
        replace(one, beams=one.beams[::-1]),
        replace(one, rankings=one.rankings[:1]),
    ):
        with pytest.raises(InputError, match=r"^The system other at N_B = 2 answered other sources"):
            evidence_of({"one": {4: one}, "other": {2: other}})


def test_what_agreement_needs_is_named() -> None:
    beams = random_beams(3, regular=4, reverse=0)
    with pytest.raises(InputError, match=r"^It needs the system 'bidia bleu_t'"):
        evidence_of({"vbs": {4: system("vbs", beams, 4)}}).agreeing  # noqa: B018

    with pytest.raises(InputError, match=r"^No source has hypotheses of both directions"):
        evidence_of({"bidia bleu_t": {4: system("bidia bleu_t", beams, 4)}}).agreeing  # noqa: B018


def test_bleu_is_computed_where_nobody_knows_it() -> None:
    evidence = random_evidence(bleu={"vbs": {8: 12.5, 2: 1.0}, "away": {2: 3.0}})

    chosen = evidence.systems["longest"][8]
    expected = METRICS.create("bleu").score(chosen.reply_words, chosen.reference_words).value
    assert evidence.bleu_of("longest", 8) == expected
    assert evidence.bleu_of("vbs", 8) == 12.5
    assert evidence.bleu_of("away", 2) == 3.0
    assert [evidence.bleu_sizes(name) for name in ("vbs", "longest", "away", "x")] == [
        {2, 4, 8},
        {4, 8},
        {2},
        set(),
    ]


def test_vectors_are_asked_for_once_and_only_when_needed() -> None:
    asked = []

    def space() -> WordVectors:
        asked.append(1)
        return SPACE

    evidence = random_evidence(space=space)
    beams = evidence.agreeing.beams

    evidence.choose(strategy_named("bidia bleu_t"), beams)
    assert asked == []
    for _ in range(2):
        evidence.choose(strategy_named("bidia wmd_t"), beams)
    assert asked == [1]
    with pytest.raises(InputError, match="no word vectors"):
        random_evidence(space=None).vectors  # noqa: B018


def test_choosing_and_ranking_again_is_what_the_system_did() -> None:
    evidence = random_evidence(whole=True)
    for name, chosen in evidence.widest.items():
        settings = strategy_named(name, TUNED)
        assert evidence.rank(settings, chosen.beams) == chosen.rankings
        assert evidence.choose(settings, chosen.beams) == chosen.replies


@pytest.mark.parametrize("workers", [1, 3, 50])
def test_work_is_spread_over_threads_in_order(workers: int) -> None:
    beams = random_beams(20, regular=1, reverse=0)
    threads = set()

    def work(line: Beams) -> str:
        threads.add(threading.get_ident())
        return line.id

    assert spread(work, beams, workers=workers) == [line.id for line in beams]
    assert (threading.get_ident() in threads) == (workers == 1)
    assert spread(work, [], workers=workers) == []
