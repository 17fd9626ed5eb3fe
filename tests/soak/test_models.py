"""A few architectures of the sweep; `python -m tests.soak` has them all."""

from __future__ import annotations

import pytest

from tests.soak.models import run


@pytest.mark.filterwarnings("ignore")
def test_models_that_must_be_searched_give_the_lists_of_generate() -> None:
    said: list[str] = []

    found = run([18], 10, said.append)

    assert found["failures"] == []
    assert found["variants"] == len(said) == 10
    assert found["equal"] + found["by generate"] == 10
