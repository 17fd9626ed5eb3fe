"""Corpus readers, one per file; other packages add theirs by entry point."""

from __future__ import annotations

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
    },
)
