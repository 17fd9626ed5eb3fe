"""What analyses are made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.evaluation.evidence import Evidence
from bidibeam.metrics import METRICS
from tests.unit.evaluation.evidences import answering, evidence_of, random_beams, random_evidence, system

sentences = st.lists(st.sampled_from(["a", "b", "c", "d", "don't", "."]), max_size=9).map(" ".join)


@given(st.lists(st.tuples(sentences, sentences, sentences), min_size=1, max_size=6))
def test_every_score_is_the_metrics_own_to_the_last_bit(rows: list[tuple[str, str, str]]) -> None:
    texts = [reference for _, _, reference in rows]
    evidence = evidence_of({"one": {4: answering("one", texts, texts)}})
    references = list(map(split, texts))

    for column in (0, 1):
        replies = [row[column] for row in rows]
        words = [split(reply) for reply in replies]
        expected = {
            name: METRICS.create(name).score(words, references).value
            for name in ("bleu", "length_ratio", "distinct-1", "distinct-2")
        }
        assert evidence.scores(replies) == expected


def test_what_cannot_be_analysed_is_refused() -> None:
    one = answering("one", ["a", "b"], ["a", "b"])
    with pytest.raises(InputError, match="there are 1 replies and 2 references"):
        evidence_of({"one": {4: one}}).scores(["a"])
    nothing: list[Any] = [{}, {"vbs": {}}, {"x": {4: answering("x", [], [])}}]
    for systems in nothing:
        with pytest.raises(InputError, match="no systems, or no sources, to analyse"):
            Evidence(systems, 20)
    for other in (
        answering("other", ["a"], ["a"]),
        replace(one, beams=one.beams[::-1]),
        replace(one, rankings=one.rankings[:1]),
    ):
        with pytest.raises(InputError, match=r"^The system other at N_B = 2 answered other sources"):
            evidence_of({"one": {4: one}, "other": {2: other}})
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
    assert (evidence.bleu_of("vbs", 8), evidence.bleu_of("away", 2)) == (12.5, 3.0)
    sizes = [evidence.bleu_sizes(name) for name in ("vbs", "longest", "away", "x")]
    assert sizes == [{2, 4, 8}, {4, 8}, {2}, set()]
