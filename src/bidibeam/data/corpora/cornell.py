"""The Cornell Movie-Dialogs Corpus in its official text files."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.files import CorpusReader, find_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bidibeam.data.corpora.files import SourceFile

LINES = "movie_lines.txt"
CONVERSATIONS = "movie_conversations.txt"
SEPARATOR = " +++$+++ "

MARKUP = re.compile(r"</?(?:u|i|b|pre)>", re.IGNORECASE)
LINE_ID = re.compile(r"'([^']*)'")


class CornellReader(CorpusReader):
    """Exchanges between film characters: Danescu-Niculescu-Mizil and Lee (2011).

    A conversation is called by its first line's id. Emphasis tags go, HTML entities become characters. A
    conversation that names a line that is not there counts as a bad line.
    """

    name = "cornell"
    expected = f"the folder or zip that holds {LINES} and {CONVERSATIONS}, plain, .gz or .xz"

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields conversations from the folder or archive `source`."""
        with self.open(source) as files:
            spoken, listed = find_file(files, LINES), find_file(files, CONVERSATIONS)
            if spoken is None or listed is None:
                absent = " and ".join(name for name in (LINES, CONVERSATIONS) if not find_file(files, name))
                raise self.miss(f"{source} holds no {absent}")
            yield from self._read_conversations(listed, self._read_utterances(spoken))
        self.line_errors.check()

    def _read_utterances(self, file: SourceFile) -> dict[str, Utterance]:
        utterances: dict[str, Utterance] = {}
        for line in self.line_errors.read(file, _decode):
            fields = line.text.split(SEPARATOR)
            if len(fields) == 4 and line.text.endswith(SEPARATOR.rstrip()):  # a line without text
                fields.append("")
            if len(fields) != 5:
                self.line_errors.reject(line, f"{len(fields)} fields instead of 5")
                continue
            utterances[fields[0].strip()] = Utterance(fields[1], html.unescape(MARKUP.sub("", fields[4])))
        return utterances

    def _read_conversations(
        self, file: SourceFile, utterances: dict[str, Utterance]
    ) -> Iterator[Conversation]:
        for line in self.line_errors.read(file, _decode):
            fields = line.text.split(SEPARATOR)
            ids = LINE_ID.findall(fields[3]) if len(fields) == 4 else []
            unknown = [identifier for identifier in ids if identifier not in utterances]
            if len(fields) != 4:
                self.line_errors.reject(line, f"{len(fields)} fields instead of 4")
            elif not ids:
                self.line_errors.reject(line, "no line ids in the last field")
            elif unknown:
                self.line_errors.reject(line, f"{LINES} has no line {unknown[0]}")
            else:
                yield Conversation(ids[0], tuple(utterances[identifier] for identifier in ids))


def _decode(raw: bytes) -> str:
    """The official files are Windows-1252 called latin-1; copies may be UTF-8, and rarely both fit."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("latin-1")
