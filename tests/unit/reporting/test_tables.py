"""Tables as they come out at 80 columns."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType

from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked
from bidibeam.reporting.blocks import make_table, number_columns, text_columns
from bidibeam.reporting.tables import (
    NumbersTable,
    beams_table,
    hypotheses_table,
    metadata_table,
    numbers_tables,
    samples_panel,
    values_table,
)


def printed(renderable: RenderableType, width: int = 80) -> list[str]:
    """The lines as a terminal shows them."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines if line.strip()]


def test_facts_stand_beside_their_names() -> None:
    lines = printed(
        metadata_table("Corpus", {"pairs": 212808, "coverage": 0.987654, "lowercase": True, "name": "x"})
    )

    shown = [" ".join(line.split()) for line in lines[1:]]
    assert shown == ["pairs 212,808", "coverage 0.9877", "lowercase yes", "name x"]
    assert lines[0].strip() == "Corpus"
    folded = printed(metadata_table("Corpus", {"path": "/very" * 40}))
    assert "".join("".join(folded[1:]).split()) == "path" + "/very" * 40


def test_values_stand_right_under_their_headers() -> None:
    lines = printed(
        values_table(
            "Validation", ["loss", "perplexity"], [("regular", [4.5, 90.017]), ("reverse", [4.25, None])]
        )
    )

    assert lines[1].split() == ["loss", "perplexity"]
    assert lines[3].split() == ["regular", "4.5", "90.02"]
    assert lines[4].split() == ["reverse", "4.25"]
    assert lines[1].index("loss") + len("loss") == lines[3].index("4.5") + len("4.5")


def test_what_belongs_together_stays_together_while_it_can() -> None:
    groups = [["one", "two"], ["three", "four", "five"]]
    table = NumbersTable("Title", groups, [("name", ["1.234"] * 5), ("other", ["-9.5"] * 5)])

    for width, headers in (
        (60, [["one", "two", "three", "four", "five"]]),
        (38, groups),
        (18, [["one"], ["two"], ["three"], ["four"], ["five"]]),
    ):
        rows = [row.split() for row in printed(table, width)]
        assert [row for row in rows if {*row} & {"one", "two", "three", "four", "five"}] == headers


def test_a_table_of_a_report_names_its_rows_by_its_texts_and_neither_names_nor_numbers_are_cut() -> None:
    columns = [*text_columns("system", ""), *number_columns("N_B")]
    columns += [*number_columns("95 % interval", "p, largest", group="gain"), *text_columns("why")]
    rows = [
        ["vbs-tuned", "", 5, "-1.50 to +2.50", 0.25, "so"],
        ["bidia", "T", 50, "-0.50 to +0.50", "1", "so"],
    ]

    one, other = numbers_tables(make_table("Diversity", columns, rows))

    assert printed(one)[0].strip() == "Diversity"
    assert [line.split() for line in printed(one)[3:]] == [["vbs-tuned", "5"], ["bidia,", "T", "50"]]
    for width in (30, 38):
        told = printed(other, width)
        assert told[0].strip() == "gain"
        assert {"vbs-tuned", "bidia,", "T"} <= {*" ".join(told).split()}
        assert all(sum(str(row[3]) in line for line in told) == 1 for row in rows)


def sample(source: str, reply: str, reference: str | None = None) -> dict[str, Any]:
    return {"source": source, "replies": {"reply": reply}, "reference": reference}


def test_samples_show_source_reference_and_reply() -> None:
    lines = printed(samples_panel("Replies", [sample("hi", "hello", "hey"), sample("ho", "")]))

    body = [" ".join(line.strip("│ ").split()) for line in lines[1:-1]]
    assert [*filter(None, body)] == [
        *("source hi", "reference hey", "reply hello"),
        *("source ho", "reply (nothing)"),
    ]


def test_text_that_looks_like_markup_is_shown_as_it_is() -> None:
    text = "[bold]loud[/bold] [/nonsense]"

    for renderable in (
        metadata_table(text, {text: text}),
        values_table(text, [text], [(text, [1.0])]),
        samples_panel(text, [{"source": text, "replies": {text: text}, "reference": text}]),
    ):
        assert text in "\n".join(printed(renderable))


def test_a_beam_is_shown_best_first_and_what_was_cut_off_ends_in_dots() -> None:
    beam = [
        Hypothesis("at home.", ("at", "home", "."), -2.5, 4, -1.89, True),
        Hypothesis("at [b]", ("at", "[b]"), -9.0, 2, -7.5, False),
        Hypothesis("so.", ("so", "."), None, 4, None),  # of a list without scores
    ]

    lines = printed(hypotheses_table("regular beam", beam))

    assert lines[3].split() == ["1", "-1.89", "-2.50", "at", "home."]
    assert lines[4].split() == ["2", "-7.50", "-9.00", "at", "[b]", "..."]
    assert lines[5].split() == ["3", "so."]


def beam(*texts: str) -> NBest:
    """Hypotheses; what ends in dots was cut off."""
    return NBest(
        tuple(
            Hypothesis(text.removesuffix(" ..."), (), -1.0, 1, -1.0, finished=not text.endswith(" ..."))
            for text in texts
        )
    )


def winner(beams: Beams, direction: Direction, place: int, partner: int | None) -> Ranked:
    return Ranked(beams.of(direction).hypotheses[place], direction, place, 1.0, partner)


def columns(lines: list[str]) -> tuple[list[str], list[str]]:
    """The cells of both beams: rank and text."""
    middle = lines[1].index("reverse beam") - 5  # where its ranks begin
    halves = ([line[:middle], line[middle:]] for line in lines[3:])
    left, right = zip(*([" ".join(half.split()) for half in halved] for halved in halves), strict=True)
    return [cell for cell in left if cell], [cell for cell in right if cell]


def test_both_beams_stand_side_by_side_with_the_winners_marked() -> None:
    beams = Beams("1", "hi", regular=beam("one", "two [b]", "three ..."), reverse=beam("four", ""))
    winners = {
        "bleu_t": winner(beams, Direction.REGULAR, 1, 0),
        "wmd_t": winner(beams, Direction.REGULAR, 1, 1),
        "either": winner(beams, Direction.REVERSE, 0, 2),
    }

    left, right = columns(printed(beams_table("Two beams", beams, winners)))

    assert left == ["1 one", "2 two [b] ◀ bleu_t, wmd_t", "3 three ... ◀ either"]
    assert right == ["1 four ◀ bleu_t, either", "2 (nothing) ◀ wmd_t"]


def test_a_winner_far_down_is_shown_beside_the_first() -> None:
    texts = [f"text {number}" for number in range(1, 31)]
    beams = Beams("1", "hi", regular=beam(*texts), reverse=beam(*texts))
    winners = {"bleu_t": winner(beams, Direction.REGULAR, 24, 29)}

    left, right = columns(printed(beams_table("Two beams", beams, winners)))

    first = [f"{number} text {number}" for number in range(1, 9)]
    assert left == [*first, "25 text 25 ◀ bleu_t"]
    assert right == [*first, "30 text 30 ◀ bleu_t"]
    alone = Beams("1", "hi", regular=beam("one"))
    lines = printed(beams_table("One beam", alone, {"vbs": winner(alone, Direction.REGULAR, 0, None)}))
    assert columns(lines) == (["1 one ◀ vbs"], [])
