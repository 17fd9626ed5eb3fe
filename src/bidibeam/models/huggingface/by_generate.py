"""Lists by a model's own `generate`, and scores by its plain forward: for models our search does not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import LogitsProcessorList, PreTrainedModel, SuppressTokensLogitsProcessor
from transformers.modeling_outputs import BaseModelOutput

from bidibeam import work
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction, Hypothesis
from bidibeam.models.huggingface.constraints import STOPPING
from bidibeam.models.huggingface.directional import DirectionalModel, Task, quiet_transformers
from bidibeam.models.huggingface.scorer import (
    SCORED_LOGITS,
    HFScorer,
    Inputs,
    check_eval_mode,
    find_obstacle,
    split_passes,
)
from bidibeam.search.length import LENGTH_PENALTIES
from bidibeam.search.settings import SearchSettings

EARLY_STOPPING = {name: early for early, name in STOPPING.items()}
EMPTY_SLOT = -1e8
"""Scores below it are those of beams that `generate` never filled."""


def search_by_generate(
    loaded: DirectionalModel, task: Task, settings: SearchSettings
) -> list[list[Hypothesis]]:
    """All hypotheses of every source that `generate` finds with as many beams, best first.

    `generate` normalises by |Y|^length_penalty while it searches; the scores, and so the order, are by the
    settings' own length formula.

    Args:
        loaded: The model.
        task: What it is to write; a reverse model's constraints are reversed already.
        settings: How to search.

    Raises:
        SettingsError: If `generate` does not have the stopping rule, or cannot follow a reverse model's
            processors.
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
    with quiet_transformers(is_local=True):
        found = loaded.model.generate(
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
    rows = found.sequences[:, task.prompt.shape[1] :].tolist()
    penalty = LENGTH_PENALTIES.get(settings.length_formula)(settings.length_penalty)
    hypotheses: list[list[Hypothesis]] = [[] for _ in task.prompt]
    for number, (row, value) in enumerate(zip(rows, found.sequences_scores.tolist(), strict=True)):
        if value <= EMPTY_SLOT:
            continue
        end = next((place for place, token in enumerate(row) if token in constraints.roles.ends), None)
        written = row if end is None else row[: end + 1]
        length = len(written) if end is None else settings.counted(len(written))
        log_prob = value * len(written) ** settings.length_penalty
        score = float(penalty.score(torch.tensor(log_prob, dtype=torch.float64), length))
        ids = loaded.arrange(written, special)
        text, words = loaded.detokenize(ids, special)
        hypotheses[number // beams].append(
            Hypothesis(text, words, log_prob, length, score, end is not None, ids=tuple(ids))
        )
    return [_rank(line, settings.unfinished) for line in hypotheses]


def _rank(hypotheses: list[Hypothesis], unfinished: str) -> list[Hypothesis]:
    """Hypotheses by our score; those cut off compete, come last, or are left out."""
    if unfinished == "drop":
        hypotheses = [one for one in hypotheses if one.finished]
    return sorted(
        hypotheses,
        key=lambda one: (unfinished == "keep" and not one.finished, -(one.score or 0.0)),
    )


def check_stopping(name: str, settings: SearchSettings) -> None:
    """Refuse a stopping rule that `generate` does not have.

    Raises:
        SettingsError: If it is one; the message names it, and what to choose.
    """
    if settings.stopping not in EARLY_STOPPING:
        raise SettingsError(
            f"{name} is searched by its own generate, which does not have the stopping rule "
            f"{settings.stopping!r}: set stopping to one of {', '.join(EARLY_STOPPING)}."
        )


class TeacherForcedScorer(Protocol):
    """What scores sequences in the order a model writes them."""

    def log_probs_of(self, inputs: Inputs, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        """Log-probabilities of each source's sequences."""
        ...


def find_sequence_scorer(model: PreTrainedModel) -> TeacherForcedScorer:
    """What scores a model's sequences: with a cache where our own search runs the model."""
    return UncachedScorer(model) if find_obstacle(model) else HFScorer(model)


class UncachedScorer:
    """Teacher forcing by a model's plain forward, without a cache: any architecture has it.

    A decoder-only model reads prompt and sequence in one row, padded on the right, where padding changes
    nothing that comes before it.

    Args:
        model: The model, in evaluation mode.

    Raises:
        ScorerError: If the model is in training mode.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        check_eval_mode(model)
        self._model = model

    @torch.inference_mode()
    def log_probs_of(self, inputs: Inputs, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        """Log-probabilities of each source's sequences, ids in writing order with the end token if any."""
        if inputs.begin is not None:
            prompts = inputs.begin.tolist()
        else:
            pairs = zip(inputs.ids, inputs.mask, strict=True)
            prompts = [ids[mask.bool()].tolist() for ids, mask in pairs]
        vocabulary = self._model.config.get_text_config(decoder=True).vocab_size
        longest = max(map(len, prompts))
        totals = [[0.0] * len(line) for line in sequences]
        padded = [[[0] * longest + [*ids] if len(ids) else [] for ids in line] for line in sequences]
        for part in split_passes(padded, SCORED_LOGITS // vocabulary):
            rows = [(prompts[source], sequences[source][place]) for source, place in part]
            owners = torch.tensor([source for source, _ in part], device=inputs.mask.device)
            for (source, place), value in zip(part, self._force(inputs, owners, rows), strict=True):
                totals[source][place] = value
        return totals

    def _force(
        self, inputs: Inputs, owners: Tensor, rows: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[float]:
        """Log-probabilities of (prompt, sequence) rows of the sources (rows,)."""
        longest = max(len(prompt) + len(sequence) for prompt, sequence in rows)
        ids, is_scored = torch.zeros(len(rows), longest, dtype=torch.long), torch.zeros(len(rows), longest)
        for row, (prompt, sequence) in enumerate(rows):
            end = len(prompt) + len(sequence)
            ids[row, :end] = torch.tensor([*prompt, *sequence])
            is_scored[row, len(prompt) : end] = 1
        ids, is_scored = ids.to(owners.device), is_scored.to(owners.device)  # (rows, length)
        work.count(projected_rows=int(is_scored.sum()))
        logits = self._forward(ids[:, :-1], inputs, owners).float()  # (rows, length - 1, vocabulary)
        log_probs = logits.gather(2, ids[:, 1:, None]).squeeze(2) - logits.logsumexp(2)
        values: list[float] = log_probs.double().masked_fill(is_scored[:, 1:] == 0, 0.0).sum(1).tolist()
        return values

    def _forward(self, ids: Tensor, inputs: Inputs, owners: Tensor) -> Tensor:
        how: dict[str, Any] = {"use_cache": False, "return_dict": True}
        if inputs.encoded is not None:
            how["encoder_outputs"] = BaseModelOutput(last_hidden_state=inputs.encoded[owners])
            how |= {"attention_mask": inputs.mask[owners], "decoder_input_ids": ids}
        else:
            how["input_ids"] = ids
        logits: Tensor = self._model(**how).logits
        return logits
