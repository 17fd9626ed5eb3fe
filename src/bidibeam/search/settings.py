"""Settings of a beam search, and the tokens that it must know by role."""

from __future__ import annotations

from dataclasses import dataclass

from bidibeam.errors import SettingsError, check_choice, check_finite, check_setting
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
        for name, least in (("beam_size", 1), ("max_length", 1), ("min_length", 0)):
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            check_setting(is_whole, name, value, "a whole number")
            check_setting(value >= least, name, value, f"at least {least}")
        if self.beam_size > LARGEST_BEAM:
            raise SettingsError(f"beam_size must be at most {LARGEST_BEAM:,}, not {self.beam_size:,}.")
        if self.min_length >= self.max_length:
            raise SettingsError(
                f"min_length must be below max_length, because the end token takes a step too; "
                f"received {self.min_length} and {self.max_length}."
            )
        check_finite("length_penalty", self.length_penalty, LARGEST_PENALTY)
        check_choice("unfinished", self.unfinished, UNFINISHED)
        LENGTH_PENALTIES.get(self.length_formula)
        stopping_rule(self.stopping)

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
