"""A few architectures of the sweep; `python -m tests.soak` has them all."""

from __future__ import annotations

import pytest

from tests.soak.models import run


@pytest.mark.filterwarnings("ignore")
def test_lists_equal_generate_or_the_model_is_refused() -> None:
    said: list[str] = []

    found = run([18], 10, said.append)

    assert found["failures"] == []
    assert found["variants"] == len(said) == 10
    assert found["equal"] + found["by generate"] == 10
