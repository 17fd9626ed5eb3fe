"""Attention to keys and values that are there once per source, through transformers' attention interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

SHARED = "bidibeam_shared"
"""The name under which `attend_shared` is registered with transformers."""


def attend_shared(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend by sdpa, where what shares keys and values becomes queries of one product.

    Keys of cross-attention may be there once per source: query is (rows, heads, 1, size), key and value are
    (sources, heads, source length, size), and the mask is the same for all rows of a source. Heads that share
    a key head are folded likewise, for which transformers would copy the keys at every step.
    """
    rows, heads, length, size = query.shape
    sources, groups = len(key), heads // key.shape[1]
    if sources < rows:
        each = rows // sources
        folded = query.view(sources, each, heads, size).transpose(1, 2)  # (sources, heads, each, size)
        mask = None if attention_mask is None else attention_mask[::each]
        options["is_causal"] = False
        output, _ = sdpa_attention_forward(module, folded, key, value, mask, **options)
        return output.view(rows, 1, heads, -1), None
    if groups > 1 and length == 1 and attention_mask is not None:
        folded = query.reshape(rows, -1, groups, size)  # (rows, key heads, heads of each, size)
        output = scaled_dot_product_attention(
            folded, key, value, attn_mask=attention_mask, scale=options.get("scaling")
        )
        return output.reshape(rows, 1, heads, -1), None
    found: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return found


AttentionInterface.register(SHARED, attend_shared)
AttentionMaskInterface.register(SHARED, sdpa_mask)

_SHARING: WeakKeyDictionary[PreTrainedModel, int] = WeakKeyDictionary()
"""How many threads are inside `share_attention`, by model."""
_LOCK = Lock()


def can_share(model: PreTrainedModel) -> bool:
    """Whether a model attends by sdpa through the attention interface."""
    decoder = model.get_decoder()
    is_sdpa = decoder.config._attn_implementation in ("sdpa", SHARED)
    return is_sdpa and hasattr(sys.modules[type(decoder).__module__], "eager_attention_forward")


def find_configs(model: PreTrainedModel) -> list[Any]:
    """The configs that a decoder's modules read."""
    configs = (part.config for part in model.get_decoder().modules() if hasattr(part, "config"))
    return [*{id(config): config for config in configs}.values()]


@contextmanager
def share_attention(model: PreTrainedModel, configs: Sequence[Any]) -> Iterator[None]:
    """Have a decoder with these configs attend by `attend_shared` inside the block, by sdpa again after it.

    Other threads may meanwhile use the model: with a key for every query the two compute the same.
    """
    with _LOCK:
        _SHARING[model] = _SHARING.get(model, 0) + 1
        for config in configs:
            config._attn_implementation = SHARED
    try:
        yield
    finally:
        with _LOCK:
            _SHARING[model] -= 1
            if not _SHARING[model]:
                for config in configs:
                    config._attn_implementation = "sdpa"
