"""What a generation config forbids, forces and asks for, as the search understands it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from transformers import (
    EosTokenCriteria,
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    GenerationConfig,
    LogitsProcessorList,
    MaxLengthCriteria,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    PreTrainedModel,
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    UnbatchedClassifierFreeGuidanceLogitsProcessor,
)

from bidibeam.errors import SettingsError
from bidibeam.models.huggingface.configs import to_ids
from bidibeam.models.huggingface.reversal import check_only_special, reverse_processor
from bidibeam.models.huggingface.scorer import HFScorer, HFState, Inputs
from bidibeam.search.settings import SearchSettings, VocabularyRoles

if TYPE_CHECKING:
    from bidibeam.protocols import StepScorer

STOPPING_BY_EARLY_STOPPING = {True: "constant", False: "heuristic", "never": "optimal"}
"""The stopping rule by `early_stopping`."""
FOLLOWED = {
    # by the search
    *("max_length", "max_new_tokens", "min_length", "min_new_tokens", "early_stopping", "length_penalty"),
    *("num_beams", "num_return_sequences", "return_dict_in_generate", "do_sample"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
    # by the logits processors that `generate` makes of them
    *("repetition_penalty", "encoder_repetition_penalty", "no_repeat_ngram_size", "bad_words_ids"),
    *("encoder_no_repeat_ngram_size", "renormalize_logits", "forced_bos_token_id", "forced_eos_token_id"),
    *("remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "sequence_bias"),
    *("begin_suppress_tokens", "guidance_scale", "watermarking_config"),
    # by whoever sees them: they change nothing that is written
    *("use_cache", "cache_config", "max_cache_len", "compile_config", "disable_compile"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "transformers_version"),
    # in sampling alone, or with an assistant alone
    *("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("max_matching_ngram_size", "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight"),
}
"""Fields of a generation config that mean what they mean in `generate`, or are checked elsewhere."""
CACHES = (None, "dynamic", "static", "offloaded", "offloaded_static", "hybrid")
"""Caches that change nothing that is written."""


@dataclass(frozen=True)
class GenerationConstraints:
    """What may be written.

    Attributes:
        max_new_tokens: T, the end token included.
        first: The token that must be written first.
        last: The token that must be written last, at T.
        processors: All logits processors, if the search cannot follow one of them by the other fields; they
            are then called with every hypothesis.
        rows: How many hypotheses of a source processors are shown at least: `num_beams`.
        prompt_length: How many tokens the decoder reads before it writes.
    """

    roles: VocabularyRoles
    max_new_tokens: int
    min_new_tokens: int = 0
    first: int | None = None
    last: int | None = None
    processors: LogitsProcessorList | None = None
    rows: int = 1
    prompt_length: int = 0

    @classmethod
    def of(
        cls, config: GenerationConfig, processors: LogitsProcessorList, prompt_length: int
    ) -> GenerationConstraints:
        """The constraints of a generation config as `generate` has prepared it, and of its logits processors.

        The decoder reads `prompt_length` tokens before it writes.
        """
        if any(isinstance(one, UnbatchedClassifierFreeGuidanceLogitsProcessor) for one in processors):
            raise SettingsError(
                "guidance_scale keeps a cache of its own, row by row, which does not follow a beam: leave it "
                "out."
            )
        ends = to_ids(config.eos_token_id)
        if not ends:
            raise SettingsError("The generation config has no eos_token_id, so no reply could end; set one.")
        room = config.max_length - prompt_length
        if room < 1:
            raise SettingsError(
                f"max_length is {config.max_length}, but {prompt_length} tokens are there already; give "
                "max_new_tokens."
            )
        roles = VocabularyRoles(start=0, end=ends[0], other_ends=frozenset(ends[1:]))
        known = plain = cls(roles, room, prompt_length=prompt_length)
        processed = replace(plain, processors=processors, rows=config.num_beams or 1)
        for processor in processors:
            extended = _add_processor(known, processor)
            if extended is None:
                return processed
            known = extended
        return processed if known.is_contradictory else known

    @property
    def is_contradictory(self) -> bool:
        """Whether the order of processors matters: no reply may end, or what is forced is forbidden too."""
        roles, steps = self.roles, self.max_new_tokens
        not_first = roles.forbidden_first.union(roles.ends if self.min_new_tokens else ())
        return (
            self.min_new_tokens >= steps
            or (steps == 1 and self.last is not None)
            or self.first in roles.forbidden | not_first
            or self.last in roles.forbidden
        )

    def search_settings(self, config: GenerationConfig, beam_size: int) -> SearchSettings:
        """How to search so that Hugging Face's settings mean what they mean there."""
        early = config.early_stopping if config.early_stopping is not None else False
        penalty = config.length_penalty
        return SearchSettings(
            beam_size=beam_size,
            max_length=self.max_new_tokens,
            min_length=self.min_new_tokens,
            length_penalty=1.0 if penalty is None else float(penalty),
            length_formula="power",
            # A beam of one is greedy search, which stops at the first end.
            stopping=STOPPING_BY_EARLY_STOPPING[early if beam_size > 1 else True],
            unfinished="rank",
        )

    def make_scorer(
        self, model: PreTrainedModel, inputs: Inputs, prompt: Tensor, *, is_greedy: bool
    ) -> StepScorer[Any]:
        """A scorer that follows what the search itself does not know; prompt: (sources, length)."""
        forced = ((self.max_new_tokens, self.last), (1, self.first))
        tokens = {step: token for step, token in forced if token is not None}
        scorer = HFScorer(model, prepared=inputs, forced=tokens)
        if self.processors is None:
            return scorer
        return ProcessedScorer(scorer, self, prompt, is_greedy=is_greedy)

    def forbid(self, tokens: Iterable[int | None]) -> GenerationConstraints:
        """The same with more forbidden tokens; one that ends a reply, or that is forced, stays allowed."""
        more = {*tokens} - {None, *self.roles.ends, self.first, self.last}
        forbidden = self.roles.forbidden | cast("set[int]", more)
        return replace(self, roles=replace(self.roles, forbidden=forbidden))

    def reverse(self, special: Container[int]) -> GenerationConstraints:
        """The same constraints for a model that writes from the end.

        Words and biases of several tokens are reversed, and so are n-grams of the source and of the prompt.
        The other processors see what is written in the order in which it is written. `special` ids stay in
        place when a reply is reversed.
        """
        check_only_special("begin_suppress_tokens", self.roles.forbidden_first, special)
        check_only_special("forced_bos_token_id", () if self.first is None else (self.first,), special)
        if self.processors is None:
            return self
        reversed_ones = [reverse_processor(one, special, self.prompt_length) for one in self.processors]
        return replace(self, processors=LogitsProcessorList(reversed_ones))


def options_of(
    settings: SearchSettings, words: Sequence[Sequence[int]], config: GenerationConfig
) -> dict[str, Any]:
    """A search's options as arguments of `generate`, which go over its generation config, if they are used.

    What the generation config forbids stays forbidden beside the bad words, ids in reading order.
    """
    options: dict[str, Any] = {}
    if settings.no_repeat_ngram_size:
        options["no_repeat_ngram_size"] = settings.no_repeat_ngram_size
    if settings.repetition_penalty != 1:
        options["repetition_penalty"] = float(settings.repetition_penalty)
    if words:
        options["bad_words_ids"] = [*(config.bad_words_ids or ()), *map(list, words)]
    return options


def check_followed(config: GenerationConfig) -> None:
    """Refuse what a generation config asks for and a beam search does not do, by name.

    So is any field that a later transformers has and that is not known here.
    """
    unset, usual = GenerationConfig(), config._get_default_generation_params()
    for name in sorted(vars(unset).keys() - FOLLOWED):
        asked = getattr(config, name, None)
        is_usual = asked is None or asked is False or asked in (getattr(unset, name), usual.get(name))
        is_followed = name == "cache_implementation" and asked in CACHES
        if not (is_usual or is_followed or name.startswith("_")):
            raise SettingsError(
                f"{name} is {asked!r}, which this beam search does not do: leave it out, also of "
                "generation_config.json."
            )


def check_searchable(criteria: Iterable[Any], config: GenerationConfig) -> None:
    """Refuse a config that is not followed, and criteria other than its greatest length and end tokens."""
    if config.do_sample:
        raise SettingsError("Both directions are searched, not sampled: leave do_sample=True out.")
    check_followed(config)
    for one in criteria:
        if type(one) is MaxLengthCriteria and one.max_length == config.max_length:
            continue
        if type(one) is EosTokenCriteria and {*to_ids(one.eos_token_id)} == {*to_ids(config.eos_token_id)}:
            continue
        raise SettingsError(
            f"generate was given stopping_criteria= with {type(one).__name__}, but here a reply ends with an "
            "end token or at its greatest length only: leave it out, and give eos_token_id and "
            "max_new_tokens."
        )


def _add_processor(known: GenerationConstraints, processor: Any) -> GenerationConstraints | None:
    """The constraints with those of one more processor; None if the search cannot follow it.

    A caller's own processor may be of a class derived from one of these, or have other end tokens.
    """
    roles, begun, kind = known.roles, known.prompt_length, type(processor)
    if kind in (MinLengthLogitsProcessor, MinNewTokensLengthLogitsProcessor):
        if {*to_ids(processor.eos_token_id)} != {*roles.ends}:
            return None
        if kind is MinLengthLogitsProcessor:
            least = processor.min_length - begun
        else:
            least = processor.prompt_length_to_skip + processor.min_new_tokens - begun
        return replace(known, min_new_tokens=max(known.min_new_tokens, least))
    if kind is NoBadWordsLogitsProcessor:  # Marian's padding, for one
        words = {*processor.sequence_bias}
        if any(len(word) > 1 or word[0] in roles.ends for word in words):
            return None
        return replace(known, roles=replace(roles, forbidden=roles.forbidden | {word[0] for word in words}))
    if kind is SuppressTokensLogitsProcessor:
        forbidden = roles.forbidden | {*to_ids(processor.suppress_tokens)}
        if forbidden & {*roles.ends}:
            return None
        return replace(known, roles=replace(roles, forbidden=forbidden))
    if kind is SuppressTokensAtBeginLogitsProcessor and processor.begin_index == begun:
        forbidden = roles.forbidden_first | {*to_ids(processor.begin_suppress_tokens)}
        return replace(known, roles=replace(roles, forbidden_first=forbidden))
    if kind is ForcedBOSTokenLogitsProcessor:
        return replace(known, first=int(processor.bos_token_id)) if begun == 1 else known
    if kind is ForcedEOSTokenLogitsProcessor:
        forced = to_ids(processor.eos_token_id)
        is_last = processor.max_length == begun + known.max_new_tokens and len(forced) == 1
        return replace(known, last=forced[0]) if is_last else None
    return None


@dataclass(frozen=True)
class ProcessedState:
    """A state, and what its rows have read and written."""

    inner: HFState
    ids: Tensor  # (rows, length)
    is_fresh: bool  # whether the first token is still to come
    sources: Tensor  # (sources left,), their places in the whole batch


class ProcessedScorer:
    """A scorer whose log-probabilities pass through Hugging Face's processors, as in its own beam search.

    Processors may know sources, or even hypotheses, by their place in the batch, so at every step they are
    shown as many rows of each source as `generate` shows: the last row stands in for those that are missing,
    and of a source that has left, rows that ended at once: their prompt and `end`. Of every source they are
    shown at least so many rows as the constraints say; `prompt`, (sources, length), is what was read before
    the first token. In a greedy search processors see logits, as in that of `generate`.
    """

    is_normalised = True

    def __init__(
        self, inner: HFScorer, constraints: GenerationConstraints, prompt: Tensor, *, is_greedy: bool
    ) -> None:
        assert constraints.processors is not None
        self._inner, self._prompt = inner, prompt
        # From transformers 5.23 on, one knows how much padding stands before each row that `generate` shows.
        self._padded: list[tuple[Any, Tensor]] = []
        self._processors = LogitsProcessorList()
        for one in constraints.processors:
            lengths = getattr(one, "prompt_ignore_length", None)
            if isinstance(lengths, Tensor):
                one = copy(one)
                self._padded.append((one, lengths.view(len(prompt), -1)[:, 0]))
            self._processors.append(one)
        self._rows, self._end = constraints.rows, constraints.roles.end
        self._is_greedy = is_greedy

    def start(self, sources: Tensor) -> ProcessedState:
        """Read the sources."""
        everyone = torch.arange(len(self._prompt), device=self._prompt.device)
        return ProcessedState(self._inner.start(sources), self._prompt, is_fresh=True, sources=everyone)

    def step(self, last_tokens: Tensor, state: ProcessedState) -> tuple[Tensor, ProcessedState]:
        """Processed log-probabilities."""
        logits, inner = self._inner.step(last_tokens, state.inner)
        ids = state.ids if state.is_fresh else torch.cat((state.ids, last_tokens[:, None]), dim=1)
        given = logits.float() if self._is_greedy else logits.float().log_softmax(-1)
        processed = self._process(ids, given, state.sources)
        log_probs = processed.log_softmax(-1) if self._is_greedy else processed
        return log_probs, replace(state, inner=inner, ids=ids, is_fresh=False)

    def _process(self, ids: Tensor, log_probs: Tensor, sources: Tensor) -> Tensor:
        """What processors make of (rows, vocabulary) after (rows, length), for the sources that are left."""
        everyone, beams = len(self._prompt), len(ids) // len(sources)
        shown = max(beams, self._rows)
        for processor, lengths in self._padded:
            processor.prompt_ignore_length = lengths.repeat_interleave(shown)
        if shown == beams and len(sources) == everyone:
            return cast("Tensor", self._processors(ids, log_probs))
        slots = torch.arange(shown, device=ids.device).clamp(max=beams - 1)  # (shown,)
        all_ids = ids.new_full((everyone, shown, ids.shape[1]), self._end)
        all_ids[:, :, : self._prompt.shape[1]] = self._prompt[:, None]
        all_ids[sources] = ids.view(len(sources), beams, -1)[:, slots]
        all_log_probs = log_probs.new_zeros(everyone, shown, log_probs.shape[1])
        all_log_probs[sources] = log_probs.view(len(sources), beams, -1)[:, slots]
        processed: Tensor = self._processors(all_ids.flatten(0, 1), all_log_probs.flatten(0, 1))
        return processed.view(all_log_probs.shape)[sources, :beams].flatten(0, 1)

    def select(self, state: ProcessedState, rows: Tensor, sources: Tensor | None = None) -> ProcessedState:
        """Repeat, reorder and drop rows."""
        left = state.sources if sources is None else state.sources[sources]
        return ProcessedState(
            self._inner.select(state.inner, rows, sources), state.ids[rows.flatten()], state.is_fresh, left
        )
