"""Two directions, sources and references, out of files of their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.lists import Numbered, fill_in, join_directions, split_texts
from tests.unit.interchange.formats.lists import said

NAMES = ("a", "b")


def lists(direction: Direction, *ids: str, source: str = "", reference: str | None = None) -> list[Numbered]:
    """A list a source; the text says which."""
    beams = [Beams(id_, source, reference) for id_ in ids]
    found = [each.with_hypotheses(direction, NBest((said(f"{direction} {each.id}"),))) for each in beams]
    return list(enumerate(found, start=1))


regular, reverse = partial(lists, Direction.REGULAR), partial(lists, Direction.REVERSE)


def refusal(read: Callable[[], Iterator[Numbered]]) -> str:
    with pytest.raises(InputError) as caught:
        list(read())
    return str(caught.value)


def test_lists_are_joined_by_id_in_the_order_of_the_regular_ones() -> None:
    ids = [str(number) for number in range(30)]
    shuffled = random.Random(0).sample(ids, len(ids))

    found = list(join_directions(regular(*ids), reverse(*shuffled), names=NAMES))

    assert [(number, beams.id) for number, beams in found] == list(enumerate(ids, start=1))
    for _, beams in found:
        texts = (beams.regular.best.text, beams.reverse.best.text)
        assert texts == (f"regular {beams.id}", f"reverse {beams.id}")


def test_files_in_the_same_order_are_read_side_by_side() -> None:
    """So that neither need be kept: of the second file, no more is read than of the first."""
    rest = iter(reverse("x", "y", "z"))

    next(join_directions(regular("x", "y", "z"), rest, names=NAMES))

    assert [beams.id for _, beams in rest] == ["y", "z"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (["x", "y"], ["x"], "b has no source with the id 'y', but a has, on line 2."),
        (["x"], ["x", "y"], "a has no source with the id 'y', but b has, on line 2."),
        (["y"], ["x", "y"], "a has no source with the id 'x', but b has, on line 1."),
        ([], ["x"], "a has no source with the id 'x', but b has, on line 1."),
    ],
)
def test_ids_must_match(first: list[str], second: list[str], message: str) -> None:
    told = refusal(lambda: join_directions(regular(*first), reverse(*second), names=NAMES))

    assert told == f"{message} Both must have the same sources, by id."


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
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
def test_a_list_of_the_wrong_direction_or_of_another_source_is_named(
    first: list[Numbered], second: list[Numbered], message: str
) -> None:
    assert refusal(lambda: join_directions(first, second, names=NAMES)) == message


def test_what_one_file_does_not_know_the_other_may_and_sources_need_not_be_compared() -> None:
    lines = regular("x", reference="r"), reverse("x", source="s", reference="t")
    ((_, beams),) = join_directions(*lines, names=NAMES)
    two = regular("x", source="hi"), reverse("x", source="ho")
    ((_, other),) = join_directions(*two, names=NAMES, compare_sources=False)

    assert (beams.source, beams.reference, other.source) == ("s", "r", "hi")


def test_sources_and_references_are_filled_in_by_order() -> None:
    with_sources = fill_in(regular("x", "y", source="old"), ["a", ""], "source", names=NAMES)
    found = [beams for _, beams in fill_in(with_sources, ["c", "d"], "reference", names=NAMES)]

    assert [(beams.id, beams.source, beams.reference) for beams in found] == [("x", "a", "c"), ("y", "", "d")]


@pytest.mark.parametrize(
    ("lines", "told"),
    [(["a"], "1 source, but a has lists for 2"), (["a"] * 3, "3 sources, but a has lists for 2")],
)
def test_there_must_be_as_many_as_lists(lines: list[str], told: str) -> None:
    message = refusal(lambda: fill_in(regular("x", "y"), lines, "source", names=NAMES))

    assert message == f"b has {told}. There must be one for each of them, in the same order."


def test_words_take_the_place_of_tokens() -> None:
    found = NBest((Hypothesis("Don't!", ("Do@@", "n't!"), -1.0, 3, -0.5),))

    ((_, beams),) = split_texts([(1, Beams("x", "", None, found, found))])

    expected = found.best._replace(tokens=("do", "n't", "!"))
    assert (beams.regular.best, beams.reverse.best) == (expected, expected)
