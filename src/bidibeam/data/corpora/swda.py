"""The Switchboard Dialogue Act Corpus, in both forms it is passed around in."""

from __future__ import annotations

import csv
import re
from itertools import chain, count
from typing import TYPE_CHECKING

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.files import CorpusReader, Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bidibeam.data.corpora.files import SourceFile

EXPECTED = (
    "the folder, zip or tar of the CSV release (sw*.utt.csv) or of the text release (one .txt a conversation)"
)
COLUMNS = ("conversation_no", "act_tag", "caller", "text")
CONTINUATION, NON_VERBAL = "+", "x"

NUMBERED = re.compile(r"\d+\.txt")
NOTES = re.compile(r"<<?[^<>]*>>?|\*\[\[.*?\]\]|\*\w+")  # <laughter>, <<faint>>, *[[typo]], *typo
OPENED = re.compile(r"\{[A-Z]\s*")  # {F uh, } keeps "uh,"
REPAIRS = re.compile(r"[\[\]()}+#@^]|(?<!\w)-*/|-+/|(?<!\S)-+(?!\S)|/(?=\s|$)")  # [ I, + I ] and the end /
SPACE_BEFORE = re.compile(r"\s+(?=[,.?!;:])")
REPEATED_COMMA = re.compile(r",(?:\s*,)+|,\s*(?=[.?!])")


class SwdaReader(CorpusReader):
    """Telephone conversations, annotated by dialogue act: Jurafsky et al. (1997).

    The CSV release is read as the text release was made from it: annotation of disfluencies goes and the
    words stay, non-verbal rows go, and a row that continues an interrupted utterance joins it.
    """

    name = "swda"
    expected = EXPECTED

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields conversations from the folder or archive `source`."""
        with self.open(source) as files:
            tables = [file for file in files if file.name.endswith(".csv")]
            texts = [file for file in files if file.name.endswith(".txt")]
            texts = [file for file in texts if NUMBERED.fullmatch(file.name)] or texts
            read = [self._read_table(file) for file in tables] or [self._read_text(file) for file in texts]
            is_empty = True
            for conversation in chain.from_iterable(read):
                is_empty = False
                yield conversation
            self.line_errors.check()
            if is_empty:
                raise self.miss(f"{source} holds no conversation")

    def _read_text(self, file: SourceFile) -> Iterator[Conversation]:
        """Yields the conversation of `speaker|text|act` lines."""
        utterances = []
        for line in self.line_errors.read(file):
            fields = line.text.split("|")
            if len(fields) != 3:
                self.line_errors.reject(line, f"{len(fields)} fields instead of 3")
                continue
            utterances.append(Utterance(fields[0].strip(), fields[1]))
        if utterances:
            yield Conversation(file.name.removesuffix(".txt"), tuple(utterances))

    def _read_table(self, file: SourceFile) -> Iterator[Conversation]:
        """Yields the conversation of a CSV file; a file of other columns (the release has one) has none."""
        lines = self.line_errors.read(file)
        try:
            header = next(csv.reader(line.text for line in lines), [])
        except csv.Error as error:
            self.line_errors.reject(Line(file.path, 1, ""), str(error))
            return
        if not set(COLUMNS) <= set(header):
            return
        self.line_errors.total -= 1  # the header is not a line of the corpus
        rows = list(self._parse_rows(file, header, lines))
        spoken: list[Utterance] = []
        last: dict[str, int] = {}
        for _, act, caller, text in rows:
            if act == CONTINUATION and caller in last:
                begun = spoken[last[caller]]
                spoken[last[caller]] = Utterance(caller, f"{begun.text} {clean(text)}")
            elif act != NON_VERBAL:
                last[caller] = len(spoken)
                spoken.append(Utterance(caller, clean(text)))
        if spoken:
            yield Conversation(rows[0][0], tuple(spoken))

    def _parse_rows(
        self, file: SourceFile, header: list[str], lines: Iterable[Line]
    ) -> Iterator[tuple[str, ...]]:
        indices = [header.index(column) for column in COLUMNS]
        reader = csv.reader(line.text for line in lines)
        for number in count(2):
            try:
                row = next(reader, None)
            except csv.Error as error:
                self.line_errors.reject(Line(file.path, number, ""), str(error))
                continue
            if row is None:
                return
            if len(row) != len(header):
                reason = f"{len(row)} fields instead of {len(header)}"
                self.line_errors.reject(Line(file.path, number, ",".join(row)), reason)
                continue
            yield tuple(row[index] for index in indices)


def clean(text: str) -> str:
    """Returns what was said, without the annotation of how it was said.

    >>> clean("{F Uh, } [ I, + I ] was -- <laughter> {D you know, } there. /")
    'Uh, I, I was you know, there.'
    """
    text = REPAIRS.sub(" ", OPENED.sub("", NOTES.sub(" ", text)))
    text = SPACE_BEFORE.sub("", " ".join(text.split()))
    return REPEATED_COMMA.sub(lambda match: "," if match[0].count(",") > 1 else "", text).strip()
