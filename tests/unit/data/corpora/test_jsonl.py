from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.jsonl import JsonlReader
from bidibeam.errors import CorpusError

MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Tea?"},
    {"role": "assistant", "content": "Yes\u2028please"},
]


def test_messages_and_pairs(tmp_path: Path) -> None:
    lines = [{"id": 7, "messages": MESSAGES}, {"source": "Hi", "response": "Hello", "id": "p"}]
    path = tmp_path / "mine.jsonl.gz"
    path.write_bytes(
        gzip.compress("\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode())
    )

    assert list(JsonlReader().read(path)) == [
        Conversation("7", (Utterance("user", "Tea?"), Utterance("assistant", "Yes\u2028please"))),
        Conversation("p", (Utterance("source", "Hi"), Utterance("response", "Hello"))),
    ]


def test_ids_follow_from_content_where_there_are_none(tmp_path: Path) -> None:
    one, two = (json.dumps({"source": "a", "response": response}) for response in "bc")
    (tmp_path / "x.jsonl").write_text(f"{one}\n{two}\n")
    (tmp_path / "y.jsonl").write_text(f"{two}\n{one}\n")

    x, y = (list(JsonlReader().read(tmp_path / name)) for name in ("x.jsonl", "y.jsonl"))

    assert x == y[::-1]
    assert x[0].id != x[1].id


def test_a_folder_gives_all_its_files(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "notes.md"):
        (tmp_path / name).write_text(json.dumps({"source": name, "response": "r"}))

    read = list(JsonlReader().read(tmp_path))

    assert [conversation.utterances[0].text for conversation in read] == ["a.jsonl", "b.jsonl"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "not a JSON object"),
        ("[" * 100_000, "maximum recursion depth"),
        ("{}", 'not one of lines of {"messages"'),
        ('{"messages": 5}', "messages is not a list"),
        ('{"messages": [{"role": "a"}]}', "a message without role and content"),
        ('{"messages": [{"role": "a", "content": []}]}', "content is not a string"),
        ('{"source": "a", "response": null}', "response is not a string"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f"\n{line}\n")

    with pytest.raises(CorpusError) as caught:
        list(JsonlReader().read(tmp_path / "x.jsonl"))

    assert f"The first is line 2 of x.jsonl ({reason}" in str(caught.value)


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        CorpusError, match=r"holds no \.jsonl file: the corpus 'jsonl' is read from a \.jsonl"
    ):
        list(JsonlReader().read(tmp_path))
