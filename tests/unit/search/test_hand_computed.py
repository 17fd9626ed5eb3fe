"""Searches whose answers follow by mental arithmetic, and mistakes that other toolkits made.

A trap has the number that it has in our list of them.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.search.tables import (
    ROLES,
    Row,
    TableScorer,
    rows_of,
    search,
    source_batch,
    texts,
    uniform_rows,
)

# With exponent 1 a log-probability is multiplied by 6/7 if the end came at step 2, and by 3/4, 2/3, 3/5 and
# 6/11 at steps 3 to 6. B = 2. What a constant beam sees, best first, log-probabilities of whole prefixes:
#   step 1   a -1.0    b -1.2
#   step 2   a. -2.0   aa -2.1    | bb -2.2    b. -2.7
#   step 3   aaa -2.6  aa. -3.1   | bb. -3.2   bbb -3.3
#   step 4   aaaa -3.2 aaa. -3.4  | bbbb -3.5  bbb. -6.3
#   step 5   bbbb. -3.6 aaaa. -3.7 | aaaaa -4.2 bbbbb -6.5
#   step 6   aaaaa. -4.3  bbbbb. -6.6
# Scores: a. -12/7, aa. -2.325, aaa. -2.2667, aaaa. -2.22, bbbb. -2.16, aaaaa. -2.345.
STAIRS = {
    "": {"a": -1.0, "b": -1.2},
    "a": {".": -1.0, "a": -1.1},
    "b": {"b": -1.0, ".": -1.5},
    "aa": {"a": -0.5, ".": -1.0},
    "bb": {".": -1.0, "b": -1.1},
    "aaa": {"a": -0.6, ".": -0.8},
    "bbb": {"b": -0.2, ".": -3.0},
    "aaaa": {".": -0.5, "a": -1.0},
    "bbbb": {".": -0.1, "b": -3.0},
    "aaaaa": {".": -0.1},
    "bbbbb": {".": -0.1},
}


@pytest.mark.parametrize(
    ("stopping", "second", "score", "rows"),
    [
        # After step 2 only aa goes on, and only its best continuation counts: aaa, aaaa, then the end.
        ("shrinking", "aaaa.", -2.22, [1, 2, 1, 1, 1]),
        # aa. is second at step 3: two have finished.
        ("constant", "aa.", -2.325, [1, 2, 2]),
        # aaa. is the third to finish, at step 4, and better than aa.
        ("patience=1.5", "aaa.", -2.26667, [1, 2, 2, 2]),
        # The fourth and fifth finish at step 5.
        ("patience", "bbbb.", -2.16, [1, 2, 2, 2, 2]),
        # After step 5 the best live one, aaaaa, can reach -4.2 * 6/11 = -2.29 at most. After step 4 aaaa
        # could still have reached -3.2 * 6/11 = -1.75.
        ("optimal", "bbbb.", -2.16, [1, 2, 2, 2, 2]),
        # The same answer, one step later.
        ("exhaust", "bbbb.", -2.16, [1, 2, 2, 2, 2, 2]),
    ],
)
def test_each_stopping_rule_answers_in_its_own_way(
    stopping: str, second: str, score: float, rows: list[int]
) -> None:
    scorer = TableScorer(rows_of(STAIRS))
    settings = SearchSettings(beam_size=2, max_length=6, length_penalty=1.0, stopping=stopping)

    (found,) = beam_search(scorer, source_batch([0]), settings, ROLES)

    assert texts(found) == ["a.", second]
    assert [sequence.score for sequence in found] == pytest.approx([-12 / 7, score], abs=1e-4)
    assert scorer.rows_seen == rows


# Trap 1: a. has -2 * 6/7 = -1.71 at step 2, aa. has -2.2 * 3/4 = -1.65 at step 3.
FIRST_NOT_BEST = rows_of({"": {"a": -1.0}, "a": {".": -1.0, "a": -1.1}, "aa": {".": -0.1}})
# Trap 2: at step 2 the end of b ranks third of four: in a beam of two it neither finishes nor goes on.
OUTSIDE = rows_of(
    {
        "": {"a": -0.5, "b": -1.5},
        "a": {"a": -0.5, "b": -1.0},
        "b": {".": -0.2, "b": -2.0},
        "aa": {".": -0.1},
        "ab": {".": -0.1},
    }
)
# Trap 2: a. ends at step 2; a constant beam gives its place to bb, whose end is better than that of ac.
GIVEN_UP = rows_of(
    {
        "": {"a": -0.5, "b": -1.5},
        "a": {".": -0.7, "c": -0.8},
        "b": {"b": -0.1},
        "ac": {".": -1.0},
        "bb": {".": -0.1},
    }
)
# Trap 7: step 2 has 3 beams and 7 tokens, all equally likely: beam a comes first, and in it the end.
ALL_TIED = uniform_rows({"": ".abcdef"} | dict.fromkeys("abcdef", ".abcdef"))
# Trap 10: half of two have finished at the last step: over, so aa was not cut off.
CONTENT = rows_of({"": {"a": -0.1}, "a": {".": -0.6, "a": -0.9}})
# Trap 13: an empty reply must be asked for.
EMPTY = rows_of({"": {".": -0.1, "a": -2.5}, "a": {".": -0.1}})
# With exponent -1 scores are -2 * 7/6 for a. and -5.2 * 8/6 = -6.9 for bb.: two have finished at step 3.
# aaa has -2.2: by step 20 it would be worth -9.2, but ending at once it is -2.3 * 9/6 = -3.45.
LENGTH_COSTS = rows_of(
    {
        "": {"a": -1.0, "b": -5.0},
        "a": {".": -1.0, "a": -1.1},
        "b": {"b": -0.1},
        "aa": {"a": -0.1},
        "bb": {".": -0.1},
        "aaa": {".": -0.1},
    }
)
# The end token takes the last step.
IN_TIME = rows_of({"": {"a": -0.1}, "a": {"b": -0.1}, "ab": {".": -0.1}})
# No reply is shorter than the minimum.
SHORT = rows_of({**{prefix: {".": -0.5, "a": -1.0} for prefix in ("", "a", "aa")}, "aaa": {".": -0.1}})
# After aa only the forbidden token could follow.
NOWHERE = rows_of({"": {"a": -0.1}, "a": {"a": -0.1}})
# Of equal scores the first to end leads: two words with 1/2, then b. with 1/4 and a. with 1/8 at step 2, and
# bb. with 1/8 at step 3.
ENDS_TIED = uniform_rows({"": "ab", "a": ".abc", "b": ".b", "bb": ".c"})
# With T = 2: "a." -1.5, "b." -1.6, and cut off "aa" -0.9.
CUT_OFF = rows_of({"": {"a": -0.3, "b": -1.5}, "a": {".": -1.2, "a": -0.6}, "b": {".": -0.1}})
# Of equal scores the finished one ranks first.
CUT_OFF_TIED = uniform_rows({"": "a", "a": "a.b"})

PAIR: dict[str, Any] = {"beam_size": 2, "length_penalty": 0}
WHOLE: dict[str, Any] = {"length_penalty": 0, "stopping": "exhaust"}


@pytest.mark.parametrize(
    ("row", "options", "expected"),
    [
        *(
            (FIRST_NOT_BEST, {"beam_size": 1, "length_penalty": 1.0, "stopping": stopping}, [best])
            for stopping, best in (
                *(("shrinking", "a."), ("constant", "a.")),
                *(("optimal", "aa."), ("exhaust", "aa.")),
            )
        ),
        *((OUTSIDE, {**PAIR, "stopping": name}, ["aa.", "ab."]) for name in ("shrinking", "constant")),
        (GIVEN_UP, PAIR, ["a.", "ac."]),
        (GIVEN_UP, {**PAIR, "stopping": "constant"}, ["a.", "bb."]),
        (ALL_TIED, {"beam_size": 3, "max_length": 2, "stopping": "exhaust"}, ["a.", "aa", "ab"]),
        (CONTENT, {"beam_size": 2, "max_length": 2, "stopping": "patience=0.5"}, ["a."]),
        (EMPTY, {"beam_size": 1}, ["a."]),
        (EMPTY, {"beam_size": 1, "min_length": 0}, ["."]),
        (LENGTH_COSTS, {"beam_size": 2, "length_penalty": -1.0, "stopping": "optimal"}, ["a.", "aaa."]),
        (IN_TIME, {"max_length": 3}, ["ab."]),
        (IN_TIME, {"max_length": 2}, ["ab"]),
        (SHORT, {**WHOLE, "max_length": 4, "min_length": 0}, [".", "a.", "aa.", "aaa."]),
        (SHORT, {**WHOLE, "max_length": 4, "min_length": 1}, ["a.", "aa.", "aaa."]),
        (SHORT, {**WHOLE, "max_length": 4, "min_length": 2}, ["aa.", "aaa."]),
        (NOWHERE, {"beam_size": 3}, []),
        (ENDS_TIED, {"beam_size": 3, "length_penalty": 0, "stopping": "constant"}, ["b.", "a.", "bb."]),
        *(
            (CUT_OFF, {**WHOLE, "beam_size": 3, "max_length": 2, "unfinished": unfinished}, expected)
            for unfinished, expected in (
                ("keep", ["a.", "b.", "aa"]),
                ("rank", ["aa", "a.", "b."]),
                ("drop", ["a.", "b."]),
            )
        ),
        (CUT_OFF_TIED, {**WHOLE, "beam_size": 3, "max_length": 2, "unfinished": "rank"}, ["a.", "aa", "ab"]),
    ],
)
def test_the_answer_is_what_arithmetic_says(row: Row, options: dict[str, Any], expected: list[str]) -> None:
    (found,) = search(row, SearchSettings(**options))

    assert texts(found) == expected


def test_trap_3_a_source_that_is_done_leaves_the_batch() -> None:
    brief = {"": {"a": -0.1}, "a": {".": -0.1}}
    lengthy = {"": {"a": -0.1}, "a": {"a": -0.1}, "aa": {"a": -0.1}, "aaa": {".": -0.1}}
    scorer = TableScorer(rows_of(brief, lengthy))

    found = beam_search(scorer, source_batch([0, 1, 0]), SearchSettings(beam_size=1), ROLES)

    assert [texts(one) for one in found] == [["a."], ["aaa."], ["a."]]
    assert scorer.rows_seen == [3, 3, 1, 1]


@pytest.mark.parametrize(("count_end", "length"), [(True, 3), (False, 2)])
def test_trap_4_the_length_counts_the_words_and_perhaps_the_end_never_the_start(
    count_end: bool, length: int
) -> None:
    table = {"": {"a": -0.25}, "a": {"b": -0.5}, "ab": {".": -0.75}}

    ((found,),) = search(rows_of(table), SearchSettings(beam_size=2, length_penalty=1.0, count_end=count_end))

    assert (texts([found]), found.length) == (["ab."], length)
    assert found.log_prob == pytest.approx(-1.5)
    assert found.score == pytest.approx(-1.5 * 6 / (5 + length))


@pytest.mark.parametrize(
    ("row", "beam_size", "expected"),
    [
        # Trap 5: what has finished is not expanded, and a short list is not padded.
        (rows_of({"": {"a": -0.1}, "a": {".": -0.1}, "a.": {"b": -0.1}}), 4, ["a."]),
        # Trap 6: the first step expands one beam.
        (uniform_rows({"": "abc", "a": ".", "b": ".", "c": "."}), 3, ["a.", "b.", "c."]),
    ],
)
def test_traps_5_and_6_no_row_is_expanded_in_vain(row: Row, beam_size: int, expected: list[str]) -> None:
    scorer = TableScorer(row)

    (found,) = beam_search(scorer, source_batch([0]), SearchSettings(beam_size=beam_size), ROLES)

    assert (texts(found), scorer.steps, scorer.rows_seen[0]) == (expected, 2, 1)


def test_trap_7_ties_across_blocks_of_the_vocabulary() -> None:
    vocabulary, roles = 1000, VocabularyRoles(start=0, end=1, forbidden=frozenset({0, 2}))

    (found,) = search(lambda *_: [0.0] * vocabulary, SearchSettings(beam_size=8, max_length=2), roles=roles)

    # From token 3 on, the first eight; then the first of them ends and takes the first seven words.
    assert [one.tokens for one in found] == [(3,), *((3, token) for token in range(3, 10))]


def test_trap_8_a_prefix_keeps_its_state_through_every_reordering() -> None:
    # The second-best beam overtakes the first: only a scorer whose state was reordered knows the prefix.
    table = {
        "": {"a": -0.6, "b": -1.0},
        "a": {"c": -2.0, "d": -2.1},
        "b": {"e": -0.1},
        "be": {"a": -1.5, "b": -1.9},
        "ac": {"f": -0.1},
        "acf": {".": -0.1},
        "bea": {".": -0.1},
    }

    (found,) = search(rows_of(table), SearchSettings(beam_size=2, length_penalty=0, stopping="constant"))

    assert texts(found) == ["bea.", "acf."]
    assert [one.log_prob for one in found] == pytest.approx([-2.7, -2.8], abs=1e-5)


def test_trap_8_half_precision_logits_are_summed_in_full() -> None:
    class HalfScorer(TableScorer):
        def step(self, last_tokens, state):  # type: ignore[no-untyped-def]
            logits, state = super().step(last_tokens, state)
            return logits.bfloat16(), state

    scorer = HalfScorer(uniform_rows({"a" * count: "ab" for count in range(16)}))

    ((found,),) = beam_search(scorer, source_batch([0]), SearchSettings(beam_size=1, max_length=16), ROLES)

    assert found.log_prob == pytest.approx(16 * math.log(0.5), abs=1e-5)


@pytest.mark.parametrize("count_end", [True, False])
def test_trap_10_what_is_cut_off_is_marked_normalised_and_last(count_end: bool) -> None:
    table = {"": {"a": -0.1, "b": -2.5}, "a": {"a": -0.1}, "b": {".": -2.0}, "aa": {"a": -0.1}}
    settings = SearchSettings(2, 3, length_penalty=1.0, count_end=count_end, stopping="exhaust")

    (found,) = search(rows_of(table), settings)

    assert texts(found) == ["b.", "aaa"]  # aaa is far more likely, but has no end
    assert not found[1].finished
    assert found[1].length == 3  # it has no end token to count
    assert found[1].score == pytest.approx(-0.3 * 6 / 8, abs=1e-5)


def test_a_forbidden_token_keeps_its_probability_and_no_sources_have_no_results() -> None:
    table = {"": {"a": -3.0}, "a": {".": -2.0}}  # almost everything goes to the forbidden token

    ((found,),) = search(rows_of(table), SearchSettings(beam_size=1))

    assert found.log_prob == pytest.approx(-5.0)
    no_sources = torch.zeros(0, 3, dtype=torch.long)
    assert beam_search(TableScorer(rows_of()), no_sources, SearchSettings(), ROLES) == []
