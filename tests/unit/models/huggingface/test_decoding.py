"""Hugging Face models as a decoder: what is found, and what is chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.huggingface.decoding import HFGenerator, load_hf_decoder, longest_source, padded_sources
from bidibeam.models.huggingface.labels import reverse_labels
from bidibeam.models.huggingface.loading import LoadedModel, load_models, load_pair, prepared_quietly
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies import STRATEGIES
from tests.unit.models.huggingface.folders import SOURCES, write_joint, write_model, write_pair

KINDS = ("bart", "t5", "marian", "gpt2", "llama")
SEARCH = SearchSettings(beam_size=6, max_length=7, stopping="constant", length_penalty=0.0)
SPECIAL = {0, 2, 3}
Pair = dict[Direction, LoadedModel]


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return load_pair(*write_pair(tmp_path_factory.mktemp("pair"), request.param))


def searched(pair: Pair, *, judged: bool = False, **changes: Any) -> list[Beams]:
    settings = replace(SEARCH, **changes)
    generator = HFGenerator(pair, dict.fromkeys(pair, settings), judged=judged)
    return generator.generate([Beams(str(n), text) for n, text in enumerate(SOURCES)])


def logits(loaded: LoadedModel, source: str, written: list[int]) -> torch.Tensor:
    """A model's own opinion of what comes next, from its plain forward pass: (positions, vocabulary)."""
    ids, device = loaded.tokenizer(source).input_ids, loaded.model.device
    if loaded.model.config.is_encoder_decoder:
        decoded = torch.tensor([[2, *written]], device=device)
        with torch.no_grad():
            read = torch.tensor([ids], device=device)
            found = loaded.model(input_ids=read, decoder_input_ids=decoded).logits
        return torch.as_tensor(found[0])
    with torch.no_grad():
        found = loaded.model(input_ids=torch.tensor([[*ids, *written]], device=device)).logits
    return torch.as_tensor(found[0, len(ids) - 1 :])


def near(value: float | None) -> Any:
    return pytest.approx(value, abs=1e-4)


def log_prob(loaded: LoadedModel, source: str, written: list[int]) -> float:
    """Of ids in writing order, one plain forward pass."""
    found = logits(loaded, source, written[:-1]).log_softmax(-1)
    return float(sum(found[step, token] for step, token in enumerate(written)))


def test_hypotheses_have_the_log_probability_that_a_plain_pass_of_the_model_gives(pair: Pair) -> None:
    compared = 0
    for beams in searched(pair):
        for direction, loaded in pair.items():
            for one in beams.of(direction):
                ids = loaded.tokenizer(one.text, add_special_tokens=False).input_ids
                whole = [*ids, 3] if one.finished else ids
                if len(whole) != one.length:  # it wrote special tokens, which text leaves out
                    continue
                written = whole if direction is Direction.REGULAR else reverse_labels(whole, SPECIAL)
                assert one.log_prob == near(log_prob(loaded, beams.source, written))
                compared += 1
    assert compared > 10


def test_the_other_direction_judges_whole_replies(pair: Pair) -> None:
    compared = 0
    for beams in searched(pair, judged=True):
        for direction in Direction:
            judge = pair[direction.other]
            for one in beams.of(direction):
                assert one.other_log_prob is not None
                ids = judge.tokenizer(one.text, add_special_tokens=False).input_ids
                if len(ids) + one.finished != one.length:
                    continue
                whole = [*ids, 3]
                written = whole if direction is Direction.REVERSE else reverse_labels(whole, SPECIAL)
                expected = log_prob(judge, beams.source, written)
                assert one.other_log_prob == near(expected)
                compared += 1
    assert compared > 10


def test_a_batch_finds_what_each_source_finds_alone(pair: Pair) -> None:
    together = searched(pair, judged=True)
    generator = HFGenerator(pair, dict.fromkeys(pair, SEARCH), judged=True)

    for beams in together:
        (alone,) = generator.generate([Beams(beams.id, beams.source)])
        for direction in Direction:
            assert [one.text for one in alone.of(direction)] == [one.text for one in beams.of(direction)]
            for one, other in zip(alone.of(direction), beams.of(direction), strict=True):
                assert one.log_prob == near(other.log_prob)
                assert one.other_log_prob == near(other.other_log_prob)


def test_nothing_is_searched_for_no_source(pair: Pair) -> None:
    assert HFGenerator(pair, dict.fromkeys(pair, SEARCH)).generate([]) == []


@pytest.mark.parametrize("strategy", sorted(STRATEGIES.names()))
def test_every_strategy_answers(pair: Pair, strategy: str) -> None:
    from bidibeam.strategies.settings import StrategySettings

    options = {"length_exponent": 1.0, "word_reward": 0.2} if strategy == "vbs-tuned" else {}
    decoder = load_hf_decoder(models=pair, strategy=StrategySettings(strategy, options), settings=SEARCH)

    answers = list(decoder.answers(Beams(str(n), text, "red cat") for n, text in enumerate(SOURCES)))

    assert len(answers) == len(SOURCES)
    assert all(answer.ranking.entries for answer in answers)
    assert str(decoder.signature).startswith(f"strategy:{strategy}")
    sizes = {direction: max(len(answer.beams.of(direction)) for answer in answers) for direction in Direction}
    both = {Direction.REGULAR: 3, Direction.REVERSE: 3}
    one = {
        "bidia": both,
        "reverse-vbs": {Direction.REGULAR: 0, Direction.REVERSE: 6},
    }.get(strategy, {Direction.REGULAR: 6, Direction.REVERSE: 0})
    assert all(0 < sizes[direction] <= most or sizes[direction] == most for direction, most in one.items())


def test_padding_is_where_the_model_wants_it(pair: Pair) -> None:
    loaded = pair[Direction.REGULAR]

    ids, mask = padded_sources(["red", "blue cat dog"], loaded, [None, None])

    is_encoder = loaded.model.config.is_encoder_decoder
    assert mask[1].all()
    short = mask[0].tolist()
    assert short == sorted(short, reverse=is_encoder)
    assert sum(short) == 1 + is_encoder
    assert ids[0][mask[0] == 0].tolist() == [0, 0]


def test_a_source_without_tokens_is_read_as_a_start(pair: Pair) -> None:
    ids, mask = padded_sources(["", "red"], pair[Direction.REGULAR], [None, None])

    assert mask.sum(1).tolist() == (
        [1, 2] if pair[Direction.REGULAR].model.config.is_encoder_decoder else [1, 1]
    )
    assert ids.shape == mask.shape


def test_long_sources_keep_their_end(tmp_path: Path) -> None:
    loaded = load_models(write_model(tmp_path / "gpt2", "gpt2"))[Direction.REGULAR]
    text = " ".join(["red"] * 99 + ["cat"])

    assert longest_source(loaded, 20) == 44
    assert longest_source(loaded, 20, asked=5) == 5
    ids, mask = padded_sources([text, "red"], loaded, [44, 44])

    assert (ids.shape, int(mask[0].sum())) == ((2, 44), 44)
    assert loaded.tokenizer.decode(ids[0, -2:]) == "red cat"
    (answer,) = load_hf_decoder(models={Direction.REGULAR: loaded}, strategy="vbs").decode([text])
    assert len(answer)


def test_what_training_saw_is_the_longest_source(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "t5", "t5")
    assert longest_source(load_models(folder)[Direction.REGULAR], 20) is None
    (folder / "bidibeam.json").write_text('{"settings": {"max_source_length": 9}}')

    assert longest_source(load_models(folder)[Direction.REGULAR], 20) == 9


def test_the_models_own_rules_are_kept(tmp_path: Path) -> None:
    free = load_models(write_model(tmp_path / "free", "bart"))
    (nbest,) = (beams.regular for beams in searched(free)[:1])
    word = nbest[0].tokens[0]
    taboo = free[Direction.REGULAR].tokenizer.convert_tokens_to_ids(word)

    rules = {"suppress_tokens": [taboo], "min_new_tokens": 3, "forced_bos_token_id": 8}
    bound = load_models(write_model(tmp_path / "bound", "bart", generation=rules))

    first = bound[Direction.REGULAR].tokenizer.convert_ids_to_tokens(8)
    for beams in searched(bound, min_length=1):
        for one in beams.regular:
            assert one.tokens[0] == first != word
            assert word not in one.tokens
            assert one.length >= 4


def test_forbidden_words_of_one_token_need_no_processor(tmp_path: Path) -> None:
    alone: dict[str, Any] = {"bad_words_ids": [[0], [3], [9]], "suppress_tokens": [2]}  # an end stays allowed
    more = {**alone, "bad_words_ids": [*alone["bad_words_ids"], [5, 6, 7, 8, 5, 6]]}
    found = []
    for name, rules in (("alone", alone), ("more", more)):
        models = load_models(write_model(tmp_path / name, "marian", generation=rules))
        ids, mask = padded_sources(SOURCES, models[Direction.REGULAR], [None] * len(SOURCES))
        task = prepared_quietly(models[Direction.REGULAR].model, ids, mask)
        assert (task.rules.others is None) == (name == "alone")
        assert 3 not in task.rules.roles.forbidden
        found.append([list(beams.regular) for beams in searched(models)])

    word = models[Direction.REGULAR].tokenizer.convert_ids_to_tokens(9)
    for one, other in zip(*found, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert not any(word in each.tokens for each in one)


def test_the_larger_least_length_counts(tmp_path: Path) -> None:
    own = load_models(write_model(tmp_path / "own", "bart", generation={"min_new_tokens": 2}))

    for least in (1, 4):
        shortest = min(one.length for beams in searched(own, min_length=least) for one in beams.regular)
        assert shortest > max(least, 2)


def test_unknown_words_and_padding_are_not_written(tmp_path: Path) -> None:
    models = load_models(write_model(tmp_path / "bart", "bart"))
    loaded = models[Direction.REGULAR]
    with torch.no_grad():
        loaded.model.final_logits_bias[0, :2] = 50.0  # padding and the unknown token

    never, allowed = searched(models), searched(models, allow_unknown=True)

    for forbidden, free in zip(never, allowed, strict=True):
        assert all((one.log_prob or 0.0) < -40.0 for one in forbidden.regular)  # a word is that unlikely
        assert (free.regular.best.log_prob or 0.0) > -40.0


def test_a_token_that_ends_replies_may_be_padding_and_unknown_too(tmp_path: Path) -> None:
    models = load_models(write_model(tmp_path / "llama", "llama", seed=1))
    tokenizer = models[Direction.REGULAR].tokenizer
    tokenizer.pad_token = tokenizer.unk_token = tokenizer.eos_token  # as GPT-2's are

    found = searched(models, allow_unknown=False)

    assert any(one.finished for beams in found for one in beams.regular)
    assert [[one.text for one in beams.regular] for beams in searched(models, allow_unknown=True)] == [
        [one.text for one in beams.regular] for beams in found
    ]


def test_a_shared_encoder_reads_a_source_once(tmp_path: Path) -> None:
    folder = write_joint(tmp_path / "joint")
    pair = load_pair(folder)
    calls: list[int] = []
    encoder = pair[Direction.REGULAR].model.get_encoder()
    encoder.register_forward_hook(lambda *_: calls.append(1))

    beams = searched(pair, judged=True)

    assert len(calls) == 1
    halves = {direction: load_models(folder)[direction] for direction in Direction}
    assert [[one.text for one in each.reverse] for each in beams] == [
        [one.text for one in each.reverse]
        for each in searched({Direction.REVERSE: halves[Direction.REVERSE]})
    ]


def test_both_halves_come_from_one_folder(tmp_path: Path) -> None:
    folder = write_joint(tmp_path / "joint")

    replies = [
        [nbest.best.text for nbest in load_hf_decoder(regular, reverse, settings=SEARCH).decode(SOURCES)]
        for regular, reverse in ((folder, None), (folder, folder), (None, folder))
    ]

    assert replies[0] == replies[1] == replies[2]


def test_a_half_goes_with_another_model(tmp_path: Path) -> None:
    folder, (regular, reverse) = write_joint(tmp_path / "joint"), write_pair(tmp_path, "bart")

    first, second = load_pair(folder, reverse), load_pair(regular, folder)

    assert [first[direction].name for direction in Direction] == ["joint", "bart-reverse"]
    assert [second[direction].name for direction in Direction] == ["bart-regular", "joint"]


def test_wmd_uses_embeddings_of_words_or_a_file(tmp_path: Path) -> None:
    from bidibeam.models.huggingface.decoding import space_of

    pair = load_pair(*write_pair(tmp_path, "bart"))
    file = tmp_path / "some.vec"
    file.write_text("2 2\nred 1 0\ncat 0 1\n")

    own, given = space_of(pair, None), space_of(pair, file)

    assert {"red", "!"} <= set(own.words)
    assert "</s>" not in own.words
    loaded = pair[Direction.REGULAR]
    row = loaded.model.get_input_embeddings().weight[loaded.tokenizer.convert_tokens_to_ids("red")]
    assert own.matrix[own.rows["red"]].tolist() == pytest.approx(row.tolist())
    assert set(given.words) == {"red", "cat"}
    decoder = load_hf_decoder(models=pair, strategy="bidia wmd_t", settings=SEARCH)
    assert "vectors:model" in str(decoder.signature)
    assert all(len(nbest) for nbest in decoder.decode(SOURCES))


def test_the_signature_names_both_models_and_their_weights(tmp_path: Path) -> None:
    regular, reverse = write_pair(tmp_path, "bart")
    again = write_model(tmp_path / "again" / "bart-reverse", "bart", Direction.REVERSE, seed=2)
    other = write_model(tmp_path / "other" / "bart-reverse", "bart", Direction.REVERSE, seed=5)
    strict = write_model(
        tmp_path / "strict" / "bart-reverse", "bart", Direction.REVERSE, seed=2, generation={"min_length": 5}
    )

    def facts(folder: Path) -> dict[str, str]:
        return dict(load_hf_decoder(regular, folder, settings=SEARCH).signature.facts)

    first = facts(reverse)
    assert first["regular"].startswith("bart-regular@")
    assert first["reverse"].startswith("bart-reverse@")
    assert facts(again)["reverse"] == first["reverse"]
    assert len({facts(folder)["reverse"] for folder in (reverse, other, strict)}) == 3
    tokens = again / "tokenizer_config.json"
    tokens.write_text(tokens.read_text() + "\n")
    assert facts(again)["reverse"] != first["reverse"]


def test_lengths_of_a_generation_config_make_no_noise(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = {"max_length": 62, "min_length": 3, "num_beams": 4, "early_stopping": True, "length_penalty": 2.0}
    folder = write_model(tmp_path / "bart", "bart", generation=own)
    capfd.readouterr()

    load_hf_decoder(folder, strategy="vbs", settings=SEARCH).decode(SOURCES)

    assert capfd.readouterr().err == ""
