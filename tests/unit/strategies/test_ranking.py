"""What a list lacks is named; the reply alone; many sources in threads; compiling beforehand."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Ranked, Ranking
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.similarities.bleu import BleuT
from bidibeam.strategies.baselines import Vbs
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.ranking import (
    check_requirements,
    choose,
    is_parallel,
    map_in_threads,
    rank_all,
    warm_up,
)
from bidibeam.work import counting
from tests.unit.strategies.lists import Table, beams, hypothesis, texts

BOTH = (Direction.REGULAR, Direction.REVERSE)
FULL = beams(
    hypothesis("a", other=-1.0), hypothesis("b", other=-1.0), reverse=[hypothesis("c", other=-1.0)], name="s7"
)
ALL = Requirements(BOTH, log_prob=True, score=True, other_weight=0.0)


def message(found: Beams, requirements: Requirements) -> str:
    with pytest.raises(InputError) as caught:
        check_requirements(found, requirements, "mine")
    return str(caught.value)


def test_a_missing_reference_and_an_impossible_score_are_named() -> None:
    assert message(FULL, Requirements(BOTH, reference=True)) == (
        "source 's7' has no \"reference\", and mine chooses by it; add one, or choose another strategy."
    )
    odd = hypothesis("a", other=-1.0)._replace(score=0.5)
    assert message(beams(odd), replace(ALL, directions=BOTH[:1])).startswith(
        "The hypothesis 'a' has the \"score\" 0.5"
    )


@dataclass
class Shortcut:
    """A strategy that has a reply and no ranking."""

    best: Ranked | None
    requirements: Requirements = field(default_factory=lambda: Requirements((Direction.REGULAR,)))
    signature: Signature = field(default_factory=lambda: Signature((("strategy", "shortcut"),)))

    def rank(self, beams: Beams) -> Ranking:
        raise AssertionError(f"asked to rank all of {beams}")

    def choose(self, beams: Beams) -> Ranked | None:  # noqa: ARG002
        return self.best


def test_the_reply_alone_is_the_first_of_the_ranking_or_what_a_shortcut_finds() -> None:
    found = beams(hypothesis("b", -2.0), hypothesis("a", -1.0))
    best = Ranked(hypothesis("a"), Direction.REGULAR, 0, 1.0)

    assert choose(Vbs(), found).entries == Vbs().rank(found).entries[:1]
    assert texts(choose(Vbs(), found)) == ["a"]
    assert choose(Vbs(), beams()) == Ranking()
    assert choose(Shortcut(best), beams("a")) == Ranking((best,))
    assert choose(Shortcut(None), beams("a")) == Ranking()


def test_threads_work_at_once_where_the_similarity_allows_them_and_errors_come_through() -> None:
    meeting = threading.Barrier(2, timeout=10)
    batch = [beams(str(n)) for n in range(2)]

    assert len(map_in_threads(lambda _: meeting.wait(), batch, 2)) == 2
    assert is_parallel(BidiA(BleuT()))
    assert not is_parallel(BidiA(Table({})))
    assert not is_parallel(Vbs())
    with pytest.raises(InputError, match="has no"):
        map_in_threads(lambda found: check_requirements(found, ALL, "mine"), batch, 2)


def test_warming_up_ranks_something_with_our_own_and_leaves_others_alone() -> None:
    table = Table({})

    with counting() as work:
        warm_up(BidiA(table))
        warm_up(Vbs())
        assert work.compared_pairs == 0
        warm_up(BidiA(BleuT(), answer="either", agreement="expected"))

    assert table.asked == []
    assert work.compared_pairs > 0


def test_a_similarity_that_allows_no_threads_is_called_from_this_one() -> None:
    callers = set()

    class Watched(Table):
        def pairwise(self, judged: Any, others: Any) -> Any:
            callers.add(threading.current_thread())
            return super().pairwise(judged, others)

    rank_all(BidiA(Watched({})), [beams("a", reverse=["b"])] * 50, workers=4)

    assert callers == {threading.current_thread()}
