"""Beam search, batched over sources and beams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch

from bidibeam.errors import ScorerError, SettingsError
from bidibeam.protocols import SearchProgress
from bidibeam.search.backpointers import Step, read_back, scatter
from bidibeam.search.candidates import PLACES, Candidates, Forbidden, best_candidates, forbid
from bidibeam.search.constraints import check_logits, constrain
from bidibeam.search.length import LENGTH_PENALTIES
from bidibeam.search.stopping import stopping_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from bidibeam.protocols import Length, StepScorer
    from bidibeam.search.backpointers import Entries, ScoredSequence
    from bidibeam.search.settings import SearchSettings, VocabularyRoles

State = TypeVar("State")

BROKEN = -1
"""The width of a source whose logits were not numbers."""


def beam_search(
    scorer: StepScorer[State], sources: Tensor, settings: SearchSettings, roles: VocabularyRoles
) -> list[list[ScoredSequence]]:
    """Returns the best sequences for each source, best first, at most B each, all different, ends included.

    A source's sequences do not depend on the other sources of the batch. Finished sequences come before those
    cut off; equal scores rank by the step at which they ended, then by beam, then by token.

    Cost per step: one `StepScorer.step` over the live hypotheses, and a few passes over its logits. Where
    what may follow depends on what was written (`constrain`), there are more, and no CUDA graph replays them.

    Args:
        scorer: The model.
        sources: (sources, length), padded ids as the scorer reads them, on the scorer's device.
        settings: How to search.
        roles: Which tokens start, end, and must not be written.

    Raises:
        ScorerError: If the model answers with something other than numbers, or in the wrong shape.
        SettingsError: If a role's token is not in the model's vocabulary, or the beam is too large for it.
    """
    count, width = len(sources), settings.beam_size
    if not count:
        return []
    with torch.no_grad():
        scorer = constrain(scorer, settings, roles)
        stepper = BeamStepper(settings, roles, is_normalised=getattr(scorer, "is_normalised", False))
        beams, state = stepper.start(count, sources.device), scorer.start(sources)
        steps: list[Step] = []
        graph = None  # to capture along the way
        for number in range(1, settings.max_length + 1):
            rows_per_source = beams.tokens.shape[1]
            logits, state = scorer.step(beams.tokens.flatten(), state)  # (rows, vocabulary)
            if number == 2 and graph is not None:
                graph.verify(logits, beams.sources)
            if number == 1:
                beams, step = stepper.first_step(beams, logits)
            else:
                beams, step = stepper.step(beams, logits, stepper.moment(number), width)
            steps.append(step)
            graphs = getattr(scorer, "graphs", None) if number == 1 else None  # of a `StaticScorer`
            if graphs is not None:
                graph = graphs.get(scorer, stepper, (beams, state, step))
                if graph is not None and graph.is_ready:
                    found: list[list[ScoredSequence]] = graph.replay(scorer, (beams, state, step))
                    return found
            widths = beams.widths.tolist()  # waits for the device
            if BROKEN in widths:
                raise broken_logits(int(beams.sources[widths.index(BROKEN)]), number)
            if number == settings.max_length or not any(widths):
                break
            if number == 1 and graph is not None:  # the search itself goes on eagerly
                state = graph.capture(scorer, stepper, (beams, state, step))
                rows_per_source = settings.beam_size
                slots = torch.arange(rows_per_source, device=sources.device)  # (beams,)
                beams = replace(beams, parents=slots.expand(count, -1))
            left = None
            first_rows = torch.arange(len(widths), device=sources.device) * rows_per_source  # (sources,)
            if not all(widths) or (number == 1 and graph is not None):  # which has added sources
                left = torch.tensor([line for line, one in enumerate(widths) if one], device=sources.device)
                first_rows = first_rows[left]  # (sources left,)
            width = max(widths)
            beams = beams.narrow(left, width)
            state = scorer.select(state, beams.parents + first_rows.unsqueeze(1), left)
        live_log_probs = scatter(beams.log_probs, beams.sources, count, -torch.inf)  # (count, beams)
        entries = stepper.read_back([step.scatter(count) for step in steps], live_log_probs)
        return entries.sequences(settings)


def broken_logits(source: int, step: int) -> ScorerError:
    """Returns the error to raise when the logits of a source hold NaN or infinity."""
    return ScorerError(
        f"The model's logits for source {source} were NaN or infinite at step {step}, so the search cannot "
        "go on. The weights are probably damaged: use an earlier checkpoint or train with a lower learning "
        "rate."
    )


@dataclass(frozen=True, slots=True)
class BeamState:
    """The hypotheses that go on. An empty slot has log-probability -inf, and no slot after it is in use.

    `widths` counts empty slots too; it is 0 where a source is done, `BROKEN` where logits were not numbers.
    """

    sources: Tensor  # (sources,), those still searched, by their place in the whole batch
    log_probs: Tensor  # (sources, beams)
    parents: Tensor  # (sources, beams), the slots they came from
    tokens: Tensor  # (sources, beams), what they wrote last
    widths: Tensor  # (sources,), how many slots each source has
    finished: Tensor  # (sources,), how many hypotheses have ended
    kept_scores: Tensor  # (sources, B), the best finished scores, best first, -inf where there is none

    def narrow(self, left: Tensor | None, width: int) -> BeamState:
        """Returns the first slots only, and of some of the sources, (sources left,), unless that is None."""
        beams = replace(
            self,
            log_probs=self.log_probs[:, :width],
            parents=self.parents[:, :width],
            tokens=self.tokens[:, :width],
        )
        if left is None:
            return beams
        return BeamState(*(getattr(beams, name)[left] for name in BeamState.__slots__))


class Moment(NamedTuple):
    """What depends on the number of a step: plain numbers, or 0-dim tensors in a CUDA graph."""

    ended: Length  # |Y| of a hypothesis that ends at this step
    current: Length  # of one that goes on, as it is; at least 1
    shortest: Length  # of one that ends at the next step, or at T
    may_end: bool | Tensor  # whether an end token is allowed
    is_last: bool | Tensor  # whether this is step T


class BeamStepper:
    """One step of a search, apart from the model: which hypotheses end, and which go on.

    It keeps nothing of a search from step to step, and never waits for the device after the first.
    """

    def __init__(self, settings: SearchSettings, roles: VocabularyRoles, *, is_normalised: bool) -> None:
        self.settings, self.roles, self.is_normalised = settings, roles, is_normalised
        self.penalty = LENGTH_PENALTIES.create(settings.length_formula, settings.length_penalty)
        self.vocabulary = 0  # known with the first logits
        self._stopping = stopping_rule(settings.stopping)

    def start(self, count: int, device: torch.device) -> BeamState:
        """Returns one empty hypothesis per source, so that the first step writes no sequence B times."""
        zeros = torch.zeros(count, 1, dtype=torch.long, device=device)  # (sources, 1)
        return BeamState(
            sources=torch.arange(count, device=device),
            log_probs=zeros.float(),
            parents=zeros,
            tokens=zeros + self.roles.start,
            widths=zeros[:, 0] + 1,
            finished=zeros[:, 0],
            kept_scores=torch.full((count, self.settings.beam_size), -torch.inf, device=device),
        )

    def moment(self, number: int) -> Moment:
        """Returns what is particular to a step, counted from 1."""
        settings = self.settings
        shortest = settings.length_after(min(number + 1, settings.max_length))
        return Moment(
            ended=settings.length_after(number),
            current=max(shortest - 1, 1),
            shortest=shortest,
            may_end=number > settings.min_length,
            is_last=number == settings.max_length,
        )

    def first_step(self, beams: BeamState, logits: Tensor) -> tuple[BeamState, Step]:
        """Checks the first logits, (sources, vocabulary), learns the vocabulary, and takes a step."""
        check_logits(logits, len(beams.sources), self.roles)
        roles, beam_size, vocabulary = self.roles, self.settings.beam_size, logits.shape[1]
        if beam_size * vocabulary > PLACES:
            raise SettingsError(
                f"beam_size {beam_size} is too large for a vocabulary of {vocabulary} tokens; "
                f"use at most {PLACES // vocabulary}."
            )
        self.vocabulary = vocabulary
        self._ends = torch.tensor(roles.ends, device=logits.device)  # (ends,)
        self._late = forbid(roles.forbidden, vocabulary, logits.device)
        self._early = forbid(roles.forbidden.union(roles.ends), vocabulary, logits.device)
        moment = self.moment(1)
        ends = () if moment.may_end else roles.ends
        first = forbid(roles.forbidden.union(roles.forbidden_first, ends), vocabulary, logits.device)
        return self._advance(beams, logits, first, moment, beam_size)

    def step(self, beams: BeamState, logits: Tensor, moment: Moment, width: int) -> tuple[BeamState, Step]:
        """Ends some hypotheses and goes on with others, at most `width` per source; not the first step.

        `logits`, (rows, vocabulary), are the model's after their last tokens.
        """
        forbidden = self._late if moment.may_end is True else self._early
        if not isinstance(moment.may_end, bool):
            chosen = torch.where(moment.may_end, self._late.is_forbidden, self._early.is_forbidden)
            forbidden = self._early._replace(is_forbidden=chosen)
        return self._advance(beams, logits, forbidden, moment, width)

    def _advance(
        self, beams: BeamState, logits: Tensor, forbidden: Forbidden, moment: Moment, width: int
    ) -> tuple[BeamState, Step]:
        beam_size, (sources, slots) = self.settings.beam_size, beams.log_probs.shape
        candidates = best_candidates(
            logits.float().contiguous().view(sources, slots, -1),  # (sources, beams, vocabulary)
            beams.log_probs,
            width + slots * len(self.roles.ends),  # `width` remain even if every hypothesis could also end
            forbidden,
            is_normalised=self.is_normalised,
        )
        allowed = self._stopping.live_beams(beam_size, beams.finished)  # (sources,)
        ended, live = split_finished(candidates, self._ends, allowed, width, self.vocabulary)
        finished = beams.finished + (ended > -torch.inf).sum(1)  # (sources,)
        scores = self.penalty.score(ended, moment.ended)  # (sources, candidates)
        kept_scores = torch.cat((beams.kept_scores, scores), dim=1).topk(beam_size).values  # (sources, B)

        widths = self._stopping.live_beams(beam_size, finished)  # (sources,)
        is_past = torch.arange(live.flat.shape[1], device=logits.device) >= widths.unsqueeze(1)
        log_probs = live.log_probs.masked_fill(is_past, -torch.inf)  # (sources, beams)
        progress = SearchProgress(
            beam_size=beam_size,
            current=moment.current,
            shortest=moment.shortest,
            longest=self.settings.length_after(self.settings.max_length),
            finished=finished,
            kept_scores=kept_scores,
            live_log_probs=log_probs,
            penalty=self.penalty,
        )
        is_done = self._stopping.is_done(progress) | (log_probs[:, 0] == -torch.inf)  # (sources,)
        if self.settings.unfinished == "rank":
            is_done = is_done & (moment.is_last ^ True)  # what is cut off at T still competes
        parents = live.flat // self.vocabulary  # (sources, beams)
        return BeamState(
            sources=beams.sources,
            log_probs=log_probs.masked_fill(is_done.unsqueeze(1), -torch.inf),
            parents=parents,
            tokens=live.flat - parents * self.vocabulary,
            widths=widths.masked_fill(is_done, 0).masked_fill(candidates.is_broken, BROKEN),
            finished=finished,
            kept_scores=kept_scores,
        ), Step(beams.sources, live.flat, candidates.flat, ended)

    def read_back(self, steps: Sequence[Step], live_log_probs: Tensor) -> Entries:
        """Returns the best sequences of each source, given every step with lines for all of them."""
        how, penalty = self.settings, self.penalty
        return read_back(steps, live_log_probs, self.vocabulary, settings=how, penalty=penalty)


def split_finished(
    candidates: Candidates, ends: Tensor, allowed: Tensor, width: int, vocabulary: int
) -> tuple[Tensor, Candidates]:
    """Splits the candidates of a step into those that end a hypothesis and those that go on with one.

    An end token counts only if its candidate ranks within the live beam: with a constant beam there are more
    candidates than that, and those after it are there only to take the place of ended ones. Of each source
    the first `allowed`, (sources,), may end with one of `ends`, (ends,), and `width` may go on.

    Returns:
        The log-probabilities of those that ended, (sources, candidates), -inf for the others; and those that
        go on, (sources, width), -inf in slots for which there is none.
    """
    log_probs, flat, is_broken = candidates  # (sources, candidates)
    is_end = ((flat % vocabulary).unsqueeze(-1) == ends).any(-1)  # (sources, candidates)
    ranks = torch.arange(flat.shape[1], device=flat.device)  # (candidates,)
    ended = log_probs.where(is_end & (ranks < allowed.unsqueeze(1)), -torch.inf)
    order = is_end.sort(dim=1, stable=True).indices[:, :width]  # (sources, width), those that go on first
    live = log_probs.gather(1, order).masked_fill(is_end.gather(1, order), -torch.inf)
    return ended, Candidates(live, flat.gather(1, order), is_broken)
