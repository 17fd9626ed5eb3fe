"""CUDA graphs emulated on a CPU: every operation is recorded with its tensors, and done again in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bidibeam.search.graphs import CudaCapture

WAITING = ("_local_scalar_dense", "nonzero", "equal.default", "unique", "masked_select", "bincount")
"""Operations for which the host waits for the device."""


class Tape(TorchDispatchMode):
    """Records operations. What a GPU could not capture raises, as it does there."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls: list[tuple[Any, Any, Any, list[Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        indices = tree_leaves(args[1:]) if "aten.index" in str(func) else ()
        is_mask = any(isinstance(one, Tensor) and one.dtype == torch.bool for one in indices)
        if is_mask or any(name in str(func) for name in WAITING):
            raise RuntimeError(f"operation not permitted when stream is capturing: {func}")
        result = func(*args, **kwargs)
        self._calls.append((func, args, kwargs, tree_leaves(result)))
        return result

    def replay(self) -> None:
        for func, args, kwargs, outputs in self._calls:
            for old, new in zip(outputs, tree_leaves(func(*args, **kwargs)), strict=True):
                is_elsewhere = isinstance(old, Tensor) and old.data_ptr() != new.data_ptr()
                if is_elsewhere and old.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                    old.copy_(new)


class EmulatedCapture(CudaCapture):
    """Records on a CPU; it counts what it did."""

    device_type = "cpu"

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def record(
        self, body: Callable[[], None], device: torch.device, prepare: Callable[[], None]
    ) -> Callable[[], None]:
        assert device.type == "cpu"
        for _ in range(2):
            prepare()
            body()
        prepare()
        tape = Tape()
        with tape:
            body()
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            tape.replay()

        return replay

    def fetch(self, tensor: Tensor) -> Callable[[], Tensor]:
        copy = tensor.clone()
        return lambda: copy
