"""A model that writes in one direction: what `generate` prepares for it, its hypotheses, and its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel
from transformers.utils import ModelOutput

from bidibeam.data.tokenization import Kind, find_kind, find_splitter
from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Direction, Hypothesis
from bidibeam.models.huggingface.by_generate import (
    has_ids,
    reading_alone,
    score_sequences,
    search_by_generate,
)
from bidibeam.models.huggingface.configs import find_max_positions, special_token_ids, token_ids
from bidibeam.models.huggingface.constraints import GenerationConstraints, check_followed, check_searchable
from bidibeam.models.huggingface.labels import arrange_ids, pad_rows, special_ids
from bidibeam.models.huggingface.pairs import decode_ids, response_ids, source_ids
from bidibeam.models.huggingface.quiet import quiet_transformers
from bidibeam.models.huggingface.scorer import Inputs, find_device_of, find_obstacle
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings

READ_BY_SEARCH = {
    *("attention_mask", "encoder_outputs", "position_ids", "decoder_attention_mask", "past_key_values"),
    *("use_cache", "logits_to_keep", "output_attentions", "output_hidden_states"),
}
"""What `generate` may hand over: a search reads it, or it is seen to say nothing new."""
ANY_LENGTH = 1 << 16
"""So many new tokens that no least number of a generation config is more."""


class Task(NamedTuple):
    """What a model reads and may write, as `generate` prepares it."""

    inputs: Inputs
    prompt: Tensor  # (sources, length), what its decoder reads
    constraints: GenerationConstraints
    config: GenerationConfig
    processors: LogitsProcessorList


def prepare_task(
    model: PreTrainedModel, ids: Tensor, mask: Tensor, *, max_new_tokens: int = ANY_LENGTH, **options: Any
) -> Task:
    """Have a model's own `generate` prepare inputs and constraints by its generation config and options."""
    check_followed(model.generation_config)  # before generate asks for what it would need
    # No notes on lengths of a generation config that are replaced.
    with reading_alone(model), quiet_transformers():
        task: Task = model.generate(
            input_ids=ids,
            attention_mask=mask,
            custom_generate=read_task,
            num_beams=1,
            num_return_sequences=1,
            do_sample=False,
            max_new_tokens=max_new_tokens,
            **options,
        )
    if not has_ids(task.inputs):  # peft has put virtual tokens before a source
        return task._replace(inputs=replace(task.inputs, ids=ids, mask=mask, encoded=None))
    return task


def read_task(
    model: PreTrainedModel,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    generation_config: GenerationConfig,
    stopping_criteria: Any = None,
    inputs_tensor: Tensor | None = None,
    **model_kwargs: Any,
) -> Task:
    """A task from what `generate` hands over; every source's row comes as often as there are beams."""
    each = max(generation_config.num_beams or 1, generation_config.num_return_sequences or 1)
    prompt = input_ids[::each]  # (sources, length)
    mask = model_kwargs.get("attention_mask")
    check_searchable(stopping_criteria or (), generation_config)
    _check_tensors(model_kwargs, each, is_encoder_decoder=model.config.is_encoder_decoder)
    if model.config.is_encoder_decoder:
        outputs = model_kwargs["encoder_outputs"]
        encoded = outputs[0][::each]  # (sources, length, size)
        if each > 1 and isinstance(outputs, ModelOutput):
            # `generate` has repeated them in place, also a caller's own, and holds on to them: put them back.
            for name, value in list(outputs.items()):
                if isinstance(value, Tensor):
                    outputs[name] = value[::each].clone()
            encoded = outputs[0]
        known = encoded.new_ones(encoded.shape[:2], dtype=torch.long) if mask is None else mask[::each]
        inputs = Inputs(prompt if inputs_tensor is None else inputs_tensor, known, prompt, encoded)
    else:
        inputs = Inputs(prompt, torch.ones_like(prompt) if mask is None else mask[::each])
    constraints = GenerationConstraints.of(generation_config, logits_processor, prompt.shape[1])
    return Task(inputs, prompt, constraints, generation_config, logits_processor)


def _check_tensors(given: Mapping[str, Any], each: int, *, is_encoder_decoder: bool) -> None:
    """Refuse what a search would not read; every source's row comes `each` times."""
    kinds = (bool, int, float, str, Mapping)  # and not a cache that generate has made
    plain = {name for name, value in given.items() if isinstance(value, kinds) and value}
    names = plain.union(name for name, value in given.items() if isinstance(value, Tensor)) - READ_BY_SEARCH
    if is_encoder_decoder:  # whose hidden states say what it read
        names.discard("inputs_embeds")
    cache, decoder_mask = given.get("past_key_values"), given.get("decoder_attention_mask")
    if cache is not None and _is_filled(cache):
        names.add("past_key_values")
    if decoder_mask is not None and not bool(decoder_mask.all()):
        names.add("decoder_attention_mask")
    positions, mask = given.get("position_ids"), given.get("attention_mask")
    if not is_encoder_decoder and positions is not None and positions.dim() == 2:
        is_token = (torch.ones_like(positions) if mask is None else mask)[::each].long()  # (sources, length)
        if bool(((is_token.cumsum(-1) - 1 != positions[::each]) & (is_token > 0)).any()):
            names.add("position_ids")  # other than where the mask has them
    if names:
        what = "input_ids alone" if "inputs_embeds" in names else "input_ids and attention_mask alone"
        raise SettingsError(
            f"generate was given {' and '.join(sorted(names))}, which a search does not read: give {what}."
        )


def _is_filled(cache: Any) -> bool:
    """Whether a cache says what has been read."""
    try:
        return bool(cache.get_seq_length() > 0)
    except ValueError:  # one without attention
        return bool(cache.has_previous_state())


@dataclass(frozen=True)
class DirectionalModel:
    """A model that writes in one direction, in evaluation mode: a `protocols.SequenceScorer` too.

    Attributes:
        tokenizer: Its tokenizer; None if it is not known, and ids stand for words.
        source_tokenizer: That of sources, where they have one of their own.
        name: What messages and signatures call it.
        fingerprint: Tells it from any other of that name.
        max_source_length: The longest source that training saw, where that is known.
        folder: Where it lies; None if it came from the Hub.
        max_length: The longest response that its data were prepared with and an end, where that is known.
    """

    model: PreTrainedModel
    tokenizer: Any
    direction: Direction
    name: str = "model"
    fingerprint: str = ""
    max_source_length: int | None = None
    folder: Path | None = None
    max_length: int | None = None
    source_tokenizer: Any = None

    @cached_property
    def positions(self) -> int | None:
        """How many tokens it has positions for; transformers copies the whole config to tell, so once."""
        return find_max_positions(self.model.config)

    @property
    def reader(self) -> Any:
        """What tokenises sources."""
        return self.tokenizer if self.source_tokenizer is None else self.source_tokenizer

    @property
    def label(self) -> str:
        """Its name and fingerprint."""
        return f"{self.name}@{self.fingerprint}" if self.fingerprint else self.name

    @cached_property
    def kind(self) -> Kind | None:
        """What its tokens are, where that is known: of words, or characters, embeddings are vectors."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return None if backend is None else find_kind(backend)

    @cached_property
    def split(self) -> Callable[[str], list[str]]:
        """What cuts replies into the tokens by which they are compared."""
        return find_splitter(getattr(self.tokenizer, "backend_tokenizer", None))

    def find_special(self, task: Task) -> frozenset[int]:
        """Ids that stay in place when a reply is reversed."""
        ends = task.constraints.roles.ends
        if self.tokenizer is not None:
            return special_ids(self.tokenizer).union(ends)
        configs = self.model.config, getattr(self.model, "generation_config", None)
        forced = {task.config.forced_bos_token_id} - {None}
        return frozenset(forced.union(ends, *map(special_token_ids, configs)))

    def search(self, task: Task, settings: SearchSettings) -> list[list[Hypothesis]]:
        """All hypotheses of every source, best first; several may read as the same text.

        A model that our own search does not run is searched by its own `generate`.
        """
        if find_obstacle(self.model):
            return search_by_generate(self, task, settings)
        scorer = task.constraints.make_scorer(
            self.model, task.inputs, task.prompt, is_greedy=settings.beam_size == 1
        )
        numbers = torch.arange(len(task.prompt), device=task.prompt.device)[:, None]  # (sources, 1)
        special = self.find_special(task)
        hypotheses: list[list[Hypothesis]] = []
        for line in beam_search(scorer, numbers, settings, task.constraints.roles):
            hypotheses.append([])
            for tokens, log_prob, length, score, finished, end in line:
                ids = arrange_ids([*tokens] if end is None else [*tokens, end], self.direction, special)
                text, words = self.detokenize(ids, special)
                hypotheses[-1].append(
                    Hypothesis(text, words, log_prob, length, score, finished, ids=tuple(ids))
                )
        return hypotheses

    def score(self, task: Task, hypotheses: Sequence[Sequence[Hypothesis]]) -> list[list[float]]:
        """Log-probabilities of the other direction's hypotheses, each as a whole reply with an end."""
        ends, special = task.constraints.roles.ends, self.find_special(task)
        whole = [
            [one.ids if one.ids and one.ids[-1] in ends else (*one.ids, ends[0]) for one in line]
            for line in hypotheses
        ]
        written = [[arrange_ids(ids, self.direction, special) for ids in line] for line in whole]
        return score_sequences(self.model, task.inputs, written)

    @property
    def end_id(self) -> int:
        """The token that ends a sequence."""
        end: int = self.tokenizer.eos_token_id
        return end

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of texts as the model's targets, in reading order, each with its end token."""
        return [tuple(ids) for ids in response_ids(texts, self.tokenizer, self.model.config)]

    def log_probs(
        self,
        sources: Sequence[str],
        sequences: Sequence[Sequence[Sequence[int]]],
        *,
        first: int | None = None,
    ) -> list[list[float]]:
        """Score each source's sequences, ids in reading order; see `protocols.SequenceScorer`."""
        if not sources:
            return []
        model, config = self.model, self.model.config
        special = special_ids(self.tokenizer).union(token_ids(model, "eos_token_id"))
        written = [[arrange_ids(ids, self.direction, special)[:first] for ids in line] for line in sequences]
        longest = [max(map(len, line), default=1) for line in written]
        ids, mask = self.encode_sources(sources, [self.find_source_limit(max(1, steps)) for steps in longest])
        most = None if config.is_encoder_decoder else self.positions
        if len(sources) > 1 and most is not None and int(mask.sum(1).max()) + max(longest) > most:
            # The longest text has no room behind the longest prompt.
            pairs = zip(sources, sequences, strict=True)
            return [self.log_probs([source], [line], first=first)[0] for source, line in pairs]
        return score_sequences(model, prepare_task(model, ids, mask).inputs, written)

    def detokenize(self, ids: Sequence[int], special: frozenset[int]) -> tuple[str, tuple[str, ...]]:
        """Ids in reading order as text, and as words, by which replies are compared."""
        if self.tokenizer is None:
            words = tuple(str(one) for one in ids if one not in special)
            return " ".join(words), words
        text = decode_ids(ids, self.tokenizer)
        return text, tuple(self.split(text))

    def find_source_limit(self, steps: int, asked: int | None = None) -> int | None:
        """How many tokens of a source it can read, and write a reply of so many steps; None if any number.

        At most as many as asked, by default as many as the longest source of training has.
        """
        config, positions = self.model.config, self.positions
        known = self.max_source_length if asked is None else asked
        if positions is None:
            return known
        room = positions - (0 if config.is_encoder_decoder else steps)
        if room < 1 or steps > positions:
            raise SettingsError(
                f"{self.name} has {positions:,} positions, too few for a reply of {steps} tokens: shorten "
                "it, by a smaller max_length."
            )
        return room if known is None else min(room, known)

    def check_reply_length(self, task: Task, *, is_scored: bool) -> None:
        """Refuse a task whose replies are longer than there are positions for, before any is written.

        Replies are scored with an end each, so that those cut off are one token longer.
        """
        config, steps = self.model.config, task.constraints.max_new_tokens
        positions = self.positions
        if positions is None or getattr(config, "rope_parameters", None):  # these go on, as in generate
            return
        begun = task.prompt.shape[1] if config.is_encoder_decoder else int(task.inputs.mask.sum(1).max())
        if begun + steps - 1 + is_scored > positions:  # what is written last is not read
            raise SettingsError(
                f"{type(self.model).__name__} has {positions:,} positions, too few for {begun} tokens and a "
                f"reply of {steps}: lower max_new_tokens."
            )

    def encode_sources(self, texts: Sequence[str], limits: Sequence[int | None]) -> tuple[Tensor, Tensor]:
        """Sources as the model reads them, and their mask: both (sources, length).

        Of each source as many of its last tokens are kept as its limit says. Padding is on the right for an
        encoder and on the left for a lone decoder. A prompt of no tokens at all becomes the token that begins
        or ends a text.
        """
        model, tokenizer = self.model, self.reader
        rows: list[list[int]] = []
        for limit, group in groupby(zip(limits, texts, strict=True), key=itemgetter(0)):
            rows += source_ids([text for _, text in group], tokenizer, model.config, max_length=limit)
        if not all(rows):
            first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
            if first is None:
                raise InputError(
                    f"The source {texts[rows.index([])]!r} has no token for {self.name}, whose tokenizer has "
                    "neither a start nor an end token to read instead."
                )
            rows = [row or [first] for row in rows]
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        side = "right" if model.config.is_encoder_decoder else "left"
        ids, mask = pad_rows(rows, pad, side), pad_rows([[1] * len(row) for row in rows], 0, side)
        device = find_device_of(model)
        return ids.to(device), mask.to(device)
