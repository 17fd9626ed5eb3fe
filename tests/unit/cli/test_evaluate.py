"""`bidibeam evaluate`: tables, JSON, notes and refusals."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from rich.console import Console

from bidibeam import __version__
from bidibeam.cli import console as consoles
from bidibeam.data.words import split
from bidibeam.metrics import METRICS
from bidibeam.reporting.tables import NumbersTable
from tests.unit.cli.calls import called, lines_of, refused, write_lines, write_vectors
from tests.unit.cli.evaluations import (
    FEW,
    GOOD,
    POOR,
    REFERENCES,
    line,
    refused_and_unwritten,
    results,
)


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


def test_systems_that_chose_among_unequal_numbers_are_pointed_out(beams: Path) -> None:
    alike = called("evaluate", beams, "--strategy", "vbs", "--strategy", "longest", *FEW)
    unlike = called("evaluate", beams, "--strategy", "vbs", "--strategy", "bidia bleu_t", *FEW)

    assert "did not choose among as many" not in alike.err
    assert re.search(r"as many hypotheses \(N_B\): vbs \d+, bidia bleu_t \d+\.", " ".join(unlike.err.split()))


def test_every_strategy_is_a_system(beams: Path, tmp_path: Path) -> None:
    names = ["vbs", "bidia bleu_t", "bidia bleu_t either", "oracle", "bidia edit", "longest"]
    flags = [word for name in names for word in ("--strategy", name)]

    found = results(tmp_path / "out.json", beams, *flags, "--baseline", "bidia bleu_t")

    assert list(found["systems"]) == names
    for name in names:
        strategy, *similarity = name.split()
        given = [*(["--similarity", similarity[0]] if similarity else [])]
        given += ["--answer", "either"] if "either" in similarity else []
        rerank = called("rerank", beams, "--strategy", strategy, *given)
        text = write_lines(tmp_path / "replies.txt", *rerank.replies)
        alone = results(
            tmp_path / "alone.json", text, "--references", write_lines(tmp_path / "r", *REFERENCES)
        )
        assert found["systems"][name]["scores"] == alone["systems"]["replies"]["scores"]
        assert found["systems"][name]["signature"].startswith(rerank.signature.partition("|bidibeam")[0])
    assert {test["system"]: test["beam_size"] for test in found["tests"]} == {
        "vbs": 2,
        "bidia bleu_t either": 3,
        "oracle": 2,
        "bidia edit": 3,
        "longest": 2,
    }


def test_several_files_and_strategies_have_both_names(beams: Path, tmp_path: Path) -> None:
    flags = ("--strategy", "vbs", "--strategy", "longest")

    found = results(tmp_path / "out.json", beams, f"again={beams}", *flags)
    named = results(tmp_path / "out.json", f"again={beams}", *flags)

    assert list(found["systems"]) == ["beams: vbs", "beams: longest", "again: vbs", "again: longest"]
    assert list(named["systems"]) == ["again: vbs", "again: longest"]


def test_vectors_are_read_once_for_all_who_use_them(beams: Path, tmp_path: Path) -> None:
    words = sorted({word for text in (*GOOD, *POOR, "So.") for word in split(text)})
    vectors = write_vectors(tmp_path / "toy.vec", words)
    flags = ("--strategy", "bidia wmd_t", "--strategy", "bidia wmd_t either", "--strategy", "vbs")

    call = called("evaluate", beams, *flags, *FEW, "--vectors", vectors, "--signatures")

    assert call.status == 0
    assert call.told.count(f"{len(words)} of {len(words)} words have a vector.") == 1
    assert call.told.count("|vectors:toy.vec@") == 2


def test_tuned_settings_are_used_and_named(beams: Path, tmp_path: Path) -> None:
    tuned = {
        "bidis": {"lambda_": 0.5},
        "vbs-tuned": {"length_exponent": 1, "word_reward": 4},
        "bidia bleu_t": {"T": 3},
    }
    (tmp_path / "tuned.json").write_text(json.dumps({"format_version": 1, "options": tuned}))
    names = ("vbs-tuned", "bidis", "vbs", "bidia bleu_t", "bidia bleu_t tuned")
    flags = [word for name in names for word in ("--strategy", name)]

    for given in (tmp_path, tmp_path / "tuned.json"):
        found = results(tmp_path / "out.json", beams, *flags, "--tuned", given)["systems"]

    assert found["vbs-tuned"]["signature"].startswith(
        "strategy:vbs-tuned|length_exponent:1|word_reward:4|tuned:tuned.json@"
    )
    assert found["bidis"]["signature"].startswith("strategy:bidis|lambda:0.5|tuned:tuned.json@")
    assert "|T:3|" in found["bidia bleu_t tuned"]["signature"]
    assert "|tuned:tuned.json@" in found["bidia bleu_t tuned"]["signature"]
    assert "|T:20|" in found["bidia bleu_t"]["signature"]
    for name in ("vbs", "bidia bleu_t"):
        assert "tuned" not in found[name]["signature"]


def test_an_oracle_chooses_by_the_references_that_were_given(
    beams: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    flags = ("--references", texts["poor"])
    nearest = write_lines(tmp_path / "nearest.txt", *(reply or "So." for reply in POOR))

    found = results(tmp_path / "out.json", beams, "--strategy", "oracle", *flags)["systems"]["oracle"]

    expected = results(tmp_path / "out.json", nearest, *flags)["systems"]["nearest"]
    assert found["scores"] == expected["scores"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[object, ...]:
    """Two systems, one with a long name, and the references."""
    good, poor = write_lines(tmp_path / "good.txt", *GOOD), write_lines(tmp_path / "poor.txt", *POOR)
    references = write_lines(tmp_path / "references.txt", *REFERENCES)
    return (good, f"reverse-vbs of an_earlier_experiment={poor}", "--references", references, *FEW)


@pytest.fixture
def width(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    columns: int = request.param
    monkeypatch.setattr(consoles.console, "_width", columns)
    return columns


@pytest.mark.parametrize("width", [200, 80, 60, 40], indirect=True)
def test_every_number_is_shown_whole_at_any_width(
    width: int, files: tuple[object, ...], tmp_path: Path
) -> None:
    call = called("evaluate", *files, "--out", tmp_path / "out.json")

    assert call.status == 0
    assert "…" not in call.err
    tables = call.err.partition("Note: ")[0]
    assert all(len(line) <= width for line in tables.splitlines())
    found = json.loads((tmp_path / "out.json").read_text())
    wanted = [
        f"{value:.4g}"
        for system in found["systems"].values()
        for score in system["scores"].values()
        for key, value in score.items()
        if key != "signature"
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


def test_what_belongs_together_stays_together_while_it_can() -> None:
    table = NumbersTable(
        "Title",
        [["one", "two"], ["three", "four", "five"]],
        [("name", ["1.234"] * 5), ("other", ["-9.5"] * 5)],
    )

    def lines(width: int) -> list[list[str]]:
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(table)
        return [line.split() for line in console.export_text().splitlines() if line.strip(" ─")]

    assert lines(60)[1] == ["one", "two", "three", "four", "five"]
    assert [line for line in lines(38) if line[0] in ("one", "three")] == [
        ["one", "two"],
        ["three", "four", "five"],
    ]
    narrow = [line for line in lines(18) if line[0] in ("one", "two", "three", "four", "five")]
    assert narrow == [["one"], ["two"], ["three"], ["four"], ["five"]]


def test_without_bleu_nothing_is_tested_and_a_note_says_why(
    files: tuple[object, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.json"

    call = called("evaluate", *files, "--metric", "chrf", "--metric", "length_ratio", "--out", out)

    assert call.status == 0
    found = json.loads(out.read_text())
    assert found["tests"] == []
    assert [list(system["scores"]) for system in found["systems"].values()] == [["chrf", "length_ratio"]] * 2
    assert "BLEU beside" not in call.told
    assert (
        "Note: tests are made on BLEU, which was not asked for, so there is none; add --metric bleu."
        in call.told
    )
    tested = called("evaluate", *files, "--metric", "chrf", "--metric", "bleu", "--out", out)
    assert "BLEU beside that of good" in tested.told
    assert "Note: tests" not in tested.told
    assert len(json.loads(out.read_text())["tests"]) == 1


def test_a_baseline_without_bleu_is_a_contradiction(files: tuple[object, ...]) -> None:
    said = refused("evaluate", *files, "--metric", "chrf", "--baseline", "good")

    assert said == "--baseline is for tests, which are made on BLEU: add --metric bleu."


def test_a_tab_in_a_reply_is_noted(texts: dict[str, Path], tmp_path: Path) -> None:
    odd = write_lines(tmp_path / "odd.txt", *REFERENCES[:3], "so?\tYes.")

    call = called("evaluate", odd, *FEW, "--references", texts["references"])

    assert call.status == 0
    assert f"Note: {odd}, line 4 holds a tab; the whole line counts as the reply." in call.told
    assert "holds a tab" not in called("evaluate", texts["good"], "--references", texts["references"]).told


def test_how_intervals_and_p_values_can_disagree_is_said_once_under_the_tests(
    texts: dict[str, Path],
) -> None:
    files = (texts["good"], texts["poor"], "--references", texts["references"])
    told = "They answer different questions"

    assert called("evaluate", *files, *FEW, "--baseline", "good", "--baseline", "poor").told.count(told) == 1
    assert told not in called("evaluate", texts["good"], *FEW, "--references", texts["references"]).told


def test_few_sources_are_noted(tmp_path: Path) -> None:
    def note_of(count: int) -> bool:
        many = write_lines(tmp_path / "many.txt", *("See you at noon." for _ in range(count)))
        call = called("evaluate", many, *FEW, "--references", many, "--metric", "bleu")
        assert call.status == 0
        return f"Note: {count} source" in call.told and "so few say little" in call.told

    assert note_of(99)
    assert note_of(1)
    assert not note_of(100)


def test_one_of_anything_is_said_in_the_singular(texts: dict[str, Path], beams: Path, tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "empty.txt", "", *REFERENCES[1:])
    call = called("evaluate", texts["poor"], *FEW, "--references", empty)
    one = write_lines(tmp_path / "one.jsonl", *lines_of(beams)[:1])

    assert "Note: 1 of 4 replies of poor is empty; it scores as it is." in call.told
    assert "Note: 1 of 4 references is empty; it counts as it is, and no reply has a word" in call.told
    assert "Note: 1 of the sources has reverse hypotheses too," in called("convert", one, "--to", "mbrs").told
    single = write_lines(tmp_path / "single.txt", "Yes.")
    assert refused("evaluate", single, "--references", texts["references"]) == (
        f"{single} has 1 reply, but {texts['references']} has 4 references; line n of each must belong to "
        "the same source."
    )


def test_missing_references_are_named_by_source(texts: dict[str, Path], beams: Path, tmp_path: Path) -> None:
    assert refused_and_unwritten(tmp_path, texts["good"]) == (
        f"{texts['good']} holds replies and no references: give --references, one a line."
    )
    lines = lines_of(beams)
    lines[2]["reference"] = None
    path = write_lines(tmp_path / "gap.jsonl", "", *lines)
    told = (
        f"{path}, line 4: source 's2' has no \"reference\", so its reply cannot be scored. Add it, or give "
    )
    assert refused_and_unwritten(tmp_path, path) == f"{told}--references."
    assert refused_and_unwritten(tmp_path, path, "--strategy", "vbs") == f"{told}--references."
    objects = write_lines(tmp_path / "o.jsonl", {"reference": "a"}, {"source": "b"})
    assert refused_and_unwritten(tmp_path, texts["good"], "--references", objects) == (
        f'{objects}, line 2: there is no "reference".'
    )


def test_unequal_counts_are_named_with_both_files(
    texts: dict[str, Path], beams: Path, tmp_path: Path
) -> None:
    short = write_lines(tmp_path / "short.txt", *GOOD[:3])
    way = "line n of each must belong to the same source."

    assert refused_and_unwritten(tmp_path, texts["good"], "--references", short) == (
        f"{texts['good']} has 4 replies, but {short} has 3 references; {way}"
    )
    assert refused_and_unwritten(tmp_path, beams, short) == (
        f"{beams} has 4 replies, but {short} has 3 replies; {way}"
    )


def test_references_that_are_all_empty_are_refused(
    texts: dict[str, Path], beams: Path, tmp_path: Path
) -> None:
    empty = write_lines(tmp_path / "e.jsonl", *({"reference": ""} for _ in REFERENCES))
    lists = write_lines(tmp_path / "l.jsonl", *({**each, "reference": " "} for each in lines_of(beams)))

    for file, args in ((empty, (texts["good"], "--references", empty)), (lists, (texts["good"], lists))):
        assert refused_and_unwritten(tmp_path, *args) == (
            f"Every reference of {file} is empty, so there is nothing to score replies by. Give "
            "--references, one a line."
        )


def test_files_of_other_sources_are_not_compared(beams: Path, tmp_path: Path) -> None:
    lines = lines_of(beams)
    other = write_lines(tmp_path / "other.jsonl", *lines[:1], {**lines[1], "reference": "Hm."}, *lines[2:])
    way = "Systems are compared on the same sources in the same order."

    assert refused_and_unwritten(tmp_path, beams, other) == (
        f"{other}, line 2: its reference is 'Hm.', but {beams}, line 2 has 'I do not know.'. {way}"
    )
    one, two = (
        write_lines(tmp_path / f"{source}.jsonl", *({**each, "source": source} for each in lines))
        for source in ("hi", "ho")
    )
    assert refused_and_unwritten(tmp_path, one, two, "--references", beams) == (
        f"{two}, line 1: its source is 'ho', but {one}, line 1 has 'hi'. {way}"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--metric", "blue"),
            (
                "Unknown metric 'blue'. Did you mean 'bleu'? Choose one of: bleu, sentence_bleu, chrf, "
                "distinct-1, distinct-2, length_ratio."
            ),
        ),
        (("--baseline", "vbs"), "No system is called 'vbs', to be the baseline. Choose one of: beams."),
        (("--strategy", ""), "A system is named by its strategy, such as 'bidia bleu_t', not ''."),
        (
            ("--strategy", "vbs", "--strategy", " vbs"),
            "Two systems are called 'vbs'. Name the files, NAME=FILE, and give no --strategy twice.",
        ),
        *(
            (
                ("--strategy", f"vbs {word}"),
                f"The system 'vbs {word}' cannot have the word {word!r}. vbs takes no further words.",
            )
            for word in ("bleu_t", "either", "tuned")
        ),
        (
            ("--strategy", "bidia bleu_t wmd"),
            "The system 'bidia bleu_t wmd' has both 'bleu_t' and 'wmd'. It takes one similarity at most.",
        ),
        (
            ("--strategy", "bidia wmd_t tuned"),
            (
                "The system 'bidia wmd_t tuned' must be tuned first: no T was tuned for 'bidia wmd_t'. "
                "`bidibeam tune` does so, for a run or for Hugging Face models; rerank, evaluate and analyse "
                "take its result as tuned."
            ),
        ),
        (
            ("--strategy", "bidia wmd_t"),
            "The similarity wmd_t needs word vectors: give --vectors, a file of them.",
        ),
        (
            ("--strategy", "vbs", "--vectors", "some.vec"),
            "No --strategy uses word vectors: leave --vectors out.",
        ),
        (("--vectors", "some.vec"), "--vectors is for strategies: name one with --strategy."),
        (("--tuned", "some.json"), "--tuned is for strategies: name one with --strategy."),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(
    beams: Path, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    assert refused_and_unwritten(tmp_path, beams, *flags) == message


def test_a_strategy_needs_lists_and_what_they_must_hold(texts: dict[str, Path], tmp_path: Path) -> None:
    assert refused_and_unwritten(tmp_path, texts["good"], "--strategy", "vbs") == (
        f"{texts['good']} holds text, one reply a line, and a --strategy chooses among the lists of an "
        "n-best file. Give such a file, or leave --strategy out."
    )
    path = write_lines(tmp_path / "l.jsonl", line("a", ["a"], ["b"]), line("a", ["a"], []))
    assert refused_and_unwritten(tmp_path, path, "--strategy", "vbs", "--strategy", "bidia edit") == (
        f"{path}, line 2: source '2' has no reverse hypotheses, and bidia needs them; add a list "
        '"reverse", or choose another strategy.'
    )


def test_two_systems_of_one_name_and_half_a_name_are_refused(texts: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    twin = write_lines(tmp_path / "other" / "good.txt", *GOOD)

    assert refused_and_unwritten(tmp_path, texts["good"], twin) == (
        "Two systems are called 'good'. Name the files, NAME=FILE, and give no --strategy twice."
    )
    for half in ("name=", "=file.txt"):
        assert refused_and_unwritten(tmp_path, half) == f"A system is FILE or NAME=FILE, not {half!r}."
