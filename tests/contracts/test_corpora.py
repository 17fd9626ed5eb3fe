"""What holds for every corpus reader; one that is registered is tested by being registered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

import pytest

from bidibeam.data.conversations import SPLITS, Pair, turn_pairs
from bidibeam.data.corpora import CORPORA
from bidibeam.data.corpora.files import CorpusReader
from bidibeam.data.splits import split_of
from bidibeam.errors import CorpusError

SAID = ["Tea?", "Yes, please.", "Here."]
BAD = "not|what\u00e9ver was +++$+++ expected"


def chitchat(folder: Path, bad: int) -> Path:
    turns: list[object] = [[{"text": text}] for text in SAID]
    return write(folder / "dataset.json", json.dumps({"c": {"messages": turns + [BAD] * bad}}))


def cornell(folder: Path, bad: int) -> Path:
    lines = [f"L{i} +++$+++ u{i % 2} +++$+++ m0 +++$+++ A +++$+++ {text}" for i, text in enumerate(SAID)]
    write(folder / "movie_conversations.txt", "u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L0', 'L1', 'L2']")
    write(folder / "movie_lines.txt", "\n".join(lines + [BAD] * bad))
    return folder


def convokit(folder: Path, bad: int) -> Path:
    lines = [
        json.dumps({"id": i, "root": 0, "speaker": i % 2, "reply-to": i - 1 if i else None, "text": text})
        for i, text in enumerate(SAID)
    ]
    return write(folder / "utterances.jsonl", "\n".join(lines + [BAD] * bad))


def swda(folder: Path, bad: int) -> Path:
    lines = [f"{'AB'[i % 2]}|{text}|sd" for i, text in enumerate(SAID)]
    return write(folder / "2005.txt", "\n".join(lines + [BAD] * bad))


def jsonl(folder: Path, bad: int) -> Path:
    line = json.dumps({"messages": [{"role": str(i % 2), "content": text} for i, text in enumerate(SAID)]})
    return write(folder / "c.jsonl", "\n".join([line] + [BAD] * bad))


def tsv(folder: Path, bad: int) -> Path:
    lines = ["Tea?\tYes, please.\tc", "Yes, please.\tHere.\tc"]
    return write(folder / "c.tsv", "\n".join(lines + [BAD] * bad))


def cmudict(folder: Path, bad: int) -> Path:
    lines = [f"{source}\t{response}" for source, response in pairwise(SAID)]
    write(folder / "train.tsv", "\n".join(lines + [BAD] * bad))
    return folder


def bitext(folder: Path, bad: int) -> Path:
    (folder / "train.de").write_bytes("\n".join(SAID[:-1]).encode() + b"\nb\xe9d" * bad)
    write(folder / "train.en", "\n".join(SAID[1:]) + "\n" * bad + "x" * (bad > 0))
    return folder


def multi30k(folder: Path, bad: int) -> Path:
    return bitext(folder, bad)


def inflection(folder: Path, bad: int) -> Path:
    lines = [f"{source}\t\t{response}" for source, response in pairwise(SAID)]
    write(folder / "deu.trn", "\n".join(lines + [BAD] * bad))
    return folder


def e2e(folder: Path, bad: int) -> Path:
    lines = [json.dumps({"mr": source, "refs": [response]}) for source, response in pairwise(SAID)]
    write(folder / "train.jsonl", "\n".join(lines + [BAD] * bad))
    return folder


def dailydialog(folder: Path, bad: int) -> Path:
    line = "".join(f"{text} __eou__ " for text in SAID)
    write(folder / "dialogues_train.txt", "\n".join([line] + [BAD] * bad))
    return folder


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


DIALOGUES = (chitchat, cornell, convokit, swda, jsonl, tsv, dailydialog)
LONE_PAIRS = (cmudict, bitext, multi30k, inflection, e2e)
WRITERS: dict[str, Callable[[Path, int], Path]] = {
    writer.__name__: writer for writer in (*DIALOGUES, *LONE_PAIRS)
}
EVERY = pytest.mark.parametrize("name", CORPORA.names())


def make_reader(name: str) -> CorpusReader:
    if name == "inflection":
        return CORPORA.create(name, "deu")
    return CORPORA.create(name, "de", "en") if name == "bitext" else CORPORA.create(name)


@EVERY
def test_a_small_dialogue_is_read(name: str, tmp_path: Path) -> None:
    reader = make_reader(name)

    pairs = [pair for said in reader.read(WRITERS[name](tmp_path, 0)) for pair in turn_pairs(said)]

    assert [(pair.source, pair.response) for pair in pairs] == list(pairwise(SAID))
    is_lone = name in {writer.__name__ for writer in LONE_PAIRS}
    assert len({pair.conversation_id for pair in pairs}) == 1 + is_lone
    assert {pair.is_lone for pair in pairs} == {is_lone}
    assert reader.line_errors.total > 0
    assert reader.line_errors.bad == 0


@EVERY
def test_malformed_lines_are_counted_and_stop_it(name: str, tmp_path: Path) -> None:
    reader = make_reader(name)

    with pytest.raises(CorpusError, match=r"^2 of \d+ lines \([\d.]+ %\) are malformed; 1 % may be\. The"):
        list(reader.read(WRITERS[name](tmp_path, 2)))

    assert reader.line_errors.bad == 2


@EVERY
def test_a_source_that_is_not_there_says_what_was_looked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=rf"^There is no .*nowhere: the corpus '{name}' is read from "):
        list(make_reader(name).read(tmp_path / "nowhere"))


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "path", "counts"),
    [
        ("chitchat", None, (7_168, 131_569, 131_548)),
        ("cornell", "cornell", (90_049, 213_077, 212_808)),
        ("swda", "swda/swda_text.tar.xz", (1_155, 98_914, 98_914)),
    ],
)
def test_real_corpora_have_so_many_conversations_and_pairs(
    name: str, path: str | None, counts: tuple[int, int, int]
) -> None:
    root = Path(os.environ.get("BIDIBEAM_TEST_DATA", "nowhere"))
    if path is not None and not (root / path).exists():
        pytest.skip(f"BIDIBEAM_TEST_DATA does not name a folder that holds {path}")

    conversations = list(CORPORA.create(name).read(None if path is None else root / path))

    pairs = [pair for said in conversations for pair in turn_pairs(said)]
    assert (
        len(conversations),
        len(pairs),
        sum(bool(pair.source and pair.response) for pair in pairs),
    ) == counts


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "archive", "languages", "items", "references"),
    [
        ("cmudict", "cmudict-g2p", (), (104_167, 2_670, 12_000), (110_643, 2_795, 12_753)),
        ("multi30k", "multi30k-de-en", (), (28_975, 1_014, 3_532), (29_000, 1_014, 3_532)),
        ("multi30k", "multi30k-de-en", ("en",), (28_991, 1_014, 3_532), (29_000, 1_014, 3_532)),
        ("inflection", "sigmorphon2023-inflection", ("deu",), (10_000, 1_000, 1_000), (10_000, 1_000, 1_000)),
        ("e2e", "e2e-nlg", (), (4_862, 547, 630), (42_061, 4_672, 4_693)),
        ("dailydialog", "dailydialog-multiref", (), (10_515, 1_000, 1_000), (71_290, 7_069, 33_700)),
    ],
)
def test_real_tasks_have_so_many_items_and_references(
    name: str,
    archive: str,
    languages: tuple[str, ...],
    items: tuple[int, int, int],
    references: tuple[int, int, int],
) -> None:
    """An item is a source, or a dialogue; the numbers are those of the data's own pages."""
    path = Path(os.environ.get("BIDIBEAM_TEST_DATA", "nowhere")) / "tasks" / f"{archive}.tar.xz"
    if not path.exists():
        pytest.skip(f"BIDIBEAM_TEST_DATA does not name a folder that holds tasks/{path.name}")
    found: dict[str, list[Pair]] = {split: [] for split in SPLITS}

    for conversation in CORPORA.create(name, *languages).read(path):
        found[split_of(conversation.split)] += turn_pairs(conversation)

    counted = [
        {(pair.split, pair.source) if pair.is_lone else pair.conversation_id for pair in found[each]}
        for each in SPLITS
    ]
    assert tuple(map(len, counted)) == items
    texts = (sum(1 + len(pair.alternatives) for pair in found[split]) for split in SPLITS)
    assert tuple(texts) == references


def test_egyptian_arabic_is_written_in_an_order_that_is_not_composed() -> None:
    path = (
        Path(os.environ.get("BIDIBEAM_TEST_DATA", "nowhere")) / "tasks" / "sigmorphon2023-inflection.tar.xz"
    )
    if not path.exists():
        pytest.skip(f"BIDIBEAM_TEST_DATA does not name a folder that holds tasks/{path.name}")
    conversations = CORPORA.create("inflection", "arz").read(path)
    forms = [each.utterances[-1].text for each in conversations if split_of(each.split) == "test"]

    assert sum(form != normalize("NFC", form) for form in forms) == 266  # as docs/which-strategy.md tells
    assert len(forms) == 1_000
