"""The reply alone, whether ranking in threads pays, and compiling beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bidibeam.hypotheses import Beams, Direction, Ranked, Ranking
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.similarities.bleu import BleuT
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.choosing import choose, choose_many, is_parallel, warm_up
from bidibeam.strategies.likelihood import Vbs
from bidibeam.work import counting
from tests.unit.strategies.lists import Table, beams, hypothesis, texts


@dataclass
class Shortcut:
    """A strategy that notes how it was asked, and is worth no ranking."""

    best: Ranked | None
    requirements: Requirements = field(default_factory=lambda: Requirements((Direction.REGULAR,)))
    signature: Signature = field(default_factory=lambda: Signature((("strategy", "shortcut"),)))

    def rank(self, beams: Beams) -> Ranking:
        raise AssertionError(f"asked to rank all of {beams}")

    def choose(self, beams: Beams) -> Ranked | None:  # noqa: ARG002
        return self.best


class BatchShortcut(Shortcut):
    """One that wants all sources at once, and answers those that have hypotheses."""

    def choose(self, beams: Beams) -> Ranked | None:
        raise AssertionError(f"asked for {beams} alone")

    def choose_many(self, batch: Sequence[Beams]) -> list[Ranked | None]:
        return [self.best if len(each.regular) else None for each in batch]


def test_the_reply_alone_is_the_first_of_the_ranking() -> None:
    found = beams(hypothesis("b", -2.0), hypothesis("a", -1.0))

    assert choose(Vbs(), found).entries == Vbs().rank(found).entries[:1]
    assert texts(choose(Vbs(), found)) == ["a"]
    assert choose(Vbs(), beams()) == Ranking()


def test_a_shortcut_is_taken() -> None:
    best = Ranked(hypothesis("a"), Direction.REGULAR, 0, 1.0)

    assert choose(Shortcut(best), beams("a")) == Ranking((best,))
    assert choose(Shortcut(None), beams("a")) == Ranking()


def test_many_replies_are_each_the_one_alone() -> None:
    found = [beams(hypothesis("b", -2.0), hypothesis("a", -1.0)), beams(), beams("c")]

    assert choose_many(Vbs(), found) == [choose(Vbs(), each) for each in found]
    assert choose_many(Vbs(), []) == []


def test_a_shortcut_for_many_is_taken() -> None:
    best = Ranked(hypothesis("a"), Direction.REGULAR, 0, 1.0)

    assert choose_many(BatchShortcut(best), [beams("a"), beams()]) == [Ranking((best,)), Ranking()]
    assert choose_many(Shortcut(best), [beams("a")]) == [Ranking((best,))]


def test_threads_pay_where_the_similarity_says_so() -> None:
    assert is_parallel(BidiA(BleuT()))
    assert not is_parallel(BidiA(Table({})))
    assert not is_parallel(Vbs())


def test_warming_up_ranks_something_with_our_own_and_leaves_others_alone() -> None:
    table = Table({})

    with counting() as work:
        warm_up(BidiA(table))
        warm_up(Vbs())
        assert work.compared_pairs == 0
        warm_up(BidiA(BleuT()))

    assert table.asked == []
    assert work.compared_pairs == 2 * 2 * 4  # a whole ranking, a reply alone, and two at once


def test_warming_up_gives_every_need() -> None:
    warm_up(BidiA(BleuT(), agreement="expected"))
    warm_up(BidiA(BleuT(), answer="either"))
