"""E2E: restaurants as attributes and values, and texts that say the same: Novikova et al. (2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bidibeam.data.corpora.jsonl import JsonlReader


class E2eReader(JsonlReader):
    """One meaning representation a line, with all its texts; both are left as they are."""

    name = "e2e"
    shapes = 'lines of {"mr", "refs": [...]}'
    expected = f"the folder or archive that holds train.jsonl, dev.jsonl and test.jsonl, {shapes}"
    source_key = "mr"
    references_key = "refs"
    suits: ClassVar[Mapping[str, Any]] = {"cased": True, "max_source_length": 100, "max_response_length": 80}
    # No room for an end token after 80: results/ was searched so.
    measure: ClassVar[Mapping[str, Any]] = {"metric": "bleu", "tokenize": "13a", "search": {"max_length": 80}}
