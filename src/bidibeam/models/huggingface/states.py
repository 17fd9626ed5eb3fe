"""What a search over a Hugging Face model begins with, and what it knows after each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from bidibeam.models.huggingface.attention import Shared
from bidibeam.models.huggingface.branches import Branches
from bidibeam.models.huggingface.steps.now import LeanStep


@dataclass(frozen=True)
class Inputs:
    """What a model reads before it writes, one line a source.

    Attributes:
        ids: (sources, length), the source's ids; for a decoder-only model the prompt, padded on the left.
        mask: (sources, length), 1 where there is a token, 0 where there is padding.
        begin: (sources, length), what an encoder-decoder's decoder reads first, the start token mostly.
        encoded: (sources, length, size), what the encoder says of `ids`, if that is known already.
    """

    ids: Tensor
    mask: Tensor
    begin: Tensor | None = None
    encoded: Tensor | None = None


@dataclass(frozen=True)
class Way:
    """How the steps of one search are taken.

    Attributes:
        decode: A step in few calls; None where the model's own modules are called.
        project: From hidden states, (rows, size), to logits, (rows, vocabulary).
    """

    decode: LeanStep | None
    project: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class HFState:
    """A search's rows. Only `places` exists once per row; what a step wrote stays where it is.

    Attributes:
        branches: What the rows of all steps wrote, shared by the states of one search.
        places: (rows, steps), where each row's ancestors wrote.
        sources: How many sources there are; each has as many rows.
        layers: How many layers the decoder has.
        last: (sources, size), what the decoder said before the first token.
        room: How many positions the decoder has; None for any number.
        is_fresh: Whether the first token is still to come.
        begin: (sources, length), what an encoder-decoder's decoder read first.
        cross: What the encoder said, as keys and values, once per source.
        encoded: (sources, length, size), the same as the encoder gave it; decoders want to see it.
        prompt: What a decoder-only model read before, once per source.
        positions: (sources,), the position of a decoder-only model's first token.
        read: How many tokens the longest prompt has; 0 where there is none.
        way: How steps are taken; known with the first that reads a token, or from the start.
        is_recorded: Whether a GPU records the steps.
    """

    branches: Branches
    places: Tensor
    sources: int
    layers: int
    last: Tensor
    room: int | None
    is_fresh: bool = True
    begin: Tensor | None = None
    cross: Shared | None = None
    encoded: Tensor | None = None
    prompt: Shared | None = None
    positions: Tensor | None = None
    read: int = 0
    way: Way | None = None
    is_recorded: bool = False

    @property
    def beams(self) -> int:
        """How many rows a source has."""
        return len(self.places) // self.sources

    def of_sources(self, lines: Tensor) -> HFState:
        """The same for some of the sources, (lines,), apart from `places`."""

        def part(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[lines]

        return replace(
            self,
            sources=len(lines),
            last=self.last[lines],
            begin=part(self.begin),
            cross=self.cross and self.cross.of_sources(lines),
            encoded=part(self.encoded),
            prompt=self.prompt and self.prompt.of_sources(lines),
            positions=part(self.positions),
        )
