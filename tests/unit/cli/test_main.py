"""The command line's front door: quick help, one sentence for every error; and `bidibeam prepare`."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest
from click.testing import CliRunner

from bidibeam.cli import main as front
from bidibeam.cli.prepare import prepare
from bidibeam.data.corpora import CORPORA
from bidibeam.data.prepare import PrepareSettings
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError
from bidibeam.search.stopping import STOPPING
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES
from tests.unit.cli.calls import called

NO_MEMORY = "Error: There is not enough memory; a smaller batch, beam or vocabulary needs less.\n"
Fail = Callable[[BaseException], None]


@pytest.fixture
def fail_with(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Gives the command line a command `fail` that raises this."""

    def set_error(error: BaseException) -> None:
        def fail() -> NoReturn:
            raise error

        monkeypatch.setitem(front.bidibeam.commands, "fail", click.Command("fail", callback=fail))

    return set_error


def in_process(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([sys.executable, "-c", code], text=True, check=False, **piped)


def test_help_imports_nothing_heavy() -> None:
    """Nor does the list of commands import one of them."""
    code = (
        "import sys; from bidibeam.cli.main import COMMANDS, run\n"
        "heavy = {'torch', 'numpy', 'numba', 'transformers', 'rich', 'safetensors', 'sacrebleu'}\n"
        "for command in ([], *([name] for name in COMMANDS)):\n"
        "    run([*command, '--help']); print(command, heavy & set(sys.modules), file=sys.stderr)\n"
        "    assert command or not {'tokenizers', 'bidibeam.cli.options'} & set(sys.modules)"
    )

    finished = in_process(code)

    commands = [[], *([name] for name in front.COMMANDS)]
    assert finished.stderr.splitlines() == [f"{command} set()" for command in commands]
    for command in front.COMMANDS:
        assert f"\nUsage: bidibeam {command} " in finished.stdout


def test_commands_on_lists_load_no_pytorch(beams: Path) -> None:
    commands = [["rerank"], ["convert"], ["evaluate"], ["analyse", "--analysis", "ranks"]]
    code = (
        "import sys, rich.progress; from bidibeam.cli.main import run\n"
        f"for name, *flags in {commands}:\n"
        f"    print(run([name, {str(beams)!r}, *flags]), 'torch' in sys.modules)"
    )

    told = in_process(code).stdout.splitlines()

    assert [line for line in told if line in ("0 False", "0 True", "1 False", "1 True")] == ["0 False"] * 4


@pytest.mark.parametrize("command", [[], ["decode"]])
def test_help_is_quick(command: list[str]) -> None:
    """In time of the processor, since the machine may be busy with others."""

    def used_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    quickest = math.inf
    for _ in range(3):  # the first compiles
        began = used_s()
        in_process(f"from bidibeam.cli.main import run; run({[*command, '--help']})")
        quickest = min(quickest, used_s() - began)

    assert quickest < 0.5


def test_help_walks_through_and_lists_every_command() -> None:
    text = CliRunner().invoke(front.bidibeam, ["--help"]).output

    walk = [line.split()[1] for line in text.splitlines() if line.startswith("  bidibeam ")]
    assert walk == ["chat", "reproduce", "prepare", "train", "tune", "decode", "rerank", "evaluate"]
    listed = [f"{name} {short_help}" for name, short_help in front.COMMANDS.items()]
    assert " ".join(listed) in " ".join(text.split()).replace("- ", "-")  # a hyphen may end a line
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("name", front.COMMANDS)
def test_the_table_repeats_the_first_line_of_the_commands_own_help(name: str) -> None:
    command = front.load_command(name)

    assert command.name == name
    assert (command.help or "").splitlines()[0] == front.COMMANDS[name]


@pytest.mark.parametrize("name", ["decode", "rerank", "tune", "chat"])
def test_help_names_every_strategy_similarity_and_stopping_rule(name: str) -> None:
    words = set(re.split(r"[\s,.:[]+", CliRunner().invoke(front.bidibeam, [name, "--help"]).output))

    if name != "tune":
        without = {"oracle"} if name == "chat" else set()  # it has no references
        assert {*STRATEGIES.names(), *SIMILARITIES.names()} - without <= words
    if name != "rerank":
        assert set(STOPPING.names()) <= words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Commands:"),
        (
            ["trian"],
            "Error: No command is called 'trian'. Did you mean 'train'? There are: prepare, train, tune,",
        ),
        (["zzz"], f"Error: No command is called 'zzz'. There are: {', '.join(front.COMMANDS)}."),
        (["--nonsense"], "--nonsense"),
        (["report", ""], "Invalid value for 'PATH': it is empty."),
        (["prepare", "--out", "a\udcff"], "'a\\udcff' is not UTF-8. Give it another name."),
        (["analyse", "--examples", "9" * 20], f"{'9' * 20} is not in the range 0<=x<=1000000000."),
        (
            ["rerank", "x", "--seed", "9" * 9000],
            f"--seed': '{'9' * 299} ... {'9' * 99}' is not a valid integer.",
        ),
    ],
)
def test_wrong_usage_is_answered_with_what_there_is(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert front.run(arguments) == 2
    assert message in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SettingsError("The setting x is 3; it must be 4."), "Error: The setting x is 3; it must be 4.\n"),
        (OSError(errno.ENOSPC, "No space left", "/run/x"), "Error: /run/x: No space left.\n"),
        (PermissionError(errno.EACCES, "Permission denied"), "Error: Permission denied.\n"),
        (OSError("the tape is torn"), "Error: the tape is torn\n"),
        (MemoryError(), NO_MEMORY),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA"), NO_MEMORY),  # named as torch names its own
        (SettingsError(f"x is {'y' * 10_000}!"), f"Error: x is {'y' * 300} ... {'y' * 99}!\n"),
        (SettingsError("y " * 10_000), f"Error: {'y ' * 675} ... {'y ' * 225}\n"),
    ],
)
def test_an_error_is_one_sentence_and_debug_shows_where_it_came_from(
    error: Exception, message: str, fail_with: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(error)

    assert front.run(["fail"]) == 1
    assert capsys.readouterr() == ("", message)
    assert front.run(["--debug", "fail"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "raise error" in err
    assert err.endswith(f"\n{message}")


@pytest.mark.parametrize("error", [RecursionError("a b"), ValueError("a\nb"), UnicodeError("a b")])
def test_a_bug_of_ours_says_so(error: Exception, fail_with: Fail, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(error)

    assert front.run(["fail"]) == 1
    told, said = capsys.readouterr().err, f"{type(error).__name__}: a b in cli/main.py:"
    assert re.match(rf"Error: This is a bug of bidibeam \({re.escape(said)}\d+\); please report it ", told)
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("name", "sentence", "told"),
    [
        ("decode", "beam_size must be at least 1.", "--beam-size must be at least 1."),
        ("decode", "Give `vectors`, a file.", "Give --vectors, a file."),
        ("decode", "stopping must be one of: a.", "--stopping must be one of: a."),
        ("decode", "It has: lambda_.", "It has: --lambda."),
        ("decode", "runs/max_length/x has no 'beam_size'.", None),
        ("decode", "The similarity bleu_t has: order, max_length.", None),
        ("train", "Unknown setting x. Valid settings: seed, batch_size.", None),
        ("rerank", "max_length must be at least 1, not 0.", "--max-length must be at least 1, not 0."),
        ("rerank", "It needs lambda_ and word_reward.", "It needs --lambda and --word-reward."),
        ("rerank", "Say it by from_format, or set `words`.", "Say it by --from, or set --words."),
        ("rerank", "answer must be one of a, b.", "--answer must be one of a, b."),
        ("rerank", "There is no answer to that.", None),
        ("rerank", 'in.jsonl, line 2: "log_prob" must be a number.', None),
        ("rerank", "runs/max_length/x, max_length.txt", None),
        ("rerank", "other settings: max_length:20.", None),
        ("rerank", "beam_size is no parameter of this command.", None),
    ],
)
def test_the_librarys_parameters_become_flags_of_the_command(
    name: str, sentence: str, told: str | None
) -> None:
    command = front.load_command(name)

    assert front.name_flags(sentence, command) == (told or sentence)
    assert front.name_flags(sentence, None) == sentence


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (click.exceptions.Exit(3), 3)])
def test_an_interrupt_is_130_a_commands_own_status_is_kept(
    error: BaseException, status: int, fail_with: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(error)

    assert front.run(["fail"]) == status
    told = "Interrupted. The same command begins again." if status == 130 else ""
    assert capsys.readouterr().err.strip() == told


def test_an_interrupt_that_an_import_swallowed_is_one_all_the_same(
    fail_with: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(front.Interruption, "received", signal.SIGTERM)
    fail_with(AttributeError("module 'numpy' has no attribute 'multiply'"))

    assert front.run(["fail"]) == 143
    assert capsys.readouterr().err.startswith("Interrupted.")


@pytest.mark.parametrize("error", [RunError("No."), click.UsageError("No.")])
@pytest.mark.parametrize("rank", ["0", "1"])
def test_of_several_processes_the_first_says_at_once_what_is_wrong_and_others_if_they_live_on(
    error: Exception,
    rank: str,
    fail_with: Fail,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told_before_waiting = []
    monkeypatch.setattr("time.sleep", lambda _: told_before_waiting.append(capsys.readouterr().err))
    monkeypatch.setenv("RANK", rank)
    fail_with(error)

    front.run(["fail"])

    assert told_before_waiting == ([""] if rank == "1" else [])
    assert "Error: No." in capsys.readouterr().err


RESUMED = "Interrupted. The same command with --resume goes on from what is done.\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("train data --out run", RESUMED),
        ("--debug decode run in.txt --n-best=out.jsonl", RESUMED),
        ("rerank in.jsonl --n-best out.jsonl", RESUMED),
        ("decode run in.txt", "Interrupted. The same command begins again.\n"),
        ("export run --out out", "Interrupted. The same command begins again.\n"),
        ("reproduce", "Interrupted. The same command goes on from what is done.\n"),
        ("chat", "Interrupted.\n"),
        ("", "Interrupted.\n"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_interrupted_says_how_to_go_on(
    words: str,
    told: str,
    number: signal.Signals,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise front.Interruption(number)

    monkeypatch.setattr(front.CommandGroup, "resolve_command", interrupt)
    monkeypatch.setattr(front.CommandGroup, "parse_args", interrupt)

    assert front.run(words.split()) == 128 + number
    assert capsys.readouterr().err.strip("\n") == told.strip("\n")


@pytest.mark.parametrize("lines", [1, 100_000], ids=["at the last flush", "in the middle"])
def test_a_reader_that_leaves_is_no_reason_to_complain(lines: int) -> None:
    code = (
        "import sys, click; from bidibeam.cli import main as front\n"
        "@front.bidibeam.command()\n"
        f"def flood(): sys.stdout.writelines('reply\\n' for _ in range({lines}))\n"
        "front.main(['flood'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    done = in_process(code, env=environment, stdout=writer)
    os.close(writer)

    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("redirected", "told"),
    [
        ("rerank - <&-", "Error: <stdin> cannot be read: Bad file descriptor.\n"),
        ("convert - --to moses <&- >&-", "Error: <stdin> cannot be read: Bad file descriptor.\n"),
        ("convert {lists} >&-", "Error: <stdout>: Bad file descriptor.\n"),
        ("rerank {lists} >/dev/full", "Error: <stdout>: No space left on device.\n"),
        ("convert {lists} --to moses >/dev/full", "Error: <stdout>: No space left on device.\n"),
        ("--help >/dev/full", "Error: <stdout>: No space left on device.\n"),
        ("rerank {lists} --n-best /dev/full", "Error: /dev/full: No space left on device.\n"),
        ("rerank {lists} >/dev/null <&-", ""),
    ],
)
def test_streams_that_cannot_be_used_are_named(redirected: str, told: str, lists: Path) -> None:
    command = f"{sys.executable} -m bidibeam {redirected.format(lists=lists)}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)

    assert done.stderr.endswith(told)
    assert bool(done.returncode) == bool(told)


def test_replies_are_utf8_whatever_the_terminal_claims() -> None:
    code = (
        "import click; from bidibeam.cli import main as front\n"
        "@front.bidibeam.command()\n"
        "def say(): click.echo('\\u00e9t\\u00e9 \\ud800')\n"
        "front.main(['say'])"
    )
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}

    done = in_process(code, env=environment, encoding="utf-8")

    assert done.stdout == "été \\ud800\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    pairs = [{"source": f"tea {i}?", "response": f"yes {i}."} for i in range(50)]
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(map(json.dumps, [*pairs, {"source": "tea?", "response": "no " * 30}])))
    return path


def test_prepare_tells_what_came_of_it_and_what_comes_next(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("prepare", "jsonl", "--source", corpus, "--out", out, "--seed", "5")

    call, again = called(*command), called(*command, "--keep-text", "--overwrite")

    assert (call.status, call.out) == (0, "")
    assert PreparedData.open(out).info["settings"]["seed"] == 5
    for expected in ("pairs kept", "dropped: response too long", "51 lines read, 0 malformed", "longest 30"):
        assert expected in call.told
    assert call.told.endswith(f"Next: bidibeam train {out} --out RUN")
    assert again.told.endswith(f"Next: bidibeam train {out} --base MODEL --out FOLDER")
    few = "too few to choose settings on; a larger --validation-share than 0.01 keeps more."
    assert re.search(rf"Note: validation has \d items?, which is {re.escape(few)}", call.told)


def test_prepare_names_the_first_malformed_line(corpus: Path, tmp_path: Path) -> None:
    lines = corpus.read_text().splitlines() * 3
    corpus.write_text("\n".join([*lines[:99], '{"source": "tea?"', *lines[99:]]))

    call = called("prepare", "jsonl", "--source", corpus, "--out", tmp_path / "out")

    assert "154 lines read, 1 malformed; the first is line 100 of c.jsonl (" in call.told


def test_prepare_tells_where_the_splits_come_from_and_what_training_knows_of_them(tmp_path: Path) -> None:
    words = {"train": "tea", "test_a": "tea", "test_b": "milk"}
    for name, word in words.items():
        lines = [f"{word} {place} ?\tyes" for place in range(50 if name == "train" else 2)]
        (tmp_path / f"{name}.tsv").write_text("\n".join([*lines, f"{name}\tno", f"{name}\t{'yes ' * 30}"]))

    call = called(
        "prepare", "tsv", "--source", tmp_path, "--out", tmp_path / "out", "--validation-share", "0.1"
    )

    assert call.status == 0
    told = " ".join(call.told.split())
    for expected in (
        "Official splits: train train.tsv; validation taken out of training by hash of sources; test test_a",
        "Test sets: test_a 3, test_b 3.",
        "Note: The official test split keeps 2 pairs longer than the limits.",
        "Warning: 2 of 3 sources of test_a (67 %) also stand in training, case ignored: scores on them say",
    ):
        assert expected in told
    assert re.search(
        r"Also in training: 0 of \d+ sources of validation, 2 of 3 sources of test_a, 0 of 3", told
    )
    assert "sources of test_b also" not in told
    assert "in validation: what is chosen there" not in told
    assert "The official test split has 8 pairs and 6 items: equal sources are one item, and" in told
    assert "no reply can equal" not in told
    assert re.search(r"sources, with all references │ +- │ +\d+ │ +6 │", told)


def test_prepare_tells_what_would_spoil_a_measure(tmp_path: Path) -> None:
    for name, lines in {
        "train": [f"tea {place} ?\tyes" for place in range(50)],
        "valid": ["milk ?\tyes", "oh\tyes"],
        "test": ["milk ?\t„yes“", "milk ?\t„yes“", "so\tyes"],
    }.items():
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines))

    told = " ".join(called("prepare", "tsv", "--source", tmp_path, "--out", tmp_path / "out").told.split())

    for expected in (
        "Warning: 1 of 2 sources of test also stand in validation: what is chosen there is chosen on them.",
        "Note: The official test split has 3 pairs and 2 items: equal sources are one item, and blank",
        "Note: no reply can equal 1 of 2 references of test, which the tokenizer writes otherwise, such as",
    ):
        assert expected in told
    assert re.search(r"repeated, kept once │ +0 │ +0 │ +1 │", told)


def test_unequal_line_counts_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_text("ja\nnein\n")
    (tmp_path / "train.en").write_text("yes\n")
    languages = ("--source-lang", "de", "--target-lang", "en")

    call = called("prepare", "bitext", "--source", tmp_path, "--out", tmp_path / "out", *languages)

    assert call.status == 1
    assert call.err.splitlines()[-1] == (
        "Error: train.de has 2 lines and train.en 1, but each line needs a partner: line 2 of train.de is "
        "the first without one."
    )


def test_every_setting_of_prepare_is_an_option_with_the_same_default() -> None:
    given = prepare.make_context("prepare", ["--out", "data"]).params

    for field in fields(PrepareSettings):
        assert given[field.name] == field.default, field.name
    told = called("prepare", "--help").out
    assert all(name in told for name in CORPORA.names())


@pytest.mark.parametrize("command", [("prepare", "jsonl"), ("reproduce", "--corpus", "jsonl")])
def test_an_error_is_the_last_line_and_nothing_empty_stands_before_it(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    call = called(*command, "--source", tmp_path / "none.jsonl", "--out", tmp_path / "out")

    assert call.status == 1
    *_, before, sentence = ["heading", *call.err.splitlines()]
    assert sentence.startswith("Error: ")
    assert before.strip()


def test_the_splits_of_json_lines_that_name_some_of_them_are_told_as_they_are(tmp_path: Path) -> None:
    lines = [{"source": f"tea {place}", "response": "yes"} for place in range(60)]
    held_out = [{"source": f"milk {place}", "response": "no", "split": "test"} for place in range(3)]
    source = tmp_path / "mix.jsonl"
    source.write_text("".join(f"{json.dumps(line)}\n" for line in (*lines, *held_out)))

    told = called("prepare", "jsonl", "--source", source, "--out", tmp_path / "out").told

    assert (
        "Official splits: train all other pairs; validation taken out of training by hash of sources; test"
        in " ".join(told.split())
    )
