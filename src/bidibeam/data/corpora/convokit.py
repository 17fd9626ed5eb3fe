"""Corpora in ConvoKit's format: one JSON object per utterance, in `utterances.jsonl`."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.files import CorpusReader, find_file
from bidibeam.files import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FILE_NAME = "utterances.jsonl"


@dataclass(frozen=True, slots=True)
class Reply:
    """An utterance, its id and the id of the one it answers."""

    id: str
    reply_to: str | None
    utterance: Utterance


class ConvokitReader(CorpusReader):
    """Any corpus that ConvoKit distributes; a conversation is put in order by who replies to what.

    Files do not always keep that order (the Cornell release lists conversations last utterance first). Where
    several utterances answer one, the first of them continues the conversation and each other starts a
    branch of the same id at the utterance it answers, so every reply is read exactly once.
    """

    name = "convokit"
    expected = f"{FILE_NAME}, or the folder or zip that holds it"

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields conversations from `source`, the file itself or what holds it."""
        replies: defaultdict[str, list[Reply]] = defaultdict(list)
        with self.open(source) as files:
            is_single = len(files) == 1 and source is not None and source.is_file()
            file = files[0] if is_single else find_file(files, FILE_NAME)
            if file is None:
                raise self.miss(f"{source} holds no {FILE_NAME}")
            for line in self.line_errors.read(file):
                try:
                    conversation, reply = _parse(line.text)
                except json.JSONDecodeError as error:
                    self.line_errors.reject(line, f"not JSON: {error.msg} at column {error.colno}")
                except KeyError as error:
                    self.line_errors.reject(line, f"no field {error.args[0]}")
                except (ValueError, TypeError, AttributeError) as error:
                    self.line_errors.reject(line, str(error))
                else:
                    replies[conversation].append(reply)
        for identifier, members in replies.items():
            for branch in order_branches(members):
                yield Conversation(identifier, tuple(reply.utterance for reply in branch))
        self.line_errors.check()


def order_branches(replies: Sequence[Reply]) -> list[list[Reply]]:
    """Returns the branches of a conversation as they were said; file order where nobody replies."""
    if all(reply.reply_to is None for reply in replies):
        return [list(replies)]
    by_id = {reply.id: reply for reply in replies}
    answers: defaultdict[str, list[Reply]] = defaultdict(list)
    for reply in replies:
        if reply.reply_to is not None:
            answers[reply.reply_to].append(reply)
    starts = [[reply] for reply in replies if reply.reply_to is None or reply.reply_to not in by_id]
    branches: list[list[Reply]] = []
    seen: set[str] = {branch[0].id for branch in starts}
    while starts:
        branch = starts.pop(0)
        while following := [reply for reply in answers[branch[-1].id] if reply.id not in seen]:
            seen.update(reply.id for reply in following)
            starts += [[branch[-1], other] for other in following[1:]]
            branch.append(following[0])
        branches.append(branch)
    return branches


def _parse(text: str) -> tuple[str, Reply]:
    """Returns the id of the conversation, and the reply; field names of older releases will do."""
    fields: dict[str, Any] = parse_json(text)
    speaker = _get_either(fields, "speaker", "user")
    if isinstance(speaker, dict):
        speaker = speaker["id"]
    reply_to = fields.get("reply-to", fields.get("reply_to"))
    spoken = fields["text"]
    if not isinstance(spoken, str) and spoken is not None:
        raise TypeError("the text is not a string")
    utterance = Utterance(str(speaker), spoken or "")
    reply = Reply(str(fields["id"]), None if reply_to is None else str(reply_to), utterance)
    return str(_get_either(fields, "conversation_id", "root")), reply


def _get_either(fields: dict[str, Any], name: str, older: str) -> Any:
    value = fields.get(name)
    value = fields.get(older) if value is None else value
    if value is None:
        raise KeyError(f"{name} or {older}")
    return value
