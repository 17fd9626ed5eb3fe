"""Texts, or prepared ids, to the ids that a Hugging Face model learns from, and reads when it answers."""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.data.batching import Integers, TokenPairs
from bidibeam.data.words import well_formed
from bidibeam.errors import InputError, SettingsError
from bidibeam.models.base import spell_bad_words
from bidibeam.models.huggingface.labels import special_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bidibeam.data.prepared import PairArrays

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
    texts: Sequence[str], tokenizer: Any, config: Any = None, *, max_length: int | None = None
) -> list[list[int]]:
    """Sources as the model reads them, by default an encoder-decoder; training and decoding both come here.

    A decoder-only model's is a prompt: without an end token, but with what ends a prompt by its config. Of a
    source longer than `max_length` the last tokens are kept, and special ones at its beginning.
    """
    rows = _tokenize(tokenizer, texts)
    if config is not None and not config.is_encoder_decoder:
        end = list(getattr(config, PROMPT_END, None) or [])
        stripped = [ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids for ids in rows]
        rows = [ids + end for ids in stripped]
    special = special_ids(tokenizer)
    for number, ids in enumerate(rows):
        if max_length is not None and len(ids) > max_length:
            begin = next((place for place, index in enumerate(ids) if index not in special), len(ids))
            begin = min(begin, max_length - 1)
            rows[number] = ids[:begin] + ids[len(ids) - (max_length - begin) :]
    return rows


def response_ids(texts: Sequence[str], tokenizer: Any, config: Any = None) -> list[list[int]]:
    """Responses as labels: special tokens as the tokenizer sets them for a target, and an end."""
    if config is None or config.is_encoder_decoder:
        rows = _tokenize(tokenizer, texts, argument="text_target")
    else:
        rows = _tokenize(tokenizer, texts, add_special_tokens=False)
    end, special = tokenizer.eos_token_id, special_ids(tokenizer)
    has_end = [end in takewhile(special.__contains__, reversed(ids)) for ids in rows]
    return [ids if is_ended else [*ids, end] for ids, is_ended in zip(rows, has_end, strict=True)]


def bad_word_ids(words: Sequence[str], tokenizer: Any, name: str) -> list[tuple[int, ...]]:
    """Bad words as ids in reading order: at the beginning of a text, and behind a space."""
    if not words:
        return []
    both = [
        _tokenize(tokenizer, texts, argument="text_target", add_special_tokens=False)
        for texts in (words, [f" {word}" for word in words])
    ]
    special = {*tokenizer.all_special_ids}
    return spell_bad_words(words, [*zip(*both, strict=True)], name, special)


def decode_ids(ids: Sequence[int], tokenizer: Any) -> str:
    """Ids in reading order as text, without special tokens."""
    return " ".join(tokenizer.decode([*ids], skip_special_tokens=True).split())


def find_unknown(texts: Sequence[str], tokenizer: Any) -> list[bool]:
    """Which sources have no token that the tokenizer knows: none at all, or the unknown one alone."""
    special = {*tokenizer.all_special_ids}
    return [{*ids} <= special for ids in source_ids(texts, tokenizer)]


def encode_pairs(
    examples: Iterable[dict[str, str]],
    tokenizer: Any,
    config: Any,
    source_tokenizer: Any = None,
    *,
    max_source_length: int,
    max_response_length: int,
) -> TokenPairs:
    """Pairs of texts, as `PreparedData.examples` gives them, by the model's tokenizer, or one for each side.

    Pairs whose response is longer than the limit, or whose source or response has no token, are left out.
    """
    if tokenizer.eos_token_id is None:
        raise SettingsError(
            "The tokenizer has no end token, so a model cannot learn where to stop: set its eos_token."
        )
    examples, special = list(examples), special_ids(tokenizer)
    reader = tokenizer if source_tokenizer is None else source_tokenizer
    parts: list[tuple[Integers, Integers, Integers, Integers]] = []
    for begin in range(0, len(examples), CHUNK):
        chunk = examples[begin : begin + CHUNK]
        sources = source_ids(
            [example["source"] for example in chunk], reader, config, max_length=max_source_length
        )
        responses = response_ids([example["reference"] for example in chunk], tokenizer, config)
        kept = [
            (source, response)
            for source, response in zip(sources, responses, strict=True)
            if source and len(response) <= max_response_length and not special.issuperset(response)
        ]
        parts.append((*_flatten([pair[0] for pair in kept]), *_flatten([pair[1] for pair in kept])))
    empty = np.zeros(0, np.int64)
    pairs = TokenPairs(*map(np.concatenate, zip(*parts, strict=True))) if parts else TokenPairs(*[empty] * 4)
    return _check_some(pairs, len(examples), max_response_length)


def from_prepared(
    pairs: PairArrays, tokenizer: Any, config: Any, *, max_source_length: int, max_response_length: int
) -> TokenPairs:
    """The same pairs from prepared ids, where the model's tokenizer is that of the data."""
    end = tokenizer.eos_token_id
    after = [end] if config.is_encoder_decoder else list(getattr(config, PROMPT_END, None) or [])
    limits = {"max_source_length": max_source_length, "max_response_length": max_response_length}
    found = TokenPairs.from_prepared(pairs, source_end=after, response_end=end, **limits)
    return _check_some(found, len(pairs), max_response_length)


def _flatten(rows: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), lengths


def _check_some(pairs: TokenPairs, examples: int, max_response_length: int) -> TokenPairs:
    if not len(pairs):
        raise InputError(
            f"None of {examples:,} pairs has a response of 1 to {max_response_length} tokens: raise "
            "max_response_length, or look at the tokenizer."
        )
    return pairs


def _tokenize(
    tokenizer: Any, texts: Sequence[str], *, argument: str = "text", **options: Any
) -> list[list[int]]:
    """Nothing but the ids, which takes half the time of all that a tokenizer can tell."""
    if not texts:  # a tokenizer needs one
        return []
    silent = {"verbose": False, "return_attention_mask": False, "return_token_type_ids": False}
    given = [well_formed(text) for text in texts]
    return [list(ids) for ids in tokenizer(**{argument: given}, **silent, **options).input_ids]
