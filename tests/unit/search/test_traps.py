"""Mistakes that other toolkits made, by the number they have in our list of traps."""

from __future__ import annotations

import math

import pytest

from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.search.tables import ROLES, TableScorer, rows_of, search, source_batch, texts, uniform_rows


def test_trap_1_the_first_to_finish_is_not_the_best() -> None:
    # a. has -2 * 6/7 = -1.71 at step 2, aa. has -2.2 * 3/4 = -1.65 at step 3.
    table = {"": {"a": -1.0}, "a": {".": -1.0, "a": -1.1}, "aa": {".": -0.1}}

    for stopping, best in (("shrinking", "a."), ("constant", "a."), ("optimal", "aa."), ("exhaust", "aa.")):
        settings = SearchSettings(beam_size=1, length_penalty=1.0, stopping=stopping)
        assert texts(search(rows_of(table), settings)[0]) == [best]


def test_trap_2_an_end_counts_only_within_the_beam() -> None:
    # At step 2 the end of b ranks third of four: in a beam of two it neither finishes nor goes on.
    table = {
        "": {"a": -0.5, "b": -1.5},
        "a": {"a": -0.5, "b": -1.0},
        "b": {".": -0.2, "b": -2.0},
        "aa": {".": -0.1},
        "ab": {".": -0.1},
    }

    for stopping in ("shrinking", "constant"):
        settings = SearchSettings(beam_size=2, length_penalty=0, stopping=stopping)
        assert texts(search(rows_of(table), settings)[0]) == ["aa.", "ab."]


def test_trap_2_a_beam_may_shrink_or_stay() -> None:
    # a. ends at step 2; a constant beam gives its place to bb, whose end is better than that of ac.
    table = {
        "": {"a": -0.5, "b": -1.5},
        "a": {".": -0.7, "c": -0.8},
        "b": {"b": -0.1},
        "ac": {".": -1.0},
        "bb": {".": -0.1},
    }

    shrinking = search(rows_of(table), SearchSettings(beam_size=2, length_penalty=0))[0]
    constant = search(rows_of(table), SearchSettings(beam_size=2, length_penalty=0, stopping="constant"))[0]

    assert texts(shrinking) == ["a.", "ac."]
    assert texts(constant) == ["a.", "bb."]


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
    table = {"": {"a": -1.0}, "a": {"b": -1.0}, "ab": {".": -1.0}}

    ((found,),) = search(rows_of(table), SearchSettings(beam_size=1, length_penalty=1.0, count_end=count_end))

    assert found.length == length
    assert found.score == pytest.approx(-3.0 * 6 / (5 + length))


def test_trap_5_what_has_finished_is_not_expanded_and_a_short_list_is_not_padded() -> None:
    table = {"": {"a": -0.1}, "a": {".": -0.1}, "a.": {"b": -0.1}}
    scorer = TableScorer(rows_of(table))

    (found,) = beam_search(scorer, source_batch([0]), SearchSettings(beam_size=4), ROLES)

    assert texts(found) == ["a."]
    assert scorer.steps == 2


def test_trap_6_the_first_step_expands_one_beam() -> None:
    scorer = TableScorer(uniform_rows({"": "abc", "a": ".", "b": ".", "c": "."}))

    (found,) = beam_search(scorer, source_batch([0]), SearchSettings(beam_size=3), ROLES)

    assert texts(found) == ["a.", "b.", "c."]
    assert scorer.rows_seen[0] == 1


def test_trap_7_ties_go_to_the_lower_beam_then_the_lower_token() -> None:
    everything = ".abcdef"
    followers = {"": everything} | dict.fromkeys("abcdef", everything)
    settings = SearchSettings(beam_size=3, max_length=2, stopping="exhaust")

    (found,) = search(uniform_rows(followers), settings)

    # Step 2 has 3 beams and 7 tokens, all equally likely: beam a comes first, and in it the end.
    assert texts(found) == ["a.", "aa", "ab"]


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
    settings = SearchSettings(
        beam_size=2, max_length=3, length_penalty=1.0, count_end=count_end, stopping="exhaust"
    )

    (found,) = search(rows_of(table), settings)

    assert texts(found) == ["b.", "aaa"]  # aaa is far more likely, but has no end
    assert not found[1].finished
    assert found[1].length == 3  # it has no end token to count
    assert found[1].score == pytest.approx(-0.3 * 6 / 8, abs=1e-5)


def test_trap_10_a_source_whose_rule_is_content_is_not_cut_off() -> None:
    # Half of two have finished at the last step: over, so aa was not cut off.
    table = {"": {"a": -0.1}, "a": {".": -0.6, "a": -0.9}}
    settings = SearchSettings(beam_size=2, max_length=2, stopping="patience=0.5")

    assert texts(search(rows_of(table), settings)[0]) == ["a."]


def test_trap_13_an_empty_reply_must_be_asked_for() -> None:
    table = {"": {".": -0.1, "a": -2.5}, "a": {".": -0.1}}

    assert texts(search(rows_of(table), SearchSettings(beam_size=1))[0]) == ["a."]
    assert texts(search(rows_of(table), SearchSettings(beam_size=1, min_length=0))[0]) == ["."]
