"""One direction of a CTranslate2 model.

CTranslate2 searches by itself: its rule is `constant` (or `patience`), and scores are normalised afterwards.
A mask renormalises what it returns, so hypotheses are then scored again by teacher forcing. That costs an
encoder pass for each, so tokens are masked only for sources where they were written without a mask.
"""

from __future__ import annotations

import math
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from bidibeam.data.tokenization import find_splitter
from bidibeam.errors import BidibeamError, InputError, RunError, SettingsError, describe_error
from bidibeam.files import reading
from bidibeam.hypotheses import Direction, NBest
from bidibeam.models.checkpoint import SOURCE_TOKENIZER_FILE
from bidibeam.models.huggingface.labels import arrange_ids, special_ids
from bidibeam.models.huggingface.pairs import bad_word_ids, decode_ids, response_ids, source_ids
from bidibeam.models.n_best import rank_hypotheses, score_hypothesis
from bidibeam.search.stopping import Constant, Patience, stopping_rule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bidibeam.models.ctranslate2.manifest import Manifest
    from bidibeam.search.settings import SearchSettings

NEARLY_CERTAIN = math.log(0.99)
"""A log-probability beyond which float32 says too little about all other tokens."""


class CTranslate2MissingError(BidibeamError, ImportError):
    """The extra that brings CTranslate2 is not installed."""


def import_ctranslate2() -> Any:
    """The library."""
    try:
        return import_module("ctranslate2")
    except ModuleNotFoundError as error:
        raise CTranslate2MissingError(
            "A CTranslate2 model needs ctranslate2, which is not installed: pip install 'bidibeam[ct2]'"
        ) from error


class DirectionalTranslator:
    """One direction: CTranslate2's beam search, and its teacher forcing as a `SequenceScorer`.

    Args:
        folder: The folder of its weights and its tokenizer, which has the direction's name.
        manifest: What is known of the model.
        device: Where it computes.
    """

    def __init__(self, folder: Path, manifest: Manifest, device: torch.device) -> None:
        from bidibeam.models.huggingface.opening import open_source_tokenizer, open_tokenizer

        self.manifest, self.direction = manifest, Direction(folder.name)
        self._process = os.getpid()
        self.name = folder.resolve().parent.name
        try:
            self._made = import_ctranslate2().Translator(
                str(folder),
                device=device.type,
                device_index=device.index or 0,
                compute_type=manifest.quantization,
                intra_threads=torch.get_num_threads(),
            )
        except Exception as error:  # RuntimeError, ValueError, UnicodeDecodeError and more
            reason = describe_error(error)
            raise RunError(f"{folder} cannot be loaded by CTranslate2 ({reason}).") from error
        try:
            self.tokenizer = self.reader = open_tokenizer(str(folder / "tokenizer"))
            if (folder / "tokenizer" / SOURCE_TOKENIZER_FILE).is_file():
                self.reader = open_source_tokenizer(str(folder / "tokenizer"), self.tokenizer)
        except Exception as error:  # the Rust side raises plain Exception
            raise RunError(f"The tokenizer in {folder} cannot be loaded: export the model again.") from error
        self.end_id: int = self.tokenizer.eos_token_id
        self._special = special_ids(self.tokenizer)
        self._split = find_splitter(getattr(self.tokenizer, "backend_tokenizer", None))
        with reading(str(folder), "Export the model again."):  # what is of no use is found out now
            source_ids(["a"], self.reader)
            end = self.reader.convert_ids_to_tokens([self.end_id])
            if not self._translator.score_batch([end], [[]], max_input_length=0)[0].log_probs:
                raise ValueError("it gives no probabilities")

    @property
    def _translator(self) -> Any:
        """CTranslate2's engine, whose threads do not outlive a fork: it would wait for them for ever."""
        if os.getpid() != self._process:
            raise SettingsError(
                f"{self.name} was loaded in another process, and CTranslate2 cannot be used after a fork: "
                'load it here, or start this process by multiprocessing.get_context("spawn").'
            )
        return self._made

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """What the engine answers; over a vocabulary that lacks words it raises a ValueError."""
        try:
            return getattr(self._translator, method)(*arguments, **options)
        except (TypeError, ValueError) as error:
            place = f"{self.name}/{self.direction.value}"
            raise RunError(
                f"{place} is damaged ({describe_error(error)}). Export the model again."
            ) from error

    def n_best(self, sources: Sequence[str], settings: SearchSettings) -> list[NBest]:
        """Search by the settings; tokens are masked only where they must be."""
        manifest = self.manifest
        least = max(settings.min_length, manifest.min_length)
        is_bound = settings.no_repeat_ngram_size or settings.repetition_penalty != 1 or settings.bad_words
        if is_bound or manifest.first is not None or manifest.last is not None or least > 1:
            return self._search(sources, settings)
        # The end is masked at the first step, if at all: what it had there is added to all other tokens.
        empty = self.score_written(sources, [[[self.end_id]]] * len(sources))
        ends = [line[0][0] if least else -math.inf for line in empty]
        added = [-math.log1p(-math.exp(min(end, NEARLY_CERTAIN))) for end in ends]
        lists = self._search(sources, settings, added)
        unwanted = {*manifest.forbidden, *(() if settings.allow_unknown else (self.tokenizer.unk_token_id,))}
        again = [
            row
            for row, (line, end) in enumerate(zip(lists, ends, strict=True))
            if end > NEARLY_CERTAIN or any(unwanted & {*one.ids} for one in line)
        ]
        if again:
            masked = self._search([sources[row] for row in again], settings)
            for row, line in zip(again, masked, strict=True):
                lists[row] = line
        return lists

    def _search(
        self, sources: Sequence[str], settings: SearchSettings, added: Sequence[float] | None = None
    ) -> list[NBest]:
        """Search with what may not be written masked, and score again.

        Given what is added to each source's scores, unwanted tokens are not masked, and its own scores count.
        So they do with a repetition penalty, since teacher forcing knows of none.
        """
        is_masked, table = added is None, self.reader  # which has a name for every id
        if settings.repetition_penalty != 1:
            added = [0.0] * len(sources)
        first, last = self.manifest.first, self.manifest.last
        least = max(settings.min_length, self.manifest.min_length)
        forbidden = [[token] for token in self.manifest.forbidden] if is_masked else []
        forbidden += [
            [*self.direction.arrange(ids)]
            for ids in bad_word_ids(settings.bad_words, self.tokenizer, self.name)
        ]
        results = self._ask(
            "translate_batch",
            self.tokenize_sources(sources),
            None if first is None else [table.convert_ids_to_tokens([first])] * len(sources),
            beam_size=settings.beam_size,
            num_hypotheses=settings.beam_size,
            patience=patience_of(settings.stopping),
            length_penalty=0,
            disable_unk=is_masked and not settings.allow_unknown,
            suppress_sequences=[*map(table.convert_ids_to_tokens, forbidden)] or None,
            no_repeat_ngram_size=settings.no_repeat_ngram_size,
            repetition_penalty=settings.repetition_penalty,
            min_decoding_length=max(least - (first is not None), 0),  # what is forced first is not counted
            max_decoding_length=settings.max_length - (last is not None),
            max_input_length=0,
            return_end_token=True,
            return_scores=added is not None,
        )
        written = [[table.convert_tokens_to_ids(each) for each in line.hypotheses] for line in results]
        if last is not None:  # what reaches T is ended there, with certainty
            written = [[ids if ids[-1:] == [last] else [*ids, last] for ids in line] for line in written]
        if added is None:
            log_probs = self.score_written(sources, written, longest=settings.max_length)
        else:
            pairs = zip(results, added, strict=True)
            log_probs = [[[score, -more] for score in line.scores] for line, more in pairs]
        lists = []
        for line, scored in zip(written, log_probs, strict=True):
            hypotheses = []
            for ids, values in zip(line, scored, strict=True):
                if not ids:  # the source is an end token alone, for which CTranslate2 does not search
                    continue
                reading = arrange_ids(ids, self.direction, self._special)
                text, is_finished = decode_ids(reading, self.tokenizer), ids[-1:] == [self.end_id]
                scored_one = score_hypothesis(text, reading, sum(values), settings, is_finished=is_finished)
                hypotheses.append(scored_one._replace(tokens=tuple(self._split(text))))
            lists.append(rank_hypotheses(hypotheses, settings))
        return lists

    def tokenize_sources(self, sources: Sequence[str]) -> list[list[str]]:
        """Sources as the tokens that the engine reads; long ones keep their last tokens."""
        limits = [each for each in (self.manifest.max_source_length, self.manifest.positions) if each]
        longest = min(limits, default=None)
        rows = source_ids(list(sources), self.reader, max_length=longest)
        for source, row in zip(sources, rows, strict=True):
            if not row:
                raise InputError(f"The source {source!r} has no token for {self.name}.")
        return [self.reader.convert_ids_to_tokens(row) for row in rows]

    def score_written(
        self,
        sources: Sequence[str],
        written: Sequence[Sequence[Sequence[int]]],
        *,
        longest: int | None = None,
    ) -> list[list[list[float]]]:
        """The log-probability of each token of each source's sequences, ids in writing order.

        A token that the generation config forces first has log-probability 0, as it had in the search.
        """
        read = self.tokenize_sources(sources)
        flat = [(source, ids) for source, line in enumerate(written) for ids in line]
        bodies = [ids[:-1] if ids and ids[-1] == self.end_id else ids for _, ids in flat]
        results = self._ask(
            "score_batch",
            [read[source] for source, _ in flat],
            [self.reader.convert_ids_to_tokens(list(body)) for body in bodies],
            max_input_length=0,
            max_batch_size=1024,
        )
        scored: list[list[list[float]]] = [[] for _ in written]
        for (source, ids), one in zip(flat, results, strict=True):
            log_probs = list(one.log_probs)[: len(ids)]
            if ids and ids[0] == self.manifest.first:  # a forced token is certain
                log_probs[0] = 0.0
            if self.manifest.last is not None and len(ids) == longest:
                log_probs[-1] = 0.0
            scored[source].append(log_probs)
        return scored

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of texts as the model's targets, in reading order, each with its end token."""
        return [tuple(ids) for ids in response_ids(list(texts), self.tokenizer)]

    def log_probs(
        self,
        sources: Sequence[str],
        sequences: Sequence[Sequence[Sequence[int]]],
        *,
        first: int | None = None,
    ) -> list[list[float]]:
        """Score each source's sequences, ids in reading order; see `protocols.SequenceScorer`."""
        written = [[arrange_ids(ids, self.direction, self._special) for ids in line] for line in sequences]
        scored = self.score_written(sources, written)
        return [[sum(values[:first]) for values in line] for line in scored]


def patience_of(stopping: str) -> float:
    """CTranslate2's patience for a stopping rule."""
    rule = stopping_rule(stopping)
    if isinstance(rule, Patience):
        return rule.factor
    if type(rule) is Constant:  # not one of its descendants
        return 1.0
    raise SettingsError(
        f"`stopping` is {stopping!r}, which CTranslate2 does not have: choose constant or patience=FACTOR."
    )
