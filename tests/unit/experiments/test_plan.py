"""Which beams are searched, and who gets which."""

from __future__ import annotations

from pathlib import Path

import pytest

from bidibeam.experiments.plan import BeamFiles, plan_searches
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange import nbest
from bidibeam.protocols import Requirements
from bidibeam.strategies.settings import strategy_named

REGULAR, REVERSE = Direction.REGULAR, Direction.REVERSE
BOTH = (REGULAR, REVERSE)


@pytest.mark.parametrize(
    ("directions", "beam_size", "expected"),
    [
        ((REGULAR,), 1, {REGULAR: 1}),
        (BOTH, 1, None),
        (BOTH, 2, {REGULAR: 1, REVERSE: 1}),
        (BOTH, 5, {REGULAR: 3, REVERSE: 2}),
        (BOTH, 50, {REGULAR: 25, REVERSE: 25}),
    ],
)
def test_the_regular_beam_gets_the_larger_half(
    directions: tuple[Direction, ...], beam_size: int, expected: dict[Direction, int] | None
) -> None:
    assert Requirements(directions).split(beam_size) == expected


def test_every_strategy_finds_what_it_needs_and_no_beam_is_searched_twice() -> None:
    requirements = [strategy_named(name).requirements for name in ("vbs", "bidis", "bidia bleu_t")]

    assert plan_searches(requirements, [1, 5, 10]) == {
        1: ((REGULAR,), (REGULAR,)),
        2: ((REVERSE,), ()),
        3: ((REGULAR,), ()),
        5: (BOTH, (REGULAR,)),  # vbs and bidis at 5, bidia at 10
        10: ((REGULAR,), (REGULAR,)),
    }
    unscored = [strategy_named(name).requirements for name in ("vbs", "reverse-vbs")]
    assert plan_searches(unscored, [4]) == {4: (BOTH, ())}


def beams(size: int, *directions: Direction) -> Beams:
    found = Beams("s", "hello", ("hi",))
    for direction in directions:
        texts = [f"{direction} {size}.{rank}" for rank in range(size)]
        listed = NBest(tuple(Hypothesis(text, tuple(text.split()), -1.0, 3, -0.5) for text in texts))
        found = found.with_hypotheses(direction, listed)
    return found


def test_a_system_gets_its_halves_from_the_files_that_have_them(tmp_path: Path) -> None:
    paths = {size: tmp_path / f"{size}.jsonl.gz" for size in (2, 3)}
    nbest.write([beams(2, REVERSE)], paths[2])
    nbest.write([beams(3, *BOTH)], paths[3])
    files = BeamFiles(paths)

    (line,) = files.for_system(Requirements(BOTH), 5) or []
    (alone,) = files.for_system(Requirements((REGULAR,)), 3) or []

    assert [each.text for each in line.regular] == ["regular 3.0", "regular 3.1", "regular 3.2"]
    assert [each.text for each in line.reverse] == ["reverse 2.0", "reverse 2.1"]
    assert (line.id, line.source, line.references) == ("s", "hello", ("hi",))
    assert len(alone.regular) == 3
    assert not alone.reverse  # it has no business with them
    assert files.for_system(Requirements(BOTH), 1) is None
