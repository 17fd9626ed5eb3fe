"""A run and a strategy's name to a decoder: what is searched and refused, and what makes no difference."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bidibeam import __version__
from bidibeam.api import load_decoder, load_run
from bidibeam.api.tuned import TUNED_FILE, TunedSettings
from bidibeam.data.prepared import PreparedData
from bidibeam.data.tokenization import Tokenizer
from bidibeam.decoding.decoder import Answer, Decoder, ModelGenerator
from bidibeam.errors import InputError, RunError, SettingsError, UnknownNameError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.run import RunModel as Run
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.settings import StrategySettings
from bidibeam.work import counting
from tests.conftest import TINY_MODEL

OPTIONS: dict[str, dict[str, Any]] = {"vbs-tuned": {"length_exponent": 1.0, "word_reward": 0.2}}
CASES = {name: StrategySettings(name, OPTIONS.get(name, {})) for name in STRATEGIES.names()} | {
    "either": StrategySettings("bidia", {"answer": "either", "agreement": "expected"}),
    "wmd_t": StrategySettings("bidia", similarity="wmd_t"),
    "bidis, little": StrategySettings("bidis", {"lambda_": 0.1}),
    "bidis, against": StrategySettings("bidis", {"lambda_": -1.0}),
}
WIDE = SearchSettings(beam_size=8, max_length=9)


@pytest.fixture(scope="module")
def run(toy_run: Path) -> Run:
    return load_run(toy_run)


@pytest.fixture(scope="module")
def unsure(run: Run) -> Run:
    """The same run with weights so small that many replies are likely, and both directions disagree."""
    torch.manual_seed(0)
    model = BidirectionalModel(run.network.settings, run.network.vocabulary_size)
    with torch.no_grad():
        for name, weight in run.network.state_dict().items():
            model.state_dict()[name].copy_(0.6 * weight + 0.1 * torch.randn_like(weight))
    return replace(run, network=model.eval().to(run.device))


@pytest.fixture(scope="module")
def sources(toy_data: PreparedData) -> list[Beams]:
    """The toy test sources with their references."""
    return [
        Beams(str(number), example["source"], (example["reference"],))
        for number, example in enumerate(toy_data.examples("test"))
    ]


def answers(decoder: Decoder, sources: Sequence[Beams]) -> list[Answer]:
    return list(decoder.answers(sources))


def generator(decoder: Decoder) -> ModelGenerator:
    assert isinstance(decoder.generator, ModelGenerator)
    return decoder.generator


@pytest.mark.parametrize("name", ["bidia", "bidis", "vbs", "reverse-vbs", "longest", "oracle"])
def test_a_trained_run_answers_by_every_strategy(run: Run, name: str) -> None:
    decoder = load_decoder(run, name, settings=SearchSettings(beam_size=4, max_length=6))

    found = answers(
        decoder, [Beams("1", "red cat", ("red cat!",)), Beams("2", "blue dog fish", ("blue dog fish!",))]
    )

    if name != "longest":
        assert [answer.text for answer in found] == ["red cat!", "blue dog fish!"]
    needed = decoder.ranker.strategy.requirements.directions
    for answer in found:
        assert all((len(answer.beams.of(direction)) > 0) == (direction in needed) for direction in Direction)


@pytest.mark.parametrize(("beam_size", "sizes"), [(6, (3, 3)), (7, (4, 3))])
def test_the_beam_is_shared_out_and_the_regular_direction_takes_the_larger_half(
    unsure: Run, sources: list[Beams], beam_size: int, sizes: tuple[int, int]
) -> None:
    decoder = load_decoder(unsure, "bidia", settings=SearchSettings(beam_size=beam_size))

    searches = generator(decoder).searches
    assert {direction: settings.beam_size for direction, settings in searches.items()} == dict(
        zip(Direction, sizes, strict=True)
    )
    both = answers(decoder, sources)
    for name, direction, size in zip(("vbs", "reverse-vbs"), Direction, sizes, strict=True):
        alone = answers(load_decoder(unsure, name, settings=SearchSettings(beam_size=size)), sources)
        for one, other in zip(both, alone, strict=True):
            found, expected = one.beams.of(direction), other.beams.of(direction)
            assert len(found) == size
            assert [each.text for each in found] == [each.text for each in expected]
            log_probs = [each.log_prob for each in expected]
            assert [each.log_prob for each in found] == pytest.approx(log_probs, abs=1e-4)


def test_a_run_without_reverse_decoder_is_refused_where_one_is_needed(run: Run) -> None:
    settings = replace(TINY_MODEL, directions=("regular",))
    model = BidirectionalModel(settings, run.network.vocabulary_size).eval()
    one_way = replace(run, network=model)

    for name in ("bidia", "bidis", "reverse-vbs"):
        with pytest.raises(RunError, match=rf"^The strategy {name} needs the reverse .*only: regular"):
            load_decoder(one_way, name)
    (found,) = load_decoder(one_way, "vbs", score_other=True).decode(["red cat"])
    assert all(each.other_log_prob is None for each in found)


@pytest.mark.parametrize("case", CASES)
def test_replies_alone_are_those_of_the_whole_ranking(unsure: Run, sources: list[Beams], case: str) -> None:
    settings = SearchSettings(beam_size=16, max_length=9)
    whole = answers(load_decoder(unsure, CASES[case], settings=settings), sources)

    alone = answers(load_decoder(unsure, CASES[case], settings=settings, replies_only=True), sources)

    assert [answer.text for answer in alone] == [answer.text for answer in whole]
    assert all(len(answer.ranking) == 1 for answer in alone)
    assert any(len(answer.ranking) > 4 for answer in whole)
    assert len({answer.ranking.entries[0].place for answer in whole}) > 1 or "vbs" in case


def test_replies_alone_ask_the_other_direction_for_less(unsure: Run, sources: list[Beams]) -> None:
    settings = SearchSettings(beam_size=16, max_length=9)
    rows = {}
    for replies_only in (False, True):
        decoder = load_decoder(unsure, CASES["bidis, little"], settings=settings, replies_only=replies_only)
        with counting() as work:
            found = answers(decoder, sources)
        rows[replies_only] = work.projected_rows
        asked = [each.other_log_prob is not None for answer in found for each in answer.beams.regular]
        assert all(asked) is not replies_only

    assert rows[True] < rows[False]


@pytest.mark.parametrize("case", ["bidia", "bidis, little", "vbs", "wmd_t"])
def test_whoever_wants_every_opinion_gets_it_replies_only_or_not(unsure: Run, case: str) -> None:
    decoder = load_decoder(unsure, CASES[case], settings=WIDE, replies_only=True, score_other=True)

    (answer,) = answers(decoder, [Beams("1", "red cat")])

    found = [*answer.beams.regular, *answer.beams.reverse]
    assert len(found) == 8
    assert all(each.other_log_prob is not None for each in found)


def test_the_signature_names_strategy_search_weights_and_version(run: Run) -> None:
    decoder = load_decoder(run, "bidia", settings=SearchSettings(beam_size=12, max_length=9))

    assert str(decoder.signature) == (
        "strategy:bidia|similarity:bleu_t|order:4|smoothing:floor|T:4|answer:regular|agreement:closest"
        "|beam_size:12|max_length:9|min_length:1|length_penalty:0.6|length_formula:gnmt|count_end:True"
        f"|stopping:shrinking|unfinished:keep|allow_unknown:False|model:{run.fingerprint}|bidibeam:{__version__}"
    )


def test_word_vectors_are_the_runs_embeddings_or_a_files(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "two.vec"
    path.write_text("3 2\ncat 1.0 0.0\ndog 0.0 1.0\nnever-seen 1.0 1.0\n", encoding="utf-8")
    strategy, given = CASES["wmd_t"], replace(CASES["wmd_t"], vectors=path)
    pieces = Tokenizer.train(["red cat"] * 4, kind="bpe", vocabulary_size=270)

    own: Any = load_decoder(run, strategy).ranker.strategy
    others: Any = load_decoder(run, given).ranker.strategy

    space, token = own.similarity.space, run.tokenizer.encode("cat")[0]
    row = torch.tensor(space.matrix[space.words.index("cat")])
    assert torch.equal(row, run.network.embedding(0).weight[token].detach())
    assert "<unk>" not in space.words
    assert len(space.words) == run.tokenizer.vocabulary_size - 4
    assert sorted(others.similarity.space.words) == ["cat", "dog"]
    with pytest.raises(SettingsError, match="vectors are of words, and this run writes subwords; leave them"):
        load_decoder(replace(run, tokenizer=pieces), given)


def test_a_strategy_is_named_as_tables_name_it(run: Run) -> None:
    named, spelt = (
        load_decoder(run, strategy).signature
        for strategy in (
            "bidia bleu either mean",
            StrategySettings("bidia", {"answer": "either", "agreement": "mean"}, similarity="bleu"),
        )
    )

    assert str(named) == str(spelt)
    assert "|answer:either|agreement:mean|" in str(named)


def test_unknown_names_are_answered_with_the_list(run: Run) -> None:
    for strategy, message in (
        ("beam", r"^Unknown strategy 'beam'"),
        ("bidia ether", r"^Unknown word 'ether' in the system 'bidia ether'. Did you"),
        (StrategySettings(similarity="rouge"), r"^Unknown similarity 'rouge'"),
    ):
        with pytest.raises(UnknownNameError, match=message):
            load_decoder(run, strategy)


def test_what_is_no_text_or_lacks_a_reference_is_refused_in_a_sentence(toy_run: Path) -> None:
    decoder, oracle = load_decoder(toy_run), load_decoder(toy_run, "oracle")

    assert str(decoder.signature).startswith("strategy:bidis|lambda:1|")  # both directions, by default
    with pytest.raises(InputError, match=r"^Source 2 must be a string, not 3\.$"):
        decoder.decode(["red cat", 3])  # type: ignore[list-item]
    assert len(decoder.decode(each for each in ("red cat", "white"))) == 2  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^The oracle chooses by references, and strings have") as error:
        oracle.decode(["red cat"])
    assert "--" not in str(error.value)
    assert [answer.text for answer in oracle.answers([Beams("1", "red cat", ("red cat!",))])] == ["red cat!"]


def test_a_model_is_searched_as_long_as_it_was_tuned_and_not_by_what_was_tuned_for_another(
    toy_run: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(toy_run, tmp_path / "run")
    content = {"format_version": 2, "weights": load_run(folder).fingerprint, "options": {}}
    (folder / TUNED_FILE).write_text(json.dumps({**content, "search": {"max_length": 3}}))

    decoder = load_decoder(folder, "vbs")

    assert "|max_length:3|" in str(decoder.signature)
    assert not decoder.decode(["blue dog fish"])[0].best.finished
    (folder / TUNED_FILE).write_text(json.dumps({**content, "weights": "0123456789ab"}))
    with pytest.raises(SettingsError, match="was tuned for other weights"):
        load_decoder(folder, "vbs", tuned=TunedSettings.at(folder))
