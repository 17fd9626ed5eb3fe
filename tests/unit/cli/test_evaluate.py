"""`bidibeam evaluate` on replies and references: tables, JSON, notes."""

from __future__ import annotations

import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from bidibeam import __version__
from bidibeam.data.words import split
from bidibeam.metrics import METRICS
from tests.unit.cli.calls import called, lines_of, write_lines
from tests.unit.cli.evaluations import FEW, GOOD, POOR, REFERENCES, results


def test_two_files_of_replies_are_scored_and_tested(texts: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "scores.json"

    found = results(out, texts["poor"], texts["good"], "--references", texts["references"])

    assert (found["format_version"], found["bidibeam"], found["sources"]) == (1, __version__, 4)
    assert list(found["systems"]) == ["poor", "good"]
    assert [each["empty"] for each in found["systems"].values()] == [1, 0]
    for name, replies in (("poor", POOR), ("good", GOOD)):
        scores = found["systems"][name]["scores"]
        assert list(scores) == METRICS.names()
        hypotheses, references = ([" ".join(split(text)) for text in side] for side in (replies, REFERENCES))
        expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True)
        assert scores["bleu"]["value"] == pytest.approx(expected.score)
        assert scores["bleu"]["low"] <= scores["bleu"]["value"] <= scores["bleu"]["high"]
        assert found["systems"][name]["signature"].startswith(f"file:{name}.txt@")
    (test,) = found["tests"]
    assert (test["system"], test["baseline"], test["metric"]) == ("good", "poor", "bleu")
    assert test["difference"] == pytest.approx(
        found["systems"]["good"]["scores"]["bleu"]["value"]
        - found["systems"]["poor"]["scores"]["bleu"]["value"]
    )
    assert "|samples:40|trials:60|seed:12345|" in test["signature"]
    assert [path.name for path in out.parent.iterdir()] == ["scores.json"]


def test_the_tables_show_what_the_file_has(texts: dict[str, Path], tmp_path: Path) -> None:
    args = (texts["poor"], texts["good"], "--references", texts["references"])
    found = results(tmp_path / "out.json", *args)

    call = called("evaluate", *args, *FEW)

    assert (call.status, call.out) == (0, "")
    assert all(len(row) <= 80 for row in call.err.splitlines())
    first, second = call.err.split("BLEU beside that of poor")
    assert first.split()[:2] == ["4", "sources"]
    for name, system in found["systems"].items():
        (row,) = (row for row in first.splitlines() if row.split()[:1] == [name])
        shown = [
            value for score in system["scores"].values() for key, value in score.items() if key != "signature"
        ]
        assert row.split()[1:] == [f"{value:.4g}" for value in shown]
    (row,) = (row for row in second.splitlines() if row.split()[:1] == ["good"])
    (test,) = found["tests"]
    assert row.split()[1:] == [
        *(f"{test[key]:.4g}" for key in ("difference", "low", "high")),
        *(f"{test[key]:.2g}" for key in ("paired_bootstrap", "approximate_randomisation")),
    ]
    assert "Note: 1 of 4 replies of poor is empty; it scores as it is." in call.told
    assert "replies of good" not in call.told


def test_a_long_name_folds_and_no_number_is_cut(texts: dict[str, Path], tmp_path: Path) -> None:
    args = (f"the long name of a system={texts['good']}", "--references", texts["references"])
    scores = results(tmp_path / "out.json", *args)["systems"]["the long name of a system"]["scores"]

    call = called("evaluate", *args, *FEW)

    assert all(len(row) <= 80 for row in call.err.splitlines() if "Note" not in row)
    for score in scores.values():
        assert f" {score['value']:.4g} " in call.err


def test_the_first_system_is_the_baseline_unless_others_are_named(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    odd = write_lines(tmp_path / "x=y.txt", *GOOD)  # a file whose name has a = in it
    given = (f"a={texts['good']}", f"b ={texts['poor']}", odd)

    def pairs(*flags: str) -> list[tuple[str, str]]:
        tests = results(tmp_path / "out.json", *given, "--references", texts["references"], *flags)["tests"]
        return [(test["system"], test["baseline"]) for test in tests]

    assert pairs() == [("b", "a"), ("x=y", "a")]
    assert pairs("--baseline", "b") == [("a", "b"), ("x=y", "b")]
    assert pairs("--baseline", "b", "--baseline", "x=y") == [
        ("a", "b"),
        ("x=y", "b"),
        ("a", "x=y"),
        ("b", "x=y"),
    ]


def test_one_system_alone_is_scored_and_nothing_is_tested(texts: dict[str, Path]) -> None:
    call = called("evaluate", texts["good"], "--references", texts["references"])

    assert call.status == 0
    assert "Note: there is one system and nothing to compare it with, so no test was made." in call.told
    assert "beside" not in call.told


def test_only_the_metrics_asked_for_are_shown(texts: dict[str, Path], tmp_path: Path) -> None:
    flags = ("--metric", "chrf", "--metric", "distinct-2", "--metric", "chrf")

    found = results(
        tmp_path / "out.json", texts["good"], texts["poor"], "--references", texts["references"], *flags
    )

    assert list(found["systems"]["good"]["scores"]) == ["chrf", "distinct-2"]
    assert found["tests"] == []  # they are made on BLEU


def test_signatures_are_printed_once_each(texts: dict[str, Path]) -> None:
    args = (texts["good"], texts["poor"], "--references", texts["references"], "--seed", "7")

    told = called("evaluate", *args, *FEW, "--signatures").err.splitlines()

    names = [row.split(": ")[0] for row in told if "|bidibeam:" in row]
    assert names == ["good", "poor", *METRICS.names(), "tests"]
    assert any(row.startswith("tests: tests:paired_bootstrap") and "|seed:7|" in row for row in told)
    assert not any("|bidibeam:" in row for row in called("evaluate", *args, *FEW).err.splitlines())


def test_references_come_from_a_file_as_text_or_objects_or_from_any_lists(
    beams: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    objects = write_lines(tmp_path / "o.jsonl", *({"source": "x", "reference": each} for each in REFERENCES))
    without = write_lines(
        tmp_path / "without.jsonl", *({**each, "reference": None} for each in lines_of(beams))
    )

    def scores(*args: object) -> dict[str, Any]:
        found: dict[str, Any] = results(tmp_path / "out.json", texts["good"], *args)["systems"]["good"][
            "scores"
        ]
        return found

    expected = scores("--references", texts["references"])
    assert scores("--references", objects) == expected
    assert scores("--references", beams) == expected
    assert scores(beams) == expected
    assert scores(without, f"b={beams}") == expected
    assert scores(without, "--references", objects) == expected
    assert scores(beams, "--references", texts["poor"]) != expected


def test_empty_references_count_as_they_are_and_are_noted(texts: dict[str, Path], tmp_path: Path) -> None:
    gaps = write_lines(tmp_path / "gaps.txt", REFERENCES[0], "", *REFERENCES[2:3], "  ")
    found = results(tmp_path / "out.json", texts["good"], "--references", gaps)
    whole = results(tmp_path / "out.json", texts["good"], "--references", texts["references"])

    call = called("evaluate", texts["good"], "--references", gaps, *FEW)

    assert (found["empty_references"], whole["empty_references"]) == (2, 0)
    note = "Note: 2 of 4 references are empty; they count as they are"
    assert note in call.told
    assert "references are" not in called("evaluate", texts["good"], *FEW, "--references", texts["good"]).told
    words = [" ".join(split(reply)) for reply in GOOD]
    references = [" ".join(split(each)) for each in (REFERENCES[0], "", REFERENCES[2], "")]
    expected = sacrebleu.corpus_bleu(words, [references], tokenize="none", force=True)
    assert found["systems"]["good"]["scores"]["bleu"]["value"] == pytest.approx(expected.score)


def test_files_may_be_packed_or_come_through_a_pipe(
    texts: dict[str, Path], beams: Path, tmp_path: Path
) -> None:
    expected = results(tmp_path / "out.json", beams, texts["good"])["systems"]
    (tmp_path / "p.jsonl.xz").write_bytes(lzma.compress(beams.read_bytes()))
    (tmp_path / "q.txt.gz").write_bytes(gzip.compress(texts["good"].read_bytes()))

    packed = results(tmp_path / "out.json", tmp_path / "p.jsonl.xz", tmp_path / "q.txt.gz")["systems"]
    call = called(
        "evaluate", "piped=-", texts["good"], *FEW, "--out", tmp_path / "out.json", typed=beams.read_bytes()
    )
    piped = json.loads((tmp_path / "out.json").read_text())["systems"]

    assert call.status == 0
    for found, names in ((packed, ["p", "q"]), (piped, ["piped", "good"])):
        assert [found[name]["scores"] for name in names] == [each["scores"] for each in expected.values()]


def test_the_json_goes_to_stdout_if_that_is_asked(texts: dict[str, Path]) -> None:
    command = [sys.executable, "-m", "bidibeam.cli.main", "evaluate", str(texts["good"]), *FEW]
    flags = ["--references", str(texts["references"]), "--out", "/dev/stdout"]

    done = subprocess.run([*command, *flags], capture_output=True, check=True)

    assert json.loads(done.stdout)["sources"] == 4


def test_the_model_is_not_missed(texts: dict[str, Path]) -> None:
    code = (
        "import sys; from bidibeam.cli.main import run\n"
        f"status = run(['evaluate', {str(texts['good'])!r}, '--references', {str(texts['references'])!r}])\n"
        "print(status, 'torch' in sys.modules, file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.stderr.splitlines()[-1] == b"0 False"


def test_help_teaches_by_examples_and_names_every_metric() -> None:
    text = called("evaluate", "--help").out

    assert text.count("\n  bidibeam evaluate ") == 4
    assert ", ".join(METRICS.names()) in " ".join(text.split())
