"""Terms of ours: a sentence each, where a report first uses them, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bidibeam.reporting.blocks import Cell, Column, Examples, Section, Table
from bidibeam.reporting.terms import TERMS, define_terms, read_section
from tests.unit.reporting.made_results import made_evaluation
from tests.unit.reporting.reports import Report


def names(text: str) -> list[str]:
    """The terms that a text needs."""
    (found,) = define_terms({"": text}).values()
    return [term.name for term in found]


def test_a_term_is_defined_by_the_first_that_uses_it_and_by_no_other() -> None:
    found = define_terms({"one": "vbs at N_B = 50", "two": "vbs\nthe oracle", "three": "vbs"})

    assert [[term.name for term in terms] for terms in found.values()] == [
        ["N_B", "vbs"],
        ["oracle"],
        [],
    ]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("vbs-tuned", ["vbs", "vbs-tuned"]),  # what a meaning uses is defined, too
        ("reverse-vbs", ["vbs", "reverse-vbs"]),
        ("VBS", ["vbs"]),
        ("by T, the length", ["T"]),
        ("T = 20, V = 5,000", ["T", "V"]),
        ("bidia bleu_t either", ["bidia", "either", "BLEU_T", "T"]),
        ("loglinear edit both", ["loglinear", "both"]),
        ("distinct-2", ["distinct-n"]),
        ("random", ["random"]),
        ("means over random replies, the longest of both", []),
        ("it cannot be controlled; uncontrolled; NSER", []),
    ],
)
def test_a_text_needs_the_terms_that_it_uses_and_those_of_their_meanings(
    text: str, needed: list[str]
) -> None:
    assert names(text) == needed


def test_all_text_of_a_section_is_read_but_that_of_examples() -> None:
    table = Table("a caption", [Column("a head", "a group")], [[Cell("a cell", "1.30")]], ["a note"])
    section = Section("name", "a title", [table, Examples([{"source": "of a corpus"}])], "a sentence")

    text = read_section(section)

    for part in ("caption", "head", "group", "cell", "note", "title", "sentence"):
        assert f"a {part}" in text
    assert "corpus" not in text


def test_each_meaning_is_one_short_sentence() -> None:
    for term in TERMS:
        assert len(term.meaning) <= 100, term
        assert not re.search(r"[.;:]", term.meaning), term


def test_a_report_defines_each_term_once_before_it_goes_on(single: Report) -> None:
    page = re.findall(r"<div><dt>([^<]*)</dt><dd>", single.html.partition("</section>")[2])
    document = re.findall(r"^- \*\*(.*?)\*\*: .*\.$", single.words, flags=re.MULTILINE)

    assert len(page) == len(set(page))
    assert {"vbs", "N_B", "T", "oracle", "bidia", "bidis", "vbs-tuned", "distinct-n", "headroom"} <= set(page)
    assert [name for name in document if name in {term.name for term in TERMS}] == page
    top = single.html[: single.html.index("<nav")]
    assert top.index("What won") < top.index("<dt>vbs</dt>") < top.index("<dt>vbs-tuned</dt>")
    assert (
        "<dt>oracle</dt>"
        in single.html[single.html.index('id="summary"') : single.html.index('id="quality"')]
    )


@pytest.mark.usefixtures("undrawn")
def test_a_report_without_a_term_does_not_define_it(tmp_path: Path) -> None:
    systems = made_evaluation()["systems"]
    kept = {name: systems[name] for name in ("vbs", "bidis")}

    report = Report({"systems": kept, "tests": []}, tmp_path)

    assert "<dt>bidis</dt>" in report.html
    for name in ("N_B", "oracle", "bidia", "control"):
        assert f"<dt>{name}</dt>" not in report.html
