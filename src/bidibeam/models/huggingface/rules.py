"""What a generation config forbids, forces and asks for, in the search's own words."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import torch
from torch import Tensor
from transformers import (
    EosTokenCriteria,
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    GenerationConfig,
    LogitsProcessorList,
    MaxLengthCriteria,
    MaxTimeCriteria,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    StopStringCriteria,
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

from bidibeam.errors import SettingsError
from bidibeam.models.huggingface.turning import check_first, turned
from bidibeam.search.settings import SearchSettings, VocabularyRoles

if TYPE_CHECKING:
    from bidibeam.protocols import StepScorer

State = TypeVar("State")

STOPPING = {True: "constant", False: "heuristic", "never": "optimal"}
"""By `early_stopping`."""
ARGUMENTS: dict[type, str] = {MaxTimeCriteria: "max_time", StopStringCriteria: "stop_strings"}
"""Which argument of `generate` asks for a criterion."""
UNKNOWN: dict[str, Any] = {
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "force_words_ids": None,
    "constraints": None,
    "low_memory": False,
}
"""Arguments that beam search no longer has, `generate`'s own neither, and what they are where nobody asks."""


@dataclass(frozen=True)
class Rules:
    """What may be written.

    Attributes:
        roles: The tokens that end, and those that are forbidden.
        max_new_tokens: T, the end token included.
        min_new_tokens: How many tokens must come before the end.
        first: What must be written first.
        last: What must be written last, at T.
        others: Processors of logits that are none of these; they are called with every hypothesis.
        rows: How many hypotheses of a source processors are shown at least: `num_beams`.
    """

    roles: VocabularyRoles
    max_new_tokens: int
    min_new_tokens: int = 0
    first: int | None = None
    last: int | None = None
    others: LogitsProcessorList | None = None
    rows: int = 1

    def settings(self, config: GenerationConfig, beam_size: int) -> SearchSettings:
        """How to search so that Hugging Face's settings mean what they mean there."""
        early = config.early_stopping if config.early_stopping is not None else False
        penalty = config.length_penalty
        return SearchSettings(
            beam_size=beam_size,
            max_length=self.max_new_tokens,
            min_length=self.min_new_tokens,
            length_penalty=1.0 if penalty is None else float(penalty),
            length_formula="power",
            stopping=STOPPING[early],
            unfinished="rank",
        )

    def applied(self, scorer: StepScorer[Any], prompt: Tensor) -> StepScorer[Any]:
        """A scorer that keeps to what the search itself does not know; prompt: (sources, length)."""
        if self.others is not None:
            return ProcessedScorer(scorer, self.others, prompt, self.rows, self.roles.end)
        if self.first is None and self.last is None:
            return scorer
        return ForcedScorer(scorer, self.first, self.last, self.max_new_tokens)

    def turned(self, special: Container[int]) -> Rules:
        """The same rules for a model that writes from the end.

        Words and biases of several tokens are turned around, and so are n-grams of the source. The other
        processors see what is written in the order in which it is written.

        Args:
            special: Ids that stay in place when a reply is turned around.

        Raises:
            SettingsError: If a rule is about what a reply begins with, or about words next to special tokens.
        """
        check_first("begin_suppress_tokens", self.roles.forbidden_first, special)
        check_first("forced_bos_token_id", () if self.first is None else (self.first,), special)
        if self.others is None:
            return self
        return replace(self, others=LogitsProcessorList(turned(one, special) for one in self.others))


def rules_of(config: GenerationConfig, processors: LogitsProcessorList, prompt_length: int) -> Rules:
    """The rules of a generation config and its logits processors.

    Args:
        config: The config, complete: as `generate` has prepared it.
        processors: What it, and the person who calls, want done to logits.
        prompt_length: How many tokens the decoder reads before it writes.

    Raises:
        SettingsError: If the config asks for what a search does not do, or has no end token or no room to
            write.
    """
    _check_known(config, processors)
    ends = _ids(config.eos_token_id)
    if not ends:
        raise SettingsError("The generation config has no eos_token_id, so no reply could end; set one.")
    room = config.max_length - prompt_length
    if room < 1:
        raise SettingsError(
            f"max_length is {config.max_length}, but {prompt_length} tokens are there already; give "
            "max_new_tokens."
        )
    roles = VocabularyRoles(start=0, end=ends[0], other_ends=frozenset(ends[1:]))
    rules = Rules(roles, room)
    processed = replace(rules, others=processors, rows=config.num_beams or 1)
    for processor in processors:
        known = _with(rules, processor, prompt_length)
        if known is None:
            return processed
        rules = known
    if rules.min_new_tokens >= room:  # no reply may end, which is nothing that a search is asked otherwise
        return processed
    return rules


def _check_known(config: GenerationConfig, processors: LogitsProcessorList) -> None:
    """Refuse what a search does not do.

    Raises:
        SettingsError: If the config asks for it.
    """
    if config.do_sample:
        raise SettingsError("Both directions are searched, not sampled: leave do_sample=True out.")
    for name, usual in UNKNOWN.items():
        asked = getattr(config, name, None)
        if asked not in (None, usual):
            raise SettingsError(f"{name} is {asked!r}, which this beam search does not do: leave it out.")
    if any(isinstance(one, UnbatchedClassifierFreeGuidanceLogitsProcessor) for one in processors):
        raise SettingsError(
            "guidance_scale keeps a cache of its own, row by row, which does not follow a beam: leave it out."
        )


def check_criteria(criteria: Iterable[Any], config: GenerationConfig) -> None:
    """Refuse whatever would end a reply otherwise than a search does.

    Args:
        criteria: When `generate` would stop.
        config: The config, complete.

    Raises:
        SettingsError: If one is more than the greatest length and the end tokens of the config.
    """
    for one in criteria:
        if type(one) is MaxLengthCriteria and one.max_length == config.max_length:
            continue
        if type(one) is EosTokenCriteria and {*_ids(one.eos_token_id)} == {*_ids(config.eos_token_id)}:
            continue
        name = ARGUMENTS.get(type(one)) or f"stopping_criteria= with {type(one).__name__}"
        raise SettingsError(
            f"generate was given {name}, but here a reply ends with an end token or at its greatest length "
            "only: leave it out, and give eos_token_id and max_new_tokens."
        )


def _with(rules: Rules, processor: Any, prompt_length: int) -> Rules | None:
    """The rules with one more; None if the search cannot keep to it."""
    if isinstance(processor, MinLengthLogitsProcessor):
        least = max(rules.min_new_tokens, processor.min_length - prompt_length)
        return replace(rules, min_new_tokens=least)
    if isinstance(processor, MinNewTokensLengthLogitsProcessor):
        return replace(rules, min_new_tokens=max(rules.min_new_tokens, processor.min_new_tokens))
    if isinstance(processor, NoBadWordsLogitsProcessor):  # Marian's padding, for one
        words = {tuple(word) for word in processor.bad_word_ids} - {(end,) for end in rules.roles.ends}
        taboo = rules.roles.forbidden | {word[0] for word in words}
        alone = all(len(word) == 1 for word in words)
        return replace(rules, roles=replace(rules.roles, forbidden=taboo)) if alone else None
    if isinstance(processor, SuppressTokensLogitsProcessor):
        taboo = rules.roles.forbidden | set(_ids(processor.suppress_tokens))
        return (
            None
            if taboo & set(rules.roles.ends)
            else replace(rules, roles=replace(rules.roles, forbidden=taboo))
        )
    if isinstance(processor, SuppressTokensAtBeginLogitsProcessor) and processor.begin_index == prompt_length:
        taboo = rules.roles.forbidden_first | set(_ids(processor.begin_suppress_tokens))
        return replace(rules, roles=replace(rules.roles, forbidden_first=taboo))
    if isinstance(processor, ForcedBOSTokenLogitsProcessor):
        return replace(rules, first=int(processor.bos_token_id)) if prompt_length == 1 else rules
    if isinstance(processor, ForcedEOSTokenLogitsProcessor):
        forced = _ids(processor.eos_token_id)
        is_last = processor.max_length == prompt_length + rules.max_new_tokens and len(forced) == 1
        return replace(rules, last=forced[0]) if is_last else None
    return None


def _ids(given: Any) -> list[int]:
    if given is None:
        return []
    if isinstance(given, Tensor):
        given = given.flatten().tolist()
    return [int(one) for one in given] if isinstance(given, list | tuple | set) else [int(given)]


@dataclass(frozen=True)
class _Numbered(Generic[State]):
    """A state, and how many steps it has taken."""

    inner: State
    steps: int


class ForcedScorer(Generic[State]):
    """A scorer that is certain of its first token, or of the one at T.

    Args:
        inner: The scorer.
        first: The token that comes first, if it is certain.
        last: The token that comes at T.
        length: T.
    """

    def __init__(self, inner: StepScorer[State], first: int | None, last: int | None, length: int) -> None:
        self._inner, self._certain = inner, {length: last}
        if first is not None:
            self._certain[1] = first

    def start(self, sources: Tensor) -> _Numbered[State]:
        """Read the sources."""
        return _Numbered(self._inner.start(sources), 0)

    def step(self, last_tokens: Tensor, state: _Numbered[State]) -> tuple[Tensor, _Numbered[State]]:
        """The scorer's logits, or those of one certain token."""
        logits, inner = self._inner.step(last_tokens, state.inner)
        token = self._certain.get(state.steps + 1)
        if token is not None:
            logits = torch.full_like(logits, -torch.inf)
            logits[:, token] = 0.0
        return logits, _Numbered(inner, state.steps + 1)

    def select(
        self, state: _Numbered[State], rows: Tensor, sources: Tensor | None = None
    ) -> _Numbered[State]:
        """Repeat, reorder and drop rows."""
        return _Numbered(self._inner.select(state.inner, rows, sources), state.steps)


@dataclass(frozen=True)
class _Written(Generic[State]):
    """A state, and what its rows have read and written.

    Attributes:
        inner: The scorer's state.
        ids: (rows, length)
        is_fresh: Whether the first token is still to come.
        sources: The sources that are left, by their place in the whole batch.
    """

    inner: State
    ids: Tensor
    is_fresh: bool
    sources: tuple[int, ...]


class ProcessedScorer(Generic[State]):
    """A scorer whose log-probabilities pass through Hugging Face's processors, as in its own beam search.

    Processors may know sources, or even hypotheses, by their place in the batch, so at every step they are
    shown as many rows of each source as `generate` shows: the last row stands in for those that are missing,
    and of a source that has left, rows that ended at once.

    Args:
        inner: The scorer.
        processors: What is done to log-probabilities.
        prompt: (sources, length), what was read before the first token.
        rows: How many rows of a source they are shown at least.
        end: A token that ends.
    """

    is_normalised = True

    def __init__(
        self, inner: StepScorer[State], processors: LogitsProcessorList, prompt: Tensor, rows: int, end: int
    ) -> None:
        self._inner, self._processors, self._prompt = inner, processors, prompt
        self._rows, self._end = rows, end

    def start(self, sources: Tensor) -> _Written[State]:
        """Read the sources."""
        everyone = tuple(range(len(self._prompt)))
        return _Written(self._inner.start(sources), self._prompt, is_fresh=True, sources=everyone)

    def step(self, last_tokens: Tensor, state: _Written[State]) -> tuple[Tensor, _Written[State]]:
        """Processed log-probabilities."""
        logits, inner = self._inner.step(last_tokens, state.inner)
        ids = state.ids if state.is_fresh else torch.cat((state.ids, last_tokens[:, None]), dim=1)
        log_probs = logits.float().log_softmax(-1)
        written = replace(state, inner=inner, ids=ids, is_fresh=False)
        return self._processed(ids, log_probs, state.sources), written

    def _processed(self, ids: Tensor, log_probs: Tensor, sources: Sequence[int]) -> Tensor:
        """What processors make of (rows, vocabulary) after (rows, length), for the sources that are left."""
        everyone, beams = len(self._prompt), len(ids) // len(sources)
        shown = max(beams, self._rows)
        if shown == beams and len(sources) == everyone:
            return cast("Tensor", self._processors(ids, log_probs))
        lines = torch.tensor(sources, device=ids.device)  # (sources left,)
        slots = torch.arange(shown, device=ids.device).clamp(max=beams - 1)  # (shown,)
        all_ids = ids.new_full((everyone, shown, ids.shape[1]), self._end)
        all_ids[:, :, : self._prompt.shape[1]] = self._prompt[:, None]
        all_ids[lines] = ids.view(len(sources), beams, -1)[:, slots]
        all_log_probs = log_probs.new_zeros(everyone, shown, log_probs.shape[1])
        all_log_probs[lines] = log_probs.view(len(sources), beams, -1)[:, slots]
        processed: Tensor = self._processors(all_ids.flatten(0, 1), all_log_probs.flatten(0, 1))
        return processed.view(all_log_probs.shape)[lines, :beams].flatten(0, 1)

    def select(self, state: _Written[State], rows: Tensor, sources: Tensor | None = None) -> _Written[State]:
        """Repeat, reorder and drop rows."""
        left = state.sources if sources is None else tuple(state.sources[line] for line in sources.tolist())
        return _Written(
            self._inner.select(state.inner, rows, sources), state.ids[rows.flatten()], state.is_fresh, left
        )
