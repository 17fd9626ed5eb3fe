"""Your own conversations or pairs, one JSON object per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.files import CorpusReader, hash_texts
from bidibeam.files import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHAPES = 'lines of {"messages": [{"role", "content"}]} or {"source", "response"}'


class JsonlReader(CorpusReader):
    """Conversations as messages, or ready pairs.

    An `"id"` keeps a conversation's place in the splits when its text changes, and ties together lines that
    share it; without one, the id follows from the text. System messages are instructions, not dialogue, and
    are left out.
    """

    name = "jsonl"
    expected = f"a .jsonl file of {SHAPES}, or the folder or archive that holds such files"

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields conversations from `source`: a file, plain, .gz or .xz, or a folder or archive of them."""
        for line in self.read_lines(source, ".jsonl"):
            try:
                conversation = _parse(line.text)
            except (ValueError, TypeError) as error:
                self.line_errors.reject(line, str(error))
            else:
                yield conversation


def _parse(text: str) -> Conversation:
    fields = parse_json(text)
    if not isinstance(fields, dict):
        raise TypeError("not a JSON object")
    if "messages" in fields:
        utterances = tuple(_parse_messages(fields["messages"]))
    elif "source" in fields and "response" in fields:
        keys = ("source", "response")
        utterances = tuple(Utterance(key, _check_string(fields[key], key)) for key in keys)
    else:
        raise ValueError(f"not one of {SHAPES}")
    identifier = fields.get("id")
    if identifier is None:
        identifier = hash_texts(utterance.text for utterance in utterances)
    return Conversation(str(identifier), utterances)


def _parse_messages(messages: Any) -> Iterator[Utterance]:
    if not isinstance(messages, list):
        raise TypeError("messages is not a list")
    for message in messages:
        if not isinstance(message, dict) or "role" not in message or "content" not in message:
            raise ValueError("a message without role and content")
        role, content = _check_string(message["role"], "role"), _check_string(message["content"], "content")
        if role != "system":
            yield Utterance(role, content)


def _check_string(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value
