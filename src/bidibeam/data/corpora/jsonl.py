"""Your own conversations or pairs, one JSON object per line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bidibeam.data.conversations import Conversation, Utterance, tidy
from bidibeam.data.corpora.files import CorpusReader, hash_texts, make_pair, missing_references
from bidibeam.data.splits import find_split
from bidibeam.errors import CorpusError
from bidibeam.files import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bidibeam.data.corpora.files import Line

SHAPES = (
    'lines of {"messages": [{"role", "content"}]}, {"source", "response"} or {"source", "references": [...]}'
)


class JsonlReader(CorpusReader):
    """Conversations as messages, or ready pairs.

    An `"id"` keeps a conversation's place in the splits when its text changes, and ties together lines that
    share it; without one, the id follows from the text, that of a pair from its source. A `"split"` goes over
    the name of the file. System messages are instructions, not dialogue, and are left out.
    """

    name = "jsonl"
    expected = f"a .jsonl file of {SHAPES}, or the folder or archive that holds such files"
    shapes = SHAPES
    source_key = "source"
    references_key = "references"

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields conversations from `source`: a file, plain, .gz or .xz, or a folder or archive of them."""
        for line in self.read_lines(source, ".jsonl"):
            try:
                fields = _parse_object(line.text)
                line = replace(line, split=self._read_split(fields, line))
                conversation = self._parse(fields)
            except _MissingReferencesError as error:
                if line.split not in ("", "train"):
                    raise missing_references(line, str(error)) from error
                self.line_errors.reject(line, str(error))
            except (ValueError, TypeError) as error:
                self.line_errors.reject(line, str(error))
            else:
                yield replace(conversation, split=line.split)

    def _read_split(self, fields: dict[str, Any], line: Line) -> str:
        if fields.get("split") is None:
            return line.split
        split = find_split(_check_string(fields["split"], "split"))
        if not split:  # the line may be one of those that are measured on
            raise CorpusError(
                f"Line {line.number} of {line.file} has the split {fields['split']!r}, which is none. Write "
                "train, validation or test."
            )
        if line.file not in self.splits.setdefault(split, []):
            self.splits[split].append(line.file)
        return split

    def _parse(self, fields: dict[str, Any]) -> Conversation:
        identifier = fields.get("id")
        if "messages" in fields:
            utterances = tuple(_parse_messages(fields["messages"]))
            if identifier is None:
                identifier = hash_texts(utterance.text for utterance in utterances)
            return Conversation(str(identifier), utterances)
        if self.source_key not in fields:
            raise ValueError(f"not one of {self.shapes}")
        source = _check_string(fields[self.source_key], self.source_key)
        pair = make_pair(source, *self._parse_references(fields))
        return pair if identifier is None else replace(pair, id=str(identifier), is_lone=False)

    def _parse_references(self, fields: dict[str, Any]) -> list[str]:
        key = self.references_key
        given = {
            name: fields[name] for name in ("response", "reference", key) if fields.get(name) is not None
        }
        if not given:
            raise _MissingReferencesError(f"neither response nor {key}")
        several = given.pop(key, [])
        if not isinstance(several, list):
            raise TypeError(f"{key} is not a list")
        texts = [_check_string(text, f"one of {key}") for text in several]
        alone = {tidy([_check_string(text, name)]): text for name, text in given.items()}
        known = {tidy([text]) for text in texts}
        texts = [*(text for tidied, text in alone.items() if tidied not in known), *texts]
        if not given and not any(map(str.strip, texts)):
            raise _MissingReferencesError(f"{key} is empty")
        return texts


class _MissingReferencesError(ValueError):
    """A source without references."""


def _parse_object(text: str) -> dict[str, Any]:
    fields = parse_json(text)
    if not isinstance(fields, dict):
        raise TypeError("not a JSON object")
    return fields


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
