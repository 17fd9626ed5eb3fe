"""Sources and responses with tokenizers of their own: networks of either kind train, answer and move on."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import bidibeam
from bidibeam.api.export import export_converted
from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import PreparedData
from bidibeam.data.tokenization import START_ID
from bidibeam.errors import InputError, RunError, SettingsError
from bidibeam.hf import BidiGenerate, BidirectionalSeq2Seq, FineTuneSettings, fine_tune
from bidibeam.hypotheses import Direction
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.networks import create_network
from bidibeam.search.settings import SearchSettings
from tests.conftest import TINY_MODEL, make_once
from tests.unit.cli.calls import called, refused
from tests.unit.models.huggingface.tiny import SHAPES
from tests.unit.training.lstm import LSTMSettings
from tests.unit.training.runs import Diary, KilledError, are_same_weights, newest, train_toy

PHONES = dict(zip("ABCDEFGH", ["AH", "B", "K", "D", "EH", "F", "JH", "HH"], strict=True))
SOURCES = ["BAD", "FACE", "HEAD", "A", "GEEBAG"]
SEARCH = SearchSettings(beam_size=5, max_length=9)
HF = FineTuneSettings(
    epochs=20,
    batch_size=32,
    learning_rate=0.01,
    warmup=0.1,
    tensorboard=False,
    max_source_length=12,
    max_response_length=12,
    evaluate_every=10_000,
)
BART = {"model_type": "bart", **SHAPES["bart"]}


def say(word: str) -> str:
    return " ".join(PHONES[letter] for letter in word)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """Words of letters, and their phones."""
    chooser = random.Random(0)

    def make(folder: Path) -> None:
        words = ["".join(chooser.choices("ABCDEFGH", k=chooser.randint(1, 6))) for _ in range(700)]
        lines = (f"{word}\t{say(word)}\tw{number}\n" for number, word in enumerate(dict.fromkeys(words)))
        (folder / "words.tsv").write_text("".join(lines))
        chosen = PrepareSettings(
            corpus="tsv", source_tokenizer="char", target_tokenizer="word", cased=True, keep_text=True
        )
        limits: dict[str, Any] = {"max_source_length": 10, "max_response_length": 10, "validation_share": 0.1}
        prepare(replace(chosen, **limits), folder / "words.tsv", folder / "data")

    return PreparedData.open(make_once(tmp_path_factory, "letters", make) / "data")


@pytest.fixture(scope="module", params=[False, True], ids=["own output", "tied output"])
def run(
    request: pytest.FixtureRequest, words: PreparedData, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    model = replace(TINY_MODEL, tied_output=request.param)

    def make(folder: Path) -> None:
        train_toy(
            words, folder / "run", model=model, epochs=10, batch_size=16, save_every=500, early_stopping=0
        )

    return make_once(tmp_path_factory, f"letters-run-{request.param}", make) / "run"


@pytest.fixture(scope="module")
def bart(words: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One encoder and two decoders."""

    def make(folder: Path) -> None:
        fine_tune(words, folder / "bart", base=BART, direction="both", settings=HF)

    return make_once(tmp_path_factory, "letters-bart", make) / "bart"


def check_answers(model: Any, least: int) -> None:
    """Lists hold tokens of the targets alone, and most words are said right, from either end."""
    right, settings = 0, replace(SEARCH, stopping=model.default_stopping)
    for direction in Direction:
        scorer = model.sequence_scorer(direction)
        lists = model.n_best(direction, SOURCES, settings)
        for source, nbest in zip(SOURCES, lists, strict=True):
            right += nbest.best.text == say(source)
            for one in nbest:
                assert {*one.tokens} <= {*PHONES.values()}
                assert one.text.split() == [*one.tokens]
                assert max(one.ids) < model.vocabulary_size
                if START_ID not in one.ids:  # which an untrained model may write
                    end = () if one.finished else (scorer.end_id,)
                    assert scorer.encode([one.text]) == [(*one.ids, *end)]
        scored = scorer.log_probs(SOURCES, [[one.ids for one in nbest] for nbest in lists])
        for values, nbest in zip(scored, lists, strict=True):
            assert values == pytest.approx([one.log_prob for one in nbest], abs=1e-4)
    assert right >= least


def test_a_run_learns_and_writes_tokens_of_its_targets_alone(words: PreparedData, run: Path) -> None:
    model: Any = bidibeam.load(run)

    check_answers(model, 8)

    written, known = words.tokenizer.vocabulary_size, words.source_tokenizer.vocabulary_size
    assert (model.vocabulary_size, model.network.vocabulary_size) == (written, known) == (12, 20)
    for direction in Direction:
        scorer = model.scorer(direction)
        logits, _ = scorer.step(torch.tensor([2]), scorer.start(model.encode_sources(["BAD"])))
        assert logits.shape == (1, written)
    assert [*model.word_vectors().words] == words.tokenizer.tokens(range(4, written))
    again = BidirectionalModel.from_pretrained(run)
    assert (again.output_size, again.vocabulary_size) == (written, known)


def test_every_command_takes_such_a_run(words: PreparedData, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert called("tune", run, "--data", words.path, "--beam-size", "4", "--sources", "20").status == 0
    (run / "tuned.json").unlink()
    assert called("export", run, "--out", out, "--card").status == 0
    assert {"tokenizer.json", "source_tokenizer.json"} <= {path.name for path in out.iterdir()}
    info = json.loads(called("info", out, "--json").out)
    assert (info["vocabulary"], info["written"]) == (20, 12)
    typed = "\n".join(SOURCES) + "\n"
    replies = called("decode", run, "--strategy", "bidis", typed=typed).replies
    assert called("decode", out, "--strategy", "bidis", typed=typed).replies == replies
    lists = tmp_path / "lists.jsonl"
    lists.write_text(json.dumps({"source": "BAD", "regular": [{"text": say("BAD")}, {"text": say("CAB")}]}))
    scored = json.loads(called("score", lists, "--model", out).out)["regular"]
    assert scored[0]["log_prob"] > scored[1]["log_prob"]


def test_sources_that_the_model_does_not_know_are_told(run: Path) -> None:
    one = called("decode", run, "--strategy", "vbs", typed="BAD\nxyz\n")
    two = called("decode", run, "--strategy", "vbs", typed="xyz\nBAd\n?!\n")
    none = called("decode", run, "--strategy", "vbs", typed="BAD\nBAd\n")
    talk = called("chat", run, "--strategy", "vbs", typed="xyz\nBAD\n")

    assert 'Note: source 2 has no token that the model knows: "xyz".' in one.told
    assert '2 sources have no token that the model knows, the first of them source 1: "xyz".' in two.told
    assert "no token" not in none.told
    assert talk.told.count("Note: this has no token that the model knows.") == 1


def test_a_run_that_was_killed_goes_on_with_both_tokenizers(words: PreparedData, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_toy(words, whole)
    with pytest.raises(KilledError):
        train_toy(words, parts, observer=Diary(dies_at=7))
    train_toy(words, parts, resume=True)

    assert are_same_weights(newest(whole), newest(parts))
    for name in ("config.json", "tokenizer.json", "source_tokenizer.json", "model.safetensors"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("source_tokenizer.json", None, r"source_tokenizer\.json is missing\."),
        ("source_tokenizer.json", "tokenizer.json", r"has ids for sources from 4 on, and .* has 12 tokens\."),
        (
            "config.json",
            {"output_size": 20},
            r"output_size must be at least 1, and below vocabulary_size, 20",
        ),
        ("config.json", {"output_size": 11}, r"has 'b_output' of shape \(2, 12\), but config.json asks for"),
        ("config.json", {"output_size": "all"}, r"does not describe a model \(The setting output_size is"),
    ],
)
def test_what_is_missing_or_does_not_belong_together_is_named(
    name: str, content: Any, fragment: str, run: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    if content is None:
        (folder / name).unlink()
    elif isinstance(content, str):
        shutil.copy(folder / content, folder / name)
    else:
        (folder / name).write_text(json.dumps({**json.loads((folder / name).read_text()), **content}))

    with pytest.raises(RunError, match=fragment):
        bidibeam.load(folder)


def test_a_network_with_one_vocabulary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.training.lstm import LSTMNetwork

    monkeypatch.setattr("bidibeam.models.networks.NETWORKS.get", lambda _: LSTMNetwork)

    with pytest.raises(
        SettingsError, match="of the architecture lstm has one vocabulary, and these data have"
    ):
        create_network("lstm", LSTMSettings(), 20, 12)


def test_vectors_go_to_the_side_whose_tokens_are_words(words: PreparedData, tmp_path: Path) -> None:
    vectors = tmp_path / "words.vec"
    size = TINY_MODEL.embedding_size
    vectors.write_text(
        f"3 {size}\n" + "".join(f"{word} {' '.join(['1'] * size)}\n" for word in ("AH", "B", "C"))
    )
    train_toy(words, tmp_path / "run", vectors=vectors, max_steps=1, learning_rate=1e-6)

    weight = BidirectionalModel.from_pretrained(tmp_path / "run").input_embeddings()

    alike = weight.std(1) < 0.01
    ids = [*words.tokenizer.encode("AH B"), *words.source_tokenizer.encode("C")]
    assert alike[ids].all()
    assert alike.sum() == 3 + 1  # and padding


def test_a_joint_model_learns_and_its_folder_says_how_it_reads(bart: Path) -> None:
    model: Any = bidibeam.load(bart)

    check_answers(model, 8)

    assert "sources are read by another, `PreTrainedTokenizerFast(" in (bart / "README.md").read_text()
    assert model.vocabulary_size == 12
    assert model.find_unknown(["BAD", "xyz", "xA"]) == [False, True, False]
    for loaded in model.models.values():
        assert loaded.model.config.vocab_size == 20
        assert loaded.model.generation_config.suppress_tokens == [*range(12, 20)]
    assert AutoTokenizer.from_pretrained(bart).get_vocab().keys() >= {*PHONES.values()}
    assert {*model.word_vectors().words} == {*PHONES.values()}


def test_generate_writes_what_our_search_writes(bart: Path) -> None:
    model = BidirectionalSeq2Seq.from_pretrained(bart).eval()
    reader = PreTrainedTokenizerFast(tokenizer_file=str(bart / "source_tokenizer.json"), pad_token="<pad>")
    inputs = reader(SOURCES, return_tensors="pt", padding=True, return_token_type_ids=False)
    settings = replace(
        SEARCH, length_formula="power", length_penalty=1.0, stopping="constant", unfinished="rank"
    )
    found: Any = bidibeam.load(bart)

    for direction in Direction:
        half, lists = model.of(direction), found.n_best(direction, SOURCES, settings)
        sequences = half.generate(
            **inputs,
            num_beams=5,
            num_return_sequences=5,
            max_new_tokens=9,
            min_new_tokens=1,
            early_stopping=True,
        ).tolist()
        for number, nbest in enumerate(lists):
            theirs = [[token for token in row if token > 3] for row in sequences[5 * number : 5 * number + 5]]
            ours = [[*direction.arrange([token for token in one.ids if token > 3])] for one in nbest]
            assert ours[0] == theirs[0]
            assert all(ids in theirs for ids in ours)
    tokenizer = AutoTokenizer.from_pretrained(bart)
    both = BidiGenerate(model, strategy="bidis", tokenizer=tokenizer)
    replies = model.regular.generate(**inputs, custom_generate=both, num_beams=5, max_new_tokens=9)
    texts = tokenizer.batch_decode(replies, skip_special_tokens=True)
    assert sum(text == say(source) for text, source in zip(texts, SOURCES, strict=True)) >= 4


def test_ctranslate2_writes_tokens_of_the_targets_alone(bart: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    plain: Any = bidibeam.load(bart)
    export_converted(plain, tmp_path / "fast", quantization="float32", overwrite=False)
    fast: Any = bidibeam.load(tmp_path / "fast")

    check_answers(fast, 8)

    assert (fast.vocabulary_size, fast.find_unknown(["xyz", "A"])) == (12, [True, False])
    settings = replace(SEARCH, stopping="constant")
    for direction in Direction:
        ours, theirs = (one.n_best(direction, SOURCES, settings) for one in (plain, fast))
        assert [nbest.best.text for nbest in ours] == [nbest.best.text for nbest in theirs]


def test_tokens_of_sources_that_a_model_would_write_are_not_written(
    words: PreparedData, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2")
    changes = {"init_std": 0.5, "d_model": 16}  # strong opinions of everything
    settings = replace(HF, max_steps=1, learning_rate=1e-9)
    fine_tune(words, tmp_path / "wild", base={**BART, **changes}, direction="both", settings=settings)
    plain: Any = bidibeam.load(tmp_path / "wild")
    export_converted(plain, tmp_path / "fast", quantization="float32", overwrite=False)

    check_answers(plain, 0)
    check_answers(bidibeam.load(tmp_path / "fast"), 0)

    for loaded in plain.models.values():
        loaded.model.generation_config.suppress_tokens = None
    with pytest.raises(AssertionError):
        check_answers(plain, 0)


def test_a_decoder_alone_reads_both_ranges_in_one_row(words: PreparedData, tmp_path: Path) -> None:
    base = {"model_type": "gpt2", **SHAPES["gpt2"], "initializer_range": 0.3}
    fine_tune(words, tmp_path / "gpt2", base=base, settings=replace(HF, epochs=3))

    model: Any = bidibeam.load(tmp_path / "gpt2")
    lists = model.n_best(Direction.REGULAR, SOURCES, SEARCH)

    read, _ = model.models[Direction.REGULAR].encode_sources(["BAD"], [None])
    assert read.tolist() == [[*words.source_tokenizer.encode("BAD"), words.tokenizer.start_id]]
    assert all(max(one.ids) < 12 for nbest in lists for one in nbest)


@pytest.mark.parametrize("source", ["word", "bpe"])
def test_replies_may_be_characters(source: str, words: PreparedData, tmp_path: Path) -> None:
    chosen = PrepareSettings(corpus="tsv", source_tokenizer=source, target_tokenizer="char", cased=True)
    data = prepare(
        replace(chosen, max_response_length=30), words.path.parent / "words.tsv", tmp_path / "data"
    )
    train_toy(data, tmp_path / "run", max_steps=20)
    fine_tune(data, tmp_path / "bart", base=BART, direction="both", settings=replace(HF, max_steps=20))

    for folder in (tmp_path / "run", tmp_path / "bart"):
        model: Any = bidibeam.load(folder)
        for direction in Direction:
            scorer = model.sequence_scorer(direction)
            for one in model.n_best(direction, ["BAD"], SEARCH)[0]:
                assert one.text == "".join(one.tokens)
                if folder.name == "run":  # a tokenizer of transformers' drops spaces at the ends
                    end = () if one.finished else (scorer.end_id,)
                    assert scorer.encode([one.text]) == [(*one.ids, *end)]
        assert not model.word_vectors().is_stop_word.any()
        decoder = bidibeam.load_decoder(model, "bidia embedding_cosine", settings=SEARCH)
        assert len(decoder.decode(["BAD"])) == 1


def test_such_a_model_is_trained_further_with_its_own_tokenizers(
    words: PreparedData, bart: Path, tmp_path: Path
) -> None:
    tune = partial(fine_tune, words, direction="both", settings=replace(HF, max_steps=1, learning_rate=1e-5))
    tune(tmp_path / "more", base=str(bart))

    check_answers(bidibeam.load(tmp_path / "more"), 8)
    with pytest.raises(SettingsError, match="has a tokenizer of its own for sources: leave out `tokenizer`"):
        tune(tmp_path / "other", base=str(bart), tokenizer=str(words.path))
    tune(tmp_path / "named", base=BART, tokenizer=str(words.path))
    assert (tmp_path / "named" / "source_tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (None, r"The source_tokenizer\.json of .* cannot be loaded \(.*: restore it from a copy\."),
        ("{", r"source_tokenizer\.json is damaged \("),
        (
            "tokenizer.json",
            r"has a source_tokenizer\.json with ids from 4 on, and its tokenizer has 12 tokens\.",
        ),
    ],
)
def test_a_tokenizer_of_sources_that_is_missing_or_another_is_named(
    damage: str | None, fragment: str, bart: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(bart, tmp_path / "bart")
    file = folder / "source_tokenizer.json"
    if damage is None:
        file.unlink()
    else:
        file.write_text((folder / damage).read_text() if damage.endswith("json") else damage)

    with pytest.raises((InputError, RunError), match=fragment):
        bidibeam.load(folder)
    assert "tokenizer" in refused("decode", folder, typed="BAD\n")
