"""What makes a decoder or a scorer of lists, as plain values: other processes and machines make the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bidibeam.api.decoders import default_search, load_decoder
from bidibeam.api.scoring import ListScorer, Scored
from bidibeam.api.tuned import TunedSettings
from bidibeam.models.loading import load
from bidibeam.search.length import LENGTH_PENALTIES

if TYPE_CHECKING:
    from bidibeam.decoding.decoder import Answer, Decoder
    from bidibeam.hypotheses import Beams, Direction
    from bidibeam.models.base import Model
    from bidibeam.strategies.settings import StrategySettings


@dataclass(frozen=True)
class ModelRecipe:
    """How a model is loaded, and with how many threads its process computes; None leaves them alone."""

    name: str | None = None
    reverse: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # `LoadOptions`
    threads: int | None = None

    def on(self, device: str | None) -> ModelRecipe:
        """The same on a device, where one is named."""
        return self if device is None else replace(self, options={**self.options, "device": device})

    def build(self) -> Model:
        """Load the model in a process that works for another one."""
        import torch

        torch.backends.cudnn.allow_tf32 = False  # as commands have it: `cli.inputs.load_model` says why
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return load(self.name, self.reverse, **self.options)


@dataclass(frozen=True)
class DecoderRecipe:
    """The arguments of `load_decoder`, whose model is still to be loaded and whose search it settles."""

    model: ModelRecipe
    strategy: StrategySettings | str | None = None
    search: Mapping[str, Any] = field(default_factory=dict)  # fields of `SearchSettings` that are given
    options: Mapping[str, Any] = field(default_factory=dict)  # further arguments of `load_decoder`

    def on(self, device: str | None) -> DecoderRecipe:
        """The same on a device, where one is named."""
        return replace(self, model=self.model.on(device))

    def build(self) -> Decoder:
        """Load the model and make the decoder."""
        loaded = self.model.build()
        tuned = TunedSettings.known_for(loaded)
        settings = default_search(loaded, tuned, **self.search)
        return load_decoder(loaded, self.strategy, settings=settings, tuned=tuned, **self.options)

    def build_work(self) -> Callable[[Sequence[Beams]], list[Answer]]:
        """What answers a batch of sources."""
        decoder = self.build()
        return lambda batch: [*decoder.answers(batch)]


@dataclass(frozen=True)
class ScorerRecipe:
    """A model that scores lists, and how."""

    model: ModelRecipe
    directions: Sequence[Direction]
    length_formula: str
    length_penalty: float
    overwrite: bool

    def on(self, device: str | None) -> ScorerRecipe:
        """The same on a device, where one is named."""
        return replace(self, model=self.model.on(device))

    def make(self, loaded: Model) -> ListScorer:
        """The scorer, of a model that is loaded."""
        penalty = LENGTH_PENALTIES.create(self.length_formula, self.length_penalty)
        return ListScorer(loaded, self.directions, penalty, overwrite=self.overwrite)

    def build_work(self) -> Callable[[Sequence[Beams]], list[Scored]]:
        """What scores a batch of lists."""
        scorer = self.make(self.model.build())
        return lambda batch: [scorer.score_batch(batch)]
