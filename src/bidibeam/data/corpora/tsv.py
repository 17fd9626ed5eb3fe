"""Your own pairs, tab-separated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.files import CorpusReader, make_pair

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXPECTED = (
    "a .tsv file of lines source<TAB>response or source<TAB>response<TAB>conversation id, "
    "or the folder or archive that holds such files"
)
HEADS = frozenset({"source", "response", "target", "reference", "src", "tgt", "input", "output"})
"""What columns are called."""


class TsvReader(CorpusReader):
    """One pair a line, without a header and without quoting.

    An optional third column names the conversation: lines that share it stay on one side of a split.
    Without it each pair stands alone, and its id follows from its source.
    """

    name = "tsv"
    expected = EXPECTED

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields a conversation a line from `source`, a file (also .gz or .xz) or what holds several."""
        for line in self.read_lines(source, ".tsv", ".txt"):
            fields = line.text.split("\t")
            if line.number == 1 and {field.strip().casefold() for field in fields[:2]} <= HEADS:
                self.line_errors.reject(line, "a header, where each line must be a pair")
            elif len(fields) not in (2, 3):
                self.line_errors.reject(line, f"{len(fields)} fields instead of 2 or 3")
            elif len(fields) == 3 and fields[2].strip():
                said = Utterance("source", fields[0]), Utterance("response", fields[1])
                yield Conversation(fields[2].strip(), said, split=line.split)
            else:
                yield make_pair(*fields[:2], split=line.split)
