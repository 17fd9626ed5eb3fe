"""From the names of systems, as command lines and reports have them, and options to strategies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError, SettingsError, UnknownNameError
from bidibeam.registry import import_named, suggest
from bidibeam.similarities import SIMILARITIES
from bidibeam.similarities.custom import as_similarity
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.ranking import check_requirements

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams
    from bidibeam.protocols import Requirements, Similarity, Strategy
    from bidibeam.similarities.word_vectors import WordVectors

DEFAULT_SIMILARITY = "bleu_t"
OPTION_WORDS = {
    "either": "answer",
    "expected": "agreement",
    "mean": "agreement",
    "closest": "agreement",
    "both": "candidates",
    "reverse": "candidates",
}
"""Words of a system's name, and the options whose values they are."""
OPTION_OWNERS = {
    **dict.fromkeys(("similarity", "similarity_options", "vectors", "answer", "agreement"), "bidia"),
    **dict.fromkeys(("length_exponent", "word_reward"), "vbs-tuned"),
}
"""The strategies that are meant by an option where none is named; by any other it is bidis."""
DEFAULT_SYSTEM = "bidis lambda=1"
"""The default system, by both directions; it stays unless tuning finds a clearly better one."""
FOR_LISTS = ("bidis", "bidia")
"""Who ranks lists where nobody says, the first that has all it needs."""
FOR_ANY_LISTS = ("bidis", "bidia", "vbs", "mbr mean", "reverse-vbs")
"""Likewise, for lists of one beam or of texts alone too."""
TUNED = "tuned"
TUNED_VBS = "vbs-tuned"
"""The most likely hypothesis with its length settings tuned: what a gain must be a gain over."""
SIMPLEST_FIRST = ("vbs", TUNED_VBS, "mbr", "bidis", "reverse-vbs", "bidia", "loglinear")
"""Of systems that are as good as each other the simplest is recommended; any other strategy comes last."""
TUNED_STRATEGIES = ("bidis", TUNED_VBS, "loglinear")
"""Strategies with tunable settings other than T."""
TUNING_HINT = (
    "; `bidibeam tune` finds good values, for a run or for Hugging Face models: decode then uses them, and "
    "rerank takes them by `tuned`"
)


@dataclass(frozen=True)
class StrategySettings:
    """Which strategy, and its options.

    Attributes:
        name: The strategy's name.
        options: Its own settings, by the names of its fields; `bidia` has answer and agreement, `bidis` has
            lambda_, `vbs-tuned` has length_exponent and word_reward, `random` has seed.
        similarity: For a strategy that compares: a name, "package.module:name", or the thing itself; None for
            bleu_t where it must, and for no comparison where it need not, as in `loglinear`.
        similarity_options: The similarity's own settings, by the names of its fields.
        vectors: A file of word vectors for similarities that need some; a run has its own.
        wants_tuned: Whether T of the similarity's BP_T is still to come from what was tuned.
    """

    name: str = "bidia"
    options: Mapping[str, Any] = field(default_factory=dict)
    similarity: Any = None
    similarity_options: Mapping[str, Any] = field(default_factory=dict)
    vectors: Path | None = None
    wants_tuned: bool = False

    def __post_init__(self) -> None:
        is_known = self.name in STRATEGIES.names()  # what is not is refused where it is built
        if (
            self.similarity is None
            and is_known
            and "similarity" in _required_names(STRATEGIES.get(self.name))
        ):
            object.__setattr__(self, "similarity", DEFAULT_SIMILARITY)

    @classmethod
    def named(cls, system: str) -> StrategySettings:
        """Reads a system's name: its strategy, and after it a similarity, `either`, an agreement, `tuned`.

        A number among its options is written as in "bidis lambda=1", which no tuning changes.
        """
        strategy, *words = system.split() or [""]
        if not strategy:
            raise SettingsError(f"A system is named by its strategy, such as 'bidia bleu_t', not {system!r}.")
        plain = cls(strategy)
        kinds = {"similarity"} if plain.can_compare else set()
        kinds |= {TUNED} if plain.compares else set()
        kinds |= plain.unset & set(OPTION_WORDS.values())
        by_kind: dict[str, Any] = {}
        for word in words:
            if "=" in word:
                by_kind |= _read_number(word, system, plain.unset)
                continue
            kind = _find_kind(word, system, kinds)
            if kind in by_kind:
                both = f"{word!r} twice" if word == by_kind[kind] else f"both {by_kind[kind]!r} and {word!r}"
                raise SettingsError(f"The system {system!r} has {both}. It takes one {kind} at most.")
            by_kind[kind] = word
        wants_tuned = by_kind.pop(TUNED, None) is not None
        similarity = by_kind.pop("similarity", None)
        settings = cls(strategy, by_kind, similarity, wants_tuned=wants_tuned)
        settings.check_penalty()
        return settings

    def override(
        self,
        *,
        options: Mapping[str, Any] | None = None,
        similarity: Any = None,
        similarity_options: Mapping[str, Any] | None = None,
        vectors: Path | None = None,
    ) -> StrategySettings:
        """Returns the same with what is given; a T among the similarity's options goes over `tuned`."""
        own = {**self.similarity_options, **(similarity_options or {})}
        return StrategySettings(
            self.name,
            {**self.options, **(options or {})},
            similarity or self.similarity,
            own,
            vectors,
            wants_tuned=self.wants_tuned and "max_length" not in own,
        )

    def build(
        self, *, max_length: int | None = None, space: Callable[[], WordVectors] | None = None
    ) -> Strategy:
        """Returns the strategy; `max_length` is T and `space` gives word vectors, for a similarity with such.

        Raises UnknownNameError or SettingsError if a name or an option is unknown, missing or out of range.
        """
        if not self.compares:
            return self._create()
        self.check_similarity()
        self.check_tuned()
        similarity = build_similarity(
            self.similarity, self.similarity_options, max_length=max_length, space=space
        )
        return self._create(similarity=similarity)

    @property
    def requirements(self) -> Requirements:
        """What the strategy will need, before it is built."""
        return self._create(**({"similarity": self.similarity} if self.compares else {})).requirements

    @property
    def can_compare(self) -> bool:
        """Whether the strategy may ask how similar hypotheses are."""
        return "similarity" in _field_names(STRATEGIES.get(self.name))

    @property
    def compares(self) -> bool:
        """Whether it does."""
        return self.similarity is not None and self.can_compare

    @property
    def is_tunable(self) -> bool:
        """Whether it has settings that tuning finds."""
        return self.wants_tuned or self.name in TUNED_STRATEGIES

    @property
    def uses_vectors(self) -> bool:
        """Whether its similarity has word vectors among its settings."""
        return self.compares and "space" in (self._similarity_fields or ())

    @property
    def has_penalty(self) -> bool:
        """Whether its similarity has BP_T, and so a T."""
        return "max_length" in (self._similarity_fields or ())

    @property
    def unset(self) -> set[str]:
        """The strategy's own settings that no option decides."""
        return _field_names(STRATEGIES.get(self.name)) - {"similarity", *self.options}

    @property
    def system(self) -> str:
        """The name that a system with these settings has in tables."""
        numbers = [
            f"{name.rstrip('_')}={value:g}"
            for name, value in self.options.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        return " ".join([self.untuned, *numbers, *([TUNED] if self.wants_tuned else [])])

    @property
    def untuned(self) -> str:
        """The same without `tuned` and numbers: what is tuned for it is known by this."""
        usual = {each.name: each.default for each in _fields(STRATEGIES.get(self.name))}
        given = {kind: self.options.get(kind) for kind in OPTION_WORDS.values()}
        words = [
            value
            for kind, value in given.items()
            if isinstance(value, str) and OPTION_WORDS.get(value) == kind and value != usual.get(kind)
        ]
        return " ".join(map(str, [self.name, *([self.similarity] if self.compares else []), *words]))

    def with_tuned(self, known: Mapping[str, Mapping[str, Any]]) -> StrategySettings:
        """Returns the same with what was tuned, by `untuned`, where it says nothing itself."""
        found = known.get(self.untuned, {})
        tuned = {name: value for name, value in found.items() if name != "T"}
        options = {**tuned, **self.options}
        value = found.get("T") if self.wants_tuned else None
        if value is None:
            return replace(self, options=options)
        length = int(value) if float(value).is_integer() else value
        own = {**self.similarity_options, "max_length": length}
        return replace(self, options=options, similarity_options=own, wants_tuned=False)

    def with_length(self, max_length: int | None) -> StrategySettings:
        """Returns the same with a T, if one is known and wanted: where nothing else decides it."""
        if max_length is None or self.wants_tuned or not self.has_penalty:
            return self
        return replace(self, similarity_options={"max_length": max_length, **self.similarity_options})

    def check_similarity(self) -> None:
        """Makes sure that there is such a similarity, and that vectors are given to one that uses them."""
        self.check_penalty()
        if isinstance(self.similarity, str) and ":" in self.similarity:
            import_named("similarity", self.similarity)
        known = self._similarity_fields
        if known is None:
            return
        if self.vectors is not None and "space" not in known:
            raise SettingsError(
                f"The similarity {self.similarity} uses no word vectors: leave `vectors` out."
            )
        if isinstance(self.similarity_options.get("space"), str | int):
            raise SettingsError("Word vectors are given by `vectors`, a file, not as an option.")

    def check_compares(self, given: Iterable[str]) -> None:
        """Makes sure that options of a similarity, called as given, are said of a strategy that has one."""
        if not self.compares and (name := next(iter(given), None)) is not None:
            raise SettingsError(
                f"The strategy {self.name} compares no hypotheses, so it has no {name}.", name
            )

    def check_penalty(self) -> None:
        """Makes sure that the similarity has a T if one is to come from what was tuned."""
        if self.wants_tuned and not self.has_penalty:
            raise SettingsError(
                f"The similarity {self.similarity} has no T to be tuned. Leave {TUNED!r} out, or compare by "
                "bleu_t or wmd_t."
            )

    def check_tuned(self) -> None:
        """Makes sure that no T is still to come."""
        if self.wants_tuned:
            raise SettingsError(
                f"The system {self.system!r} must be tuned first: no T was tuned for "
                f"{self.untuned!r}. `bidibeam tune` does so, for a run or for Hugging Face models; rerank, "
                "evaluate and analyse take its result by `tuned`."
            )

    @property
    def _similarity_fields(self) -> set[str] | None:
        """The names of the similarity's settings; None for one that no registry holds."""
        if not isinstance(self.similarity, str) or ":" in self.similarity:
            return None
        return _field_names(SIMILARITIES.get(self.similarity))

    def _create(self, **supplied: object) -> Strategy:
        options = {**self.options, **supplied}
        strategy: Strategy = _create(
            STRATEGIES.get(self.name), options, f"The strategy {self.name}", hint=TUNING_HINT
        )
        return strategy


def strategy_named(name: str, tuned: Mapping[str, Mapping[str, Any]] | None = None) -> StrategySettings:
    """Returns the strategy that a system's name stands for, such as "bidia bleu_t either expected" or "vbs".

    `tuned` holds options, and T, by the name of the system without `tuned`.
    """
    settings = StrategySettings.named(name).with_tuned(tuned or {})
    settings.check_tuned()
    return settings


def imply_strategy(options: Iterable[str]) -> str | None:
    """Returns whose options these are, by the first; None where there are none."""
    return next((OPTION_OWNERS.get(name, "bidis") for name in options), None)


def rank_simplicity(system: str) -> int:
    """Returns the place of a system's strategy among all, the simplest first."""
    name = StrategySettings.named(system).name
    return SIMPLEST_FIRST.index(name) if name in SIMPLEST_FIRST else len(SIMPLEST_FIRST)


def requirements_of(name: str) -> Requirements:
    """Returns what a system needs; that does not depend on what is tuned for it."""
    settings = StrategySettings.named(name)
    if settings.name == TUNED_VBS:  # it cannot do without its settings
        settings = replace(settings, options={"length_exponent": 0.0, "word_reward": 0.0})
    return settings.requirements


def default_for_lists(lists: Iterable[Beams], names: Sequence[str] = FOR_LISTS) -> str:
    """Returns who answers if nobody says: the first of the names that has all it needs, or else bidia.

    By default that is bidis where both directions scored every hypothesis. Lists of one beam, or of texts
    alone, can be explained by one of `FOR_ANY_LISTS`. Lists are gone through again for every name.
    """
    for name in names:
        with suppress(InputError):
            needed = requirements_of(name)
            for beams in lists:
                check_requirements(beams, needed, name)
            return name
    return "bidia"


def check_systems(names: Sequence[str]) -> None:
    """Makes sure that all of these are systems, no two of them the same."""
    known: dict[str, str] = {}
    for name in names:
        requirements_of(name)
        system = StrategySettings.named(name).system
        if system in known:
            raise SettingsError(
                f"A system is named twice, as {known[system]!r} and as {name!r}. Name each of them once."
            )
        known[system] = name


def _find_kind(word: str, name: str, kinds: Collection[str]) -> str:
    """Returns what a word of a system's name says, if it is one of these kinds."""
    similarities = SIMILARITIES.names()
    is_similarity = word in similarities or ":" in word
    kind = "similarity" if is_similarity else OPTION_WORDS.get(word, TUNED if word == TUNED else "")
    if kind in kinds:
        return kind
    options = [each for each, its_kind in OPTION_WORDS.items() if its_kind in kinds]
    choices = [*similarities, "package.module:name", *options] if "similarity" in kinds else options
    choices += [TUNED] if TUNED in kinds else []
    strategy = name.split()[0]
    takes = f"takes: {', '.join(choices)}" if choices else "takes no further words"
    if kind:
        raise SettingsError(f"The system {name!r} cannot have the word {word!r}. {strategy} {takes}.")
    hint = suggest(word, choices)
    raise UnknownNameError(f"Unknown word {word!r} in the system {name!r}.{hint} {strategy} {takes}.")


def _read_number(word: str, system: str, unset: Collection[str]) -> dict[str, float]:
    """Returns the option that "name=number" sets."""
    name, _, value = word.partition("=")
    known = {each.rstrip("_"): each for each in unset}
    try:
        return {known[name]: float(value)}
    except KeyError:
        raise UnknownNameError(
            f"The system {system!r} sets {name!r}, which {system.split()[0]} does not have."
            f"{suggest(name, known)} It has: {', '.join(sorted(known)) or 'none'}."
        ) from None
    except ValueError:
        raise SettingsError(
            f"The system {system!r} sets {name!r} to {value!r}; a number is expected, as in lambda=1."
        ) from None


def build_similarity(
    given: Any,
    options: Mapping[str, Any],
    *,
    max_length: int | None = None,
    space: Callable[[], WordVectors] | None = None,
) -> Similarity:
    """Returns a similarity from its name, "package.module:name", or the thing itself."""
    name = given if isinstance(given, str) else None
    factory = given
    if name is not None:
        factory = import_named("similarity", name) if ":" in name else SIMILARITIES.get(name)
    if name is None or ":" in name or not isinstance(factory, type):  # it is the similarity itself
        own: Any = as_similarity(factory, name)
        if options:
            name = name or own.signature.facts[0][1]
            raise SettingsError(f"The similarity {name} takes no options, received {', '.join(options)}.")
        similarity: Similarity = own
        return similarity
    known = _field_names(factory)
    supplied: dict[str, Any] = {}
    if "max_length" in known and max_length is not None:
        supplied["max_length"] = max_length
    if "space" in known and "space" not in options:
        if space is None:
            raise SettingsError(f"The similarity {name} needs word vectors: give `vectors`, a file of them.")
        supplied["space"] = space()
    return as_similarity(_create(factory, supplied | dict(options), f"The similarity {name}"), name)


def _fields(factory: Any) -> tuple[Field[Any], ...]:
    return fields(factory) if is_dataclass(factory) else ()


def _field_names(factory: Any) -> set[str]:
    return {each.name for each in _fields(factory)}


def _required_names(factory: Any) -> list[str]:
    return [each.name for each in _fields(factory) if each.default is each.default_factory is MISSING]


def _create(factory: Callable[..., Any], options: Mapping[str, Any], what: str, *, hint: str = "") -> Any:
    """Calls the factory, having checked the options' names; one that is no dataclass checks its own."""
    if not is_dataclass(factory):
        return factory(**options)
    known = [each.name for each in fields(factory)]
    for name in options:
        if name not in known:
            near = suggest(name.rstrip("_"), [each.rstrip("_") for each in known])
            raise SettingsError(f"{what} has no option {name}.{near} It has: {', '.join(known) or 'none'}.")
    missing = [name for name in _required_names(factory) if name not in options]
    if missing:
        raise SettingsError(f"{what} needs {' and '.join(missing)}{hint}.")
    return factory(**options)
