"""The commands that need a run, as a user calls them."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from bidibeam.cli.main import run
from bidibeam.data.prepared import PreparedData
from bidibeam.interchange import nbest
from bidibeam.training import state


class Typed:
    """What a user types, as stdin has it: text over bytes."""

    def __new__(cls, text: str) -> io.TextIOWrapper:  # type: ignore[misc]
        return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")


def test_decode_answers_stdin_line_by_line(
    toy_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("red cat\n\nblue dog fish\n"))

    assert run(["decode", str(toy_run)]) == 0

    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "red cat!"
    assert lines[2] == "blue dog fish!"
    assert lines[3:] == [""]


def test_replies_go_to_stdout_even_if_a_terminal_shows_progress(toy_run: Path, tmp_path: Path) -> None:
    """rich takes stdout over while a bar is shown on a terminal, unless it is told not to."""
    sources, replies = tmp_path / "sources.txt", tmp_path / "replies.txt"
    sources.write_text("red cat\nwhite\n")
    main_end, terminal = pty.openpty()
    with replies.open("wb") as out:
        command = [sys.executable, "-m", "bidibeam.cli.main", "decode", str(toy_run), str(sources)]
        environment = {**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"}
        subprocess.run(command, stdout=out, stderr=terminal, env=environment, check=True)
    os.close(terminal)
    os.close(main_end)

    assert replies.read_text() == "red cat!\nwhite!\n"


@pytest.mark.parametrize("direction", ["regular", "reverse"])
def test_decode_writes_every_hypothesis_with_both_opinions(
    toy_run: Path,
    toy_data: PreparedData,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    direction: str,
) -> None:
    sources, out = toy_data.path / "test.jsonl", tmp_path / "beams.jsonl"

    status = run(
        [
            "decode",
            str(toy_run),
            str(sources),
            "--beam-size",
            "4",
            "--direction",
            direction,
            "--n-best",
            str(out),
        ]
    )

    assert status == 0
    examples = list(toy_data.examples("test"))
    read = list(nbest.read(out))
    replies = capsys.readouterr().out.splitlines()
    assert [line.id for line in read] == [example["id"] for example in examples]
    assert [line.reference for line in read] == [example["reference"] for example in examples]
    for line, reply in zip(read, replies, strict=True):
        found, other = (
            (line.regular, line.reverse) if direction == "regular" else (line.reverse, line.regular)
        )
        assert not len(other)
        assert 1 <= len(found) <= 4
        assert found.best.text == reply
        assert all(hypothesis.other_log_prob is not None for hypothesis in found)
    assert set(json.loads(out.read_text().splitlines()[0])) == {
        "id",
        "source",
        "reference",
        "regular",
        "reverse",
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--beam-size", "0"], "Error: --beam-size must be at least 1, not 0."),
        (["--max-length", "0"], "Error: --max-length must be at least 1, not 0."),
        (["--length-penalty", "nan"], "Error: --length-penalty must be a finite number, not nan."),
        (["--stopping", "shrink"], "Error: Unknown stopping rule 'shrink'. Did you mean 'shrinking'?"),
        (
            ["--length-penalty", "-50000"],
            "Error: --length-penalty must lie between -10 and 10, not -50000.0.",
        ),
        (["--beam-size", "100000000000"], "Error: --beam-size must be at most 100,000, not 100,000,000,000."),
        (["--device", "toaster"], "Error: There is no device 'toaster' here"),
    ],
)
def test_decode_says_what_is_wrong_with_a_flag(
    toy_run: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert run(["decode", str(toy_run), "-", *flags]) == 1

    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_decode_never_overwrites_its_input(
    toy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = tmp_path / "sources.jsonl"
    sources.write_text('{"source": "red"}\n')

    assert run(["decode", str(toy_run), str(sources), "--n-best", str(sources)]) == 1

    assert "--n-best would overwrite the input" in capsys.readouterr().err
    assert sources.read_text() == '{"source": "red"}\n'


def test_a_directory_around_a_run_points_at_the_run(
    toy_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["info", str(toy_run.parent)]) == 1

    assert f"Did you mean {toy_run}?" in capsys.readouterr().err.replace("\n", "")


def test_decode_leaves_no_half_written_file(
    toy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, out = tmp_path / "broken.jsonl", tmp_path / "out" / "beams.jsonl"
    broken.write_text('{"source": "red"}\n{"source": 7}\n')

    status = run(["decode", str(toy_run), str(broken), "--n-best", str(out), "--batch-size", "1"])

    assert status == 1
    assert "line 2" in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("command", ["decode", "chat", "info"])
def test_a_directory_that_is_no_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run([command, str(tmp_path / "nowhere")]) == 1

    assert "is not a run directory: it has no config.json" in capsys.readouterr().err


def test_a_missing_input_file_is_named(toy_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decode", str(toy_run), "no-such-file.txt"]) == 1

    assert "no-such-file.txt" in capsys.readouterr().err


def test_chat_answers_and_obeys(
    toy_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = (
        "red cat\n/[/b] x\n/beams\nblue dog\n\n/reverse\nwhite\n/reverse\n/help\n/dance\n/quit\nnever read\n"
    )
    monkeypatch.setattr("sys.stdin", Typed(typed))

    assert run(["chat", str(toy_run), "--beam-size", "3"]) == 0

    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["red cat!", "blue dog!", "white!"]
    for told in (
        "Hypotheses are shown.",
        "regular beam",
        "The reverse decoder answers now.",
        "reverse beam",
        "The regular decoder answers now.",
        "There is no command /dance; /help lists those there are.",
    ):
        assert told in captured.err


def test_chat_ends_with_its_input(
    toy_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("white"))

    assert run(["chat", str(toy_run)]) == 0
    assert capsys.readouterr().out == "white!\n"


def test_info_tells_shape_data_and_progress(toy_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(toy_run)]) == 0

    told = capsys.readouterr().err
    for word in ("parameters", "regular validation perplexity", "decoder_size", "fingerprint", "batch_size"):
        assert word in told


def test_info_as_json_goes_to_stdout(toy_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(toy_run), "--json"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert facts["model"]["decoder_size"] == 32
    assert facts["vocabulary"] == 15
    assert facts["progress"]["steps"] > 0


def test_train_resumes_with_its_own_settings_and_starts_from_vectors(
    toy_data: PreparedData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors, out = tmp_path / "v.vec", tmp_path / "run"
    vectors.write_text("2 16\n" + "".join(f"{word} {' '.join(['0.5'] * 16)}\n" for word in ("red", "cat")))
    sizes = ["embedding_size=16", "encoder_size=8", "decoder_size=16", "attention_size=8", "readout_size=16"]
    flags = [word for size in sizes for word in ("--set", f"model.{size}")]
    flags += ["--set", "training.max_steps=3", "--set", "training.batch_size=16"]

    assert run(["train", str(toy_data.path), "--out", str(out), "--vectors", str(vectors), *flags]) == 0
    first = capsys.readouterr().err
    assert run(["train", str(toy_data.path), "--out", str(out), "--resume"]) == 0
    second = capsys.readouterr().err
    longer = ["--resume", "--set", "training.max_steps=5"]
    assert run(["train", str(toy_data.path), "--out", str(out), *longer]) == 0
    third = capsys.readouterr().err

    assert "Vectors for 2 of 15 tokens (13.3%)" in first.replace("\n", " ")
    assert "Stopped by max_steps after step 3" in first.replace("\n", " ")
    assert "from step 3" in second
    newest = state.newest(out)
    assert newest is not None
    assert newest.name == "step-00000005"
    assert "Stopped by max_steps after step 5" in third.replace("\n", " ")


def test_train_names_data_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", str(tmp_path / "none"), "--out", str(tmp_path / "run")]) == 1

    assert "make it with `bidibeam prepare" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_reader_that_leaves_early_is_no_error(toy_run: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources.txt"
    sources.write_text("red cat\n" * 400)
    command = f"{sys.executable} -m bidibeam.cli.main decode {toy_run} {sources} | head -n 1"

    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert done.stdout == "red cat!\n"
    assert "Traceback" not in done.stderr
