"""Perplexity: how surprised each direction is by what people really answered."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bidibeam._version import __version__
from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.base import Model
from bidibeam.scores import Signature

BATCH = 256


def perplexities(model: Model, examples: Sequence[Beams]) -> dict[Direction, tuple[float, Signature]]:
    """Returns each direction's perplexity of the references, and how it was computed.

    The end token counts as one; so does every unknown word, as the unknown token.
    """
    for line in examples:
        if not line.references:
            raise InputError(f"Source {line.id!r} has no reference, so it has no perplexity.")
    if not examples:
        raise InputError("There are no sources, so there is no perplexity of their references.")
    found = {}
    for direction in model.directions:
        scorer = model.sequence_scorer(direction)
        total, count = 0.0, 0
        for start in range(0, len(examples), BATCH):
            batch = examples[start : start + BATCH]
            encoded = iter(scorer.encode([text for line in batch for text in line.references]))
            sequences = [[next(encoded) for _ in line.references] for line in batch]
            scored = scorer.log_probs([line.source for line in batch], sequences)
            total += math.fsum(value for line in scored for value in line)
            count += sum(len(ids) for line in sequences for ids in line)
        signature = Signature(()).extended(
            metric="perplexity",
            direction=direction.value,
            tokens=getattr(model.tokenizer, "kind", "subword"),
            end="counted",
            model=model.fingerprint,
            bidibeam=__version__,
        )
        found[direction] = math.exp(-total / count), signature
    return found
