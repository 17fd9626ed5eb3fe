"""DailyDialog: Li et al. (2017); with the five references of Gupta et al. (2019) where they are there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.files import CorpusReader, find_file, missing_references
from bidibeam.files import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bidibeam.data.corpora.files import SourceFile

DIALOGUES = "dialogues_{}.txt"
CLEAN, REFERENCES = "train_clean_lines.txt", "multireftest.json"
END = "__eou__"
APART = re.compile(r"(?<=\w) (['\u2019]) (?=(?:s|t|m|d|ll|re|ve|clock|am)\b)", re.IGNORECASE)
"""An apostrophe with spaces around it, as a third of the contractions have it: it ' s, don ' t."""


class DailyDialogReader(CorpusReader):
    """Dialogues about daily life, a line each, in the official splits.

    Much of validation and test stands in the training file verbatim: where train_clean_lines.txt is there,
    only the training dialogues whose line numbers it lists are read. Where multireftest.json is there, it is
    the test set: an item a context, its references as they are, lower-cased. Contractions that are written
    apart ("it ' s") are joined everywhere; other spaces before punctuation stay, so words are compared.
    """

    name = "dailydialog"
    expected = (
        f"the folder or archive that holds {DIALOGUES.format('train')}, _validation.txt and _test.txt or "
        f"{REFERENCES}"
    )

    suits: ClassVar[Mapping[str, Any]] = {"max_response_length": 40}
    measure: ClassVar[Mapping[str, Any]] = {"tokenize": "words", "search": {"max_length": 41}}

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields conversations, and test items, from the folder or archive `source`."""
        with self.open(source) as files:
            if find_file(files, DIALOGUES.format("train")) is None:
                raise self.miss(f"{source} holds no {DIALOGUES.format('train')}")
            several = find_file(files, REFERENCES)
            for split in ("train", "validation", "test"):
                file = find_file(files, DIALOGUES.format(split))
                if split == "test" and several is not None:
                    yield from self._read_references(self.mark_split(several, split))
                elif file is not None:
                    clean = self._read_clean(files) if split == "train" else None
                    yield from self._read_dialogues(self.mark_split(file, split), clean)
        self.line_errors.check()

    def _read_clean(self, files: Sequence[SourceFile]) -> set[str] | None:
        """Returns the numbers of the training dialogues to read, from 1; None for all."""
        listed = find_file(files, CLEAN)
        if listed is None:
            return None
        numbers = set()
        for line in self.line_errors.read(listed):
            if line.text.strip().isdecimal():
                numbers.add(line.text.strip())
            else:
                self.line_errors.reject(line, "not the number of a line")
        return numbers

    def _read_dialogues(self, file: SourceFile, chosen: set[str] | None) -> Iterator[Conversation]:
        for line in self.line_errors.read(file):
            texts = line.text.split(END)
            if len(texts) < 2 or texts.pop().strip():
                self.line_errors.reject(line, f"not turns that each end in {END}")
            elif chosen is None or str(line.number) in chosen:
                turns = tuple(Utterance("AB"[place % 2], join(text)) for place, text in enumerate(texts))
                yield Conversation(f"{file.split}-{line.number}", turns, split=file.split)

    def _read_references(self, file: SourceFile) -> Iterator[Conversation]:
        for line in self.line_errors.read(file):
            try:
                turns = parse_json(line.text)["dialogue"]
                contexts = [(turn["text"], turn["responses"]) for turn in turns if "responses" in turn]
                are_texts = [isinstance(text, str) for source, texts in contexts for text in (source, *texts)]
            except (KeyError, TypeError, ValueError):
                are_texts = [False]
            if not all(are_texts):
                self.line_errors.reject(line, "not a dialogue of texts with responses")
                continue
            for source, texts in contexts:
                if not texts:
                    raise missing_references(line, f"responses to {source!r}")
                first, *others = map(join, texts)
                said = Utterance("A", join(source)), Utterance("B", first)
                yield Conversation(f"{file.split}-{line.number}", said, tuple(others), split=file.split)


def join(text: str) -> str:
    """Returns the text with contractions written as one word."""
    return APART.sub(r"\1", text)
