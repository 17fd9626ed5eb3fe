"""What holds for every corpus reader; one that is registered is tested by being registered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from bidibeam.data.conversations import turn_pairs
from bidibeam.data.corpora import CORPORA
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


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


WRITERS: dict[str, Callable[[Path, int], Path]] = {
    writer.__name__: writer for writer in (chitchat, cornell, convokit, swda, jsonl, tsv)
}
EVERY = pytest.mark.parametrize("name", CORPORA.names())


@EVERY
def test_a_small_dialogue_is_read(name: str, tmp_path: Path) -> None:
    reader = CORPORA.create(name)

    pairs = [pair for said in reader.read(WRITERS[name](tmp_path, 0)) for pair in turn_pairs(said)]

    assert [(pair.source, pair.response) for pair in pairs] == list(pairwise(SAID))
    assert len({pair.conversation_id for pair in pairs}) == 1
    assert reader.line_errors.total > 0
    assert reader.line_errors.bad == 0


@EVERY
def test_malformed_lines_are_counted_and_stop_it(name: str, tmp_path: Path) -> None:
    reader = CORPORA.create(name)

    with pytest.raises(CorpusError, match=r"^2 of \d+ lines \([\d.]+ %\) are malformed; 1 % may be\. The"):
        list(reader.read(WRITERS[name](tmp_path, 2)))

    assert reader.line_errors.bad == 2


@EVERY
def test_a_source_that_is_not_there_says_what_was_looked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=rf"^There is no .*nowhere: the corpus '{name}' is read from "):
        list(CORPORA.create(name).read(tmp_path / "nowhere"))


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
