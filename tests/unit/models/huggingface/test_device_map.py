"""Models that are spread over several devices: on a CPU alone, over memory and disk."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

import bidibeam
from bidibeam import SearchSettings, load_decoder
from bidibeam.errors import BidibeamError
from bidibeam.hf import BidiGenerate, BidirectionalSeq2Seq, HuggingFaceModel
from bidibeam.hypotheses import Direction, NBest
from bidibeam.models.base import Model
from bidibeam.models.huggingface import scorer
from tests.unit.models.huggingface.folders import SOURCES, write_joint, write_model, write_pair

SEARCH = SearchSettings(beam_size=4, max_length=6, stopping="constant")
ALL_ON_DISK = {"": "disk"}
PARTS: dict[str, dict[str, Any]] = {
    "bart": {
        **dict.fromkeys(("model.shared", "model.encoder", "lm_head", "final_logits_bias"), "cpu"),
        **{f"model.decoder.{name}": "cpu" for name in ("embed_tokens", "embed_positions")},
        **{f"model.decoder.{name}": "disk" for name in ("layers", "layernorm_embedding")},
    },
    "t5": {
        **dict.fromkeys(("shared", "lm_head", "decoder"), "cpu"),
        **dict.fromkeys(("encoder.embed_tokens", "encoder.final_layer_norm"), "cpu"),
        "encoder.block": "disk",
    },
    "gpt2": {
        **dict.fromkeys(("transformer.wte", "transformer.wpe", "transformer.h.0", "lm_head"), "cpu"),
        **dict.fromkeys(("transformer.h.1", "transformer.ln_f"), "disk"),
    },
}
"""Where to put which part of a model: weights on disk are fetched while it computes."""
KINDS = [*PARTS]

# accelerate knows buffers of the whole model by such a key, and takes it for a misspelt one
pytestmark = pytest.mark.filterwarnings("ignore:The following device_map keys do not match any submodules")


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folders(kind: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("pair"), kind)


@pytest.fixture
def by_generate(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Model:
    """The pair on one device, and searched by `generate`, too: our own search ranks cut off replies last."""
    monkeypatch.setattr(scorer, "MODEL_TYPES", ())
    return bidibeam.load(*folders)


def check_same(found: NBest, expected: NBest) -> None:
    assert [one.text for one in found] == [one.text for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one.log_prob, one.score) == pytest.approx((other.log_prob, other.score), abs=1e-4)


@pytest.mark.parametrize("word", ["auto", "sequential"])
def test_what_fits_on_one_device_is_as_without(
    folders: tuple[Path, Path], word: str, caplog: pytest.LogCaptureFixture
) -> None:
    plain, spread = bidibeam.load(*folders), bidibeam.load(*folders, device_map=word)

    assert spread.signature == plain.signature
    assert not caplog.records
    for direction in Direction:
        assert spread.scorer(direction) is not None
        assert spread.n_best(direction, SOURCES, SEARCH) == plain.n_best(direction, SOURCES, SEARCH)


@pytest.mark.parametrize("place", ["parts", "disk"])
def test_a_spread_model_is_searched_by_its_own_generate(
    folders: tuple[Path, Path], kind: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        spread = bidibeam.load(*folders, device_map=PARTS[kind] if place == "parts" else ALL_ON_DISK)

    told = [record.getMessage() for record in caplog.records if record.name.startswith("bidibeam")]
    assert told == [
        f"{folder.name} is searched by its own generate: its weights are spread over several devices."
        for folder in folders
    ]
    assert "search:generate" in str(spread.signature)
    assert (spread.default_stopping, spread.device.type, spread.batch_size) == ("constant", "cpu", 32)
    assert [spread.scorer(direction) for direction in Direction] == [None, None]


@pytest.mark.parametrize("place", ["parts", "disk", "auto"])
def test_a_spread_model_writes_the_same(
    folders: tuple[Path, Path], kind: str, place: str, by_generate: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps: dict[str, Any] = {"parts": PARTS[kind], "disk": ALL_ON_DISK, "auto": "auto"}
    half = (folders[0] / "model.safetensors").stat().st_size // 2
    monkeypatch.setattr("transformers.integrations.accelerate.get_max_memory", lambda *_: {"cpu": half})

    spread = bidibeam.load(*folders, device_map=maps[place])

    assert isinstance(spread, HuggingFaceModel)
    assert "disk" in spread.models[Direction.REGULAR].model.hf_device_map.values()
    for direction in Direction:
        lists = (each.n_best(direction, SOURCES, SEARCH) for each in (spread, by_generate))
        for found, expected in zip(*lists, strict=True):
            check_same(found, expected)


def score_texts(model: Model, direction: Direction) -> list[list[float]]:
    judge = model.sequence_scorer(direction)
    ids = judge.encode(["red cat", "dog", ""])
    return judge.log_probs(SOURCES, [ids] * len(SOURCES))


def test_a_spread_model_scores_texts_as_before(folders: tuple[Path, Path], kind: str) -> None:
    plain, spread = bidibeam.load(*folders), bidibeam.load(*folders, device_map=PARTS[kind])

    for direction in Direction:
        for found, expected in zip(*(score_texts(each, direction) for each in (spread, plain)), strict=True):
            assert found == pytest.approx(expected, abs=1e-4)


def test_a_spread_model_serves_every_strategy(
    folders: tuple[Path, Path], kind: str, by_generate: Model
) -> None:
    spread = bidibeam.load(*folders, device_map=PARTS[kind])

    for strategy in ("bidis", "bidia"):
        replies, expected_replies = (
            load_decoder(each, strategy, settings=SEARCH, score_other=True).decode(SOURCES)
            for each in (spread, by_generate)
        )
        for found_list, expected_list in zip(replies, expected_replies, strict=True):
            check_same(found_list, expected_list)


def test_threads_share_a_spread_model(folders: tuple[Path, Path]) -> None:
    model = bidibeam.load(*folders, device_map=ALL_ON_DISK)

    def answer(_: int = 0) -> tuple[list[NBest], list[list[float]]]:
        return model.n_best(Direction.REGULAR, SOURCES, SEARCH), score_texts(model, Direction.REGULAR)

    alone, interval = answer(), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads meet within a layer
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(answer, range(4))) == [alone] * 4
    finally:
        sys.setswitchinterval(interval)


def test_a_model_that_was_spread_elsewhere_is_wrapped(
    folders: tuple[Path, Path], kind: str, by_generate: Model
) -> None:
    open_model = AutoModelForCausalLM if kind == "gpt2" else AutoModelForSeq2SeqLM
    tokenizer = AutoTokenizer.from_pretrained(folders[0])
    models = [open_model.from_pretrained(folder, device_map=PARTS[kind]).eval() for folder in folders]

    wrapped = HuggingFaceModel.wrap(*models, tokenizer=tokenizer)

    assert "search:generate" in str(wrapped.signature)
    for found, expected in zip(
        *(each.n_best(Direction.REVERSE, SOURCES, SEARCH) for each in (wrapped, by_generate)), strict=True
    ):
        check_same(found, expected)


def test_generate_takes_a_spread_reverse_model(folders: tuple[Path, Path], kind: str) -> None:
    open_model = AutoModelForCausalLM if kind == "gpt2" else AutoModelForSeq2SeqLM
    model, *pair = (
        open_model.from_pretrained(folder, device_map=spread).eval()
        for folder, spread in ((folders[0], None), (folders[1], None), (folders[1], PARTS[kind]))
    )
    tokenizer = AutoTokenizer.from_pretrained(folders[0])
    ids = torch.tensor([[6, 7], [8, 5]])

    expected, found = (
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            custom_generate=BidiGenerate(reverse, strategy="bidis", tokenizer=tokenizer),
            num_beams=4,
            early_stopping=True,
            max_new_tokens=6,
        )
        for reverse in pair
    )

    assert torch.equal(found, expected)


def test_a_shared_encoder_is_on_one_device(tmp_path: Path) -> None:
    joint = write_joint(tmp_path / "joint")
    plain, whole = bidibeam.load(joint), bidibeam.load(joint, device_map="auto")
    assert whole.n_best(Direction.REVERSE, SOURCES, SEARCH) == plain.n_best(
        Direction.REVERSE, SOURCES, SEARCH
    )

    told = r"^joint has a shared encoder, and such a model computes on one device: leave out `device_map`, or"
    with pytest.raises(BidibeamError, match=told):
        bidibeam.load(joint, device_map=ALL_ON_DISK)
    model = BidirectionalSeq2Seq.from_pretrained(joint, device_map=ALL_ON_DISK).eval()
    with pytest.raises(BidibeamError, match=told):
        HuggingFaceModel.wrap(model, tokenizer=AutoTokenizer.from_pretrained(joint))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"device_map": "evenly"},
            r"^`device_map` is 'evenly'; choose one of: auto, balanced, .*\. One device",
        ),
        (
            {"device_map": "cpu"},
            r"^`device_map` is 'cpu'; choose one of: .*One device is named by `device`\.$",
        ),
        (
            {"device_map": "auto", "device": "cpu"},
            r"^`device` is 'cpu', and `device_map` spreads a model over devices: give one of the two\.$",
        ),
        (
            {"device_map": {"model.shared": "cpu", "lm_head": "disk"}},
            r"^The weights of .* cannot be loaded \(.*does not give any device",
        ),
    ],
)
def test_what_does_not_spread_a_model_is_refused(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    folder = write_model(tmp_path / "bart", "bart")

    with pytest.raises(BidibeamError, match=told):
        bidibeam.load(folder, **options)


def test_what_cannot_be_fetched_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    """Marian's positions are computed and not stored, so there is nothing on disk to fetch."""
    folder = write_model(tmp_path / "marian", "marian")

    with pytest.raises(
        BidibeamError, match=r"^marian is a .* \(spread over devices, it fails: .*embed_positions"
    ):
        bidibeam.load(folder, device_map=ALL_ON_DISK)


def test_a_run_computes_on_one_device(toy_run: Path) -> None:
    told = r"run is a run, which computes on one device: leave out `device_map`, and name a `device`\.$"
    with pytest.raises(BidibeamError, match=told):
        bidibeam.load(toy_run, device_map="auto")


def test_embeddings_that_are_not_in_memory_are_no_word_vectors(tmp_path: Path) -> None:
    model = bidibeam.load(write_model(tmp_path / "bart", "bart"), device_map=ALL_ON_DISK)

    with pytest.raises(BidibeamError, match=r"^The embeddings of bart are not in memory, .*`vectors`\.$"):
        model.word_vectors()
