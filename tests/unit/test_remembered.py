from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from weakref import ref

import pytest
import torch

from bidibeam.api import load_decoder, load_run
from bidibeam.data.batching import pad_sources
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.remembered import Remembered, once
from tests.conftest import TINY_MODEL

SEQUENCES: list[list[tuple[int, ...]]] = [[(5, 6, 3), (7, 3)], [(8, 3)]]


class Thing:
    """Something that others can be made of."""


def test_nothing_is_remembered_unless_somebody_does() -> None:
    thing = Thing()

    assert once(Thing, thing) is not once(Thing, thing)


def test_what_is_made_of_the_same_objects_is_made_once() -> None:
    thing, other, remembered = Thing(), Thing(), Remembered()

    with remembered.active():
        made = once(Thing, thing, other)
        assert once(Thing, thing) is not made
        assert once(Thing, other, thing) is not made
        with Remembered().active():
            assert once(Thing, thing, other) is not made
    with remembered.active():
        assert once(Thing, thing, other) is made
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(once, Thing, thing, other).result() is not made
    assert once(Thing, thing, other) is not made


def test_it_lives_as_long_as_whoever_remembers() -> None:
    remembered, thing = Remembered(), Thing()
    with remembered.active():
        made = ref(once(Thing, thing))
    of = ref(thing)
    del thing
    assert made() is not None
    assert of() is not None  # another object would have its number

    del remembered

    assert made() is None
    assert of() is None


def test_a_failure_is_not_remembered() -> None:
    thing = Thing()

    def failing() -> Thing:
        raise ValueError("no")

    with Remembered().active():
        with pytest.raises(ValueError, match="no"):
            once(failing, thing)
        assert once(lambda: thing, thing) is thing


def readers() -> tuple[GRUScorer, GRUScorer, list[int]]:
    """Both directions, and a list that has an entry for each time that the encoder read something."""
    torch.manual_seed(3)
    model, read = BidirectionalModel(TINY_MODEL, 70).eval(), list[int]()
    for encoder in model.encoders:
        encoder.register_forward_hook(lambda *_: read.append(1))
    return GRUScorer(model, Direction.REGULAR), GRUScorer(model, Direction.REVERSE), read


def test_the_other_direction_reads_nothing_again() -> None:
    regular, reverse, read = readers()
    sources = pad_sources([[5, 6], [7]])
    expected = reverse.log_probs(sources, SEQUENCES)
    read.clear()

    with Remembered().active():
        regular.start(sources)
        assert reverse.log_probs(sources, SEQUENCES) == expected
        assert reverse.log_probs(sources, SEQUENCES) == expected

    assert len(read) == 1


def test_what_changes_between_calls_is_seen() -> None:
    regular, reverse, _ = readers()
    with torch.inference_mode():
        sources = pad_sources([[5, 6], [7]])
        before = regular.start(sources).memory, reverse.log_probs(sources, SEQUENCES)
        sources[0, 0] = 9
        assert not torch.equal(regular.start(sources).memory, before[0])
        assert reverse.log_probs(sources, SEQUENCES) != before[1]
    changed = reverse.log_probs(sources, SEQUENCES)
    reverse.embedding.weight.data.mul_(2.0)
    assert reverse.log_probs(sources, SEQUENCES) != changed


@pytest.mark.parametrize(("strategy", "times"), [("vbs", 1), ("bidis", 1), ("bidia", 1)])
def test_a_strategy_reads_each_batch_once(toy_run: object, strategy: str, times: int) -> None:
    run = load_run(toy_run)  # type: ignore[arg-type]
    read: list[int] = []
    for encoder in run.model.encoders:
        encoder.register_forward_hook(lambda *_: read.append(1))
    decoder = load_decoder(run, strategy, batch_size=4)
    read.clear()

    list(decoder.answers([Beams(str(number), "hello there") for number in range(8)]))

    assert len(read) == 2 * times
