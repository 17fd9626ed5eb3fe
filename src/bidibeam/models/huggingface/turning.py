"""Processors of logits for a model that writes from the end."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from copy import copy
from typing import Any

from transformers import (
    EncoderNoRepeatNGramLogitsProcessor,
    ForcedBOSTokenLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    WatermarkLogitsProcessor,
)

from bidibeam.errors import SettingsError

ORDERED: dict[type, str] = {
    PrefixConstrainedLogitsProcessor: "prefix_allowed_tokens_fn",
    WatermarkLogitsProcessor: "watermarking_config",
    SynthIDTextWatermarkLogitsProcessor: "watermarking_config",
}
"""Which argument of `generate` asks for a processor that cannot be turned around."""
WAY_OUT = "leave it out, or choose a strategy in which only the regular model writes, such as vbs or bidis."


def turned(processor: Any, special: Container[int]) -> Any:
    """A processor that asks of replies, from their end, what this one asks from their beginning.

    Words and biases of several tokens are turned around, and so are n-grams of the source; others stay.

    Args:
        processor: The processor.
        special: Ids that stay in place when a reply is turned around.

    Raises:
        SettingsError: If there is none.
    """
    name = ORDERED.get(type(processor))
    if name is not None:
        raise _refusal(name)
    if isinstance(processor, ForcedBOSTokenLogitsProcessor):
        check_first("forced_bos_token_id", [processor.bos_token_id], special)
    if isinstance(processor, SuppressTokensAtBeginLogitsProcessor):
        check_first("begin_suppress_tokens", processor.begin_suppress_tokens.tolist(), special)
    if isinstance(processor, SequenceBiasLogitsProcessor):  # bad words are such
        return SequenceBiasLogitsProcessor(_turned_biases(processor.sequence_bias, special))
    if isinstance(processor, EncoderNoRepeatNGramLogitsProcessor):
        copied = copy(processor)
        copied.generated_ngrams = [_turned_ngrams(known) for known in processor.generated_ngrams]
        return copied
    return processor


def check_first(name: str, tokens: Iterable[int], special: Container[int]) -> None:
    """Refuse what is asked of the first token of replies, unless it is about special tokens.

    Raises:
        SettingsError: If it is about others.
    """
    if any(token not in special for token in tokens):
        raise _refusal(name)


def _refusal(name: str) -> SettingsError:
    return SettingsError(
        f"{name} goes by what a reply begins with, which the reverse model writes last: {WAY_OUT}"
    )


def _turned_biases(
    biases: Mapping[tuple[int, ...], float], special: Container[int]
) -> dict[tuple[int, ...], float]:
    for ids in biases:
        if len(ids) > 1 and any(token in special for token in ids):
            raise SettingsError(
                f"{[*ids]} of bad_words_ids or sequence_bias has a special token in it, which stays in place "
                f"where the reverse model writes: {WAY_OUT}"
            )
    return {ids[::-1]: bias for ids, bias in biases.items()}


def _turned_ngrams(known: Mapping[tuple[int, ...], Iterable[int]]) -> dict[tuple[int, ...], list[int]]:
    """The last tokens of n-grams by those before, of the same n-grams turned around."""
    found: dict[tuple[int, ...], list[int]] = {}
    for before, lasts in known.items():
        for last in lasts:
            *rest, first = last, *reversed(before)
            found.setdefault(tuple(rest), []).append(first)
    return found
