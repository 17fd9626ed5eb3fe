"""Tables as they come out at 80 columns."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from bidibeam.hypotheses import Hypothesis
from bidibeam.reporting.tables import Sample, facts_table, hypotheses_table, samples_panel, values_table


def printed(renderable: RenderableType) -> list[str]:
    """The lines as a terminal of 80 columns shows them."""
    console = Console(file=io.StringIO(), width=80, color_system=None, legacy_windows=False)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    return [line.rstrip() for line in lines if line.strip()]


def test_facts_stand_beside_their_names() -> None:
    lines = printed(
        facts_table("Corpus", {"pairs": 212808, "coverage": 0.987654, "lowercase": True, "name": "x"})
    )

    assert [line.split(None, 1) for line in lines[1:]] == [
        ["pairs", "212,808"],
        ["coverage", "0.9877"],
        ["lowercase", "True"],
        ["name", "x"],
    ]
    assert lines[0].strip() == "Corpus"


def test_a_long_fact_folds_and_nothing_is_lost() -> None:
    lines = printed(facts_table("Corpus", {"path": "/very" * 40}))

    assert "".join("".join(lines[1:]).split()) == "path" + "/very" * 40


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


def test_samples_show_source_reference_and_reply() -> None:
    lines = printed(
        samples_panel("Replies", [Sample("hi", {"reply": "hello"}, "hey"), Sample("ho", {"reply": ""})])
    )

    body = [line.strip("│ ").split(None, 1) for line in lines[1:-1]]
    assert [entry for entry in body if entry] == [
        ["source", "hi"],
        ["reference", "hey"],
        ["reply", "hello"],
        ["source", "ho"],
        ["reply", "(nothing)"],
    ]


def test_text_that_looks_like_markup_is_shown_as_it_is() -> None:
    text = "[bold]loud[/bold] [/nonsense]"

    for renderable in (
        facts_table(text, {text: text}),
        values_table(text, [text], [(text, [1.0])]),
        samples_panel(text, [Sample(text, {text: text}, text)]),
    ):
        assert text in "\n".join(printed(renderable))


def test_a_beam_is_shown_best_first_and_what_was_cut_off_ends_in_dots() -> None:
    beam = [
        Hypothesis("at home.", ("at", "home", "."), -2.5, 4, -1.89, True),
        Hypothesis("at [b]", ("at", "[b]"), -9.0, 2, -7.5, False),
    ]

    lines = printed(hypotheses_table("regular beam", beam))

    assert lines[3].split() == ["1", "-1.89", "-2.50", "at", "home."]
    assert lines[4].split() == ["2", "-7.50", "-9.00", "at", "[b]", "..."]
