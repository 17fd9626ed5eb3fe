"""A corpus becomes data: pairs, splits, vocabulary and texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bidibeam.data.conversations import Pair
from bidibeam.data.prepare import _texts, prepare
from bidibeam.data.prepared import FILES, PreparedData
from bidibeam.errors import RunError
from tests.unit.data.made_corpora import corpus, pair_texts, settings


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    data = prepare(settings(), corpus(tmp_path / "c.jsonl"), tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    assert sum(len(data.split(name)) for name in ("train", "validation", "test")) == 300 * 5
    for name in ("validation", "test"):
        examples = list(data.examples(name))
        texts = [(example["source"].lower(), example["reference"].lower()) for example in examples]
        assert pair_texts(data, name) == texts
        assert len({example["id"] for example in examples}) == len(examples)
    assert data.info["pairs"] == {name: len(data.split(name)) for name in ("train", "validation", "test")}
    assert data.info["settings"]["max_response_length"] == 20
    assert list((tmp_path).glob(".*")) == []


def test_pieces_work_too(tmp_path: Path) -> None:
    data = prepare(
        settings(tokenizer="bpe", vocabulary_size=300), corpus(tmp_path / "c.jsonl"), tmp_path / "out"
    )

    texts = [(example["source"], example["reference"]) for example in data.examples("test")]
    assert pair_texts(data, "test") == texts


def test_no_conversation_straddles_two_splits(tmp_path: Path) -> None:
    data = prepare(settings(), corpus(tmp_path / "c.jsonl"), tmp_path / "out")

    validation, test = (
        {example["id"].split(":")[0] for example in data.examples(n)}
        for n in data.info["pairs"]
        if n != "train"
    )
    assert validation.isdisjoint(test)
    assert len(data.split("test")) == 5 * len(test)


def test_split_by_pair(tmp_path: Path) -> None:
    data = prepare(settings(split_by="pair"), corpus(tmp_path / "c.jsonl"), tmp_path / "out")

    conversations = {example["id"].split(":")[0] for example in data.examples("test")}
    assert len(conversations) > len(data.split("test")) / 2


@pytest.mark.parametrize("tokenizer", ["word", "bpe"])
def test_the_order_of_the_corpus_changes_nothing(tokenizer: str, tmp_path: Path) -> None:
    chosen = settings(tokenizer=tokenizer, vocabulary_size=300)
    one = prepare(chosen, corpus(tmp_path / "a.jsonl"), tmp_path / "one")
    other = prepare(chosen, corpus(tmp_path / "b.jsonl", shuffle=1), tmp_path / "other")

    assert one.fingerprint == other.fingerprint
    for name in FILES:
        assert (one.path / name).read_bytes() == (other.path / name).read_bytes()


def test_another_seed_is_another_split(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl")

    one, other = (prepare(settings(seed=seed), source, tmp_path / str(seed)) for seed in (0, 1))

    assert one.fingerprint != other.fingerprint


def test_the_vocabulary_is_that_of_the_training_split(tmp_path: Path) -> None:
    extra = [[f"Unique{number}.", "Yes."] for number in range(200)]
    data = prepare(settings(), corpus(tmp_path / "c.jsonl", extra=extra), tmp_path / "out")

    held_out = [
        e["source"] for name in ("validation", "test") for e in data.examples(name) if "Unique" in e["source"]
    ]
    assert held_out
    for text in held_out:
        assert data.tokenizer.encode(text)[0] == data.tokenizer.unknown_id
    assert data.statistics["coverage"]["train"]["source"] == 1.0
    assert data.statistics["coverage"]["test"]["source"] < 1.0


def test_the_vocabulary_counts_a_turn_once_however_many_pairs_it_is_in() -> None:
    said = [Pair("c", 0, "one", "two"), Pair("c", 1, "two", "three"), Pair("c", 3, "four", "five")]

    assert list(_texts([*said, Pair("d", 4, "five", "six")])) == [
        "one",
        "two",
        "three",
        "four",
        "five",
        "five",
        "six",
    ]


def test_a_text_is_stored_once_and_only_if_needed(tmp_path: Path) -> None:
    data = prepare(settings(), corpus(tmp_path / "c.jsonl", extra=[["Hi.", "no " * 21]]), tmp_path / "out")

    pairs = [data.split(name) for name in ("train", "validation", "test")]
    spans = {
        (s, n) for p in pairs for s, n in zip(p.source_start.tolist(), p.source_length.tolist(), strict=True)
    }
    spans |= {
        (s, n)
        for p in pairs
        for s, n in zip(p.response_start.tolist(), p.response_length.tolist(), strict=True)
    }
    assert len(pairs[0].tokens) == sum(length for _, length in spans)
    assert pairs[0].tokens.dtype == np.uint16


def test_a_large_vocabulary_takes_wider_tokens(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(70_000)]
    extra = [[" ".join(words[i : i + 40]), "Yes."] for i in range(0, len(words), 40)]

    data = prepare(
        settings(vocabulary_size=70_000), corpus(tmp_path / "c.jsonl", extra=extra), tmp_path / "out"
    )

    assert data.tokenizer.vocabulary_size > 2**16
    assert data.split("train").tokens.dtype == np.int32


def test_a_limit_takes_so_many_conversations(tmp_path: Path) -> None:
    data = prepare(settings(limit=100), corpus(tmp_path / "c.jsonl"), tmp_path / "out")

    assert sum(data.info["pairs"].values()) == 500


def test_stages_are_reported_in_order_and_to_the_end(tmp_path: Path) -> None:
    told: dict[str, tuple[int, int | None]] = {}

    def note(stage: str, done: int, total: int | None) -> None:
        told[stage] = done, total

    prepare(settings(), corpus(tmp_path / "c.jsonl"), tmp_path / "out", progress=note)

    assert list(told) == ["reading", "learning the vocabulary", "encoding", "writing"]
    assert all(done == total for done, total in told.values())


def test_the_text_of_training_pairs_is_kept_on_demand(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl", extra=[["Hi.", "no " * 21]])
    plain = prepare(settings(), source, tmp_path / "plain")
    data = prepare(settings(keep_text=True), source, tmp_path / "out")

    examples = list(data.examples("train"))

    assert pair_texts(data, "train") == [(e["source"].lower(), e["reference"].lower()) for e in examples]
    assert len({e["id"] for e in examples} | {e["id"] for e in data.examples("test")}) == len(examples) + len(
        data.split("test")
    )
    assert data.info["training_text"] == "train.jsonl"
    assert data.fingerprint == plain.fingerprint
    with pytest.raises(
        RunError, match=r"as token ids only, and their text is needed: prepare again with --keep-text\.$"
    ):
        plain.examples("train")


def test_training_text_that_is_gone_is_missed(tmp_path: Path) -> None:
    data = prepare(settings(keep_text=True), corpus(tmp_path / "c.jsonl"), tmp_path / "out")
    (data.path / "train.jsonl").unlink()

    with pytest.raises(
        RunError, match=r"holds no train\.jsonl, though data\.json lists it\. Prepare it again"
    ):
        PreparedData.open(data.path)


def test_the_sizes_of_splits_can_be_set(tmp_path: Path) -> None:
    chosen = settings(validation_share=0.2, test_share=0.3, split_by="pair")
    data = prepare(chosen, corpus(tmp_path / "c.jsonl"), tmp_path / "out")

    total = sum(data.info["pairs"].values())
    assert data.info["pairs"]["validation"] == pytest.approx(0.2 * total, rel=0.2)
    assert data.info["pairs"]["test"] == pytest.approx(0.3 * total, rel=0.2)
