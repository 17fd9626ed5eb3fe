"""Your own conversations or pairs, one JSON object a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.lines import LineErrors, content_id
from bidibeam.data.corpora.sources import opened, required
from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHAPES = 'lines of {"messages": [{"role", "content"}]} or {"source", "response"}'
EXPECTED = f"a .jsonl file of {SHAPES}, or the folder or archive that holds such files"


class JsonlReader:
    """Conversations as messages, or ready pairs.

    An `"id"` keeps a conversation's place in the splits when its text changes, and ties together lines that
    share it; without one, the id follows from the text. System messages are instructions, not dialogue, and
    are left out.
    """

    def __init__(self) -> None:
        self.lines = LineErrors()

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yield conversations from `source`: a file, plain, .gz or .xz, or a folder or archive of them."""
        path = required(source, "jsonl", EXPECTED)
        with opened(path) as files:
            single = path.is_file() and len(files) == 1
            chosen = [file for file in files if single or file.name.endswith(".jsonl")]
            if not chosen:
                raise CorpusError(f"{path} holds no .jsonl file: the corpus 'jsonl' is read from {EXPECTED}.")
            for file in chosen:
                with file.open() as stream:
                    for line in self.lines.read(file.path, stream):
                        try:
                            conversation = _parse(line.text)
                        except (ValueError, TypeError, RecursionError) as error:
                            self.lines.reject(line, str(error))
                            continue
                        yield conversation
        self.lines.check()


def _parse(text: str) -> Conversation:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise TypeError("not a JSON object")
    if "messages" in fields:
        utterances = tuple(_messages(fields["messages"]))
    elif "source" in fields and "response" in fields:
        utterances = tuple(Utterance(name, _string(fields[name], name)) for name in ("source", "response"))
    else:
        raise ValueError(f"not one of {SHAPES}")
    identifier = fields.get("id")
    if identifier is None:
        identifier = content_id(utterance.text for utterance in utterances)
    return Conversation(str(identifier), utterances)


def _messages(messages: Any) -> Iterator[Utterance]:
    if not isinstance(messages, list):
        raise TypeError("messages is not a list")
    for message in messages:
        if not isinstance(message, dict) or "role" not in message or "content" not in message:
            raise ValueError("a message without role and content")
        role, content = _string(message["role"], "role"), _string(message["content"], "content")
        if role != "system":
            yield Utterance(role, content)


def _string(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value
