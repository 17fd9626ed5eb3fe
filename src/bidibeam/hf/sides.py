"""One direction of a pair: a model, how it is searched, and how what it wrote reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel

from bidibeam.data.words import split
from bidibeam.hf.labels import reverse_labels, special_ids
from bidibeam.hf.rules import Rules, rules_of
from bidibeam.hf.scoring import HFScorer, HFState, Inputs
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.search.beam import find
from bidibeam.search.found import Found, FoundSequence
from bidibeam.search.settings import SearchSettings

Spelling = Callable[[Sequence[int]], tuple[tuple[str, ...], str]]


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
    stopping_criteria: Any = None,  # noqa: ARG001
    inputs_tensor: Tensor | None = None,
    **model_kwargs: Any,
) -> Task:
    """A task from what `generate` hands over; every source's row comes as often as there are beams."""
    each = max(generation_config.num_beams or 1, generation_config.num_return_sequences or 1)
    prompt = input_ids[::each]  # (sources, length)
    mask = model_kwargs.get("attention_mask")
    if model.config.is_encoder_decoder:
        encoded = model_kwargs["encoder_outputs"][0][::each]
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
    """

    nbest: NBest
    ids: list[tuple[int, ...]]
    sequences: list[FoundSequence]


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
    def of(model: PreTrainedModel, direction: Direction, tokenizer: Any = None) -> Side:
        """With a tokenizer, or else with what the model's config says of its tokens."""
        if tokenizer is not None:
            return Side(model, direction, special_ids(tokenizer), words_by(tokenizer))
        special = config_special_ids(model)
        return Side(model, direction, special, ids_but(special))

    def search(self, task: Task, settings: SearchSettings) -> list[Written]:
        """The hypotheses of every source."""
        return [self._written(line, task.rules) for line in self.sequences(task, settings)]

    def sequences(self, task: Task, settings: SearchSettings) -> list[list[FoundSequence]]:
        """All that the search finds, in writing order."""
        return self.found(task, settings).sequences()

    def found(self, task: Task, settings: SearchSettings) -> Found:
        """The same, for whoever reads it later or otherwise."""
        state = self.scorer.start_with(task.inputs, settings.beam_size)
        scorer = task.rules.applied(_Begun(self.scorer, state), task.prompt)
        lines = torch.arange(state.sources, device=task.prompt.device)[:, None]  # (sources, 1)
        return find(scorer, lines, settings, task.rules.roles)

    def opinions(self, task: Task, written: Sequence[Written]) -> list[list[float]]:
        """What this side makes of the other's replies, each as a whole with an end."""
        end = task.rules.roles.end
        turned = [
            [reverse_labels([*sequence.tokens, end], self.special) for sequence in line.sequences]
            for line in written
        ]
        return self.scorer.log_probs_after(self.scorer.start_with(task.inputs), turned)

    def _written(self, sequences: Sequence[FoundSequence], rules: Rules) -> Written:
        """One hypothesis a text, its best sequence's; several sequences of subwords may spell the same."""
        merged: dict[str, Hypothesis] = {}
        ids, first = [], []
        for sequence in sequences:
            whole = [*sequence.tokens, rules.roles.end] if sequence.finished else list(sequence.tokens)
            reading = whole
            if self.direction is Direction.REVERSE:
                reading = reverse_labels(whole, self.special)
            tokens, text = self.spelled(reading)
            known = merged.get(text)
            if known is not None:
                merged[text] = known._replace(multiplicity=known.multiplicity + 1)
                continue
            _, log_prob, length, score, finished = sequence
            merged[text] = Hypothesis(text, tokens, log_prob, length, score, finished)
            ids.append(tuple(reading))
            first.append(sequence)
        return Written(NBest(tuple(merged.values())), ids, first)


class _Begun:
    """A scorer whose sources were read already."""

    def __init__(self, scorer: HFScorer, state: HFState) -> None:
        self._state = state
        self.step, self.select = scorer.step, scorer.select
        self.recorder, self.kind = scorer.recorder, scorer.kind
        self.tensors, self.cloned = scorer.tensors, scorer.cloned

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
) -> tuple[list[Beams], dict[Direction, list[Written]]]:
    """Sources with the hypotheses of every side that has a size.

    Args:
        sides: The models.
        tasks: What each is to write, and to read for an opinion.
        sizes: How to search, by direction; a side without is not searched.
        beams: The sources.
        judged: Whether the other side's opinion of each hypothesis is wanted.
    """
    filled, found = list(beams), {}
    for direction, settings in sizes.items():
        written = found[direction] = sides[direction].search(tasks[direction], settings)
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
        filled = [line.having(direction, nbest) for line, nbest in zip(filled, lists, strict=True)]
    return filled, found
