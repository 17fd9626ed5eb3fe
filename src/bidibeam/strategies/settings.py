"""From names and options to a strategy that can choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.errors import SettingsError
from bidibeam.similarities import SIMILARITIES
from bidibeam.similarities.custom import as_similarity, imported
from bidibeam.strategies import STRATEGIES

if TYPE_CHECKING:
    from bidibeam.protocols import Requirements, Similarity, Strategy
    from bidibeam.similarities.spaces import WordVectors

OPTION_WORDS = {"either": "answer", "expected": "agreement", "mean": "agreement"}
"""Words of a system's name, and the options whose values they are."""
TUNED = "tuned"
TUNING_HINT = (
    "; `bidibeam tune` finds good values, for a run or for Hugging Face models: decode then uses them, and "
    "rerank by --tuned"
)
"""What to do about settings of a strategy that are missing."""


@dataclass(frozen=True)
class StrategySettings:
    """Which strategy, and what it is told.

    Attributes:
        name: The strategy's name.
        options: Its own settings, by the names of its fields; `bidia` has answer and agreement, `bidis` has
            lambda_, `vbs-tuned` has length_exponent and word_reward, `random` has seed.
        similarity: For a strategy that compares: a name, "package.module:name", or the thing itself.
        similarity_options: The similarity's own settings, by the names of its fields.
        vectors: A file of word vectors for similarities that need some; a run has its own.
        wants_tuned: Whether T of the similarity's BP_T is still to come from what was tuned.
    """

    name: str = "bidia"
    options: Mapping[str, Any] = field(default_factory=dict)
    similarity: Any = "bleu_t"
    similarity_options: Mapping[str, Any] = field(default_factory=dict)
    vectors: Path | None = None
    wants_tuned: bool = False

    def build(
        self, *, max_length: int | None = None, space: Callable[[], WordVectors] | None = None
    ) -> Strategy:
        """The strategy.

        Args:
            max_length: T for similarities that have one, unless their own options say otherwise.
            space: Word vectors for similarities that need some; called only then.

        Raises:
            UnknownNameError: If nothing has the strategy's or the similarity's name.
            SettingsError: If an option is unknown, missing or out of range.
        """
        if not self.compares:
            return self._with({})
        self.check_similarity()
        self.check_tuned()
        similarity = build_similarity(
            self.similarity, self.similarity_options, max_length=max_length, space=space
        )
        return self._with({"similarity": similarity})

    @property
    def system(self) -> str:
        """The name that a system with these settings has in tables, `tuned` left out."""
        said = [value for value in map(self.options.get, ("answer", "agreement")) if value in OPTION_WORDS]
        compared = [str(self.similarity)] if self.compares else []
        return " ".join([self.name, *compared, *map(str, said)])

    def with_tuned(self, known: Mapping[str, Mapping[str, Any]]) -> StrategySettings:
        """The same with what was tuned, wherever its own settings do not say otherwise.

        Args:
            known: By strategy, options that were tuned for it; and T by `system`.
        """
        options = {**known.get(self.name, {}), **self.options}
        value = known.get(self.system, {}).get("T") if self.wants_tuned else None
        if value is None:
            return replace(self, options=options)
        length = int(value) if float(value).is_integer() else value
        own = {**self.similarity_options, "max_length": length}
        return replace(self, options=options, similarity_options=own, wants_tuned=False)

    @property
    def requirements(self) -> Requirements:
        """What the strategy will need, before it is built.

        Raises:
            UnknownNameError: If nothing has the strategy's name.
            SettingsError: If one of its own options is unknown, missing or out of range.
        """
        return self._with({"similarity": None} if self.compares else {}).requirements

    @property
    def compares(self) -> bool:
        """Whether the strategy asks how similar hypotheses are."""
        return "similarity" in _options_of(STRATEGIES.get(self.name))

    def check_similarity(self) -> None:
        """Make sure that there is such a similarity, and that vectors are given only to one that uses them.

        Raises:
            UnknownNameError: If nothing has its name.
            SettingsError: If it has no use for the vectors, they are given as an option, or it has no T.
        """
        self.check_penalty()
        if not isinstance(self.similarity, str) or ":" in self.similarity:
            return
        uses_vectors = "space" in _options_of(SIMILARITIES.get(self.similarity))
        if self.vectors is not None and not uses_vectors:
            raise SettingsError(
                f"The similarity {self.similarity} uses no word vectors: leave `--vectors` (in Python: "
                "vectors) out."
            )
        if "space" in self.similarity_options and isinstance(self.similarity_options["space"], str | int):
            raise SettingsError(
                "Word vectors are given by `--vectors` (in Python: vectors), not as an option."
            )

    def check_penalty(self) -> None:
        """Make sure that there is a T if one is to come from what was tuned.

        Raises:
            SettingsError: If not.
        """
        if not self.wants_tuned:
            return
        is_named = isinstance(self.similarity, str) and ":" not in self.similarity
        if not is_named or "max_length" not in _options_of(SIMILARITIES.get(self.similarity)):
            raise SettingsError(
                f"The similarity {self.similarity} has no T to be tuned. Leave {TUNED!r} out, or compare by "
                "bleu_t or wmd_t."
            )

    def check_tuned(self) -> None:
        """Make sure that no T is still to come.

        Raises:
            SettingsError: If one is.
        """
        if self.wants_tuned:
            raise SettingsError(
                f"The system '{self.system} {TUNED}' must be tuned first: no T was tuned for "
                f"{self.system!r}. `bidibeam tune` does so, for a run or for Hugging Face models; rerank, "
                "evaluate and analyse take it by --tuned."
            )

    @property
    def unset(self) -> set[str]:
        """The strategy's own settings that no option decides."""
        return _options_of(STRATEGIES.get(self.name)) - {"similarity", *self.options}

    def _with(self, supplied: Mapping[str, Any]) -> Strategy:
        factory = STRATEGIES.get(self.name)
        options = {**self.options, **supplied}
        created: Strategy = _created(factory, options, f"The strategy {self.name}", hint=TUNING_HINT)
        return created


def build_similarity(
    given: Any,
    options: Mapping[str, Any],
    *,
    max_length: int | None = None,
    space: Callable[[], WordVectors] | None = None,
) -> Similarity:
    """A similarity from its name, "package.module:name", or the thing itself; see `StrategySettings`.

    Raises:
        UnknownNameError: If nothing has that name.
        SettingsError: If an option is unknown, or word vectors are needed and there are none.
    """
    if not isinstance(given, str):
        ready = as_similarity(given)
        return _without(options, getattr(ready, "name", type(given).__name__), ready)
    if ":" in given:
        return _without(options, given, as_similarity(imported(given), given))
    factory: Any = SIMILARITIES.get(given)
    if not isinstance(factory, type):  # another package's function, which is the similarity itself
        return _without(options, given, as_similarity(factory, given))
    known = _options_of(factory)
    supplied: dict[str, Any] = {}
    if "max_length" in known and max_length is not None:
        supplied["max_length"] = max_length
    if "space" in known and "space" not in options:
        if space is None:
            raise SettingsError(
                f"The similarity {given} needs word vectors: give `--vectors FILE.vec` (in Python: vectors)."
            )
        supplied["space"] = space()
    return as_similarity(_created(factory, supplied | dict(options), f"The similarity {given}"), given)


def flag_of(name: str) -> str:
    """An option's flag on the command line."""
    return "--" + name.rstrip("_").replace("_", "-")


def _without(options: Mapping[str, Any], name: str, similarity: Similarity) -> Similarity:
    """A similarity that is ready as it is."""
    if options:
        raise SettingsError(f"The similarity {name} takes no options, received {', '.join(options)}.")
    return similarity


def _options_of(factory: Any) -> set[str]:
    return {each.name for each in fields(factory)} if is_dataclass(factory) else set()


def _created(factory: Callable[..., Any], options: Mapping[str, Any], what: str, *, hint: str = "") -> Any:
    """Call the factory, having checked the options' names; one that is no dataclass checks its own."""
    if not is_dataclass(factory):
        return factory(**options)
    known = [each.name for each in fields(factory)]
    for name in options:
        if name not in known:
            shown = f"{name} ({flag_of(name)})" if hint else name
            raise SettingsError(f"{what} has no option {shown}. It has: {', '.join(known) or 'none'}.")
    required = [each.name for each in fields(factory) if each.default is each.default_factory is MISSING]
    missing = [f"{name} ({flag_of(name)})" if hint else name for name in required if name not in options]
    if missing:
        raise SettingsError(f"{what} needs {' and '.join(missing)}{hint}.")
    return factory(**options)
