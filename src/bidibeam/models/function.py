"""Your own model: plain functions of prefixes to logits, NumPy or torch, as a `Model`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from bidibeam.data.words import split
from bidibeam.errors import InputError, ScorerError, SettingsError, check_setting, describe_error, wrapping
from bidibeam.hypotheses import Direction, Hypothesis, NBest
from bidibeam.models.base import Limits, spell_bad_words
from bidibeam.models.n_best import to_n_best
from bidibeam.models.networks import check_direction
from bidibeam.scores import Signature
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.similarities.word_vectors import WordVectors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PADDING = -1
"""What fills up shorter sources: no token has this id."""
IMPOSSIBLE = -1e9
"""The log-probability of a token whose logit is -inf, where a given text is scored: numbers stay finite."""

NextLogits = Callable[[list[int], list[list[int]]], Any]
"""A source's ids and prefixes, all of one length and each with the start token first, to logits: an array of
(prefixes, vocabulary), or a tensor or nested lists of that shape. They need no normalisation; -inf is what
cannot come."""


@dataclass(frozen=True, slots=True)
class FunctionState:
    """The rows of a search: all that they have read, by source."""

    sources: list[list[int]]
    prefixes: list[list[list[int]]]  # as many for every source


@dataclass(frozen=True)
class FunctionScorer:
    """A function of prefixes to logits as a `StepScorer`, for `beam_search`; its answers are checked.

        def next_logits(source, prefixes):  # ids, and lists of ids that begin with the start token
            return np.zeros((len(prefixes), 8))

        scorer = scorer_from_function(next_logits, vocabulary_size=8)
        beam_search(scorer, torch.tensor([[4, 5]]), SearchSettings(), VocabularyRoles(start=0, end=1))

    Cost per step: one call for each source, with the prefixes of all its live hypotheses.

    Args:
        function: Called as `function(source, prefixes)`; see `NextLogits`.
        vocabulary_size: The number of logits of each prefix.
        padding: The id that fills up shorter sources; the function never sees it.

    Raises:
        ScorerError: While it is used, if the function fails, or answers with something other than logits.
    """

    function: NextLogits
    vocabulary_size: int
    padding: int = PADDING

    def __post_init__(self) -> None:
        check_setting(
            callable(self.function), "function", self.function, "a function of a source and prefixes"
        )
        is_size = type(self.vocabulary_size) is int and self.vocabulary_size > 0
        check_setting(is_size, "vocabulary_size", self.vocabulary_size, "a whole number of at least 1")

    def start(self, sources: Tensor) -> FunctionState:
        """Reads padded sources, (sources, length)."""
        rows = [[token for token in row if token != self.padding] for row in sources.tolist()]
        return FunctionState(rows, [[[]] for _ in rows])

    def step(self, last_tokens: Tensor, state: FunctionState) -> tuple[Tensor, FunctionState]:
        """Reads one more token per row, (rows,); returns logits, (rows, vocabulary)."""
        tokens = iter(last_tokens.tolist())
        prefixes = [[[*prefix, next(tokens)] for prefix in rows] for rows in state.prefixes]
        asked = zip(state.sources, prefixes, strict=True)
        logits = torch.cat([self.logits(source, rows) for source, rows in asked])  # (rows, vocabulary)
        return logits.to(last_tokens.device), FunctionState(state.sources, prefixes)

    def select(self, state: FunctionState, rows: Tensor, sources: Tensor | None = None) -> FunctionState:
        """Repeats, reorders and drops rows: (sources, beams)."""
        flat = [prefix for rows in state.prefixes for prefix in rows]
        kept = range(len(state.sources)) if sources is None else sources.tolist()
        return FunctionState(
            [state.sources[source] for source in kept],
            [[flat[row] for row in line] for line in rows.tolist()],
        )

    def logits(self, source: list[int], prefixes: list[list[int]]) -> Tensor:
        """Returns what the function answers for one source's prefixes, checked: (prefixes, vocabulary)."""
        given = [*source], [[*prefix] for prefix in prefixes]  # the function may change what it is given
        name = f"The function {getattr(self.function, '__name__', type(self.function).__name__)}"
        shape, is_array = (len(prefixes), self.vocabulary_size), False

        def tell(error: Exception) -> str:
            failure = f"{name} failed with {type(error).__name__}: {describe_error(error)}."
            called = "It is called with a source's ids and a list of prefixes"
            return f"{failure} {called}; the traceback shows where it failed."

        with wrapping(ScorerError, tell):
            answer = self.function(*given)
        if isinstance(answer, Tensor):
            answer = answer.detach().float().cpu().numpy()  # NumPy has no bfloat16
        with suppress(TypeError, ValueError):
            array = np.asarray(answer)  # (prefixes, vocabulary)
            is_array = array.dtype.kind in "fiu"
        if not is_array:
            raise ScorerError(
                f"{name} answered with {type(answer).__name__}, which is no array of numbers. It must return "
                f"logits of shape {shape}."
            )
        with np.errstate(over="ignore"):  # too large a number is infinite, which is told below
            logits = torch.tensor(array.astype(np.float32))  # (prefixes, vocabulary)
        if tuple(logits.shape) != shape:
            raise ScorerError(
                f"{name} answered with shape {tuple(logits.shape)} for {len(prefixes)} prefixes. It must "
                f"return shape {shape}: a row for each prefix, a logit for each token of the vocabulary."
            )
        is_wrong = logits.isnan() | (logits == torch.inf)  # (prefixes, vocabulary)
        if is_wrong.any():
            row, token = is_wrong.nonzero()[0].tolist()
            raise ScorerError(
                f"{name} answered with {logits[row, token].item()} for token {token} after the prefix "
                f"{prefixes[row]} of the source {source}. It must return finite numbers, or -inf for what "
                "cannot come."
            )
        return logits


scorer_from_function = FunctionScorer


@dataclass(eq=False)
class FunctionModel:
    """Your own model, in one direction or in both: a `Model`, as `load_decoder` takes it.

        model = FunctionModel(
            next_logits,  # (source, prefixes) to logits, (prefixes, vocabulary)
            reverse_logits,  # the same for a model that writes replies from their end
            encode=lambda text: [vocabulary.index(word) for word in text.split()],
            decode=lambda ids: " ".join(vocabulary[id] for id in ids),
            roles=VocabularyRoles(start=0, end=1, forbidden=frozenset({0})),
            vocabulary_size=len(vocabulary),
        )
        print(load_decoder(model, "bidia").decode(["how are you"])[0].best.text)

    Args:
        regular: Writes replies from their beginning: a source's ids and prefixes in, logits out; see
            `scorer_from_function`. None if there is no such function.
        reverse: Writes them from their end: its prefixes are a reply's last tokens, the last one first behind
            the start token, and its end token means that the reply's beginning is reached.
        encode: A text to ids, without start and end tokens.
        decode: Ids in reading order, without start and end tokens, to a text.
        roles: Which ids start and end a reply, and must never be written.
        vocabulary_size: The number of tokens that both functions choose among.
        encode_reply: The same as `encode` for replies, where their ids are not those of sources.
        max_length: T, the most steps, where a search does not say.
        name: What messages and signatures call it.

    Raises:
        SettingsError: If a setting is not what it must be.
    """

    regular: NextLogits | None = None
    reverse: NextLogits | None = None
    encode: Callable[[str], Sequence[int]] = field(kw_only=True)
    decode: Callable[[list[int]], str] = field(kw_only=True)
    roles: VocabularyRoles = field(kw_only=True)
    vocabulary_size: int = field(kw_only=True)
    encode_reply: Callable[[str], Sequence[int]] | None = field(default=None, kw_only=True)
    max_length: int | None = field(default=None, kw_only=True)
    name: str = field(default="function", kw_only=True)

    path = None  # there is no folder in which something tuned could lie
    device = torch.device("cpu")  # where searches compute; the functions may do so anywhere
    batch_size = 32
    fingerprint = ""  # nothing tells one function from another
    default_stopping = "shrinking"

    def __post_init__(self) -> None:
        self.tokenizer: Any = None
        self.limits = Limits(max_length=self.max_length)
        self.data: Mapping[str, Any] = {}
        self.signature = Signature((("model", self.name),))
        self.directions = tuple(direction for direction in Direction if self._function(direction) is not None)
        if not self.directions:
            raise SettingsError("A function model has no function: give `regular`, `reverse` or both.")
        for direction in self.directions:
            self.scorer(direction)
        for name in ("encode", "decode"):
            check_setting(callable(getattr(self, name)), name, getattr(self, name), "a function")
        check_setting(isinstance(self.roles, VocabularyRoles), "roles", self.roles, "VocabularyRoles")

    def word_vectors(self, file: Path | None = None) -> WordVectors:
        """The vectors of a file; a function has none of its own."""
        if file is None:
            raise SettingsError(
                f"The similarity compares words by their vectors, and {self.name} has none: give a file of "
                "word `vectors`, or compare by bleu_t."
            )
        return WordVectors.from_file(file)

    def check_shared_tokens(self) -> None:
        """Always true: both functions choose among the same tokens."""

    def check_settings(self, settings: SearchSettings) -> None:
        """Refuses to allow the unknown token, since only `roles` know which one that is."""
        if settings.allow_unknown:
            raise SettingsError(
                f"{self.name} does not know which token is the unknown one: leave out `allow_unknown`, and "
                "take the token out of `forbidden` of its roles."
            )
        self._spell(settings.bad_words)

    def scorer(self, direction: Direction) -> FunctionScorer:
        """One direction as a step scorer of ids that are padded with -1."""
        check_direction(direction, self.directions, self.name)
        function: Any = self._function(direction)
        return FunctionScorer(function, self.vocabulary_size)

    def n_best(self, direction: Direction, sources: Sequence[str], settings: SearchSettings) -> list[NBest]:
        """Search in one direction: the hypotheses of each source, best first, in reading order."""
        scorer = self.scorer(direction)
        self.check_settings(settings)
        rows = [torch.tensor(self.ids(source), dtype=torch.long) for source in sources]
        if not rows:
            return []
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
        roles = self.roles.forbidding(map(direction.arrange, self._spell(settings.bad_words)))
        lists = []
        for line in beam_search(scorer, padded, settings, roles):
            hypotheses = []
            for written, log_prob, length, score, finished, end in line:
                ids = direction.arrange(written)
                text = self._call("decode", self.decode, [*ids])
                if not isinstance(text, str):
                    raise InputError(
                        f"`decode` of {self.name} answered with {text!r}; it must return a string."
                    )
                ids = ids if end is None else (*ids, end)
                words = tuple(split(text))
                hypotheses.append(Hypothesis(text, words, log_prob, length, score, finished, ids=ids))
            lists.append(to_n_best(hypotheses))
        return lists

    def find_unknown(self, sources: Sequence[str]) -> list[bool]:
        """Which sources have no token at all."""
        return [not self.ids(source) for source in sources]

    def _spell(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of bad words, in reading order."""
        spellings = [[self.ids(word, is_reply=True)] for word in words]
        return spell_bad_words(words, spellings, self.name, self.roles.forbidden)

    def sequence_scorer(self, direction: Direction) -> FunctionSequenceScorer:
        """What scores given replies under one direction."""
        return FunctionSequenceScorer(self, direction)

    def ids(self, text: str, *, is_reply: bool = False) -> list[int]:
        """The ids of a source, or of a reply, checked."""
        named = "encode_reply" if is_reply and self.encode_reply is not None else "encode"
        given = self._call(named, getattr(self, named), text)
        try:
            ids = np.asarray(given if len(given) else np.empty(0, np.int64))
            is_usable = ids.ndim == 1 and ids.dtype.kind in "iu" and (ids >= 0).all()
        except (TypeError, ValueError):
            is_usable = False
        if not is_usable:
            raise InputError(
                f"`{named}` of {self.name} answered with {given!r} for {text!r}; it must return a list of "
                "ids, whole numbers from 0."
            )
        return [int(each) for each in ids]

    def _call(self, name: str, function: Callable[..., Any], argument: object) -> Any:
        def tell(error: Exception) -> str:
            failure = f"`{name}` of {self.name} failed with {type(error).__name__} for {argument!r}"
            return f"{failure}: {describe_error(error)}."

        with wrapping(InputError, tell):
            return function(argument)

    def _function(self, direction: Direction) -> NextLogits | None:
        return self.regular if direction is Direction.REGULAR else self.reverse


class FunctionSequenceScorer:
    """Scores given replies under one direction, by calling its function for every beginning once."""

    def __init__(self, model: FunctionModel, direction: Direction) -> None:
        self.model, self.direction = model, direction
        self.end_id = model.roles.end
        self._scorer = model.scorer(direction)

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of texts in reading order, each with its end token."""
        return [(*self.model.ids(text, is_reply=True), self.end_id) for text in texts]

    def log_probs(
        self,
        sources: Sequence[str],
        sequences: Sequence[Sequence[Sequence[int]]],
        *,
        first: int | None = None,
    ) -> list[list[float]]:
        """Scores each source's sequences, ids in reading order; see `protocols.SequenceScorer`."""
        lists, ends = [], self.model.roles.ends
        for source, line in zip(sources, sequences, strict=True):
            written = [self.direction.arrange_ended(tuple(ids), ends)[:first] for ids in line]
            beginnings = {ids[:place] for ids in written for place in range(len(ids))}
            known: dict[tuple[int, ...], Tensor] = {}
            for _, group in groupby(sorted(beginnings, key=lambda ids: (len(ids), ids)), key=len):
                alike = [*group]
                prefixes = [[self.model.roles.start, *ids] for ids in alike]
                logits = self._scorer.logits(self.model.ids(source), prefixes)  # (prefixes, vocabulary)
                known.update(zip(alike, logits.double().log_softmax(-1).nan_to_num(IMPOSSIBLE), strict=True))
            lists.append([self._sum(ids, known) for ids in written])
        return lists

    def _sum(self, written: tuple[int, ...], known: Mapping[tuple[int, ...], Tensor]) -> float:
        """The log-probability of ids, given those of the token after each of their beginnings."""
        if any(not 0 <= token < self.model.vocabulary_size for token in written):
            raise InputError(
                f"The ids {[*written]} are not all among the {self.model.vocabulary_size} tokens of "
                f"{self.model.name}: give `encode_reply` if replies have other ids than sources."
            )
        steps = (known[written[:place]][token].item() for place, token in enumerate(written))
        return sum(max(step, IMPOSSIBLE) for step in steps)
