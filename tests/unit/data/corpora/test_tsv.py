from __future__ import annotations

from pathlib import Path

import pytest

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.lines import content_id
from bidibeam.data.corpora.tsv import TsvReader
from bidibeam.errors import CorpusError


def test_a_pair_a_line_with_or_without_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text('Hi\tHello "you\r\nTea?\tYes\tdialogue 7\n', newline="")

    assert list(TsvReader().read(tmp_path)) == [
        Conversation(
            content_id(["Hi", 'Hello "you']), (Utterance("source", "Hi"), Utterance("response", 'Hello "you'))
        ),
        Conversation("dialogue 7", (Utterance("source", "Tea?"), Utterance("response", "Yes"))),
    ]


def test_a_line_of_other_fields_is_counted(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tb\nonly one\n")

    with pytest.raises(CorpusError, match=r"line 2 of x\.tsv \(1 fields instead of 2 or 3\): 'only one'"):
        list(TsvReader().read(tmp_path / "x.tsv"))


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"holds no \.tsv file: the corpus 'tsv' is read from a \.tsv file"):
        list(TsvReader().read(tmp_path))
