"""Multi30k: captions of images in English, translated to German: Elliott et al. (2016)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from bidibeam.data.corpora.bitext import BitextReader


class Multi30kReader(BitextReader):
    """Raw captions of task 1 with the official splits; the tokenised copies beside them are left out.

    German to English by default; one language alone is taken with the other of the two.
    """

    name = "multi30k"
    expected = "the folder or archive that holds train.de, train.en, val.de ... test_2016_flickr.en"
    suits: ClassVar[Mapping[str, Any]] = {
        "tokenizer": "bpe",
        "vocabulary_size": 8000,
        "max_source_length": 80,
        "max_response_length": 80,
    }
    # No room for an end token after 80: results/ was searched so.
    measure: ClassVar[Mapping[str, Any]] = {"metric": "bleu", "tokenize": "13a", "search": {"max_length": 80}}
    stem = re.compile(r"train|val|test_\w+")

    def __init__(self, source_lang: str | None = None, target_lang: str | None = None) -> None:
        source = source_lang or ("en" if target_lang == "de" else "de")
        super().__init__(source, target_lang or ("de" if source == "en" else "en"))
