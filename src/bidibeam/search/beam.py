"""Beam search, batched over sources and beams."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from bidibeam.gpu import current
from bidibeam.search.found import Found, FoundSequence, Step, read_back
from bidibeam.search.playing import found_by_playing
from bidibeam.search.reports import Reports, sent
from bidibeam.search.steps import Rules, taken

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import StepScorer
    from bidibeam.search.settings import SearchSettings, VocabularyRoles

State = TypeVar("State")


def beam_search(
    scorer: StepScorer[State], sources: Tensor, settings: SearchSettings, roles: VocabularyRoles
) -> list[list[FoundSequence]]:
    """The best sequences for each source, best first, at most B each, all different, ends included.

    A source's sequences do not depend on the other sources of the batch. Finished sequences come before those
    cut off; equal scores rank by the step at which they ended, then by beam, then by token.

    Cost per step: one `StepScorer.step` over the live hypotheses, and a few passes over its logits.

    Args:
        scorer: The model.
        sources: (sources, length), padded ids as the scorer reads them, on the scorer's device.
        settings: How to search.
        roles: Which tokens start, end, and must not be written.

    Raises:
        ScorerError: If the model answers with something other than numbers, or in the wrong shape.
        SettingsError: If a role's token is not in the model's vocabulary, or the beam is too large for it.
    """
    return find(scorer, sources, settings, roles).sequences()


def find(
    scorer: StepScorer[State], sources: Tensor, settings: SearchSettings, roles: VocabularyRoles
) -> Found:
    """What `beam_search` finds, for whoever reads the sequences later.

    A GPU may still be at work when this returns, so that the last steps' broken logits are noticed by whoever
    reads.
    """
    with torch.no_grad(), current(sources.device):
        return _find(scorer, sources, settings, roles)


def _find(
    scorer: StepScorer[State], sources: Tensor, settings: SearchSettings, roles: VocabularyRoles
) -> Found:
    count = sources.shape[0]
    if not count:
        return Found(None, settings)
    rules = Rules(settings, roles, is_normalised=getattr(scorer, "is_normalised", False))
    reports = Reports(sources.device, count)
    steps: list[Step] = []
    live = rules.first(count, sources.device)
    state = scorer.start(sources)
    width = settings.beam_size  # of the widest beam that will go on
    for number in range(1, settings.max_length + 1):
        beams = live.log_probs.shape[1]
        live, step, widths_now, state = taken(scorer, rules, live, state, number, width)
        steps.append(step)
        widths = reports.exchange(number, live.sources, widths_now)
        if number == settings.max_length:
            break
        firsts = _firsts(len(live.sources), beams, sources.device)  # (sources,)
        kept = None
        if widths is not None:
            left = np.flatnonzero(widths[live.sources])
            if not len(left):
                break
            width = min(width, int(widths.max()))
            live = live.narrowed(width) if width < live.log_probs.shape[1] else live
            if len(left) < len(firsts):
                kept = lines = sent(left, sources.device)  # (sources left,)
                live, firsts = live.without_others(left, lines), firsts[lines]
        state = scorer.select(state, live.parents + firsts.unsqueeze(1), kept)
        if number == 1:
            found = found_by_playing(scorer, rules, live, state, step, reports)
            if found is not None:
                return found
    return read_back(
        steps, live.log_probs, rules.vocabulary, settings=settings, penalty=rules.penalty, reports=reports
    )


def _firsts(sources: int, beams: int, device: torch.device) -> Tensor:
    """The first row of each source, (sources,); not to be changed."""
    if device.type == "cpu":
        return _known_firsts(sources, beams)
    return torch.arange(0, sources * beams, beams, device=device)


@lru_cache(maxsize=4)
def _known_firsts(sources: int, beams: int) -> Tensor:
    """The same on a CPU, where to make them takes longer than to read them, and there are no streams."""
    return torch.arange(0, sources * beams, beams, device="cpu")
