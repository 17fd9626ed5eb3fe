"""Searches whose answers follow by mental arithmetic."""

from __future__ import annotations

import pytest
import torch

from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings
from tests.unit.search.tables import ROLES, TableScorer, rows_of, search, source_batch, texts, uniform_rows

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
    ("stopping", "second", "score", "steps"),
    [
        # After step 2 only aa goes on, and only its best continuation counts: aaa, aaaa, then the end.
        ("shrinking", "aaaa.", -2.22, 5),
        # aa. is second at step 3: two have finished.
        ("constant", "aa.", -2.325, 3),
        # aaa. is the third to finish, at step 4, and better than aa.
        ("patience=1.5", "aaa.", -2.26667, 4),
        # The fourth and fifth finish at step 5.
        ("patience", "bbbb.", -2.16, 5),
        # After step 5 the best live one, aaaaa, can reach -4.2 * 6/11 = -2.29 at most. After step 4 aaaa
        # could still have reached -3.2 * 6/11 = -1.75.
        ("optimal", "bbbb.", -2.16, 5),
        # The same answer, one step later.
        ("exhaust", "bbbb.", -2.16, 6),
    ],
)
def test_each_stopping_rule_answers_in_its_own_way(
    stopping: str, second: str, score: float, steps: int
) -> None:
    scorer = TableScorer(rows_of(STAIRS))
    settings = SearchSettings(beam_size=2, max_length=6, length_penalty=1.0, stopping=stopping)

    (found,) = beam_search(scorer, source_batch([0]), settings, ROLES)

    assert texts(found) == ["a.", second]
    assert [sequence.score for sequence in found] == pytest.approx([-12 / 7, score], abs=1e-4)
    assert scorer.steps == steps


def test_a_shrinking_beam_costs_fewer_rows() -> None:
    scorer = TableScorer(rows_of(STAIRS))

    beam_search(
        scorer, source_batch([0]), SearchSettings(beam_size=2, max_length=6, length_penalty=1.0), ROLES
    )

    assert scorer.rows_seen == [1, 2, 1, 1, 1]


def test_optimal_waits_for_a_short_end_where_length_costs() -> None:
    # With exponent -1 scores are -2 * 7/6 for a. and -5.2 * 8/6 = -6.9 for bb.: two have finished at step 3.
    # aaa has -2.2: by step 20 it would be worth -9.2, but ending at once it is -2.3 * 9/6 = -3.45.
    table = {
        "": {"a": -1.0, "b": -5.0},
        "a": {".": -1.0, "a": -1.1},
        "b": {"b": -0.1},
        "aa": {"a": -0.1},
        "bb": {".": -0.1},
        "aaa": {".": -0.1},
    }

    (found,) = search(rows_of(table), SearchSettings(beam_size=2, length_penalty=-1.0, stopping="optimal"))

    assert texts(found) == ["a.", "aaa."]


def test_a_sequence_carries_its_numbers() -> None:
    table = {"": {"a": -0.25}, "a": {"b": -0.5}, "ab": {".": -0.75}}

    ((found,),) = search(rows_of(table), SearchSettings(beam_size=2, max_length=4, length_penalty=1.0))

    assert texts([found]) == ["ab."]
    assert found.log_prob == pytest.approx(-1.5)
    assert found.length == 3
    assert found.score == pytest.approx(-1.5 * 6 / 8)
    assert found.finished


def test_a_forbidden_token_keeps_its_probability() -> None:
    table = {"": {"a": -3.0}, "a": {".": -2.0}}  # almost everything goes to the forbidden token

    ((found,),) = search(rows_of(table), SearchSettings(beam_size=1))

    assert found.log_prob == pytest.approx(-5.0)


def test_the_end_token_takes_the_last_step() -> None:
    table = {"": {"a": -0.1}, "a": {"b": -0.1}, "ab": {".": -0.1}}

    assert texts(search(rows_of(table), SearchSettings(max_length=3))[0]) == ["ab."]
    assert texts(search(rows_of(table), SearchSettings(max_length=2))[0]) == ["ab"]


def test_no_reply_is_shorter_than_the_minimum() -> None:
    table = {
        "": {".": -0.5, "a": -1.0},
        "a": {".": -0.5, "a": -1.0},
        "aa": {".": -0.5, "a": -1.0},
        "aaa": {".": -0.1},
    }

    for minimum, expected in enumerate(([".", "a.", "aa.", "aaa."], ["a.", "aa.", "aaa."], ["aa.", "aaa."])):
        settings = SearchSettings(max_length=4, min_length=minimum, stopping="exhaust", length_penalty=0)
        assert texts(search(rows_of(table), settings)[0]) == expected


def test_what_is_impossible_is_not_found() -> None:
    nowhere = {"": {"a": -0.1}, "a": {"a": -0.1}}  # after aa only the forbidden token could follow

    (found,) = search(rows_of(nowhere), SearchSettings(beam_size=3))

    assert found == []


def test_no_sources_no_results() -> None:
    no_sources = torch.zeros(0, 3, dtype=torch.long)

    assert beam_search(TableScorer(rows_of()), no_sources, SearchSettings(), ROLES) == []


def test_of_equal_scores_the_first_to_end_leads() -> None:
    # Two words with 1/2, then b. with 1/4 and a. with 1/8 at step 2, and bb. with 1/8 at step 3.
    followers = {"": "ab", "a": ".abc", "b": ".b", "bb": ".c"}
    settings = SearchSettings(beam_size=3, length_penalty=0, stopping="constant")

    (found,) = search(uniform_rows(followers), settings)

    assert texts(found) == ["b.", "a.", "bb."]
    assert found[1].score == found[2].score


# With T = 2: "a." -1.5, "b." -1.6, and cut off "aa" -0.9.
TABLE = {"": {"a": -0.3, "b": -1.5}, "a": {".": -1.2, "a": -0.6}, "b": {".": -0.1}}


@pytest.mark.parametrize(
    ("unfinished", "expected"),
    [("keep", ["a.", "b.", "aa"]), ("rank", ["aa", "a.", "b."]), ("drop", ["a.", "b."])],
)
def test_those_cut_off_come_last_or_compete_or_are_left_out(unfinished: str, expected: list[str]) -> None:
    how = SearchSettings(3, 2, length_penalty=0.0, stopping="exhaust", unfinished=unfinished)

    (found,) = search(rows_of(TABLE), how)

    assert texts(found) == expected


def test_of_equal_scores_the_finished_one_ranks_first() -> None:
    how = SearchSettings(3, 2, length_penalty=0.0, stopping="exhaust", unfinished="rank")

    (found,) = search(uniform_rows({"": "a", "a": "a.b"}), how)

    assert len({sequence.score for sequence in found}) == 1
    assert texts(found) == ["a.", "aa", "ab"]
