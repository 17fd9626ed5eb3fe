"""CMUdict: English words and how they are pronounced, in the customary split of 12,000 test words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bidibeam.data.corpora.tsv import TsvReader


class CmudictReader(TsvReader):
    """Lines of a word, a tab and its phones; several lines of a word are several references."""

    name = "cmudict"
    expected = "the folder or archive that holds train.tsv, dev.tsv and test.tsv, lines of word<TAB>phones"
    suits: ClassVar[Mapping[str, Any]] = {
        "source_tokenizer": "char",
        "target_tokenizer": "word",
        "cased": True,
        "max_response_length": 40,
    }
    measure: ClassVar[Mapping[str, Any]] = {"metric": "ser", "search": {"max_length": 24}}
