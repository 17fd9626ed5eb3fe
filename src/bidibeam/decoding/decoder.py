"""Hypotheses of a live model, and the choice among them: sources in, replies out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from bidibeam.decoding.rescoring import score_by_other
from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Direction, NBest, Ranking
from bidibeam.models.base import check_fork, first_process, usual_length
from bidibeam.protocols import BeamGenerator, Requirements, Strategy
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import rank_all

if TYPE_CHECKING:
    from bidibeam.decoding.explaining import Explanation
    from bidibeam.models.base import Model
    from bidibeam.search.settings import SearchSettings
    from bidibeam.similarities.word_vectors import WordVectors
    from bidibeam.strategies.settings import StrategySettings

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ModelGenerator:
    """Fills in hypotheses by searching a model in every direction that has settings.

    The other direction scores those of the directions in `scored` too (`other_log_prob`). If `other_weight`
    is not None, only the reply is wanted, and only those are scored that can be it; see `Requirements`.
    """

    model: Model
    searches: Mapping[Direction, SearchSettings]
    scored: Sequence[Direction] = ()
    other_weight: float | None = None

    def __post_init__(self) -> None:
        first_process()

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Search for every source in one batch, and keep their order."""
        check_fork(self.model)
        filled, sources = list(beams), [line.source for line in beams]
        for direction, settings in self.searches.items() if beams else ():
            lists = self.model.n_best(direction, sources, settings)
            if direction in self.scored:
                scorer = self.model.sequence_scorer(direction.other)
                lists = score_by_other(scorer, sources, lists, weight=self.other_weight)
            filled = [
                line.with_hypotheses(direction, nbest) for line, nbest in zip(filled, lists, strict=True)
            ]
        return filled

    def stream(self, sources: Iterable[Beams], batch_size: int | None = None) -> Iterator[Beams]:
        """Search for a stream of sources in order; an accelerator works a batch ahead."""
        size, is_ahead = batch_size or self.model.batch_size, self.model.device.type != "cpu"
        return search_batches(self, sources, size, then=lambda beams: beams, prefetch=is_ahead)

    def in_both_directions(self) -> tuple[ModelGenerator, list[str]]:
        """The same for all directions of the model, each scored by the other where they share tokens.

        Returns it with sentences on what it searches beyond this one, and what it cannot.
        """
        model, known = self.model, next(iter(self.searches.values()))
        searches = {direction: self.searches.get(direction, known) for direction in model.directions}
        notes = [
            f"The decoder itself does not search the {direction.value} direction: that beam of "
            f"{settings.beam_size} is there to explain."
            for direction, settings in searches.items()
            if direction not in self.searches
        ]
        if len(searches) == 1:
            (only,) = searches
            notes.append(
                f"{model.name} has the {only.value} direction alone: nothing is compared or scored by two."
            )
        scored = tuple(searches) if can_score_other(model) else ()
        return ModelGenerator(model, searches, scored), notes


def can_score_other(model: Model) -> bool:
    """Whether a model has two directions that know each other's tokens."""
    if len(model.directions) < 2:
        return False
    try:
        model.check_shared_tokens()
    except SettingsError:
        return False
    return True


def split_beam(
    requirements: Requirements, settings: SearchSettings, strategy: str, *, parameter: str = "beam_size"
) -> dict[Direction, SearchSettings]:
    """Share the beam out among a strategy's directions; messages call its size by `parameter`."""
    sizes = requirements.split(settings.beam_size)
    if sizes is None:
        raise SettingsError(
            f"{parameter} must be at least {len(requirements.directions)} for {strategy}, which shares it "
            f"out among the directions, not {settings.beam_size}.",
            parameter,
        )
    return {direction: replace(settings, beam_size=size) for direction, size in sizes.items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """A source's hypotheses, and the ranking that a strategy made of them."""

    beams: Beams
    ranking: Ranking

    @property
    def text(self) -> str:
        """The reply; empty where there is none."""
        return self.ranking.text


@dataclass(frozen=True)
class Ranker:
    """Ranks hypotheses, in several threads where the strategy allows."""

    strategy: Strategy
    workers: int = 1  # threads; the ranking does not depend on it
    replies_only: bool = False  # whether the first of each ranking is enough

    def answers(self, batch: Sequence[Beams]) -> list[Answer]:
        """Rank each of a batch, in order."""
        rankings = rank_all(self.strategy, batch, workers=self.workers, replies_only=self.replies_only)
        return list(map(Answer, batch, rankings))

    def stream(self, beams: Iterable[Beams], batch_size: int) -> Iterator[Answer]:
        """Rank a stream in order, a batch at a time."""
        for batch in split_batches(beams, batch_size):
            yield from self.answers(batch)


@dataclass(frozen=True)
class RankerRecipe:
    """What makes a ranker in any process: a strategy itself may hold what cannot be sent, such as a lock."""

    settings: StrategySettings
    max_length: int | None = None  # T of similarities
    vectors: WordVectors | None = None  # those that the strategy compares by, if it does
    workers: int = 1
    replies_only: bool = False

    def on(self, device: str | None) -> RankerRecipe:  # noqa: ARG002
        """The same: it computes on no device."""
        return self

    def build_work(self) -> Callable[[Sequence[Beams]], list[Answer]]:
        """What ranks a batch."""
        space = None if (vectors := self.vectors) is None else lambda: vectors
        strategy = self.settings.build(max_length=self.max_length, space=space)
        return Ranker(strategy, self.workers, replies_only=self.replies_only).answers


@dataclass(frozen=True)
class Decoder:
    """Answers sources.

    Args:
        generator: Where hypotheses come from.
        ranker: The strategy that chooses among them.
        signature: Strategy and search, for whoever reports the replies.
        batch_size: Sources searched at once; replies do not depend on it, but for ties within 1e-4.
        prefetch: Whether the next batch is searched in a second thread while this one is ranked, which pays
            where a GPU searches.
        find_tuned: Gives what was tuned for the model, by system, once an explanation asks for it.
        system: The strategy's name as tables have it.
        reason: Why it is this one, where none was named.
    """

    generator: BeamGenerator
    ranker: Ranker
    signature: Signature = field(default_factory=lambda: Signature(()))
    batch_size: int = 32
    prefetch: bool = False
    find_tuned: Callable[[], Mapping[str, Mapping[str, Any]]] = dict
    system: str = ""
    reason: str = ""

    def __repr__(self) -> str:
        """Shows what decides the replies, not the weights."""
        return f"<Decoder {self.signature}>"

    def decode(self, sources: Sequence[str]) -> list[NBest]:
        """Every source's hypotheses, the reply first.

        Raises:
            InputError: If `sources` is one string, which would be answered letter by letter, or one of them
                is no string; or if the strategy chooses by a reference, which sources alone do not have.
        """
        return [answer.ranking.nbest for answer in self.answers(self._read(sources))]

    def explain(self, source: str) -> Explanation:
        """Both beams of a source, how similar they are, and what each strategy chooses from them and why.

        The decoder's own choice is that of `decode`. A direction that its strategy does not search is
        searched for the explanation, as widely as the other, where the model has it. Other strategies choose
        from the same two beams, with what was tuned for them, or else their default settings.

        Raises:
            InputError: If the source is no string, or the strategy chooses by a reference.
        """
        from bidibeam.decoding.explaining import explain_beams

        (empty,) = self._read([source])
        generator, max_length, notes = self.generator, None, list[str]()
        if isinstance(generator, ModelGenerator):
            max_length = usual_length(generator.model)
            generator, notes = generator.in_both_directions()
        (beams,) = generator.generate([empty])
        return explain_beams(
            beams,
            self.ranker.strategy,
            max_length=max_length,
            tuned=self.find_tuned(),
            notes=notes,
            signature=str(self.signature),
        )

    def _read(self, sources: Sequence[str]) -> list[Beams]:
        """Sources, numbered from 1, that have no hypotheses yet."""
        if isinstance(sources, str):
            raise InputError(f"Give a list of sources, not one string: [{sources!r}].")
        sources = list(sources)
        for number, source in enumerate(sources, start=1):
            if not isinstance(source, str):
                raise InputError(f"Source {number} must be a string, not {source!r}.")
        if self.ranker.strategy.requirements.reference:
            raise InputError(
                f"The {self._strategy_name} chooses by references, and strings have none. Give `answers` "
                "Beams that have some, or choose another `strategy`."
            )
        return [Beams(id=str(number), source=source) for number, source in enumerate(sources, start=1)]

    @property
    def _strategy_name(self) -> str:
        return self.ranker.strategy.signature.get("strategy") or "strategy"

    def _check_references(self, sources: Iterable[Beams]) -> Iterator[Beams]:
        """The same sources, as long as each has the reference that the strategy may choose by."""
        is_needed = self.ranker.strategy.requirements.reference
        for beams in sources:
            if is_needed and not beams.references:
                raise InputError(
                    f"Source {beams.id!r} has no reference, and the {self._strategy_name} chooses by it. Add "
                    "one, or choose another `strategy`."
                )
            yield beams

    def answers(self, beams: Iterable[Beams]) -> Iterator[Answer]:
        """Answer a stream of sources in order, a batch at a time.

        Raises:
            InputError: If the strategy chooses by a reference, and a source has none.
        """
        sources = self._check_references(beams)
        return search_batches(
            self.generator, sources, self.batch_size, then=self.ranker.answers, prefetch=self.prefetch
        )


def search_batches(
    generator: BeamGenerator,
    sources: Iterable[Beams],
    batch_size: int,
    *,
    then: Callable[[Sequence[Beams]], Iterable[Result]],
    prefetch: bool = False,
) -> Iterator[Result]:
    """Search for a stream of sources in order, a batch at a time, and pass on what `then` makes of each.

    `then` takes a batch with its hypotheses and gives one result per source. With `prefetch`, as in
    `Decoder`, results and errors come in the same order.
    """
    batches = split_batches(sources, batch_size)
    if not prefetch:
        for batch in batches:
            yield from then(generator.generate(batch))
        return

    def search_next() -> list[Beams] | None:
        batch = next(batches, None)
        return None if batch is None else generator.generate(batch)

    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(search_next)
        while (searched := ahead.result()) is not None:
            ahead = pool.submit(search_next)
            yield from then(searched)


def split_batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The same items in batches, of which the last may be smaller."""
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])
