"""One step of a search, apart from the model: which hypotheses end, and which go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from bidibeam.errors import ScorerError, SettingsError
from bidibeam.protocols import SearchProgress
from bidibeam.search.candidates import Candidates, Forbidden, best_candidates
from bidibeam.search.found import Step
from bidibeam.search.keys import PLACES
from bidibeam.search.length import LENGTH_PENALTIES
from bidibeam.search.parting import parted
from bidibeam.search.reports import BROKEN
from bidibeam.search.stopping import stopping_rule

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import StepScorer, StoppingRule
    from bidibeam.search.reports import Numbers
    from bidibeam.search.settings import SearchSettings, VocabularyRoles

State = TypeVar("State")

MOST_KEPT = 32
"""Sets of tokens that stay on their device from search to search."""


@dataclass(frozen=True, slots=True)
class Live:
    """The hypotheses that go on. An empty slot has log-probability -inf, and no slot after it is in use.

    Attributes:
        sources: The sources still searched, by their place in the whole batch.
        log_probs: (sources, beams).
        parents: (sources, beams), the slots they came from.
        tokens: (sources, beams), what they wrote last.
        widths: (sources,), how many slots each source has, empty ones included; 0 where it is done.
        finished: (sources,), how many hypotheses have ended.
        kept_scores: (sources, B), the best finished scores, best first, -inf where there is none; all are
            where the stopping rule does not read them.
    """

    sources: Numbers
    log_probs: Tensor
    parents: Tensor
    tokens: Tensor
    widths: Tensor
    finished: Tensor
    kept_scores: Tensor

    def narrowed(self, width: int) -> Live:
        """The same for the first slots only."""
        return replace(
            self,
            log_probs=self.log_probs[:, :width],
            parents=self.parents[:, :width],
            tokens=self.tokens[:, :width],
        )

    def without_others(self, left: Numbers, lines: Tensor) -> Live:
        """The same for some of the sources, named by their lines here: on the host, and on the device."""
        return Live(
            sources=self.sources[left],
            log_probs=self.log_probs[lines],
            parents=self.parents[lines],
            tokens=self.tokens[lines],
            widths=self.widths[lines],
            finished=self.finished[lines],
            kept_scores=self.kept_scores[lines],
        )


class Rules:
    """One step of the search, apart from the model."""

    def __init__(self, settings: SearchSettings, roles: VocabularyRoles, *, is_normalised: bool) -> None:
        self.is_normalised = is_normalised
        self.penalty = LENGTH_PENALTIES.create(settings.length_formula, settings.length_penalty)
        self.vocabulary = 0  # known with the first logits
        self.settings = settings
        self.roles = roles
        self._stopping = stopping_rule(settings.stopping)
        self._reads_scores = _reads_scores(self._stopping)

    def first(self, count: int, device: torch.device) -> Live:
        """One empty hypothesis a source, so that the first step does not write every sequence B times."""
        zeros = torch.zeros(count, 1, dtype=torch.long, device=device)  # (sources, 1)
        return Live(
            sources=np.arange(count),
            log_probs=zeros.float(),
            parents=zeros,
            tokens=zeros + self.roles.start,
            widths=zeros[:, 0] + 1,
            finished=zeros[:, 0],
            kept_scores=torch.full((count, self.settings.beam_size), -torch.inf, device=device),
        )

    def candidates(self, logits: Tensor, live: Live, number: int, width: int) -> Candidates:
        """The best continuations: enough that `width` remain if every live hypothesis could also end."""
        sources, beams = live.log_probs.shape
        if number == 1:
            self._meet(logits, rows=sources * beams)
        forbidden = self._late if number > self.settings.min_length else self._early
        by_beam = logits.float().contiguous().view(sources, beams, -1)  # (sources, beams, vocabulary)
        return best_candidates(
            by_beam,
            live.log_probs,
            width + beams * len(self.roles.ends),
            self._first if number == 1 else forbidden,
            is_normalised=self.is_normalised,
        )

    def advance(self, live: Live, candidates: Candidates, number: int, width: int) -> tuple[Live, Step]:
        """End some hypotheses, go on with others.

        An end token counts only if its candidate ranks within the live beam: with a constant beam there are
        more candidates than that, and those after it are there only to take the place of ended ones.
        """
        settings, beam_size = self.settings, self.settings.beam_size
        allowed = self._stopping.live_beams(beam_size, live.finished)  # (sources,)
        found = parted(candidates, live.finished, allowed, self._ends, width, self.vocabulary)
        kept_scores = live.kept_scores  # (sources, B)
        if self._reads_scores:
            scores = self.penalty.score(found.ended_log_probs, settings.counted(number))
            kept_scores = torch.cat((kept_scores, scores), dim=1).topk(beam_size).values
        widths = self._stopping.live_beams(beam_size, found.finished)  # (sources,)
        is_past = self._ranks[: found.live.shape[1]] >= widths.unsqueeze(1)  # (sources, beams)
        going_on = found.log_probs.masked_fill(is_past, -torch.inf)  # (sources, beams)
        is_done = self._is_done(number, found.finished, kept_scores, going_on)  # (sources,)
        if number == settings.max_length and settings.unfinished == "rank":
            is_done = torch.zeros_like(is_done)  # what is cut off here still competes
        return Live(
            sources=live.sources,
            log_probs=going_on.masked_fill(is_done.unsqueeze(1), -torch.inf),
            parents=found.parents,
            tokens=found.tokens,
            widths=widths.masked_fill(is_done, 0),
            finished=found.finished,
            kept_scores=kept_scores,
        ), Step(live.sources, found.live, candidates.flat, found.ended_log_probs)

    def _is_done(self, number: int, finished: Tensor, kept_scores: Tensor, log_probs: Tensor) -> Tensor:
        """Where the rule says so, or nothing is left to go on with: (sources,)."""
        settings = self.settings
        longest = settings.counted(settings.max_length)
        progress = SearchProgress(
            beam_size=settings.beam_size,
            shortest=min(settings.counted(number + 1), longest),
            longest=longest,
            finished=finished,
            kept_scores=kept_scores,
            live_log_probs=log_probs,
            penalty=self.penalty,
        )
        return self._stopping.is_done(progress) | (log_probs[:, 0] == -torch.inf)

    def _meet(self, logits: Tensor, *, rows: int) -> None:
        """Check the first logits, and learn the vocabulary from them."""
        if logits.dim() != 2 or logits.shape[0] != rows:
            raise ScorerError(
                f"The model's logits have shape {tuple(logits.shape)}, not ({rows}, vocabulary)."
            )
        roles, beam_size = self.roles, self.settings.beam_size
        self.vocabulary = logits.shape[1]
        highest = max(roles.start, *roles.ends, *roles.forbidden, *roles.forbidden_first)
        if highest >= self.vocabulary:
            raise SettingsError(
                f"Token {highest} is not in the model's vocabulary of {self.vocabulary} tokens."
            )
        if beam_size * self.vocabulary > PLACES:
            raise SettingsError(
                f"--beam-size {beam_size} is too large for a vocabulary of {self.vocabulary} tokens; "
                f"use at most {PLACES // self.vocabulary}."
            )
        self._ends = _numbers(roles.ends, logits.device)
        self._ranks = _numbers(tuple(range(beam_size)), logits.device)
        self._late = self._forbidden(logits)
        self._early = self._forbidden(logits, *roles.ends)
        ends = roles.ends if self.settings.min_length else ()
        self._first = self._forbidden(logits, *ends, *roles.forbidden_first)

    def _forbidden(self, logits: Tensor, *more: int) -> Forbidden:
        return _forbidden(self.roles.forbidden.union(more), self.vocabulary, logits.device)


def _reads_scores(rule: StoppingRule) -> bool:
    """Whether a rule reads the scores: what a class says of it goes for its own `is_done` alone."""
    for kind in type(rule).__mro__:
        if "is_done" in vars(kind):
            return bool(vars(kind).get("reads_scores", True))
    return True


# Searches are alike, and whoever sends numbers to a GPU waits for it.


@lru_cache(maxsize=MOST_KEPT)
def _numbers(values: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)


@lru_cache(maxsize=MOST_KEPT)
def _forbidden(tokens: frozenset[int], vocabulary: int, device: torch.device) -> Forbidden:
    return Forbidden(tokens, vocabulary=vocabulary, device=device)


def taken(
    scorer: StepScorer[State], rules: Rules, live: Live, state: State, number: int, width: int
) -> tuple[Live, Step, Tensor, State]:
    """Take a step: what goes on, what was found, the widths to report, (sources,), and the model's state."""
    logits, state = scorer.step(live.tokens.flatten(), state)  # (rows, vocabulary)
    candidates = rules.candidates(logits, live, number, width)
    live, step = rules.advance(live, candidates, number, width)
    return live, step, live.widths.masked_fill(candidates.is_broken, BROKEN), state
