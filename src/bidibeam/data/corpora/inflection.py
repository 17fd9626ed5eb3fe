"""SIGMORPHON's shared task of 2023: a lemma and features to the inflected form."""

from __future__ import annotations

from itertools import product
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from bidibeam.data.corpora.bitext import check_language
from bidibeam.data.corpora.files import CorpusReader, find_file, make_pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bidibeam.data.conversations import Conversation

ENDINGS = {".trn": "train", ".dev": "validation", ".tst": "test"}


class InflectionReader(CorpusReader):
    """Lines of lemma, features and form; a source is the features, a space and the lemma.

    Of several languages each is a test set of its own, and a source begins with its language.

    Args:
        source_lang: The language, as its files are called: deu for deu.trn, deu.dev and deu.tst; all that
            are there by default.
    """

    name = "inflection"
    expected = "the folder or archive that holds LANGUAGE.trn, .dev and .tst, lemma<TAB>features<TAB>form"
    languages = ("source_lang",)
    suits: ClassVar[Mapping[str, Any]] = {
        "tokenizer": "char",
        "cased": True,
        "max_source_length": 100,
        "max_response_length": 48,
    }
    measure: ClassVar[Mapping[str, Any]] = {"metric": "exact_match", "search": {"max_length": 49}}

    def __init__(self, source_lang: str | None = None) -> None:
        super().__init__()
        self.language = source_lang
        if source_lang is not None:
            check_language(self.name, "source_lang", source_lang, "deu")

    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields a pair a line from the folder or archive `source`."""
        with self.open(source) as files:
            paths = [PurePosixPath(file.name) for file in files]
            known = sorted({path.stem for path in paths if path.suffix == ".trn"})
            if not known or self.language not in (None, *known):
                others = f", but {', '.join(known)}" if known else ""
                raise self.miss(f"{source} holds no {self.language or 'LANGUAGE'}.trn{others}")
            languages = [self.language] if self.language else known
            is_alone = len(languages) == 1
            for language, (ending, split) in product(languages, ENDINGS.items()):
                file = find_file(files, language + ending)
                if file is None:
                    continue
                own_split = f"{split}_{language}" if split == "test" and not is_alone else split
                before = "" if is_alone else f"{language} "
                for line in self.line_errors.read(self.mark_split(file, own_split)):
                    fields = line.text.split("\t")
                    if len(fields) == 3:
                        yield make_pair(f"{before}{fields[1]} {fields[0]}", fields[2], split=line.split)
                    else:
                        self.line_errors.reject(line, f"{len(fields)} fields instead of 3")
        self.line_errors.check()
