"""Your own conversations and pairs, as JSON lines or tab-separated."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora import CORPORA
from bidibeam.data.corpora.files import hash_texts
from bidibeam.errors import CorpusError

MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Tea?"},
    {"role": "assistant", "content": "Yes\u2028please"},
]


def read(corpus: str, path: Path) -> list[Conversation]:
    return list(CORPORA.create(corpus).read(path))


def pair(identifier: str, source: str, response: str) -> Conversation:
    return Conversation(identifier, (Utterance("source", source), Utterance("response", response)))


def test_jsonl_messages_and_pairs(tmp_path: Path) -> None:
    lines = [{"id": 7, "messages": MESSAGES}, {"source": "Hi", "response": "Hello", "id": "p"}]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (tmp_path / "mine.jsonl.gz").write_bytes(gzip.compress(text.encode()))

    assert read("jsonl", tmp_path / "mine.jsonl.gz") == [
        Conversation("7", (Utterance("user", "Tea?"), Utterance("assistant", "Yes\u2028please"))),
        pair("p", "Hi", "Hello"),
    ]


def test_tsv_pairs_with_or_without_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text('Hi\tHello "you\r\nTea?\tYes\tdialogue 7\n', newline="")

    assert read("tsv", tmp_path) == [
        pair(hash_texts(["Hi", 'Hello "you']), "Hi", 'Hello "you'),
        pair("dialogue 7", "Tea?", "Yes"),
    ]


def test_ids_follow_from_content_where_there_are_none(tmp_path: Path) -> None:
    one, two = (json.dumps({"source": "a", "response": response}) for response in "bc")
    (tmp_path / "x.jsonl").write_text(f"{one}\n{two}\n")
    (tmp_path / "y.jsonl").write_text(f"{two}\n{one}\n")

    x, y = (read("jsonl", tmp_path / name) for name in ("x.jsonl", "y.jsonl"))

    assert x == y[::-1]
    assert x[0].id != x[1].id


def test_a_folder_gives_all_its_files(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "notes.md"):
        (tmp_path / name).write_text(json.dumps({"source": name, "response": "r"}))

    conversations = read("jsonl", tmp_path)

    assert [each.utterances[0].text for each in conversations] == ["a.jsonl", "b.jsonl"]


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("x.jsonl", "{", "Expecting property name"),
        ("x.jsonl", "[]", "not a JSON object"),
        ("x.jsonl", "[" * 100_000, "maximum recursion depth"),
        ("x.jsonl", "{}", 'not one of lines of {"messages"'),
        ("x.jsonl", '{"messages": 5}', "messages is not a list"),
        ("x.jsonl", '{"messages": [{"role": "a"}]}', "a message without role and content"),
        ("x.jsonl", '{"messages": [{"role": "a", "content": []}]}', "content is not a string"),
        ("x.jsonl", '{"source": "a", "response": null}', "response is not a string"),
        ("x.tsv", "only one", "1 fields instead of 2 or 3): 'only one'"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(name: str, line: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"\n{line}\n")

    with pytest.raises(CorpusError) as caught:
        read(name.removeprefix("x."), tmp_path / name)

    assert f"The first is line 2 of {name} ({reason}" in str(caught.value)


@pytest.mark.parametrize("corpus", ["jsonl", "tsv"])
def test_an_empty_folder_says_what_was_looked_for(corpus: str, tmp_path: Path) -> None:
    message = rf"holds no \.{corpus} file: the corpus '{corpus}' is read from a \.{corpus} file"
    with pytest.raises(CorpusError, match=message):
        read(corpus, tmp_path)
