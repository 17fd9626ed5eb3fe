"""`bidibeam explain`: a page of a source or of lists, its data, and refusals in one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bidibeam import load_decoder
from tests.unit.cli.calls import called, refused, write_lines

LISTS = [
    {
        "source": "where?",
        "regular": [{"text": "at work"}, {"text": "no"}],
        "reverse": [{"text": "at work now"}],
    },
    {"source": "when?", "regular": [{"text": "at noon"}], "reverse": [{"text": "noon"}, {"text": "now"}]},
    {"source": "who?", "regular": [{"text": "me"}], "reverse": [{"text": "you"}]},
]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "lists.jsonl", *LISTS)


def documents_of(page: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="documents">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def misused(*args: object) -> str:
    """What is said of a call that is none."""
    call = called("explain", *args)
    assert (call.status, call.out) == (2, "")
    return call.told.partition("Error: ")[2]


def test_one_word_is_the_source_of_the_model_in_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    call = called("explain", "how are you?", "--strategy", "bidia bleu", "--beam-size", "6")

    (known,) = documents_of((tmp_path / "explanation.html").read_text(encoding="utf-8"))
    assert call.replies == []
    assert known["source"] == "how are you?"
    assert known["system"] == "bidia bleu"
    assert (len(known["regular"]), len(known["reverse"])) == (3, 3)
    assert "No model was named" in call.told
    assert (
        f"'how are you?' is answered with {known['reply']!r}. explanation.html explains 1 reply." in call.told
    )


def test_a_model_is_named_before_the_source_and_the_data_alone_are_json(
    toy_run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "why.json"

    call = called("explain", toy_run, "red blue", "--beam-size", "4", "--out", file)

    known = json.loads(file.read_text(encoding="utf-8"))
    assert known["source"] == "red blue"
    assert known["system"] == "bidis"
    assert f"Strategy: {load_decoder(toy_run).system} (the default" in call.told
    assert known["length_penalty"] == {"formula": "gnmt", "exponent": 0.6}


def test_a_dash_is_stdout(toy_run: Path) -> None:
    call = called("explain", toy_run, "red", "-o", "-", "--strategy", "vbs")

    assert call.out.startswith("<!doctype html>")
    assert documents_of(call.out)[0]["source"] == "red"
    assert "explains" not in call.told


def test_an_unknown_source_is_noted(toy_run: Path, tmp_path: Path) -> None:
    call = called("explain", toy_run, "zzzz", "-o", tmp_path / "page.html")

    assert 'the source has no token that the model knows: "zzzz".' in call.told


def test_lists_need_no_model(lists: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"

    call = called("explain", "--lists", lists, "--out", file, "--max-length", "5")

    known = documents_of(file.read_text(encoding="utf-8"))
    assert [each["source"] for each in known] == ["where?", "when?", "who?"]
    assert known[0]["similarity"]["length_term"] == {"form": "similarity", "T": {"regular": 5, "reverse": 5}}
    assert "Strategy: bidia bleu_t (the default for such lists)" in call.told
    assert f"{file} explains 3 replies." in call.told


def test_the_first_lists_are_explained_and_the_number_is_told(lists: Path, tmp_path: Path) -> None:
    call = called(
        "explain", "--lists", lists, "--first", "2", "-o", tmp_path / "two.json", "--strategy", "mbr mean"
    )

    known = json.loads((tmp_path / "two.json").read_text(encoding="utf-8"))
    assert [each["system"] for each in known] == ["mbr bleu_t mean"] * 2
    assert "Note: the first 2 sources are explained; --first takes more." in call.told
    assert "--first takes more" not in called("explain", "--lists", lists, "-o", tmp_path / "all.json").told


def test_what_a_list_was_searched_with_is_known(toy_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "beams.jsonl"
    (tmp_path / "sources.txt").write_text("red\n")
    search = ("--length-penalty", "1", "--length-formula", "power", "--strategy", "bidia", "--beam-size", "4")
    called("decode", toy_run, tmp_path / "sources.txt", *search, "--n-best", file)

    call = called("explain", "--lists", file, "-o", tmp_path / "page.json")

    (known,) = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))
    assert known["length_penalty"] == {"formula": "power", "exponent": 1.0}
    assert "Strategy: bidis" in call.told


def test_what_is_no_call_is_told_with_the_way_out(toy_run: Path, lists: Path) -> None:
    assert misused() == 'There is no source to explain. Name one, in quotes: "how are you?"'
    assert misused(toy_run) == f'{toy_run} is a folder. Name the source behind it, in quotes: "how are you?"'
    assert misused(" ") == 'The source is empty. Say something, in quotes: "how are you?"'
    assert misused("a", "b", "--regular", toy_run) == "--regular stands instead of MODEL, not beside a."
    assert misused("hi", "--lists", lists) == "--lists hold their sources: leave out MODEL and SOURCE."
    odd = refused("explain", "--lists", lists, "--from", "moses")
    assert odd.startswith(f"{lists}, line 1")
    told = "--beam-size is of a model and its search, which --lists are past."
    assert misused("--lists", lists, "--beam-size", "3") == told


def test_what_cannot_be_explained_is_one_sentence_and_the_page_stays_as_it_was(
    lists: Path, tmp_path: Path
) -> None:
    page, empty = tmp_path / "page.html", write_lines(tmp_path / "empty.jsonl")
    page.write_text("before")

    assert (
        refused("explain", "--lists", empty, "-o", page)
        == f"{empty} holds no lists, so there is nothing to explain."
    )
    assert refused("explain", "--lists", tmp_path / "none.jsonl", "-o", page).endswith(
        "No such file or directory."
    )
    assert 'has no "score", and vbs needs it' in refused(
        "explain", "--lists", lists, "--strategy", "vbs", "-o", page
    )
    assert refused("explain", "--lists", lists, "-o", lists).startswith("--out would overwrite the input")
    assert "Unknown strategy" in refused("explain", "hi", "--strategy", "best", "-o", page)
    assert "nowhere" in refused("explain", tmp_path / "nowhere", "hi", "-o", page)
    assert page.read_text() == "before"
    assert {each.name for each in tmp_path.iterdir()} == {"page.html", "empty.jsonl", "lists.jsonl"}
