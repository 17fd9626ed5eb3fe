"""Settings of a beam search, and the tokens that it must know by role."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import TYPE_CHECKING

from bidibeam.errors import SettingsError, UnknownNameError, check_choice, check_finite, check_setting
from bidibeam.scores import OPTIONAL, read_fact
from bidibeam.search.length import LENGTH_PENALTIES
from bidibeam.search.stopping import stopping_rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bidibeam.scores import Signature

UNFINISHED = ("keep", "rank", "drop")
LARGEST_BEAM, LARGEST_PENALTY = 100_000, 10


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How to search; every field has a default, and every reading of the paper its own field.

    Attributes:
        beam_size: B, how many hypotheses go on at once and at most come back.
        max_length: T, the most steps. Each step writes one token, and the end token takes a step too.
        min_length: Tokens that must be written before the end token may come; 0 allows an empty reply.
        length_penalty: The exponent a of the length formula; 0 turns normalisation off.
        length_formula: What a log-probability is divided by: "gnmt", (5 + |Y|)^a / 6^a, or "power", |Y|^a, as
            Hugging Face and fairseq have it.
        count_end: Whether |Y| counts the end token.
        stopping: When a source's search is over: a stopping rule by name, with its argument if it
            takes one ("patience=1.5").
        unfinished: "keep" ranks hypotheses cut off at T after all finished ones, as far as there is
            room among B; "rank" lets them compete by score, as Hugging Face does; "drop" leaves them out.
        allow_unknown: Whether the unknown token may be generated. The search itself knows only which
            tokens are forbidden: whoever fills in `VocabularyRoles` reads this.
        no_repeat_ngram_size: No n-gram of so many tokens comes twice in a reply; 0 allows it.
        repetition_penalty: What the log-probability of a token that the reply has already is multiplied by: a
            number above 1 makes it less likely, and 1 changes nothing. Scores count the penalty, but what the
            other direction says of a hypothesis does not.
        bad_words: Words and phrases that no reply may contain, as the tokenizer spells them. Whoever fills in
            `VocabularyRoles` reads this, too.

    Raises:
        SettingsError: If a value is out of range.
        UnknownNameError: If no stopping rule has that name.
    """

    beam_size: int = 10
    max_length: int = 20
    min_length: int = 1
    length_penalty: float = 0.6
    length_formula: str = "gnmt"
    count_end: bool = True
    stopping: str = "shrinking"
    unfinished: str = "keep"
    allow_unknown: bool = False
    no_repeat_ngram_size: int = field(default=0, metadata={OPTIONAL: True})
    repetition_penalty: float = field(default=1.0, metadata={OPTIONAL: True})
    bad_words: tuple[str, ...] = field(default=(), metadata={OPTIONAL: True})

    def __post_init__(self) -> None:
        leasts = (("beam_size", 1), ("max_length", 1), ("min_length", 0), ("no_repeat_ngram_size", 0))
        for name, least in leasts:
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            check_setting(is_whole, name, value, "a whole number")
            check_setting(value >= least, name, value, f"at least {least}")
        if self.beam_size > LARGEST_BEAM:
            told = f"beam_size must be at most {LARGEST_BEAM:,}, not {self.beam_size:,}."
            raise SettingsError(told, "beam_size")
        if self.min_length >= self.max_length:
            raise SettingsError(
                f"min_length must be below max_length, because the end token takes a step too; "
                f"received {self.min_length} and {self.max_length}.",
                "min_length",
            )
        check_finite("length_penalty", self.length_penalty, LARGEST_PENALTY)
        check_choice("unfinished", self.unfinished, UNFINISHED)
        LENGTH_PENALTIES.get(self.length_formula)
        stopping_rule(self.stopping)
        penalty, words = self.repetition_penalty, self.bad_words
        is_number = isinstance(penalty, int | float) and not isinstance(penalty, bool)
        is_positive = is_number and 0 < penalty < math.inf
        check_setting(is_positive, "repetition_penalty", penalty, "a finite number above 0")
        check_setting(isinstance(words, list | tuple), "bad_words", words, "a list of words")
        for word in words:
            check_setting(
                isinstance(word, str) and bool(word.strip()), "bad_words", word, "words, none empty"
            )
        object.__setattr__(self, "bad_words", tuple(words))

    @classmethod
    def from_signature(cls, signature: Signature) -> SearchSettings | None:
        """Returns the settings that a signature tells of; None if it does not tell of all, or not of such."""
        told = {each: signature.get(each.name) for each in fields(cls)}
        if any(text is None and not each.metadata.get(OPTIONAL) for each, text in told.items()):
            return None
        read = {each: text for each, text in told.items() if text is not None}
        try:
            return cls(**{each.name: read_fact(text, each.default) for each, text in read.items()})
        except (ValueError, SettingsError, UnknownNameError):  # another version's, or written by hand
            return None

    def length_after(self, steps: int) -> int:
        """Returns |Y| of a hypothesis that ended at step `steps`."""
        return steps if self.count_end else steps - 1


@dataclass(frozen=True, slots=True)
class VocabularyRoles:
    """The token ids that mean something to a search.

    Attributes:
        start: What every row reads first.
        end: What finishes a hypothesis.
        other_ends: What finishes one as well.
        forbidden: What must never be written: padding, start, and the unknown token unless allowed.
            Their probability stays with them: the others are not scaled up, so a hypothesis has the
            log-probability that the model itself gives it.
        forbidden_first: What must not be written first, besides.
        forbidden_sequences: Tokens in writing order that must not be written one after the other.
    """

    start: int
    end: int
    forbidden: frozenset[int] = frozenset()
    forbidden_first: frozenset[int] = frozenset()
    other_ends: frozenset[int] = frozenset()
    forbidden_sequences: frozenset[tuple[int, ...]] = frozenset()

    def forbidding(self, sequences: Iterable[tuple[int, ...]]) -> VocabularyRoles:
        """The same with more that must not be written, in writing order; one token alone costs nothing."""
        found = [*sequences]
        return replace(
            self,
            forbidden=self.forbidden | {ids[0] for ids in found if len(ids) == 1},
            forbidden_sequences=self.forbidden_sequences | {ids for ids in found if len(ids) != 1},
        )

    @property
    def ends(self) -> tuple[int, ...]:
        """All that finishes a hypothesis."""
        return (self.end, *sorted(self.other_ends - {self.end}))

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens that have a role."""
        sequences = chain.from_iterable(self.forbidden_sequences)
        return (self.start, *self.ends, *self.forbidden, *self.forbidden_first, *sequences)

    def __post_init__(self) -> None:
        for token in self.tokens:
            if token < 0:
                raise SettingsError(f"Token ids start at 0; received {token}.")
        if () in self.forbidden_sequences:
            raise SettingsError("A forbidden sequence must have a token, and one has none: leave it out.")
        if self.end in self.forbidden:
            raise SettingsError(f"The end token ({self.end}) is forbidden, so no hypothesis could finish.")
