"""Two directions, sources and references, out of files of their own."""

from __future__ import annotations

import random
import re
from functools import partial

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.lists import fill_in, join_directions, split_texts
from tests.unit.interchange.formats.lists import said

NAMES = ("a", "b")
BOTH = "Both must have the same sources, by id."


def lists(direction: Direction, *ids: str, source: str = "", reference: str | None = None) -> list[Beams]:
    """A list a source; the text says which."""
    beams = [
        Beams(id_, source, () if reference is None else (reference,), line=line)
        for line, id_ in enumerate(ids, start=1)
    ]
    return [each.with_hypotheses(direction, NBest((said(f"{direction} {each.id}"),))) for each in beams]


regular, reverse = partial(lists, Direction.REGULAR), partial(lists, Direction.REVERSE)


def test_lists_are_joined_by_id_in_the_order_of_the_regular_ones() -> None:
    ids = [str(number) for number in range(30)]
    shuffled = random.Random(0).sample(ids, len(ids))

    found = list(join_directions(regular(*ids), reverse(*shuffled), names=NAMES))

    assert [(beams.line, beams.id) for beams in found] == list(enumerate(ids, start=1))
    for beams in found:
        texts = (beams.regular.best.text, beams.reverse.best.text)
        assert texts == (f"regular {beams.id}", f"reverse {beams.id}")


def test_files_in_the_same_order_are_read_side_by_side() -> None:
    """So that neither need be kept: of the second file, no more is read than of the first."""
    rest = iter(reverse("x", "y", "z"))

    next(join_directions(regular("x", "y", "z"), rest, names=NAMES))

    assert [beams.id for beams in rest] == ["y", "z"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (regular("x", "y"), reverse("x"), f"b has no source with the id 'y', but a has, on line 2. {BOTH}"),
        (regular("x"), reverse("x", "y"), f"a has no source with the id 'y', but b has, on line 2. {BOTH}"),
        (regular("y"), reverse("x", "y"), f"a has no source with the id 'x', but b has, on line 1. {BOTH}"),
        (regular(), reverse("x"), f"a has no source with the id 'x', but b has, on line 1. {BOTH}"),
        (reverse("x"), reverse("x"), "a, line 1: source 'x' has reverse hypotheses already."),
        (
            regular("x"),
            regular("x"),
            "b, line 1: source 'x' has regular hypotheses, but this file should have reverse ones only.",
        ),
        (
            regular("x", source="hi"),
            reverse("x", source="ho"),
            (
                'a, line 1: the source is the string "hi", but that of b, line 1, with the same id, is the '
                'string "ho". If they belong together, give the sources in a file of their own.'
            ),
        ),
    ],
)
def test_another_id_direction_or_source_is_named(
    first: list[Beams], second: list[Beams], message: str
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        list(join_directions(first, second, names=NAMES))


def test_what_one_file_does_not_know_the_other_may_and_sources_need_not_be_compared() -> None:
    lines = regular("x", reference="r"), reverse("x", source="s", reference="t")
    (beams,) = join_directions(*lines, names=NAMES)
    two = regular("x", source="hi"), reverse("x", source="ho")
    (other,) = join_directions(*two, names=NAMES, compare_sources=False)

    assert (beams.source, beams.reference, other.source) == ("s", "r", "hi")


def test_sources_and_references_are_filled_in_by_order() -> None:
    with_sources = fill_in(regular("x", "y", source="old"), ["a", ""], "source", names=NAMES)
    found = list(fill_in(with_sources, [("c",), ("d",)], "reference", names=NAMES))

    assert [(beams.id, beams.source, beams.reference) for beams in found] == [("x", "a", "c"), ("y", "", "d")]


@pytest.mark.parametrize(("count", "told"), [(1, "1 source"), (3, "3 sources")])
def test_there_must_be_as_many_as_lists(count: int, told: str) -> None:
    message = f"b has {told}, but a has lists for 2. There must be one for each of them, in the same order."
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        list(fill_in(regular("x", "y"), ["a"] * count, "source", names=NAMES))


def test_words_take_the_place_of_tokens() -> None:
    found = NBest((Hypothesis("Don't!", ("Do@@", "n't!"), -1.0, 3, -0.5),))

    (beams,) = split_texts([Beams("x", "", (), found, found)])

    expected = found.best._replace(tokens=("do", "n't", "!"))
    assert (beams.regular.best, beams.reverse.best) == (expected, expected)
