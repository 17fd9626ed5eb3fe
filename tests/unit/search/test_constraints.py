"""What depends on what was written: repetition and forbidden sequences, against slow and obvious searches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bidibeam.errors import ScorerError, SettingsError
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.search.oracle import enumerate_all, oracle_search
from tests.unit.search.tables import (
    ROLES,
    TableScorer,
    ids,
    random_rows,
    rows_of,
    search,
    source_batch,
    texts,
)
from tests.unit.search.test_oracles import VALUES, assert_same, search_settings

START, END, VOCABULARY = 0, 1, 6
sequences = st.frozensets(st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple), max_size=4)
options = st.fixed_dictionaries(
    {
        "no_repeat_ngram_size": st.integers(0, 3),
        "repetition_penalty": st.sampled_from([1.0, 1.0, 0.5, 1.3, 2.0]),
    }
)


def roles_with(sequences: frozenset[tuple[int, ...]], start: int = START, *others: int) -> VocabularyRoles:
    """Roles that forbid sequences, and some tokens besides."""
    return VocabularyRoles(start, END, frozenset(others), forbidden_sequences=sequences)


@settings(max_examples=80, deadline=None)
@given(search_settings(), options, sequences, st.sampled_from([START, END, 3]), st.integers(0, 10**6))
def test_it_finds_what_the_slow_search_finds_whatever_starts_a_reply(
    how: SearchSettings, more: dict[str, Any], forbidden: frozenset[tuple[int, ...]], start: int, seed: int
) -> None:
    how, roles, row = (
        replace(how, **more),
        roles_with(forbidden, start),
        random_rows(seed, VOCABULARY, VALUES),
    )

    (found,) = search(row, how, roles=roles)

    assert_same(found, oracle_search(lambda prefix: row(0, prefix), how, roles))


@settings(max_examples=25, deadline=None)
@given(options, sequences, st.sampled_from(["exhaust", "optimal"]), st.integers(0, 10**6))
def test_a_wide_beam_finds_all_that_is_allowed_and_nothing_else(
    more: dict[str, Any], forbidden: frozenset[tuple[int, ...]], stopping: str, seed: int
) -> None:
    how = SearchSettings(beam_size=120, max_length=4, stopping=stopping, length_penalty=0.0, **more)
    roles, row = roles_with(forbidden, START, START, 2), random_rows(seed, VOCABULARY, [-1.3, 0.2, 0.9, 2.1])

    (found,) = search(row, how, roles=roles)

    finished = {one.tokens: one.log_prob for one in found if one.finished}
    possible = dict(enumerate_all(lambda prefix: row(0, prefix), how, roles))
    assert finished == pytest.approx(possible, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(search_settings(), options, sequences, st.permutations(range(5)), st.integers(0, 10**6))
def test_a_batch_is_its_members_one_by_one(
    how: SearchSettings,
    more: dict[str, Any],
    forbidden: frozenset[tuple[int, ...]],
    order: list[int],
    seed: int,
) -> None:
    how, roles, row = replace(how, **more), roles_with(forbidden), random_rows(seed, VOCABULARY, VALUES)

    together = beam_search(TableScorer(row), source_batch(order), how, roles)

    assert together == [search(row, how, sources=[source], roles=roles)[0] for source in order]


@settings(max_examples=25, deadline=None)
@given(search_settings(), st.integers(0, 10**6))
def test_what_forbids_nothing_changes_nothing_to_the_last_bit(how: SearchSettings, seed: int) -> None:
    row = random_rows(seed, VOCABULARY, [-1.3, 0.2, 0.9, 2.1])
    never = roles_with(frozenset({(5,) * 6}))

    assert search(row, replace(how, no_repeat_ngram_size=7), roles=never) == search(
        row, how, roles=roles_with(frozenset())
    )


class Fixed:
    """The same logits at every step, the end token first."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def start(self, sources: Tensor) -> None:
        pass

    def step(self, last_tokens: Tensor, state: None) -> tuple[Tensor, None]:  # noqa: ARG002
        return self.logits, None

    def select(self, state: None, rows: Tensor, sources: Tensor | None = None) -> None:
        pass


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_the_same() -> None:
    roles = roles_with(frozenset({(3, 4), (5,), (4, 4, 3)}), START, 2)
    for seed in range(5):
        row = random_rows(seed, 70, [k / 7 for k in range(-30, 9)])
        how = SearchSettings(4, 8, no_repeat_ngram_size=1 + seed % 3, repetition_penalty=1.5)
        on_cpu, on_gpu = (
            beam_search(TableScorer(row), source_batch(range(6)).to(device), how, roles)
            for device in ("cpu", "cuda")
        )
        assert [[one.tokens for one in found] for found in on_gpu] == [
            [one.tokens for one in found] for found in on_cpu
        ]


def test_a_penalty_is_paid_by_what_was_written_and_no_probability_is_shared_out() -> None:
    halves = {"a": math.log(0.5), "b": math.log(0.25), ".": math.log(0.25)}
    row = rows_of(dict.fromkeys(("", "a", "b", "aa", "ab", "ba", "bb"), halves))
    how = SearchSettings(beam_size=20, max_length=3, length_penalty=0.0, stopping="exhaust")

    def found(**more: Any) -> dict[str, float]:
        (line,) = search(row, replace(how, **more))
        return {text: math.exp(one.log_prob) for text, one in zip(texts(line), line, strict=True)}

    assert found(repetition_penalty=2.0)["aa."] == pytest.approx(0.5 * 0.5**2 * 0.25)
    assert found(repetition_penalty=2.0)["ab."] == pytest.approx(0.5 * 0.25 * 0.25)
    assert {*found(no_repeat_ngram_size=1)} == {"a.", "b.", "ab.", "ba."}  # "abX" has no third letter
    assert found(no_repeat_ngram_size=1)["ab."] == found()["ab."]


def test_a_source_whose_hypotheses_can_neither_end_nor_go_on_has_none() -> None:
    row = rows_of({"": {"a": 0.0}, "a": {"a": 0.0}}, {"": {"a": 0.0}, "a": {".": 0.0}})

    nothing, one = search(row, SearchSettings(no_repeat_ngram_size=1), sources=[0, 1])

    assert (texts(nothing), texts(one)) == ([], ["a."])


def test_what_a_scorer_may_not_answer_is_refused_as_ever() -> None:
    how, bound = (
        SearchSettings(no_repeat_ngram_size=2),
        replace(ROLES, forbidden_sequences=frozenset({(*ids("a"), 99)})),
    )

    with pytest.raises(ScorerError, match=r"logits have shape \(1, 3, 9\), not \(1, vocabulary\)"):
        beam_search(Fixed(torch.zeros(1, 3, 9)), source_batch([0]), how, ROLES)
    with pytest.raises(ScorerError, match=r"logits for source 0 were NaN or infinite at step 1"):
        beam_search(Fixed(torch.full((1, 9), math.inf)), source_batch([0]), how, ROLES)
    with pytest.raises(SettingsError, match=r"Token 99 is not in the model's vocabulary of 9 tokens"):
        beam_search(Fixed(torch.zeros(1, 9)), source_batch([0]), how, bound)
