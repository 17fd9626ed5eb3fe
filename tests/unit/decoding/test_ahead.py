"""Batches on their way at once: the same answers and the same errors, in the same order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import torch

from bidibeam.api import Run, load_decoder, load_run
from bidibeam.api.decoders import load_generator
from bidibeam.data.batching import pad_sources
from bidibeam.data.prepared import PreparedData
from bidibeam.decoding.beams import SearchGenerator
from bidibeam.decoding.decoder import Answer, Decoder, Ranker, searched
from bidibeam.errors import InputError, ScorerError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.search.beam import find
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.likelihood import Vbs
from bidibeam.turns import away, in_line

PATIENCE_S = 20
STRATEGIES = ["vbs", "reverse-vbs", "bidis", "bidia", "longest", "random"]


def numbered(count: int) -> list[Beams]:
    return [Beams(str(number), f"source {number}") for number in range(count)]


@dataclass
class Echo:
    """A generator that answers a source with itself, and notes what it was given; it fails for one source."""

    fails_for: str | None = None
    fails_in_begin: bool = True
    begun: list[list[str]] = field(default_factory=list)

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        return self.begin(beams)()

    def begin(self, beams: Sequence[Beams]) -> Callable[[], list[Beams]]:
        ids = [line.id for line in beams]
        self.begun.append(ids)
        if self.fails_for in ids and self.fails_in_begin:
            raise ScorerError(f"no {self.fails_for}")

        def finish() -> list[Beams]:
            if self.fails_for in ids:
                raise ScorerError(f"no {self.fails_for}")
            return [line.with_hypotheses(Direction.REGULAR, said(line.source)) for line in beams]

        return finish


def said(text: str) -> NBest:
    return NBest((Hypothesis(text, tuple(text.split()), -1.0, 3, -1.0),))


def answered(answers: Iterator[Answer]) -> tuple[list[str], str | None]:
    """The ids that were answered, and the error that came then."""
    ids = []
    try:
        for answer in answers:
            assert answer.text == answer.beams.source
            ids.append(answer.beams.id)
    except (ScorerError, InputError) as error:
        return ids, str(error)
    return ids, None


@pytest.mark.parametrize("sources", [0, 1, 2, 3, 4, 5, 17])
def test_all_are_answered_in_order_whatever_their_number(sources: int) -> None:
    echo = Echo()
    decoder = Decoder(echo, Ranker(Vbs()), batch_size=2, ahead=True)

    assert answered(decoder.answers(numbered(sources))) == ([str(number) for number in range(sources)], None)
    assert sum(echo.begun, []) == [str(number) for number in range(sources)]  # noqa: RUF017


def test_answers_come_two_batches_later() -> None:
    read = []

    def sources() -> Iterator[Beams]:
        for line in numbered(7):
            read.append(line.id)
            yield line

    answers = Decoder(Echo(), Ranker(Vbs()), batch_size=2, ahead=True).answers(sources())

    assert next(answers).beams.id == "0"
    assert read == ["0", "1", "2", "3", "4", "5"]
    assert [answer.beams.id for answer in answers] == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("fails_in_begin", [True, False])
@pytest.mark.parametrize("failing", range(7))
def test_an_error_in_a_search_comes_after_the_answers_before_it(failing: int, fails_in_begin: bool) -> None:
    outcomes = [
        answered(
            Decoder(Echo(str(failing), fails_in_begin), Ranker(Vbs()), batch_size=2, ahead=ahead).answers(
                numbered(7)
            )
        )
        for ahead in (False, True)
    ]

    assert (
        outcomes[0] == outcomes[1] == ([str(number) for number in range(failing // 2 * 2)], f"no {failing}")
    )


@pytest.mark.parametrize("failing", range(7))
def test_an_error_in_what_comes_then_or_in_the_sources_does_too(failing: int) -> None:
    def broken_then(batch: Sequence[Beams]) -> list[Answer]:
        if any(line.id == str(failing) for line in batch):
            raise InputError("broken")
        return Ranker(Vbs()).answers(batch)

    def broken_sources() -> Iterator[Beams]:
        yield from numbered(failing)
        raise InputError("broken")

    for then, sources in ((broken_then, numbered(7)), (Ranker(Vbs()).answers, broken_sources())):
        outcome = answered(searched(Echo(), sources, 2, then=then, ahead=True))

        assert outcome == ([str(number) for number in range(failing // 2 * 2)], "broken")


def test_nothing_is_made_of_a_batch_after_one_that_failed() -> None:
    made = []

    def then(batch: Sequence[Beams]) -> list[Answer]:
        made.append(batch[0].id)
        return Ranker(Vbs()).answers(batch)

    answered(searched(Echo("2", fails_in_begin=False), numbered(7), 2, then=then, ahead=True))

    assert made == ["0"]


class Slow:
    """A generator whose batches wait for each other: none is done before the next one has begun."""

    def __init__(self, batches: int) -> None:
        self.begun = [threading.Event() for _ in range(batches)]
        self.lock = threading.Lock()
        self.in_flight: set[int] = set()
        self.most, self.searching, self.most_searching = 0, 0, 0
        self.threads: dict[int, set[int]] = {}

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        return self.begin(beams)()

    def begin(self, beams: Sequence[Beams]) -> Callable[[], list[Beams]]:
        number = int(beams[0].id)
        with self.lock:
            self.in_flight.add(number)
            self.most = max(self.most, len(self.in_flight))
            self.searching += 1
            self.most_searching = max(self.most_searching, self.searching)
            self.threads[number] = {threading.get_ident()}
        self.begun[number].set()
        time.sleep(0.002)  # whoever would search beside us has time to
        with self.lock:
            self.searching -= 1

        def finish() -> list[Beams]:
            with away():
                assert all(event.wait(PATIENCE_S) for event in self.begun[number + 1 : number + 2])
            self.threads[number].add(threading.get_ident())
            return list(beams)

        return finish

    def then(self, batch: Sequence[Beams]) -> list[str]:
        number = int(batch[0].id)
        with self.lock:
            self.in_flight.remove(number)
            self.threads[number].add(threading.get_ident())
        return [batch[0].id]


def test_three_batches_are_in_flight_and_never_four() -> None:
    slow = Slow(12)

    found = list(searched(slow, numbered(12), 1, then=slow.then, ahead=True))

    assert found == [str(number) for number in range(12)]
    assert 2 <= slow.most <= 3
    assert slow.most_searching == 1
    assert all(len(threads) == 1 for threads in slow.threads.values())  # a batch stays where it began
    assert len(set.union(*slow.threads.values())) == 3
    assert threading.get_ident() not in set.union(*slow.threads.values())


def test_a_reader_who_stops_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    answers = Decoder(Echo(), Ranker(Vbs()), batch_size=1, ahead=True).answers(numbered(9))
    next(answers)

    answers.close()  # type: ignore[attr-defined]

    assert threading.active_count() == before


@pytest.fixture(scope="module")
def run(toy_run: Path) -> Run:
    return load_run(toy_run, device="cpu")  # to the bit; a GPU's streams may round differently


@pytest.fixture(scope="module")
def sources(toy_data: PreparedData) -> list[Beams]:
    texts = [example["source"] for example in toy_data.examples("test")][:30]
    return [Beams(str(number), text) for number, text in enumerate([*texts, "", texts[0]])]


@pytest.mark.parametrize("replies_only", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_answers_the_same(
    run: Run, sources: list[Beams], strategy: str, replies_only: bool
) -> None:
    def answers(*, ahead: bool) -> list[Answer]:
        decoder = load_decoder(
            run, strategy, settings=SearchSettings(beam_size=6), batch_size=3, replies_only=replies_only
        )
        return list(Decoder(decoder.generator, decoder.ranker, batch_size=3, ahead=ahead).answers(sources))

    assert answers(ahead=True) == answers(ahead=False)


def test_two_threads_forget_spellings_together(
    run: Run, sources: list[Beams], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bidibeam.decoding.beams.MOST_SPELLINGS", 2)
    both = (Direction.REGULAR, Direction.REVERSE)
    generator = load_generator(run, both, SearchSettings(beam_size=4), judged=both)

    alone, ahead = (
        list(searched(generator, sources, 2, then=lambda beams: beams, ahead=ahead))
        for ahead in (False, True)
    )

    assert ahead == alone
    assert all(line.regular.hypotheses and line.reverse.hypotheses for line in ahead)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_on_a_gpu_two_streams_answer_what_one_does(
    toy_run: Path, sources: list[Beams], strategy: str
) -> None:
    decoder = load_decoder(load_run(toy_run, device="cuda"), strategy, batch_size=3)
    alone, ahead = (
        list(Decoder(decoder.generator, decoder.ranker, batch_size=3, ahead=ahead).answers(sources * 4))
        for ahead in (False, True)
    )

    assert [answer.text for answer in ahead] == [answer.text for answer in alone]
    for one, other in zip(ahead, alone, strict=True):
        scores = [entry.score for entry in one.ranking]
        assert scores == pytest.approx([entry.score for entry in other.ranking], abs=1e-4)


def test_a_device_searches_for_batches_in_their_order(
    run: Run, sources: list[Beams], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first takes longest to encode."""
    searched_for: list[int] = []
    waits = iter([0.05, 0.02, 0.0])

    def encode_batch(texts: Sequence[str]) -> list[list[int]]:
        time.sleep(next(waits, 0.0))
        return encode(texts)

    def watched(scorer: Any, ids: torch.Tensor, *arguments: Any) -> Any:
        searched_for.append(int(ids[0, 0]))
        return find(scorer, ids, *arguments)

    generator = load_generator(run, (Direction.REGULAR,), SearchSettings(beam_size=2))
    assert isinstance(generator, SearchGenerator)
    encode = generator.tokenizer.encode_batch
    monkeypatch.setattr(generator.tokenizer, "encode_batch", encode_batch)
    monkeypatch.setattr("bidibeam.decoding.beams.find", watched)
    monkeypatch.setattr(SearchGenerator, "_in_line", lambda self: in_line(self._turn))  # as on a GPU

    list(searched(generator, sources, 1, then=lambda beams: beams, ahead=True))

    assert searched_for == [int(pad_sources(encode([line.source]))[0, 0]) for line in sources]
    assert len(set(searched_for)) > 5


@pytest.mark.parametrize("failing", ["encode_batch", "find"])
def test_an_error_in_a_line_for_a_device_comes_after_the_answers_before_it(
    run: Run, sources: list[Beams], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    calls = count()

    def broken(*arguments: Any) -> Any:
        if next(calls) == 4:
            raise ScorerError("broken")
        return whole(*arguments)

    generator = load_generator(run, (Direction.REGULAR,), SearchSettings(beam_size=2))
    assert isinstance(generator, SearchGenerator)
    whole: Callable[..., Any] = find if failing == "find" else generator.tokenizer.encode_batch
    place = "bidibeam.decoding.beams.find" if failing == "find" else None
    if place is None:
        monkeypatch.setattr(generator.tokenizer, "encode_batch", broken)
    else:
        monkeypatch.setattr(place, broken)
    monkeypatch.setattr(SearchGenerator, "_in_line", lambda self: in_line(self._turn))  # as on a GPU

    found = searched(generator, sources, 1, then=lambda beams: beams, ahead=True)

    assert [beams.id for beams in islice(found, 4)] == [line.id for line in sources[:4]]
    with pytest.raises(ScorerError, match="broken"):
        next(found)
    (beams,) = searched(generator, sources[:1], 1, then=lambda beams: beams, ahead=True)
    assert beams.regular.hypotheses  # nobody is left in line


def test_a_reader_who_stops_leaves_nobody_in_line_for_a_device(
    run: Run, sources: list[Beams], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = load_generator(run, (Direction.REGULAR,), SearchSettings(beam_size=2))
    assert isinstance(generator, SearchGenerator)
    monkeypatch.setattr(SearchGenerator, "_in_line", lambda self: in_line(self._turn))  # as on a GPU
    found = searched(generator, sources, 1, then=lambda beams: beams, ahead=True)
    next(found)

    found.close()  # type: ignore[attr-defined]

    assert len(list(searched(generator, sources[:5], 1, then=lambda beams: beams, ahead=True))) == 5


@pytest.mark.parametrize("failing", ["submit", "initializer"])
def test_threads_that_do_not_start_are_an_error(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """And nobody waits for their turn."""
    if failing == "submit":
        begun = count()

        def start(self: threading.Thread) -> None:
            if next(begun) == 1:
                raise RuntimeError("can't start new thread")
            whole(self)

        whole = threading.Thread.start
        monkeypatch.setattr(threading.Thread, "start", start)
    else:
        begun = count()

        def initializer() -> None:
            if next(begun) == 1:
                raise RuntimeError("no stream")

        monkeypatch.setattr(
            "bidibeam.decoding.ahead.ThreadPoolExecutor", partial(ThreadPoolExecutor, initializer=initializer)
        )

    with pytest.raises(RuntimeError):
        list(Decoder(Echo(), Ranker(Vbs()), batch_size=1, ahead=True).answers(numbered(9)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_searches_for_one_batch_after_another(
    toy_run: Path, sources: list[Beams], monkeypatch: pytest.MonkeyPatch
) -> None:
    searching, most = [0], [0]

    def watched(*arguments: Any) -> Any:
        searching[0] += 1
        most[0] = max(most[0], searching[0])
        try:
            return find(*arguments)
        finally:
            searching[0] -= 1

    monkeypatch.setattr("bidibeam.decoding.beams.find", watched)
    decoder = load_decoder(load_run(toy_run, device="cuda"), "bidia", batch_size=3)
    list(Decoder(decoder.generator, decoder.ranker, batch_size=3, ahead=True).answers(sources * 8))

    assert most == [1]
