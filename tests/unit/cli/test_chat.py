"""`bidibeam chat`."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import bidibeam
from bidibeam.api.export import export_converted
from bidibeam.cli import chat
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES
from tests.unit.cli.calls import VBS, called, refused, write_lines
from tests.unit.models.huggingface.folders import SOURCES, write_joint

USABLE = "bidia, bidis, loglinear, mbr, vbs, vbs-tuned, reverse-vbs, longest, random"


def said(*args: object, typed: str) -> str:
    """What stderr got after the help that every conversation begins with, however it was wrapped."""
    told = called("chat", *args, typed=typed).told
    beginning = " ".join(chat.COMMANDS.split())
    assert told.startswith(beginning)
    return told.removeprefix(" ".join(chat.HELP.split())).removeprefix(beginning).strip()


def marked(err: str) -> list[str]:
    """The strategies that a list marks as the one in use."""
    return re.findall(r"^  \* (\S+)", err, flags=re.MULTILINE)


def test_it_answers_and_obeys(toy_run: Path) -> None:
    typed = "/[/b] x\n/beams\n/beams\nred cat\n\nblue dog\n/help\n/dance\n/quit\nnever read\n"

    call = called("chat", toy_run, *VBS, typed=typed)

    assert call.replies == ["red cat!", "blue dog!"]
    for told in (
        "There is no command /[/b] x; /help lists those there are.",
        "Hypotheses are shown.",
        "Hypotheses are hidden.",
        "There is no command /dance; /help lists those there are.",
    ):
        assert told in call.told
    assert call.told.count("/quit leave (so does the end of input)") == 2  # at the beginning, and asked for
    assert "rank" not in call.err
    assert called("chat", toy_run, *VBS, typed="white").out == "white!\n"  # it ends with its input


def test_help_names_every_command_and_explains_the_beams(toy_run: Path) -> None:
    assert said(toy_run, *VBS, typed="/help\n") == " ".join(chat.HELP.split())
    for command in ("/beams", "/strategy", "/strategy NAME", "/help", "/quit"):
        assert f"  {command}  " in chat.HELP
    assert "regular beam" in chat.HELP
    assert "reverse beam" in chat.HELP
    assert all(len(line) <= 80 for line in chat.HELP.splitlines()[1:-1])  # a table that folds is none


@pytest.mark.parametrize(
    ("typed", "nearest"), [("/beam", "/beams"), ("/stategy vbs", "/strategy"), ("/quti", "/quit")]
)
def test_a_command_that_is_not_one_is_answered_with_the_nearest(
    toy_run: Path, typed: str, nearest: str
) -> None:
    told = said(toy_run, *VBS, typed=f"{typed}\n")

    assert told == f"There is no command {typed}; /help lists those there are. Did you mean {nearest!r}?"


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [("vbs", ["regular"]), ("reverse-vbs", ["reverse"]), ("bidia", ["regular", "reverse"])],
)
@pytest.mark.parametrize("typed", ["/beams\nred cat\n", "red cat\n/beams\n"], ids=["before", "after"])
def test_beams_shows_what_the_strategy_chose_from(
    toy_run: Path, strategy: str, shown: list[str], typed: str
) -> None:
    call = called("chat", toy_run, "--strategy", strategy, "--beam-size", "4", typed=typed)

    tables = call.err.split("match in the reverse beam.", 1)[-1].split("in the reverse beam.", 1)[-1]
    assert re.findall(r"(regular|reverse) beam", tables) == shown
    assert call.err.count("◀ pair") == (2 if strategy == "bidia" else 0)  # the pair that won
    assert call.replies[0] in call.err  # it is one of those shown
    rows = [line for line in call.err.splitlines() if line.split()[:1] in (["1"], ["2"], ["3"], ["4"])]
    assert len(rows) == 4 // len(shown)


def test_without_pairs_beams_are_shown_as_they_are_ranked(unsure_run: Path) -> None:
    flags = ("--strategy", "bidis", "--lambda", "-3", "--beam-size", "6")

    call = called("chat", unsure_run, *flags, typed="/beams\nred cat dog\n")

    rows = [line.split() for line in call.err.splitlines() if re.match(r" +\d+ +-?\d", line)]
    assert [int(row[0]) for row in rows] == [1, 2, 3, 4, 5, 6]
    scores, log_probs = ([float(row[column]) for row in rows] for column in (1, 2))
    assert scores == sorted(scores, reverse=True)
    assert log_probs != sorted(log_probs, reverse=True)  # as the beam has them
    assert " ".join(rows[0][3:]) == call.replies[0]


def test_a_strategy_is_switched_and_may_be_quoted(toy_run: Path) -> None:
    switches = {'"bidia token_f1"': "blue dog", "'bidis'": "white", "“longest”": "black"}
    typed = "".join(f"/strategy {name}\n{line}\n" for name, line in switches.items())

    call = called("chat", toy_run, *VBS, typed=f"red cat\n{typed}/strategy\n")

    assert call.replies[:3] == ["red cat!", "blue dog!", "white!"]
    assert len(call.replies) == 4
    for told in ("bidia answers (similarity token_f1,", "bidis answers (lambda 1).", "longest answers."):
        assert f"From now on {told}" in call.told
    assert marked(call.err) == ["longest"]


def test_replies_are_those_of_the_strategy_in_use(unsure_run: Path) -> None:
    line = "red cat dog bird fish"

    def reply(*flags: str, typed: str = "") -> str:
        return called("chat", unsure_run, "--beam-size", "8", *flags, typed=f"{typed}{line}\n").replies[-1]

    alone = {name: reply("--strategy", name) for name in ("vbs", "longest", "reverse-vbs", "bidia")}
    assert len(set(alone.values())) > 1
    for name, expected in alone.items():
        other = "longest" if name != "longest" else "vbs"
        assert reply("--strategy", other, typed=f"{line}\n/strategy {name}\n") == expected


def test_the_strategies_are_listed_with_a_line_each(toy_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = called("chat", toy_run, *VBS, typed="/strategy\n")

    for name in USABLE.split(", "):
        (line,) = re.findall(rf"^  [* ] {re.escape(name)} +(\S.*\S) *$", call.err, flags=re.MULTILINE)
        assert line == chat.CHOICES[name]
    assert marked(call.err) == ["vbs"]
    told = (
        f"bidia, mbr and loglinear take a similarity ({', '.join(SIMILARITIES.names())}) behind their names"
    )
    assert told in call.told

    @dataclass(frozen=True)
    class Shout:
        """The loudest.

        More about it.
        """

    monkeypatch.setattr(STRATEGIES, "get", lambda _: Shout)
    assert chat.describe_strategy("shout") == "The loudest."  # another package's, by its own first line


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("bidi", f"Unknown strategy 'bidi'. Did you mean 'bidis'? Choose one of: {USABLE}."),
        ("oracle", f"oracle chooses by a reference, and a conversation has none. Choose one of: {USABLE}."),
        ("vbs bleu", "The system 'vbs bleu' cannot have the word 'bleu'. vbs takes no further words."),
        ("vbs-tuned", "vbs-tuned needs --length-exponent and --word-reward; `bidibeam tune` finds good"),
    ],
)
def test_a_strategy_that_cannot_be_used_changes_nothing(toy_run: Path, typed: str, message: str) -> None:
    call = called("chat", toy_run, *VBS, typed=f"/strategy {typed}\n/strategy\nred cat\n")

    assert message in call.told
    assert call.replies == ["red cat!"]
    assert marked(call.err) == ["vbs"]


def test_a_strategy_that_cannot_be_used_is_named_before_the_first_line(
    toy_run: Path, regular_run: Path
) -> None:
    for run, flags, message in (
        (toy_run, "bidis --agreement mean", "The strategy bidis has no option agreement. It has: --lambda."),
        (toy_run, "oracle", f"a conversation has none. Choose one of: {USABLE}."),
        (toy_run, "bidi", f"Choose one of: {USABLE}."),
        (regular_run, "bidis", "bidis needs the reverse direction, and run has only: regular."),
    ):
        assert message in refused("chat", run, "--strategy", *flags.split(), typed="white\n")
    assert "writes twice" in called("chat", toy_run, typed="/quit\n").told
    assert "writes twice" not in called("chat", regular_run, typed="/help\n/quit\n").told
    assert "Give a Hugging Face model for --reverse" in said(regular_run, *VBS, typed="/strategy bidis\n")
    shown = " ".join(called("chat", "--help").out.split())
    assert f"Who answers: {USABLE}." in shown
    assert "oracle" not in shown


def test_what_the_command_line_said_of_a_strategy_holds_when_it_comes_back(
    toy_run: Path, vectors: Path
) -> None:
    flags = ("--similarity", "wmd_t", "--vectors", vectors, "--answer", "either", "--beam-size", "4")
    names = ("vbs", "bidia", "bidia wmd", "bidia bleu")

    told = said(
        toy_run,
        *flags,
        *("--similarity-option", "form=ratio"),
        typed="".join(f"/strategy {name}\n" for name in names),
    )

    _, again, other, without = re.findall(r"From now on (?:.*?)\.(?= From|$)", told)
    for part in ("similarity wmd_t, vectors toy.vec@", "form ratio", "answer either"):
        assert part in again
    assert "similarity wmd, vectors toy.vec@" in other
    assert "form ratio" not in other
    assert "vectors" not in without
    assert "answer either" in without


@pytest.mark.parametrize("kind", ["bundled", "pair", "pair by --regular", "shared encoder", "ctranslate2"])
def test_every_kind_of_model_talks(pair: tuple[Path, Path], tmp_path: Path, kind: str) -> None:
    model: tuple[object, ...] = (pair[0], "--reverse", pair[1])
    if kind == "bundled":
        model = ()
    elif kind == "pair by --regular":
        model = ("--regular", *model)
    elif kind == "shared encoder":
        model = (write_joint(tmp_path / "joint"),)
    elif kind == "ctranslate2":
        export_converted(bidibeam.load(*pair), tmp_path / "fast", quantization="float32", overwrite=False)
        model = (tmp_path / "fast",)
    flags = ("--beam-size", "6", "--max-length", "7")
    typed = "\n".join((*SOURCES[:2], "/strategy bidia", SOURCES[2], "/beams", ""))

    call = called("chat", *model, *flags, typed=typed)

    sources = "".join(f"{source}\n" for source in SOURCES)
    named = (*model, "-") if model[:1] != ("--regular",) else model
    default, why = "bidis lambda=1", "the default"
    if kind == "bundled":
        default, why = "loglinear bleu_t closest both", "recommended"
    expected = [
        called("decode", *named, *flags, "--strategy", strategy, typed=sources).replies
        for strategy in (default, "bidia")
    ]
    assert call.replies == [*expected[0][:2], expected[1][2]]
    assert call.told.startswith("No model was named") == (kind == "bundled")
    assert f"Strategy: {default} ({why}" in call.told
    assert "From now on bidia answers (similarity bleu_t" in call.told
    assert "The two beams, and the pair that won" in call.told


def test_replies_alone_are_piped_while_a_person_types(toy_run: Path) -> None:
    """The prompt must not end up among them."""
    main_end, terminal = pty.openpty()
    os.write(main_end, b"red cat\n/beams\nwhite\n/quit\n")
    command = [sys.executable, "-m", "bidibeam.cli.main", "chat", str(toy_run), *VBS]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, stdin=terminal, capture_output=True, text=True, env=environment, check=True, timeout=120
    )
    os.close(terminal)
    os.close(main_end)

    assert done.stdout == "red cat!\nwhite!\n"
    assert done.stderr.count("you> ") == 4


def test_a_file_of_tuned_settings_that_nobody_needs_is_no_hindrance(copied_run: Path) -> None:
    (copied_run / "tuned.json").write_text("{")

    assert called("chat", copied_run, *VBS, typed="red\n").status == 0
    assert "tuned.json is damaged" in refused("chat", copied_run, typed="red\n")


def test_a_lambda_of_nothing_is_explained(copied_run: Path) -> None:
    tuned = {"format_version": 2, "weights": bidibeam.load(copied_run).fingerprint}

    def switched(value: float, *flags: object) -> str:
        write_lines(copied_run / "tuned.json", {**tuned, "options": {"bidis": {"lambda_": value}}})
        return called("chat", copied_run, "--beam-size", 3, *flags, typed="/strategy bidis\n").told

    told = switched(0.0, "--strategy", "vbs")
    assert "From now on bidis answers (lambda 0). Lambda 0 was tuned, so it answers as vbs does;" in told
    assert "with --strategy bidis --lambda 0.5." in told
    assert "answers as vbs" not in switched(0.5, "--strategy", "vbs")
    assert "(lambda 0). So it answers as vbs does" in switched(0.5, "--strategy", "bidis", "--lambda", 0)
