"""fairseq's output: what fairseq itself wrote is read, in base e, and what we write is read back."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given

from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.formats.fairseq import Fairseq
from tests.unit.interchange.formats import lists as made
from tests.unit.interchange.formats.lists import FILES, line, listed, read, said, written

GENERATED = FILES / "fairseq-generate.txt"
INTERACTIVE = FILES / "fairseq-interactive.out"


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
    beams = Beams("x", "where\nare you?", "Home.", NBest((found, said("No.", -math.log(2)))))

    assert written(Fairseq(), [beams, Beams("y", "what?")]) == (
        "S-0\twhere are you?\nT-0\tHome.\n"
        "H-0\t-2.0\tat work .\nD-0\t-2.0\tAt work.\nP-0\t-2.0 -2.0 -2.0 -2.0\n"
        "H-0\t-1.0\tno.\nD-0\t-1.0\tNo.\nS-1\twhat?\n"
    )


def test_numbers_are_written_with_digits_and_a_point() -> None:
    """As `examples/noisychannel/rerank_utils.py` of fairseq reads them: -1e-05 would be -1, and e-05 text."""
    found = said("a", -1e-05 * math.log(2))._replace(log_prob=-1e-05 * math.log(2), length=1)

    lines = written(Fairseq(), [listed("x", found)]).splitlines()
    assert lines[1:] == ["H-0\t-0.00001\ta", "D-0\t-0.00001\ta", "P-0\t-0.00001"]


@given(made.beams_of(made.hypotheses.filter(lambda found: found.score is not None), min_size=1))
def test_what_is_written_is_read_back_but_ids_ends_other_log_probs_and_line_breaks(
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


def test_other_lines_are_passed_over() -> None:
    lines = ["W-0\t0.1\tseconds", "A-0\t0-0", "C-0\tx", "E-0_1\tx", "| INFO | S-0", "", "Generate test: BLEU"]

    (beams,) = read(Fairseq(), "\n".join(["S-0\thi", *lines, "H-0\t-1\ta", *lines]))

    assert beams.regular.best.text == "a"
