"""Names of systems, as command lines and reports have them, and the settings they stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bidibeam.errors import SettingsError, UnknownNameError
from bidibeam.protocols import Requirements
from bidibeam.registry import suggest
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies.settings import OPTION_WORDS, TUNED, StrategySettings

DEFAULT_SIMILARITY = "bleu_t"
ANY_LENGTH = {"vbs-tuned": {"length_exponent": 0.0, "word_reward": 0.0}}
"""Settings that `vbs-tuned` cannot do without; what it needs does not depend on them."""


@dataclass(frozen=True)
class SystemName:
    """A system's name, word by word: its strategy, a similarity, `either`, an agreement, `tuned`.

    `words` holds those after the strategy, by what they say: "similarity", "answer", "agreement", "tuned".
    """

    strategy: str
    words: Mapping[str, str]

    @classmethod
    def of(cls, name: str) -> SystemName:
        """Reads a name, every word of it."""
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
        read = cls(strategy, found)
        read.settings().check_penalty()
        return read

    @property
    def similarity(self) -> str | None:
        """That of a strategy that compares, "bleu_t" if the name has none; None for any other."""
        compares = StrategySettings(self.strategy).compares
        return self.words.get("similarity", DEFAULT_SIMILARITY) if compares else None

    @property
    def is_tuned(self) -> bool:
        """Whether T of the similarity's BP_T is the one that was best on held-out sources."""
        return TUNED in self.words

    @property
    def untuned(self) -> str:
        """The name without `tuned`, its words in order."""
        return self.settings().system

    def settings(
        self,
        *,
        similarity: str | None = None,
        options: Mapping[str, Any] | None = None,
        similarity_options: Mapping[str, Any] | None = None,
        vectors: Path | None = None,
    ) -> StrategySettings:
        """Returns what the name stands for; whatever is given besides goes over what its words say.

        A T among the similarity's options goes over `tuned`.
        """
        given = dict(similarity_options or {})
        own = {kind: word for kind, word in self.words.items() if kind in OPTION_WORDS.values()}
        return StrategySettings(
            self.strategy,
            options={**own, **(options or {})},
            similarity=similarity or self.similarity or DEFAULT_SIMILARITY,
            similarity_options=given,
            vectors=vectors,
            wants_tuned=self.is_tuned and "max_length" not in given,
        )

    def contradictions(self, settings: StrategySettings) -> list[str]:
        """Returns those of its words that settings made of it do not follow."""
        now = {**settings.options, "similarity": settings.similarity}
        if settings.wants_tuned:
            now[TUNED] = TUNED
        return [word for kind, word in self.words.items() if now.get(kind) != word]

    def __str__(self) -> str:
        return f"{self.untuned} {TUNED}" if self.is_tuned else self.untuned


def strategy_named(name: str, tuned: Mapping[str, Mapping[str, Any]] | None = None) -> StrategySettings:
    """Returns the strategy that a system's name stands for, such as "bidia bleu_t either expected" or "vbs".

    `tuned` holds options by strategy, and T by the name of the system without `tuned`.
    """
    settings = SystemName.of(name).settings().with_tuned(tuned or {})
    settings.check_tuned()
    return settings


def requirements_of(name: str) -> Requirements:
    """Returns what a system needs; that does not depend on what is tuned for it."""
    settings = SystemName.of(name).settings()
    return replace(settings, options={**ANY_LENGTH.get(settings.name, {}), **settings.options}).requirements


def check_systems(names: Sequence[str]) -> None:
    """Makes sure that all of these are systems, no two of them the same."""
    found: dict[str, str] = {}
    for name in names:
        requirements_of(name)
        key = str(SystemName.of(name))
        if key in found:
            raise SettingsError(
                f"A system is named twice, as {found[key]!r} and as {name!r}. Name each of them once."
            )
        found[key] = name


def _kind(word: str, name: str, kinds: Collection[str]) -> str:
    """Returns what a word of a system's name says, if it is one of these kinds."""
    similarities = SIMILARITIES.names()
    is_similarity = word in similarities or ":" in word
    kind = "similarity" if is_similarity else OPTION_WORDS.get(word, TUNED if word == TUNED else "")
    if kind in kinds:
        return kind
    options = [each for each, its_kind in OPTION_WORDS.items() if its_kind in kinds]
    choices = [*similarities, "package.module:name", *options, TUNED] if "similarity" in kinds else options
    strategy = name.split()[0]
    takes = f"takes: {', '.join(choices)}" if choices else "takes no further words"
    if kind:
        raise SettingsError(f"The system {name!r} cannot have the word {word!r}. {strategy} {takes}.")
    hint = suggest(word, choices)
    raise UnknownNameError(f"Unknown word {word!r} in the system {name!r}.{hint} {strategy} {takes}.")
