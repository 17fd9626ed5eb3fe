from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.convokit import ConvokitReader, Reply, order_branches
from bidibeam.errors import CorpusError


def line(identifier: str, reply_to: str | None, text: str = "", **fields: Any) -> dict[str, Any]:
    spoken = {"speaker": f"s{identifier}", "text": text or f"text {identifier}", "conversation_id": "c"}
    return {"id": identifier, "reply-to": reply_to, **spoken, **fields}


def write(folder: Path, lines: list[dict[str, Any]]) -> Path:
    path = folder / "utterances.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines), encoding="utf-8")
    return path


def ids(branches: list[list[Reply]]) -> list[str]:
    return ["".join(reply.id for reply in branch) for branch in branches]


def replies(*links: tuple[str, str | None]) -> list[Reply]:
    return [Reply(identifier, reply_to, Utterance("s", "")) for identifier, reply_to in links]


def test_a_conversation_listed_backwards_is_put_in_order(tmp_path: Path) -> None:
    lines = [line("3", "2"), line("2", "1"), line("1", None), line("9", None, conversation_id="d")]

    read = list(ConvokitReader().read(write(tmp_path, lines)))

    assert [[said.text for said in conversation.utterances] for conversation in read] == [
        ["text 1", "text 2", "text 3"],
        ["text 9"],
    ]


def test_the_older_field_names_and_nested_speakers(tmp_path: Path) -> None:
    old = {"id": 1, "root": 7, "user": "ann", "reply_to": None, "text": "Hi"}
    nested = {"id": 2, "root": 7, "speaker": {"id": "bob"}, "reply_to": 1, "text": None}

    read = list(ConvokitReader().read(write(tmp_path, [old, nested])))

    assert read == [Conversation("7", (Utterance("ann", "Hi"), Utterance("bob", "")))]


def test_found_in_a_folder_and_in_the_distributed_zip(tmp_path: Path) -> None:
    path = write(tmp_path, [line("1", None)])
    with zipfile.ZipFile(tmp_path / "movie-corpus.zip", "w") as archive:
        archive.write(path, "movie-corpus/utterances.jsonl")
        archive.writestr("movie-corpus/speakers.json", "{}")

    from_folder = list(ConvokitReader().read(tmp_path))

    assert from_folder == list(ConvokitReader().read(tmp_path / "movie-corpus.zip"))
    assert from_folder == list(ConvokitReader().read(path))


@pytest.mark.parametrize(
    ("links", "branches"),
    [
        ([("a", None), ("b", "a"), ("c", "a"), ("d", "b"), ("e", "c")], ["abd", "ace"]),  # each is read once
        ([("b", None), ("a", None)], ["ba"]),  # without replies the file order stands
        ([("b", "gone"), ("c", "b")], ["bc"]),  # a reply to something absent starts a conversation
        ([("a", None), ("x", "y"), ("y", "x")], ["a"]),  # a circle ends
    ],
)
def test_branches_are_put_in_order(links: list[tuple[str, str | None]], branches: list[str]) -> None:
    assert ids(order_branches(replies(*links))) == branches


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_a_chain_comes_out_in_order_however_it_is_shuffled(length: int, random: Any) -> None:
    names = [chr(97 + index) for index in range(length)]
    chain = replies(*zip(names, [None, *names], strict=False))
    random.shuffle(chain)

    assert ids(order_branches(chain)) == ["".join(names)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", r"not JSON: Expecting property name .* at column 2"),
        ('{"id": 1, "speaker": "s", "root": 1}', r"no field text"),
        ('{"id": 1, "text": "t", "root": 1}', r"no field speaker or user"),
        ('{"id": 1, "text": "t", "speaker": "s"}', r"no field conversation_id or root"),
        ('{"id": 1, "text": 5, "speaker": "s", "root": 1}', r"the text is not a string"),
        ("[1]", r".*list.*"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "utterances.jsonl").write_text(text)

    with pytest.raises(CorpusError, match=rf"line 1 of utterances\.jsonl \({reason}\)"):
        list(ConvokitReader().read(tmp_path))


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"holds no utterances\.jsonl: the corpus 'convokit' is read from"):
        list(ConvokitReader().read(tmp_path))
