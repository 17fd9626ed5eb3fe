"""Words at the first places from either end."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError, SettingsError
from bidibeam.evaluation.analyses.positions import positions


def test_words_are_counted_from_the_left_and_from_the_right() -> None:
    found = positions([["i", "see", "."], ["i", "do", "."], ["no"], []], words_shown=2, places=2)

    assert found == {
        "words_shown": 2,
        "pairs": 4,
        "from": {
            "left": [
                {
                    "position": 1,
                    "words": ["i", "no"],
                    "counts": [2, 1],
                    "different": 2,
                    "entropy_bits": pytest.approx(2 / 3 * math.log2(3 / 2) + 1 / 3 * math.log2(3)),
                    "above_1000": 0,
                },
                {
                    "position": 2,
                    "words": ["do", "see"],
                    "counts": [1, 1],
                    "different": 2,
                    "entropy_bits": 1.0,
                    "above_1000": 0,
                },
            ],
            "right": [
                {
                    "position": 1,
                    "words": [".", "no"],
                    "counts": [2, 1],
                    "different": 2,
                    "entropy_bits": pytest.approx(0.9182958),
                    "above_1000": 0,
                },
                {
                    "position": 2,
                    "words": ["do", "see"],
                    "counts": [1, 1],
                    "different": 2,
                    "entropy_bits": 1.0,
                    "above_1000": 0,
                },
            ],
        },
    }


def test_a_word_is_common_if_it_stands_there_more_than_a_thousand_times() -> None:
    found = positions([["a", "x"]] * 1001 + [["b", "x"]] * 1000)

    assert [each["above_1000"] for each in found["from"]["left"]] == [1, 1, 0]
    assert [each["above_1000"] for each in found["from"]["right"]] == [1, 1, 0]


sequences = st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), min_size=1, max_size=20)


@given(sequences, st.integers(1, 4), st.integers(1, 4))
def test_turned_around_left_is_right(responses: list[list[str]], words_shown: int, places: int) -> None:
    found = positions(responses, words_shown=words_shown, places=places)
    turned = positions([each[::-1] for each in responses], words_shown=words_shown, places=places)

    assert found["from"]["left"] == turned["from"]["right"]
    assert found["from"]["right"] == turned["from"]["left"]
    for place, each in enumerate(found["from"]["left"]):
        column = [words[place] for words in responses if len(words) > place]
        counts = {word: column.count(word) for word in column}
        order = sorted(counts, key=lambda word: (-counts[word], word))[:words_shown]
        assert each["words"] == order
        assert each["counts"] == [counts[word] for word in order]
        assert each["different"] == len(counts)
        shares = [count / len(column) for count in counts.values()]
        assert each["entropy_bits"] == pytest.approx(-sum(share * math.log2(share) for share in shares))


def test_a_stream_is_enough_and_fifty_words_of_three_places_are_told() -> None:
    found = positions(iter([[f"w{number}", "x"] for number in range(60)]))

    assert [len(each["words"]) for each in found["from"]["left"]] == [50, 1, 0]
    assert found["pairs"] == 60


def test_refusals_are_one_sentence() -> None:
    with pytest.raises(InputError, match="no responses"):
        positions([])
    with pytest.raises(SettingsError, match="words_shown must be at least 1, not 0"):
        positions([["a"]], words_shown=0)
    with pytest.raises(SettingsError, match="places must be at least 1, not -1"):
        positions([["a"]], places=-1)
