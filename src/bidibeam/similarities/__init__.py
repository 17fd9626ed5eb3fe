"""How alike two hypotheses are: one measure a file, its kernels beside it."""

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
        "token_f1": "bidibeam.similarities.token_f1:TokenF1",
        "edit": "bidibeam.similarities.edit:Edit",
        "embedding_cosine": "bidibeam.similarities.embedding_cosine:EmbeddingCosine",
    },
)
"""Every similarity, by the name that reports and the command line use."""
