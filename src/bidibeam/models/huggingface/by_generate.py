"""Lists by a model's own `generate`, and scores by its plain forward: for models our search does not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import LogitsProcessorList, PreTrainedModel, SuppressTokensLogitsProcessor
from transformers.modeling_outputs import BaseModelOutput

from bidibeam import work
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction, Hypothesis, NBest
from bidibeam.models.huggingface.constraints import STOPPING_BY_EARLY_STOPPING
from bidibeam.models.huggingface.labels import arrange_ids, pad_rows
from bidibeam.models.huggingface.quiet import quiet_transformers
from bidibeam.models.huggingface.scorer import (
    HFScorer,
    Inputs,
    check_eval_mode,
    find_obstacle,
    score_in_passes,
    sum_log_probs,
)
from bidibeam.models.n_best import rank_hypotheses, score_hypothesis
from bidibeam.search.settings import SearchSettings

if TYPE_CHECKING:
    from bidibeam.models.huggingface.directional import DirectionalModel, Task

EARLY_STOPPING = {name: early for early, name in STOPPING_BY_EARLY_STOPPING.items()}
EMPTY_SLOT = -1e8
"""Scores below it are those of beams that `generate` never filled."""


def search_by_generate(loaded: DirectionalModel, task: Task, settings: SearchSettings) -> list[NBest]:
    """The hypotheses of every source that `generate` finds with as many beams, best first.

    A reverse model's task has its constraints reversed already. `generate` normalises by |Y|^length_penalty
    while it searches; the scores, and so the order, are by the settings' own length formula.
    """
    check_stopping(loaded.name, settings)
    constraints, special = task.constraints, loaded.find_special(task)
    if loaded.direction is Direction.REVERSE and constraints.processors is not None:
        raise SettingsError(
            f"{loaded.name} is searched by its own generate, which cannot follow the logits processors of "
            "its generation config from the end of a reply: take them out of generation_config.json."
        )
    beams, forbidden = settings.beam_size, sorted(constraints.roles.forbidden)
    processors = [SuppressTokensLogitsProcessor(forbidden, device=task.prompt.device)] if forbidden else []
    with quiet_transformers():
        output = loaded.model.generate(
            input_ids=task.inputs.ids,
            attention_mask=task.inputs.mask,
            logits_processor=LogitsProcessorList(processors),
            num_beams=beams,
            num_return_sequences=beams,
            do_sample=False,
            max_new_tokens=settings.max_length,
            min_new_tokens=settings.min_length,
            length_penalty=settings.length_penalty,
            early_stopping=EARLY_STOPPING[settings.stopping],
            return_dict_in_generate=True,
            output_scores=True,
        )
    rows = output.sequences[:, task.prompt.shape[1] :].tolist()
    hypotheses: list[list[Hypothesis]] = [[] for _ in task.prompt]
    for number, (row, value) in enumerate(zip(rows, output.sequences_scores.tolist(), strict=True)):
        if value <= EMPTY_SLOT:
            continue
        end = next((place for place, token in enumerate(row) if token in constraints.roles.ends), None)
        written = row if end is None else row[: end + 1]
        log_prob = value * len(written) ** settings.length_penalty
        ids = arrange_ids(written, loaded.direction, special)
        text, _ = loaded.detokenize(ids, special)
        hypotheses[number // beams].append(
            score_hypothesis(text, ids, log_prob, settings, is_finished=end is not None)
        )
    return [rank_hypotheses(line, settings) for line in hypotheses]


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

    A decoder-only model reads prompt and sequence in one row, padded on the right, where padding changes
    nothing that comes before it. Ids are in writing order with the end token if any.
    """
    check_eval_mode(model)
    if inputs.begin is not None:
        prompts = inputs.begin.tolist()
    else:
        pairs = zip(inputs.ids, inputs.mask, strict=True)
        prompts = [ids[mask.bool()].tolist() for ids, mask in pairs]

    def score(part: Sequence[tuple[int, Sequence[int]]]) -> list[float]:
        """Log-probabilities of sequences, each with the number of its source."""
        owners = torch.tensor([source for source, _ in part], device=inputs.mask.device)  # (rows,)
        rows = [[*prompts[source], *written] for source, written in part]
        scored = [[0] * len(prompts[source]) + [1] * len(written) for source, written in part]
        ids = pad_rows(rows, 0).to(owners.device)  # (rows, length)
        is_scored = pad_rows(scored, 0).to(owners.device)  # (rows, length)
        work.count(projected_rows=int(is_scored.sum()))
        read: dict[str, Any] = {"input_ids": ids[:, :-1]}
        if inputs.encoded is not None:
            encoded = BaseModelOutput(last_hidden_state=inputs.encoded[owners])
            mask = inputs.mask[owners]
            read = {"encoder_outputs": encoded, "attention_mask": mask, "decoder_input_ids": ids[:, :-1]}
        output = model(use_cache=False, return_dict=True, **read)
        return sum_log_probs(output.logits.float(), ids[:, 1:], is_scored[:, 1:] > 0)

    return score_in_passes(model, sequences, score, max(map(len, prompts)))
