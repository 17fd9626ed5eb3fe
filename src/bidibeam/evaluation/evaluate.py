"""Replies against references, by every measure asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import InputError
from bidibeam.metrics import METRICS
from bidibeam.scores import Score


def evaluate(
    replies: Sequence[str],
    references: Sequence[str | None],
    tokenizer: Tokenizer,
    *,
    metrics: Iterable[str] | None = None,
) -> list[Score]:
    """Score replies as words: both sides are split by the same rules, and no word of a reference is unknown.

    Args:
        replies: One a source.
        references: What a person answered.
        tokenizer: Splits text into words.
        metrics: Names of metrics; all by default.

    Raises:
        InputError: If a reference is missing, or there are not as many as replies.
    """
    missing = [number for number, reference in enumerate(references, start=1) if reference is None]
    if missing:
        raise InputError(f"Source {missing[0]} has no reference, so its reply cannot be scored.")
    reply_words = [tokenizer.words(reply) for reply in replies]
    reference_words = [tokenizer.words(reference or "") for reference in references]
    names = METRICS.names() if metrics is None else metrics
    scores = [METRICS.create(name).score(reply_words, reference_words) for name in names]
    return [
        replace(score, signature=score.signature.extended(words="lower-cased, by bidibeam"))
        for score in scores
    ]
