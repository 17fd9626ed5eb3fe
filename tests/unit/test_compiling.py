from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from bidibeam import similarities
from bidibeam.compiling import announcer, compiled

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
def test_no_kernel_calls_one_of_another_folder(name: str) -> None:
    """Machine code is kept until a file of its folder changes; what is called is part of the code."""
    module = vars(importlib.import_module(name))

    for kernel in module.values():
        if isinstance(kernel, CPUDispatcher) and kernel.__module__ == name:
            for called in map(module.get, kernel.py_func.__code__.co_names):
                is_ours = isinstance(called, CPUDispatcher) and called.__module__ in MODULES
                assert is_ours or not isinstance(called, CPUDispatcher), kernel.__name__


def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(
        "from bidibeam.compiling import compiled\nfrom called import value\n\n"
        "@compiled\ndef doubled():\n    return 2 * value()\n\n"
        "if __name__ == '__main__':\n    print(doubled(), sum(doubled.stats.cache_hits.values()))\n"
    )

    def ran(number: int, *, at: int) -> list[str]:
        path = tmp_path / "called.py"
        path.write_text(
            f"from bidibeam.compiling import compiled\n\n@compiled\ndef value():\n    return {number}\n"
        )
        os.utime(path, (at, at))
        command = [sys.executable, str(tmp_path / "caller.py")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    assert ran(1, at=1000) == ["2", "0"]
    assert ran(1, at=1000) == ["2", "1"]  # it was kept
    assert ran(5, at=2000) == ["10", "0"]
