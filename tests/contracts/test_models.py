"""What holds for every kind of model, whatever engine runs it; a new kind has a line in `FOLDERS`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import bidibeam
from bidibeam.api import describe_model, load_decoder
from bidibeam.api.export import export_converted
from bidibeam.data.tokenization import PAD_ID, START_ID, UNKNOWN_ID
from bidibeam.decoding.decoder import ModelGenerator, search_batches
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.models.base import Model
from bidibeam.models.loading import MODELS, find_kind
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.settings import StrategySettings
from tests.conftest import WORDS
from tests.contracts.batches import differences
from tests.unit.models.huggingface.folders import SOURCES, write_joint, write_pair

Folders = tuple[Path, ...]
OPTIONS: dict[str, dict[str, Any]] = {"vbs-tuned": {"length_exponent": 1.0, "word_reward": 0.2}}


def write_converted(folder: Path) -> Folders:
    pytest.importorskip("ctranslate2")
    pair = bidibeam.load(*write_pair(folder, "bart"))
    export_converted(pair, folder / "fast", quantization="float32", overwrite=False)
    return (folder / "fast",)


FOLDERS: dict[str, Callable[[Path], Folders]] = {
    "ctranslate2": write_converted,
    "huggingface, an encoder-decoder": lambda folder: write_pair(folder, "t5"),
    "huggingface, a shared encoder": lambda folder: (write_joint(folder / "joint"),),
    "huggingface, a decoder": lambda folder: write_pair(folder, "gpt2"),
    "huggingface, searched by generate": lambda folder: write_pair(folder, "bloom"),
}
"""What is loaded, by kind; a run comes from a fixture."""


@pytest.fixture(scope="module", params=["run", *FOLDERS])
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folders(case: str, unsure_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return (unsure_run,) if case == "run" else FOLDERS[case](tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model(folders: Folders) -> Model:
    return bidibeam.load(*folders)


def settings_of(model: Model) -> SearchSettings:
    return SearchSettings(beam_size=6, max_length=5, stopping=model.default_stopping)


def near(value: Any) -> Any:
    return pytest.approx(value, abs=1e-4)


def test_every_kind_is_here_and_a_folder_tells_its_kind(case: str, folders: Folders) -> None:
    title, metadata = describe_model(folders[0])

    assert {"run", *(name.partition(",")[0] for name in FOLDERS)} == {*MODELS.names()}
    assert find_kind(folders[0]) == case.partition(",")[0]
    assert title[0].isupper()
    assert json.loads(json.dumps(metadata))


def test_a_model_says_what_it_is_and_the_same_each_time(model: Model, folders: Folders) -> None:
    again = bidibeam.load(*folders)

    assert (model.name, model.path) == (folders[0].name, folders[0])
    assert model.directions == tuple(Direction)
    assert model.fingerprint == again.fingerprint
    assert model.signature == again.signature
    assert all(part in str(model.signature) for part in model.fingerprint.split("+"))
    assert min(model.vocabulary_size, model.batch_size) > 0
    assert json.dumps({**model.data})
    model.check_shared_tokens()
    model.check_settings(settings_of(model))


def test_sources_of_unknown_tokens_are_found(model: Model) -> None:
    assert model.find_unknown(["red cat", "qqq", "red qqq", "qqq xyz", ""]) == [
        False,
        True,
        False,
        True,
        True,
    ]
    assert model.find_unknown([]) == []


@pytest.mark.parametrize("direction", Direction)
def test_lists_are_ranked_and_have_the_log_probabilities_of_the_sequence_scorer(
    model: Model, direction: Direction
) -> None:
    settings, scorer = settings_of(model), model.sequence_scorer(direction)

    lists = model.n_best(direction, SOURCES, settings)

    ids = [[one.ids for one in nbest] for nbest in lists]
    scored = zip(scorer.log_probs(SOURCES, ids), scorer.log_probs(SOURCES, ids, first=1), strict=True)
    assert any(not one.finished for nbest in lists for one in nbest)
    for source, nbest, (values, firsts) in zip(SOURCES, lists, scored, strict=True):
        assert 0 < len(nbest) <= settings.beam_size
        assert [one.log_prob for one in nbest] == near(values)
        ranks = [(not one.finished, -(one.score or 0.0)) for one in nbest]
        assert ranks == sorted(ranks)
        assert len({(one.text, one.finished) for one in nbest}) == len(nbest)
        assert {row[-1] for row in scorer.encode([one.text for one in nbest])} == {scorer.end_id}
        for one, value in zip(nbest, firsts, strict=True):
            assert one.score == near((one.log_prob or 0.0) * (6 / (5 + one.length)) ** 0.6)
            assert one.length == len(one.ids) <= settings.max_length
            assert (one.ids[-1] == scorer.end_id) == one.finished
            words = one.ids[:-1] if one.finished else one.ids
            if len(words) == len(one.tokens):  # no special token stays in place
                first = words[0] if direction is Direction.REGULAR else words[-1]
                assert scorer.log_probs([source], [[(first,)]]) == [[near(value)]]


@pytest.mark.parametrize("direction", Direction)
def test_a_search_of_the_scorer_finds_the_log_probabilities_of_the_sequence_scorer(
    case: str, model: Any, direction: Direction
) -> None:
    scorer, judge = model.scorer(direction), model.sequence_scorer(direction)
    assert (scorer is None) == (case in ("ctranslate2", "huggingface, searched by generate"))
    if scorer is None:
        return
    if case == "run":
        ids = model.encode_sources(SOURCES)
    else:
        ids, _ = model.models[direction].encode_sources(SOURCES, [None] * len(SOURCES))
    roles = VocabularyRoles(START_ID, judge.end_id, frozenset({PAD_ID, START_ID, UNKNOWN_ID}))

    lists = beam_search(scorer, ids, settings_of(model), roles)

    for source, line in zip(SOURCES, lists, strict=True):
        assert line
        ends = [(judge.end_id,) if one.finished else () for one in line]
        found = [(*direction.arrange(one.tokens), *end) for one, end in zip(line, ends, strict=True)]
        assert [one.log_prob for one in line] == near(judge.log_probs([source], [found])[0])


@pytest.mark.parametrize("direction", Direction)
def test_the_other_direction_scores_each_hypothesis_as_a_whole_reply(
    model: Model, direction: Direction
) -> None:
    generator = ModelGenerator(model, {direction: settings_of(model)}, scored=[direction])
    other = model.sequence_scorer(direction.other)

    for beams in generator.generate([Beams(text, text) for text in SOURCES]):
        found = beams.of(direction)
        whole = [one.ids if one.finished else (*one.ids, other.end_id) for one in found]
        assert [one.other_log_prob for one in found] == near(other.log_probs([beams.source], [whole])[0])
        texts = other.log_probs([beams.source], [other.encode([one.text for one in found])])[0]
        for one, ids, value in zip(found, whole, texts, strict=True):
            if other.encode([one.text])[0] == ids:  # which another spelling of the text need not be
                assert one.other_log_prob == near(value)


@pytest.mark.parametrize("direction", Direction)
def test_a_batch_finds_what_each_source_finds_alone(model: Model, direction: Direction) -> None:
    settings = settings_of(model)

    def outline(nbest: NBest) -> list[tuple[Any, ...]]:
        return [(one.text, one.ids, near(one.log_prob)) for one in nbest]

    for source, nbest in zip(SOURCES, model.n_best(direction, SOURCES, settings), strict=True):
        (alone,) = model.n_best(direction, [source], settings)
        assert outline(alone) == outline(nbest)


def test_no_sources_and_no_texts_give_nothing(model: Model) -> None:
    scorer = model.sequence_scorer(Direction.REGULAR)

    assert model.n_best(Direction.REGULAR, [], settings_of(model)) == []
    assert scorer.encode([]) == []
    assert scorer.log_probs([], []) == []
    assert len(load_decoder(model, "vbs").decode([""])) == 1


@pytest.mark.parametrize("strategy", STRATEGIES.names())
def test_every_strategy_answers_from_the_directions_that_it_needs(model: Model, strategy: str) -> None:
    named = StrategySettings(strategy, OPTIONS.get(strategy, {}))
    decoder = load_decoder(model, named, settings=settings_of(model))

    answers = list(decoder.answers(Beams(str(n), text, ("red cat",)) for n, text in enumerate(SOURCES)))

    assert len(answers) == len(SOURCES)
    assert all(answer.ranking.entries for answer in answers)
    assert str(decoder.signature).startswith(f"strategy:{strategy}|")
    sizes = [max(len(answer.beams.of(direction)) for answer in answers) for direction in Direction]
    most = {"bidia": (3, 3), "reverse-vbs": (0, 6)}.get(strategy, (6, 0))
    assert [size > 0 for size in sizes] == [size > 0 for size in most]
    assert all(size <= limit for size, limit in zip(sizes, most, strict=True))


def search_in_batches(model: Model, sources: Sequence[Beams], batch_size: int) -> list[Beams]:
    """Both directions' lists, by source."""
    settings = replace(settings_of(model), beam_size=4)
    generator = ModelGenerator(model, dict.fromkeys(Direction, settings), tuple(Direction))
    found = search_batches(generator, sources, batch_size, then=lambda batch: batch)
    return sorted(found, key=lambda beams: int(beams.id))


def test_the_batch_of_a_source_decides_nothing_but_ties_and_equal_batches_give_equal_numbers(
    model: Model,
) -> None:
    chance = Random(7)
    texts = ["", *(" ".join(chance.choices(WORDS, k=chance.randint(1, 9))) for _ in range(13))]
    sources = [Beams(str(number), text) for number, text in enumerate(texts)]
    alone = search_in_batches(model, sources, 1)

    shuffled = chance.sample(sources, len(sources))
    for batch_size, order in ((3, sources), (7, sources), (7, shuffled), (32, shuffled)):
        found = search_in_batches(model, order, batch_size)
        for one, other in zip(alone, found, strict=True):
            for direction in Direction:
                assert differences(one.of(direction), other.of(direction)) == [], one.source
    assert search_in_batches(model, shuffled, 32) == found
