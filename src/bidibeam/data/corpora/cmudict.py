"""CMUdict: English words and how they are pronounced, in the customary split of 12,000 test words."""

from __future__ import annotations

from bidibeam.data.corpora.tsv import TsvReader


class CmudictReader(TsvReader):
    """Lines of a word, a tab and its phones; several lines of a word are several references."""

    name = "cmudict"
    expected = "the folder or archive that holds train.tsv, dev.tsv and test.tsv, lines of word<TAB>phones"
