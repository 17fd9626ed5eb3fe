"""Systems: strategies with all that they are told, what they chose, and among what."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any

from bidibeam.data.words import split
from bidibeam.errors import InputError, SettingsError, UnknownNameError
from bidibeam.hypotheses import Beams, Ranking
from bidibeam.protocols import Needs
from bidibeam.scores import Signature
from bidibeam.selection.settings import StrategySettings
from bidibeam.similarities import SIMILARITIES

SYSTEMS = (
    "vbs",
    "vbs-tuned",
    "bidis",
    "bidia bleu_t",
    "bidia wmd_t",
    "bidia bleu_t tuned",
    "bidia wmd_t tuned",
    "bidia bleu_t either",
    "bidia bleu_t expected",
    "longest",
    "reverse-vbs",
    "random",
    "oracle",
)
"""Those of the reproduction."""
BASELINES = ("vbs-tuned", "vbs")
"""What the other systems are tested against."""
DEFAULT_SIMILARITY = "bleu_t"
OPTION_WORDS = {"either": "answer", "expected": "agreement", "mean": "agreement"}
"""Words of a system's name, and the options whose values they are."""
TUNED = "tuned"
ANY_LENGTH = {"vbs-tuned": {"length_exponent": 0.0, "word_reward": 0.0}}
"""Settings that `vbs-tuned` cannot do without; what it needs does not depend on them."""


@dataclass(frozen=True)
class System:
    """One way of choosing, and what it chose for every source.

    Attributes:
        name: As tables show it: "vbs", "bidia wmd_t", "bidia bleu_t either", "bidia bleu_t tuned".
        beam_size: N_B, the hypotheses it could choose from; 0 where nobody knows.
        beams: What it chose among, source by source.
        rankings: Its order of them, the reply first.
        signature: How it chose.
    """

    name: str
    beam_size: int
    beams: Sequence[Beams]
    rankings: Sequence[Ranking]
    signature: Signature

    @cached_property
    def replies(self) -> list[str]:
        """One a source; empty where nothing was found."""
        return [ranking.text for ranking in self.rankings]

    @cached_property
    def reply_words(self) -> list[Sequence[str]]:
        """The replies as every measure counts words."""
        return [_words(reply) for reply in self.replies]

    @cached_property
    def reference_words(self) -> list[Sequence[str]]:
        """The references, likewise.

        Raises:
            InputError: If one is missing.
        """
        for line in self.beams:
            if line.reference is None:
                raise InputError(f"Source {line.id!r} has no reference, so its reply cannot be scored.")
        return [_words(line.reference or "") for line in self.beams]


@lru_cache(1 << 16)
def _words(text: str) -> tuple[str, ...]:
    """The words of a text; systems have references and many replies in common."""
    return tuple(split(text))


@dataclass(frozen=True)
class SystemName:
    """A system's name, word by word: its strategy, a similarity, `either`, an agreement, `tuned`.

    Attributes:
        strategy: The strategy's name.
        similarity: That of a strategy that compares, "bleu_t" if the name has none; None for any other.
        options: The strategy's own options that the name says.
        is_tuned: Whether T of the similarity's BP_T is the one that was best on held-out sources.
    """

    strategy: str
    similarity: str | None
    options: Mapping[str, str]
    is_tuned: bool

    @classmethod
    def of(cls, name: str) -> SystemName:
        """Read a name, every word of it.

        Raises:
            UnknownNameError: If nothing is called like the strategy, or like another word.
            SettingsError: If there is no word, or one does not apply or stands beside another of its kind.
        """
        strategy, *words = name.split() or [""]
        if not strategy:
            raise SettingsError(f"A system is named by its strategy, such as 'bidia bleu_t', not {name!r}.")
        settings = StrategySettings(strategy)
        kinds = {"similarity", TUNED} if settings.compares else set()
        kinds |= settings.unset & set(OPTION_WORDS.values())
        found: dict[str, str] = {}
        for word in words:
            kind = _kind(word, name, kinds)
            if kind in found:
                both = f"{word!r} twice" if word == found[kind] else f"both {found[kind]!r} and {word!r}"
                raise SettingsError(f"The system {name!r} has {both}. It takes one {kind} at most.")
            found[kind] = word
        similarity = found.pop("similarity", DEFAULT_SIMILARITY) if settings.compares else None
        is_tuned = found.pop(TUNED, None) is not None
        if is_tuned and not _has_penalty(similarity or ""):
            raise SettingsError(
                f"The system {name!r} has no T to be tuned, since {similarity} has none. Leave {TUNED!r} "
                "out, or compare by bleu_t or wmd_t."
            )
        return cls(strategy, similarity, found, is_tuned)

    @property
    def untuned(self) -> str:
        """The name without `tuned`, its words in order."""
        words = (self.strategy, self.similarity, self.options.get("answer"), self.options.get("agreement"))
        return " ".join(word for word in words if word is not None)

    def __str__(self) -> str:
        return f"{self.untuned} {TUNED}" if self.is_tuned else self.untuned


def strategy_named(name: str, tuned: Mapping[str, Mapping[str, Any]] | None = None) -> StrategySettings:
    """The strategy that a system's name stands for.

    Args:
        name: Such as "vbs", "bidia wmd_t", "bidia bleu_t either expected" or "bidia bleu_t tuned".
        tuned: By strategy, options that were tuned for it; and T by the name of the system without `tuned`.

    Raises:
        UnknownNameError: If nothing is called like the strategy, or like another word.
        SettingsError: If a word does not apply, or T must be tuned first.
    """
    known, words = tuned or {}, SystemName.of(name)
    penalty: dict[str, Any] = {}
    if words.is_tuned:
        if "T" not in known.get(words.untuned, {}):
            raise SettingsError(
                f"The system {name!r} must be tuned first: no T was tuned for {words.untuned!r}. "
                "`bidibeam reproduce` does so, and --tuned takes OUT/seed-N/tuned/N_B.json."
            )
        value = known[words.untuned]["T"]
        penalty["max_length"] = int(value) if float(value).is_integer() else value
    return StrategySettings(
        words.strategy,
        options={**known.get(words.strategy, {}), **words.options},
        similarity=words.similarity or DEFAULT_SIMILARITY,
        similarity_options=penalty,
    )


def needs_of(name: str) -> Needs:
    """What a system needs; that does not depend on what is tuned for it.

    Raises:
        UnknownNameError: If nothing is called like the strategy, or like another word.
        SettingsError: If a word does not apply.
    """
    words = SystemName.of(name)
    any_penalty = {words.untuned: {"T": 1}} if words.is_tuned else {}
    return strategy_named(name, {**ANY_LENGTH, **any_penalty}).needs


def check_systems(names: Sequence[str]) -> None:
    """Make sure that all of these are systems, no two of them the same.

    Raises:
        UnknownNameError: If nothing is called like a strategy, or like another word.
        SettingsError: If a word does not apply, or a system is named twice.
    """
    found: dict[str, str] = {}
    for name in names:
        needs_of(name)
        key = str(SystemName.of(name))
        if key in found:
            raise SettingsError(
                f"A system is named twice, as {found[key]!r} and as {name!r}. Name each of them once."
            )
        found[key] = name


def _kind(word: str, name: str, kinds: Collection[str]) -> str:
    """What a word of a system's name says, if it is one of these kinds."""
    similarities = SIMILARITIES.names()
    is_similarity = word in similarities or ":" in word
    kind = "similarity" if is_similarity else OPTION_WORDS.get(word, TUNED if word == TUNED else "")
    if kind in kinds:
        return kind
    flags = [flag for flag, its_kind in OPTION_WORDS.items() if its_kind in kinds]
    choices = [*similarities, "package.module:name", *flags, TUNED] if "similarity" in kinds else flags
    strategy = name.split()[0]
    takes = f"takes: {', '.join(choices)}" if choices else "takes no further words"
    if kind:
        raise SettingsError(f"The system {name!r} cannot have the word {word!r}. {strategy} {takes}.")
    close = get_close_matches(word, choices, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise UnknownNameError(f"Unknown word {word!r} in the system {name!r}.{hint} {strategy} {takes}.")


def _has_penalty(similarity: str) -> bool:
    """Whether a similarity has T of BP_T among its settings."""
    factory: Any = None if ":" in similarity else SIMILARITIES.get(similarity)
    return is_dataclass(factory) and "max_length" in {each.name for each in fields(factory)}
