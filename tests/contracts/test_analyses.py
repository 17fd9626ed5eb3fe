"""What holds for every registered analysis; a new one is tested by being registered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bidibeam.errors import InputError, UnknownNameError
from bidibeam.evaluation.analyses import ANALYSES, analyse
from bidibeam.evaluation.analyses.evidence import Evidence
from bidibeam.evaluation.systems import System
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from tests.unit.evaluation.analyses.evidences import (
    ONE_SIDED,
    TWO_SIDED,
    evidence_of,
    hypothesis,
    random_evidence,
    system,
)

pytestmark = pytest.mark.usefixtures("few_trials")


@pytest.fixture(scope="module", params=ANALYSES.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(name: str, evidence: Evidence) -> Any:
    return ANALYSES.create(name, evidence)


@pytest.fixture(scope="module")
def content(name: str) -> Any:
    """What is made of random evidence, by one worker, of what is ranked no further than need be."""
    return made(name, random_evidence(workers=1, whole=False))


def test_json_can_hold_it_and_gives_it_back_as_it_was(content: Any) -> None:
    assert content
    assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_making_it_twice_gives_the_same(name: str, content: Any) -> None:
    evidence = random_evidence()

    assert made(name, evidence) == content
    assert made(name, evidence) == content


def test_the_number_of_workers_makes_no_difference(name: str, content: Any) -> None:
    assert made(name, random_evidence(workers=3)) == content


def test_whole_rankings_make_no_difference(name: str, content: Any) -> None:
    assert made(name, random_evidence(whole=True)) == content


def test_the_evidence_stays_as_it_was(name: str) -> None:
    evidence = random_evidence()
    before = {
        key: {size: each.replies[:] for size, each in sizes.items()}
        for key, sizes in evidence.systems.items()
    }

    made(name, evidence)

    after = {
        key: {size: each.replies for size, each in sizes.items()} for key, sizes in evidence.systems.items()
    }
    assert after == before


def alike(beams: list[Beams], both: list[Beams]) -> Evidence:
    systems = {each: {4: system(each, beams, 4)} for each in ONE_SIDED}
    return evidence_of({**systems, **{each: {4: system(each, both, 4)} for each in TWO_SIDED}})


def lines(texts: list[list[str]], reference: str) -> tuple[list[Beams], list[Beams]]:
    """Regular beams, and the same twice."""
    regular = [NBest(tuple(hypothesis(text, -1.0) for text in each)) for each in texts]
    one = [Beams(str(number), "hi", reference, found) for number, found in enumerate(regular)]
    return one, [replace(line, reverse=line.regular) for line in one]


def test_one_source_is_enough(name: str) -> None:
    content = made(name, alike(*lines([["a b", "a b c d"]], "a b c d")))

    assert json.loads(json.dumps(content, allow_nan=False)) == content


@pytest.mark.parametrize("reference", ["a b", ""])
def test_replies_may_all_be_empty(name: str, reference: str) -> None:
    content = made(name, alike(*lines([["", ""], [""]], reference)))

    assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_a_source_for_which_nothing_was_found_is_no_hindrance(name: str) -> None:
    content = made(name, alike(*lines([[], ["a b c d", "a"]], "a b c d")))

    assert json.loads(json.dumps(content, allow_nan=False)) == content


def without_references(evidence: Evidence) -> dict[str, dict[int, System]]:
    return {
        key: {
            size: replace(each, beams=[replace(line, reference=None) for line in each.beams])
            for size, each in sizes.items()
        }
        for key, sizes in evidence.systems.items()
        if key != "oracle"
    }


def texts_alone(evidence: Evidence) -> dict[str, dict[int, System]]:
    """Bidia and chance, which need no scores."""

    def bare(found: NBest) -> NBest:
        return NBest(tuple(Hypothesis(each.text, each.tokens, None, each.length, None) for each in found))

    return {
        key: {
            size: replace(
                each,
                beams=[
                    replace(line, regular=bare(line.regular), reverse=bare(line.reverse))
                    for line in each.beams
                ],
            )
            for size, each in evidence.systems[key].items()
        }
        for key in ("bidia bleu_t", "random")
    }


LITTLE: dict[str, Callable[[Evidence], dict[str, Any]]] = {
    "no references": without_references,
    "texts alone": texts_alone,
    "no reverse beam": lambda evidence: {key: evidence.systems[key] for key in ONE_SIDED},
    "no oracle": lambda evidence: {
        key: evidence.systems[key] for key in ("vbs", "vbs-tuned", "bidia bleu_t")
    },
    "vbs alone": lambda evidence: {"vbs": evidence.systems["vbs"]},
}


@pytest.mark.parametrize("little", LITTLE)
def test_what_cannot_be_made_says_why_in_a_sentence_and_the_others_are_made(little: str) -> None:
    evidence = evidence_of(LITTLE[little](random_evidence()), space=None)

    contents, left_out = analyse(evidence)

    assert sorted([*contents, *left_out]) == sorted(ANALYSES.names())
    assert left_out
    for name, reason in left_out.items():
        assert reason.endswith(".")
        assert "\n" not in reason
        with pytest.raises(InputError) as caught:
            analyse(evidence, [name])
        assert str(caught.value) == reason
    for name, content in contents.items():
        assert analyse(evidence, [name]) == ({name: content}, {})
        assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_what_is_left_out_of_little_evidence() -> None:
    found = {
        little: list(analyse(evidence_of(change(random_evidence())))[1]) for little, change in LITTLE.items()
    }

    assert found == {
        "no references": ["headroom", "diversity", "sensitivity"],
        "texts alone": ["headroom"],
        "no reverse beam": ["ranks", "sensitivity", "examples"],
        "no oracle": ["headroom"],
        "vbs alone": ["ranks", "headroom", "sensitivity", "examples"],
    }


def test_an_unknown_name_is_answered_with_all_that_there_are() -> None:
    with pytest.raises(UnknownNameError) as caught:
        analyse(random_evidence(1), ["rank"])

    assert str(caught.value) == (
        f"Unknown analysis 'rank'. Did you mean 'ranks'? Choose one of: {', '.join(ANALYSES.names())}."
    )
