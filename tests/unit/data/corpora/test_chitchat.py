from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.chitchat import ChitchatReader
from bidibeam.errors import CorpusError

TURNS = [[{"text": "Hello", "sender": "x"}, {"text": "Tea?", "sender": "x"}], [{"text": "Please é"}]]


def write(path: Path, conversations: Any) -> Path:
    (path / "dataset.json").write_text(json.dumps(conversations), encoding="utf-8")
    return path / "dataset.json"


@pytest.mark.parametrize("as_folder", [False, True])
def test_speakers_alternate_by_turn(as_folder: bool, tmp_path: Path) -> None:
    source = write(tmp_path, {"c1": {"messages": TURNS, "start": "2018"}})

    read = list(ChitchatReader().read(tmp_path if as_folder else source))

    said = (Utterance("A", "Hello"), Utterance("A", "Tea?"), Utterance("B", "Please é"))
    assert read == [Conversation("c1", said)]


def test_the_installed_corpus_is_the_default() -> None:
    first = next(ChitchatReader().read(None))

    assert first.id == "a07edb12-6b91-4138-b11e-02421888d699"
    assert first.utterances[:2] == (Utterance("A", "Hello"), Utterance("A", "How are you doing today?"))


def test_malformed_turns_are_counted(tmp_path: Path) -> None:
    source = write(tmp_path, {"c1": {"messages": [[{"no": "text"}], *TURNS * 10]}, "c2": 5})

    message = r"^2 of 22 lines .* line 1 of dataset.json, conversation c1 \(not a list"
    with pytest.raises(CorpusError, match=message):
        list(ChitchatReader().read(source))


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "dataset.json"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(CorpusError, match=r"json is not the JSON that chitchat-dataset ships \(.+\)\.$"):
        list(ChitchatReader().read(path))


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bidibeam.data.corpora.chitchat.find_spec", lambda _: None)

    with pytest.raises(CorpusError, match=r"not installed: pip install chitchat-dataset, or name a copy"):
        list(ChitchatReader().read(None))
