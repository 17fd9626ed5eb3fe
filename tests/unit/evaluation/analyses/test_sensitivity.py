"""BidiA with other settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import get_args

import pytest
from hypothesis import given, settings

from bidibeam.data.words import split
from bidibeam.evaluation.analyses.evidence import Evidence
from bidibeam.evaluation.analyses.sensitivity import (
    BIDIA_OPTIONS,
    OPTIONS,
    replies_of,
    sensitivity,
    variants_of,
)
from bidibeam.hypotheses import Beams, NBest
from bidibeam.metrics import METRICS
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.wmd import WmdT
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.tuning import PENALTIES
from tests.unit.evaluation.analyses.evidences import (
    MAX_LENGTH,
    evidence_of,
    random_beams,
    random_evidence,
    system,
)
from tests.unit.strategies.lists import random_beams as drawn_beams

SIMILARITIES = ["bleu_t", "wmd_t"]


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("workers", [1, 3])
def test_shortcuts_choose_what_the_strategy_itself_chooses(similarity: str, workers: int) -> None:
    beams = random_beams(300, regular=5, reverse=5)
    evidence = evidence_of({"bidia bleu_t": {8: system("bidia bleu_t", beams, 8)}}, workers=workers)
    variants = list(variants_of(similarity, MAX_LENGTH))

    replies = replies_of(evidence, variants, beams)

    chosen = {variant.key: evidence.choose(variant.settings, beams) for variant in variants}
    assert replies == chosen
    assert len({tuple(each) for each in chosen.values()}) > len(chosen) / 2  # settings do matter here
    assert sum(variant.is_derived for variant in variants) > len(variants) / 2


@given(drawn_beams())
@settings(deadline=None, max_examples=100)
def test_no_beams_lead_a_shortcut_astray(line: Beams) -> None:
    evidence = random_evidence(1)
    for similarity in SIMILARITIES:
        variants = list(variants_of(similarity, MAX_LENGTH))
        for key, replies in replies_of(evidence, variants, [line]).items():
            (variant, *_) = (each for each in variants if each.key == key)
            assert replies == evidence.choose(variant.settings, [line]), (variant.option, variant.value)


def test_every_setting_there_is_is_tried() -> None:
    own = {"order", "weights", "smoothing", "max_length"}  # of n-grams; the search decides none of them
    assert {each.name for each in fields(BleuT)} == own
    assert set(OPTIONS["bleu_t"]) == own - {"weights", "max_length"}
    assert set(OPTIONS["wmd_t"]) == {each.name for each in fields(WmdT)} - {"space", "max_length"}
    assert set(BIDIA_OPTIONS) == {each.name for each in fields(BidiA)} - {"similarity"}
    assert all(len(values) == len(set(values)) > 1 for values in BIDIA_OPTIONS.values())
    assert not get_args(BIDIA_OPTIONS["answer"])


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_one_value_of_each_setting_is_the_default_and_all_of_those_are_one_choice(similarity: str) -> None:
    for max_length in (20, 11):
        variants = list(variants_of(similarity, max_length))
        defaults = [each for each in variants if each.is_default]

        assert Counter(each.option for each in defaults) == dict.fromkeys(
            ["T", *OPTIONS[similarity], *BIDIA_OPTIONS], 1
        )
        assert {each.key for each in defaults} == {defaults[0].key}
        assert all(each.key != defaults[0].key for each in variants if not each.is_default)
        lengths = [each.value for each in variants if each.option == "T"]
        assert lengths == [*map(str, sorted({*PENALTIES, max_length})), "none"]
        assert defaults[0].value == str(max_length)


def test_rows_have_the_scores_of_what_was_chosen() -> None:
    evidence = random_evidence(60)

    found = sensitivity(evidence)

    assert found["beam_size"] == 8
    beams = evidence.agreeing.beams
    expected = {
        (f"bidia {similarity}", each.option, each.value): evidence.choose(each.settings, beams)
        for similarity in SIMILARITIES
        for each in variants_of(similarity, MAX_LENGTH)
    }
    rows = {(row["system"], row["option"], row["value"]): row for row in found["rows"]}
    assert [*rows] == [*expected, ("longest", "baseline", "longest"), ("random", "baseline", "random")]
    references = [split(line.reference or "") for line in beams]
    for key, replies in expected.items():
        words = [split(reply) for reply in replies]
        for metric in ("bleu", "length_ratio", "distinct-2"):
            assert rows[key][metric] == METRICS.create(metric).score(words, references).value
    assert rows["bidia bleu_t", "T", str(MAX_LENGTH)]["is_default"] is True
    assert rows["bidia bleu_t", "T", "none"]["is_default"] is False


def test_length_alone_and_chance_stand_beside_it_as_they_answered_at_the_same_n_b() -> None:
    evidence = random_evidence(60)
    rows = {row["system"]: row for row in sensitivity(evidence)["rows"]}

    for name in ("longest", "random"):
        system = evidence.systems[name][8]
        assert max(len(line.regular) for line in system.beams) == 8  # where bidia has 4 in each direction
        for metric in ("bleu", "length_ratio", "distinct-2"):
            expected = METRICS.create(metric).score(system.reply_words, system.reference_words).value
            assert rows[name][metric] == expected


def test_they_are_left_out_where_they_had_another_n_b() -> None:
    systems = random_evidence(10).systems
    narrow = {name: {4: systems[name][4]} for name in ("longest", "random")}

    assert names(evidence_of({**systems, **narrow})) == {"bidia bleu_t", "bidia wmd_t"}
    assert names(evidence_of({**systems, "longest": narrow["longest"]})) >= {"random"}
    assert names(evidence_of({"bidia bleu_t": systems["bidia bleu_t"]})) == {"bidia bleu_t"}


def names(evidence: Evidence) -> set[str]:
    return {row["system"] for row in sensitivity(evidence)["rows"]}


def test_wmd_needs_vectors_and_a_system_that_uses_it() -> None:
    assert "bidia wmd_t" in names(random_evidence(5))
    assert "bidia wmd_t" not in names(random_evidence(5, space=None))
    systems = {"bidia bleu_t": random_evidence(5).systems["bidia bleu_t"]}
    assert "bidia wmd_t" not in names(evidence_of(systems))


def test_what_needs_log_probabilities_is_left_out_where_there_are_none() -> None:
    evidence = random_evidence(5)
    known = evidence.agreeing
    beams = [
        replace(line, reverse=NBest(tuple(each._replace(log_prob=None) for each in line.reverse)))
        for line in known.beams
    ]
    unknown = evidence_of({"bidia bleu_t": {8: replace(known, beams=beams)}})

    def values(of: Evidence) -> list[str]:
        rows = sensitivity(of)["rows"]
        return [row["value"] for row in rows if row["option"] == "agreement" and "bleu" in row["system"]]

    assert values(evidence) == ["closest", "expected", "mean"]
    assert values(unknown) == ["closest", "mean"]
