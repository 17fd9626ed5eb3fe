"""Readers of pairs with official splits, several references or two languages."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora import CORPORA
from bidibeam.data.corpora.files import make_pair
from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.errors import CorpusError
from tests.unit.data.made_corpora import make_folder, make_tar, make_zip, read


def test_a_pair_without_a_conversation_is_called_by_its_source() -> None:
    one, other, third = (make_pair(source, "Yes") for source in ("Tea  now?", "tea now?", "Tea then?"))

    assert one.id == other.id != third.id
    assert one.is_lone


def test_jsonl_with_references_and_splits(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [
        {"source": "Tea?", "references": ["Yes", "No"], "split": "dev"},
        {"source": "Tea?", "references": ["Yes", "No"], "split": "Test-b", "id": 5},
        {"messages": [{"role": "a", "content": "Hi"}], "id": "m", "split": None},
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, entries)))
    reader = CORPORA.create("jsonl")

    said = Utterance("source", "Tea?"), Utterance("response", "Yes")
    assert list(reader.read(tmp_path)) == [
        make_pair("Tea?", "Yes", "No", split="validation"),
        Conversation("5", said, ("No",), "test-b"),
        Conversation("m", (Utterance("a", "Hi"),), split="train"),
    ]
    assert reader.splits == {name: ["train.jsonl"] for name in ("train", "validation", "test-b")}


SPLIT_FILES = {
    "notes.txt": b"not of the corpus",
    "a/test_2016.tsv": b"w\tx\n",
    "a/Train-1.tsv": b"a\tb\n",
    "a/train-2.txt.gz": gzip.compress(b"c\td\n"),
    "a/valid.tsv": b"e\tf\n",
    "a/other.tsv": b"g\th\n",
    "b/test_2017.tsv.xz": lzma.compress(b"y\tz\n"),
}


@pytest.mark.parametrize("make", [make_folder, make_zip, make_tar])
def test_files_named_after_splits_are_read_and_no_others(make: Any, tmp_path: Path) -> None:
    reader = CORPORA.create("tsv")

    found = [(each.split, each.utterances[0].text) for each in reader.read(make(tmp_path, SPLIT_FILES))]

    assert found == [
        *(("train", "a"), ("test_2016", "w"), ("train", "c"), ("validation", "e"), ("test_2017", "y")),
    ]
    assert set(reader.splits) == {"train", "validation", "test_2016", "test_2017"}
    assert [Path(path).name for path in reader.splits["train"]] == ["Train-1.tsv", "train-2.txt.gz"]
    assert {Path(path).name for path in reader.unused} == {"other.tsv", "notes.txt"}


FOLDERS = {
    "mine/train/part-1.tsv": b"a\tb\n",
    "mine/train/part-2.tsv": b"c\td\n",
    "mine/valid/part-1.tsv": b"e\tf\n",
    "mine/test/easy.tsv.gz": gzip.compress(b"w\tx\n"),
    "mine/test/hard.tsv": b"y\tz\n",
}


@pytest.mark.parametrize("make", [make_folder, make_zip, make_tar])
def test_folders_named_after_splits_are_splits_where_files_are_not(make: Any, tmp_path: Path) -> None:
    reader = CORPORA.create("tsv")

    found = {each.utterances[0].text: each.split for each in reader.read(make(tmp_path, FOLDERS))}

    test = {"w": "test_easy", "y": "test_hard"}
    assert found == {"a": "train", "c": "train", "e": "validation", **test}


def test_a_folder_named_after_a_split_is_none_alone(tmp_path: Path) -> None:
    files = {"test-corpus/a.tsv": b"a\tb\n", "test-corpus/b.tsv": b"c\td\n"}

    assert [each.split for each in CORPORA.create("tsv").read(make_zip(tmp_path, files))] == ["", ""]


def test_held_out_files_without_one_for_training_are_refused_and_others_are_one_corpus(
    tmp_path: Path,
) -> None:
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text(f"{name}\tyes\n")
    reader = CORPORA.create("tsv")
    assert [each.split for each in reader.read(tmp_path)] == ["", ""]
    assert reader.splits == {}

    (tmp_path / "test.tsv").write_text("c\tno\n")
    with pytest.raises(
        CorpusError, match=r"^test\.tsv is named after a split, but no file is named train: name"
    ):
        list(CORPORA.create("tsv").read(tmp_path))
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).unlink()
    with pytest.raises(CorpusError, match=r"^test\.tsv is named after a split, but no file is named train"):
        list(CORPORA.create("tsv").read(tmp_path))
    assert [each.split for each in CORPORA.create("tsv").read(tmp_path / "test.tsv")] == [""]


def test_a_header_is_no_pair(tmp_path: Path) -> None:
    pairs = "".join(f"s{number}\tr{number}\n" for number in range(200))
    (tmp_path / "train.tsv").write_text(f"Source\tTarget\n{pairs}")
    reader = CORPORA.create("tsv")
    assert len(list(reader.read(tmp_path))) == 200
    assert reader.line_errors.first.startswith("line 1 of train.tsv (a header, where each line must be a p")

    (tmp_path / "test.tsv").write_text("src\ttgt\nz\tw\n")
    with pytest.raises(CorpusError, match=r"^Line 1 of test\.tsv cannot be used \(a header, where each line"):
        list(CORPORA.create("tsv").read(tmp_path))


def test_what_is_measured_on_must_be_whole(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"s{number}\tr{number}\n" for number in range(200)))
    (tmp_path / "dev.tsv").write_text("x\ty\n")
    (tmp_path / "test.tsv").write_text("z\tw\nalone\n")
    told = r"^Line 2 of test\.tsv cannot be used \(1 fields instead of 2 or 3\), and held-out files must be"
    with pytest.raises(CorpusError, match=told):
        list(CORPORA.create("tsv").read(tmp_path))

    (tmp_path / "test.tsv").write_text("z\tw\nalone\t\n")
    with pytest.raises(
        CorpusError, match=r"^The source 'alone' of the official test split has no reference: add"
    ):
        prepare(PrepareSettings("tsv"), tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_data_prepared_from_python_have_what_suits_their_corpus_and_what_is_given(tmp_path: Path) -> None:
    for split, words in (("train", "ab"), ("dev", "c"), ("test", "d")):
        (tmp_path / f"{split}.tsv").write_text("".join(f"{word.upper()}{word}\tAH0 B\n" for word in words))
    given = PrepareSettings.for_corpus("cmudict", max_response_length=20, target_tokenizer=None)

    data = prepare(PrepareSettings.for_corpus("cmudict"), tmp_path, tmp_path / "data")

    kinds = (data.source_tokenizer.kind, data.tokenizer.kind)
    assert (kinds, data.info["settings"]["max_response_length"]) == (("char", "word"), 40)
    assert data.tokenizer.text(["AH0", "B"]) == "AH0 B"
    assert (given.cased, given.max_response_length, given.target_tokenizer) == (True, 20, None)


def make_bitext(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def test_bitext_is_read_line_by_line_and_blank_lines_keep_their_place(tmp_path: Path) -> None:
    folder = make_bitext(
        tmp_path,
        train__de="\ufeffeins\n\nzwei\n \n",
        train__en="one\nnothing\ntwo\n\n",
        val__de="drei",
        val__en="three\n",
        test_a__de="vier\r\n",
        test_a__en="four\r\n",
        other__de="no",
    )
    (folder / "val.en.gz").write_bytes(gzip.compress((folder / "val.en").read_bytes()))
    (folder / "val.en").unlink()

    assert read("bitext", folder, source_lang="de", target_lang="en") == [
        make_pair("vier", "four", split="test_a"),
        make_pair("eins", "one", split="train"),
        make_pair("", "nothing", split="train"),
        make_pair("zwei", "two", split="train"),
        make_pair(" ", "", split="train"),
        make_pair("drei", "three", split="validation"),
    ]


def test_a_line_of_bitext_that_is_no_text_leaves_its_partner_alone(tmp_path: Path) -> None:
    (tmp_path / "x.de").write_bytes(b"b\xe9d\n" + b"gut\n" * 200)
    (tmp_path / "x.en").write_bytes(b"bad\n" + b"good\n" * 200)
    reader = CORPORA.create("bitext", "de", "en")

    found = list(reader.read(tmp_path))

    assert found[:2] == [make_pair("", "bad"), make_pair("gut", "good")]
    assert (reader.line_errors.total, reader.line_errors.bad) == (402, 1)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"train__de": "a\nb\nc\n", "train__en": "a\n"},
            r"^train\.de has 3 lines and train\.en 1, but each line needs a partner: line 2 of train\.de is",
        ),
        (
            {"train__de": "a\n", "train__en": "a\n\n"},
            r"^train\.de has 1 lines and train\.en 2, .* line 2 of train\.en is the first without one\.$",
        ),
        (
            {"train__de": "a\n"},
            r"^train\.de has no train\.en beside it, line for line\. Name the folder that holds both\.$",
        ),
        (
            {"train__de": "a\n", "train__en": "a\n", "val__en": "a\n"},
            r"^val\.en has no val\.de beside it, line for line\. Name the",
        ),
        (
            {"train__fr": "a\n"},
            r"holds no file that ends in \.de: the corpus 'bitext' is read from the folder",
        ),
    ],
)
def test_files_that_are_not_aligned_are_named(files: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=message):
        read("bitext", make_bitext(tmp_path, **files), source_lang="de", target_lang="en")


@pytest.mark.parametrize(
    ("languages", "pair"),
    [
        ({}, ("ja", "yes")),
        ({"source_lang": "en"}, ("yes", "ja")),
        ({"target_lang": "de"}, ("yes", "ja")),
        ({"source_lang": "fr"}, ("oui", "yes")),
        ({"source_lang": "de", "target_lang": "fr"}, ("ja", "oui")),
    ],
)
def test_multi30k_takes_raw_captions_in_either_direction(
    languages: dict[str, str], pair: tuple[str, str], tmp_path: Path
) -> None:
    texts = {"de": "ja", "en": "yes", "fr": "oui"}
    for language, text in texts.items():
        make_bitext(tmp_path, **{f"test_2016_flickr__{language}": text, f"train__{language}": text})
    make_bitext(tmp_path, train__lc__norm__tok__de="x", test_2016__1__en="x\nx")

    found = read("multi30k", tmp_path, **languages)

    assert found == [make_pair(*pair, split=split) for split in ("test_2016_flickr", "train")]


def test_inflection_has_features_before_the_lemma(tmp_path: Path) -> None:
    (tmp_path / "deu.trn").write_text("Aa machen\tV;IMP;NOM(2,PL)\tmacht Aa\n")
    (tmp_path / "deu.dev.gz").write_bytes(gzip.compress(b"gehen\tV;PST\tging\n"))
    (tmp_path / "deu.tst").write_text("sein\tV;PST\twar\nsein\tV;PST\tgewesen\n")
    (tmp_path / "fin.trn").write_text("x\ty\tz\n")
    reader = CORPORA.create("inflection", "deu")

    found = list(reader.read(tmp_path))

    assert found[:4] == [
        make_pair("V;IMP;NOM(2,PL) Aa machen", "macht Aa", split="train"),
        make_pair("V;PST gehen", "ging", split="validation"),
        make_pair("V;PST sein", "war", split="test"),
        make_pair("V;PST sein", "gewesen", split="test"),
    ]
    with pytest.raises(
        CorpusError, match=r"holds no xxx\.trn, but deu, fin: the corpus 'inflection' is read"
    ):
        read("inflection", tmp_path, source_lang="xxx")


def test_several_languages_of_inflection_are_read_together_each_its_own_test_set(tmp_path: Path) -> None:
    for language, form in (("fin", "x"), ("deu", "y")):
        for ending in (".trn", ".dev", ".tst"):
            (tmp_path / f"{language}{ending}").write_text(f"a\tN;PL\t{form}\n")

    found = read("inflection", tmp_path)

    assert found == [
        make_pair(f"{language} N;PL a", form, split=split)
        for language, form in (("deu", "y"), ("fin", "x"))
        for split in ("train", "validation", f"test_{language}")
    ]
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "deu.trn").write_text("b\tN;PL\ty\n")
    assert read("inflection", tmp_path) == found  # a language is read once, from the outermost folder
    for path in tmp_path.rglob("*.trn"):
        path.unlink()
    with pytest.raises(CorpusError, match=r"holds no LANGUAGE\.trn: the corpus 'inflection' is read from"):
        read("inflection", tmp_path)


def test_e2e_has_all_texts_of_a_meaning(tmp_path: Path) -> None:
    for name, texts in (("train", ["A.", "B."]), ("test", ["C."])):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"mr": "name[X]", "refs": texts}))

    assert read("e2e", tmp_path) == [
        make_pair("name[X]", "C.", split="test"),
        make_pair("name[X]", "A.", "B.", split="train"),
    ]


def make_dailydialog(folder: Path) -> Path:
    (folder / "dialogues_train.txt").write_text("Hi . __eou__ Ho . __eou__\nLeak __eou__ Leaked __eou__\n")
    (folder / "dialogues_validation.txt").write_text("A __eou__ B __eou__ C __eou__\n")
    (folder / "dialogues_test.txt").write_text("D __eou__ E __eou__\n")
    (folder / "train_clean_lines.txt").write_text("1\n")
    turns: list[dict[str, Any]] = [{"text": "D", "responses": ["e", "f"]}, {"text": "E"}]
    (folder / "multireftest.json").write_text(json.dumps({"fold": "test", "dialogue": turns}) + "\n")
    return folder


def test_dailydialog_with_and_without_its_additions(tmp_path: Path) -> None:
    folder = make_dailydialog(tmp_path)
    train = [
        Conversation("train-1", (Utterance("A", "Hi . "), Utterance("B", " Ho . ")), split="train"),
        Conversation("train-2", (Utterance("A", "Leak "), Utterance("B", " Leaked ")), split="train"),
    ]

    first, validation, test = read("dailydialog", folder)
    assert first == train[0]
    assert [said.speaker + said.text for said in validation.utterances] == ["AA ", "B B ", "A C "]
    assert test == Conversation("test-1", (Utterance("A", "D"), Utterance("B", "e")), ("f",), "test")
    for name in ("train_clean_lines.txt", "multireftest.json"):
        (folder / name).unlink()
    *both, _, test = read("dailydialog", folder)
    assert both == train
    assert test == Conversation("test-1", (Utterance("A", "D "), Utterance("B", " E ")), split="test")


def test_what_prepare_wrote_can_be_prepared_again(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"source": "a", "reference": "b"}\n')

    (pair,) = read("jsonl", tmp_path / "c.jsonl")

    assert [said.text for said in pair.utterances] == ["a", "b"]


def test_a_held_out_line_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tb\n" * 200)
    (tmp_path / "test.tsv").write_bytes(b"g\th\ncaf\xe9\tx\n")

    with pytest.raises(CorpusError, match=r"^Line 2 of test\.tsv cannot be used \(not utf-8 at byte 4\)"):
        list(read("tsv", tmp_path))


def test_dailydialogs_contractions_are_joined_in_sources_and_references(tmp_path: Path) -> None:
    folder = make_dailydialog(tmp_path)
    (folder / "dialogues_train.txt").write_text(
        "I \u2019 Ve said , don \u2019 t ! __eou__ 5 o ' clock ' the ' __eou__\n"
    )
    turns = [{"text": "It \u2019 s D", "responses": ["e ' s", "we 're", "f \u2019 ll go"]}]
    (folder / "multireftest.json").write_text(json.dumps({"dialogue": turns}) + "\n")

    train, _, test = read("dailydialog", folder)

    said = [utterance.text.strip() for utterance in train.utterances]
    assert said == ["I\u2019Ve said , don\u2019t !", "5 o'clock ' the '"]
    assert [each.text for each in test.utterances] == ["It\u2019s D", "e's"]
    assert test.alternatives == ("we 're", "f\u2019ll go")


@pytest.mark.parametrize(
    ("corpus", "files", "message"),
    [
        (
            "jsonl",
            {"train.jsonl": '{"source": "a", "response": "b"}', "test.jsonl": '{"source": "a"}'},
            r"^Line 1 of test\.jsonl has no references \(neither response nor references\), and each source",
        ),
        (
            "jsonl",
            {"x.jsonl": '\n{"source": "a", "references": [" "], "split": "dev"}'},
            r"^Line 2 of x\.jsonl has no references \(references is empty\), and .*: add them, or take the",
        ),
        (
            "e2e",
            {"train.jsonl": '{"mr": "a", "refs": ["b"]}', "dev.jsonl": '{"mr": "a", "refs": []}'},
            r"^Line 1 of dev\.jsonl has no references \(refs is empty\)",
        ),
        (
            "dailydialog",
            {
                "dialogues_train.txt": "a __eou__ b __eou__",
                "multireftest.json": '{"dialogue": [{"text": "a", "responses": []}]}',
            },
            r"^Line 1 of multireftest\.json has no references \(responses to 'a'\)",
        ),
    ],
)
def test_a_held_out_source_without_references_is_named(
    corpus: str, files: dict[str, str], message: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(CorpusError, match=message):
        read(corpus, tmp_path)
