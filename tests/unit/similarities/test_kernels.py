from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bidibeam.similarities.kernels import compiled, summing


@pytest.mark.parametrize("compiling", [compiled, summing])
def test_what_cannot_be_kept_on_disk_is_compiled_all_the_same(
    compiling: Callable[[Callable[..., Any]], Any],
) -> None:
    namespace: dict[str, Any] = {}
    exec("def total(values): return values.sum()", namespace)  # of no file, so there is no place beside it

    total = compiling(namespace["total"])

    assert total(np.ones(5)) == 5.0
    assert total.signatures  # machine code
