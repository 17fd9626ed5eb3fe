"""Beams plus a choice: streamed batch by batch, ranked in threads, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bidibeam import load, load_decoder
from bidibeam.decoding.decoder import Decoder, Ranker
from bidibeam.errors import ScorerError, SimilarityError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranking
from bidibeam.similarities.custom import FunctionSimilarity
from bidibeam.strategies.baselines import Vbs
from bidibeam.strategies.bidia import BidiA

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix


def hypothesis(text: str, score: float = -1.0) -> Hypothesis:
    return Hypothesis(text, tuple(text.split()), score, 3, score)


@dataclass
class Listed:
    """A generator that takes every source's hypotheses from a list, and notes the batches it was given."""

    hypotheses: NBest
    batches: list[int] = field(default_factory=list)

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        self.batches.append(len(beams))
        if any(line.source == "broken" for line in beams):
            raise ScorerError("broken")
        return [line.with_hypotheses(Direction.REGULAR, self.hypotheses) for line in beams]


LISTED = NBest((hypothesis("worse", -2.0), hypothesis("better", -1.0)))


def test_a_decoder_shows_its_signature_and_no_weights(toy_run: Path) -> None:
    decoder = load_decoder(load(toy_run), "vbs")

    assert repr(decoder) == f"<Decoder {decoder.signature}>"
    assert "strategy:vbs|" in repr(decoder)


def test_a_decoder_streams_batch_by_batch() -> None:
    listed = Listed(LISTED)
    decoder = Decoder(listed, Ranker(Vbs()), batch_size=2)
    read = []

    def sources() -> Iterator[Beams]:
        for number in range(5):
            read.append(number)
            yield Beams(str(number), "x")

    answers = decoder.answers(sources())
    first = next(answers)

    assert first.text == "better"
    assert read == [0, 1]  # no more than the first batch needs
    assert [answer.beams.id for answer in answers] == ["1", "2", "3", "4"]
    assert listed.batches == [2, 2, 1]


@pytest.mark.parametrize("prefetch", [False, True])
def test_answers_and_errors_come_in_order_with_and_without_a_prefetch_thread(prefetch: bool) -> None:
    decoder = Decoder(Listed(LISTED), Ranker(Vbs()), batch_size=2, prefetch=prefetch)
    sources = [Beams(str(number), "broken" if number == 5 else "x") for number in range(8)]
    answered: list[str] = []

    with pytest.raises(ScorerError, match="broken"):
        answered.extend(answer.beams.id for answer in decoder.answers(sources))

    assert answered == ["0", "1", "2", "3"]
    assert len(list(decoder.answers(sources[:5]))) == 5
    assert list(decoder.answers([])) == []


def test_a_prefetch_thread_searches_one_batch_ahead() -> None:
    listed = Listed(LISTED)
    answers = Decoder(listed, Ranker(Vbs()), batch_size=1, prefetch=True).answers(
        Beams(str(number), "x") for number in range(5)
    )

    next(answers)
    next(answers)

    assert len(listed.batches) <= 3
    answers.close()  # type: ignore[attr-defined]
    assert len(listed.batches) <= 3


@pytest.mark.parametrize("replies_only", [False, True])
def test_every_source_gets_its_hypotheses_the_reply_first_or_nothing_where_nothing_was_found(
    replies_only: bool,
) -> None:
    decoder = Decoder(Listed(LISTED), Ranker(Vbs()))
    assert [[each.text for each in nbest] for nbest in decoder.decode(["x", "y"])] == [
        ["better", "worse"]
    ] * 2
    assert str(decoder.signature) == ""

    nothing = Decoder(Listed(NBest()), Ranker(Vbs(), replies_only=replies_only))
    (answer,) = nothing.answers([Beams("1", "x")])

    assert (answer.text, answer.ranking) == ("", Ranking())


class Watched:
    """Which threads compared, all of them waiting for each other, as many as there should be."""

    def __init__(self, together: int, *, is_parallel: bool = True) -> None:
        self.is_parallel = is_parallel
        self.barrier = threading.Barrier(together)
        self.threads: set[int] = set()

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        self.barrier.wait(timeout=20)
        self.threads.add(threading.get_ident())
        return np.array([[float(len(one.text + other.text)) for other in references] for one in hypotheses])


def pairs(count: int) -> list[Beams]:
    lists = [
        (NBest((hypothesis("a"), hypothesis(f"b{i}"))), NBest((hypothesis("c" * i),))) for i in range(count)
    ]
    return [Beams(str(number), "x", (), *both) for number, both in enumerate(lists)]


def test_several_threads_share_a_batch_and_keep_its_order() -> None:
    alone = Ranker(BidiA(Watched(1))).answers(pairs(8))
    watched = Watched(4)

    shared = Ranker(BidiA(watched), workers=4).answers(pairs(8))

    assert len(watched.threads) == 4
    assert shared == alone
    outlines = [(each.beams.id, each.text, each.ranking.entries[0].score) for each in shared]
    assert outlines == [(str(number), f"b{number}", 2.0 + number) for number in range(8)]


@pytest.mark.parametrize(("workers", "sources"), [(3, 7), (4, 1), (8, 5), (2, 0)])
def test_any_number_of_workers_answers_any_number_of_sources(workers: int, sources: int) -> None:
    answers = Ranker(BidiA(Watched(1)), workers=workers).answers(pairs(sources))

    assert [answer.beams.id for answer in answers] == [str(number) for number in range(sources)]


def test_a_similarity_that_does_not_say_that_it_is_parallel_stays_in_one_thread() -> None:
    watched = Watched(1, is_parallel=False)

    Ranker(BidiA(watched), workers=4).answers(pairs(8))

    assert watched.threads == {threading.get_ident()}


def test_a_failure_in_a_thread_is_the_callers() -> None:
    def broken(*_: Sequence[Hypothesis]) -> Matrix:
        raise ZeroDivisionError("no")

    similarity = FunctionSimilarity(broken, "broken", is_parallel=True)

    with pytest.raises(SimilarityError, match="The similarity 'broken' failed with ZeroDivisionError: no"):
        Ranker(BidiA(similarity), workers=2).answers(pairs(4))
