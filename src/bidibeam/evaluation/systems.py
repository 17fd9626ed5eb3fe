"""Systems: strategies with their settings and what they chose among what; and as evidence of analyses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

from bidibeam._version import __version__
from bidibeam.errors import BidibeamError, InputError
from bidibeam.hypotheses import Beams, Direction, Ranked, Ranking
from bidibeam.metrics import METRICS
from bidibeam.metrics.bleu import OWN_WORDS, CorpusBleu
from bidibeam.metrics.ngrams import split_words
from bidibeam.metrics.scoring import Texts, has_statistics, measure, score
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import BATCH_SIZE, check_requirements, rank_all
from bidibeam.strategies.settings import TUNED_VBS, StrategySettings, strategy_named
from bidibeam.text import PackedGroups, PackedTexts

if TYPE_CHECKING:
    from bidibeam.protocols import Array, Metric, Strategy
    from bidibeam.similarities.word_vectors import WordVectors


BASE = "vbs"
"""The most likely hypothesis."""
ORACLE = "oracle"
"""The hypothesis nearest the reference: what a perfect choice would reach."""
AGREEMENT = "bidia"
"""The strategy in which both directions decide; its systems have more words behind it."""
SYSTEMS = (
    BASE,
    TUNED_VBS,
    "bidis",
    "bidia bleu_t",
    "bidia wmd_t",
    "bidia bleu_t tuned",
    "bidia wmd_t tuned",
    "bidia bleu_t either",
    "bidia bleu_t expected",
    "loglinear",
    "loglinear both",
    "mbr bleu_t",
    "longest",
    "reverse-vbs",
    "random",
    ORACLE,
)
"""Those of the reproduction."""
BASELINES = (TUNED_VBS, BASE)
"""What the other systems are tested against."""
CONTROL = " control"
"""What stands behind the name of a system that chose among hypotheses of two regular networks."""
AGREEING = "bidia bleu_t"
"""The system whose two beams are looked into."""
SCORES = ("length_ratio", "distinct-1", "distinct-2")
"""What is said of systems besides the metric that they are judged by."""


@dataclass(frozen=True)
class System:
    """One way of choosing, and what it chose for every source."""

    name: str  # as tables show it: "vbs", "bidia wmd_t", "bidia bleu_t either", "bidia bleu_t tuned"
    beam_size: int  # N_B, the hypotheses it could choose from; 0 where nobody knows
    beams: Sequence[Beams]
    rankings: Sequence[Ranking]
    signature: Signature

    @cached_property
    def replies(self) -> Sequence[str]:
        """One per source; empty where nothing was found."""
        return PackedTexts(ranking.text for ranking in self.rankings)

    @cached_property
    def reply_words(self) -> list[Sequence[str]]:
        """The words of the replies."""
        return [split_words(reply) for reply in self.replies]

    @cached_property
    def references(self) -> Sequence[tuple[str, ...]]:
        """What people answered, one text or more for each source."""
        return PackedGroups(map(_get_references, self.beams))

    def measure(self, metric: Metric) -> Array | Texts:
        """Returns what a metric's scores and tests are computed from; once for each metric."""
        if metric not in self._measured:
            self._measured[metric] = measure(metric, self.replies, self.references)
        return self._measured[metric]

    @cached_property
    def _measured(self) -> dict[Metric, Array | Texts]:
        return {}


def _get_references(line: Beams) -> tuple[str, ...]:
    if not line.references:
        raise InputError(f"Source {line.id!r} has no reference, so its reply cannot be scored.")
    return line.references


def with_oracle(settings: StrategySettings, metric: Metric | None) -> StrategySettings:
    """Returns the same settings, but those of an oracle that is judged by a metric choose by that metric.

    BLEU says little of single replies, and distinct-n nothing: there the oracle chooses by sentence BLEU, as
    in the paper.
    """
    is_other = metric is not None and has_statistics(metric) and metric.name not in ("bleu", "sentence_bleu")
    if settings.name != ORACLE or "metric" in settings.options or not is_other:
        return settings
    return settings.override(options={"metric": metric})


def choose_system(
    name: str,
    strategy: Strategy,
    beams: Sequence[Beams],
    *,
    facts: Sequence[tuple[str, str]] = (),
    beam_size: int | None = None,
    replies_only: bool = True,
    workers: int = 1,
    track: Callable[[Iterator[Ranking], int, str], Iterable[Ranking]] | None = None,
) -> System:
    """Lets a strategy choose among lists that hold what it needs: a system under test.

    By default N_B is the number of hypotheses it can choose from (the longest regular list, and with it the
    reverse one where both are used). The signature is that of the strategy, `facts` on the lists, and this
    version. `track` reports rankings to a progress bar: the rankings, how many there will be, and the name.
    """
    rankings = (
        ranking
        for start in range(0, len(beams), BATCH_SIZE)
        for ranking in rank_all(
            strategy, beams[start : start + BATCH_SIZE], workers=workers, replies_only=replies_only
        )
    )
    return System(
        name,
        _beam_size(strategy, beams) if beam_size is None else beam_size,
        beams,
        list(rankings if track is None else track(rankings, len(beams), name)),
        Signature((*strategy.signature.facts, *facts)).extended(bidibeam=__version__),
    )


def system_from_replies(name: str, beams: Sequence[Beams], signature: Signature, *, beam_size: int) -> System:
    """Returns a system whose replies are known: each source's only hypothesis; N_B is 0 if unknown."""
    if "bidibeam" not in dict(signature.facts):
        signature = signature.extended(bidibeam=__version__)
    return System(name, beam_size, beams, _OnlyReplies(beams), signature)


@dataclass(frozen=True)
class _OnlyReplies(Sequence[Ranking]):
    """Rankings of one hypothesis or none, made as they are asked for."""

    beams: Sequence[Beams]

    def __len__(self) -> int:
        return len(self.beams)

    def __iter__(self) -> Iterator[Ranking]:
        return map(self._rank, self.beams)

    @overload
    def __getitem__(self, place: int) -> Ranking: ...
    @overload
    def __getitem__(self, place: slice) -> list[Ranking]: ...
    def __getitem__(self, place: int | slice) -> Ranking | list[Ranking]:
        if isinstance(place, slice):
            return list(map(self._rank, self.beams[place]))
        return self._rank(self.beams[place])

    @staticmethod
    def _rank(line: Beams) -> Ranking:
        return Ranking(tuple(Ranked(reply, Direction.REGULAR, 0, 0.0) for reply in line.regular))


def choose_systems(
    lists: Sequence[Sequence[Beams]],
    names: Sequence[str] | None = None,
    *,
    max_length: int | None = None,
    load_vectors: Callable[[], WordVectors] | None = None,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    metric: Metric | None = None,
    workers: int = 1,
) -> tuple[dict[str, dict[int, System]], dict[str, str]]:
    """Lets every system choose among every list that holds what it needs, as `choose_system` does.

    Of two lists with the same N_B the first counts. The oracle chooses by the metric that all are judged by.
    Returns systems by name and N_B; and by name, why one is missing. A system that was named in `names` must
    not be missing; by default all of `SYSTEMS` are tried.
    """
    systems: dict[str, dict[int, System]] = {}
    missing: dict[str, str] = {}
    for name in SYSTEMS if names is None else names:
        try:
            settings = with_oracle(strategy_named(name, tuned or {}), metric)
            if settings.name in (TUNED_VBS, "loglinear") and settings.untuned not in (tuned or {}):
                raise InputError("It needs tuned settings: `bidibeam tune` finds them; give them by `tuned`.")
            strategy = settings.build(max_length=max_length, space=load_vectors)
            systems[name] = _choose_at_every_size(name, strategy, lists, workers)
        except BidibeamError as error:
            if names is not None:
                raise
            missing[name] = str(error)
    if not systems:
        name, reason = next(iter(missing.items()))
        raise InputError(f"No system can choose among these lists. {name}: {reason}")
    return systems, missing


def _choose_at_every_size(
    name: str, strategy: Strategy, lists: Sequence[Sequence[Beams]], workers: int
) -> dict[int, System]:
    """Returns a system by N_B."""
    systems: dict[int, System] = {}
    lacking: InputError | None = None
    for beams in lists:
        try:
            for line in beams:
                check_requirements(line, strategy.requirements, name)
        except InputError as error:
            lacking = error
            continue
        beam_size = _beam_size(strategy, beams)
        if beam_size not in systems:
            systems[beam_size] = choose_system(name, strategy, beams, workers=workers)
    if not systems and lacking is not None:
        # The message advises to choose another strategy, and here there is none to choose.
        fact, _, advice = str(lacking).rpartition("; ")
        raise InputError(f"{fact}." if "strategy" in advice else str(lacking)) from lacking
    return systems


def _beam_size(strategy: Strategy, beams: Sequence[Beams]) -> int:
    directions = strategy.requirements.directions
    return max(sum(len(line.of(direction)) for direction in directions) for line in beams)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Systems that answered the same sources, by name and N_B, and what is known of them besides."""

    systems: Mapping[str, Mapping[int, System]]
    max_length: int | None  # T of similarities; None for the median of what is compared
    load_vectors: Callable[[], WordVectors] | None = None  # for similarities that need some; called once
    workers: int = 1
    examples: int = 20
    metric: Metric = field(default_factory=lambda: CorpusBleu(OWN_WORDS))  # what systems are judged by
    known: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # values, also of absent systems
    absent: Mapping[str, str] = field(default_factory=dict)  # why a system is not there

    def __post_init__(self) -> None:
        first: list[str] | None = None
        for name, sizes in self.systems.items():
            for beam_size, system in sizes.items():
                ids = [line.id for line in system.beams]
                first = ids if first is None else first
                if ids != first or len(system.rankings) != len(ids):
                    raise InputError(
                        f"The system {name} at N_B = {beam_size} answered other sources than the first one "
                        "did. Give lists of the same sources, in the same order."
                    )
        if not first:
            raise InputError("There are no systems, or no sources, to analyse.")

    @property
    def largest(self) -> int:
        """The largest N_B there is."""
        largest = max(chain.from_iterable(self.systems.values()))
        if largest < 1:
            raise InputError("No system says among how many hypotheses it chose, so N_B is unknown.")
        return largest

    @cached_property
    def widest(self) -> dict[str, System]:
        """Each system at the largest N_B that it has."""
        return {name: sizes[max(sizes)] for name, sizes in self.systems.items() if sizes}

    @cached_property
    def agreeing(self) -> System:
        """The system whose regular and reverse beams are looked into, at its largest N_B."""
        system = self.widest.get(AGREEING)
        if system is None:
            raise self.lack(AGREEING, "which needs a regular and a reverse beam.")
        if not any(len(line.regular) and len(line.reverse) for line in system.beams):
            raise InputError(f"No source has hypotheses of both directions in the beams of {AGREEING!r}.")
        return system

    @cached_property
    def references(self) -> Sequence[tuple[str, ...]]:
        """What people answered."""
        return next(iter(self.widest.values())).references

    @cached_property
    def vectors(self) -> WordVectors:
        """The word vectors."""
        if self.load_vectors is None:
            raise InputError("There are no word vectors, and WMD compares by them.")
        return self.load_vectors()

    def lack(self, name: str, why: str = "which is not there.") -> InputError:
        """Returns the error of an analysis for want of a system."""
        return InputError(f"It needs the system {name!r}, {self.absent.get(name, why)}")

    def sizes_of(self, name: str) -> set[int]:
        """Returns every N_B at which a system's value is known or can be computed."""
        return {*self.known.get(name, {}), *self.systems.get(name, {})}

    def value_of(self, name: str, beam_size: int) -> float:
        """Returns a system's value by the metric: as it is known, or computed."""
        known = self.known.get(name, {}).get(beam_size)
        return (
            score(self.metric, self.systems[name][beam_size].measure(self.metric)) if known is None else known
        )

    def measure(self, replies: Sequence[str]) -> Array | Texts:
        """Returns what the metric's value of replies to these sources is computed from."""
        return measure(self.metric, replies, self.references)

    def scores(self, replies: Sequence[str], names: Sequence[str] = SCORES) -> dict[str, float]:
        """Returns scores by name: that of the metric, and others."""
        others = [METRICS.create(name) for name in names if name != self.metric.name]
        return {
            each.name: score(each, measure(each, replies, self.references)) for each in (self.metric, *others)
        }

    def rank(
        self, settings: StrategySettings, beams: Sequence[Beams], *, replies_only: bool = False
    ) -> list[Ranking]:
        """Returns a strategy's rankings, or their first entries alone, with this T and these word vectors."""
        space = None if self.load_vectors is None else lambda: self.vectors
        strategy = with_oracle(settings, self.metric).build(max_length=self.max_length, space=space)
        return rank_all(strategy, beams, workers=self.workers, replies_only=replies_only)
