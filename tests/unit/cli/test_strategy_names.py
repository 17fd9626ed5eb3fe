"""One grammar: --strategy of every command takes the names that tables and `evaluate` have for systems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bidibeam.evaluation.systems import SYSTEMS
from tests.unit.cli.calls import called, refused

SEARCH = ("--beam-size", "6", "--max-length", "9")
SAME = [
    ("bidia token_f1", ("--similarity", "token_f1")),
    ("bidia either", ("--answer", "either")),
    ("bidia  mean either edit", ("--similarity", "edit", "--answer", "either", "--agreement", "mean")),
    ("bidia bleu", ("--similarity", "bleu", "--answer", "regular")),
]


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """Somebody's tuned.json."""
    path = tmp_path / "tuned.json"
    options = {"bidia bleu_t": {"T": 3}, "bidia bleu_t either": {"T": 5.0}}
    path.write_text(json.dumps({"format_version": 1, "options": options}))
    return path


@pytest.mark.parametrize(("name", "flags"), SAME)
def test_rerank_reads_a_name_as_the_flags_that_say_the_same(
    lists: Path, name: str, flags: tuple[str, ...]
) -> None:
    by_name, by_flags = called("rerank", lists, "--strategy", name), called("rerank", lists, *flags)

    assert by_name.replies == by_flags.replies
    assert by_name.signature == by_flags.signature
    assert "Note: flags" not in by_name.told


@pytest.mark.parametrize(("name", "flags"), SAME)
def test_decode_and_chat_do_so_too(unsure_run: Path, name: str, flags: tuple[str, ...]) -> None:
    for command in ("decode", "chat"):
        by_name = called(command, unsure_run, *SEARCH, "--strategy", name, typed="red cat\nblue\n")
        by_flags = called(command, unsure_run, *SEARCH, *flags, typed="red cat\nblue\n")
        assert by_name.replies == by_flags.replies
    switched = called("chat", unsure_run, *SEARCH, "--strategy", "vbs", typed=f"/strategy {name}\nred cat\n")
    assert switched.replies == by_flags.replies[:1]
    assert "From now on bidia answers (" in switched.told


def test_every_system_of_the_reproduction_is_a_strategy(lists: Path, vectors: Path, tuned: Path) -> None:
    """None is refused for its name; what a list must have is another matter."""
    for name in SYSTEMS:
        flags = ("--vectors", vectors) if "wmd" in name else ()
        call = called("rerank", lists, "--strategy", name, "--tuned", tuned, *flags)
        assert "nknown" not in call.err
        assert "words" not in call.told.partition("Error: ")[2]


def test_flags_go_over_the_name_and_a_note_says_over_what(lists: Path) -> None:
    call = called("rerank", lists, "--strategy", "bidia edit either", "--similarity", "bleu_t")

    assert call.signature.startswith("strategy:bidia|similarity:bleu_t|")
    assert "|answer:either|" in call.signature
    assert "Note: flags go over 'edit' of --strategy." in call.told
    both = called(
        "rerank", lists, "--strategy", "bidia edit mean", "--similarity", "bleu", "--agreement", "closest"
    )
    assert "Note: flags go over 'edit' and 'mean' of --strategy." in both.told
    same = called("rerank", lists, "--strategy", "bidia edit", "--similarity", "edit")
    assert "Note: flags" not in same.told


def test_a_tuned_t_comes_from_a_file_and_a_flag_goes_over_it(lists: Path, tuned: Path) -> None:
    def signature(name: str, *flags: object) -> str:
        return called("rerank", lists, "--strategy", name, *flags).signature

    assert "|T:3|" in signature("bidia tuned", "--tuned", tuned)
    assert "|tuned:tuned.json@" in signature("bidia tuned", "--tuned", tuned)
    assert "|T:5|answer:either|" in signature("bidia bleu_t either tuned", "--tuned", tuned)
    plain = signature("bidia bleu_t", "--tuned", tuned)
    assert "|T:20|" in plain
    assert "tuned.json" not in plain
    option = ("--similarity-option", "max_length=7")
    assert "|T:7|" in signature("bidia tuned", *option)
    assert "Note: flags go over 'tuned'" in called("rerank", lists, "--strategy", "bidia tuned", *option).told


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--strategy", "vbs bleu_t"),
            "The system 'vbs bleu_t' cannot have the word 'bleu_t'. vbs takes no further words.",
        ),
        (
            ("--strategy", "bidia blue"),
            "Unknown word 'blue' in the system 'bidia blue'. Did you mean 'bleu'? ",
        ),
        (("--strategy", ""), "A system is named by its strategy, such as 'bidia bleu_t', not ''."),
        (
            ("--strategy", "bidia bleu_t tuned"),
            "The system 'bidia bleu_t tuned' must be tuned first: no T was tuned for 'bidia bleu_t'. ",
        ),
        (
            ("--strategy", "bidia bleu_t tuned", "--similarity", "edit"),
            "The similarity edit has no T to be tuned. Leave 'tuned' out, or compare by bleu_t or wmd_t.",
        ),
        (
            ("--strategy", "vbs", "--similarity", "edit"),
            "The strategy vbs compares no hypotheses, so it has no --similarity.",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence_before_anything_is_read(
    lists: Path, toy_run: Path, flags: tuple[str, ...], message: str
) -> None:
    assert refused("rerank", lists, *flags).startswith(message)
    for command in ("decode", "chat"):
        call = called(command, toy_run, *flags, typed="red\n")
        assert (call.status, call.out) == (1, "")
        assert f"Error: {message}" in call.err


def test_in_a_conversation_words_go_over_what_the_command_line_said(toy_run: Path) -> None:
    call = called(
        *("chat", toy_run, *SEARCH, "--similarity-option", "order=2", "--answer", "either"),
        typed="/strategy bidia mean\n/strategy bidia edit\n/strategy bidia tuned\n",
    )

    assert "(similarity bleu_t, order 2, smoothing floor, T 9, answer either, agreement mean)" in call.told
    assert "(similarity edit, answer either, agreement closest)" in call.told
    assert "The system 'bidia bleu_t either tuned' must be tuned first" in call.told


def test_help_of_every_command_teaches_the_names() -> None:
    for command in ("decode", "rerank", "chat", "evaluate", "tune"):
        assert "'bidia bleu_t" in " ".join(called(command, "--help").out.split()), command


UNQUOTED: dict[str, tuple[tuple[object, ...], str]] = {
    "rerank": (("rerank", "L", "--strategy", "bidia", "bleu_t", "either"), "bidia bleu_t either"),
    "rerank, first": (("rerank", "--strategy", "bidia", "bleu_t", "L"), "bidia bleu_t"),
    "evaluate": (("evaluate", "L", "--strategy", "vbs", "--strategy", "bidia", "mean"), "bidia mean"),
    "decode": (("decode", "R", "L", "--strategy", "bidia", "wmd_t", "tuned"), "bidia wmd_t tuned"),
    "decode, first": (("decode", "--strategy", "bidia", "token_f1", "L"), "bidia token_f1"),
    "chat": (("chat", "R", "--strategy", "bidia", "either"), "bidia either"),
    "glued": (("rerank", "L", "--strategy=bidia", "bleu_t"), "bidia bleu_t"),
}


@pytest.mark.parametrize("case", UNQUOTED)
def test_a_name_that_lacks_its_quotes_is_told_so(case: str, lists: Path, toy_run: Path) -> None:
    arguments, name = UNQUOTED[case]
    files = {"L": lists, "R": toy_run}

    call = called(*(files.get(str(each), each) for each in arguments))

    assert (call.status, call.out) == (2, "")
    assert f'put the name in quotes: --strategy "{name}".' in call.told


def test_other_words_too_many_are_not_taken_for_a_strategy(lists: Path, tmp_path: Path) -> None:
    assert "quotes" not in called("rerank", lists, "--strategy", "bidia", "more").told
    assert "quotes" not in called("rerank", lists, "bleu_t").told  # where no strategy is named
    named = lists.rename(tmp_path / "bleu_t")
    assert called("rerank", "--strategy", "bidia", named).status == 0
