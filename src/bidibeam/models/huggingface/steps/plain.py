"""Whether a decoder is nothing but its classes' code and its parameters."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules import module as torch_module

HOOKS = ("_forward_hooks", "_forward_pre_hooks")
TORCH_OWN = {
    nn.Linear,
    nn.LayerNorm,
    nn.Embedding,
    nn.ModuleList,
    nn.Dropout,
    nn.Identity,
    nn.ReLU,
    nn.SiLU,
    nn.GELU,
    nn.Tanh,
}
"""Modules of torch, and no subclasses of them: quantised, parametrised and adapted ones are such."""
DTYPES = {torch.float32, torch.float64, torch.float16, torch.bfloat16}


def is_hooked(part: nn.Module) -> bool:
    """Whether calling a module may do something other than its class's code does."""
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return True
    own = part.__dict__
    return "forward" in own or any(own.get(name) for name in HOOKS)


def is_plain(decoder: nn.Module) -> bool:
    """Whether no module was replaced, hooked or put into training mode, and parameters are plain tensors.

    All parameters must be of one kind and in one place.
    """
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return False
    if torch.is_autocast_enabled(next(decoder.parameters()).device.type):
        return False
    family = type(decoder).__module__
    kinds = set()
    for part in decoder.modules():
        if part.training or "forward" in part.__dict__ or any(part.__dict__.get(name) for name in HOOKS):
            return False
        if type(part) not in TORCH_OWN and not _is_of(type(part).__module__, family):
            return False
        for parameter in part._parameters.values():
            if parameter is None:
                continue
            if type(parameter) is not nn.Parameter or type(parameter.data) is not torch.Tensor:
                return False
            kinds.add((parameter.dtype, parameter.device))
    return len(kinds) == 1 and next(iter(kinds))[0] in DTYPES


def _is_of(module: str, family: str) -> bool:
    """Whether a class comes from the family's own file, or is one of transformers' small parts."""
    return module in (family, "transformers.activations", "transformers.pytorch_utils")
