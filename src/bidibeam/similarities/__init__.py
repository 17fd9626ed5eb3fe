"""How alike two hypotheses are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.registry import Registry

if TYPE_CHECKING:
    from bidibeam.protocols import Similarity

SIMILARITIES: Registry[Similarity] = Registry(
    "similarity",
    group="bidibeam.similarities",
    locations={
        "bleu_t": "bidibeam.similarities.bleu:BleuT",
        "wmd_t": "bidibeam.similarities.wmd:WmdT",
        "bleu": "bidibeam.similarities.bleu:Bleu",
        "wmd": "bidibeam.similarities.wmd:Wmd",
        "token_f1": "bidibeam.similarities.overlap:TokenF1",
        "edit": "bidibeam.similarities.overlap:Edit",
        "embedding_cosine": "bidibeam.similarities.embedding_cosine:EmbeddingCosine",
    },
)
"""The similarities, by the name that reports and the command line use."""
