"""`bidibeam evaluate`: the scores by every metric, as sacreBLEU has them, and how they are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from bidibeam import __version__
from bidibeam.cli import console as consoles
from bidibeam.cli.evaluate import evaluate
from bidibeam.metrics import DEFAULT_METRICS, METRICS
from tests.unit.cli.calls import called, refused, write_lines
from tests.unit.cli.evaluations import FEW, GOOD, POOR, REFERENCES, line, results


def bleu_of(replies: list[str], references: list[str]) -> float:
    """By sacreBLEU, as it is by default."""
    return float(sacrebleu.corpus_bleu(replies, [references], force=True).score)


def test_two_files_of_replies_are_scored_and_tested(texts: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "scores.json"

    found = results(out, texts["poor"], texts["good"], "--references", texts["references"])

    assert (found["format_version"], found["bidibeam"], found["sources"]) == (1, __version__, 4)
    assert list(found["systems"]) == ["poor", "good"]
    assert [each["empty"] for each in found["systems"].values()] == [1, 0]
    for name, replies in (("poor", POOR), ("good", GOOD)):
        scores = found["systems"][name]["scores"]
        assert list(scores) == list(DEFAULT_METRICS)
        assert scores["bleu"]["value"] == pytest.approx(bleu_of(replies, REFERENCES))
        assert scores["bleu"]["low"] <= scores["bleu"]["value"] <= scores["bleu"]["high"]
        assert found["systems"][name]["signature"].startswith(f"file:{name}.txt@")
    (test,) = found["tests"]
    assert (test["system"], test["baseline"], test["metric"]) == ("good", "poor", "bleu")
    good, poor = (found["systems"][name]["scores"]["bleu"]["value"] for name in ("good", "poor"))
    assert test["difference"] == pytest.approx(good - poor)
    assert "|samples:40|trials:60|seed:12345|" in test["signature"]
    assert [path.name for path in out.parent.iterdir()] == ["scores.json"]


def test_signatures_are_printed_once_each(texts: dict[str, Path]) -> None:
    args = (texts["good"], texts["poor"], "--references", texts["references"], "--seed", "7", *FEW)

    told = called("evaluate", *args, "--signatures").out.splitlines()

    names = [row.split(": ")[0] for row in told if "|bidibeam:" in row]
    assert names == ["good", "poor", *DEFAULT_METRICS, "tests"]
    assert any(row.startswith("tests: tests:paired_bootstrap") and "|seed:7|" in row for row in told)
    assert "|bidibeam:" not in called("evaluate", *args).out


def test_empty_references_count_as_they_are_and_are_noted(texts: dict[str, Path], tmp_path: Path) -> None:
    gaps = write_lines(tmp_path / "gaps.txt", REFERENCES[0], "", *REFERENCES[2:3], "  ")
    found = results(tmp_path / "out.json", texts["good"], "--references", gaps)
    whole = results(tmp_path / "out.json", texts["good"], "--references", texts["references"])

    assert (found["empty_references"], whole["empty_references"]) == (2, 0)
    note = "Note: 2 of 4 sources have only empty references; they count as they are"
    assert note in called("evaluate", texts["good"], "--references", gaps, *FEW).told
    assert "references are" not in called("evaluate", texts["good"], *FEW, "--references", texts["good"]).told
    expected = bleu_of(GOOD, [REFERENCES[0], "", REFERENCES[2], ""])
    assert found["systems"]["good"]["scores"]["bleu"]["value"] == pytest.approx(expected)


def test_help_teaches_by_examples_and_names_every_metric() -> None:
    text = called("evaluate", "--help").out
    lines = map(str.strip, str(evaluate.help).splitlines())
    examples = [line for line in lines if line.startswith("bidibeam ")]

    assert len(examples) > 5
    assert all(f"\n  {example}\n" in text for example in examples)  # each on a line of its own
    assert ", ".join(METRICS.names()) in " ".join(text.split())


@pytest.fixture
def files(texts: dict[str, Path]) -> tuple[object, ...]:
    """Two systems, one with a long name, and the references."""
    poor = f"reverse-vbs of an_earlier_experiment={texts['poor']}"
    return (texts["good"], poor, "--references", texts["references"], *FEW)


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_every_number_is_shown_whole_at_any_width(
    width: int, files: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consoles.get_console(is_stderr=False), "width", width)

    call = called("evaluate", *files, "--out", tmp_path / "out.json")

    assert call.status == 0
    tables = call.out
    assert "…" not in tables
    assert all(len(line) <= width for line in tables.splitlines())
    found = json.loads((tmp_path / "out.json").read_text())
    wanted = [
        f"{value:.4g}"
        for system in found["systems"].values()
        for name, score in system["scores"].items()
        for key, value in score.items()
        if key == "value" or (name == "bleu" and key != "signature")
    ]
    (test,) = found["tests"]
    wanted += [f"{test[key]:.4g}" for key in ("difference", "low", "high")]
    wanted += [f"{test[key]:.2g}" for key in ("paired_bootstrap", "approximate_randomisation")]
    for number in wanted:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", tables), number
    scores = tables.partition("BLEU beside")[0]
    blocks = re.findall(r"^ ?good +(.*?)\s*$", scores, flags=re.MULTILINE)
    assert len(" ".join(blocks).split()) == 8  # every measure once
    assert (len(blocks) == 1) == (width >= 80)


def test_every_metric_that_is_named_is_tested(files: tuple[object, ...], tmp_path: Path) -> None:
    out = tmp_path / "out.json"

    call = called("evaluate", *files, "--metric", "ser", "--metric", "chrf", "--metric", "ser", "--out", out)

    assert call.status == 0
    found = json.loads(out.read_text())
    assert [test["metric"] for test in found["tests"]] == ["ser", "chrf"]
    assert [list(system["scores"]) for system in found["systems"].values()] == [["ser", "chrf"]] * 2
    assert (found["metric"], found["lower_is_better"]) == ("ser", ["ser"])
    assert "SER beside that of good; lower is better" in call.shown
    assert "chrF beside that of good" in call.shown
    assert "Note: lower is better of ser: a difference below 0 is a gain." in call.told
    assert "BLEU" not in call.shown
    usual = called("evaluate", *files)
    assert "BLEU beside that of good" in usual.shown
    assert "chrF beside" not in usual.told
    assert "lower is better" not in usual.told


def test_a_source_may_have_several_references(tmp_path: Path) -> None:
    replies = write_lines(tmp_path / "replies.txt", "k ae t", "D AO G", "x")
    wanted = [["K AE T", "k ae t"], ["D AO G"], ["Y", "Z"]]
    references = write_lines(tmp_path / "references.jsonl", *({"references": texts} for texts in wanted))
    flags = ("--metric", "ser", "--metric", "wer", "--metric", "bleu", "--tokenize", "none")

    scores = results(tmp_path / "out.json", replies, "--references", references, *flags)["systems"]["replies"]

    values = {name: score["value"] for name, score in scores["scores"].items()}
    columns = [["K AE T", "D AO G", "Y"], ["k ae t", None, "Z"]]
    theirs = sacrebleu.BLEU(tokenize="none", force=True)
    expected = theirs.corpus_score(["k ae t", "D AO G", "x"], columns).score
    assert values == {"ser": pytest.approx(100 / 3), "wer": pytest.approx(100 / 7), "bleu": expected}
    assert f"|{theirs.get_signature()}|" in scores["scores"]["bleu"]["signature"]
    lists = [
        {"references": texts, **line("", [reply], [])} for texts, reply in zip(wanted, "abc", strict=True)
    ]
    for each in lists:
        del each["reference"]
    beams = write_lines(tmp_path / "beams.jsonl", *lists)
    brought = results(tmp_path / "out.json", replies, beams, *flags)["systems"]["replies"]["scores"]
    assert {name: score["value"] for name, score in brought.items()} == values


def test_tokens_and_case_are_as_they_are_asked_for(texts: dict[str, Path], tmp_path: Path) -> None:
    def bleu(*flags: str) -> Any:
        given = (texts["good"], "--references", texts["references"], "--metric", "bleu", *flags)
        return results(tmp_path / "out.json", *given)["systems"]["good"]["scores"]["bleu"]

    for flags, options in (
        ((), {}),
        (("--tokenize", "char"), {"tokenize": "char"}),
        (("--tokenize", "intl", "--lowercase"), {"tokenize": "intl", "lowercase": True}),
    ):
        theirs = sacrebleu.BLEU(force=True, **options)
        assert bleu(*flags)["value"] == theirs.corpus_score(GOOD, [REFERENCES]).score
        assert f"|{theirs.get_signature()}|" in bleu(*flags)["signature"]
    assert "|words:lower-cased, by bidibeam|" in bleu("--tokenize", "words")["signature"]


OWN = """
higher = True

class Same:
    name, higher_is_better = "same letters", False

    def statistics(self, replies, references):
        return [[len(set(reply) & set(texts[0])), 1] for reply, texts in zip(replies, references)]

    def values(self, sums):
        return sums[:, 0] / sums[:, 1]

class Broken(Same):
    def values(self, sums):
        return 0 * sums[:, 0] / 0
"""


def test_a_metric_of_ones_own_lies_where_the_command_is_called(
    texts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    (tmp_path / "own_metrics.py").write_text(OWN)
    given = (texts["good"], texts["poor"], "--references", texts["references"], *FEW)

    call = called("evaluate", *given, "--metric", "own_metrics:Same", "--out", "out.json")

    found = json.loads((tmp_path / "out.json").read_text())
    counts = [len(set(reply) & set(text)) for reply, text in zip(GOOD, REFERENCES, strict=True)]
    assert found["systems"]["good"]["scores"]["same letters"]["value"] == sum(counts) / 4
    assert [test["metric"] for test in found["tests"]] == ["same letters"]
    assert "same letters beside that of good; lower is better" in call.shown
    said = refused("evaluate", *given, "--metric", "own_metrics:Broken")
    assert said.startswith("The metric same letters answered with nan for the sums ")
    assert "own_metrics:higher, of type bool, has none" in refused(
        "evaluate", *given, "--metric", "own_metrics:higher"
    )


def test_an_oracle_chooses_by_the_first_metric_that_is_named(tmp_path: Path) -> None:
    beams = write_lines(tmp_path / "beams.jsonl", line("a b c d", ["a b c d e e e", "x b c y", "a b c"], []))

    def signature(*metrics: str) -> str:
        flags = [word for name in metrics for word in ("--metric", name)]
        found = results(tmp_path / "out.json", beams, "--strategy", "oracle", *flags)
        return str(found["systems"]["oracle"]["signature"])

    assert signature().startswith("strategy:oracle|by:sentence-bleu,order:4,smoothing:floor|")
    assert signature("bleu", "wer").startswith("strategy:oracle|by:sentence-bleu,")
    assert signature("wer", "bleu").startswith("strategy:oracle|by:metric:wer,unit:words,case:mixed,")


@pytest.mark.parametrize(
    ("replies", "flags", "is_told"),
    [
        (["see you", "ok."], ("--metric", "ser"), True),
        (["see you", "ok."], ("--metric", "ser", "--lowercase"), False),
        (["see you", "ok."], ("--metric", "bleu", "--tokenize", "words"), False),
        (["See you", "ok."], ("--metric", "ser"), False),
    ],
)
def test_replies_without_capitals_beside_references_with_some_are_noted(
    replies: list[str], flags: tuple[str, ...], is_told: bool, tmp_path: Path
) -> None:
    written = write_lines(tmp_path / "replies.txt", *replies)
    references = write_lines(tmp_path / "references.txt", "See you.", "OK.")

    told = " ".join(called("evaluate", written, "--references", references, *flags, *FEW).told.split())

    assert ("no reply has a capital letter, and references have: --lowercase lets" in told) == is_told
