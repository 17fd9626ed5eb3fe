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

from bidibeam._version import __version__ as __version__

if TYPE_CHECKING:
    from bidibeam.api import load as load
    from bidibeam.api import load_decoder as load_decoder
    from bidibeam.api import load_run as load_run
    from bidibeam.data.tokenization import Tokenizer as Tokenizer
    from bidibeam.decoding.decoder import Decoder as Decoder
    from bidibeam.decoding.explaining import Explanation as Explanation
    from bidibeam.errors import BidibeamError as BidibeamError
    from bidibeam.hypotheses import Beams as Beams
    from bidibeam.hypotheses import Direction as Direction
    from bidibeam.hypotheses import Hypothesis as Hypothesis
    from bidibeam.hypotheses import NBest as NBest
    from bidibeam.hypotheses import Ranking as Ranking
    from bidibeam.models.base import Model as Model
    from bidibeam.models.function import FunctionModel as FunctionModel
    from bidibeam.models.function import scorer_from_function as scorer_from_function
    from bidibeam.models.gru.network import BidirectionalModel as BidirectionalModel
    from bidibeam.protocols import StepScorer as StepScorer
    from bidibeam.search.beam import beam_search as beam_search
    from bidibeam.search.settings import SearchSettings as SearchSettings
    from bidibeam.search.settings import VocabularyRoles as VocabularyRoles
    from bidibeam.similarities.custom import per_pair as per_pair
    from bidibeam.strategies.settings import StrategySettings as StrategySettings

_HOMES = {
    "api": ("load_decoder", "load_run"),
    "data.tokenization": ("Tokenizer",),
    "decoding.decoder": ("Decoder",),
    "decoding.explaining": ("Explanation",),
    "errors": ("BidibeamError",),
    "hypotheses": ("Beams", "Direction", "Hypothesis", "NBest", "Ranking"),
    "models.base": ("Model",),
    "models.function": ("FunctionModel", "scorer_from_function"),
    "models.gru.network": ("BidirectionalModel",),
    "models.loading": ("load",),
    "protocols": ("StepScorer",),
    "search.beam": ("beam_search",),
    "search.settings": ("SearchSettings", "VocabularyRoles"),
    "similarities.custom": ("per_pair",),
    "strategies.settings": ("StrategySettings",),
}
__all__ = sorted(["__version__", *(name for names in _HOMES.values() for name in names)])


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _HOMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'bidibeam' has no attribute {name!r}")
    value = getattr(import_module(f"bidibeam.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
