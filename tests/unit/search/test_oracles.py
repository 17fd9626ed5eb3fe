"""The search against slower, more obvious ones, over random models full of ties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.search.backpointers import ScoredSequence
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.search.oracle import enumerate_all, oracle_search
from tests.unit.search.tables import Row, TableScorer, random_rows, search, source_batch

VALUES = [0.0, 0.0, 1.0, 1.0, 2.0, -3.0, float("-inf")]
RULES = [
    "shrinking",
    "constant",
    "patience",
    "patience=0.5",
    "patience=1.5",
    "heuristic",
    "optimal",
    "exhaust",
]


@st.composite
def search_settings(draw: st.DrawFn) -> SearchSettings:
    max_length = draw(st.integers(1, 5))
    return SearchSettings(
        beam_size=draw(st.integers(1, 6)),
        max_length=max_length,
        min_length=draw(st.integers(0, max_length - 1)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0, 3.0, -1.0])),
        length_formula=draw(st.sampled_from(["gnmt", "power"])),
        count_end=draw(st.booleans()),
        stopping=draw(st.sampled_from(RULES)),
        unfinished=draw(st.sampled_from(["keep", "rank", "drop"])),
    )


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[int, VocabularyRoles]:
    size = draw(st.one_of(st.integers(2, 6), st.integers(63, 70)))
    start, end = draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True))
    forbidden, first, ends = (draw(st.frozensets(st.integers(0, size - 1), max_size=4)) for _ in range(3))
    return size, VocabularyRoles(start, end, forbidden - {end} - ends, first, ends)


def assert_same(found: list[ScoredSequence], expected: list[ScoredSequence]) -> None:
    assert [(one.tokens, one.finished, one.length, one.end) for one in found] == [
        (one.tokens, one.finished, one.length, one.end) for one in expected
    ]
    assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in expected], abs=1e-5)
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)


@settings(max_examples=80, deadline=None)
@given(search_settings(), vocabularies(), st.integers(0, 10**6))
def test_it_finds_what_the_slow_search_finds_nothing_twice_and_nothing_forbidden(
    how: SearchSettings, vocabulary: tuple[int, VocabularyRoles], seed: int
) -> None:
    size, roles = vocabulary
    row = random_rows(seed, size, VALUES)

    (found,) = search(row, how, roles=roles)

    assert_same(found, oracle_search(lambda prefix: row(0, prefix), how, roles))
    assert len({(one.tokens, one.finished, one.end) for one in found}) == len(found) <= how.beam_size
    for one in found:
        assert not {*roles.forbidden, *roles.ends} & set(one.tokens)
        assert one.log_prob > float("-inf")
        assert len(one.tokens) >= how.min_length
    if how.unfinished != "rank":
        assert [one.finished for one in found] == sorted((one.finished for one in found), reverse=True)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.6, -0.5]),
    st.booleans(),
    st.sampled_from(["exhaust", "optimal"]),
    st.integers(0, 10**6),
)
def test_a_wide_beam_finds_the_best_of_all_sequences(
    max_length: int, min_length: int, exponent: float, count_end: bool, stopping: str, seed: int
) -> None:
    how = SearchSettings(
        beam_size=120,  # the last step has 27 prefixes and 4 tokens: none is cut
        max_length=max_length,
        min_length=min(min_length, max_length - 1),
        length_penalty=exponent,
        count_end=count_end,
        stopping=stopping,
    )
    roles = VocabularyRoles(start=0, end=1, forbidden=frozenset({0}))
    row = random_rows(seed, 5, [-1.3, 0.2, 0.9, 2.1])

    (found,) = search(row, how, roles=roles)

    possible = dict(enumerate_all(lambda prefix: row(0, prefix), how, roles))
    finished = [one for one in found if one.finished]
    assert len(finished) == len(possible) == len({one.tokens for one in finished})
    for one in finished:
        assert one.log_prob == pytest.approx(possible[one.tokens], abs=1e-5)
        length = len(one.tokens) + count_end
        assert one.length == length
        assert one.score == pytest.approx(possible[one.tokens] / ((5 + length) / 6) ** exponent, abs=1e-5)
    assert [one.score for one in finished] == sorted((one.score for one in finished), reverse=True)


@settings(max_examples=40, deadline=None)
@given(
    search_settings(), st.permutations(range(5)), st.integers(1, 5), st.integers(0, 3), st.integers(0, 10**6)
)
def test_a_batch_is_its_members_one_by_one(
    how: SearchSettings, order: list[int], count: int, padding: int, seed: int
) -> None:
    row = random_rows(seed, 6, VALUES)
    roles = VocabularyRoles(start=0, end=1, forbidden=frozenset({0}))
    sources = order[:count]

    together = beam_search(TableScorer(row), source_batch(sources, padding), how, roles)

    assert together == [search(row, how, sources=[source], roles=roles)[0] for source in sources]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("stopping", RULES)
def test_a_gpu_finds_the_same_and_breaks_ties_the_same_way(stopping: str) -> None:
    roles = VocabularyRoles(start=0, end=1, forbidden=frozenset({0, 2}))
    values = [k / 7 for k in range(-30, 9)]
    models: list[tuple[Row, int, int]] = [
        (random_rows(seed, vocabulary, values), 4, 8) for vocabulary in (5, 70) for seed in range(5)
    ]
    for row, beam_size, max_length in [*models, (lambda *_: [0.0] * 300, 9, 6)]:
        how = SearchSettings(beam_size, max_length, stopping=stopping)
        on_cpu, on_gpu = (
            beam_search(TableScorer(row), source_batch(range(6)).to(device), how, roles)
            for device in ("cpu", "cuda")
        )
        assert [[(one.tokens, one.finished) for one in found] for found in on_gpu] == [
            [(one.tokens, one.finished) for one in found] for found in on_cpu
        ]
