"""Corpus readers, one per file; other packages add theirs by entry point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from bidibeam.data.corpora.files import CorpusReader
from bidibeam.registry import Registry

CORPORA: Registry[CorpusReader] = Registry(
    "corpus",
    group="bidibeam.corpora",
    locations={
        "chitchat": "bidibeam.data.corpora.chitchat:ChitchatReader",
        "cornell": "bidibeam.data.corpora.cornell:CornellReader",
        "convokit": "bidibeam.data.corpora.convokit:ConvokitReader",
        "swda": "bidibeam.data.corpora.swda:SwdaReader",
        "jsonl": "bidibeam.data.corpora.jsonl:JsonlReader",
        "tsv": "bidibeam.data.corpora.tsv:TsvReader",
        "bitext": "bidibeam.data.corpora.bitext:BitextReader",
        "cmudict": "bidibeam.data.corpora.cmudict:CmudictReader",
        "multi30k": "bidibeam.data.corpora.multi30k:Multi30kReader",
        "inflection": "bidibeam.data.corpora.inflection:InflectionReader",
        "e2e": "bidibeam.data.corpora.e2e:E2eReader",
        "dailydialog": "bidibeam.data.corpora.dailydialog:DailyDialogReader",
    },
)


def find_defaults(corpus: str, kind: Literal["suits", "measure"]) -> Mapping[str, Any]:
    """Returns the settings that a corpus' reader brings; none if it is not installed here."""
    return getattr(CORPORA.get(corpus), kind, {}) if corpus in CORPORA.names() else {}
