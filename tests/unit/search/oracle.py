"""A beam search for one source that is slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from bidibeam.search.backpointers import ScoredSequence
from bidibeam.search.candidates import summarise_rows
from bidibeam.search.settings import SearchSettings, VocabularyRoles

PrefixRow = Callable[[tuple[int, ...]], Sequence[float]]
Live = tuple[tuple[int, ...], np.float32]
"""Tokens, and their log-probability."""


def log_probs_of(logits: Sequence[float]) -> list[np.float32]:
    """Normalised in float32, with the log-sum-exp under test elsewhere, so that ties are the same ties."""
    row = np.array(logits, dtype=np.float32)
    normaliser = np.float32(summarise_rows(torch.from_numpy(row)[None])[1].item())
    return list(row - normaliser)


def follow(
    log_probs: Sequence[Any], read: tuple[int, ...], settings: SearchSettings, roles: VocabularyRoles
) -> list[Any]:
    """What the options of repetition and forbidden sequences make of each token after what was read."""
    found = []
    for token, value in enumerate(log_probs):
        written, size = (*read, token), settings.no_repeat_ngram_size
        ngrams = [written[place : place + size] for place in range(len(written) - size + 1)]
        if token in read:
            value = value * settings.repetition_penalty if value < 0 else value / settings.repetition_penalty
        if size and ngrams and ngrams.count(ngrams[-1]) > 1:
            value = -math.inf
        if any(written[-len(sequence) :] == sequence for sequence in roles.forbidden_sequences):
            value = -math.inf
        found.append(value)
    return found


def normalised(log_prob: np.float32, length: int, settings: SearchSettings) -> np.float32:
    base = (5 + length) / 6 if settings.length_formula == "gnmt" else float(max(length, 1))
    return np.float32(log_prob * np.float32(base**-settings.length_penalty))


def oracle_search(row: PrefixRow, settings: SearchSettings, roles: VocabularyRoles) -> list[ScoredSequence]:
    size = settings.beam_size
    name, _, argument = settings.stopping.partition("=")
    live: list[Live] = [((), np.float32(0))]
    finished: list[ScoredSequence] = []
    is_over = False
    for step in range(1, settings.max_length + 1):
        width = size - len(finished) if name == "shrinking" else size
        candidates = []
        for beam, (prefix, log_prob) in enumerate(live):
            following = follow(log_probs_of(row(prefix)), (roles.start, *prefix), settings, roles)
            for token, more in enumerate(following):
                total = np.float32(more + log_prob)
                is_early = token in roles.ends and step <= settings.min_length
                taboo = roles.forbidden | (roles.forbidden_first if step == 1 else set())
                if token not in taboo and not is_early and total > -math.inf:
                    candidates.append((-total, beam, token))
        candidates.sort()
        length = step if settings.count_end else step - 1
        for cost, beam, token in candidates[:width]:
            if token in roles.ends:
                score = normalised(-cost, length, settings)
                finished.append(
                    ScoredSequence(live[beam][0], float(-cost), length, float(score), True, token)
                )
        width = size - len(finished) if name == "shrinking" else size
        going_on = [candidate for candidate in candidates if candidate[2] not in roles.ends][:width]
        live = [((*live[beam][0], token), -cost) for cost, beam, token in going_on]
        if name in {"shrinking", "constant"}:
            is_over = len(finished) >= size
        elif name == "patience":
            is_over = len(finished) >= float(argument or 2) * size
        elif name in {"heuristic", "optimal"}:
            ends = range(min(step + 1, settings.max_length), settings.max_length + 1)
            lengths = [end if settings.count_end else end - 1 for end in ends]
            if name == "optimal":
                is_over = not can_still_win(live, finished, lengths, settings)
            else:  # the best one, as it is
                is_over = not can_still_win(live[:1], finished, [max(lengths[0] - 1, 1)], settings)
        if is_over or not live:
            break
    finished.sort(key=lambda found: -found.score)
    kept = () if is_over and step < settings.max_length else ("rank",) if is_over else ("keep", "rank")
    unfinished = [
        ScoredSequence(
            prefix, float(log_prob), len(prefix), float(normalised(log_prob, len(prefix), settings)), False
        )
        for prefix, log_prob in live
        if settings.unfinished in kept
    ]
    found = finished + unfinished
    if settings.unfinished == "rank":
        found.sort(key=lambda found: -found.score)
    return found[:size]


def can_still_win(
    live: list[Live], finished: list[ScoredSequence], lengths: Sequence[int], settings: SearchSettings
) -> bool:
    """Whether a live hypothesis that loses nothing more is, at one of the lengths, above one that is kept."""
    scores = sorted((found.score for found in finished), reverse=True)
    if len(scores) < settings.beam_size:
        return bool(live)
    worst = scores[settings.beam_size - 1]
    return any(normalised(log_prob, length, settings) > worst for _, log_prob in live for length in lengths)


def enumerate_all(
    row: PrefixRow, settings: SearchSettings, roles: VocabularyRoles
) -> list[tuple[tuple[int, ...], float]]:
    """Every sequence that could finish, with its log-probability in float64."""
    found = []
    words = [token for token in range(len(row(()))) if token not in roles.forbidden and token != roles.end]
    for count in range(settings.min_length, settings.max_length):
        for tokens in itertools.product(words, repeat=count):
            total = 0.0
            for place, token in enumerate((*tokens, roles.end)):
                logits = np.array(row(tokens[:place]), dtype=np.float64)
                log_probs = list(logits - np.logaddexp.reduce(logits))
                total += follow(log_probs, (roles.start, *tokens[:place]), settings, roles)[token]
            if total > -math.inf:
                found.append((tokens, total))
    return found
