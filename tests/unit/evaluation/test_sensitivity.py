"""BidiA with other settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings

from bidibeam.evaluation.sensitivity import (
    BIDIA_OPTIONS,
    OPTIONS,
    Variant,
    choose_replies,
    list_variants,
    sensitivity,
)
from bidibeam.evaluation.systems import Evidence
from bidibeam.hypotheses import Beams, NBest
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.wmd import WmdT
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.tuning import PENALTIES
from tests.unit.evaluation.evidences import (
    MAX_LENGTH,
    evidence_of,
    random_beams,
    random_evidence,
    system,
    value_of,
)
from tests.unit.strategies.lists import random_beams as drawn_beams

SIMILARITIES = ["bleu_t", "wmd_t"]
METRIC_NAMES = ("bleu", "length_ratio", "distinct-2")


def chosen_by(evidence: Evidence, variant: Variant, beams: list[Beams]) -> list[str]:
    """What the strategy itself chooses."""
    return [ranking.text for ranking in evidence.rank(variant.settings, beams, replies_only=True)]


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_shortcuts_choose_what_the_strategy_itself_chooses(similarity: str) -> None:
    beams = random_beams(100, regular=5, reverse=5)
    evidence = evidence_of({"bidia bleu_t": {8: system("bidia bleu_t", beams, 8)}}, workers=3)
    variants = list(list_variants(similarity, MAX_LENGTH))

    replies = choose_replies(evidence, variants, beams)

    chosen = {variant.key: chosen_by(evidence, variant, beams) for variant in variants}
    assert replies == chosen
    assert len({tuple(each) for each in chosen.values()}) > len(chosen) / 2  # settings do matter here
    assert sum(variant.is_derived for variant in variants) > len(variants) / 2


@given(drawn_beams())
@settings(max_examples=25)
def test_no_beams_lead_a_shortcut_astray(line: Beams) -> None:
    evidence = random_evidence(1)
    for similarity in SIMILARITIES:
        variants = {each.key: each for each in list_variants(similarity, MAX_LENGTH)}
        for key, replies in choose_replies(evidence, list(variants.values()), [line]).items():
            assert replies == chosen_by(evidence, variants[key], [line]), key


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_every_setting_is_tried_and_the_defaults_of_all_are_one_choice(similarity: str) -> None:
    own = {each.name for each in fields(BleuT if similarity == "bleu_t" else WmdT)}
    assert set(OPTIONS[similarity]) == own - {"space", "max_length"} - (
        {"weights"} if similarity == "bleu_t" else set()  # of n-grams
    )
    assert set(BIDIA_OPTIONS) == {each.name for each in fields(BidiA)} - {"similarity"}
    for max_length in (20, 11):
        variants = list(list_variants(similarity, max_length))
        defaults = [each for each in variants if each.is_default]

        assert Counter(each.option for each in defaults) == dict.fromkeys(
            ["T", *OPTIONS[similarity], *BIDIA_OPTIONS], 1
        )
        assert {each.key for each in defaults} == {defaults[0].key}
        assert all(each.key != defaults[0].key for each in variants if not each.is_default)
        lengths = [each.value for each in variants if each.option == "T"]
        assert lengths == [*map(str, sorted({*PENALTIES, max_length})), "none"]
        assert defaults[0].value == str(max_length)


def test_rows_have_the_scores_of_what_was_chosen_beside_length_alone_and_random_replies() -> None:
    evidence = random_evidence(25)
    beams = list(evidence.agreeing.beams)
    expected = {
        (f"bidia {similarity}", each.option, each.value): chosen_by(evidence, each, beams)
        for similarity in SIMILARITIES
        for each in list_variants(similarity, MAX_LENGTH)
    }
    for name in ("longest", "random"):  # as they answered at the same N_B
        expected[name, "baseline", name] = list(evidence.systems[name][8].replies)

    found = sensitivity(evidence)

    assert found["beam_size"] == 8
    rows = {(row["system"], row["option"], row["value"]): row for row in found["rows"]}
    assert [*rows] == [*expected]
    references = [line.references for line in beams]
    for key, replies in expected.items():
        for metric in METRIC_NAMES:
            assert rows[key][metric] == value_of(metric, replies, references)
    assert rows["bidia bleu_t", "T", str(MAX_LENGTH)]["is_default"] is True
    assert rows["bidia bleu_t", "T", "none"]["is_default"] is False


def test_what_is_not_at_hand_is_left_out() -> None:
    def names(evidence: Evidence) -> set[str]:
        return {row["system"] for row in sensitivity(evidence)["rows"]}

    systems = random_evidence(10).systems
    narrow = {name: {4: systems[name][4]} for name in ("longest", "random")}
    alone = {"bidia bleu_t": systems["bidia bleu_t"]}
    assert names(evidence_of({**systems, **narrow})) == {"bidia bleu_t", "bidia wmd_t"}  # another N_B
    assert names(evidence_of({**systems, "longest": narrow["longest"]})) >= {"random"}
    assert names(evidence_of(systems, space=None)) == {"bidia bleu_t", "longest", "random"}
    assert names(evidence_of(alone)) == {"bidia bleu_t"}


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
