"""Hugging Face models from both ends.

Names are imported when they are first used: without transformers, only what needs it is missing.

    from bidibeam.hf import fine_tune, reverse_labels
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bidibeam.models.loading import require_transformers

if TYPE_CHECKING:
    from bidibeam.api.huggingface import BidiGenerate as BidiGenerate
    from bidibeam.api.huggingface import HFGenerator as HFGenerator
    from bidibeam.api.huggingface import load_hf_decoder as load_hf_decoder
    from bidibeam.models.huggingface.adapter import HuggingFaceModel as HuggingFaceModel
    from bidibeam.models.huggingface.configs import check_pair as check_pair
    from bidibeam.models.huggingface.configs import check_same_tokens as check_same_tokens
    from bidibeam.models.huggingface.configs import direction_of as direction_of
    from bidibeam.models.huggingface.configs import mark as mark
    from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq as BidirectionalSeq2Seq
    from bidibeam.models.huggingface.joint import BidirectionalSeq2SeqConfig as BidirectionalSeq2SeqConfig
    from bidibeam.models.huggingface.labels import PairCollator as PairCollator
    from bidibeam.models.huggingface.labels import ReverseCollator as ReverseCollator
    from bidibeam.models.huggingface.labels import reverse_labels as reverse_labels
    from bidibeam.models.huggingface.labels import special_ids as special_ids
    from bidibeam.models.huggingface.loading import load_models as load_models
    from bidibeam.models.huggingface.loading import load_pair as load_pair
    from bidibeam.models.huggingface.pairs import source_ids as source_ids
    from bidibeam.models.huggingface.scorer import HFScorer as HFScorer
    from bidibeam.training.fine_tune import fine_tune as fine_tune
    from bidibeam.training.settings import FineTuneSettings as FineTuneSettings
    from bidibeam.training.state import started_with as started_with

_HOMES = {
    "api.huggingface": ("BidiGenerate", "HFGenerator", "load_hf_decoder"),
    "models.huggingface.adapter": ("HuggingFaceModel",),
    "models.huggingface.configs": ("check_pair", "check_same_tokens", "direction_of", "mark"),
    "models.huggingface.joint": ("BidirectionalSeq2Seq", "BidirectionalSeq2SeqConfig"),
    "models.huggingface.labels": ("PairCollator", "ReverseCollator", "reverse_labels", "special_ids"),
    "models.huggingface.loading": ("load_models", "load_pair"),
    "models.huggingface.pairs": ("source_ids",),
    "models.huggingface.scorer": ("HFScorer",),
    "training.fine_tune": ("fine_tune",),
    "training.settings": ("FineTuneSettings",),
    "training.state": ("started_with",),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _HOMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'bidibeam.hf' has no attribute {name!r}")
    with require_transformers(name):
        value = getattr(import_module(f"bidibeam.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
