"""Official splits and those by hash, items with several references, and what training knows of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.conversations import Pair
from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import PreparedData
from bidibeam.data.splits import find_split, split_pairs
from bidibeam.errors import CorpusError, SettingsError
from tests.unit.data.made_corpora import pair_texts, settings

SHARES: dict[str, Any] = {"validation_share": 0.01, "test_share": 0.02}
PIECES: dict[str, Any] = {"tokenizer": "bpe", "vocabulary_size": 300}  # which know every text
NAMES = ("train", "validation", "test")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        *(
            (name, "train")
            for name in ("train", "training", "Train", "train-00001-of-2", "train.lc", "train2")
        ),
        *((name, "validation") for name in ("validation", "valid", "val", "dev", "dev_clean", " val ")),
        ("test\ud800", "test?"),
        *(
            (name, name)
            for name in (
                "test",
                "test_2016_flickr",
                "test-other",
                "test2018",
                "testA".lower(),
                "tests",
                "devtest",
            )
        ),
        *((name, "") for name in ("", "trains", "value", "devices", "validate", "mytrain")),
    ],
)
def test_names_of_splits(name: str, split: str) -> None:
    assert find_split(name) == split


def write_tsv(folder: Path, **files: Sequence[Sequence[str]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, pairs in files.items():
        (folder / f"{name}.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs))
    return folder


def number(count: int, word: str = "tea") -> list[tuple[str, ...]]:
    return [(f"{word} {place} ?", f"yes {place}") for place in range(count)]


def make(tmp_path: Path, corpus: str = "tsv", **changes: Any) -> PreparedData:
    return prepare(PrepareSettings(corpus=corpus, **changes), tmp_path / "c", tmp_path / "out")


def texts(data: PreparedData, split: str) -> list[tuple[str, list[str]]]:
    return [(each["source"], each["references"]) for each in data.examples(split)]


def test_a_sample_is_spread_over_the_split_in_its_order(tmp_path: Path) -> None:
    languages = [(f"{language} {place}", "x") for language in ("deu", "fin") for place in range(4)]
    write_tsv(tmp_path / "c", train=number(50), dev=languages, test=number(2, "coffee"))
    data = make(tmp_path)

    def sources(count: int | None) -> list[str]:
        return [item["source"] for item in data.sample("validation", count)]

    assert sources(4) == ["deu 0", "deu 2", "fin 0", "fin 2"]
    assert sources(3) == ["deu 0", "deu 2", "fin 1"]
    assert sources(None) == sources(8) == sources(9) == [source for source, _ in languages]


def test_official_splits_are_kept_in_their_order_with_their_names(tmp_path: Path) -> None:
    held_out = number(9, "coffee")[::-1]
    write_tsv(
        tmp_path / "c",
        train=number(50),
        dev=held_out[:4],
        test_a=held_out[4:6],
        test_b=held_out[6:],
        x=[("", "")],
    )

    data = make(tmp_path, **PIECES)

    assert data.info["pairs"] == {"train": 50, "validation": 4, "test": 5}
    assert texts(data, "validation") == [(source, [response]) for source, response in held_out[:4]]
    assert texts(data, "test") == [(source, [response]) for source, response in held_out[4:]]
    assert pair_texts(data, "test") == held_out[4:]
    assert data.test_sets == {"test_a": slice(0, 2), "test_b": slice(2, 5)}
    files = {"train": ["train.tsv"], "validation": ["dev.tsv"], "test": ["test_a.tsv", "test_b.tsv"]}
    assert data.statistics["splits"]["official"] == files
    assert data.info["items"] == data.info["pairs"]


def test_a_split_of_json_lines_goes_over_the_name_and_test_sets_are_put_together(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    places = ["train", "test-b", "dev", "test", None, "test-b", "test"]
    lines = [
        json.dumps({"source": f"tea {i} ?", "response": "yes", "split": place})
        for i, place in enumerate(places)
    ]
    (tmp_path / "c" / "all.jsonl").write_text("\n".join(lines))

    data = make(tmp_path, "jsonl")

    assert data.info["pairs"] == {"train": 2, "validation": 1, "test": 4}
    assert [source for source, _ in texts(data, "test")] == ["tea 1 ?", "tea 5 ?", "tea 3 ?", "tea 6 ?"]
    assert data.test_sets == {"test-b": slice(0, 2), "test": slice(2, 4)}


@pytest.mark.parametrize(
    ("given", "by_hash"), [(("dev",), ["test"]), (("test_x",), ["validation"]), ((), ["validation", "test"])]
)
def test_what_is_missing_is_taken_out_of_training_by_source(
    given: tuple[str, ...], by_hash: list[str], tmp_path: Path
) -> None:
    pairs = [(source, f"{response} {turn}") for source, response in number(200) for turn in range(2)]
    write_tsv(tmp_path / "c", train=pairs, **{name: number(7, "coffee") for name in given})

    data = make(tmp_path, keep_text=True)

    assert list(data.statistics["splits"]["official"]) == [name for name in NAMES if name not in by_hash]
    assert data.statistics["splits"]["by_hash_of"] == "sources"
    found = {split: {source for source, _ in texts(data, split)} for split in ("train", *by_hash)}
    assert sum(map(len, found.values())) == 200
    assert set.union(*found.values()) == {source for source, _ in pairs}
    assert data.test_sets == {"test": slice(0, len(list(data.examples("test"))))}


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xyz"), st.sampled_from(["", "1", "2", "3"])),
        min_size=12,
    ),
    st.integers(0, 9),
)
def test_by_hash_no_source_and_no_conversation_stands_in_two_splits(
    rows: list[tuple[str, str, str]], seed: int
) -> None:
    rows += [(source, "x", "") for source in "abc"]
    pairs = [
        Pair(identifier or f"lone {source}", 0, source, response, is_lone=not identifier)
        for source, response, identifier in rows
    ]

    split = split_pairs(pairs, split_by="conversation", seed=seed, **SHARES)

    found = list(zip(split.pairs, split.sets, split.items, strict=True))
    for places in (
        {(pair.source, name) for pair, name, _ in found if pair.is_lone},
        {(pair.conversation_id, name) for pair, name, _ in found},
    ):
        assert len(places) == len({key for key, _ in places})
    held_out = [(item, pair) for pair, name, item in found if name != "train"]
    assert len({(item, pair.response) for item, pair in held_out}) == len(held_out)
    lone = {(item, pair.source) for item, pair in held_out if pair.is_lone}
    assert len({item for item, _ in lone}) == len({source for _, source in lone}) == len(lone)
    training = [pair for pair, name, _ in found if name == "train"]
    trained = {pair.conversation_id for pair in training}
    assert len(training) == sum(pair.conversation_id in trained for pair in pairs)


def test_equal_sources_without_a_conversation_are_one_item_with_several_references(tmp_path: Path) -> None:
    held_out = [("read", "R IY D"), ("a", "AH"), ("read", "R EH D"), ("a", "AH"), ("a", "EY")]
    write_tsv(
        tmp_path / "c", train=[*number(9), ("tea 1 ?", "no")], dev=held_out, test=[*held_out, ("b", "B IY")]
    )

    data = make(tmp_path, **PIECES)

    assert texts(data, "test") == [("read", ["R IY D", "R EH D"]), ("a", ["AH", "EY"]), ("b", ["B IY"])]
    assert [each["reference"] for each in data.examples("test")] == ["R IY D", "AH", "B IY"]
    lines = [json.loads(line) for line in (data.path / "test.jsonl").read_text().splitlines()]
    assert [sorted(line) for line in lines] == [["id", "references", "source"]] * 2 + [
        ["id", "reference", "source"]
    ]
    assert len({line["id"] for line in lines}) == 3
    assert data.info["pairs"] == {"train": 10, "validation": 4, "test": 5}
    assert data.info["items"] == {"train": 10, "validation": 2, "test": 3}
    pairs = [(pair["source"], pair["reference"]) for pair in data.text_pairs("test")]
    assert pairs == pair_texts(data, "test")
    assert len(pairs) == 5


def test_equal_sources_of_conversations_stay_apart(tmp_path: Path) -> None:
    held_out = [("hi", "ho", "c1"), ("hi", "hey", "c1"), ("hi", "ho", "c2")]
    write_tsv(tmp_path / "c", train=number(9), dev=number(3, "coffee"), test=held_out)

    assert texts(make(tmp_path), "test") == [("hi", ["ho"]), ("hi", ["hey"]), ("hi", ["ho"])]


def test_references_of_json_lines_are_one_item_and_in_training_a_pair_each(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    for name, word in (("train", "tea"), ("valid", "coffee"), ("test", "milk")):
        lines = [
            {"source": word, "references": ["yes", "no", "yes"]},
            {"source": word, "references": ["oh"], "id": 1},
        ]
        (tmp_path / "c" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))

    data = make(tmp_path, "jsonl", keep_text=True)

    assert texts(data, "test") == [("milk", ["yes", "no"]), ("milk", ["oh"])]
    assert sorted(texts(data, "train")) == [("tea", [text]) for text in ("no", "oh", "yes", "yes")]
    assert data.info["pairs"] == {"train": 4, "validation": 3, "test": 3}


def test_a_response_beside_references_is_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    for name in ("train", "valid", "test"):
        lines = [
            {"source": name, "response": "red", "references": ["cat", "dog"]},
            {"source": f"{name} again", "reference": "cat ", "references": ["cat", "dog"]},
            {"source": f"{name} alone", "response": "cat", "reference": "cat", "references": None},
            {"source": f"{name} none", "response": None, "references": ["cat"]},
        ]
        (tmp_path / "c" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))

    data = make(tmp_path, "jsonl")

    assert [references for _, references in texts(data, "test")] == [
        ["red", "cat", "dog"],
        ["cat", "dog"],
        ["cat"],
        ["cat"],
    ]
    assert data.info["pairs"]["train"] == 7
    assert data.statistics["repeats"] == {"validation": 0, "test": 0}


def test_held_out_pairs_that_repeat_another_are_counted(tmp_path: Path) -> None:
    twice = [*number(3, "milk"), *number(2, "milk"), ("milk 0 ?", "no"), ("", "lost"), ("", "lost")]
    write_tsv(tmp_path / "c", train=number(50) * 2, dev=number(3, "coffee"), test=twice)

    data = make(tmp_path)

    assert data.statistics["repeats"] == {"validation": 0, "test": 2}
    assert data.info["pairs"] == {"train": 100, "validation": 3, "test": 4}


def test_sources_of_a_test_set_that_validation_has_are_counted(tmp_path: Path) -> None:
    write_tsv(tmp_path / "c", train=number(50), dev=number(3, "MILK"), test=number(5, "milk"))

    assert make(tmp_path).statistics["leaks"]["test"] == {
        "shared": 0,
        "items": 5,
        "compared": "sources",
        "in_validation": 3,
    }


COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
FANCY = "\u201eJa\u201c \u2013 sagt\u2019s\u2026"


@pytest.mark.parametrize("kind", ["char", "word", "bpe"])
def test_texts_are_composed_so_that_a_reply_can_equal_them(kind: str, tmp_path: Path) -> None:
    for name in ("train", "dev", "test"):
        write_tsv(tmp_path / "c", **{name: [(f"{name} {DECOMPOSED}", DECOMPOSED)] * 3})

    data = make(tmp_path, tokenizer=kind, cased=True, vocabulary_size=300)

    assert texts(data, "test") == [(f"test {COMPOSED}", [COMPOSED])]
    assert data.statistics["rewritten"]["test"] == {"count": 0, "references": 1}
    assert data.tokenizer.text(data.tokenizer.tokens(data.tokenizer.encode(DECOMPOSED))) == COMPOSED


@pytest.mark.parametrize(
    ("kind", "rewritten"),
    [
        ("word", {"count": 2, "references": 3, "first": [FANCY, '"ja" -- sagt\'s...']}),
        ("char", {"count": 1, "references": 3, "first": ["quiz", "<unk><unk>i<unk>"]}),
        ("bpe", {"count": 0, "references": 3}),
    ],
)
def test_references_that_a_tokenizer_writes_otherwise_are_counted(
    kind: str, rewritten: dict[str, Any], tmp_path: Path
) -> None:
    known = [("tea", FANCY), ("milk", "Ja sagt's")]
    test = [
        *((f"{source} ?", text) for source, text in known),
        ("juice", "qu\x01iz" if kind == "bpe" else "quiz"),
    ]
    write_tsv(tmp_path / "c", train=known, dev=[("oh", "ja")], test=test)

    data = make(tmp_path, tokenizer=kind, vocabulary_size=300)

    assert data.statistics["rewritten"] == {"validation": {"count": 0, "references": 1}, "test": rewritten}


def test_official_held_out_splits_keep_what_is_too_long_and_training_does_not(tmp_path: Path) -> None:
    long = [("tea " * 9, "no"), ("short", "no " * 9), ("", "lost")]
    write_tsv(tmp_path / "c", train=[*number(90), *long], test=[*number(2, "milk"), *long])

    data = make(tmp_path, max_source_length=5, max_response_length=5)

    assert [source for source, _ in texts(data, "test")] == [
        "milk 0 ?",
        "milk 1 ?",
        ("tea " * 9).strip(),
        "short",
    ]
    assert data.statistics["kept_though_too_long"] == {"validation": 0, "test": 2}
    assert data.statistics["dropped"]["test"] == {
        **dict.fromkeys(("empty_response", "source_too_long", "response_too_long"), 0),
        "empty_source": 1,
    }
    dropped = [data.statistics["dropped"][split] for split in ("train", "validation")]
    assert {
        name: sum(each[name] for each in dropped) for name in ("source_too_long", "response_too_long")
    } == {"source_too_long": 1, "response_too_long": 1}
    assert data.split("test").source_length.max() == 9


def test_a_limit_cuts_training_and_no_official_split(tmp_path: Path) -> None:
    write_tsv(tmp_path / "c", train=number(50), dev=number(9, "milk"), test=number(8, "coffee"))

    assert make(tmp_path, limit=10).info["pairs"] == {"train": 10, "validation": 9, "test": 8}


def test_sources_that_training_knows_are_counted(tmp_path: Path) -> None:
    train = [*number(50), ("Hi", "ho", "c1"), ("hi", "hey", "c2")]
    dialogue = [("HI", "ho", "d1"), ("hi", "hum", "d2"), ("oh", "ho", "d3")]
    write_tsv(
        tmp_path / "c",
        train=train,
        dev=number(3, "milk"),
        test_a=[*number(2, "TEA"), ("x", "y")],
        test_b=dialogue,
    )

    assert make(tmp_path).statistics["leaks"] == {
        "validation": {"shared": 0, "items": 3, "compared": "sources"},
        "test_a": {"shared": 2, "items": 3, "compared": "sources", "in_validation": 0},
        "test_b": {"shared": 1, "items": 3, "compared": "pairs", "in_validation": 0},
    }


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"test_a": number(2, "milk"), "test_b": number(5)},
            r"^Every source of the test set 'test_b' \(5\) also occurs in training, so it measures nothing",
        ),
        (
            {"train_b": [("tea", "milk", "1"), ("milk", "tea", "1")], "test": [("Tea", "milk", "2")]},
            r"^Every pair of the test set 'test' \(1\) also occurs in training, so it measures nothing",
        ),
        (
            {"test": []},
            r"^The test split is empty: test\.tsv holds no pair\. Take it away, or put pairs into it\.$",
        ),
        ({"valid": []}, r"^The validation split is empty: valid\.tsv holds no pair\."),
        ({"test": [("", ""), ("", "")]}, r"^The test split is empty: test\.tsv holds no pair\. Take it away"),
        ({"test": [("", "x")]}, r"^No pair is left in the test split \(dropped: empty_source 1\): raise"),
    ],
)
def test_splits_of_which_no_data_can_be_made(
    files: dict[str, list[tuple[str, ...]]], message: str, tmp_path: Path
) -> None:
    write_tsv(tmp_path / "c", train=number(50), **files)

    with pytest.raises(CorpusError, match=message):
        make(tmp_path)

    assert not (tmp_path / "out").exists()


def test_a_test_set_of_conversations_may_stand_in_training_but_for_one_pair(tmp_path: Path) -> None:
    pairs = [(*pair, f"c{place}") for place, pair in enumerate(number(50))]
    write_tsv(tmp_path / "c", train=pairs, test=[*pairs[:3], ("tea 0 ?", "no", "d")])

    leak = make(tmp_path).statistics["leaks"]["test"]
    assert leak == {"shared": 3, "items": 4, "compared": "pairs", "in_validation": 0}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            [{"source": "a", "response": "b", "split": name} for name in ("dev", "test")],
            r"^The train split is empty: every pair is in one of the others\.$",
        ),
        (
            [
                {"source": "a", "response": "b"},
                {"source": "A", "response": "c"},
                {"source": "d", "response": "e"},
            ],
            r"^2 sources cannot be split into train, validation, test: at least 3 are needed",
        ),
        (
            [{"source": "a", "response": "b", "split": name} for name in ("train", "test")],
            r"^1 sources cannot be split into train, validation: at least 2 are needed",
        ),
    ],
)
def test_json_lines_that_cannot_be_split(entries: list[dict[str, str]], message: str, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, entries)))

    with pytest.raises(CorpusError, match=message):
        prepare(settings(), tmp_path / "c.jsonl", tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"corpus": "tsv", "source_lang": "de"},
            r"^The corpus 'tsv' takes no source_lang, but was given 'de'\.$",
        ),
        (
            {"corpus": "inflection", "source_lang": "deu", "target_lang": "de"},
            r"^The corpus 'inflection' takes no target_lang, but was given 'de'\.$",
        ),
        (
            {"corpus": "bitext", "source_lang": "de"},
            r"^The corpus 'bitext' needs target_lang: a language as its files end, such as en\.$",
        ),
        (
            {"corpus": "bitext", "source_lang": "de", "target_lang": "de"},
            r"^target_lang must be another language than source_lang, 'de', not 'de'\.$",
        ),
        (
            {"corpus": "bitext", "source_lang": "../de", "target_lang": "en"},
            r"^source_lang must be a language as files end, such as de, not '\.\./de'\.$",
        ),
    ],
)
def test_languages_that_a_corpus_cannot_be_read_in(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        PrepareSettings(**changes)


def test_bitext_becomes_data(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    for name, count in (("train", 9), ("val", 2), ("test_x", 3)):
        for language, word in (("de", "ja"), ("en", "yes")):
            lines = [f"{name} {word} {place}" if place else "" for place in range(count)]
            (tmp_path / "c" / f"{name}.{language}").write_text("\n".join(lines) + "\n")

    data = make(tmp_path, "bitext", source_lang="en", target_lang="de")

    assert texts(data, "test") == [(f"test_x yes {place}", [f"test_x ja {place}"]) for place in (1, 2)]
    assert data.statistics["dropped"]["train"]["empty_source"] == 1
    assert data.info["settings"]["source_lang"] == "en"


def test_data_of_an_earlier_version_have_one_test_set() -> None:
    data = PreparedData.open(Path(__file__).parents[2] / "golden" / "data" / "old_data")

    assert data.test_sets == {"test": slice(0, len(list(data.examples("test"))))}
