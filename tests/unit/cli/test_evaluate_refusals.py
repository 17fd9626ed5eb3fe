"""`bidibeam evaluate` on what cannot be scored: one sentence, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.calls import called, lines_of, refused, write_lines
from tests.unit.cli.evaluations import (
    GOOD,
    REFERENCES,
    line,
    refused_and_unwritten,
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


def test_empty_files_are_named(texts: dict[str, Path], tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "empty.txt")
    told = f"{empty} is empty; it must hold one reply a line, or n-best lists."

    assert refused_and_unwritten(tmp_path, texts["good"], empty, "--references", texts["references"]) == told
    assert refused_and_unwritten(tmp_path, empty, "--strategy", "vbs") == told
    assert refused_and_unwritten(tmp_path, texts["good"], "--references", empty) == (
        f"{empty} is empty; it must hold one reference for each reply."
    )
    missing = tmp_path / "none.txt"
    assert refused_and_unwritten(tmp_path, missing) == f"{missing} cannot be read: No such file or directory."


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


def test_a_strategy_or_similarity_that_is_none_is_named_with_the_choices(beams: Path) -> None:
    assert refused("evaluate", beams, "--strategy", "vsb").startswith(
        "Unknown strategy 'vsb'. Did you mean 'vbs'? Choose one of: bidia, "
    )
    assert refused("evaluate", beams, "--strategy", "bidia bleu_u").startswith(
        "Unknown word 'bleu_u' in the system 'bidia bleu_u'. Did you mean 'bleu_t'? bidia takes: bleu_t, "
    )


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


@pytest.mark.parametrize("name", ["good", "references"])
def test_the_input_is_never_overwritten(texts: dict[str, Path], name: str) -> None:
    before = texts[name].read_bytes()

    said = refused("evaluate", texts["good"], "--references", texts["references"], "--out", texts[name])

    assert said == f"--out would overwrite the input, {texts[name]}. Name another file."
    assert texts[name].read_bytes() == before


@pytest.mark.parametrize("flag", ["--samples", "--trials", "--workers", "--max-length"])
def test_numbers_are_counted_from_one(texts: dict[str, Path], flag: str) -> None:
    call = called("evaluate", texts["good"], flag, "0")

    assert (call.status, call.out) == (2, "")
    assert f"Invalid value for '{flag}'" in call.err
