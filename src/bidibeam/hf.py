"""Hugging Face models from both ends.

Names are imported when they are first used: without transformers, only what needs it is missing.

    from bidibeam.hf import fine_tune, reverse_labels
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bidibeam.errors import TransformersMissingError

if TYPE_CHECKING:
    from bidibeam.models.huggingface.decoding import HFGenerator, load_hf_decoder
    from bidibeam.models.huggingface.directions import check_pair, check_same_tokens, direction_of, mark
    from bidibeam.models.huggingface.generate import BidiGenerate
    from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq, BidirectionalSeq2SeqConfig
    from bidibeam.models.huggingface.labels import PairCollator, ReverseCollator, reverse_labels, special_ids
    from bidibeam.models.huggingface.loading import load_models, load_pair
    from bidibeam.models.huggingface.scoring import HFScorer
    from bidibeam.models.huggingface.settings import FineTuneSettings
    from bidibeam.models.huggingface.training import fine_tune, started_with

_HOMES = {
    "BidiGenerate": "generate",
    "BidirectionalSeq2Seq": "joint",
    "BidirectionalSeq2SeqConfig": "joint",
    "FineTuneSettings": "settings",
    "HFGenerator": "decoding",
    "HFScorer": "scoring",
    "PairCollator": "labels",
    "ReverseCollator": "labels",
    "check_pair": "directions",
    "check_same_tokens": "directions",
    "direction_of": "directions",
    "fine_tune": "training",
    "load_hf_decoder": "decoding",
    "load_models": "loading",
    "load_pair": "loading",
    "mark": "directions",
    "reverse_labels": "labels",
    "special_ids": "labels",
    "started_with": "training",
}

__all__ = [
    "BidiGenerate",
    "BidirectionalSeq2Seq",
    "BidirectionalSeq2SeqConfig",
    "FineTuneSettings",
    "HFGenerator",
    "HFScorer",
    "PairCollator",
    "ReverseCollator",
    "check_pair",
    "check_same_tokens",
    "direction_of",
    "fine_tune",
    "load_hf_decoder",
    "load_models",
    "load_pair",
    "mark",
    "reverse_labels",
    "special_ids",
    "started_with",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bidibeam.hf' has no attribute {name!r}")
    try:
        module = import_module(f"bidibeam.models.huggingface.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise TransformersMissingError(
            f"{name} needs transformers, which is not installed: pip install 'bidibeam[hf]'"
        ) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
