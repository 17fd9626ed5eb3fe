"""How surprised each direction is by what people really answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice

from bidibeam._version import __version__
from bidibeam.api.runs import Run
from bidibeam.data.batching import pad_sources
from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.scores import Score, Signature

BATCH = 256


def perplexities(run: Run, examples: Sequence[Beams]) -> dict[Direction, Score]:
    """The perplexity of the references under each direction that the run has.

    The end token counts as one; so does every unknown word, as the unknown token.

    Args:
        run: A run.
        examples: Sources with references.

    Raises:
        InputError: If there is no source, or one without reference.
    """
    pairs = list(_encoded(run, examples))
    if not pairs:
        raise InputError("There are no sources, so there is no perplexity of their references.")
    found = {}
    for direction in map(Direction, run.model.directions):
        scorer = GRUScorer(run.model, direction)
        total, count = 0.0, 0
        for batch in _batches(pairs):
            sources = pad_sources([source for source, _ in batch]).to(run.device)
            written = [[(*direction.arrange(tuple(response)), run.tokenizer.end_id)] for _, response in batch]
            total += math.fsum(value for line in scorer.log_probs(sources, written) for value in line)
            count += sum(len(sequence) for line in written for sequence in line)
        signature = Signature(()).extended(
            metric="perplexity",
            direction=direction.value,
            tokens=run.tokenizer.kind,
            end="counted",
            model=run.fingerprint,
            bidibeam=__version__,
        )
        found[direction] = Score(f"perplexity, {direction.value}", math.exp(-total / count), signature)
    return found


def _encoded(run: Run, examples: Sequence[Beams]) -> Iterable[tuple[list[int], list[int]]]:
    """Sources and references as token ids."""
    for line in examples:
        if line.reference is None:
            raise InputError(f"Source {line.id!r} has no reference, so it has no perplexity.")
    encode = run.tokenizer.encode_batch
    sources = encode([line.source for line in examples])
    if run.max_source_length is not None:
        sources = [ids[-run.max_source_length :] for ids in sources]
    return zip(sources, encode([line.reference or "" for line in examples]), strict=True)


def _batches(pairs: Sequence[tuple[list[int], list[int]]]) -> Iterable[Sequence[tuple[list[int], list[int]]]]:
    rest = iter(pairs)
    return iter(lambda: list(islice(rest, BATCH)), [])
