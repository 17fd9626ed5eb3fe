"""Searches of the same shape on a GPU: the steps after the first are recorded once, then played.

A small search keeps the interpreter busier than the GPU: each of its steps is hundreds of small kernels. A
recording has no interpreter, but no choice either: beams stay as wide as they are, and a source that is done
goes on with an empty beam until all are.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from bidibeam import work
from bidibeam.protocols import RecordableScorer
from bidibeam.search.found import Found, Step, best_entries, read_back
from bidibeam.search.recording import Recorder, Tape
from bidibeam.search.reports import fetched
from bidibeam.search.steps import Live, Rules, taken

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import StepScorer
    from bidibeam.search.reports import Reports

State = TypeVar("State")

MOST_LOGITS = 1 << 27
"""Logits a step. With more the GPU is the busier one, and sources that are done had better leave."""


def found_by_playing(
    scorer: StepScorer[Any], rules: Rules, live: Live, state: Any, first: Step, reports: Reports
) -> Found | None:
    """What a search finds whose first step was taken; None where there is no recording, or not yet.

    Args:
        scorer: The model.
        rules: Those of the search.
        live: What goes on after the first step.
        state: The model's, of these.
        first: The first step.
        reports: The search's.

    Raises:
        ScorerError: If the model answered with something other than numbers.
    """
    recorder = getattr(scorer, "recorder", None)
    if not isinstance(recorder, Recorder) or not isinstance(scorer, RecordableScorer):
        return None
    is_whole = len(live.sources) == len(first.sources) and rules.settings.max_length > 1
    if not is_whole or live.tokens.numel() * rules.vocabulary > MOST_LOGITS:
        return None
    shapes = tuple(tuple(tensor.shape) for tensor in (*_tensors(live), *_tensors(first)))
    stream = torch.cuda.current_stream(live.tokens.device).cuda_stream if live.tokens.is_cuda else 0
    key = (stream, rules.settings, rules.roles, rules.is_normalised, shapes, scorer.kind(state))
    recording: Recording[Any] | None = recorder.get(key, lambda: Recording(scorer, rules, live, state, first))
    return None if recording is None else recording.played(scorer, live, state, first, reports)


class Recording(Generic[State]):
    """The steps of a search after the first, and the reading back, recorded.

    Args:
        scorer: The model.
        rules: Those of the search.
        live: What goes on after the first step.
        state: The model's, of these.
        first: The first step.

    Raises:
        RuntimeError: If the GPU will not record it.
    """

    @torch.inference_mode()
    def __init__(
        self, scorer: RecordableScorer[State], rules: Rules, live: Live, state: State, first: Step
    ) -> None:
        self._rules, self._sources = rules, first.sources
        self._rows = live.tokens.numel()
        live, first = _cloned(live), _cloned(first)
        state = scorer.cloned(state, rules.settings.max_length - 1)
        self._inputs = [*_tensors(live), *_tensors(first), *scorer.tensors(state)]
        self._tape = Tape(live.tokens.device)
        self._begun = state  # what steps read beside parameters must stay where it is
        self._live_log_probs, self._steps, self._widths = [live.log_probs], [first], [live.widths]
        for number in range(2, rules.settings.max_length + 1):
            live, step, widths, state = self._tape.record(partial(_step, scorer, rules, live, state, number))
            self._live_log_probs.append(live.log_probs)
            self._steps.append(step)
            self._widths.append(widths)
        self._entries = self._tape.record(
            lambda: best_entries(
                self._steps, live.log_probs, rules.vocabulary, settings=rules.settings, penalty=rules.penalty
            )
        )
        self._is_counted = True  # the work of the first play: it was counted when it was recorded

    @torch.inference_mode()
    def played(
        self, scorer: RecordableScorer[State], live: Live, state: State, first: Step, reports: Reports
    ) -> Found:
        """Search on from such a first step; what is found is on its way when this returns.

        Raises:
            ScorerError: If the model answered with something other than numbers.
        """
        given = [*_tensors(live), *_tensors(first), *scorer.tensors(state)]
        torch._foreach_copy_(self._inputs, given)
        settings = self._rules.settings
        for place in range(1, settings.max_length):
            self._tape.play(place - 1)
            if not self._is_counted:
                work.count(projected_rows=self._rows)
            widths = reports.exchange(place + 1, self._sources, self._widths[place])
            if widths is not None and not widths.any() and place + 1 < settings.max_length:
                self._is_counted = False
                return read_back(
                    self._steps[: place + 1],
                    self._live_log_probs[place],
                    self._rules.vocabulary,
                    settings=settings,
                    penalty=self._rules.penalty,
                    reports=reports,
                )
        self._is_counted = False
        self._tape.play(settings.max_length - 1)
        return Found(fetched(*self._entries), settings, reports)


def _step(
    scorer: StepScorer[State], rules: Rules, live: Live, state: State, number: int
) -> tuple[Live, Step, Tensor, State]:
    """A step with beams as wide as they are, and the next one's rows selected."""
    sources, beams = live.tokens.shape
    live, step, widths, state = taken(scorer, rules, live, state, number, rules.settings.beam_size)
    if number < rules.settings.max_length:
        firsts = torch.arange(0, sources * beams, beams, device=live.tokens.device)  # (sources,)
        state = scorer.select(state, live.parents + firsts.unsqueeze(1))
    return live, step, widths, state


def _tensors(whole: Live | Step) -> list[Tensor]:
    return [getattr(whole, one.name) for one in fields(whole) if one.name != "sources"]


Whole = TypeVar("Whole", Live, Step)


def _cloned(whole: Whole) -> Whole:
    """The same in memory of its own."""
    return type(whole)(whole.sources, *(tensor.clone() for tensor in _tensors(whole)))
