"""Logits processors for a model that writes from the end: what they ask of replies holds in reading order."""

from __future__ import annotations

from collections.abc import Container, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor
from transformers import (
    EncoderNoRepeatNGramLogitsProcessor,
    ForcedBOSTokenLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
    SynthIDTextWatermarkLogitsProcessor,
    WatermarkLogitsProcessor,
)

from bidibeam.errors import SettingsError

IRREVERSIBLE: dict[type, str] = {
    PrefixConstrainedLogitsProcessor: "prefix_allowed_tokens_fn",
    WatermarkLogitsProcessor: "watermarking_config",
    SynthIDTextWatermarkLogitsProcessor: "watermarking_config",
}
"""Which argument of `generate` asks for a processor that has no counterpart from the end."""
WAY_OUT = "leave it out, or choose a strategy in which only the regular model writes, such as vbs or bidis."


def reverse_processor(processor: Any, special: Container[int], prompt_length: int = 0) -> Any:
    """A processor that asks of replies, from their end, what this one asks from their beginning.

    One that goes by neighbours is not shown the prompt: what is written first does not follow it.
    """
    if name := IRREVERSIBLE.get(type(processor)):
        raise _begins_reply(name)
    if isinstance(processor, ForcedBOSTokenLogitsProcessor):
        check_only_special("forced_bos_token_id", [processor.bos_token_id], special)
    if isinstance(processor, SuppressTokensAtBeginLogitsProcessor):
        check_only_special("begin_suppress_tokens", processor.begin_suppress_tokens.tolist(), special)
    if isinstance(processor, SequenceBiasLogitsProcessor):  # bad words are such
        for ids in processor.sequence_bias:
            if len(ids) > 1 and any(token in special for token in ids):
                raise SettingsError(
                    f"{[*ids]} of bad_words_ids or sequence_bias has a special token in it, which stays in "
                    f"place where the reverse model writes: {WAY_OUT}"
                )
        biases = {ids[::-1]: bias for ids, bias in processor.sequence_bias.items()}
        return WithoutPrompt(SequenceBiasLogitsProcessor(biases), prompt_length)
    if isinstance(processor, NoRepeatNGramLogitsProcessor):
        return NoRepeatFromTheEnd(processor.ngram_size, prompt_length)
    if isinstance(processor, EncoderNoRepeatNGramLogitsProcessor):
        copied = copy(processor)
        copied.generated_ngrams = []
        for ngrams in processor.generated_ngrams:  # of a source: the last tokens by those before
            reversed_ngrams: dict[tuple[int, ...], list[int]] = {}
            for before, lasts in ngrams.items():
                for last in lasts:
                    ids = (*before, last)[::-1]
                    reversed_ngrams.setdefault(ids[:-1], []).append(ids[-1])
            copied.generated_ngrams.append(reversed_ngrams)
        return WithoutPrompt(copied, prompt_length)
    return processor


@dataclass(frozen=True)
class WithoutPrompt:
    """A logits processor that sees no token in place of the prompt, only what is written.

    Without any place for it, older releases of transformers leave out words that begin with what is written.
    """

    processor: Any
    prompt_length: int

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Processed scores, (rows, vocabulary), after (rows, length)."""
        seen = input_ids.clone()
        seen[:, : self.prompt_length] = -1
        return cast("Tensor", self.processor(seen, scores))


@dataclass(frozen=True)
class NoRepeatFromTheEnd:
    """A logits processor that forbids n-grams of the reply and, reversed, of the prompt.

    N-grams that begin in the prompt and end in the reply are not looked at.
    """

    ngram_size: int
    prompt_length: int

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Processed scores, (rows, vocabulary), after (rows, length)."""
        prompt, written = input_ids[:, : self.prompt_length], input_ids[:, self.prompt_length :]
        scores = NoRepeatNGramLogitsProcessor(self.ngram_size)(written, scores)
        of_prompt = EncoderNoRepeatNGramLogitsProcessor(self.ngram_size, prompt.flip(1))
        return cast("Tensor", of_prompt(written, scores))


def _begins_reply(name: str) -> SettingsError:
    return SettingsError(
        f"{name} goes by what a reply begins with, which the reverse model writes last: {WAY_OUT}"
    )


def check_only_special(name: str, tokens: Iterable[int], special: Container[int]) -> None:
    """Refuse what is asked of the first token of replies, unless it is about special tokens."""
    if any(token not in special for token in tokens):
        raise _begins_reply(name)
