from __future__ import annotations

import gzip
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bidibeam.data.conversations import Conversation
from bidibeam.data.corpora.cornell import CornellReader
from bidibeam.errors import CorpusError

LINES = b"\n".join(
    [
        b"L1 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++ They do <u>not</u>!",
        b"L2 +++$+++ u2 +++$+++ m0 +++$+++ CAMERON +++$+++ They do\x85 to \x93caf\xe9s\x94 &amp; bars",
        b"L3 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++ ",
        b"L4 +++$+++ u2 +++$+++ m0 +++$+++ CAMERON +++$+++ na\xc3\xafve \x0c\x1c quiet",
        b"L5 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++ undefined \x81 byte",
        b"L6 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++",
        b"",
    ]
)
CONVERSATIONS = b"""u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L1', 'L2', 'L3']
u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L4', 'L5', 'L6']
"""
TEXTS = [
    ("u0", "They do not!"),
    ("u2", "They do… to “café" + "s” & bars"),
    ("u0", ""),
    ("u2", "naïve \x0c\x1c quiet"),
    ("u0", "undefined \x81 byte"),
    ("u0", ""),
]


def write(
    folder: Path, *, lines: bytes = LINES, conversations: bytes = CONVERSATIONS, ending: str = ""
) -> Path:
    compress: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
    folder.mkdir(exist_ok=True)
    (folder / f"movie_lines.txt{ending}").write_bytes(compress[ending](lines))
    (folder / f"movie_conversations.txt{ending}").write_bytes(compress[ending](conversations))
    return folder


def write_zip(folder: Path) -> Path:
    """As distributed: a nested folder whose name has a space, and what macOS adds."""
    nested = "cornell movie-dialogs corpus"
    with zipfile.ZipFile(folder / "corpus.zip", "w") as archive:
        archive.writestr(f"__MACOSX/{nested}/._movie_lines.txt", b"\0\5\26\7")
        archive.writestr(f"{nested}/movie_lines.txt", LINES)
        archive.writestr(f"{nested}/movie_conversations.txt", CONVERSATIONS)
    return folder / "corpus.zip"


def spoken(conversations: list[Conversation]) -> list[tuple[str, str]]:
    return [(said.speaker, said.text) for conversation in conversations for said in conversation.utterances]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zip"])
def test_the_official_files_however_packed(ending: str, tmp_path: Path) -> None:
    source = write_zip(tmp_path) if ending == ".zip" else write(tmp_path / "corpus", ending=ending)
    reader = CornellReader()

    conversations = list(reader.read(source))

    assert [conversation.id for conversation in conversations] == ["L1", "L4"]
    assert spoken(conversations) == TEXTS
    assert (reader.lines.total, reader.lines.bad) == (8, 0)


def test_a_few_bad_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    lines = LINES * 200 + b"L9 +++$+++ too few\n"
    conversations = CONVERSATIONS + b"u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L1', 'L9']\nonly one field\n"
    reader = CornellReader()

    read = list(reader.read(write(tmp_path, lines=lines, conversations=conversations)))

    assert [conversation.id for conversation in read] == ["L1", "L4"]
    assert reader.lines.bad == 3
    assert reader.lines.first == "line 1201 of movie_lines.txt (2 fields instead of 5): 'L9 +++$+++ too few'"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"u0 +++$+++ u2 +++$+++ ['L1']", r"3 fields instead of 4"),
        (b"u0 +++$+++ u2 +++$+++ m0 +++$+++ []", r"no line ids in the last field"),
        (b"u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L1', 'L77']", r"movie_lines\.txt has no line L77"),
    ],
)
def test_what_is_wrong_with_a_conversation_is_said(line: bytes, reason: str, tmp_path: Path) -> None:
    source = write(tmp_path, conversations=line)

    with pytest.raises(CorpusError, match=rf"line 1 of movie_conversations\.txt \({reason}\)"):
        list(CornellReader().read(source))


def test_absent_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"holds no movie_lines\.txt and movie_conversations\.txt: the"):
        list(CornellReader().read(tmp_path))
    (tmp_path / "movie_lines.txt").touch()
    with pytest.raises(CorpusError, match=r"holds no movie_conversations\.txt: the corpus 'cornell' is read"):
        list(CornellReader().read(tmp_path))
