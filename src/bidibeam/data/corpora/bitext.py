"""Line-aligned files of two languages, as translators keep them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from bidibeam.data.corpora.files import CorpusReader, make_pair
from bidibeam.errors import CorpusError, SettingsError, check_setting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bidibeam.data.conversations import Conversation
    from bidibeam.data.corpora.files import SourceFile

LANGUAGE = re.compile(r"[\w-]+")


def check_language(corpus: str, name: str, language: str | None, example: str) -> str:
    """Returns a language that was given; it is the ending of the files that hold it."""
    if language is None:
        raise SettingsError(
            f"The corpus {corpus!r} needs {name}: a language as its files end, such as {example}."
        )
    is_ending = LANGUAGE.fullmatch(language) is not None
    check_setting(is_ending, name, language, f"a language as files end, such as {example}")
    return language


class BitextReader(CorpusReader):
    """Line n of `train.de` is answered by line n of `train.en`, and so for every split.

    Args:
        source_lang: The ending of the files of sources.
        target_lang: The ending of the files of responses.
    """

    name = "bitext"
    expected = "the folder or archive that holds line-aligned files such as train.de and train.en"
    languages = ("source_lang", "target_lang")
    stem = re.compile(r".+")
    """What the names of its files are before the language."""

    def __init__(self, source_lang: str | None = None, target_lang: str | None = None) -> None:
        super().__init__()
        self.source_lang = check_language(self.name, "source_lang", source_lang, "de")
        self.target_lang = check_language(self.name, "target_lang", target_lang, "en")
        rule = f"another language than source_lang, {self.source_lang!r}"
        check_setting(self.source_lang != self.target_lang, "target_lang", target_lang, rule)

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields a pair a line from the folder or archive `source`."""
        with self.open(source) as files:
            sides = [
                {_stem_path(file): file for file in files if self._is_side(file, language)}
                for language in (self.source_lang, self.target_lang)
            ]
            if not any(sides):
                raise self.miss(f"{source} holds no file that ends in .{self.source_lang}")
            chosen = self.choose_splits([*{**sides[1], **sides[0]}.values()])
            for file in sorted(chosen, key=lambda file: file.path):
                stem = _stem_path(file)
                for side, language in zip(sides, (self.source_lang, self.target_lang), strict=True):
                    if stem not in side:
                        missing = f"{file.path} has no {stem}.{language} beside it, line for line"
                        raise CorpusError(f"{missing}. Name the folder that holds both.")
                yield from self._read_aligned(sides[0][stem], sides[1][stem], file.split)
        self.line_errors.check()

    def _is_side(self, file: SourceFile, language: str) -> bool:
        stem, _, ending = file.name.rpartition(".")
        return ending == language and self.stem.fullmatch(stem) is not None

    def _read_aligned(self, source: SourceFile, target: SourceFile, split: str) -> Iterator[Conversation]:
        files = source, target
        sides = [list(self.line_errors.read(file, keep_all=True)) for file in files]
        counts = [len(side) for side in sides]
        if counts[0] != counts[1]:
            longer = files[counts[1] > counts[0]]
            raise CorpusError(
                f"{source.path} has {counts[0]:,} lines and {target.path} {counts[1]:,}, but each line needs "
                f"a partner: line {min(counts) + 1:,} of {longer.path} is the first without one."
            )
        for ours, theirs in zip(*sides, strict=True):
            yield make_pair(ours.text, theirs.text, split=split)


def _stem_path(file: SourceFile) -> str:
    """Returns the path of a file without packing and language."""
    return str(PurePosixPath(file.path).with_name(PurePosixPath(file.name).stem))
