"""Moses n-best lists: what Moses and Marian write is read, and ours is read back to the last digit."""

from __future__ import annotations

from hypothesis import given

from bidibeam.data import words
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.formats.moses import Moses
from tests.unit.interchange.formats import lists as made
from tests.unit.interchange.formats.lists import FILES, listed, read, said, written


def test_a_line_has_all_that_is_known_of_a_hypothesis() -> None:
    full = Hypothesis("At work.", ("at", "work", "."), -2.5, 4, -1.96, False, other_log_prob=-0.1)
    beams = listed("x", full, said("No"))

    assert written(Moses(), [beams]) == (
        "0 ||| At work. ||| LogProb= -2.5 OtherLogProb= -0.1 Length= 4 Finished= 0 ||| -1.96\n"
        "0 ||| No ||| Length= 2 Finished= 1 ||| \n"
    )
    assert read(Moses(), written(Moses(), [beams])) == [Beams("0", "", regular=beams.regular)]


@given(made.beams_of(made.hypotheses.filter(lambda found: "|||" not in found.text)))
def test_what_is_written_is_read_back_but_ids_sources_tokens_and_line_breaks(beams: list[Beams]) -> None:
    for direction in Direction:
        only = [Beams(each.id, each.source).with_hypotheses(direction, each.of(direction)) for each in beams]
        format_ = Moses(direction=direction)
        expected = []
        for place, each in enumerate(beams):
            found = []
            for one in each.of(direction):
                text = made.line(one.text).strip(" ")
                found.append(one._replace(text=text, tokens=tuple(words.split(text))))
            if found:
                expected.append(Beams(str(place), "").with_hypotheses(direction, NBest(tuple(found))))

        assert read(format_, written(format_, only)) == expected


def test_what_moses_writes_is_read() -> None:
    first, second = Moses().read(FILES / "moses.nbest")

    assert [(each.line, each.id) for each in (first, second)] == [(1, "0"), (3, "2")]
    assert [found.text for found in first.regular] == ["i am at work .", "i 'm at home ."]
    assert [found.score for found in first.regular] == [-10.493, -11.25]
    assert first.regular[1] == Hypothesis("i 'm at home .", ("i", "'m", "at", "home", "."), None, 6, -11.25)
    (old,) = Moses(log_prob="lm").read(FILES / "moses-old.nbest")
    assert [(found.text, found.score, found.log_prob) for found in old.regular] == [
        ("we must talk .", -9.2298, -36.0974),
        ("it must talk .", -9.26197, -31.5841),
    ]


def test_what_marian_writes_is_read_with_alignments_and_word_scores() -> None:
    first, second = Moses(log_prob="F1").read(FILES / "marian.nbest")

    assert [(found.text, found.log_prob, found.score) for found in (*first.regular, *second.regular)] == [
        ("I'm at work.", -1.91984, -0.369532),
        ("At home.", -2.03168, -0.515602),
        ("", -4.25, -4.375),
        ("Yes.", -5.25, -2.6875),
    ]
    unnamed = [found.log_prob for each in Moses().read(FILES / "marian.nbest") for found in each.regular]
    assert unnamed == [None] * 4


def test_ids_may_begin_anywhere_and_have_gaps_and_blank_lines_are_passed_over() -> None:
    content = "\n7 ||| a ||| ||| 1\n \n007 ||| b ||| ||| 1\n9 ||| c ||| ||| 1"
    lines = written(Moses(), [listed("a", "x"), listed("b"), listed("c", "y")]).splitlines()

    assert [beams.id for beams in read(Moses(), content)] == ["7", "9"]
    assert [line[:1] for line in lines] == ["0", "2"]  # a source without hypotheses leaves a gap


def test_the_direction_says_whose_lists_they_are() -> None:
    (beams,) = read(Moses(direction=Direction.REVERSE), "0 ||| a ||| ||| -1")

    assert (len(beams.regular), beams.reverse.best.text) == (0, "a")


def test_names_may_hold_more_equals_and_texts_bars_that_separate_nothing() -> None:
    (beams,) = read(Moses(log_prob="pp_a=b"), "0 ||| a ||| 5 pp_a=b= -2 Other= 1 2 ||| -1")

    assert beams.regular.best.log_prob == -2
    assert read(Moses(), written(Moses(), [listed("x", "a|||b")]))[0].regular.best.text == "a|||b"
