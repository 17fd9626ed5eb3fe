"""`bidibeam tune --regular MODEL --reverse MODEL`, and decoding with what it found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from bidibeam.data.words import split
from bidibeam.metrics.bleu import CorpusBleu
from tests.conftest import WORDS
from tests.unit.cli.calls import called, lines_of, refused, write_vectors
from tests.unit.models.huggingface.folders import write_joint, write_pair
from tests.unit.models.huggingface.tiny import prepared

SEARCH = ("--beam-size", "6", "--max-length", "7")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepared(tmp_path_factory.mktemp("data"), pairs=60, validation_share=0.3)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("pair"), "bart")


@pytest.fixture
def pair(written: tuple[Path, Path], tmp_path: Path) -> tuple[str, str, str, str]:
    """A pair of which nothing is tuned."""
    folders = [shutil.copytree(each, tmp_path / each.name) for each in written]
    return "--regular", str(folders[0]), "--reverse", str(folders[1])


def tuned_of(folder: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(folder) / "tuned.json").read_text())
    return content


def test_its_bleu_is_that_of_the_replies_that_decode_writes(
    pair: tuple[str, ...], data: PreparedData
) -> None:
    call = called("tune", *pair, "--data", data.path, *SEARCH)

    assert (call.status, call.out) == (0, "")
    assert f"which `bidibeam decode {' '.join(pair)}` uses from now on." in call.told
    content = tuned_of(pair[1])
    assert list(content["options"]) == ["bidis", "vbs-tuned", "bidia bleu_t", "bidia wmd_t"]
    sources = data.path / "validation.jsonl"
    references = [split(line["reference"]) for line in lines_of(sources)]
    found = set()
    for system in ("vbs", "vbs-tuned", "bidis", "bidia bleu_t tuned", "bidia wmd_t tuned"):
        decoded = called("decode", *pair, sources, *SEARCH, "--strategy", system)
        value = CorpusBleu().score(list(map(split, decoded.replies)), references).value
        assert value == pytest.approx(content["bleu"][system.removesuffix(" tuned")])
        assert ("|tuned:tuned.json@" in decoded.signature) == (system != "vbs")
        found.add(value)
    assert len(found) > 2  # or tuning could have been left out


def test_a_shared_encoder_and_a_regular_model_alone_are_tuned(
    pair: tuple[str, ...], data: PreparedData, tmp_path: Path
) -> None:
    joint = write_joint(tmp_path / "joint")

    for model in (joint, pair[1]):
        assert called("tune", "--regular", model, "--data", data.path, *SEARCH).status == 0

    assert set(tuned_of(joint)["options"]) == {"bidis", "vbs-tuned", "bidia bleu_t", "bidia wmd_t"}
    assert list(tuned_of(pair[1])["options"]) == ["vbs-tuned"]


def test_it_belongs_to_its_weights(pair: tuple[str, ...], data: PreparedData, tmp_path: Path) -> None:
    assert called("tune", *pair, "--data", data.path, *SEARCH, "--strategy", "bidis").status == 0
    assert called("tune", *pair, "--data", data.path, *SEARCH, "--strategy", "vbs-tuned").status == 0
    assert set(tuned_of(pair[1])["options"]) == {"bidis", "vbs-tuned"}
    alone = called("decode", *pair[:2], *SEARCH, "--strategy", "vbs-tuned", typed="red cat\n")
    assert "|tuned:tuned.json@" in alone.signature  # the reverse model has no part in it

    *_, other = write_pair(tmp_path / "others", "bart", init_std=0.2)
    told = refused("decode", *pair[:2], "--reverse", other, *SEARCH, "--strategy", "bidis", typed="red cat\n")

    assert told.startswith(f"{Path(pair[1]) / 'tuned.json'} was tuned for other weights (")
    flags = ("--strategy", "bidis", "--lambda", "2")
    assert called("decode", *pair[:2], "--reverse", other, *SEARCH, *flags, typed="red\n").status == 0


def test_subwords_are_tuned_without_vectors_or_with_a_file(tmp_path: Path, data: PreparedData) -> None:
    from bidibeam.data.tokenization import Tokenizer

    pieces = Tokenizer.train([" ".join(WORDS)] * 3, kind="bpe", vocabulary_size=300)
    regular, reverse = write_pair(tmp_path, "bart", tokenizer=pieces)
    command = ("tune", "--regular", regular, "--reverse", reverse, "--data", data.path, *SEARCH)

    without = called(*command, "--sources", "3")
    assert without.status == 0
    assert "Note: left out bidia wmd_t: it needs word vectors, --vectors FILE.vec." in without.told
    assert set(tuned_of(regular)["options"]) == {"bidis", "vbs-tuned", "bidia bleu_t"}
    vectors = write_vectors(tmp_path / "toy.vec", WORDS)
    beside = called(*command, "--sources", "3", "--vectors", vectors)
    assert (beside.status, "left out" in beside.told) == (0, False)
    assert "bidia wmd_t" in tuned_of(regular)["options"]


def test_what_cannot_be_tuned_is_refused(pair: tuple[str, ...], data: PreparedData, tmp_path: Path) -> None:
    assert refused("tune", *pair, *SEARCH) == (f"{pair[1]} does not say where its data are: give --data DIR.")
    assert refused("tune", *pair[2:], "--data", data.path).startswith("Tuning needs the regular model")
    assert refused("tune", "--regular", "somebody/model", "--data", data.path).startswith(
        "somebody/model is no folder, and tuned.json goes beside the regular model"
    )
    for command, told in (
        (("tune", tmp_path, *pair), "stand instead of a run"),
        (("tune",), "Missing argument 'RUN', or --regular and --reverse."),
        (("tune", tmp_path, "--dtype", "float32"), "--dtype goes with --regular and --reverse."),
    ):
        call = called(*command)
        assert call.status == 2
        assert told in call.told


def test_other_data_than_those_of_training_are_refused(pair: tuple[str, ...], data: PreparedData) -> None:
    facts = {"data": {"path": str(data.path), "fingerprint": "0123"}}
    (Path(pair[1]) / "bidibeam.json").write_text(json.dumps(facts))

    assert "(fingerprint " in refused("tune", *pair, *SEARCH)
    facts["data"]["fingerprint"] = data.fingerprint
    (Path(pair[1]) / "bidibeam.json").write_text(json.dumps(facts))
    assert called("tune", *pair, *SEARCH, "--strategy", "vbs-tuned").status == 0
