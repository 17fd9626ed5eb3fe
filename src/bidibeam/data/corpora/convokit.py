"""Corpora in ConvoKit's format: one JSON object an utterance, in `utterances.jsonl`."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.lines import LineErrors
from bidibeam.data.corpora.sources import find, opened, required
from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FILE_NAME = "utterances.jsonl"
EXPECTED = f"{FILE_NAME}, or the folder or zip that holds it"


@dataclass(frozen=True, slots=True)
class Reply:
    """An utterance, its id and the id of the one it answers."""

    id: str
    reply_to: str | None
    utterance: Utterance


class ConvokitReader:
    """Any corpus that ConvoKit distributes; a conversation is put in order by who replies to what.

    Files do not always keep that order (the Cornell release lists conversations last utterance first). Where
    several utterances answer one, the first of them continues the conversation and each other starts a
    branch of the same id at the utterance it answers, so every reply is read exactly once.
    """

    def __init__(self) -> None:
        self.lines = LineErrors()

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yield conversations from `source`, the file itself or what holds it."""
        path = required(source, "convokit", EXPECTED)
        replies: defaultdict[str, list[Reply]] = defaultdict(list)
        with opened(path) as files:
            file = files[0] if path.is_file() and len(files) == 1 else find(files, FILE_NAME)
            if file is None:
                raise CorpusError(
                    f"{path} holds no {FILE_NAME}: the corpus 'convokit' is read from {EXPECTED}."
                )
            with file.open() as stream:
                for line in self.lines.read(file.path, stream):
                    try:
                        conversation, reply = _parse(line.text)
                    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                        self.lines.reject(line, _reason(error))
                        continue
                    replies[conversation].append(reply)
        for identifier, members in replies.items():
            for branch in ordered(members):
                yield Conversation(identifier, tuple(reply.utterance for reply in branch))
        self.lines.check()


def ordered(replies: Sequence[Reply]) -> list[list[Reply]]:
    """The branches of a conversation as they were said; file order where nothing says who answers."""
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
    fields: dict[str, Any] = json.loads(text)
    speaker = _first(fields, "speaker", "user")
    if isinstance(speaker, dict):
        speaker = speaker["id"]
    reply_to = fields.get("reply-to", fields.get("reply_to"))
    spoken = fields["text"]
    if not isinstance(spoken, str) and spoken is not None:
        raise TypeError("the text is not a string")
    return str(_first(fields, "conversation_id", "root")), Reply(
        str(fields["id"]), None if reply_to is None else str(reply_to), Utterance(str(speaker), spoken or "")
    )


def _first(fields: dict[str, Any], *names: str) -> Any:
    for name in names:
        if fields.get(name) is not None:
            return fields[name]
    raise KeyError(" or ".join(names))


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at column {error.colno}"
    return f"no field {error.args[0]}" if isinstance(error, KeyError) else str(error)
