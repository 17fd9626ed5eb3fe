from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from bidibeam import similarities
from bidibeam.similarities.compiling import announcer, compile_kernel

MODULES = [module.name for module in pkgutil.iter_modules(similarities.__path__, "bidibeam.similarities.")]


def function_of_no_file(module: str) -> Any:
    namespace: dict[str, Any] = {"__name__": module}
    exec("def total(values): return values.sum()", namespace)
    return namespace["total"]


def test_what_cannot_be_kept_on_disk_is_compiled_all_the_same() -> None:
    total = compile_kernel(function_of_no_file("somewhere"))

    assert total(np.ones(5)) == 5.0
    assert total.signatures  # machine code


@pytest.mark.parametrize(("module", "logged"), [("bidibeam.similarities.new", 1), ("somebody.else", 0)])
def test_a_caller_is_told_once_that_kernels_are_compiled(
    module: str, logged: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcer, "is_done", False)
    for _ in range(2):
        compile_kernel(function_of_no_file(module))(np.ones(2))

    assert [record.levelname for record in caplog.records] == ["WARNING"] * logged
    assert all("this happens once" in message for message in caplog.messages)


@pytest.mark.parametrize("name", MODULES)
def test_kernels_call_only_kernels_of_their_own_file(name: str) -> None:
    """Machine code is kept until the kernel's own file changes, and contains the kernels that it calls."""
    module = vars(importlib.import_module(name))
    kernels = [each for each in module.values() if isinstance(each, CPUDispatcher)]

    for kernel in kernels:
        if kernel.__module__ == name:
            called = [module.get(each) for each in kernel.py_func.__code__.co_names]
            assert all(each.__module__ == name for each in called if each in kernels), kernel.__name__
