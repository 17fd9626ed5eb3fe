"""Texts to the ids that a Hugging Face model learns from, and reads when it answers."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError, SettingsError
from bidibeam.models.huggingface.labels import special_ids
from bidibeam.models.huggingface.rows import TokenPairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROMPT_END = "bidibeam_prompt_end"
"""The field of a decoder-only model's config with the ids that stand between source and response."""
CHUNK = 4096  # texts tokenised at a time


def set_prompt_end(config: Any, tokenizer: Any, separator: str) -> None:
    """Write into a decoder-only model's config what ends a prompt: the separator, or the start token."""
    ids = list(tokenizer(separator, add_special_tokens=False).input_ids) if separator else []
    known = [index for index in ids if index != getattr(tokenizer, "unk_token_id", None)]
    if separator and not known and tokenizer.bos_token_id is not None:
        known = [tokenizer.bos_token_id]
    setattr(config, PROMPT_END, known)


def source_ids(
    texts: Sequence[str], tokenizer: Any, config: Any, *, max_length: int | None = None
) -> list[list[int]]:
    """Sources as the model reads them; training and decoding both come here.

    A decoder-only model's is a prompt: without an end token, but with what ends a prompt by its config.

    Args:
        texts: The sources.
        tokenizer: The model's.
        config: The model's.
        max_length: Of a longer source the last tokens are kept, and special ones at its begin.
    """
    rows = _tokenised(tokenizer, texts)
    if not config.is_encoder_decoder:
        end = list(getattr(config, PROMPT_END, None) or [])
        stripped = [ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids for ids in rows]
        rows = [ids + end for ids in stripped]
    if max_length is None:
        return rows
    kept = special_ids(tokenizer)
    return [_last(ids, max_length, kept) for ids in rows]


def response_ids(texts: Sequence[str], tokenizer: Any, config: Any) -> list[list[int]]:
    """Responses as labels: special tokens as the tokenizer sets them for a target, and an end."""
    if config.is_encoder_decoder:
        rows = _tokenised(tokenizer, text_target=list(texts))
    else:
        rows = _tokenised(tokenizer, texts, add_special_tokens=False)
    end, kept = tokenizer.eos_token_id, special_ids(tokenizer)
    return [[*ids] if _has_end(ids, end, kept) else [*ids, end] for ids in rows]


def encode_pairs(
    examples: Iterable[dict[str, str]],
    tokenizer: Any,
    config: Any,
    *,
    max_source_length: int,
    max_response_length: int,
) -> TokenPairs:
    """Pairs of texts, as `PreparedData.examples` gives them, to what `PairCollator` takes.

    Pairs whose response is longer than the limit, or whose source or response has no token, are left out.

    Raises:
        SettingsError: If the tokenizer has no end token.
        InputError: If no pair is left.
    """
    if tokenizer.eos_token_id is None:
        raise SettingsError(
            "The tokenizer has no end token, so a model cannot learn where to stop: set its eos_token."
        )
    examples = list(examples)
    parts: list[TokenPairs] = []
    kept = special_ids(tokenizer)
    for begin in range(0, len(examples), CHUNK):
        chunk = examples[begin : begin + CHUNK]
        sources = source_ids(
            [example["source"] for example in chunk], tokenizer, config, max_length=max_source_length
        )
        responses = response_ids([example["reference"] for example in chunk], tokenizer, config)
        pairs = [
            {"input_ids": source, "labels": response}
            for source, response in zip(sources, responses, strict=True)
            if source and len(response) <= max_response_length and not kept.issuperset(response)
        ]
        parts.append(TokenPairs.of(pairs))
    if not any(map(len, parts)):
        raise InputError(
            f"None of {len(examples):,} pairs has a response of 1 to {max_response_length} tokens: raise "
            "max_response_length (as by --set max_response_length=128), or look at the tokenizer."
        )
    return TokenPairs.joined(parts)


def _tokenised(tokenizer: Any, texts: Sequence[str] | None = None, **options: Any) -> list[list[int]]:
    """Nothing but the ids, which takes half the time of all that a tokenizer can tell."""
    texts = None if texts is None else list(texts)
    told = tokenizer(
        texts, verbose=False, return_attention_mask=False, return_token_type_ids=False, **options
    )
    return [list(ids) for ids in told.input_ids]


def _has_end(ids: Sequence[int], end: int, kept: frozenset[int]) -> bool:
    """Whether the end is among the special tokens that a row ends with."""
    return any(index == end for index in takewhile(kept.__contains__, reversed(ids)))


def _last(ids: list[int], max_length: int, kept: frozenset[int]) -> list[int]:
    if len(ids) <= max_length:
        return ids
    begin = next((place for place, index in enumerate(ids) if index not in kept), len(ids))
    begin = min(begin, max_length - 1)
    return ids[:begin] + ids[len(ids) - (max_length - begin) :]
