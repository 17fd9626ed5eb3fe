"""What other tools wrote is read, and what we write for them is read back, as far as their formats go."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data import words
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.formats.fairseq import Fairseq
from bidibeam.interchange.formats.mbrs import Mbrs
from bidibeam.interchange.formats.moses import Moses
from bidibeam.interchange.formats.openai import OpenAI
from tests.unit.interchange.formats import lists as made
from tests.unit.interchange.formats.lists import FILES, line, listed, read, said, written

GENERATED, INTERACTIVE = FILES / "fairseq-generate.txt", FILES / "fairseq-interactive.out"
CHAT = FILES / "openai-chat.jsonl"


def test_a_line_of_moses_has_all_that_is_known_of_a_hypothesis() -> None:
    full = Hypothesis("At work.", ("at", "work", "."), -2.5, 4, -1.96, False, other_log_prob=-0.1)
    beams = listed("x", full, said("No"))

    assert written(Moses(), [beams]) == (
        "0 ||| At work. ||| LogProb= -2.5 OtherLogProb= -0.1 Length= 4 Finished= 0 ||| -1.96\n"
        "0 ||| No ||| Length= 2 Finished= 1 ||| \n"
    )
    assert read(Moses(), written(Moses(), [beams])) == [Beams("0", "", regular=beams.regular)]


@given(made.beams_of(made.hypotheses.filter(lambda found: "|||" not in found.text)))
def test_moses_lists_are_read_back_but_ids_sources_tokens_and_line_breaks(beams: list[Beams]) -> None:
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


def test_ids_of_moses_may_begin_anywhere_and_have_gaps_and_blank_lines_are_passed_over() -> None:
    content = "\n7 ||| a ||| ||| 1\n \n007 ||| b ||| ||| 1\n9 ||| c ||| ||| 1"
    lines = written(Moses(), [listed("a", "x"), listed("b"), listed("c", "y")]).splitlines()

    assert [beams.id for beams in read(Moses(), content)] == ["7", "9"]
    assert [one[:1] for one in lines] == ["0", "2"]  # a source without hypotheses leaves a gap


def test_names_of_features_may_hold_more_equals_and_texts_bars_that_separate_nothing() -> None:
    (beams,) = read(Moses(log_prob="pp_a=b"), "0 ||| a ||| 5 pp_a=b= -2 Other= 1 2 ||| -1")

    assert beams.regular.best.log_prob == -2
    assert read(Moses(), written(Moses(), [listed("x", "a|||b")]))[0].regular.best.text == "a|||b"


def test_what_fairseq_generate_wrote_is_read_sorted_by_id_in_natural_logarithms() -> None:
    beams = list(Fairseq().read(GENERATED))

    sources = ["where are you?", "are you at home?", "will you come?", "will you see the red cat?"]
    assert [(each.id, each.source) for each in beams] == [(str(n), text) for n, text in enumerate(sources)]
    assert beams[0].reference == "i 'm at work."
    assert [each.line for each in beams] == [19, 41, 8, 30]
    found = beams[2].regular[1]
    assert (found.text, found.tokens) == ("i do at work", ("i", "do", "at", "work"))
    tokens = -0.3274 - 0.9122 - 1.4480 - 1.3764 - 0.8152 - 1.1700
    assert found.log_prob == pytest.approx(math.log(2) * tokens, abs=1e-12)
    assert found.length == 6  # wor@@ k is two, and the end token counts
    assert found.score == pytest.approx(math.log(2) * -1.0081859827041626, abs=1e-12)


def test_what_fairseq_interactive_wrote_is_read() -> None:
    beams = list(Fairseq(direction=Direction.REVERSE).read(INTERACTIVE))

    counts = [(each.id, len(each.regular), len(each.reverse)) for each in beams]
    assert counts == [(str(number), 0, 3) for number in range(4)]
    assert beams[2].reverse[1].tokens == ("i", "do", "at", "wor@@", "k")
    assert (beams[0].source, beams[0].reference) == ("where are you ?", None)


@pytest.mark.parametrize("file", [GENERATED, INTERACTIVE])
def test_every_score_of_fairseqs_is_the_mean_of_its_tokens(file: Path) -> None:
    """Which shows that base and length are understood: --lenpen was 1, and P- has four decimals."""
    beams = list(Fairseq().read(file))

    assert [len(each.regular) for each in beams] == [3] * 4
    for found in (found for each in beams for found in each.regular):
        assert found.log_prob is not None
        assert found.score == pytest.approx(found.log_prob / found.length, abs=5e-5)


def test_what_is_written_has_fairseqs_lines() -> None:
    found = Hypothesis("At work.", ("at", "work", "."), -8 * math.log(2), 4, -2 * math.log(2))
    beams = Beams("x", "where\nare you?", ("Home.",), NBest((found, said("No.", -math.log(2)))))

    assert written(Fairseq(), [beams, Beams("y", "what?")]) == (
        "S-0\twhere are you?\nT-0\tHome.\n"
        "H-0\t-2.0\tat work .\nD-0\t-2.0\tAt work.\nP-0\t-2.0 -2.0 -2.0 -2.0\n"
        "H-0\t-1.0\tno.\nD-0\t-1.0\tNo.\nS-1\twhat?\n"
    )


def test_numbers_are_written_for_fairseq_with_digits_and_a_point() -> None:
    """As `examples/noisychannel/rerank_utils.py` of fairseq reads them: -1e-05 would be -1, and e-05 text."""
    found = said("a", -1e-05 * math.log(2))._replace(log_prob=-1e-05 * math.log(2), length=1)

    lines = written(Fairseq(), [listed("x", found)]).splitlines()
    assert lines[1:] == ["H-0\t-0.00001\ta", "D-0\t-0.00001\ta", "P-0\t-0.00001"]


@given(made.beams_of(made.hypotheses.filter(lambda found: found.score is not None), min_size=1))
def test_fairseqs_lines_are_read_back_but_ids_ends_other_log_probs_and_line_breaks(
    beams: list[Beams],
) -> None:
    again = read(Fairseq(), written(Fairseq(), beams))

    for place, (one, each) in enumerate(zip(again, beams, strict=True)):
        reference = None if each.reference is None else line(each.reference)
        assert (one.id, one.source, one.reference) == (str(place), line(each.source), reference)
        for now, before in zip(one.regular, each.regular, strict=True):
            assert (now.text, now.tokens) == (line(before.text), before.tokens)
            assert now.score == pytest.approx(before.score, rel=1e-12, abs=1e-300)
            if before.log_prob is None:
                assert (now.log_prob, now.length) == (None, len(before.tokens) + 1)
            else:
                assert now.log_prob == pytest.approx(before.log_prob, rel=1e-12, abs=1e-300)
                assert now.length == max(before.length, 1)


def test_without_d_lines_the_tokens_are_the_text_and_a_source_may_be_empty_where_that_is_allowed() -> None:
    first, second = read(Fairseq(), "S-5\nH-5\t-1\ta b\nH-5\t-2\nS-6\tb", allow_empty=True)

    assert (first.id, first.source) == ("5", "")
    parts = [(found.text, found.tokens, found.length) for found in first.regular]
    assert parts == [("a b", ("a", "b"), 3), ("", (), 1)]
    assert second == Beams("6", "b")


def test_other_lines_than_fairseqs_are_passed_over() -> None:
    lines = ["W-0\t0.1\tseconds", "A-0\t0-0", "C-0\tx", "E-0_1\tx", "| INFO | S-0", "", "Generate test: BLEU"]

    (beams,) = read(Fairseq(), "\n".join(["S-0\thi", *lines, "H-0\t-1\ta", *lines]))

    assert beams.regular.best.text == "a"


@pytest.mark.parametrize("name", ["mbrs-generate.txt", "mbrs-decode.txt"])
def test_what_mbrs_wrote_is_read_and_written_back_byte_for_byte(name: str) -> None:
    content = (FILES / name).read_text()

    beams = list(Mbrs(per_source=4).read(FILES / name))

    assert [(each.id, len(each.regular)) for each in beams] == [("1", 4), ("2", 4), ("3", 4)]
    assert [found.text for each in beams for found in each.regular] == content.splitlines()
    assert [each.line for each in beams] == [1, 5, 9]
    assert written(Mbrs(), beams) == content


def test_blank_lines_of_flat_text_are_empty_hypotheses() -> None:
    first, second = read(Mbrs(per_source=2, direction=Direction.REVERSE), "a\n\n\n b \n")

    assert [found.text for found in (*first.reverse, *second.reverse)] == ["a", "", "", " b "]
    assert not first.regular


@given(st.data(), st.integers(1, 3))
def test_flat_text_is_read_back_but_for_line_breaks(data: st.DataObject, count: int) -> None:
    beams = data.draw(made.beams_of(made.hypotheses, min_size=count, max_size=count))

    again = read(Mbrs(per_source=count), written(Mbrs(per_source=count), beams))

    expected = [[made.line(found.text) for found in each.regular] for each in beams]
    assert [[found.text for found in each.regular] for each in again] == expected
    assert [each.id for each in again] == [str(number + 1) for number in range(len(beams))]
    assert all(found.score is found.log_prob is None for each in again for found in each.regular)


def test_chat_completions_are_read_by_index_with_the_sum_of_their_log_probs() -> None:
    first, second = OpenAI().read(CHAT)

    assert (first.id, second.id) == ("chatcmpl-A1", "chatcmpl-B2")
    assert list(first.regular) == [
        Hypothesis("At home.", ("at", "home", "."), -1.75, 3, None),
        Hypothesis("I'm at work.", ("i", "'m", "at", "work", "."), -2.4375, 5, None),
        Hypothesis("Well,", ("well", ","), -2.5, 2, None, finished=False),
    ]
    assert [(found.text, found.log_prob, found.length) for found in second.regular] == [
        ("Yes.\n", None, 3),
        ("Café?", None, 3),
    ]


def test_completions_are_read() -> None:
    (beams,) = OpenAI(direction=Direction.REVERSE).read(FILES / "openai-completions.jsonl")

    assert beams.id == "cmpl-7"
    assert [(found.text, found.log_prob, found.length, found.finished) for found in beams.reverse] == [
        (" At home.", -1.75, 3, True),
        (" No", -2.5, 1, False),
    ]


def test_a_batch_is_read_under_the_ids_of_its_requests() -> None:
    second, first = OpenAI().read(FILES / "openai-batch.jsonl")
    alone = list(OpenAI().read(CHAT))

    assert (first.id, second.id) == ("request-1", "request-2")
    assert [first.regular, second.regular] == [each.regular for each in alone]


@given(made.beams_of(made.hypotheses))
def test_ids_texts_and_ends_of_choices_are_read_back(beams: list[Beams]) -> None:
    beams = [each for each in beams if each.regular] + [listed("half", "a\udc80")]
    again = read(OpenAI(), written(OpenAI(), beams))

    assert [each.id for each in again] == [each.id for each in beams]
    for one, each in zip(again, beams, strict=True):
        assert [(found.text, found.finished) for found in one.regular] == [
            (found.text, found.finished) for found in each.regular
        ]
        for found in one.regular:
            assert found.tokens == tuple(words.split(found.text))
            assert found.length == len(found.tokens) + found.finished
            assert found.log_prob is found.score is None


def test_what_is_written_has_the_fields_that_the_package_writes() -> None:
    """Those that it requires: the others may be left out."""
    (only,) = written(OpenAI(), [listed("x", said("a", -1.0))]).splitlines()
    ours, theirs = json.loads(only), json.loads(CHAT.read_text().splitlines()[1])

    assert ours.keys() == {"id", "object", "created", "model", "choices"}
    assert ours["object"] == theirs["object"]
    assert ours["choices"][0].keys() == theirs["choices"][0].keys()
    assert ours["choices"][0]["message"] == {"role": "assistant", "content": "a", "refusal": None}
    for key, value in ours.items():
        assert type(value) is type(theirs[key])


def test_what_a_choice_does_not_say_is_not_made_up() -> None:
    echoed = {"text": "a b", "logprobs": {"token_logprobs": [None, -1.0]}}
    (beams,) = read(OpenAI(), json.dumps({"choices": [echoed, {"text": "", "logprobs": {"content": []}}]}))

    assert beams.id == "1"
    assert [(found.log_prob, found.length) for found in beams.regular] == [(None, 3), (None, 1)]
