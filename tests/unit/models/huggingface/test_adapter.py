"""Hugging Face models as a `Model`: lists, scores, limits and signatures, by our search or by `generate`."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from bidibeam.api.decoders import load_decoder
from bidibeam.errors import RunError, SettingsError
from bidibeam.hf import HFGenerator, load_hf_decoder, load_models, load_pair, reverse_labels
from bidibeam.hypotheses import Beams, Direction, Hypothesis
from bidibeam.models.huggingface.adapter import HuggingFaceModel
from bidibeam.models.huggingface.configs import HuggingFaceFolder
from bidibeam.models.huggingface.directional import DirectionalModel
from bidibeam.models.huggingface.labels import arrange_ids
from bidibeam.models.loading import load
from bidibeam.models.n_best import merge_texts
from bidibeam.search.settings import SearchSettings
from tests.unit.models.huggingface.folders import SOURCES, write_joint, write_model, write_pair

KINDS = ("bart", "t5", "gpt2", "llama")
SEARCH = SearchSettings(beam_size=6, max_length=7, stopping="constant", length_penalty=0.0)
SPECIAL = {0, 2, 3}


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HuggingFaceModel:
    return HuggingFaceModel.load(*write_pair(tmp_path_factory.mktemp("pair"), request.param))


def searched(model: HuggingFaceModel, *, judged: bool = False, **changes: Any) -> list[Beams]:
    """All directions' hypotheses of the sources."""
    sizes = dict.fromkeys(model.directions, replace(SEARCH, **changes))
    generator = HFGenerator(model.models, sizes, judged=judged)
    return generator.generate([Beams(str(n), text) for n, text in enumerate(SOURCES)])


def log_prob(loaded: DirectionalModel, source: str, reply: tuple[int, ...]) -> float:
    """Of ids in reading order, by one plain forward pass."""
    written = reply if loaded.direction is Direction.REGULAR else reverse_labels(reply, SPECIAL)
    ids, model = loaded.tokenizer(source).input_ids, loaded.model
    with torch.no_grad(), model.device:
        if model.config.is_encoder_decoder:
            decoded = torch.tensor([[2, *written[:-1]]])
            logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=decoded).logits[0]
        else:
            logits = model(input_ids=torch.tensor([[*ids, *written[:-1]]])).logits[0, len(ids) - 1 :]
    found = logits.log_softmax(-1)
    return float(sum(found[step, token] for step, token in enumerate(written)))


def near(value: Any) -> Any:
    return pytest.approx(value, abs=1e-4)


def test_hypotheses_have_the_log_probabilities_that_plain_passes_give(pair: HuggingFaceModel) -> None:
    for beams in searched(pair, judged=True):
        for direction, loaded in pair.models.items():
            for one in beams.of(direction):
                assert one.finished == (one.ids[-1] == 3)
                assert one.log_prob == near(log_prob(loaded, beams.source, one.ids))
                whole = one.ids if one.finished else (*one.ids, 3)
                other = log_prob(pair.models[direction.other], beams.source, whole)
                assert one.other_log_prob == near(other)


def test_padding_is_where_the_model_wants_it(pair: HuggingFaceModel) -> None:
    loaded = pair.models[Direction.REGULAR]
    is_encoder = loaded.model.config.is_encoder_decoder

    ids, mask = loaded.encode_sources(["red", "blue cat dog"], [None, None])
    _, empty = loaded.encode_sources(["", "red"], [None, None])  # read as a start

    assert mask[1].all()
    short = mask[0].tolist()
    assert short == sorted(short, reverse=is_encoder)
    assert sum(short) == 1 + is_encoder
    assert ids[0][mask[0] == 0].tolist() == [0, 0]
    assert empty.sum(1).tolist() == ([1, 2] if is_encoder else [1, 1])


def test_long_sources_keep_their_end(tmp_path: Path) -> None:
    loaded = load_models(write_model(tmp_path / "gpt2", "gpt2"))[Direction.REGULAR]
    text = " ".join(["red"] * 99 + ["cat"])

    assert loaded.find_source_limit(20) == 44
    assert loaded.find_source_limit(20, asked=5) == 5
    ids, mask = loaded.encode_sources([text, "red"], [44, 44])

    assert (ids.shape, int(mask[0].sum())) == ((2, 44), 44)
    assert loaded.tokenizer.decode(ids[0, -2:]) == "red cat"
    (answer,) = load_hf_decoder(models={Direction.REGULAR: loaded}, strategy="vbs").decode([text])
    assert len(answer)
    scorer = HuggingFaceModel({Direction.REGULAR: loaded}).sequence_scorer(Direction.REGULAR)
    replies: list[list[tuple[int, ...]]] = [[(5,) * 60], [(5,)]]  # the one leaves little room for a prompt
    together = scorer.log_probs([text, text], replies)
    assert together == [scorer.log_probs([text], [line])[0] for line in replies]


def test_what_training_saw_is_the_longest_source_and_with_an_end_the_longest_reply(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "t5", "t5")
    assert load(folder).limits.max_source_length is None
    (folder / "bidibeam.json").write_text(
        '{"settings": {"max_source_length": 9}, "data": {"settings": {"max_response_length": 7}}}'
    )

    model = load(folder)

    assert (model.limits.max_source_length, model.limits.max_length) == (9, 8)
    assert load_models(folder)[Direction.REGULAR].find_source_limit(20) == 9
    assert model.data == {"settings": {"max_response_length": 7}}
    (folder / "bidibeam.json").write_text(
        '{"settings": {"max_response_length": 7}, "data": {"settings": {"max_response_length": 7}}}'
    )
    assert (
        load(folder).limits.max_length == 7
    )  # its training counted the end, and its positions may be no more


def test_the_models_own_constraints_are_followed(tmp_path: Path) -> None:
    free = HuggingFaceModel.load(write_model(tmp_path / "free", "bart"))
    word = searched(free)[0].regular[0].tokens[0]
    taboo = free.tokenizer.convert_tokens_to_ids(word)
    rules = {"suppress_tokens": [taboo], "min_new_tokens": 3, "forced_bos_token_id": 8}
    bound = HuggingFaceModel.load(write_model(tmp_path / "bound", "bart", generation=rules))

    first = bound.tokenizer.convert_ids_to_tokens(8)
    for least in (1, 4):  # the larger least length counts
        for beams in searched(bound, min_length=least):
            for one in beams.regular:
                assert one.tokens[0] == first != word
                assert word not in one.tokens
                assert one.length > max(least, 3)


def test_unknown_words_and_padding_are_not_written(tmp_path: Path) -> None:
    model = HuggingFaceModel.load(write_model(tmp_path / "bart", "bart"))
    with torch.no_grad():
        model.models[Direction.REGULAR].model.final_logits_bias[0, :2] = 50.0  # padding and the unknown token

    never, allowed = searched(model), searched(model, allow_unknown=True)

    for forbidden, free in zip(never, allowed, strict=True):
        assert all((one.log_prob or 0.0) < -40.0 for one in forbidden.regular)  # a word is that unlikely
        assert (free.regular.best.log_prob or 0.0) > -40.0


def test_a_token_that_ends_replies_may_be_padding_and_unknown_too(tmp_path: Path) -> None:
    model = HuggingFaceModel.load(write_model(tmp_path / "llama", "llama", seed=1))
    tokenizer = model.tokenizer
    tokenizer.pad_token = tokenizer.unk_token = tokenizer.eos_token  # as GPT-2's are

    found = searched(model, allow_unknown=False)

    assert any(one.finished for beams in found for one in beams.regular)
    assert [[one.text for one in beams.regular] for beams in searched(model, allow_unknown=True)] == [
        [one.text for one in beams.regular] for beams in found
    ]


def test_halves_come_from_one_folder_and_go_with_other_models(tmp_path: Path) -> None:
    folder, (regular, reverse) = write_joint(tmp_path / "joint"), write_pair(tmp_path, "bart")

    replies = [
        [nbest.best.text for nbest in load_hf_decoder(first, second, settings=SEARCH).decode(SOURCES)]
        for first, second in ((folder, None), (folder, folder), (None, folder))
    ]
    names = [
        [models[direction].name for direction in Direction]
        for models in (load_pair(folder, reverse), load_pair(regular, folder))
    ]

    assert replies[0] == replies[1] == replies[2]
    assert names == [["joint", "bart-reverse"], ["bart-regular", "joint"]]


def test_wmd_uses_embeddings_of_words_or_a_file(tmp_path: Path) -> None:
    pair = HuggingFaceModel.load(*write_pair(tmp_path, "bart"))
    file = tmp_path / "some.vec"
    file.write_text("2 2\nred 1 0\ncat 0 1\n")

    own, given = pair.word_vectors(), pair.word_vectors(file)

    assert {"red", "!"} <= set(own.words)
    assert "</s>" not in own.words
    loaded = pair.models[Direction.REGULAR]
    row = loaded.model.get_input_embeddings().weight[loaded.tokenizer.convert_tokens_to_ids("red")]
    assert own.matrix[own.rows["red"]].tolist() == pytest.approx(row.tolist())
    assert set(given.words) == {"red", "cat"}
    decoder = load_hf_decoder(models=pair.models, strategy="bidia wmd_t", settings=SEARCH)
    assert "vectors:model" in str(decoder.signature)
    assert all(len(nbest) for nbest in decoder.decode(SOURCES))


def test_the_signature_names_both_models_and_their_weights(tmp_path: Path) -> None:
    regular, reverse = write_pair(tmp_path, "bart")
    again = write_model(tmp_path / "again" / "bart-reverse", "bart", Direction.REVERSE, seed=2)
    other = write_model(tmp_path / "other" / "bart-reverse", "bart", Direction.REVERSE, seed=5)
    options: dict[str, Any] = {"seed": 2, "generation": {"min_length": 5}}
    strict = write_model(tmp_path / "strict" / "bart-reverse", "bart", Direction.REVERSE, **options)

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


def test_one_that_was_cut_off_does_not_stand_for_those_that_finished() -> None:
    found = [Hypothesis("x", ("x",), -2.0, 2, score, score < -0.7, ids=(5,)) for score in (-0.5, -1.0, -1.5)]

    firsts = [group[0] for group in merge_texts([*found, found[0]])]

    assert [(one.finished, one.score) for one in firsts] == [(False, -0.5), (True, -1.0)]
    assert [one.multiplicity for one in firsts] == [2, 2]


def test_a_model_is_one_direction_or_both(tmp_path: Path) -> None:
    regular, reverse = write_pair(tmp_path, "bart")
    unmarked = HuggingFaceModel.load(write_model(tmp_path / "unmarked", "bart", None))
    pair, joint, alone = load(regular, reverse), load(write_joint(tmp_path / "joint")), load(None, reverse)

    assert HuggingFaceFolder.recognises(regular)
    assert not HuggingFaceFolder.recognises(tmp_path)
    assert pair.directions == joint.directions == (Direction.REGULAR, Direction.REVERSE)
    assert (pair.name, pair.path, alone.name, alone.path) == ("bart-regular", regular, "bart-reverse", None)
    assert len(pair.fingerprint.split("+")) == 2
    assert "+" not in joint.fingerprint
    assert pair.vocabulary_size == len(pair.tokenizer.get_vocab())
    with pytest.raises(RunError, match="There is no regular model beside bart-reverse"):
        alone.n_best(Direction.REGULAR, SOURCES, SEARCH)
    with pytest.raises(SettingsError, match="bart-reverse is a reverse model by its config: leave out"):
        alone.sequence_scorer(Direction.REGULAR)
    for direction in Direction:  # a model that does not say so is taken for either
        scorer = unmarked.sequence_scorer(direction)
        assert scorer.log_probs(["red"], [scorer.encode(["blue cat"])])
    assert pair.scorer(Direction.REVERSE) is not None


BY_GENERATE = ("mamba", "bloom", "gemma2", "mvp")
"""Model types that our own search does not run."""
GENERATE = SearchSettings(4, 6, length_penalty=1.0, length_formula="power", stopping="constant")
GENERATE = replace(GENERATE, unfinished="rank")


@pytest.mark.parametrize("kind", BY_GENERATE)
def test_generate_makes_the_lists_of_models_that_our_search_does_not_run(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = HuggingFaceModel.load(*write_pair(tmp_path, kind))

    assert f"{kind}-regular is searched by its own generate" in caplog.text
    assert str(model.signature).endswith("|search:generate")
    assert model.scorer(Direction.REGULAR) is None
    for direction, loaded in model.models.items():
        for source, nbest in zip(SOURCES, model.n_best(direction, SOURCES, GENERATE), strict=True):
            assert nbest.hypotheses
            for one in nbest:
                assert one.log_prob == near(log_prob(loaded, source, one.ids))
                assert one.score == near((one.log_prob or 0.0) / one.length)
            scorer = model.sequence_scorer(direction)
            found = scorer.log_probs([source], [[one.ids for one in nbest]])[0]
            assert found == near([one.log_prob for one in nbest])
    decoder = load_hf_decoder(models=model.models, strategy="bidis", settings=GENERATE)
    assert all(len(nbest) for nbest in decoder.decode(SOURCES))


def test_generate_finds_the_lists_of_our_own_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = HuggingFaceModel.load(*write_pair(tmp_path, "bart"))
    rules = [replace(GENERATE, stopping=stopping) for stopping in ("constant", "heuristic", "optimal")]
    ours = {(way, how): model.n_best(way, SOURCES, how) for way in Direction for how in rules}
    for module in ("adapter", "by_generate", "directional"):
        monkeypatch.setattr(f"bidibeam.models.huggingface.{module}.find_obstacle", lambda _: "a test")

    for (way, how), expected in ours.items():
        ranked, finished = (model.n_best(way, SOURCES, replace(how, unfinished=u)) for u in ("rank", "drop"))
        for one, other, dropped in zip(expected, ranked, finished, strict=True):
            assert [each.ids for each in one] == [each.ids for each in other]
            assert [each.score for each in one] == near([each.score for each in other])
            assert [each.ids for each in dropped] == [each.ids for each in one if each.finished]


def test_settings_that_generate_does_not_have_are_refused_and_scores_are_ours(tmp_path: Path) -> None:
    model = HuggingFaceModel.load(write_model(tmp_path / "mamba", "mamba"))

    assert model.default_stopping == "constant"
    message = r"^mamba is searched by its own generate, which does not have the stopping rule 'shrinking'"
    with pytest.raises(SettingsError, match=message):
        load_decoder(model, "vbs", settings=replace(GENERATE, stopping="shrinking"))
    for nbest in model.n_best(Direction.REGULAR, SOURCES, replace(GENERATE, length_formula="gnmt")):
        scores = [one.score or 0.0 for one in nbest]
        assert scores == sorted(scores, reverse=True)
        assert scores == near([(one.log_prob or 0.0) * 6 / (5 + one.length) for one in nbest])


OPTIONS: dict[str, dict[str, Any]] = {
    "n-grams": {"no_repeat_ngram_size": 1},
    "penalty": {"repetition_penalty": 1.7},
    "words": {"bad_words": ("red", "dog dog", "cat cat", "blue black")},
    "all": {"no_repeat_ngram_size": 2, "repetition_penalty": 0.8, "bad_words": ("white cat", "?")},
}
"""Search options that `generate` has, too."""


def by_generate(
    loaded: DirectionalModel, source: str, beams: int, options: dict[str, Any]
) -> dict[tuple[int, ...], float]:
    """The scores of the sequences, in writing order, that `generate` finds; 0 of that of a greedy search."""
    given = {name: value for name, value in options.items() if name != "bad_words"}
    if words := options.get("bad_words"):
        ids = loaded.tokenizer([*words], add_special_tokens=False).input_ids
        given["bad_words_ids"] = [loaded.direction.arrange(each) for each in ids]
    read = loaded.tokenizer([source], return_tensors="pt")
    output = loaded.model.generate(
        input_ids=read.input_ids,
        attention_mask=read.attention_mask,
        num_beams=beams,
        num_return_sequences=beams,
        max_new_tokens=GENERATE.max_length,
        suppress_tokens=[0, 1, 2],
        return_dict_in_generate=True,
        **{"early_stopping": True, "output_scores": True} if beams > 1 else {},
        **given,
    )
    begun = 1 if loaded.model.config.is_encoder_decoder else read.input_ids.shape[1]
    scores = output.sequences_scores.tolist() if beams > 1 else [0.0]
    rows = [[*row[begun:], 3] for row in output.sequences.tolist()]  # 3 is the end
    rows = [row[: row.index(3) + 1] if 3 in row[:-1] else row[:-1] for row in rows]
    return dict(zip(map(tuple, rows), scores, strict=True))


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("kind", ["bart", "t5", "gpt2", "mvp", "bloom"])
def test_search_options_mean_what_they_mean_in_generate(tmp_path: Path, kind: str, name: str) -> None:
    model = HuggingFaceModel.load(*write_pair(tmp_path, kind, generation={"suppress_tokens": [2]}))
    for direction in [*Direction] if kind in ("bart", "t5") else [Direction.REGULAR]:
        loaded, is_other = model.models[direction], False
        for source, beams in product(SOURCES, (1, 4)):
            how = replace(GENERATE, beam_size=beams, min_length=0, **OPTIONS[name])
            (nbest,) = model.n_best(direction, [source], how)
            found = {tuple(arrange_ids(one.ids, direction, SPECIAL)): one.score for one in nbest}
            expected = by_generate(loaded, source, beams, OPTIONS[name])
            assert found.keys() == expected.keys()
            assert beams == 1 or found == near(expected)
            is_other |= found.keys() != by_generate(loaded, source, beams, {}).keys()
        assert is_other, "the option makes a difference"


def test_a_batch_follows_search_options_as_each_source_alone(tmp_path: Path) -> None:
    model = HuggingFaceModel.load(*write_pair(tmp_path, "gpt2"))
    how = replace(SEARCH, **OPTIONS["all"])
    for direction in Direction:
        together = model.n_best(direction, SOURCES, how)
        alone = [model.n_best(direction, [source], how)[0] for source in SOURCES]
        assert [[one.ids for one in nbest] for nbest in together] == [
            [one.ids for one in nbest] for nbest in alone
        ]


def test_words_are_forbidden_beside_those_of_a_generation_config_and_refused_if_unknown(
    tmp_path: Path,
) -> None:
    free = HuggingFaceModel.load(write_model(tmp_path / "free", "bart"))
    (found,) = free.n_best(Direction.REGULAR, SOURCES[:1], SEARCH)
    first, second = sorted({one.ids[0] for one in found})[:2]
    folder = write_model(tmp_path / "bound", "bart", generation={"bad_words_ids": [[first]]})
    bound, word = HuggingFaceModel.load(folder), free.tokenizer.decode([second])

    (kept,) = bound.n_best(Direction.REGULAR, SOURCES[:1], replace(SEARCH, bad_words=(word,)))

    assert not {first, second} & {token for one in kept for token in one.ids}
    for bad in ("xyzzy", "red xyzzy", "</s> red", "<pad>"):
        told = rf"^bad_words has '{bad}', which the tokenizer of bound cannot spell, so that no reply could"
        with pytest.raises(SettingsError, match=told):
            load_decoder(bound, "vbs", settings=replace(SEARCH, bad_words=(bad,)))


def test_what_generate_cannot_follow_from_the_end_is_refused(tmp_path: Path) -> None:
    model = HuggingFaceModel.load(*write_pair(tmp_path, "mvp"))

    for nbest in model.n_best(Direction.REVERSE, SOURCES, replace(GENERATE, bad_words=("red", "cat"))):
        assert all(not {"red", "cat"} & {*one.tokens} for one in nbest)
    with pytest.raises(
        SettingsError, match=r"^mvp-reverse is searched by its own generate, which cannot follow"
    ):
        model.n_best(Direction.REVERSE, SOURCES, replace(GENERATE, no_repeat_ngram_size=2))
