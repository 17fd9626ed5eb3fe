"""What a list from elsewhere lacks is named: which field, of which source, in which place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.protocols import Requirements
from bidibeam.strategies.ranking import check_requirements, ranking_by
from tests.unit.strategies.lists import beams, hypothesis, texts

BOTH = (Direction.REGULAR, Direction.REVERSE)
FULL = beams(
    hypothesis("a", other=-1.0), hypothesis("b", other=-1.0), reverse=[hypothesis("c", other=-1.0)], name="s7"
)
ALL = Requirements(BOTH, log_prob=True, score=True, other_weight=0.0)


def message(found: Beams, requirements: Requirements) -> str:
    with pytest.raises(InputError) as caught:
        check_requirements(found, requirements, "mine")
    return str(caught.value)


def test_beams_that_have_everything_pass() -> None:
    check_requirements(FULL, ALL, "mine")
    check_requirements(replace(FULL, reference="r"), replace(ALL, reference=True), "mine")
    check_requirements(replace(FULL, reference=""), replace(ALL, reference=True), "mine")


def test_what_is_not_needed_may_be_missing() -> None:
    bare = hypothesis("a")._replace(log_prob=None, score=None)

    check_requirements(beams(bare), Requirements((Direction.REGULAR,)), "mine")
    check_requirements(beams(reverse=[bare]), Requirements((Direction.REVERSE,)), "mine")


@pytest.mark.parametrize("direction", list(Direction))
def test_a_missing_beam_is_named(direction: Direction) -> None:
    emptied: dict[str, Any] = {direction.value: beams().regular}

    assert message(replace(FULL, **emptied), Requirements(BOTH)) == (
        f"source 's7' has no {direction.value} hypotheses, and mine needs them; add a list "
        f'"{direction.value}", or choose another strategy.'
    )
    check_requirements(replace(FULL, **emptied), Requirements((direction.other,)), "mine")


@pytest.mark.parametrize(
    ("field", "remedy"),
    [
        ("log_prob", "`bidibeam score FILE --model MODEL` adds it."),
        (
            "score",
            "`bidibeam score FILE --model MODEL` adds it, or choose a strategy without, such as longest.",
        ),
        (
            "other_log_prob",
            (
                "`bidibeam decode --n-best` writes it for a model of both directions, and `bidibeam score "
                "FILE --model REVERSE_MODEL` adds it."
            ),
        ),
    ],
)
def test_a_missing_number_is_named_with_its_place(field: str, remedy: str) -> None:
    lacking: dict[str, Any] = {field: None}
    first, second = FULL.regular.hypotheses
    in_regular = replace(FULL, regular=beams(first, second._replace(**lacking)).regular)
    in_reverse = replace(FULL, reverse=beams(FULL.reverse.best._replace(**lacking)).regular)

    end = f'has no "{field}", and mine needs it; {remedy}'
    assert message(in_regular, ALL) == f"source 's7', regular[1] {end}"
    assert message(in_reverse, ALL) == f"source 's7', reverse[0] {end}"
    check_requirements(in_reverse, replace(ALL, directions=(Direction.REGULAR,)), "mine")


def test_a_missing_reference_is_named() -> None:
    assert message(FULL, Requirements(BOTH, reference=True)) == (
        "source 's7' has no \"reference\", and mine chooses by it; add one, or choose another strategy."
    )


def test_a_beam_by_any_number() -> None:
    found = beams("bb", hypothesis("dddd", finished=False), "a", "cc")

    ranking = ranking_by(found, Direction.REGULAR, lambda each: float(len(each.text)))

    assert texts(ranking) == ["bb", "cc", "a", "dddd"]
    assert [entry.place for entry in ranking] == [0, 3, 2, 1]
    assert len(ranking_by(found, Direction.REVERSE, lambda _: 0.0)) == 0


def test_a_score_that_is_no_normalised_log_probability_is_found_beforehand() -> None:
    odd = hypothesis("a", other=-1.0)._replace(score=0.5)

    told = message(beams(odd), replace(ALL, directions=BOTH[:1]))

    assert told.startswith("The hypothesis 'a' has the \"score\" 0.5")
