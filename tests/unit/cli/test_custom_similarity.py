"""`--similarity package.module:name`: what somebody wrote, found from the current directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.calls import called, lines_of, refused

Name = Callable[[str], str]


@pytest.mark.parametrize("name", ["same", "Same", "Box.inner"])
@pytest.mark.parametrize("writes", [False, True], ids=["replies alone", "all"])
def test_a_function_or_class_compares(
    lists: Path, similarities: Name, tmp_path: Path, name: str, writes: bool
) -> None:
    out = tmp_path / "out.jsonl"
    call = called("rerank", lists, "--similarity", similarities(name), *(["--n-best", out] if writes else []))

    assert call.replies == ["At work.", "Yes."]
    if writes:
        assert [reply["score"] for reply in lines_of(out)[0]["ranking"]["replies"]] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["same", "Same"])
def test_its_name_stands_in_the_signature(lists: Path, similarities: Name, name: str) -> None:
    call = called("rerank", lists, "--similarity", similarities(name))

    assert call.signature.startswith(f"strategy:bidia|similarity:my_similarities:{name}|answer:regular|")
    assert "Work: 8 pairs compared." in call.err


def test_it_compares_what_a_run_finds_too(toy_run: Path, similarities: Name) -> None:
    assert called("decode", toy_run, "--similarity", similarities("same"), typed="red cat\n").replies


FAILED = (
    "failed with KeyError: 'x'. It is called with two lists of hypotheses, each with .text and .tokens; "
    "the traceback shows where it failed."
)
REFUSED = {
    "not_a_number": (
        "The similarity '{}' answered with nan for \"I don't know.\" and \"I'm at home now.\". It must "
        "return a finite number for every pair."
    ),
    "too_small": (
        "The similarity '{}' answered with shape (1, 1) for 3 hypotheses against 2. It must return one row "
        "for each of the first, one column for each of the second."
    ),
    "words": (
        "The similarity '{}' answered with str, which is no matrix of numbers (could not convert string to "
        "float: 'closest'). It must return one number for each pair."
    ),
    "fails": f"The similarity '{{}}' {FAILED}",
    "Fails": f"The similarity '{{}}' {FAILED}",
    "number": (
        "The similarity {} is of type int. Give a function of two lists of hypotheses, or an object with a "
        "method pairwise."
    ),
    "nothing": (
        "The similarity '{}' cannot be imported: module 'my_similarities' has no attribute 'nothing'. Write "
        "package.module:name, and make sure that Python finds the module from here."
    ),
}


@pytest.mark.parametrize(("name", "message"), REFUSED.items(), ids=REFUSED)
@pytest.mark.parametrize("writes", [False, True], ids=["replies alone", "all"])
def test_one_that_cannot_be_used_is_named_and_nothing_is_written(
    lists: Path, similarities: Name, tmp_path: Path, name: str, message: str, writes: bool
) -> None:
    folder = tmp_path / "out"
    flags = ["--n-best", folder / "out.jsonl"] if writes else []

    said = refused("rerank", lists, "--similarity", similarities(name), *flags)

    assert said == message.format(similarities(name))
    assert not folder.exists() or not list(folder.iterdir())


def test_one_that_is_nowhere_is_named(lists: Path) -> None:
    assert refused("rerank", lists, "--similarity", "no_such_module:x") == (
        "The similarity 'no_such_module:x' cannot be imported: No module named 'no_such_module'. Write "
        "package.module:name, and make sure that Python finds the module from here."
    )


def test_a_class_that_wants_arguments_is_refused(lists: Path, similarities: Name) -> None:
    said = refused("rerank", lists, "--similarity", similarities("Wants"))

    assert said.startswith("The similarity my_similarities:Wants cannot be made: ")
    assert said.endswith("Give a class that needs no arguments, or an object of it.")


def test_it_has_no_options(lists: Path, similarities: Name) -> None:
    name = similarities("same")

    assert refused("rerank", lists, "--similarity", name, "--similarity-option", "order=2") == (
        f"The similarity {name} takes no options, received order."
    )
