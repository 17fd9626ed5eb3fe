"""Settings of a beam search, and the tokens that it must know by role."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bidibeam.errors import SettingsError
from bidibeam.search.length import LENGTH_PENALTIES
from bidibeam.search.stopping import stopping_rule

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

    def __post_init__(self) -> None:
        _check_whole("beam_size", self.beam_size, minimum=1)
        if self.beam_size > LARGEST_BEAM:
            raise SettingsError(f"beam_size must be at most {LARGEST_BEAM:,}, not {self.beam_size:,}.")
        _check_whole("max_length", self.max_length, minimum=1)
        _check_whole("min_length", self.min_length, minimum=0)
        if self.min_length >= self.max_length:
            raise SettingsError(
                f"min_length must be below max_length, because the end token takes a step too; "
                f"received {self.min_length} and {self.max_length}."
            )
        if isinstance(self.length_penalty, bool) or not isinstance(self.length_penalty, int | float):
            raise SettingsError(f"length_penalty must be a number, not {self.length_penalty!r}.")
        if not math.isfinite(self.length_penalty):
            raise SettingsError(f"length_penalty must be a finite number, not {self.length_penalty!r}.")
        if abs(self.length_penalty) > LARGEST_PENALTY:
            raise SettingsError(
                f"length_penalty must lie between -{LARGEST_PENALTY} and {LARGEST_PENALTY}, "
                f"not {self.length_penalty!r}."
            )
        if self.unfinished not in UNFINISHED:
            raise SettingsError(
                f"unfinished must be one of {', '.join(UNFINISHED)}, not {self.unfinished!r}."
            )
        LENGTH_PENALTIES.get(self.length_formula)
        stopping_rule(self.stopping)

    def counted(self, steps: int) -> int:
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
    """

    start: int
    end: int
    forbidden: frozenset[int] = frozenset()
    forbidden_first: frozenset[int] = frozenset()
    other_ends: frozenset[int] = frozenset()

    @property
    def ends(self) -> tuple[int, ...]:
        """All that finishes a hypothesis."""
        return (self.end, *sorted(self.other_ends - {self.end}))

    def __post_init__(self) -> None:
        for token in (self.start, *self.ends, *self.forbidden, *self.forbidden_first):
            if token < 0:
                raise SettingsError(f"Token ids start at 0; received {token}.")
        if self.end in self.forbidden:
            raise SettingsError(f"The end token ({self.end}) is forbidden, so no hypothesis could finish.")


def _check_whole(name: str, value: int, *, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(f"{name} must be a whole number, not {value!r}.")
    if value < minimum:
        raise SettingsError(f"{name} must be at least {minimum}, not {value}.")
