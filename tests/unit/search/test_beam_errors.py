from __future__ import annotations

import math
import re
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from bidibeam.errors import ScorerError, SettingsError
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.search.tables import ROLES, TableScorer, search, source_batch


def broken_at(step: int, value: float) -> TableScorer:
    """Source 7 breaks at that step."""

    def row(source: int, prefix: tuple[int, ...]) -> list[float]:
        is_broken = source == 7 and len(prefix) == step - 1
        return [0.0, 0.0, 0.0, value if is_broken else 0.0, 0.0]

    return TableScorer(row)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_logits_that_are_not_numbers_stop_the_search(value: float, step: int) -> None:
    settings = SearchSettings(beam_size=3, max_length=4, min_length=3)
    scorer, sources = broken_at(step, value), source_batch([5, 6, 7])

    with pytest.raises(ScorerError, match=rf"for source 2 were NaN or infinite at step {step}, so .* we"):
        beam_search(scorer, sources, settings, ROLES)


@pytest.mark.parametrize("shape", [(2, 5, 1), (3, 5), (5,)])
def test_logits_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    class Misshapen(TableScorer):
        def step(self, last_tokens, state):  # type: ignore[no-untyped-def]  # noqa: ARG002
            return torch.zeros(shape), state

    scorer = Misshapen(lambda *_: [])

    with pytest.raises(ScorerError, match=re.escape(f"logits have shape {shape}, not (2, vocabulary).")):
        beam_search(scorer, source_batch([0, 1]), SearchSettings(), ROLES)


@pytest.mark.parametrize(
    "roles", [VocabularyRoles(6, 1), VocabularyRoles(0, 6), VocabularyRoles(0, 1, frozenset({2, 6}))]
)
def test_tokens_beyond_the_vocabulary_are_refused(roles: VocabularyRoles) -> None:
    with pytest.raises(SettingsError, match="Token 6 is not in the model's vocabulary of 6 tokens"):
        search(lambda *_: [0.0] * 6, SearchSettings(), roles=roles)


def test_a_beam_too_large_for_the_keys_is_refused() -> None:
    message = "beam_size 5 is too large for a vocabulary of 6 tokens; use at most 4"
    with patch("bidibeam.search.beam.PLACES", 29), pytest.raises(SettingsError, match=message):
        search(lambda *_: [0.0] * 6, SearchSettings(beam_size=5))


def test_the_search_builds_no_graph() -> None:
    class Learning(TableScorer):
        def step(self, last_tokens: Tensor, state):  # type: ignore[no-untyped-def]
            logits, state = super().step(last_tokens, state)
            seen.append(torch.is_grad_enabled())
            return logits, state

    seen: list[bool] = []

    beam_search(Learning(lambda *_: [0.0] * 6), source_batch([0]), SearchSettings(max_length=3), ROLES)

    assert seen == [False] * len(seen)
