"""A corpus becomes prepared data, split and counted, and replaces only what it may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bidibeam.data.encoding import REASONS
from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import FILES, SOURCE_TOKENIZER, PreparedData
from bidibeam.errors import BidibeamError, CorpusError, RunError, SettingsError
from bidibeam.files import alone_in
from tests.unit.data.made_corpora import corpus, pair_texts, settings

NAMES = ("train", "validation", "test")


def make(tmp_path: Path, *, extra: list[list[str]] | None = None, **changes: Any) -> PreparedData:
    return prepare(settings(**changes), corpus(tmp_path / "c.jsonl", extra=extra), tmp_path / "out")


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    told: dict[str, tuple[int, int | None]] = {}

    def note(stage: str, done: int, total: int | None) -> None:
        told[stage] = done, total

    data = prepare(settings(), corpus(tmp_path / "c.jsonl"), tmp_path / "out", progress=note)

    assert list(told) == ["reading", "learning the vocabulary", "encoding", "writing"]
    assert all(done == total for done, total in told.values())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    assert sum(len(data.split(name)) for name in NAMES) == 300 * 5
    for name in ("validation", "test"):
        examples = list(data.examples(name))
        texts = [(example["source"].lower(), example["reference"].lower()) for example in examples]
        assert pair_texts(data, name) == texts
        assert len({example["id"] for example in examples}) == len(examples)
    assert data.info["pairs"] == {name: len(data.split(name)) for name in NAMES}
    assert data.info["settings"]["max_response_length"] == 20
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    ("kind", "fingerprint"),
    [("word", "bbf8a5d49bb4e44cdacf2ac14b8e6b8b"), ("bpe", "91865a33ad9267bebb7eeafe6a8e8c23")],
)
def test_tokenizers_that_are_alike_give_the_data_that_they_always_gave(
    kind: str, fingerprint: str, tmp_path: Path
) -> None:
    data = make(tmp_path, source_tokenizer=kind, target_tokenizer=kind)

    assert data.fingerprint == fingerprint
    assert data.source_tokenizer is data.tokenizer
    assert not (tmp_path / "out" / SOURCE_TOKENIZER).exists()


@pytest.mark.parametrize(("source", "target"), [("char", "word"), ("word", "bpe"), ("bpe", "char")])
def test_tokenizers_that_differ_have_a_range_of_ids_each(source: str, target: str, tmp_path: Path) -> None:
    plain = make(tmp_path)
    data = prepare(
        settings(
            source_tokenizer=source,
            tokenizer=target,
            cased=True,
            max_source_length=99,
            max_response_length=99,
        ),
        tmp_path / "c.jsonl",
        tmp_path / "two",
    )

    size = data.tokenizer.vocabulary_size
    assert (data.source_tokenizer.kind, data.tokenizer.kind) == (source, target)
    assert data.info["vocabulary_size"] == data.source_tokenizer.vocabulary_size > size
    assert data.fingerprint != plain.fingerprint
    for name in ("validation", "test"):
        pairs = data.split(name)
        for number, example in enumerate(data.examples(name)):
            begin, length = pairs.source_start[number], pairs.source_length[number]
            read = pairs.tokens[begin : begin + length].tolist()
            begin, length = pairs.response_start[number], pairs.response_length[number]
            written = pairs.tokens[begin : begin + length].tolist()
            assert min(read) >= size > max(written)
            texts = (
                data.source_tokenizer.text(data.source_tokenizer.tokens(read)),
                data.tokenizer.text(data.tokenizer.tokens(written)),
            )
            assert texts == (example["source"], example["reference"])


def test_a_tokenizer_of_sources_goes_with_its_data(tmp_path: Path) -> None:
    first = make(tmp_path, source_tokenizer="char")
    file = first.path / SOURCE_TOKENIZER
    content = file.read_text()
    file.unlink()
    with pytest.raises(RunError, match=r"holds no source_tokenizer\.json, though data\.json lists it"):
        PreparedData.open(first.path)
    first.tokenizer.save(file)
    with pytest.raises(RunError, match=r"source_tokenizer\.json has ids for sources from 4 on"):
        PreparedData.open(first.path)
    file.write_text(content)

    again = prepare(settings(), tmp_path / "c.jsonl", tmp_path / "out", overwrite=True)

    assert again.source_tokenizer is again.tokenizer
    assert sorted(path.name for path in again.path.iterdir()) == sorted(FILES)


def test_no_conversation_straddles_two_splits_unless_pairs_are_split(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl")
    data = prepare(settings(), source, tmp_path / "out")
    by_pair = prepare(settings(split_by="pair"), source, tmp_path / "by_pair")

    def conversations(of: PreparedData, name: str) -> set[str]:
        return {example["id"].split(":")[0] for example in of.examples(name)}

    assert conversations(data, "validation").isdisjoint(conversations(data, "test"))
    assert len(data.split("test")) == 5 * len(conversations(data, "test"))
    assert len(conversations(by_pair, "test")) > len(by_pair.split("test")) / 2


@pytest.mark.parametrize("tokenizer", ["word", "bpe"])
def test_the_order_of_the_corpus_changes_nothing_but_the_seed_does(tokenizer: str, tmp_path: Path) -> None:
    options = {"tokenizer": tokenizer, "vocabulary_size": 300}
    source = corpus(tmp_path / "a.jsonl")
    one = prepare(settings(**options), source, tmp_path / "one")
    other = prepare(settings(**options), corpus(tmp_path / "b.jsonl", shuffle=1), tmp_path / "other")
    reseeded = prepare(settings(**options, seed=1), source, tmp_path / "reseeded")

    assert reseeded.fingerprint != one.fingerprint == other.fingerprint
    for name in FILES:
        assert (one.path / name).read_bytes() == (other.path / name).read_bytes()
    case = str.lower if tokenizer == "word" else str
    texts = [(case(example["source"]), case(example["reference"])) for example in one.examples("test")]
    assert pair_texts(one, "test") == texts


def test_the_vocabulary_is_that_of_the_training_split(tmp_path: Path) -> None:
    data = make(tmp_path, extra=[[f"Unique{number}.", "Yes."] for number in range(200)])

    held_out = [example["source"] for name in NAMES[1:] for example in data.examples(name)]
    unique = [text for text in held_out if "Unique" in text]
    assert unique
    assert all(data.tokenizer.encode(text)[0] == data.tokenizer.unknown_id for text in unique)
    assert data.statistics["coverage"]["train"]["source"] == 1.0
    assert data.statistics["coverage"]["test"]["source"] < 1.0


def test_the_vocabulary_counts_a_turn_once_however_many_pairs_it_is_in(tmp_path: Path) -> None:
    turns = [["b", "a", "b"]] * 10  # "a" is in two pairs, and would be the first of equally common words
    source = corpus(tmp_path / "c.jsonl", count=0, extra=[[*each, f"c{i}"] for i, each in enumerate(turns)])

    data = prepare(settings(vocabulary_size=5), source, tmp_path / "out")

    assert data.tokenizer.tokens([4]) == ["b"]


def test_a_text_is_stored_once_and_only_if_needed(tmp_path: Path) -> None:
    data = make(tmp_path, extra=[["Hi.", "no " * 21]])

    spans = set()
    for pairs in map(data.split, NAMES):
        spans |= set(zip(pairs.source_start.tolist(), pairs.source_length.tolist(), strict=True))
        spans |= set(zip(pairs.response_start.tolist(), pairs.response_length.tolist(), strict=True))
    assert len(pairs.tokens) == sum(length for _, length in spans)
    assert pairs.tokens.dtype == np.uint16


def test_limit_and_shares(tmp_path: Path) -> None:
    assert sum(make(tmp_path, limit=100).info["pairs"].values()) == 500
    options = settings(validation_share=0.2, test_share=0.3, split_by="pair")
    counts = prepare(options, tmp_path / "c.jsonl", tmp_path / "shares").info["pairs"]

    assert counts["validation"] == pytest.approx(0.2 * sum(counts.values()), rel=0.2)
    assert counts["test"] == pytest.approx(0.3 * sum(counts.values()), rel=0.2)


def test_the_text_of_training_pairs_is_kept_on_demand(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl", extra=[["Hi.", "no " * 21]])
    plain = prepare(settings(), source, tmp_path / "plain")
    data = prepare(settings(keep_text=True), source, tmp_path / "out")

    examples = list(data.examples("train"))

    assert pair_texts(data, "train") == [(e["source"].lower(), e["reference"].lower()) for e in examples]
    ids = [example["id"] for example in (*examples, *data.examples("test"))]
    assert len(set(ids)) == len(ids)
    assert data.info["training_text"] == "train.jsonl"
    assert data.fingerprint == plain.fingerprint
    with pytest.raises(RunError, match=r"as token ids only, and their text is needed: prepare .*keep_text"):
        plain.examples("train")
    (data.path / "train.jsonl").unlink()
    with pytest.raises(RunError, match=r"holds no train\.jsonl, though data\.json lists it\. Prepare it"):
        PreparedData.open(data.path)


def test_dropped_pairs_are_counted_by_reason(tmp_path: Path) -> None:
    long = "tea " * 60
    extra = [["", "Yes."], ["Yes.", " \u200b "], [long, "Yes."], ["Yes.", "no " * 21], [long, long]]
    extra += [["Yes.", "no " * 20], ["Hi.", "word " * 17_843], ["x" * 1_000_000, "Yes."]]
    statistics = make(tmp_path, extra=extra).statistics

    dropped = statistics["dropped"]
    total = {reason: sum(dropped[split][reason] for split in dropped) for reason in REASONS}
    assert total == {"empty_source": 1, "empty_response": 1, "source_too_long": 2, "response_too_long": 2}
    assert sum(statistics["pairs"].values()) == 300 * 5 + 2
    assert statistics["lengths"]["before_limits"]["response"]["max"] == 17_843
    assert statistics["lengths"]["after_limits"]["response"]["max"] == 20


def test_prepared_data_is_replaced_on_demand_and_other_files_stay(tmp_path: Path) -> None:
    source, out = corpus(tmp_path / "c.jsonl"), tmp_path / "out"
    first = prepare(settings(keep_text=True), source, out)
    tokens = first.split("train").tokens[:10].tolist()
    (tmp_path / "out" / "notes.txt").write_text("mine")

    with pytest.raises(SettingsError, match=r"holds prepared data already; name another directory, or pass"):
        prepare(settings(limit=100), source, tmp_path / "out")
    second = prepare(settings(limit=100), source, tmp_path / "out", overwrite=True)

    assert second.fingerprint != first.fingerprint
    assert first.split("train").tokens[:10].tolist() == tokens  # what was open stays whole
    assert (out / "notes.txt").read_text() == "mine"
    assert not (out / "train.jsonl").exists()
    (out / "train.jsonl").write_text("mine")
    (out / "data.json").write_text("{")  # damaged, which is no reason not to replace it
    prepare(settings(), source, out, overwrite=True)
    assert (out / "train.jsonl").read_text() == "mine"


def test_a_directory_of_other_things_is_refused_unless_told(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.jsonl").write_text("mine")

    for out in (tmp_path, tmp_path / "out"):
        with pytest.raises(SettingsError, match=r"holds other things; name an empty or new directory, or"):
            prepare(settings(keep_text=True), source, out)
    with pytest.raises(SettingsError, match=r"c\.jsonl is a file; name a directory for the prepared data\.$"):
        prepare(settings(), source, source)
    assert prepare(settings(), source, tmp_path, overwrite=True).path == tmp_path


def test_a_directory_in_the_place_of_a_file_is_refused_before_anything_is_replaced(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "out" / "test.jsonl").unlink()
    (tmp_path / "out" / "test.jsonl").mkdir()
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}

    with pytest.raises(
        SettingsError, match=r"test\.jsonl is a directory, where a file has to be; name another"
    ):
        prepare(settings(limit=50), tmp_path / "c.jsonl", tmp_path / "out", overwrite=True)

    assert before == {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}


def test_an_interrupted_replacement_is_ours_and_the_current_directory_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(tmp_path)
    (tmp_path / "out" / "data.json").unlink()
    monkeypatch.chdir(tmp_path / "out")

    assert prepare(settings(), tmp_path / "c.jsonl", Path()).fingerprint == first.fingerprint
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    source = corpus(tmp_path / "c.jsonl")
    before = prepare(settings(limit=50), source, tmp_path / "out").fingerprint
    monkeypatch.setattr("bidibeam.data.prepare.write_json", fail)

    for out in ("out", "new"):
        with pytest.raises(KeyboardInterrupt):
            prepare(settings(), source, tmp_path / out, overwrite=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.jsonl", "out"]
    assert PreparedData.open(tmp_path / "out").fingerprint == before


@pytest.mark.parametrize(
    ("conversations", "changes", "message"),
    [
        ([["alone"]], {}, r"^The corpus 'jsonl' gave no pairs: no conversation has two turns\. Is"),
        ([["a", "b"], ["a", "c"]], {}, r"^2 conversations cannot be split into"),
        (
            [["a b c", f"no way{i}"] for i in range(3)],
            {"max_source_length": 2},
            r"^No pair is left in the train split \(dropped: source_too_long 1\): raise",
        ),
    ],
)
def test_corpora_of_which_no_data_can_be_made(
    conversations: list[list[str]], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    source = corpus(tmp_path / "c.jsonl", count=0, extra=conversations)

    with pytest.raises(CorpusError, match=message):
        prepare(settings(**changes), source, tmp_path / "out")

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": "cornel"}, "Did you mean 'cornell'"),
        ({"pairs": "words"}, "^pairs must be one of turns, utterances, not 'words'"),
        ({"split_by": "line"}, "^split_by must be one of conversation, pair, not 'line'"),
        ({"max_source_length": 0}, "^max_source_length must be at least 1, not 0"),
        ({"max_response_length": -1}, "^max_response_length must be at least 1, not -1"),
        ({"limit": 2}, "^limit must be at least 3, not 2"),
        ({"seed": -1}, "^seed must be at least 0, not -1"),
        ({"tokenizer": "letter"}, "^tokenizer must be one of char, word, bpe, not 'letter'"),
        ({"source_tokenizer": "phone"}, "^source_tokenizer must be one of char, word, bpe, not 'phone'"),
        ({"target_tokenizer": "bpe", "vocabulary_size": 99}, "between 260, for the tokenizer 'bpe', and"),
        ({"validation_share": 0.0}, "^validation_share must be above 0 and below 1, not 0.0"),
        ({"test_share": float("nan")}, "^test_share must be above 0 and below 1, not nan"),
        ({"validation_share": 0.5, "test_share": 0.5}, "0.5 and test_share 0.5 leave nothing to train on"),
        (
            {"vocabulary_size": 3},
            "^vocabulary_size must be between 5, for the tokenizer 'word', and .*, not 3",
        ),
    ],
)
def test_settings_out_of_range(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BidibeamError, match=message):
        settings(**changes)


def test_a_large_vocabulary_takes_wider_tokens(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(70_000)]
    extra = [[" ".join(words[i : i + 40]), "Yes."] for i in range(0, len(words), 40)]

    data = make(tmp_path, extra=extra, vocabulary_size=70_000)

    assert data.tokenizer.vocabulary_size > 2**16
    assert data.split("train").tokens.dtype == np.int32


def test_data_that_another_process_is_preparing_are_left_to_it(tmp_path: Path) -> None:
    source = tmp_path / "pairs.tsv"
    source.write_text("".join(f"a {number}\tb\n" for number in range(200)))
    chosen, out = PrepareSettings(corpus="tsv", test_share=0.2, validation_share=0.2), tmp_path / "out"

    with alone_in(out, "preparing data in"), pytest.raises(RunError, match="Another process is preparing"):
        prepare(chosen, source, out)
    prepare(chosen, source, out)
