"""What workers do with rows: answer sources by a model, or choose among lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bidibeam._version import __version__
from bidibeam.decoding.decoder import Answer, Decoder, Ranker
from bidibeam.errors import InputError
from bidibeam.interchange.nbest import check_tokens_alike, parse_beams
from bidibeam.interchange.reading import parse_source
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import BATCH_SIZE, check_requirements, is_parallel, warm_up

if TYPE_CHECKING:
    from pathlib import Path

    from bidibeam.api.recipes import DecoderRecipe
    from bidibeam.hypotheses import Beams
    from bidibeam.interchange.text_lines import JsonObject
    from bidibeam.similarities.word_vectors import WordVectors
    from bidibeam.strategies.settings import StrategySettings

Parse = Callable[["JsonObject"], "Beams"]
"""Makes a source of a row, or says by an InputError why it cannot be answered."""


@dataclass(frozen=True)
class DecodeTask:
    """Answers sources by a model."""

    recipe: DecoderRecipe

    def using(self, threads: int, *, has_gpu: bool) -> DecodeTask:
        """The same, in processes of so many threads, on a GPU or on none."""
        is_spread = self.recipe.model.options.get("device_map") is not None
        recipe = self.recipe if has_gpu or is_spread else self.recipe.on("cpu")
        options = {**recipe.options, "workers": recipe.options.get("workers") or threads}
        return replace(
            self, recipe=replace(recipe, model=replace(recipe.model, threads=threads), options=options)
        )

    def build(self) -> SourceAnswerer:
        """Load the model."""
        return SourceAnswerer(self.recipe.build())


class SourceAnswerer:
    """A model that answers sources."""

    def __init__(self, decoder: Decoder) -> None:
        warm_up(decoder.ranker.strategy)
        self.decoder, self.signature, self.batch_size = decoder, decoder.signature, decoder.batch_size
        self.told = f"{decoder.system} ({decoder.reason})" if decoder.reason else ""

    def begin_shard(self) -> Parse:
        """What reads the rows of the next shard."""
        if not self.decoder.ranker.strategy.requirements.reference:
            return parse_source
        return self._parse_with_reference

    def _parse_with_reference(self, entry: JsonObject) -> Beams:
        beams = parse_source(entry)
        if not beams.references:
            raise InputError(f"{entry.place}: there is no reference, and the strategy chooses by it.")
        return beams

    def answers(self, sources: Iterable[Beams]) -> Iterable[Answer]:
        """The answers, in order."""
        return self.decoder.answers(sources)


@dataclass(frozen=True)
class RankTask:
    """Chooses among lists."""

    settings: StrategySettings
    max_length: int | None = None  # T of similarities
    origin: dict[str, str] = field(default_factory=dict)  # what the signature says besides
    replies_only: bool = False
    workers: int | None = None  # threads that compare; None for as many as a process has

    def using(self, threads: int, *, has_gpu: bool) -> RankTask:  # noqa: ARG002
        """The same, in processes of so many threads."""
        return replace(self, workers=self.workers or threads)

    def build(self) -> ListAnswerer:
        """Make the strategy; word vectors are read whole, since nobody knows which words will come."""
        strategy = self.settings.build(max_length=self.max_length, space=_reader(self.settings.vectors))
        warm_up(strategy)
        signature = strategy.signature.extended(**self.origin, bidibeam=__version__)
        ranker = Ranker(strategy, self.workers or 1, replies_only=self.replies_only)
        return ListAnswerer(ranker, signature, self.settings.name)


def _reader(path: Path | None) -> Callable[[], WordVectors] | None:
    from bidibeam.similarities.word_vectors import WordVectors

    return None if path is None else lambda: WordVectors.from_file(path)


class ListAnswerer:
    """A strategy that chooses among lists."""

    batch_size = None
    told = ""

    def __init__(self, ranker: Ranker, signature: Signature, name: str) -> None:
        self._ranker, self._name, self.signature = ranker, name, signature

    def begin_shard(self) -> Parse:
        """What reads the rows of the next shard, all of which must have tokens if one has."""
        first_place: dict[bool, str] = {}

        def parse(entry: JsonObject) -> Beams:
            beams, seen = parse_beams(entry), {**first_place}
            check_tokens_alike(entry, entry.place.partition(",")[0], seen)
            try:
                check_requirements(beams, self._ranker.strategy.requirements, self._name)
            except InputError as error:
                raise InputError(f"{entry.place}: {error}") from error
            first_place.update(seen)  # what is rejected decides nothing about the others
            return beams

        return parse

    def answers(self, sources: Iterable[Beams]) -> Iterable[Answer]:
        """The answers, in order."""
        return self._ranker.stream(sources, BATCH_SIZE if is_parallel(self._ranker.strategy) else 1)
