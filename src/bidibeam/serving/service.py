"""What the server does, without HTTP: models by name, and the work of each kind of request."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bidibeam.api.decoders import choose_default, default_search, load_decoder
from bidibeam.api.tuned import TunedSettings
from bidibeam.decoding.decoder import Answer, Decoder, Ranker
from bidibeam.decoding.explaining import explain_beams, system_of
from bidibeam.errors import BidibeamError
from bidibeam.hypotheses import Beams
from bidibeam.serving.batching import Task
from bidibeam.serving.errors import RequestError, setting_error
from bidibeam.serving.settings import ServerSettings
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.ranking import check_requirements, warm_up
from bidibeam.strategies.settings import (
    FOR_ANY_LISTS,
    FOR_LISTS,
    StrategySettings,
    default_for_lists,
    imply_strategy,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bidibeam.models.base import Model
    from bidibeam.protocols import Strategy

KEPT = 64
"""Decoders that are kept; they hold settings, not weights."""


def freeze(options: Mapping[str, Any]) -> str:
    """Returns options as a key: JSON, since true, 1 and 1.0 are equal in Python and mean different things."""
    return json.dumps(options, sort_keys=True)


@dataclass(frozen=True)
class Selection:
    """How a request wants its replies chosen; equal ones are answered together.

    Attributes:
        strategy: A system's name; None for the default.
        similarity: The name of a similarity, over that of the system.
        similarity_options: The similarity's own settings, frozen.
        strategy_options: The strategy's.
    """

    strategy: str | None = None
    similarity: str | None = None
    similarity_options: str = "{}"
    strategy_options: str = "{}"

    def settings(self) -> StrategySettings | None:
        """Returns the strategy's settings; None where nothing is asked for.

        Options without a strategy are those of the one that the command line takes them for.
        """
        compared, own = json.loads(self.similarity_options), json.loads(self.strategy_options)
        known = {"similarity": self.similarity, "similarity_options": compared}
        given = [name for name, value in known.items() if value]
        name = self.strategy or imply_strategy([*given, *own])
        if name is None:
            return None
        try:
            settings = StrategySettings.named(name)
        except BidibeamError as error:
            raise setting_error(error, "strategy") from error
        settings = settings.override(options=own, similarity=self.similarity, similarity_options=compared)
        settings.check_compares(given)
        return settings


@dataclass(frozen=True)
class Asked:
    """How a request wants its sources answered; equal ones are searched together.

    Attributes:
        model: The model's name.
        selection: How replies are chosen.
        search: Search settings by name, frozen; what is not there is the model's default.
        replies_only: Whether the replies are enough.
    """

    model: str
    selection: Selection = Selection()
    search: str = "{}"
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
        max_batch: int = ServerSettings.max_batch,
        workers: int = 1,
    ) -> None:
        self.models = dict(models)
        self._vectors, self._max_batch, self._workers = vectors, max_batch, workers
        self._decoder = lru_cache(KEPT)(self._load_decoder)
        self._strategy = lru_cache(KEPT)(self._build_strategy)
        self._space = lru_cache(None)(self._read_vectors)

    def warm_up(self) -> None:
        """Makes ready what the first requests need: the default decoders, and kernels, which may compile."""
        for name in self.models:
            self._decoder(Asked(name))
            self._decoder(Asked(name, replies_only=False))
        for similarity in ("bleu_t", "wmd_t"):
            for name in self.models or ():
                with suppress(BidibeamError):  # without word vectors, say
                    self._decoder(Asked(name, Selection("bidia", similarity)))

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

    def decode(self, asked: Asked) -> Task:
        """Returns the task of answering sources: each becomes an `Answer`."""
        decoder = self._decoder(asked)

        def run(sources: Sequence[str]) -> list[Answer]:
            return [*decoder.answers(Beams(str(place), source) for place, source in enumerate(sources, 1))]

        return Task("decode", asked, run, _describe_decoder(asked, decoder))

    def explain(self, asked: Asked) -> Task:
        """Returns the task of explaining sources: each becomes an explanation's document."""
        decoder = self._decoder(asked)

        def run(sources: Sequence[str]) -> list[dict[str, Any]]:
            return [decoder.explain(source).to_dict() for source in sources]

        return Task("explain", asked, run, _describe_decoder(asked, decoder))

    def rank(self, selection: Selection, lists: Sequence[Beams]) -> Task:
        """Returns the task of ranking n-best lists: each becomes an `Answer`."""
        strategy, key = self._find_strategy(selection, lists, FOR_LISTS)
        return Task("rank", key, Ranker(strategy, self._workers).answers, _describe_strategy(strategy))

    def explain_lists(self, selection: Selection, lists: Sequence[Beams]) -> Task:
        """Returns the task of explaining n-best lists: each becomes an explanation's document."""
        strategy, key = self._find_strategy(selection, lists, FOR_ANY_LISTS)
        facts = _describe_strategy(strategy)

        def run(lists: Sequence[Beams]) -> list[dict[str, Any]]:
            return [explain_beams(each, strategy, signature=facts["signature"]).to_dict() for each in lists]

        return Task("explain lists", key, run, facts)

    def _load_decoder(self, asked: Asked) -> Decoder:
        model = self.models[asked.model]
        tuned = TunedSettings.known_for(model)
        search = default_search(model, tuned, **json.loads(asked.search))
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

    def _find_strategy(
        self, selection: Selection, lists: Sequence[Beams], defaults: Sequence[str]
    ) -> tuple[Strategy, Selection]:
        """Returns what ranks lists, which must hold what it needs, and the selection that names it."""
        key = selection
        if selection.settings() is None:
            key = replace(selection, strategy=default_for_lists(lists, defaults))
        strategy: Strategy = self._strategy(key)
        name = system_of(strategy).split()[0]
        for beams in lists:
            check_requirements(beams, strategy.requirements, name)
        return strategy, key

    def _build_strategy(self, selection: Selection) -> Strategy:
        settings = selection.settings()
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
                "This similarity needs word vectors, and the server was started without --vectors: compare "
                "by another one.",
                "similarity",
            )
        return WordVectors.from_file(self._vectors)


def _describe_decoder(asked: Asked, decoder: Decoder) -> dict[str, str]:
    return {"model": asked.model, "strategy": decoder.system, "signature": str(decoder.signature)}


def _describe_strategy(strategy: Strategy) -> dict[str, str]:
    return {"strategy": system_of(strategy), "signature": str(strategy.signature)}


def _check_chooses(strategy: Strategy) -> None:
    if strategy.requirements.reference:
        raise RequestError(
            "The oracle chooses by references, and sources have none: choose another strategy.", "strategy"
        )
