"""The whole experiment, on a toy corpus: from text to a report, killed and gone on with."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from bidibeam.decoding.decoder import ModelGenerator
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange import nbest
from bidibeam.models.control import ControlModel
from bidibeam.models.loading import load
from bidibeam.search.settings import SearchSettings
from tests.conftest import without_drawing, write_toy_corpus
from tests.unit.cli.calls import called
from tests.unit.models.huggingface.folders import write_pair

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
    "beam_sizes": "[1,5]",
    "systems": "[vbs,vbs-tuned,bidis,bidia bleu_t,bidia wmd_t,bidia bleu_t tuned,longest,reverse-vbs,oracle]",
    "search.max_length": "9",
    "sources": "12",
    "validation_sources": "8",
    "cost_sources": "4",
    "cost_turns": "1",
    "examples": "3",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "pairs.tsv"
    write_toy_corpus(path, 650)
    return path


def arguments(corpus: Path, out: Path, **changed: str) -> list[str]:
    settings = {**SETTINGS, **{name.replace("__", "."): value for name, value in changed.items()}}
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return [
        "reproduce",
        *("--corpus", "tsv", "--source", str(corpus), "--preset", "demo", "--workers", "1"),
        *("--out", str(out), "--device", "cpu", *flags),
    ]


@dataclass(frozen=True)
class Experiment:
    """One that came to its end; whoever goes on with it takes a copy."""

    out: Path
    told: str


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    out = tmp_path_factory.mktemp("whole") / "out"
    with without_drawing():  # a killed one is drawn to its end
        call = called(*arguments(corpus, out))
    assert call.status == 0, call.err
    return Experiment(out, call.err)


def stages(told: str) -> list[str]:
    """The stages that ran, by their headings."""
    return re.findall(r"^\d+/\d+  ([^:\n]*?)(?:, going on)? ─", told, flags=re.MULTILINE)


def read_results(out: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((out / "results.json").read_text())
    return results


def test_an_experiment_ends_with_a_report(whole: Experiment) -> None:
    assert stages(whole.told)[0] == "prepare"
    assert stages(whole.told)[-1] == "report"
    for seen in ("The two beams", "A source they disagree on", "bleu", "oracle", "What to try next"):
        assert seen in whole.told
    check_results(read_results(whole.out))
    for name in ("report.html", "report.md"):
        assert "bidia" in (whole.out / name).read_text()


@pytest.mark.usefixtures("undrawn")
def test_an_experiment_repeats_only_what_changed(whole: Experiment, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)

    def told(*flags: str, **changed: str) -> str:
        call = called(*arguments(corpus, out, **changed), *flags)
        assert call.status == 0, call.err
        return call.err

    again = told()
    assert stages(again) == []
    assert "Everything was done already" in again

    ran = stages(told("--seeds", "2", examples="2"))
    assert (ran[0], ran[-1]) == ("train seed 1", "report")
    assert [name for name in ran[:-1] if "seed 1" not in name] == ["evaluate seed 0", "gather seed 0"]
    assert [seed["seed"] for seed in read_results(out)["seeds"]] == [0, 1]


def test_a_device_that_there_is_none_of_is_refused_before_anything_is_written(
    corpus: Path, tmp_path: Path
) -> None:
    call = called(*arguments(corpus, tmp_path / "out"), "--device", "abacus")

    assert call.status == 1
    assert call.told.startswith("Error: There is no device 'abacus' here that can compute.")
    assert not (tmp_path / "out").exists()


def check_results(results: dict[str, Any]) -> None:
    (seed,) = results["seeds"]
    assert results["sources"] == 12
    assert set(seed["systems"]["vbs"]) == {"1", "5"}
    assert set(seed["systems"]["bidia bleu_t"]) == {"5"}  # two directions need two hypotheses
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
    assert results["constant"]["references"]["sources"] == results["sources"]
    assert results["constant"]["chosen"]["reply"]
    assert not any(
        str(value).startswith("/") for value in json.dumps(results).split('"')
    )  # no machine's paths


def test_a_killed_experiment_goes_on_and_ends_the_same(
    whole: Experiment, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    command = [sys.executable, "-m", "bidibeam.cli.main", *arguments(corpus, out)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    training = out / "seed-0" / "run" / "training"
    while process.poll() is None and time.monotonic() < deadline:
        if training.is_dir() and any(training.iterdir()):
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.005)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    assert not (out / "results.json").exists()

    ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr
    assert "train seed 0, going on" in ended.stderr
    assert "train seed 0, going on" not in whole.told
    assert untimed(read_results(out)) == untimed(read_results(whole.out))
    for folder in (out, whole.out):
        assert {path.suffix for path in (folder / "figures").iterdir()} == {".svg", ".png"}
    assert all(path.stat().st_size for path in (out / "figures").iterdir())


def untimed(results: dict[str, Any]) -> dict[str, Any]:
    """Results without the times, which differ."""
    for seed in results["seeds"]:
        del seed["analyses"]["cost"]
    assert results["test_openings"]
    return {**results, "test_openings": sorted({each["purpose"] for each in results["test_openings"]})}


def reproduce_given(data: Path, run: Path, out: Path, *more: object) -> str:
    """What is told of an experiment on data that are prepared already, with a model that is trained."""
    measuring = {
        "beam_sizes": "[2]",
        "systems": "[vbs,bidis]",
        "sources": "4",
        "cost_sources": "0",
        "examples": "0",
    }
    flags = ["--device", "cpu", *(f"--set={name}={value}" for name, value in measuring.items())]
    with without_drawing():
        call = called("reproduce", "--data", data, "--model", run, "--out", out, *flags, *more)
    assert call.status == 0, call.err
    return call.err


def test_what_to_try_next_names_the_data_that_were_used(
    whole: Experiment, toy_data: PreparedData, toy_run: Path, tmp_path: Path
) -> None:
    told = reproduce_given(toy_data.path, toy_run, tmp_path / "out")

    assert f"bidibeam decode {toy_run} {toy_data.path / 'test.jsonl'} --strategy bidia --n-best" in told
    own = whole.out / "seed-0" / "run", whole.out / "data" / "test.jsonl"
    assert f"bidibeam decode {own[0]} {own[1]} --strategy bidia --n-best" in whole.told


def test_what_to_try_next_names_both_models_of_a_pair_and_works(
    toy_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    regular, reverse = write_pair(tmp_path, "bart")
    both = reproduce_given(toy_data.path, regular, tmp_path / "both", "--reverse", reverse)
    alone = reproduce_given(toy_data.path, regular, tmp_path / "alone")

    assert f"bidibeam chat {regular} --reverse {reverse}\n" in both
    for told in (both, alone):
        for command in re.findall(r"bidibeam ((?:decode|rerank) .*) > replies.txt", told):
            call = called(*shlex.split(command))
            assert call.status == 0, call.err


def test_data_whose_reader_is_not_here_are_judged_by_bleu_and_a_note_says_why(
    toy_data: PreparedData, toy_run: Path, tmp_path: Path
) -> None:
    data = shutil.copytree(toy_data.path, tmp_path / "data")
    info = json.loads((data / "data.json").read_text())
    info["corpus"] = info["settings"]["corpus"] = "proverbs"
    (data / "data.json").write_text(json.dumps(info))

    told = " ".join(reproduce_given(data, toy_run, tmp_path / "out").split())

    note = (
        "No reader of proverbs is installed here, which could say how it is measured: systems are judged by"
    )
    assert f"{note} bleu. Name another by `metric`." in told
    assert "No reader" not in reproduce_given(data, toy_run, tmp_path / "asked", "--metric", "ser")
    assert "No reader" not in reproduce_given(toy_data.path, toy_run, tmp_path / "known")


@pytest.mark.usefixtures("undrawn")
def test_a_transformer_is_trained_like_the_gru_and_measured_the_same_as_a_given_model(
    corpus: Path, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    shape = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64}
    training = {"epochs": 2, "batch_size": 32, "learning_rate": 0.01, "tensorboard": "false"}
    measuring = {
        "prepare.limit": "null",
        "prepare.vocabulary_size": 100,
        "beam_sizes": "[4]",
        "search.max_length": 9,
        "penalty_length": 9,
        "tokenize": "words",
        "systems": "[vbs,bidis,bidia bleu_t tuned,bidia wmd_t,oracle]",
        "sources": 8,
        "validation_sources": 4,
        "cost_sources": 0,
        "examples": 1,
    }
    trains = [f"--set=model.{name}={value}" for name, value in shape.items()]
    trains += [f"--set=training.{name}={value}" for name, value in training.items()]
    flags = [f"--set={name}={value}" for name, value in measuring.items()]
    flags += ["--corpus", "tsv", "--source", str(corpus), "--workers", "1", "--device", "cpu"]
    out, again = tmp_path / "out", tmp_path / "again"

    call = called("reproduce", "--preset", "transformer", "--out", out, *flags, *trains)
    assert call.status == 0, call.err
    call = called("reproduce", "--model", out / "seed-0" / "run", "--out", again, *flags)
    assert call.status == 0, call.err

    trained, given = (read_results(folder) for folder in (out, again))
    assert trained["settings"]["architecture"] == "huggingface"
    assert "regular validation loss" in trained["seeds"][0]["training"]
    assert given["settings"]["model"]["name"] == "run"
    for part in ("systems", "perplexity", "tuned"):
        assert given["seeds"][0][part] == trained["seeds"][0][part]


@pytest.mark.usefixtures("undrawn")
def test_seeds_are_each_others_control_and_test_sets_are_scored_alone_too(
    corpus: Path, tmp_path: Path
) -> None:
    lines, folder = corpus.read_text().splitlines(), tmp_path / "official"
    folder.mkdir()
    parts = {"train": lines[:400], "dev": lines[400:440], "test_a": lines[440:455], "test_b": lines[455:480]}
    for name, part in parts.items():
        (folder / f"{name}.tsv").write_text("".join(f"{line}\n" for line in part))
    changed = {
        "systems": "[vbs,vbs-tuned,bidis lambda=1,bidis,mbr bleu,bidia edit,loglinear both,oracle]",
        "metric": "exact_match",
        "control": "true",
        "beam_sizes": "[4]",
        "sources": "null",
        "cost_sources": "0",
    }
    out = tmp_path / "out"

    call = called(*arguments(folder, out, **changed), "--seeds", "2")

    assert call.status == 0, call.err
    results = read_results(out)
    assert {"the constant reply", "search seed 0, 4 hypotheses", "evaluate seed 1"} <= {
        opening["purpose"] for opening in results["test_openings"]
    }
    is_any = any(seed["recommended"] for seed in results["seeds"])
    assert ("Recommended on validation: " in call.told) == is_any
    for seed in results["seeds"]:
        assert seed["recommended"] in (None, *seed["systems"])  # None if all are alike
        of_both = ["bidis lambda=1", "bidis", "bidia edit", "loglinear both"]
        assert {each["system"] for each in seed["validation"]} == {"vbs", "vbs-tuned", "mbr bleu", *of_both}
        assert {"bidis", "loglinear both"} <= set(seed["control_tuned"])
        controls = [f"{name} control" for name in of_both]
        assert [name for name in seed["systems"] if name.endswith("control")] == controls
        assert [(test["system"], test["baseline"]) for test in seed["tests"][-4:]] == [
            *zip(of_both, controls, strict=True)
        ]
        sets = seed["test_sets"]
        assert [(name, each["sources"]) for name, each in sets.items()] == [("test_a", 15), ("test_b", 25)]
        for system, rows in seed["systems"].items():
            alone = [
                each["scores"][system]["exact_match"]["value"] * each["sources"] for each in sets.values()
            ]
            assert sum(alone) / 40 == pytest.approx(rows["4"]["scores"]["exact_match"]["value"])
    assert "exact match by test set" in (out / "report.md").read_text().lower()
    facts = results["seeds"][0]["systems"]["bidis lambda=1"]["4"]["signature"]
    assert "|lambda:1|" in facts
    given, (one, other) = tmp_path / "given", (out / f"seed-{seed}" / "run" for seed in (0, 1))
    flags = ("--model", str(one), "--control", str(other))
    call = called(*arguments(folder, given, **changed), *flags)
    assert call.status == 0, call.err
    for experiment in (out, given):
        settings = SearchSettings(**{**read_results(experiment)["settings"]["search"], "beam_size": 2})
        check_control_lists(experiment, ControlModel(load(one), load(other)), settings)


def check_control_lists(out: Path, model: Any, settings: SearchSettings) -> None:
    """The lists of a control, joined from those of two seeds or not, are those of a search with both."""
    lists = list(nbest.read(out / "seed-0" / "control" / "beams" / "test-2.jsonl.gz"))
    generator = ModelGenerator(model, dict.fromkeys(Direction, settings), tuple(Direction))
    searched = generator.generate([Beams(line.id, line.source, line.references) for line in lists])
    for line, expected in zip(lists, searched, strict=True):
        assert line.references == expected.references
        for direction in Direction:
            found, wanted = line.of(direction), expected.of(direction)
            assert [each.text for each in found] == [each.text for each in wanted]
            for name in ("log_prob", "other_log_prob", "score"):
                values = [[getattr(each, name) for each in one] for one in (found, wanted)]
                assert values[0] == pytest.approx(values[1], abs=1e-4)
