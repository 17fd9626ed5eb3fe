"""Decoder steps of known models in few calls of torch: one family a file.

A model's own modules are general: dropout, caches, hooks, masks, one product after another. A step of a
search needs none of it, and with few rows all that takes longer than the products. Here the same numbers come
from the model's own parameters. Where anything about a model is not exactly as a family's file knows it,
there is no such step, and its own modules are called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from bidibeam.models.huggingface.steps.plain import is_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel

    from bidibeam.models.huggingface.steps.layout import Layout
    from bidibeam.models.huggingface.steps.now import LeanStep

FAMILIES = {
    "BartForConditionalGeneration": "bart:bart",
    "BlenderbotForConditionalGeneration": "bart:blenderbot",
    "BlenderbotSmallForConditionalGeneration": "bart:blenderbot_small",
    "GPT2LMHeadModel": "gpt2:gpt2",
    "LlamaForCausalLM": "llama:llama",
    "MBartForConditionalGeneration": "bart:mbart",
    "MT5ForConditionalGeneration": "t5:t5",
    "MarianMTModel": "bart:marian",
    "MistralForCausalLM": "llama:llama",
    "PegasusForConditionalGeneration": "bart:pegasus",
    "Qwen2ForCausalLM": "llama:llama",
    "T5ForConditionalGeneration": "t5:t5",
}
"""Where a class of transformers finds its step: "file:function"."""


def lean_step(model: PreTrainedModel, layout: Layout) -> LeanStep | None:
    """A model's decoder step, made for one search; None where its own modules are to be called."""
    kind = type(model)
    location = FAMILIES.get(kind.__name__)
    if location is None or not kind.__module__.startswith("transformers.models."):
        return None
    if not is_plain(model.get_decoder()):
        return None
    file, _, name = location.partition(":")
    make = cast(
        "Callable[[PreTrainedModel, Layout], LeanStep | None]",
        getattr(import_module(f"bidibeam.models.huggingface.steps.{file}"), name),
    )
    try:
        return make(model, layout)
    except AttributeError:  # another version of transformers, which names its parts otherwise
        return None
