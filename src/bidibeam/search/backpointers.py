"""The steps of a search as backpointers, and the sequences read back from them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from bidibeam.protocols import LengthPenalty
    from bidibeam.search.settings import SearchSettings


class ScoredSequence(NamedTuple):
    """One sequence that a search found.

    Attributes:
        tokens: Token ids in writing order, without start or end token.
        log_prob: Its log-probability, that of the end token included where it has one.
        length: |Y|, what the score was normalised by.
        score: The length-normalised log-probability.
        finished: Whether an end token came, or the maximum length cut it off.
        end: The end token that came.
    """

    tokens: tuple[int, ...]
    log_prob: float
    length: int
    score: float
    finished: bool
    end: int | None = None


make = partial(tuple.__new__, ScoredSequence)  # faster than its constructor, for tens of thousands


class Step(NamedTuple):
    """One step of a search. Only pointers, beam * vocabulary + token: prefixes are never copied."""

    sources: Tensor  # (sources,), which sources took part, by their place in the whole batch
    live: Tensor  # (sources, beams), what each live hypothesis wrote, and its parent
    candidates: Tensor  # (sources, candidates), the ranked continuations
    ended_log_probs: Tensor  # (sources, candidates), of those that ended here; -inf for the others

    def scatter(self, count: int) -> Step:
        """Returns the step with lines for all `count` sources, in which the others did nothing."""
        return Step(
            torch.arange(count, device=self.live.device),
            scatter(self.live, self.sources, count, 0),
            scatter(self.candidates, self.sources, count, 0),
            scatter(self.ended_log_probs, self.sources, count, -torch.inf),
        )


def scatter(part: Tensor, sources: Tensor, count: int, fill: float) -> Tensor:
    """Returns some sources' lines, (sources, width), among those of all `count` sources: (count, width)."""
    return part.new_full((count, part.shape[1]), fill).index_copy_(0, sources, part)


class Entries(NamedTuple):
    """The sequences of every source that come back, best first."""

    tokens: Tensor  # (sources, entries, steps), of which those past `counts` have no meaning
    counts: Tensor  # (sources, entries), the number of tokens, without the end
    log_probs: Tensor  # (sources, entries)
    scores: Tensor  # (sources, entries), -inf where there is no entry
    ends: Tensor  # (sources, entries), the end token, or -1

    def sequences(self, settings: SearchSettings) -> list[list[ScoredSequence]]:
        """Returns the sequences of each source; this waits for the device."""
        sources, entries, steps = self.tokens.shape
        tokens, *columns = (part.flatten().tolist() for part in self)  # flat: lists of lists take longer
        with_end = settings.length_after(1)  # |Y| may count the end token
        found: list[list[ScoredSequence]] = [[] for _ in range(sources)]
        for row, (count, log_prob, score, end) in enumerate(zip(*columns, strict=True)):
            if score > -torch.inf:
                written = tuple(tokens[row * steps : row * steps + count])
                ended = (count + with_end, score, True, end) if end >= 0 else (count, score, False, None)
                found[row // entries].append(make((written, log_prob, *ended)))
        return found


def read_back(
    steps: Sequence[Step],
    live_log_probs: Tensor,
    vocabulary: int,
    *,
    settings: SearchSettings,
    penalty: LengthPenalty,
) -> Entries:
    """Returns the up to B best sequences of each source, as `SearchSettings.unfinished` says.

    Finished ones of equal score rank by the step at which they ended, then as candidates. Every step has
    lines for all sources; `live_log_probs`, (sources, beams), are those after the last step, -inf in empty
    slots.
    """
    columns = [
        (
            torch.full_like(step.candidates, number - 1),
            step.ended_log_probs,
            penalty.score(step.ended_log_probs, settings.length_after(number)),
            step.candidates,
        )
        for number, step in enumerate(steps, start=1)
    ]
    parts = [torch.cat(column, dim=1) for column in zip(*columns, strict=True)]  # (sources, all candidates)
    best = parts[2].sort(dim=1, descending=True, stable=True).indices[:, : settings.beam_size]  # (sources, B)
    count, log_prob, score, flat = (part.gather(1, best) for part in parts)  # (sources, B)
    slot = flat // vocabulary
    entries = [count, log_prob, score, flat - slot * vocabulary, slot]
    if settings.unfinished != "drop":
        cut_off = (
            torch.full_like(live_log_probs, len(steps), dtype=torch.long),
            live_log_probs,
            penalty.score(live_log_probs, len(steps)),
            torch.full_like(live_log_probs, -1, dtype=torch.long),
            torch.arange(live_log_probs.shape[1], device=slot.device).expand(live_log_probs.shape),
        )
        entries = [torch.cat(both, dim=1) for both in zip(entries, cut_off, strict=True)]
        # Those cut off compete by score, or fill up; either way a finished one ranks before its equals.
        keys = entries[2] if settings.unfinished == "rank" else (entries[2] > -torch.inf).byte()
        best = keys.sort(dim=1, descending=True, stable=True).indices[:, : settings.beam_size]
        entries = [part.gather(1, best) for part in entries]
    count, log_prob, score, end, slot = entries  # (sources, B)

    written: list[Tensor] = []
    for index in reversed(range(len(steps))):  # from each entry's last slot to the start
        is_written = count > index  # (sources, B)
        pointer = steps[index].live.gather(1, slot.where(is_written, 0))  # (sources, B)
        written.append(pointer % vocabulary)
        slot = (pointer // vocabulary).where(is_written, slot)
    return Entries(torch.stack(written[::-1], dim=2), count, log_prob, score, end)
