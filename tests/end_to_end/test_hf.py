"""From a slice of chitchat to scores by Hugging Face models, by every command on the way."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from transformers import BartConfig

from bidibeam.data.words import split
from bidibeam.interchange import nbest
from bidibeam.metrics import DEFAULT_METRICS
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.settings import StrategySettings
from tests.unit.cli.calls import Call, called, lines_of, write_lines, write_vectors

SLICE = ("--limit", "260", "--vocabulary-size", "800", "--validation-share", "0.05", "--test-share", "0.05")
SHAPE: dict[str, Any] = {
    "d_model": 64,
    **{f"{part}_layers": 1 for part in ("encoder", "decoder")},
    **{f"{part}_attention_heads": 2 for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 128 for part in ("encoder", "decoder")},
    "max_position_embeddings": 48,
    "dropout": 0.0,
    "init_std": 0.1,  # so that it learns fast
}
RATE = ("--batch-size", "32", "--learning-rate", "0.004", "--set", "warmup=0.1")
TRAINING = (*RATE, "--set", "max_source_length=40", "--set", "max_response_length=24")
SEARCH = ("--beam-size", "8", "--max-length", "12")
BIDIA = (*SEARCH, "--strategy", "bidia")
SOURCES = 32
ENDS = (".", "?", "!")


def all_systems() -> list[str]:
    """Every strategy there is, with every similarity where it compares; and what may be said beside."""
    names: list[str] = []
    for name in STRATEGIES.names():
        compared = SIMILARITIES.names() if StrategySettings(name).compares else []
        names += [f"{name} {similarity}" for similarity in compared] or [name]
    return [*names, "bidia bleu_t either", "bidia bleu_t expected", "bidia bleu_t tuned"]


SYSTEMS = all_systems()
SHORTCUTS = ("vbs", "bidis", "vbs-tuned", "random", "reverse-vbs", "bidia bleu_t", "bidia wmd_t")


class Trained:
    """What the tests decode with, and what they have decoded."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.sources = folder, folder / "data", folder / "sources.jsonl"
        self.pair = ("--regular", str(folder / "regular"), "--reverse", str(folder / "reverse"))
        self.answered: dict[str, Call] = {}

    def choice(self, system: str) -> tuple[str, ...]:
        similarity = SIMILARITIES.get(system.split()[1]) if " " in system else None
        has_space = "space" in getattr(similarity, "__dataclass_fields__", ())
        vectors = ("--vectors", str(self.folder / "toy.vec")) if has_space else ()
        return "--strategy", system, *vectors

    def lists(self, system: str) -> Path:
        return self.folder / f"{system}.jsonl"

    def answers(self, system: str) -> Call:
        """What a system says, live; its n-best file is written beside."""
        if system not in self.answered:
            choice = (*self.choice(system), "--n-best", str(self.lists(system)))
            self.answered[system] = called("decode", *self.pair, self.sources, *SEARCH, *choice)
        return self.answered[system]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A small BART and its reverse, trained for a moment and tuned."""
    found = Trained(tmp_path_factory.mktemp("hf"))
    call = called("prepare", "chitchat", "--keep-text", *SLICE, "--out", found.data)
    assert call.status == 0, call.err
    sources = lines_of(found.data / "test.jsonl")[:SOURCES]
    write_lines(found.sources, *sources)
    write_vectors(
        found.folder / "toy.vec", sorted({word for line in sources for word in split(line["source"])})
    )
    BartConfig(**SHAPE).save_pretrained(found.folder / "bart")
    for direction, epochs in {"regular": 4, "reverse": 4, "both": 2}.items():
        flags = ("--direction", direction, "--epochs", epochs, *TRAINING, "--no-tune")
        call = called(
            "train", found.data, "--base", found.folder / "bart", *flags, "--out", found.folder / direction
        )
        assert call.status == 0, call.err
    call = called("tune", *found.pair, *SEARCH, "--sources", "24")
    assert call.status == 0, call.err
    return found


@pytest.mark.parametrize("model", ["regular", "reverse", "both"])
def test_training_brings_the_validation_loss_down(trained: Trained, model: str) -> None:
    metadata = json.loads((trained.folder / model / "bidibeam.json").read_text())

    losses = [each["loss"] for each in metadata["evaluations"]]

    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * math.log(800)  # what a model knows that knows nothing
    assert metadata["trained_on"] == metadata["data"]["pairs"]["train"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_answers_live_as_from_its_lists(trained: Trained, system: str) -> None:
    call = trained.answers(system)

    assert len(call.replies) == SOURCES
    assert len(set(call.replies)) > 1  # it has read the sources
    assert call.signature.startswith(f"strategy:{system.split()[0]}|")
    lines = list(nbest.read(trained.lists(system)))
    assert [line.source for line in lines] == [line["source"] for line in lines_of(trained.sources)]
    for line, reply in zip(lines, call.replies, strict=True):
        hypotheses = [*line.regular, *line.reverse]
        assert reply in {hypothesis.text for hypothesis in hypotheses}
        assert all(hypothesis.other_log_prob is not None for hypothesis in hypotheses)
    metadata = json.loads((trained.folder / "regular" / "bidibeam.json").read_text())
    length = metadata["data"]["lengths"]["response"]  # T, which lists do not know
    tuned = ("--tuned", trained.folder / "regular", "--max-length", length)
    again = called("rerank", trained.lists(system), *trained.choice(system), *tuned)
    assert again.replies == call.replies
    if system in SHORTCUTS:  # those who want nothing but the reply arrive at the same
        live = called("decode", *trained.pair, trained.sources, *SEARCH, *trained.choice(system))
        assert live.replies == call.replies


def test_all_of_them_are_evaluated_together(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "scores.json"
    for system in SYSTEMS:
        trained.answers(system)
    files = [f"{system}={trained.lists(system)}" for system in SYSTEMS]

    call = called("evaluate", *files, "--samples", "20", "--trials", "20", "--out", out)

    assert call.status == 0, call.err
    results = json.loads(out.read_text())
    assert (results["sources"], list(results["systems"])) == (SOURCES, SYSTEMS)
    by_system = {name: each["scores"] for name, each in results["systems"].items()}
    for name, scores in by_system.items():
        assert set(scores) == set(DEFAULT_METRICS)
        assert all(math.isfinite(score["value"]) for score in scores.values())
        assert results["systems"][name]["signature"].startswith(f"strategy:{name.split()[0]}|")
    reached = {name: scores["sentence_bleu"]["value"] for name, scores in by_system.items()}
    same_beam = ("vbs", "vbs-tuned", "bidis", "longest", "random")
    assert reached["oracle"] > max(reached[name] for name in same_beam)
    ratios = {name: scores["length_ratio"]["value"] for name, scores in by_system.items()}
    assert ratios["longest"] > max(ratios[name] for name in ("vbs", "random"))


@pytest.mark.parametrize("direction", ["regular", "reverse"])
def test_hypotheses_are_written_in_reading_order(trained: Trained, direction: str) -> None:
    """Replies end as replies end; nobody has turned the reverse model's around twice, or never."""
    trained.answers("bidia bleu_t")
    beams = [getattr(line, direction) for line in nbest.read(trained.lists("bidia bleu_t"))]
    assert sum(map(len, beams)) == 4 * SOURCES

    texts = [each.text for beam in beams for each in beam if each.finished]

    ended, begun = ([getattr(text, f"{edge}swith")(ENDS) for text in texts] for edge in ("end", "start"))
    assert sum(ended) > 5
    assert sum(ended) > 2 * sum(begun)


def test_what_was_tuned_is_used_and_named(trained: Trained) -> None:
    content = json.loads((trained.folder / "regular" / "tuned.json").read_text())

    assert {"bidis", "vbs-tuned", "bidia bleu_t", "bidia wmd_t", "loglinear"} < set(content["options"])
    for system in ("bidis", "vbs-tuned", "bidia bleu_t tuned"):
        assert "|tuned:tuned.json@" in trained.answers(system).signature
    weight = content["options"]["bidis"]["lambda_"]
    assert f"|lambda:{weight:g}|" in trained.answers("bidis").signature
    assert "tuned.json" not in trained.answers("vbs").signature


def test_a_shared_encoder_answers_from_one_folder(trained: Trained, tmp_path: Path) -> None:
    out, joint = tmp_path / "out.jsonl", trained.folder / "both"

    once = called("decode", "--regular", joint, trained.sources, *BIDIA, "--n-best", out)
    twice = called("decode", "--regular", joint, "--reverse", joint, trained.sources, *BIDIA)

    assert len(once.replies) == SOURCES
    assert (once.replies, once.signature) == (twice.replies, twice.signature)
    assert all(line["regular"] and line["reverse"] for line in lines_of(out))
