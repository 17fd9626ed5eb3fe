"""Corpora to prepare, and what is read back."""

from __future__ import annotations

import io
import json
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from bidibeam.data.conversations import Conversation
from bidibeam.data.corpora import CORPORA
from bidibeam.data.prepare import PrepareSettings
from bidibeam.data.prepared import PreparedData

WORDS = ["tea", "coffee", "please", "no", "yes", "why", "not", "here", "there", "now"]


def corpus(
    path: Path, *, count: int = 300, extra: list[list[str]] | None = None, shuffle: int | None = None
) -> Path:
    """Conversations of six turns, each a few words that follow from its number."""
    conversations = []
    for number in range(count):
        chosen = random.Random(number)
        conversations.append(
            [" ".join(chosen.choices(WORDS, k=chosen.randint(1, 6))).capitalize() + "." for _ in range(6)]
        )
    lines = [
        json.dumps({"messages": [{"role": "ab"[i % 2], "content": text} for i, text in enumerate(turns)]})
        for turns in [*conversations, *(extra or [])]
    ]
    if shuffle is not None:
        random.Random(shuffle).shuffle(lines)
    path.write_text("\n".join(lines))
    return path


def settings(**changes: Any) -> PrepareSettings:
    return PrepareSettings(**{"corpus": "jsonl", **changes})


def pair_texts(data: PreparedData, split: str) -> list[tuple[str, str]]:
    pairs = data.split(split)
    read = []
    for i in range(len(pairs)):
        source = pairs.tokens[pairs.source_start[i] : pairs.source_start[i] + pairs.source_length[i]]
        response = pairs.tokens[pairs.response_start[i] : pairs.response_start[i] + pairs.response_length[i]]
        read.append(
            tuple(data.tokenizer.text(data.tokenizer.tokens(ids.tolist())) for ids in (source, response))
        )
    return read  # type: ignore[return-value]


def read(corpus: str, path: Path | None, **languages: str) -> list[Conversation]:
    return list(CORPORA.create(corpus, **languages).read(path))


def make_folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "folder" / name).write_bytes(content)
    return path / "folder"


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path / "files.zip", "w") as archive:
        archive.writestr("a/", b"")
        for name, content in files.items():
            archive.writestr(name, content)
    return path / "files.zip"


def make_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path / "files.tar.xz", "w:xz") as tape:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            tape.addfile(member, io.BytesIO(content))
    return path / "files.tar.xz"
