"""What holds for every registered analysis; a new one is tested by being registered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.evaluation import ANALYSES, analyse
from bidibeam.evaluation.systems import Evidence, System
from bidibeam.hypotheses import Beams, NBest
from tests.unit.evaluation.evidences import (
    ONE_SIDED,
    TWO_SIDED,
    evidence_of,
    hypothesis,
    random_evidence,
    system,
    without_scores,
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


@pytest.mark.parametrize("settings", [{}, {"workers": 3}, {"whole": True}])
def test_workers_whole_rankings_and_making_it_before_make_no_difference(
    name: str, content: Any, settings: dict[str, Any]
) -> None:
    evidence = random_evidence(**settings)
    replies = [each.replies[:] for sizes in evidence.systems.values() for each in sizes.values()]

    assert made(name, evidence) == content
    assert made(name, evidence) == content
    assert [each.replies for sizes in evidence.systems.values() for each in sizes.values()] == replies


def alike(beams: list[Beams], both: list[Beams]) -> Evidence:
    systems = {each: {4: system(each, beams, 4)} for each in ONE_SIDED}
    return evidence_of({**systems, **{each: {4: system(each, both, 4)} for each in TWO_SIDED}})


def lines(texts: list[list[str]], reference: str) -> tuple[list[Beams], list[Beams]]:
    """Regular beams, and the same twice."""
    regular = [NBest(tuple(hypothesis(text, -1.0) for text in each)) for each in texts]
    one = [Beams(str(number), "hi", (reference,), found) for number, found in enumerate(regular)]
    return one, [replace(line, reverse=line.regular) for line in one]


@pytest.mark.parametrize(
    ("texts", "reference"),
    [
        ([["a b", "a b c d"]], "a b c d"),  # one source
        ([["", ""], [""]], "a b"),  # empty replies
        ([["", ""], [""]], ""),
        ([[], ["a b c d", "a"]], "a b c d"),  # a source for which nothing was found
    ],
)
def test_little_is_enough(name: str, texts: list[list[str]], reference: str) -> None:
    content = made(name, alike(*lines(texts, reference)))

    assert json.loads(json.dumps(content, allow_nan=False)) == content


def without_references(evidence: Evidence) -> dict[str, dict[int, System]]:
    return {
        key: {
            size: replace(each, beams=[replace(line, references=()) for line in each.beams])
            for size, each in sizes.items()
        }
        for key, sizes in evidence.systems.items()
        if key != "oracle"
    }


def texts_alone(evidence: Evidence) -> dict[str, dict[int, System]]:
    """Bidia and random replies, which need no scores."""
    return {
        key: {
            size: replace(each, beams=without_scores(each.beams))
            for size, each in evidence.systems[key].items()
        }
        for key in ("bidia bleu_t", "random")
    }


def only(*names: str) -> Callable[[Evidence], dict[str, Any]]:
    return lambda evidence: {key: evidence.systems[key] for key in names}


@pytest.mark.parametrize(
    ("reduce", "lacking"),
    [
        (without_references, ["headroom", "diversity", "sensitivity"]),
        (texts_alone, ["headroom"]),
        (only(*ONE_SIDED), ["ranks", "sensitivity", "examples"]),
        (only("vbs", "vbs-tuned", "bidia bleu_t"), ["headroom"]),
        (only("vbs"), ["ranks", "headroom", "sensitivity", "examples"]),
    ],
)
def test_what_cannot_be_made_says_why_in_a_sentence_and_the_others_are_made(
    reduce: Callable[[Evidence], dict[str, Any]], lacking: list[str]
) -> None:
    evidence = evidence_of(reduce(random_evidence()), space=None)

    contents, missing = analyse(evidence)

    assert sorted([*contents, *missing]) == sorted(ANALYSES.names())
    assert list(missing) == lacking
    for name, reason in missing.items():
        assert reason.endswith(".")
        assert "\n" not in reason
        with pytest.raises(InputError) as caught:
            analyse(evidence, [name])
        assert str(caught.value) == reason
    for name, content in contents.items():
        assert analyse(evidence, [name]) == ({name: content}, {})
        assert json.loads(json.dumps(content, allow_nan=False)) == content
