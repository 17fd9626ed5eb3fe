"""Your own pairs, tab-separated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.lines import LineErrors, content_id
from bidibeam.data.corpora.sources import opened, required
from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXPECTED = (
    "a .tsv file of lines source<TAB>response or source<TAB>response<TAB>conversation id, "
    "or the folder or archive that holds such files"
)


class TsvReader:
    """One pair a line, without a header and without quoting.

    An optional third column names the conversation: lines that share it stay on one side of a split.
    Without it each pair stands alone, and its id follows from its text.
    """

    def __init__(self) -> None:
        self.lines = LineErrors()

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yield a conversation a line from `source`, a file (also .gz or .xz) or what holds several."""
        path = required(source, "tsv", EXPECTED)
        with opened(path) as files:
            single = path.is_file() and len(files) == 1
            chosen = [file for file in files if single or file.name.endswith((".tsv", ".txt"))]
            if not chosen:
                raise CorpusError(f"{path} holds no .tsv file: the corpus 'tsv' is read from {EXPECTED}.")
            for file in chosen:
                with file.open() as stream:
                    for line in self.lines.read(file.path, stream):
                        fields = line.text.split("\t")
                        if len(fields) not in (2, 3):
                            self.lines.reject(line, f"{len(fields)} fields instead of 2 or 3")
                            continue
                        identifier = fields[2].strip() if len(fields) == 3 else ""
                        yield Conversation(
                            identifier or content_id(fields[:2]),
                            (Utterance("source", fields[0]), Utterance("response", fields[1])),
                        )
        self.lines.check()
