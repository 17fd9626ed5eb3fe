"""The BYU chit-chat corpus, which installs with bidibeam as the package `chitchat-dataset`."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.files import CorpusReader, Line
from bidibeam.errors import CorpusError
from bidibeam.files import UNPACKING_ERRORS, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_NAME = "dataset.json"


class ChitchatReader(CorpusReader):
    """Conversations between two people about anything; a turn is one or several messages.

    The package's own `Dataset` leaves its file open and reads it in the locale's encoding, so this opens
    the same file itself. "Lines" are turns here: the corpus is one JSON object.
    """

    name = "chitchat"
    expected = f"a file {FILE_NAME}"

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields conversations from `source`, a `dataset.json` or its folder, or from the package."""
        if source is None:
            package = find_spec("chitchat_dataset")
            if package is None or package.origin is None:
                raise CorpusError(
                    "The corpus 'chitchat' comes with the package chitchat-dataset, which is not installed: "
                    "pip install chitchat-dataset, or name a copy of its dataset.json as its source."
                )
            source = Path(package.origin).parent
        path = source / FILE_NAME if source.is_dir() else source
        if not path.is_file():
            raise self.miss(f"There is no {path}")
        try:
            conversations = read_json(path)
        except (ValueError, *UNPACKING_ERRORS) as error:
            raise CorpusError(f"{path} is not the JSON that chitchat-dataset ships ({error}).") from error
        for identifier, conversation in conversations.items():
            where = f"{path.name}, conversation {identifier}"
            yield Conversation(identifier, tuple(self._read_turns(conversation, where)))
        self.line_errors.check()

    def _read_turns(self, conversation: Any, where: str) -> Iterator[Utterance]:
        turns = conversation.get("messages") if isinstance(conversation, dict) else None
        for number, turn in enumerate(turns if isinstance(turns, list) else [None], start=1):
            self.line_errors.total += 1
            try:
                texts = [str(message["text"]) for message in turn]
            except (TypeError, KeyError):
                line = Line(where, number, json.dumps(turn))
                self.line_errors.reject(line, "not a list of messages with a text")
                continue
            for text in texts:
                yield Utterance("AB"[(number - 1) % 2], text)
