"""What may follow depends on what was written: repetition, and sequences that are forbidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from bidibeam.errors import ScorerError, SettingsError
from bidibeam.search.candidates import summarise_rows

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import StepScorer
    from bidibeam.search.settings import SearchSettings, VocabularyRoles


def check_logits(logits: Tensor, rows: int, roles: VocabularyRoles) -> None:
    """Refuses logits that are not (rows, vocabulary), and tokens that are not in the vocabulary."""
    shape, highest = tuple(logits.shape), max(roles.tokens)
    if len(shape) != 2 or shape[0] != rows:
        raise ScorerError(f"The model's logits have shape {shape}, not ({rows}, vocabulary).")
    if highest >= shape[1]:
        raise SettingsError(f"Token {highest} is not in the model's vocabulary of {shape[1]} tokens.")


def constrain(scorer: StepScorer[Any], settings: SearchSettings, roles: VocabularyRoles) -> StepScorer[Any]:
    """Returns a scorer that follows what hypotheses must not repeat or write; itself if there is nothing."""
    is_free = settings.repetition_penalty == 1 and not settings.no_repeat_ngram_size
    return scorer if is_free and not roles.forbidden_sequences else ConstrainedScorer(scorer, settings, roles)


class ConstrainedState(NamedTuple):
    """A scorer's state, and what its rows have read: the start token, and all that they wrote."""

    inner: Any
    ids: Tensor  # (rows, length)


class ConstrainedScorer:
    """A scorer whose log-probabilities depend on what a hypothesis has written, as in `generate`.

    A token that was read before, the start token included, has its log-probability multiplied by the
    repetition penalty, as in the beam search of transformers; a beam of one does so here, too. A token that
    would complete an n-gram for the second time, or a forbidden sequence, has -inf. Nothing is normalised
    afterwards: all other tokens keep the log-probabilities that the model gives them.
    """

    is_normalised = True

    def __init__(self, inner: StepScorer[Any], settings: SearchSettings, roles: VocabularyRoles) -> None:
        self._inner, self._settings, self._roles = inner, settings, roles

    def start(self, sources: Tensor) -> ConstrainedState:
        """Read the sources."""
        return ConstrainedState(
            self._inner.start(sources), sources.new_empty((len(sources), 0), dtype=torch.long)
        )

    def step(self, last_tokens: Tensor, state: ConstrainedState) -> tuple[Tensor, ConstrainedState]:
        """Read one more token per row, (rows,); return log-probabilities, (rows, vocabulary)."""
        logits, inner = self._inner.step(last_tokens, state.inner)
        if not state.ids.shape[1]:  # before tokens become indices
            check_logits(logits, len(last_tokens), self._roles)
        ids = torch.cat((state.ids, last_tokens.unsqueeze(1)), dim=1)  # (rows, length)
        if getattr(self._inner, "is_normalised", False):
            log_probs = logits.float().clone()
        else:
            logits = logits.float().contiguous()
            log_probs = logits - summarise_rows(logits)[1].unsqueeze(1)  # (rows, vocabulary)
        if (penalty := self._settings.repetition_penalty) != 1:
            written = log_probs.gather(1, ids)  # (rows, length)
            written = torch.where(written < 0, written * penalty, written / penalty)
            log_probs.scatter_(1, ids, written)
        if size := self._settings.no_repeat_ngram_size:
            forbid_repeated(log_probs, ids, size)
        for *before, last in self._roles.forbidden_sequences:
            seen = ids[:, max(0, ids.shape[1] - len(before)) :]  # (rows, tokens)
            if seen.shape[1] == len(before):
                is_next = (seen == torch.tensor(before, device=ids.device)).all(1)  # (rows,)
                log_probs[is_next, last] = -torch.inf
        return log_probs, ConstrainedState(inner, ids)

    def select(
        self, state: ConstrainedState, rows: Tensor, sources: Tensor | None = None
    ) -> ConstrainedState:
        """Repeat, reorder and drop rows."""
        return ConstrainedState(self._inner.select(state.inner, rows, sources), state.ids[rows.flatten()])


def forbid_repeated(log_probs: Tensor, ids: Tensor, size: int) -> None:
    """Sets to -inf, in place, what would complete an n-gram that ids, (rows, length), hold already."""
    if ids.shape[1] < size:
        return
    ngrams = ids.unfold(1, size, 1)  # (rows, n-grams, size)
    begun = ids[:, ids.shape[1] - size + 1 :]  # (rows, size - 1), what the next token would complete
    rows, places = (ngrams[:, :, :-1] == begun.unsqueeze(1)).all(-1).nonzero(as_tuple=True)
    log_probs[rows, ngrams[rows, places, -1]] = -torch.inf
