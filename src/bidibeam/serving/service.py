"""What the server does, without HTTP: models by name, and the work of each kind of request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bidibeam.api.decoders import choose_default, default_search, load_decoder
from bidibeam.api.tuned import TunedSettings
from bidibeam.decoding.decoder import Answer, Decoder, Ranker
from bidibeam.decoding.explaining import explain_beams
from bidibeam.errors import BidibeamError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.serving.batching import Work
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.ranking import check_requirements, warm_up
from bidibeam.strategies.settings import (
    DEFAULT_SYSTEM,
    FOR_ANY_LISTS,
    FOR_LISTS,
    StrategySettings,
    default_for_lists,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bidibeam.hypotheses import Ranked
    from bidibeam.models.base import Model
    from bidibeam.protocols import Strategy

KEPT = 64
"""Decoders that are kept; they hold settings, not weights."""


class RequestError(BidibeamError):
    """A request that cannot be answered, and the field that is to blame."""

    def __init__(
        self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.param, self.status, self.code = param, status, code


@dataclass(frozen=True)
class Selection:
    """How a request wants its replies chosen; equal ones are answered together.

    Attributes:
        strategy: A system's name; None for the default.
        similarity: The name of a similarity, over that of the system.
        similarity_options: The similarity's own settings.
        strategy_options: The strategy's.
    """

    strategy: str | None = None
    similarity: str | None = None
    similarity_options: tuple[tuple[str, Any], ...] = ()
    strategy_options: tuple[tuple[str, Any], ...] = ()

    def settings(self, default: str | None = None) -> StrategySettings | None:
        """Returns the strategy's settings; None where nothing is asked for, and there is no default."""
        name = self.strategy or ("bidia" if self.similarity or self.similarity_options else default)
        if name is None and not self.strategy_options:
            return None
        settings = StrategySettings.named(name or DEFAULT_SYSTEM.split()[0]).override(
            options=dict(self.strategy_options),
            similarity=self.similarity,
            similarity_options=dict(self.similarity_options),
        )
        if self.similarity is not None and not settings.compares:
            raise RequestError(
                f"The strategy {settings.name} compares no hypotheses, so it has no similarity.", "similarity"
            )
        return settings


@dataclass(frozen=True)
class Asked:
    """How a request wants its sources answered; equal ones are searched together.

    Attributes:
        model: The model's name.
        selection: How replies are chosen.
        search: Search settings by name; what is not there is the model's default.
        replies_only: Whether the replies are enough.
    """

    model: str
    selection: Selection = Selection()
    search: tuple[tuple[str, Any], ...] = ()
    replies_only: bool = True


class Service:
    """Models by name, and the decoders that requests ask for.

    Args:
        models: The models; a request that names none is answered by the first. None are needed to rank lists.
        vectors: A file of word vectors, for similarities of words.
        max_batch: The most sources that are searched together.
        workers: Threads that compare hypotheses.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        *,
        vectors: Path | None = None,
        max_batch: int = 16,
        workers: int = 1,
    ) -> None:
        self.models = dict(models)
        self._vectors, self._max_batch, self._workers = vectors, max_batch, workers
        self.decoder = lru_cache(KEPT)(self._load_decoder)
        self._strategy = lru_cache(KEPT)(self._build_strategy)
        self._space = lru_cache(None)(self._read_vectors)

    def find_model(self, name: str | None) -> str:
        """Returns the name of a model: that which is asked for, or the first."""
        if not self.models:
            raise RequestError("This server has no model: it ranks lists alone.", "model", status=404)
        if name is None:
            return next(iter(self.models))
        if name not in self.models:
            known = ", ".join(self.models)
            raise RequestError(
                f"There is no model {name!r}. There are: {known}.",
                "model",
                status=404,
                code="model_not_found",
            )
        return name

    def decode(self, asked: Asked) -> Work:
        """Returns the work of answering sources: each becomes an `Answer`."""
        decoder = self.decoder(asked)

        def run(sources: Sequence[str]) -> list[Answer]:
            return [*decoder.answers(Beams(str(place), source) for place, source in enumerate(sources, 1))]

        return Work(("decode", asked), run)

    def explain(self, asked: Asked) -> Work:
        """Returns the work of explaining sources: each becomes an explanation's document."""
        decoder = self.decoder(asked)
        return Work(("explain", asked), lambda sources: [decoder.explain(each).to_dict() for each in sources])

    def rank(self, selection: Selection, lists: Sequence[Beams]) -> Work:
        """Returns the work of ranking n-best lists: each becomes an `Answer`."""
        strategy, known = self.strategy_for(selection, lists)
        return Work(("rank", known), Ranker(strategy, self._workers).answers)

    def explain_lists(self, selection: Selection, lists: Sequence[Beams]) -> Work:
        """Returns the work of explaining n-best lists: each becomes an explanation's document."""
        strategy, known = self.strategy_for(selection, lists, FOR_ANY_LISTS)
        signature = str(strategy.signature)

        def run(lists: Sequence[Beams]) -> list[dict[str, Any]]:
            return [explain_beams(each, strategy, signature=signature).to_dict() for each in lists]

        return Work(("explain lists", known), run)

    def token_log_probs(self, name: str, source: str, entry: Ranked) -> list[float]:
        """Returns the log-probability of each id of a hypothesis, under the direction that wrote it.

        In reading order; what a direction writes first depends on nothing else of the hypothesis.
        """
        model, ids, direction = self.models[name], entry.hypothesis.ids, entry.direction
        scorer = model.sequence_scorer(direction)
        end = (scorer.end_id,) if ids and ids[-1] == scorer.end_id else ()
        written = direction.arrange(ids[: len(ids) - len(end)])
        parts = [direction.arrange(written[:count]) for count in range(1, len(written) + 1)]
        (sums,) = scorer.log_probs([source], [[*parts, *([ids] if end else [])]])
        steps = [after - before for before, after in zip([0.0, *sums], sums, strict=False)]
        own, last = steps[: len(written)], steps[len(written) :]
        return [*(own if direction is Direction.REGULAR else own[::-1]), *last]

    def _load_decoder(self, asked: Asked) -> Decoder:
        model = self.models[asked.model]
        tuned = TunedSettings.known_for(model)
        search = default_search(model, tuned, **dict(asked.search))
        settings = asked.selection.settings()
        if settings is None:
            settings, _ = choose_default(model, tuned or TunedSettings.find(model), search)
        if settings.uses_vectors:  # which all decoders of a model share
            settings = settings.override(similarity_options={"space": self._space(asked.model)})
        decoder = load_decoder(
            model,
            settings,
            settings=search,
            batch_size=self._max_batch,
            workers=self._workers,
            replies_only=asked.replies_only,
            score_other=not asked.replies_only,
            tuned=tuned,
        )
        _check_chooses(decoder.ranker.strategy)
        warm_up(decoder.ranker.strategy)
        return decoder

    def strategy_for(
        self, selection: Selection, lists: Sequence[Beams], defaults: Sequence[str] = FOR_LISTS
    ) -> tuple[Strategy, Selection]:
        """Returns what ranks lists, which must hold what it needs, and the selection that names it."""
        known = selection
        if selection.settings() is None:
            known = replace(selection, strategy=default_for_lists(lists, defaults))
        strategy: Strategy = self._strategy(known)
        for beams in lists:
            check_requirements(beams, strategy.requirements, known.strategy or "bidia")
        return strategy, known

    def _build_strategy(self, selection: Selection) -> Strategy:
        settings = selection.settings(DEFAULT_SYSTEM)
        assert settings is not None
        strategy = settings.build(space=lambda: self._space(None))
        warm_up(strategy)
        return strategy

    def _read_vectors(self, name: str | None) -> WordVectors:
        """Returns word vectors for a model, or for lists."""
        if name is not None:
            return self.models[name].word_vectors(self._vectors)
        if self._vectors is None:
            raise RequestError(
                "This similarity needs word vectors, and the server was started without `vectors`: compare "
                "by another one.",
                "similarity",
            )
        return WordVectors.from_file(self._vectors)


def _check_chooses(strategy: Strategy) -> None:
    if strategy.requirements.reference:
        raise RequestError(
            "The oracle chooses by references, and sources have none: choose another strategy.", "strategy"
        )
