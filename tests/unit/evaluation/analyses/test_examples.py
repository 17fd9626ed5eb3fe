"""Sources on which systems disagree most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bidibeam.evaluation.analyses.examples import examples
from bidibeam.hypotheses import Beams, NBest
from bidibeam.similarities.bleu import BleuT
from tests.unit.evaluation.analyses.evidences import (
    MAX_LENGTH,
    answering,
    evidence_of,
    hypothesis,
    random_evidence,
    system,
)


def line(number: int, regular: list[str], reverse: list[str]) -> Beams:
    texts = [NBest(tuple(hypothesis(text, -1.0) for text in each)) for each in (regular, reverse)]
    return Beams(str(number), f"source {number}", f"reference {number}", *texts)


def test_an_example_by_hand() -> None:
    beams = [line(0, ["a b c", "d e f g"], ["d e f g", "x"]), line(1, ["a"], ["a"])]
    others = answering("other", ["a b c", "a"], ["r", "r"])

    found = examples(
        evidence_of({"bidia bleu_t": {4: system("bidia bleu_t", beams, 4)}, "other": {4: others}}, examples=1)
    )

    matrix = BleuT(max_length=MAX_LENGTH).pairwise(beams[0].regular.hypotheses, beams[0].reverse.hypotheses)
    assert found == {
        "beam_size": 4,
        "examples": [
            {
                "id": "0",
                "source": "source 0",
                "reference": "reference 0",
                "replies": {"bidia bleu_t": "d e f g", "other": "a b c"},
                "regular": ["a b c", "d e f g"],
                "reverse": ["d e f g", "x"],
                "similarity": "bleu_t",
                "matrix": [[0, 0], [round(float(matrix[1, 0]), 3), 0]],
                "pair": [1, 0],
            }
        ],
    }
    assert 0 < matrix[1, 0] < 1


def test_those_with_the_most_different_replies_come_first_and_equal_ones_stay_in_order() -> None:
    beams = [line(number, ["a", "b"], ["a"]) for number in range(4)]
    systems = {
        "bidia bleu_t": {4: system("bidia bleu_t", beams, 4)},  # "a" everywhere
        "one": {4: answering("one", ["a", "x", "a", "x"], ["r"] * 4)},
        "other": {4: answering("other", ["x", "y", "a", "y"], ["r"] * 4)},
    }

    found = examples(evidence_of(systems))["examples"]

    assert [each["id"] for each in found] == ["1", "3", "0", "2"]
    assert [len(set(each["replies"].values())) for each in found] == [3, 3, 2, 1]


def test_a_source_without_two_beams_is_no_example() -> None:
    beams = [line(0, ["a"], []), line(1, [], ["a"]), line(2, ["a"], ["a"])]

    found = examples(evidence_of({"bidia bleu_t": {4: system("bidia bleu_t", beams, 4)}}))["examples"]

    assert [each["id"] for each in found] == ["2"]


@pytest.mark.parametrize("whole", [True, False])
def test_the_pair_is_that_of_the_reply_and_its_partner(whole: bool) -> None:
    evidence = random_evidence(40, whole=whole, examples=40)
    by_id = {
        line.id: each for line, each in zip(evidence.agreeing.beams, evidence.agreeing.rankings, strict=True)
    }

    found = examples(evidence)["examples"]

    assert len(found) > 20
    for each in found:
        first = by_id[each["id"]].entries[0]
        row, column = each["pair"]
        assert each["regular"][row] == each["replies"]["bidia bleu_t"]
        assert [row, column] == [first.place, first.partner]
        assert each["matrix"][row][column] == pytest.approx(first.score, abs=5e-4)
        assert (len(each["matrix"]), len(each["matrix"][0])) == (len(each["regular"]), len(each["reverse"]))


def test_none_may_be_wanted() -> None:
    assert examples(random_evidence(5, examples=0))["examples"] == []


def test_the_same_source_is_shown_once() -> None:
    beams = [replace(line(number, ["a", "b"], ["a"]), source=said) for number, said in enumerate("xyx")]

    found = examples(evidence_of({"bidia bleu_t": {4: system("bidia bleu_t", beams, 4)}}))["examples"]

    assert [each["id"] for each in found] == ["0", "1"]
