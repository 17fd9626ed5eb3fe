"""Lists by a model's own `generate`, and scores by its plain forward: for models our search does not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    PreTrainedModel,
    SuppressTokensLogitsProcessor,
)
from transformers.modeling_outputs import BaseModelOutput

from bidibeam import work
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction, Hypothesis
from bidibeam.models.huggingface.configs import find_rope_types, token_ids
from bidibeam.models.huggingface.constraints import STOPPING_BY_EARLY_STOPPING
from bidibeam.models.huggingface.labels import arrange_ids
from bidibeam.models.huggingface.quiet import quiet_transformers
from bidibeam.models.huggingface.scorer import (
    HFScorer,
    Inputs,
    check_eval_mode,
    depends_on_batch,
    find_device_of,
    find_obstacle,
    is_spread,
    refusal,
    score_in_passes,
    sum_log_probs,
)
from bidibeam.models.n_best import score_hypothesis
from bidibeam.search.settings import SearchSettings

if TYPE_CHECKING:
    from bidibeam.models.huggingface.directional import DirectionalModel, Task

EARLY_STOPPING = {name: early for early, name in STOPPING_BY_EARLY_STOPPING.items()}
COMPARED_TOKENS = 12
"""Tokens of a text for which `generate` and forward must agree."""
_LOCKS: WeakKeyDictionary[PreTrainedModel, RLock] = WeakKeyDictionary()
"""Who reads a model that changes as it reads, by model."""
EMPTY_SLOT = -1e8
"""Scores below it are those of beams that `generate` never filled."""


def search_by_generate(
    loaded: DirectionalModel, task: Task, settings: SearchSettings
) -> list[list[Hypothesis]]:
    """The hypotheses of every source that `generate` finds with as many beams, best first.

    A reverse model's task has its constraints reversed already. `generate` normalises by |Y|^length_penalty
    while it searches; the scores are by the settings' own length formula.
    """
    check_stopping(loaded.name, settings)
    constraints, special, beams = task.constraints, loaded.find_special(task), settings.beam_size
    if loaded.direction is Direction.REVERSE and constraints.processors is not None:
        raise SettingsError(
            f"{loaded.name} is searched by its own generate, which cannot follow logits processors, such as "
            "those of no_repeat_ngram_size, from the end of a reply: leave these out, also of "
            "generation_config.json."
        )
    processors, device = LogitsProcessorList(task.processors), task.prompt.device
    config = copy(task.config)
    config.watermarking_config = None  # `generate` would add the watermark once more; others it replaces
    if constraints.roles.forbidden:
        processors.append(SuppressTokensLogitsProcessor(sorted(constraints.roles.forbidden), device=device))
    if settings.min_length:
        least = (task.prompt.shape[1], settings.min_length, [*constraints.roles.ends])
        processors.append(MinNewTokensLengthLogitsProcessor(*least, device=device))
    with reading_alone(loaded.model), quiet_transformers():
        output = loaded.model.generate(
            **_what_to_read(task),
            generation_config=config,
            logits_processor=processors,
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=settings.max_length,
            length_penalty=settings.length_penalty,
            early_stopping=EARLY_STOPPING[settings.stopping],
            return_dict_in_generate=True,
            output_scores=beams > 1,
            output_logits=beams == 1,
        )
    rows = output.sequences[:, task.prompt.shape[1] :].tolist()
    hypotheses: list[list[Hypothesis]] = [[] for _ in task.prompt]
    scores = output.sequences_scores.tolist() if beams > 1 else [0.0] * len(rows)
    for number, (row, value) in enumerate(zip(rows, scores, strict=True)):
        if value <= EMPTY_SLOT:
            continue
        end = next((place for place, token in enumerate(row) if token in constraints.roles.ends), None)
        written = row if end is None else row[: end + 1]
        log_prob = value * len(written) ** settings.length_penalty
        if beams == 1:  # then `generate` has no scores, and searches without
            log_prob = _sum_steps(output.logits, [number] * len(written), written)
        ids = arrange_ids(written, loaded.direction, special)
        text, words = loaded.detokenize(ids, special)
        found = score_hypothesis(text, ids, log_prob, settings, is_finished=end is not None)
        hypotheses[number // beams].append(found._replace(tokens=words))
    return hypotheses


def _sum_steps(logits: Sequence[Tensor], rows: Sequence[int], tokens: Sequence[int]) -> float:
    """The log-probability of tokens by the logits of steps, (rows, vocabulary) each, and their rows there."""
    steps = zip(logits, rows, tokens, strict=False)
    return sum(float(each[row].float().log_softmax(-1)[token]) for each, row, token in steps)


def _what_to_read(task: Task) -> dict[str, Any]:
    """A task's sources as arguments of `generate`."""
    inputs = task.inputs
    if inputs.begin is None:
        return {"input_ids": inputs.ids, "attention_mask": inputs.mask}
    read: dict[str, Any] = {"attention_mask": inputs.mask, "decoder_input_ids": task.prompt}
    if has_ids(inputs):
        return {"input_ids": inputs.ids, **read}
    return {"encoder_outputs": BaseModelOutput(last_hidden_state=inputs.encoded), **read}


def has_ids(inputs: Inputs) -> bool:
    """Whether the ids of sources are known; `generate` fills in -100 where there are none."""
    return not inputs.ids.is_floating_point() and not bool((inputs.ids < 0).any())


def check_stopping(name: str, settings: SearchSettings) -> None:
    """Refuse a stopping rule that `generate` does not have."""
    if settings.stopping not in EARLY_STOPPING:
        raise SettingsError(
            f"{name} is searched by its own generate, which does not have the stopping rule "
            f"{settings.stopping!r}: set `stopping` to one of {', '.join(EARLY_STOPPING)}."
        )


def score_sequences(
    model: PreTrainedModel, inputs: Inputs, sequences: Sequence[Sequence[Sequence[int]]]
) -> list[list[float]]:
    """Log-probabilities of each source's sequences: with a cache where our own search runs the model."""
    if find_obstacle(model):
        return score_by_forward(model, inputs, sequences)
    return HFScorer(model).log_probs(inputs, sequences)


@torch.inference_mode()
def score_by_forward(
    model: PreTrainedModel, inputs: Inputs, sequences: Sequence[Sequence[Sequence[int]]]
) -> list[list[float]]:
    """Teacher forcing by a model's plain forward, without a cache: any architecture has it.

    A decoder-only model reads prompt and sequence in one row. A pass has rows of one length and no padding,
    which some models would mistake for text. Ids are in writing order with the end token if any.
    """
    check_eval_mode(model)
    masks = [mask.bool() for mask in inputs.mask]
    sources = [ids[mask] for ids, mask in zip(inputs.ids, masks, strict=True)]
    begins = [ids.tolist() for ids in (sources if inputs.begin is None else inputs.begin)]

    def score(part: Sequence[tuple[int, Sequence[int]]]) -> list[float]:
        """Log-probabilities of sequences, each with the number of its source."""
        device = inputs.mask.device
        written = torch.tensor([ids for _, ids in part], device=device)  # (rows, length)
        rows = torch.tensor([[*begins[source], *ids[:-1]] for source, ids in part], device=device)
        work.count(projected_rows=written.numel())
        read: dict[str, Any] = {"input_ids": rows}
        if inputs.begin is not None:
            read = {"decoder_input_ids": rows}
            if has_ids(inputs):
                read["input_ids"] = torch.stack([sources[source] for source, _ in part])
                read["attention_mask"] = torch.ones_like(read["input_ids"])
            else:
                assert inputs.encoded is not None
                encoded = torch.stack([inputs.encoded[source][masks[source]] for source, _ in part])
                read["encoder_outputs"] = BaseModelOutput(last_hidden_state=encoded)
        with reading_alone(model):
            output = model(use_cache=False, return_dict=True, **read)
        logits = output.logits[:, -written.shape[1] :].float()  # virtual tokens of an adapter come first
        return sum_log_probs(logits, written, torch.ones_like(written, dtype=torch.bool))

    shapes = [(len(source), len(begin)) for source, begin in zip(sources, begins, strict=True)]
    return score_in_passes(model, sequences, score, shapes, 1 if depends_on_batch(model) else None)


@torch.inference_mode()
def check_agreement(model: PreTrainedModel, task: Task) -> None:
    """Refuse a model whose forward does not give the probability to what `generate` writes that it gives.

    That of a model that looks ahead does not, and some models' caches do not follow a beam: another
    direction's hypotheses could not be compared with those of such a model.
    """
    forbidden = {*token_ids(model, "pad_token_id")} - {*task.constraints.roles.ends}
    with quiet_transformers():
        found = model.generate(
            **_what_to_read(task),
            num_beams=8,  # so many that beams change places, which some models' caches do not follow
            num_return_sequences=8,
            do_sample=False,
            min_new_tokens=COMPARED_TOKENS,
            max_new_tokens=COMPARED_TOKENS,
            suppress_tokens=sorted(forbidden) or None,
            return_dict_in_generate=True,
            output_logits=True,
        )
    steps = [[row for row in line if row >= 0] for line in found.beam_indices.tolist()]
    tokens = found.sequences[:, task.prompt.shape[1] :].tolist()
    written = [line[: len(rows)] for line, rows in zip(tokens, steps, strict=True)]
    by_steps = [_sum_steps(found.logits, *one) for one in zip(steps, written, strict=True)]
    (at_once,) = score_by_forward(model, task.inputs, [written])
    tolerance = 1e-3 if model.dtype == torch.float32 else 0.05
    for one, other in zip(by_steps, at_once, strict=True):
        if not abs(one - other) <= tolerance * max(1.0, abs(one)):
            is_encoder = task.inputs.begin is None and getattr(model.config, "is_decoder", None) is False
            hint = ", and its config lacks is_decoder" if is_encoder else ""
            said = f"log-probabilities of {one:.3f} and {other:.3f}{hint}"
            raise refusal(model, f"its generate and its forward give a text {said}")


@contextmanager
def reading_alone(model: PreTrainedModel) -> Iterator[None]:
    """In the block, what a model changes as it reads is this thread's: weights that it fetches and lets go.

    So are rotary embeddings that change with the length, which begin anew. The model keeps them; dynamic ones
    stay with the longest text until they have seen a short one.
    """
    changing = find_rope_types(model.config) & {"dynamic", "longrope"}
    with _LOCKS.setdefault(model, RLock()) if changing or is_spread(model) else nullcontext():
        if "dynamic" in changing:
            first = torch.zeros((1, 1), dtype=torch.long, device=find_device_of(model))
            model(input_ids=first, use_cache=False)
        yield
