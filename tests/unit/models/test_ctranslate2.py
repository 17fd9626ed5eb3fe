"""CTranslate2 folders as models: the same log-probabilities as torch, in both directions, and refusals."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import RepetitionPenaltyLogitsProcessor

import bidibeam
from bidibeam.api import load_decoder
from bidibeam.cli.main import run
from bidibeam.errors import RunError, SettingsError
from bidibeam.hypotheses import Direction, NBest
from bidibeam.models.base import Model
from bidibeam.models.ctranslate2.manifest import MANIFEST
from bidibeam.models.ctranslate2.translator import DirectionalTranslator
from bidibeam.models.huggingface.adapter import HuggingFaceModel
from bidibeam.models.huggingface.labels import arrange_ids, special_ids
from bidibeam.search.settings import SearchSettings
from tests.unit.models.conversions import SEARCH, convert
from tests.unit.models.huggingface.folders import SOURCES, write_joint, write_model, write_pair

pytest.importorskip("ctranslate2")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("pair"), "bart")


@pytest.fixture(scope="module")
def exported(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pair in float32."""
    model = convert(bidibeam.load(*pair), tmp_path_factory.mktemp("exported") / "float32")
    assert model.path is not None
    return model.path


def log_probs(lists: list[NBest]) -> list[float | None]:
    return [each.log_prob for nbest in lists for each in nbest]


def score(model: Model, direction: Direction, lists: list[NBest]) -> list[float]:
    """The log-probabilities of the same hypotheses by a model's teacher forcing."""
    ids = [[each.ids for each in nbest] for nbest in lists]
    return [value for line in model.sequence_scorer(direction).log_probs(SOURCES, ids) for value in line]


def score_text(model: Model, direction: Direction) -> float:
    """The log-probability of one reply to one source."""
    scorer = model.sequence_scorer(direction)
    ((value,),) = scorer.log_probs(SOURCES[:1], [scorer.encode(["red cat"])])
    return value


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(
    "settings", [SEARCH, SearchSettings(beam_size=3, max_length=9, min_length=4, stopping="patience=2")]
)
def test_hypotheses_have_the_log_probabilities_of_torch(
    pair: tuple[Path, Path], exported: Path, direction: Direction, settings: SearchSettings
) -> None:
    fast, plain = bidibeam.load(exported), bidibeam.load(*pair)

    lists = fast.n_best(direction, SOURCES, settings)
    if settings is SEARCH:  # what our own search finds
        ours = plain.n_best(direction, SOURCES, settings)
        assert [nbest.best.text for nbest in lists] == [nbest.best.text for nbest in ours]

    assert log_probs(lists) == pytest.approx(score(plain, direction, lists), abs=1e-4)
    for nbest in lists:
        assert len(nbest)
        ranks = [(not each.finished, -(each.score or 0)) for each in nbest]
        assert ranks == sorted(ranks)
        assert all(len(each.ids) > settings.min_length for each in nbest if each.finished)
    other = fast.sequence_scorer(direction.other)
    expected = plain.sequence_scorer(direction.other)
    texts = [["red cat", "a fish ?"]] * len(SOURCES)
    ids = [other.encode(line) for line in texts]
    assert ids == [expected.encode(line) for line in texts]
    for first in (None, 2):
        one, two = (np.array(each.log_probs(SOURCES, ids, first=first)) for each in (other, expected))
        assert one == pytest.approx(two, abs=1e-4)


@pytest.mark.parametrize("allowed", [False, True])
def test_the_unknown_token_is_written_only_if_it_may_be_and_padding_never(
    pair: tuple[Path, Path], exported: Path, *, allowed: bool
) -> None:
    fast, plain = bidibeam.load(exported), bidibeam.load(*pair)
    lists = fast.n_best(Direction.REVERSE, SOURCES, replace(SEARCH, beam_size=12, allow_unknown=allowed))

    written = {token for nbest in lists for each in nbest for token in each.ids}
    assert (fast.tokenizer.unk_token_id in written) == allowed
    assert fast.tokenizer.pad_token_id not in written
    assert log_probs(lists) == pytest.approx(score(plain, Direction.REVERSE, lists), abs=1e-4)


def test_an_empty_reply_that_is_nearly_certain_does_not_spoil_the_others(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "bart", "bart")
    weights = load_file(folder / "model.safetensors")
    weights["final_logits_bias"][0, 3] += 14.0
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    plain = bidibeam.load(folder)

    lists = convert(plain, tmp_path / "out").n_best(Direction.REGULAR, SOURCES, SEARCH)

    empty = plain.sequence_scorer(Direction.REGULAR).log_probs(SOURCES, [[(3,)]] * len(SOURCES))
    assert all(values[0] > math.log(0.99) for values in empty)
    assert log_probs(lists) == pytest.approx(score(plain, Direction.REGULAR, lists), abs=1e-3)


@pytest.mark.parametrize(("least", "scored"), [(1, len(SOURCES)), (2, 3 * len(SOURCES))])
def test_hypotheses_are_scored_again_only_after_a_mask(
    exported: Path, monkeypatch: pytest.MonkeyPatch, least: int, scored: int
) -> None:
    counts: list[int] = []
    score_written = DirectionalTranslator.score_written

    def count(translator: Any, sources: Any, written: Any, **options: Any) -> Any:
        counts.extend(map(len, written))
        return score_written(translator, sources, written, **options)

    monkeypatch.setattr(DirectionalTranslator, "score_written", count)
    bidibeam.load(exported).n_best(Direction.REGULAR, SOURCES, replace(SEARCH, beam_size=3, min_length=least))

    assert sum(counts) == scored


def test_int8_is_another_model_of_nearly_the_same_numbers(
    exported: Path, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    small, full = convert(bidibeam.load(*pair), tmp_path / "int8", "int8"), bidibeam.load(exported)

    one, two = (score_text(model, Direction.REGULAR) for model in (small, full))

    assert small.fingerprint != full.fingerprint
    signature = dict(load_decoder(full, "bidia").signature.facts)
    assert (signature["engine"], signature["stopping"]) == ("ctranslate2-float32", "constant")
    assert one == pytest.approx(two, rel=0.2)  # coarse on processors whose sums of 8-bit products overflow
    assert one != two


def test_a_shared_encoder_becomes_two_folders_and_a_manifest(tmp_path: Path) -> None:
    joint = bidibeam.load(write_joint(tmp_path / "joint"))

    fast = convert(joint, tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MANIFEST, "regular", "reverse"]
    assert fast.directions == joint.directions
    for direction in Direction:
        assert score_text(fast, direction) == pytest.approx(score_text(joint, direction), abs=1e-4)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"stopping": "shrinking"}, "`stopping` is 'shrinking', which CTranslate2 does not have: choose"),
        ({"stopping": "constant", "max_length": 900}, "64 positions, too few for max_length 900"),
    ],
)
def test_a_setting_that_the_engine_lacks_is_named(
    exported: Path, options: dict[str, Any], refusal: str
) -> None:
    model, settings = bidibeam.load(exported), SearchSettings(beam_size=2, **options)
    with pytest.raises(SettingsError, match=refusal):
        load_decoder(model, "vbs", settings=settings)
    with pytest.raises(SettingsError, match=refusal):
        model.n_best(Direction.REGULAR, ["red"], settings)
    for reverse, dtype in (("other", None), (None, "float16")):  # the folder has its own
        with pytest.raises(SettingsError, match="leave out"):
            bidibeam.load(exported, reverse, dtype=dtype)
    with pytest.raises(
        SettingsError, match="is a CTranslate2 model, which computes on one device: leave out"
    ):
        bidibeam.load(exported, device_map="auto")


def test_what_cannot_be_converted_is_refused_by_name(toy_run: Path, exported: Path, tmp_path: Path) -> None:
    gpt2 = write_model(tmp_path / "gpt2", "gpt2")
    converts = "; CTranslate2 converts Hugging Face encoder-decoders"
    for folder, why in (
        (toy_run, f"is a run{converts}"),
        (exported, f"^float32 is a CTranslate2 model{converts}"),
        (gpt2, "gpt2 model without an encoder"),
    ):
        with pytest.raises(SettingsError, match=why):
            convert(bidibeam.load(folder), tmp_path / "out", "int8")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 9, "more": 1}, "has format version 9; bidibeam .* make the folder again"),
        ({"directions": []}, "is damaged .The directions"),
        ({"directions": ["up"]}, "is damaged .directions must be one of regular, reverse"),
        ({"positions": "x"}, "is damaged .The setting positions is .x.; it must be a whole number or null"),
        ({"max_source_length": 0}, "is damaged .The lengths"),
        ({"min_length": "x"}, "is damaged .The setting min_length"),
        ({"min_length": 10**19}, "is damaged .The lengths and sizes .* are not all above 0 and below"),
        ({"quantization": 5}, "is damaged .The setting quantization"),
        ({"first": "q"}, "is damaged .The setting first"),
        ({"forbidden": [99999]}, r"is damaged .The tokens \[99999\] are not all in the vocabulary"),
        ({"data": 5}, "is damaged .The setting data"),
        ({"data": {"settings": 5}}, r"is damaged .The setting data\.settings"),
        ({}, "cannot be loaded by CTranslate2"),
    ],
)
def test_a_damaged_folder_is_refused(
    exported: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    manifest = json.loads((exported / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**manifest, **changes}))

    with pytest.raises(RunError, match=message):
        bidibeam.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"decoder_start_token": 0.5}),
        ("tokenizer/tokenizer_config.json", {"model_max_length": {"x": []}}),
    ],
)
def test_what_the_engine_loads_and_cannot_use_is_refused_at_once(
    exported: Path, tmp_path: Path, file: str, changes: dict[str, Any]
) -> None:
    folder = shutil.copytree(exported, tmp_path / "model")
    path = folder / "reverse" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    with pytest.raises(RunError, match=r"model/reverse is damaged \(.+\)\. Export the model again\.$"):
        bidibeam.load(folder)


def test_a_source_without_words_for_which_the_engine_does_not_search_has_no_hypotheses(
    exported: Path,
) -> None:
    model = bidibeam.load(exported)

    lists = model.n_best(Direction.REGULAR, ["red", ""], SearchSettings(stopping="constant"))
    replies = load_decoder(model, "bidia bleu_t").decode(["", "red"])

    assert (len(lists[0]) > 0, len(lists[1])) == (True, 0)
    assert (len(replies[0]), len(replies[1]) > 0) == (0, True)


def test_what_ctranslate2_cannot_load_is_not_kept(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = bidibeam.load(*pair)
    for part in model.models.values():
        monkeypatch.setattr(part.tokenizer, "convert_ids_to_tokens", lambda _: None)

    with pytest.raises(
        SettingsError, match=r"^What CTranslate2 made of .* is of no use: .*out/regular is damaged"
    ):
        convert(model, tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_a_tokenizer_that_cannot_be_written_is_said_to_be_the_matter(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    model: Any = bidibeam.load(*pair)
    for part in model.models.values():
        part.tokenizer.init_kwargs["note"] = "\ud800"  # half a surrogate pair

    with pytest.raises(SettingsError, match=r"cannot convert this bart model: .* surrogates not allowed\.$"):
        convert(model, tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_a_vocabulary_that_lacks_a_word_is_damaged(exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copied"
    shutil.copytree(exported, folder)
    words = folder / "regular" / "shared_vocabulary.json"
    words.write_text(json.dumps(json.loads(words.read_text())[:-1]))

    with pytest.raises(RunError, match=r"regular is damaged \(.*\)\. Export the model again"):
        bidibeam.load(folder).n_best(Direction.REGULAR, SOURCES, SEARCH)


def test_the_command_converts_and_the_folder_is_a_model(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    regular, reverse = map(str, pair)
    out, sources = tmp_path / "fast", tmp_path / "sources.txt"
    sources.write_text("red cat\nblue dog\n")
    arguments = ["export", regular, "--reverse", reverse, "--to", "ctranslate2", "--out", str(out)]

    for argv, status in (
        (arguments, 0),
        (arguments, 1),
        ([*arguments, "--overwrite"], 0),
        (["info", str(out), "--json"], 0),
        (["decode", str(out), str(sources), "--beam-size", "4"], 0),
        (["export", regular, "--quantization", "int8", "--out", str(tmp_path / "x")], 2),
    ):
        assert run(argv) == status, argv
    captured = capsys.readouterr()
    assert '"quantization": "int8"' in captured.out
    assert len(captured.out.splitlines()[-2:]) == 2
    assert "Traceback" not in captured.err


def test_a_device_that_is_not_there_is_refused(exported: Path) -> None:
    with pytest.raises(SettingsError, match="There is no device 'tpu' here"):
        bidibeam.load(exported, device="tpu")


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(
    "options",
    [
        {"no_repeat_ngram_size": 1},
        {"no_repeat_ngram_size": 2},
        {"bad_words": ("red", "dog dog", "cat cat", "blue black")},
        {"bad_words": ("white cat",), "no_repeat_ngram_size": 2},
    ],
)
def test_search_options_are_followed_and_log_probabilities_stay_the_model_s(
    pair: tuple[Path, Path], exported: Path, direction: Direction, options: dict[str, Any]
) -> None:
    fast, plain, how = bidibeam.load(exported), bidibeam.load(*pair), replace(SEARCH, **options)

    lists = fast.n_best(direction, SOURCES, how)

    size = options.get("no_repeat_ngram_size", SEARCH.max_length)
    words = [
        fast.tokenizer(each, add_special_tokens=False).input_ids for each in options.get("bad_words", ())
    ]
    for one in (one for nbest in lists for one in nbest):
        written = arrange_ids(one.ids, direction, special_ids(fast.tokenizer))
        parts = [tuple(written[at : at + size]) for at in range(len(written) - size + 1)]
        assert len({*parts}) == len(parts)
        for word in map(direction.arrange, words):
            assert all(written[at : at + len(word)] != word for at in range(len(written)))
    assert log_probs(lists) == pytest.approx(score(plain, direction, lists), abs=1e-4)
    assert lists != fast.n_best(direction, SOURCES, SEARCH)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_repetition_penalty_is_the_engine_s_and_counts_in_the_scores(
    pair: tuple[Path, Path], exported: Path, direction: Direction
) -> None:
    fast, loaded = bidibeam.load(exported), HuggingFaceModel.load(*pair).models[direction]
    penalise = RepetitionPenaltyLogitsProcessor(2.0)

    lists = fast.n_best(direction, SOURCES, replace(SEARCH, repetition_penalty=2.0))

    for source, nbest in zip(SOURCES, lists, strict=True):
        for one in nbest:  # what was written has its logits divided, and all are normalised afterwards
            written = arrange_ids(one.ids, direction, special_ids(fast.tokenizer))
            read = torch.tensor([loaded.tokenizer(source).input_ids])
            with torch.no_grad():
                steps = loaded.model(read, decoder_input_ids=torch.tensor([[2, *written[:-1]]])).logits[0]
            total = 0.0
            for number, token in enumerate(written):
                logits = penalise(torch.tensor([written[:number]]).long(), steps[number : number + 1])
                logits[:, [0, 1, *([3] if number == 0 else [])]] = -torch.inf  # what may not be written here
                total += float(logits.log_softmax(-1)[0, token])
            assert one.log_prob == pytest.approx(total, abs=1e-4)


def test_a_bad_word_that_cannot_be_spelt_is_refused(exported: Path) -> None:
    with pytest.raises(SettingsError, match=r"^bad_words has 'xyzzy', which the tokenizer of float32 cannot"):
        load_decoder(bidibeam.load(exported), "vbs", settings=replace(SEARCH, bad_words=("xyzzy",)))
