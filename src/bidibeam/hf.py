"""Hugging Face models from both ends.

Names are imported when they are first used: without transformers, only what needs it is missing.

    from bidibeam.hf import fine_tune, reverse_labels
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bidibeam.models.loading import require_transformers

if TYPE_CHECKING:
    from bidibeam.api.custom_generate import BidiGenerate
    from bidibeam.api.huggingface import HFGenerator, load_hf_decoder
    from bidibeam.models.huggingface.configs import check_pair, check_same_tokens, direction_of, mark
    from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq, BidirectionalSeq2SeqConfig
    from bidibeam.models.huggingface.labels import PairCollator, ReverseCollator, reverse_labels, special_ids
    from bidibeam.models.huggingface.loading import load_models, load_pair
    from bidibeam.models.huggingface.scorer import HFScorer
    from bidibeam.training.fine_tune import fine_tune, started_with
    from bidibeam.training.settings import FineTuneSettings

_HOMES = {
    "BidiGenerate": "api.custom_generate",
    "BidirectionalSeq2Seq": "models.huggingface.joint",
    "BidirectionalSeq2SeqConfig": "models.huggingface.joint",
    "FineTuneSettings": "training.settings",
    "HFGenerator": "api.huggingface",
    "HFScorer": "models.huggingface.scorer",
    "PairCollator": "models.huggingface.labels",
    "ReverseCollator": "models.huggingface.labels",
    "check_pair": "models.huggingface.configs",
    "check_same_tokens": "models.huggingface.configs",
    "direction_of": "models.huggingface.configs",
    "fine_tune": "training.fine_tune",
    "load_hf_decoder": "api.huggingface",
    "load_models": "models.huggingface.loading",
    "load_pair": "models.huggingface.loading",
    "mark": "models.huggingface.configs",
    "reverse_labels": "models.huggingface.labels",
    "special_ids": "models.huggingface.labels",
    "started_with": "training.fine_tune",
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
    with require_transformers(name):
        value = getattr(import_module(f"bidibeam.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
