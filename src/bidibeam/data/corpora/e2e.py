"""E2E: restaurants as attributes and values, and texts that say the same: Novikova et al. (2017)."""

from __future__ import annotations

from bidibeam.data.corpora.jsonl import JsonlReader


class E2eReader(JsonlReader):
    """One meaning representation a line, with all its texts; both are left as they are."""

    name = "e2e"
    shapes = 'lines of {"mr", "refs": [...]}'
    expected = f"the folder or archive that holds train.jsonl, dev.jsonl and test.jsonl, {shapes}"
    source_key = "mr"
    references_key = "refs"
