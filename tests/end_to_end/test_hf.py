"""From pairs of texts to scores by Hugging Face models: prepare, train, decode, score, rerank, evaluate."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from transformers import BartConfig

from tests.conftest import write_toy_corpus
from tests.unit.cli.calls import called, lines_of

STRATEGIES = {
    "vbs": ("vbs",),
    "vbs-tuned": ("vbs-tuned", "--length-exponent", "0.8", "--word-reward", "0.1"),
    "bidis": ("bidis", "--lambda", "0.5"),
    "bidia": ("bidia", "--similarity", "bleu_t"),
    "bidia wmd_t": ("bidia wmd_t",),  # by the model's own embeddings, as its tokens are words
    "reverse-vbs": ("reverse-vbs",),
    "longest": ("longest",),
    "random": ("random",),
}
SEARCH = ("--beam-size", "8", "--max-length", "8")
TRAINING = ("--epochs", "10", "--batch-size", "32", "--learning-rate", "0.004", "--set", "warmup=0.1")
SHORT = ("--set", "max_source_length=10", "--set", "max_response_length=10")
LEARNT = 60.0
"""BLEU of models that have learnt to repeat; before training it is about 0."""


@dataclass(frozen=True)
class Trained:
    """What the tests decode with."""

    data: Path
    regular: Path
    reverse: Path
    joint: Path

    @property
    def pair(self) -> tuple[str, ...]:
        return "--regular", str(self.regular), "--reverse", str(self.reverse)

    @property
    def sources(self) -> Path:
        return self.data / "test.jsonl"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("hf")
    write_toy_corpus(folder / "pairs.tsv", 900)
    shares = ("--validation-share", "0.03", "--test-share", "0.04")
    data = folder / "data"
    call = called("prepare", "tsv", "--source", folder / "pairs.tsv", "--keep-text", *shares, "--out", data)
    assert call.status == 0, call.err
    BartConfig(
        d_model=64,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=32,
        dropout=0.0,
    ).save_pretrained(folder / "bart")
    for direction in ("regular", "reverse", "both"):
        flags = ("--direction", direction, *TRAINING, *SHORT)
        call = called("train", data, "--base", folder / "bart", "--out", folder / direction, *flags)
        assert call.status == 0, call.err
    return Trained(data, folder / "regular", folder / "reverse", folder / "both")


def bleu(path: Path, tmp_path: Path) -> float:
    out = tmp_path / "scores.json"
    call = called("evaluate", path, "--metric", "bleu", "--samples", "20", "--out", out)
    assert call.status == 0, call.err
    (system,) = json.loads(out.read_text())["systems"].values()
    return float(system["scores"]["bleu"]["value"])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_answers_and_is_evaluated(trained: Trained, tmp_path: Path, strategy: str) -> None:
    out = tmp_path / "out.jsonl"

    call = called(
        "decode",
        *trained.pair,
        trained.sources,
        *SEARCH,
        "--strategy",
        *STRATEGIES[strategy],
        "--n-best",
        out,
    )

    assert len(call.replies) == len(lines_of(trained.sources))
    value = bleu(out, tmp_path)
    if strategy not in ("longest", "random"):  # whose choice is a poor one on purpose
        assert value > LEARNT


def test_no_strategy_but_that_of_references_is_left_out() -> None:
    from bidibeam.selection import STRATEGIES as KNOWN

    assert {name.split()[0] for name in STRATEGIES} | {"oracle"} == set(KNOWN.names())


def test_a_shared_encoder_answers_from_one_folder(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    call = called("decode", "--regular", trained.joint, trained.sources, *SEARCH, "--n-best", out)

    assert call.status == 0, call.err
    assert bleu(out, tmp_path) > LEARNT
    assert all(line["regular"] and line["reverse"] for line in lines_of(out))


def test_scored_lists_are_reranked_as_live_ones_are(trained: Trained, tmp_path: Path) -> None:
    beams, scored = tmp_path / "beams.jsonl", tmp_path / "scored.jsonl"
    bidis = ("--strategy", "bidis", "--lambda", "0.5")
    live = called("decode", *trained.pair, trained.sources, *SEARCH, *bidis)
    vbs = ("--strategy", "vbs", "--n-best", beams)
    assert called("decode", "--regular", trained.regular, trained.sources, *SEARCH, *vbs).status == 0

    assert called("score", beams, "--model", trained.reverse, "--out", scored).status == 0

    assert called("rerank", scored, *bidis).replies == live.replies


def test_the_reverse_model_writes_in_reading_order(trained: Trained) -> None:
    """Its replies end as replies end; nobody has turned them around twice, or never."""
    call = called("decode", *trained.pair, trained.sources, *SEARCH, "--strategy", "reverse-vbs")

    ended = [reply.endswith("!") for reply in call.replies]
    assert sum(ended) > 0.9 * len(ended)
