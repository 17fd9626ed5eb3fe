"""The whole experiment, on a toy corpus: from text to a report, killed and gone on with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bidibeam.cli.main import run
from tests.conftest import write_toy_corpus

SETTINGS = {
    "prepare.limit": "null",
    "prepare.vocabulary_size": "100",
    "model.embedding_size": "16",
    "model.encoder_size": "16",
    "model.decoder_size": "32",
    "model.attention_size": "16",
    "model.readout_size": "24",
    "training.epochs": "3",
    "training.learning_rate": "0.01",
    "training.save_every": "5",
    "training.tensorboard": "false",
    "beam_sizes": "[1,4,5]",
    "systems": "[vbs,vbs-tuned,bidis,bidia bleu_t,bidia wmd_t,bidia bleu_t tuned,longest,reverse-vbs,oracle]",
    "search.max_length": "9",
    "sources": "12",
    "validation_sources": "8",
    "cost_sources": "4",
    "cost_turns": "1",
    "examples": "3",
}


def arguments(folder: Path, **changed: str) -> list[str]:
    corpus = folder / "pairs.tsv"
    if not corpus.is_file():
        write_toy_corpus(corpus, 900)
    settings = {**SETTINGS, **{name.replace("__", "."): value for name, value in changed.items()}}
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return [
        "reproduce",
        *("--corpus", "tsv", "--source", str(corpus), "--preset", "demo", "--workers", "1"),
        *("--out", str(folder / "out"), "--device", "cpu", *flags),
    ]


def stages(told: str) -> list[str]:
    """The stages that ran, by their headings."""
    return re.findall(r"^\d+/\d+  ([^:\n]*?)(?:, going on)? ─", told, flags=re.MULTILINE)


def test_an_experiment_ends_with_a_report_and_repeats_only_what_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    assert run(arguments(tmp_path)) == 0

    told = capsys.readouterr().err
    assert stages(told)[0] == "prepare"
    assert stages(told)[-1] == "report"
    for seen in ("The two beams", "A source they disagree on", "bleu", "oracle", "What to try next"):
        assert seen in told
    results = json.loads((out / "results.json").read_text())
    check_results(results)
    for name in ("report.html", "report.md"):
        assert "bidia" in (out / name).read_text()
    assert {path.suffix for path in (out / "figures").iterdir()} == {".svg", ".png"}

    assert run(arguments(tmp_path)) == 0
    again = capsys.readouterr().err
    assert stages(again) == []
    assert "Everything was done already" in again

    assert run(arguments(tmp_path, examples="2")) == 0
    assert stages(capsys.readouterr().err) == ["evaluate seed 0", "gather seed 0", "report"]

    assert run([*arguments(tmp_path, examples="2"), "--seeds", "2"]) == 0
    ran = stages(capsys.readouterr().err)
    assert ran[0] == "train seed 1"
    assert all(name == "report" or "seed 1" in name for name in ran)
    assert [seed["seed"] for seed in json.loads((out / "results.json").read_text())["seeds"]] == [0, 1]


def check_results(results: dict[str, Any]) -> None:
    (seed,) = results["seeds"]
    assert results["sources"] == 12
    assert set(seed["systems"]["vbs"]) == {"1", "4", "5"}
    assert set(seed["systems"]["bidia bleu_t"]) == {"4", "5"}  # two directions need two hypotheses
    row = seed["systems"]["bidia wmd_t"]["5"]
    assert "similarity:wmd_t|vectors:model|" in row["signature"]
    assert "beam_size:5|" in row["signature"]
    assert row["scores"]["bleu"]["low"] <= row["scores"]["bleu"]["value"] <= row["scores"]["bleu"]["high"]
    assert "tok:none" in row["scores"]["bleu"]["signature"]
    best = seed["systems"]["oracle"]["5"]["scores"]["sentence_bleu"]["value"]
    others = ("vbs", "vbs-tuned", "bidis", "longest")
    assert all(best >= seed["systems"][name]["5"]["scores"]["sentence_bleu"]["value"] for name in others)
    assert set(seed["tuned"]["5"]) == {"bidis", "vbs-tuned", "bidia bleu_t"}
    assert {test["baseline"] for test in seed["tests"]} == {"vbs", "vbs-tuned"}
    assert {"ranks", "headroom", "diversity", "sensitivity", "examples", "cost"} <= set(seed["analyses"])
    assert seed["perplexity"]["regular"]["value"] > 1
    assert not any(
        str(value).startswith("/") for value in json.dumps(results).split('"')
    )  # no machine's paths


def test_a_killed_experiment_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    command = [sys.executable, "-m", "bidibeam.cli.main"]
    process = subprocess.Popen(
        [*command, *arguments(killed)], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 120
    training = killed / "out" / "seed-0" / "run" / "training"
    while process.poll() is None and time.monotonic() < deadline:
        if training.is_dir() and any(training.iterdir()):
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.005)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (killed / "out" / "results.json").exists()

    for folder in (killed, whole):
        ended = subprocess.run(
            [*command, *arguments(folder)], env=environment, check=True, capture_output=True, text=True
        )
        assert ("train seed 0, going on" in ended.stderr) == (folder == killed)

    def results(folder: Path) -> dict[str, object]:
        read = json.loads((folder / "out" / "results.json").read_text())
        for seed in read["seeds"]:
            del seed["analyses"]["cost"]  # times differ
        return dict(read)

    assert results(killed) == results(whole)
