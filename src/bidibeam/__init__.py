"""Decode from both ends.

Everything public is listed here, and imported when it is first used: `import bidibeam` costs nothing.

    from bidibeam import SearchSettings, load_decoder

    decoder = load_decoder("runs/demo/run", "bidia", settings=SearchSettings(beam_size=50))
    for hypothesis in decoder.decode(["how are you?"])[0]:
        print(hypothesis.score, hypothesis.text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bidibeam._version import __version__

if TYPE_CHECKING:
    from bidibeam.api import load, load_decoder, load_run
    from bidibeam.data.tokenization import Tokenizer
    from bidibeam.decoding.decoder import Decoder
    from bidibeam.errors import BidibeamError
    from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranking
    from bidibeam.models.base import Model
    from bidibeam.models.gru.network import BidirectionalModel
    from bidibeam.search.beam import beam_search
    from bidibeam.search.settings import SearchSettings
    from bidibeam.similarities.custom import per_pair
    from bidibeam.strategies.settings import StrategySettings

_HOMES = {
    "Beams": "hypotheses",
    "BidibeamError": "errors",
    "BidirectionalModel": "models.gru.network",
    "Decoder": "decoding.decoder",
    "Direction": "hypotheses",
    "Hypothesis": "hypotheses",
    "Model": "models.base",
    "NBest": "hypotheses",
    "Ranking": "hypotheses",
    "SearchSettings": "search.settings",
    "StrategySettings": "strategies.settings",
    "Tokenizer": "data.tokenization",
    "beam_search": "search.beam",
    "load": "models.loading",
    "load_decoder": "api",
    "load_run": "api",
    "per_pair": "similarities.custom",
}

__all__ = [
    "Beams",
    "BidibeamError",
    "BidirectionalModel",
    "Decoder",
    "Direction",
    "Hypothesis",
    "Model",
    "NBest",
    "Ranking",
    "SearchSettings",
    "StrategySettings",
    "Tokenizer",
    "__version__",
    "beam_search",
    "load",
    "load_decoder",
    "load_run",
    "per_pair",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bidibeam' has no attribute {name!r}")
    value = getattr(import_module(f"bidibeam.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
