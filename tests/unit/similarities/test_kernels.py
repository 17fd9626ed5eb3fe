from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from bidibeam import similarities
from bidibeam.similarities.kernels import announcer, compiled

MODULES = [module.name for module in pkgutil.iter_modules(similarities.__path__, "bidibeam.similarities.")]


def test_what_cannot_be_kept_on_disk_is_compiled_all_the_same() -> None:
    namespace: dict[str, Any] = {}
    exec("def total(values): return values.sum()", namespace)  # of no file, so there is no place beside it

    total = compiled(namespace["total"])

    assert total(np.ones(5)) == 5.0
    assert total.signatures  # machine code


@pytest.mark.parametrize(("module", "said"), [("bidibeam.similarities.new", 1), ("somebody.else", 0)])
def test_a_caller_is_told_once_that_kernels_are_compiled(
    module: str, said: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcer, "is_done", False)
    for name in ("first", "second"):
        namespace: dict[str, Any] = {"__name__": module}
        exec(f"def {name}(values): return values.sum()", namespace)

        compiled(namespace[name])(np.ones(2))
        compiled(namespace[name])(np.ones(2))

    assert [record.levelname for record in caplog.records] == ["WARNING"] * said
    assert all("this happens once" in message for message in caplog.messages)


@pytest.mark.parametrize("name", MODULES)
def test_no_kernel_calls_one_of_another_file(name: str) -> None:
    """Numba keeps machine code until the file that it is from changes; what is called is part of the code."""
    module = vars(importlib.import_module(name))

    for kernel in module.values():
        if isinstance(kernel, CPUDispatcher) and kernel.__module__ == name:
            for called in map(module.get, kernel.py_func.__code__.co_names):
                assert not isinstance(called, CPUDispatcher) or called.__module__ == name, kernel.__name__
