"""One direction of a pair: a model, how it is searched, and how what it wrote reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel
from transformers.utils import ModelOutput

from bidibeam.data.words import split
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.models.huggingface.labels import reverse_labels, special_ids
from bidibeam.models.huggingface.rules import Rules, check_criteria, rules_of
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.states import HFState, Inputs
from bidibeam.search.backpointers import ScoredSequence
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings

Spelling = Callable[[Sequence[int]], tuple[tuple[str, ...], str]]

HEEDED = ("attention_mask", "encoder_outputs", "position_ids", "decoder_attention_mask", "past_key_values")
"""Tensors that `generate` may hand over: read, or seen to say nothing new."""


class Task(NamedTuple):
    """What a model is to write: as `generate` prepares it.

    Attributes:
        inputs: What it reads.
        prompt: (sources, length), what its decoder reads.
        rules: What it may write.
        config: The generation config.
    """

    inputs: Inputs
    prompt: Tensor
    rules: Rules
    config: GenerationConfig


def prepared(model: PreTrainedModel, ids: Tensor, mask: Tensor, **options: Any) -> Task:
    """Have a model's own `generate` prepare inputs and rules by its generation config and these options."""
    task: Task = model.generate(
        input_ids=ids, attention_mask=mask, custom_generate=task_of, num_beams=1, do_sample=False, **options
    )
    return task


def task_of(
    model: PreTrainedModel,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    generation_config: GenerationConfig,
    stopping_criteria: Any = None,
    inputs_tensor: Tensor | None = None,
    **model_kwargs: Any,
) -> Task:
    """A task from what `generate` hands over; every source's row comes as often as there are beams.

    Raises:
        SettingsError: If something was asked for that a search does not heed.
    """
    each = max(generation_config.num_beams or 1, generation_config.num_return_sequences or 1)
    prompt = input_ids[::each]  # (sources, length)
    mask = model_kwargs.get("attention_mask")
    check_criteria(stopping_criteria or (), generation_config)
    _check_heeded(model_kwargs, each, is_encoder_decoder=model.config.is_encoder_decoder)
    if model.config.is_encoder_decoder:
        encoded = _once_per_source(model_kwargs["encoder_outputs"], each)
        known = (
            torch.ones(encoded.shape[:2], dtype=torch.long, device=encoded.device)
            if mask is None
            else mask[::each]
        )
        ids = prompt if inputs_tensor is None else inputs_tensor
        inputs = Inputs(ids, known, prompt, encoded)
    else:
        inputs = Inputs(prompt, torch.ones_like(prompt) if mask is None else mask[::each])
    rules = rules_of(generation_config, logits_processor, prompt.shape[1])
    return Task(inputs, prompt, rules, generation_config)


def _once_per_source(outputs: Any, each: int) -> Tensor:
    """What the encoder said, (sources, length, size), of outputs in which each source comes so many times.

    `generate` has repeated them where they are, also a caller's own, and holds on to them; so what they were
    is put back there.
    """
    if each > 1 and isinstance(outputs, ModelOutput):
        for name, value in list(outputs.items()):
            if isinstance(value, Tensor):
                outputs[name] = value[::each].clone()
        each = 1
    encoded: Tensor = outputs[0]
    return encoded[::each]


def _check_heeded(given: Mapping[str, Any], each: int, *, is_encoder_decoder: bool) -> None:
    """Refuse tensors that a search would not read.

    Args:
        given: What `generate` hands over by name.
        each: How often every source's row comes.
        is_encoder_decoder: Whether the model is one; what its encoder read is known by what it said.

    Raises:
        SettingsError: If there is one.
    """
    names = {name for name, value in given.items() if isinstance(value, Tensor)} - {*HEEDED}
    if is_encoder_decoder:
        names.discard("inputs_embeds")
    cache, kept = given.get("past_key_values"), given.get("decoder_attention_mask")
    if cache is not None and cache.get_seq_length() > 0:
        names.add("past_key_values")
    if kept is not None and not bool(kept.all()):
        names.add("decoder_attention_mask")
    if not is_encoder_decoder and _has_own_positions(given, each):
        names.add("position_ids")
    if names:
        what = "input_ids alone" if "inputs_embeds" in names else "input_ids and attention_mask alone"
        raise SettingsError(
            f"generate was given {' and '.join(sorted(names))}, which a search does not read: give {what}."
        )


def _has_own_positions(given: Mapping[str, Any], each: int) -> bool:
    """Whether tokens of a prompt are anywhere but where the mask has them."""
    positions, mask = given.get("position_ids"), given.get("attention_mask")
    if positions is None or positions.dim() != 2:
        return False
    is_there = torch.ones_like(positions) if mask is None else mask  # (rows, length)
    is_there = is_there[::each].long()  # (sources, length)
    return bool(((is_there.cumsum(-1) - 1 != positions[::each]) & (is_there > 0)).any())


def positions_of(config: Any) -> int | None:
    """How many tokens a model has positions for; None if any number."""
    if hasattr(config, "relative_attention_num_buckets"):
        return None
    found: int | None = getattr(config, "max_position_embeddings", None)
    return found


def words_by(tokenizer: Any) -> Spelling:
    """How a tokenizer spells ids: words, by which replies are compared, and text."""

    def spelled(ids: Sequence[int]) -> tuple[tuple[str, ...], str]:
        text = " ".join(tokenizer.decode(list(ids), skip_special_tokens=True).split())
        return tuple(split(text)), text

    return spelled


def ids_but(special: Iterable[int]) -> Spelling:
    """Ids as if they were words, special ones left out: where no tokenizer is known."""
    left_out = frozenset(special)

    def spelled(ids: Sequence[int]) -> tuple[tuple[str, ...], str]:
        words = tuple(str(one) for one in ids if one not in left_out)
        return words, " ".join(words)

    return spelled


@dataclass(frozen=True)
class Written:
    """What one side found for one source.

    Attributes:
        nbest: The hypotheses, one a text.
        ids: Of each, its ids in reading order, with the end token if it came.
        sequences: Of each, the sequence that was found.
        others: Of each, the ids of further sequences that read the same, best first.
    """

    nbest: NBest
    ids: list[tuple[int, ...]]
    sequences: list[ScoredSequence]
    others: list[list[tuple[int, ...]]]


@dataclass(frozen=True)
class Side:
    """A model that writes in one direction.

    Args:
        model: The model.
        direction: In which order it writes.
        special: Ids that stay in place when a reply is turned around.
        spelled: How its ids read.
    """

    model: PreTrainedModel
    direction: Direction
    special: frozenset[int]
    spelled: Spelling
    scorer: HFScorer = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scorer", HFScorer(self.model))

    @staticmethod
    def of(
        model: PreTrainedModel, direction: Direction, tokenizer: Any = None, ends: Iterable[int] = ()
    ) -> Side:
        """With a tokenizer, or else with what the model's config says of its tokens, and with end tokens."""
        if tokenizer is not None:
            return Side(model, direction, special_ids(tokenizer), words_by(tokenizer))
        special = config_special_ids(model).union(ends)
        return Side(model, direction, special, ids_but(special))

    def search(self, task: Task, settings: SearchSettings, *, merged: bool = True) -> list[Written]:
        """The hypotheses of every source; merged, one of those that read the same stands for all."""
        return [self._written(line, task.rules, merged=merged) for line in self.sequences(task, settings)]

    def sequences(self, task: Task, settings: SearchSettings) -> list[list[ScoredSequence]]:
        """All that the search finds, in writing order."""
        state = self.scorer.start_with(task.inputs, settings.beam_size)
        scorer = task.rules.applied(_Begun(self.scorer, state), task.prompt)
        lines = torch.arange(state.sources, device=task.prompt.device)[:, None]  # (sources, 1)
        return beam_search(scorer, lines, settings, task.rules.roles)

    def opinions(self, task: Task, written: Sequence[Written]) -> list[list[float]]:
        """What this side makes of the other's replies, each as a whole with its end, or else this side's."""
        roles = task.rules.roles
        special = self.special.union(roles.ends)
        turned = [
            [
                reverse_labels(
                    [*one.tokens, one.end if one.end is not None and one.end in roles.ends else roles.end],
                    special,
                )
                for one in line.sequences
            ]
            for line in written
        ]
        return self.scorer.log_probs_after(self.scorer.start_with(task.inputs), turned)

    def _written(self, sequences: Sequence[ScoredSequence], rules: Rules, *, merged: bool) -> Written:
        """A hypothesis for each text, or for each sequence; several sequences may spell the same text.

        One that was cut off does not stand for those that finished: it ranks after them.
        """
        special = self.special.union(rules.roles.ends)
        places: dict[tuple[str, bool], int] = {}
        line = Written(NBest(), [], [], [])
        hypotheses: list[Hypothesis] = []
        for sequence in sequences:
            reading = list(sequence.tokens) if sequence.end is None else [*sequence.tokens, sequence.end]
            if self.direction is Direction.REVERSE:
                reading = reverse_labels(reading, special)
            tokens, text = self.spelled(reading)
            place = places.setdefault((text, sequence.finished), len(hypotheses))
            if merged and place < len(hypotheses):
                line.others[place].append(tuple(reading))
                continue
            _, log_prob, length, score, finished, _ = sequence
            hypotheses.append(Hypothesis(text, tokens, log_prob, length, score, finished))
            line.ids.append(tuple(reading))
            line.sequences.append(sequence)
            line.others.append([])
        counted = zip(hypotheses, line.others, strict=True)
        whole = tuple(one._replace(multiplicity=1 + len(others)) for one, others in counted)
        return replace(line, nbest=NBest(whole))


class _Begun:
    """A scorer whose sources were read already."""

    def __init__(self, scorer: HFScorer, state: HFState) -> None:
        self._state = state
        self.step, self.select = scorer.step, scorer.select

    def start(self, sources: Tensor) -> HFState:  # noqa: ARG002
        return self._state


def config_special_ids(model: PreTrainedModel) -> frozenset[int]:
    """The special tokens that a model's configs name."""
    names = (
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "decoder_start_token_id",
        "forced_bos_token_id",
        "sep_token_id",
    )
    found: set[int] = set()
    for config in (model.config, getattr(model, "generation_config", None)):
        for name in names:
            value = getattr(config, name, None)
            found.update(value if isinstance(value, list | tuple) else () if value is None else (value,))
    return frozenset(found)


def both_searched(
    sides: Mapping[Direction, Side],
    tasks: Mapping[Direction, Task],
    sizes: Mapping[Direction, SearchSettings],
    beams: Sequence[Beams],
    *,
    judged: bool,
    merged: bool = True,
) -> tuple[list[Beams], dict[Direction, list[Written]]]:
    """Sources with the hypotheses of every side that has a size.

    Args:
        sides: The models.
        tasks: What each is to write, and to read for an opinion.
        sizes: How to search, by direction; a side without is not searched.
        beams: The sources.
        judged: Whether the other side's opinion of each hypothesis is wanted.
        merged: Whether one hypothesis stands for all sequences of a side that read the same.
    """
    filled, found = list(beams), {}
    for direction, settings in sizes.items():
        written = found[direction] = sides[direction].search(tasks[direction], settings, merged=merged)
        lists = [line.nbest for line in written]
        if judged:
            other = direction.other
            heard = sides[other].opinions(tasks[other], written)
            lists = [
                NBest(
                    tuple(one._replace(other_log_prob=value) for one, value in zip(line, values, strict=True))
                )
                for line, values in zip(lists, heard, strict=True)
            ]
        filled = [line.with_hypotheses(direction, nbest) for line, nbest in zip(filled, lists, strict=True)]
    return filled, found
