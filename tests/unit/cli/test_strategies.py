"""--strategy and --similarity, which mean the same to every command: names, flags, own functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import pytest

from tests.unit.cli.calls import called, lines_of, refused

Name = Callable[[str], str]

SEARCH = ("--beam-size", "6", "--max-length", "9")
SAME = [
    ("bidia token_f1", ("--similarity", "token_f1")),
    ("bidia  mean either edit", ("--similarity", "edit", "--answer", "either", "--agreement", "mean")),
]


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """Somebody's tuned.json."""
    path = tmp_path / "tuned.json"
    options = {"bidia bleu_t": {"T": 3}, "bidia bleu_t either": {"T": 5.0}}
    path.write_text(json.dumps({"format_version": 2, "options": options}))
    return path


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("--vectors", "decode chat rerank evaluate analyse tune"),
        ("--workers", "decode chat rerank evaluate analyse"),
        ("--tuned", "rerank evaluate analyse"),
        ("--max-length", "rerank evaluate analyse"),
        ("--max-length", "decode chat tune"),
        ("--batch-size", "decode tune"),
        ("--device", "decode chat tune export score reproduce"),
        ("--reverse", "decode chat tune export reproduce"),
        ("--beam-size", "decode chat tune"),
    ],
)
def test_an_option_says_the_same_wherever_it_is(name: str, commands: str) -> None:
    found = [
        each
        for command in commands.split()
        for each in getattr(import_module(f"bidibeam.cli.{command}"), command).params
        if isinstance(each, click.Option) and each.opts[0] == name
    ]

    assert len(found) == len(commands.split())
    assert len({(option.name, option.help, str(option.default)) for option in found}) == 1


@pytest.mark.parametrize(("name", "flags"), SAME)
def test_a_name_means_the_flags_that_say_the_same(
    lists: Path, unsure_run: Path, name: str, flags: tuple[str, ...]
) -> None:
    by_name, by_flags = called("rerank", lists, "--strategy", name), called("rerank", lists, *flags)
    assert by_name.replies == by_flags.replies
    assert by_name.signature == by_flags.signature
    assert "Note: flags" not in by_name.told
    for command in ("decode", "chat"):
        by_name = called(command, unsure_run, *SEARCH, "--strategy", name, typed="red cat\nblue\n")
        by_flags = called(command, unsure_run, *SEARCH, *flags, typed="red cat\nblue\n")
        assert by_name.replies == by_flags.replies
    switched = called("chat", unsure_run, *SEARCH, "--strategy", "vbs", typed=f"/strategy {name}\nred cat\n")
    assert switched.replies == by_flags.replies[:1]
    assert "From now on bidia answers (" in switched.told


def test_flags_go_over_the_name_and_a_note_says_over_what(lists: Path, tuned: Path) -> None:
    def told(name: str, *flags: object) -> str:
        call = called("rerank", lists, "--strategy", name, *flags)
        assert call.status == 0
        return call.told

    over = told("bidia edit either", "--similarity", "bleu_t")
    assert "Signature: strategy:bidia|similarity:bleu_t|" in over
    assert "|answer:either|" in over
    assert "Note: flags go over 'edit' of --strategy." in over
    both = told("bidia edit mean", "--similarity", "bleu", "--agreement", "closest")
    assert "Note: flags go over 'edit' and 'mean' of --strategy." in both
    assert "Note: flags" not in told("bidia edit", "--similarity", "edit")
    seven = told("bidia tuned", "--similarity-option", "max_length=7")
    assert "|T:7|" in seven
    assert "Note: flags go over 'tuned'" in seven
    for name, length in (("bidia tuned", 3), ("bidia bleu_t either tuned", 5), ("bidia bleu_t", "median")):
        said = told(name, "--tuned", tuned)
        assert f"|T:{length}|" in said
        assert ("|tuned:tuned.json@" in said) == ("tuned" in name)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("vbs bleu_t",), "The system 'vbs bleu_t' cannot have the word 'bleu_t'."),
        (("bidia blue",), "Unknown word 'blue' in the system 'bidia blue'. Did you mean 'bleu'? "),
        (("",), "A system is named by its strategy, such as 'bidia bleu_t', not ''."),
        (("bidia bleu_t tuned",), "The system 'bidia bleu_t tuned' must be tuned first: no T was tuned for"),
        (("bidia bleu_t tuned", "--similarity", "edit"), "The similarity edit has no T to be tuned."),
        (("vbs", "--similarity", "edit"), "The strategy vbs compares no hypotheses, so it has no --simil"),
    ],
)
def test_what_cannot_be_is_one_sentence_before_anything_is_read(
    lists: Path, toy_run: Path, flags: tuple[str, ...], message: str
) -> None:
    for command in (("rerank", lists), ("decode", toy_run), ("chat", toy_run)):
        assert refused(*command, "--strategy", *flags, typed="red\n").startswith(message)


def test_in_a_conversation_words_go_over_what_the_command_line_said(toy_run: Path) -> None:
    call = called(
        *("chat", toy_run, *SEARCH, "--similarity-option", "order=2", "--answer", "either"),
        typed="/strategy bidia mean\n/strategy bidia edit\n/strategy bidia tuned\n",
    )

    assert "(similarity bleu_t, order 2, smoothing floor, T 4, answer either, agreement mean)" in call.told
    assert "(similarity edit, answer either, agreement closest)" in call.told
    assert "The system 'bidia bleu_t either tuned' must be tuned first" in call.told


def test_help_of_every_command_teaches_the_names() -> None:
    for command in ("decode", "rerank", "chat", "evaluate", "tune"):
        assert "'bidia bleu_t" in " ".join(called(command, "--help").out.split()), command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("rerank L --strategy bidia bleu_t either", "bidia bleu_t either"),
        ("rerank --strategy bidia bleu_t L", "bidia bleu_t"),
        ("rerank L --strategy=bidia bleu_t", "bidia bleu_t"),
        ("evaluate L --strategy vbs --strategy bidia mean", "bidia mean"),
        ("decode R L --strategy bidia wmd_t tuned", "bidia wmd_t tuned"),
        ("decode --strategy bidia token_f1 L", "bidia token_f1"),
        ("chat R --strategy bidia either", "bidia either"),
    ],
)
def test_a_name_that_lacks_its_quotes_is_told_so(command: str, name: str, lists: Path, toy_run: Path) -> None:
    files = {"L": lists, "R": toy_run}

    call = called(*(files.get(each, each) for each in command.split()))

    assert (call.status, call.out) == (2, "")
    assert f'put the name in quotes: --strategy "{name}".' in call.told


def test_other_words_too_many_are_not_taken_for_a_strategy(lists: Path, tmp_path: Path) -> None:
    assert "quotes" not in called("rerank", lists, "--strategy", "bidia", "more").told
    assert "quotes" not in called("rerank", lists, "bleu_t").told  # where no strategy is named
    named = lists.rename(tmp_path / "bleu_t")
    assert called("rerank", "--strategy", "bidia", named).status == 0


@pytest.mark.parametrize("name", ["same", "Same", "Box.inner"])
def test_a_function_or_class_of_somebody_compares(
    lists: Path, toy_run: Path, similarities: Name, tmp_path: Path, name: str
) -> None:
    similarity = ("--similarity", similarities(name))

    call = called("rerank", lists, *similarity)
    wide = called("rerank", lists, *similarity, "--n-best", tmp_path / "out.jsonl")

    assert call.replies == wide.replies == ["At work.", "Yes."]
    scores = [reply["score"] for reply in lines_of(tmp_path / "out.jsonl")[0]["ranking"]["replies"]]
    assert scores == [1.0, 0.0, 0.0]
    assert call.signature.startswith(f"strategy:bidia|similarity:my_similarities:{name}|answer:regular|")
    assert "Work: 8 pairs compared." in call.err
    assert called("decode", toy_run, *similarity, typed="red cat\n").replies


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "failed with KeyError: 'x'. It is called with two lists of hypotheses"),
        ("same --similarity-option order=2", "takes no options, received order."),
        ("calls", "is of type int. Give a function of two lists of hypotheses, or an object"),
        (
            "nothing",
            "cannot be imported: module 'my_similarities' has no attribute 'nothing'. Write package.",
        ),
    ],
)
def test_one_that_cannot_be_used_is_named_and_nothing_is_written(
    lists: Path, similarities: Name, tmp_path: Path, name: str, message: str
) -> None:
    for flags in ((), ("--n-best", tmp_path / "out" / "out.jsonl")):
        said = refused("rerank", lists, "--similarity", *similarities(name).split(), *flags)
        assert said.startswith("The similarity ")
        assert similarities(name).split()[0] in said
        assert message in said
    assert not list(tmp_path.glob("out/*"))
