"""`bidibeam rerank`: lists in, replies out, and what it cannot use in one sentence."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bidibeam import __version__
from tests.conftest import WORDS
from tests.unit.cli.calls import called, lines_of, refused, write_lines, write_vectors

DOCS = Path(__file__).parents[3] / "docs" / "nbest.md"


def many(path: Path, *, sources: int) -> Path:
    """Lists of random length, of random words, some of them cut off."""
    chooser = random.Random(0)

    def hypotheses() -> list[dict[str, Any]]:
        texts = (
            " ".join(chooser.choices(WORDS, k=chooser.randint(0, 6))) for _ in range(chooser.randint(1, 9))
        )
        return [
            {"text": text, "finished": chooser.random() < 0.8, "log_prob": -chooser.random()}
            for text in texts
        ]

    return write_lines(path, *({"regular": hypotheses(), "reverse": hypotheses()} for _ in range(sources)))


def test_texts_are_enough(lists: Path) -> None:
    call = called("rerank", lists)

    assert call.replies == ["No, I am at home now.", "Not now."]
    told = " ".join(call.err.split())
    assert "Note: T is 20, but the longest hypothesis has 8 tokens, so length weighs heavily." in told
    assert re.search(r"2 sources in \d+\.\d s\. Work: 8 pairs compared\. Signature: ", told)
    assert call.signature == (
        "strategy:bidia|similarity:bleu_t|order:4|smoothing:floor|T:20|answer:regular|"
        f"agreement:closest|bidibeam:{__version__}"
    )


@pytest.mark.parametrize("strategy", ["longest", "random", "bidia"])
def test_lists_come_from_files_packed_or_not_and_from_pipes(
    lists: Path, tmp_path: Path, strategy: str
) -> None:
    content = lists.read_bytes()
    (tmp_path / "lists.jsonl.gz").write_bytes(gzip.compress(content))
    (tmp_path / "lists.jsonl.xz").write_bytes(lzma.compress(content))
    flags = ("--strategy", strategy)
    plain = called("rerank", lists, *flags)

    assert len(plain.replies) == 2
    for packed in ("lists.jsonl.gz", "lists.jsonl.xz"):
        assert called("rerank", tmp_path / packed, *flags).out == plain.out
    assert called("rerank", "-", *flags, typed=content).out == plain.out


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="shells here have no <(...)")
def test_a_pipe_with_a_name_which_can_be_read_but_once_is_answered_too(lists: Path) -> None:
    """As in `bidibeam rerank <(zcat lists.gz)`."""
    reader, writer = os.pipe()
    os.write(writer, lists.read_bytes())
    os.close(writer)

    call = called("rerank", f"/dev/fd/{reader}")
    os.close(reader)

    assert call.out == called("rerank", lists).out != ""


def test_no_lists_no_replies(tmp_path: Path) -> None:
    call = called("rerank", write_lines(tmp_path / "empty.jsonl"), "--n-best", tmp_path / "out.jsonl")

    assert (call.status, call.out, (tmp_path / "out.jsonl").read_bytes()) == (0, "", b"")


def test_the_model_is_not_missed() -> None:
    code = (
        "import sys; from bidibeam.cli.main import run\n"
        "status = run(['rerank', '-'])\n"
        "print(status, 'torch' in sys.modules, file=sys.stderr)"
    )
    line = b'{"regular": [{"text": "a"}], "reverse": [{"text": "b"}]}\n'

    done = subprocess.run([sys.executable, "-c", code], input=line, capture_output=True, check=False)

    assert done.stdout == b"a\n"
    assert done.stderr.splitlines()[-1] == b"0 False"


def test_a_reply_takes_one_line_whatever_it_holds(tmp_path: Path) -> None:
    texts = ["a\nb", "a\r\nb\n", "\n", "a\u2028b\x0bc", "", "é 漢"]
    lines = ({"regular": [{"text": text}], "reverse": [{"text": "x"}]} for text in texts)

    call = called("rerank", write_lines(tmp_path / "l.jsonl", *lines), "--n-best", tmp_path / "o.jsonl")

    assert call.out == "a b\na b\n\na b c\n\né 漢\n"
    assert [line["regular"][0]["text"] for line in lines_of(tmp_path / "o.jsonl")] == texts
    again = called("rerank", tmp_path / "l.jsonl", "--n-best", tmp_path / "o.jsonl", "--resume")
    assert "6 were done already" in again.told
    assert again.out == call.out


@pytest.mark.parametrize(
    "flags", ["", "--similarity wmd_t", "--similarity edit", "--answer either", "--agreement expected"]
)
def test_any_number_of_workers_does_the_same_whether_all_is_ranked_or_not(
    tmp_path: Path, vectors: Path, flags: str
) -> None:
    source = many(tmp_path / "many.jsonl", sources=300)
    options = [*flags.split(), *(["--vectors", vectors] if "wmd" in flags else [])]
    outputs, files = set(), set()
    for workers in (1, 3):
        target = tmp_path / f"out{workers}.jsonl"
        for writing in ([], ["--n-best", target]):
            call = called("rerank", source, *options, "--workers", workers, *writing)
            assert len(call.replies) == 300
            outputs.add(call.out)
        files.add(target.read_bytes())

    assert (len(outputs), len(files)) == (1, 1)


def test_what_was_written_can_be_ranked_again(lists: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl.gz"
    assert called("rerank", lists, "--n-best", first).status == 0

    assert called("rerank", first, "--n-best", second).status == 0
    assert gzip.decompress(second.read_bytes()) == first.read_bytes()


def test_the_lists_of_the_documentation_are_ranked(tmp_path: Path) -> None:
    first, second = re.findall(r"```json\n(.*?)```", DOCS.read_text(), flags=re.DOTALL)
    (tmp_path / "first.jsonl").write_text(first)
    (tmp_path / "second.jsonl").write_text(second)

    replies = called("rerank", tmp_path / "first.jsonl").replies
    assert [reply in line for reply, line in zip(replies, first.splitlines(), strict=True)] == [True, True]
    assert called("rerank", tmp_path / "second.jsonl", "--strategy", "vbs").replies == ["at work."]


TUNED = {"format_version": 1, "options": {"bidis": {"lambda_": 5}, "vbs-tuned": {"word_reward": 1}}}


def scored(tmp_path: Path) -> Path:
    """A line whose first hypothesis the regular direction prefers, and the second the reverse one."""
    return write_lines(
        tmp_path / "l.jsonl",
        {
            "regular": [
                {"text": "likely", "log_prob": -2.0, "score": -1.0, "other_log_prob": -4.0},
                {"text": "agreed", "log_prob": -4.0, "score": -2.0, "other_log_prob": -2.0},
            ]
        },
    )


def test_tuned_settings_are_used_where_no_flag_says_otherwise_and_named_where_used(tmp_path: Path) -> None:
    lists, tuned = scored(tmp_path), tmp_path / "tuned.json"
    tuned.write_text(json.dumps(TUNED))

    call = called("rerank", lists, "--strategy", "bidis", "--tuned", tuned)
    assert call.replies == ["agreed"]
    assert re.search(r"strategy:bidis\|lambda:5\|tuned:tuned\.json@[0-9a-f]{8}\|bidibeam:", call.signature)

    call = called("rerank", lists, "--strategy", "bidis", "--tuned", tuned, "--lambda", "0.1")
    assert call.replies == ["likely"]
    assert "tuned" not in call.signature
    assert "tuned" not in called("rerank", lists, "--strategy", "vbs", "--tuned", tuned).signature

    assert refused("rerank", lists, "--strategy", "vbs-tuned", "--tuned", tuned) == (
        "The strategy vbs-tuned needs --length-exponent; `bidibeam tune` finds good "
        "values, for a run or for Hugging Face models: decode then uses them, and rerank takes them as "
        "tuned."
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no {}: `bidibeam tune RUN` writes it."),
        ("{", "{} is damaged ("),
        ('{"format_version": 1}', "{} is damaged (KeyError('options'))"),
        ('{"format_version": 2, "options": {}}', "{} has format version 2; bidibeam "),
    ],
)
def test_a_tuned_file_that_cannot_be_used_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    lists, tuned = scored(tmp_path), tmp_path / "tuned.json"
    if content is not None:
        tuned.write_text(content)

    said = refused("rerank", lists, "--strategy", "bidis", "--tuned", tuned)

    assert said.startswith(message.replace("{}", str(tuned)))
    assert "`bidibeam tune RUN`" in said


def test_work_that_was_not_counted_is_not_told(lists: Path) -> None:
    assert "Work" not in called("rerank", lists, "--strategy", "random").told
    assert "Work: 8 pairs compared." in called("rerank", lists).told


FILES = Path(__file__).parents[1] / "interchange" / "formats" / "files"

COUNT = ("--per-source", "4")


def test_scores_that_a_format_has_not_are_missed_by_name_and_line(tmp_path: Path) -> None:
    text = FILES / "mbrs-decode.txt"

    assert refused("rerank", text, *COUNT, "--strategy", "vbs") == (
        f"{text}, line 1: source '1', regular[0] has no \"score\", and vbs needs it; `bidibeam score` adds "
        "it, given the model, or choose a strategy without, such as longest."
    )
    other = tmp_path / "other.txt"
    other.write_bytes(text.read_bytes())
    joined = (text, *COUNT, "--reverse", other)
    assert len(called("rerank", *joined).replies) == 3
    assert refused("rerank", *joined, "--agreement", "expected") == (
        f"{text} and {other}: source '1', regular[0] has no \"log_prob\", and bidia needs it; "
        "`bidibeam score` adds it, given the model."
    )


def test_flags_that_are_not_for_a_format_are_named(tmp_path: Path) -> None:
    lists = write_lines(tmp_path / "l.jsonl", {"regular": [{"text": "a"}], "reverse": [{"text": "b"}]})

    assert refused("rerank", lists, "--per-source", "2") == (
        "The format jsonl has no --per-source; that is for mbrs."
    )
    assert refused("rerank", lists, "--from", "moses") == (
        f"{lists}, line 1: expected `id ||| text ||| features ||| score`, received 1 field."
    )
    assert refused("rerank", FILES / "mbrs-decode.txt", "--from", "mbrs") == (
        f"{FILES / 'mbrs-decode.txt'}: flat text does not say how many hypotheses a source has. Say it by "
        "--per-source."
    )


def test_vectors_of_words_are_not_for_fairseqs_subwords_but_for_its_words(tmp_path: Path) -> None:
    vectors = write_vectors(tmp_path / "few.vec", ["i", "do", "know", "at", "."])
    flags = ("--reverse", FILES / "fairseq-interactive.out", "--similarity", "wmd", "--vectors", vectors)
    said = refused("rerank", FILES / "fairseq-interactive.out", *flags)

    assert said.startswith("The lists hold subwords, such as 'wor@@', and --vectors are vectors of words.")
    assert len(called("rerank", FILES / "fairseq-interactive.out", *flags, "--words").replies) == 4


GOOD = '{"regular": [{"text": "a"}], "reverse": [{"text": "b"}]}'


def refused_file(content: Path, *flags: str) -> str:
    """What is said of a file, the name taken out; nothing else may be in its directory afterwards."""
    before = content.read_bytes()
    said = refused("rerank", content, "--n-best", content.parent / "out.jsonl", *flags)
    assert [path.name for path in content.parent.iterdir()] == [content.name]
    assert content.read_bytes() == before
    assert said.startswith(f"{content}, ")
    return said.removeprefix(f"{content}, ")


def test_nothing_is_written_though_the_wrong_line_is_far_down(tmp_path: Path) -> None:
    """Far enough down that many batches come before it."""
    said = refused_file(write_lines(tmp_path / "in.jsonl", *[GOOD] * 700, "", '{"regular": [{"text": "a"}]}'))

    assert said.startswith("line 702: source '702' has no reverse hypotheses")


def test_a_line_through_a_pipe_is_named_too() -> None:
    """`-` has no name but <stdin>, which a replaced stdin does not know."""
    said = refused("rerank", "-", typed=f"{GOOD}\n{{oops\n")

    assert ", line 2: this is not JSON" in said


def test_a_direction_or_reference_that_a_strategy_needs_is_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", '{"regular": [{"text": "a"}]}')

    assert refused_file(path, "--strategy", "reverse-vbs") == (
        "line 1: source '1' has no reverse hypotheses, and reverse-vbs needs them; add a list \"reverse\", "
        "or choose another strategy."
    )
    assert refused_file(path, "--strategy", "oracle") == (
        "line 1: source '1' has no \"reference\", and oracle chooses by it; add one, or choose another "
        "strategy."
    )
    assert called("rerank", path, "--strategy", "longest").out == "a\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--similarity wmd_t",
            "The similarity wmd_t needs word vectors: give --vectors, a file of them.",
        ),
        (
            "--similarity embedding_cosine",
            ("The similarity embedding_cosine needs word vectors: give --vectors, a file of them."),
        ),
        ("--strategy bidis --lambda nan", "lambda must be a finite number, not nan."),
        ("--strategy bidis --seed 1", "The strategy bidis has no option seed. It has: --lambda."),
        (
            "--strategy vbs --similarity edit",
            "The strategy vbs compares no hypotheses, so it has no --similarity.",
        ),
        ("--similarity-option smoothing=some", "smoothing must be one of floor, none, add-1, not 'some'."),
        ("--resume", "--resume needs --n-best FILE: what is done is read from that file."),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(lists: Path, flags: str, message: str) -> None:
    assert refused("rerank", lists, *flags.split()) == message


def test_a_strategys_own_option_may_be_given_by_name(lists: Path) -> None:
    assert refused("rerank", lists, "--strategy-option", "answer") == (
        "--strategy-option must be NAME=VALUE, not 'answer'."
    )
    assert refused("rerank", lists, "--strategy-option", "answer=both") == (
        "--answer must be one of regular, either, not 'both'."
    )


@pytest.mark.parametrize("written", ["in.jsonl", "link.jsonl", "../{}/in.jsonl"])
def test_the_input_is_never_overwritten(tmp_path: Path, written: str) -> None:
    path = write_lines(tmp_path / "in.jsonl", GOOD)
    (tmp_path / "link.jsonl").symlink_to(path)

    said = refused("rerank", path, "--n-best", tmp_path / written.format(tmp_path.name))

    assert said == f"--n-best would overwrite the input, {path}. Name another file."
    assert path.read_text() == f"{GOOD}\n"


def test_nor_is_it_where_the_output_grows(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "out.jsonl.partial", GOOD)

    assert "would overwrite the input" in refused("rerank", path, "--n-best", tmp_path / "out.jsonl")
    assert path.read_text() == f"{GOOD}\n"


@pytest.mark.parametrize("workers", ["0", "-1", "many"])
def test_workers_are_counted_from_one(lists: Path, workers: str) -> None:
    call = called("rerank", lists, "--workers", workers)

    assert (call.status, call.out) == (2, "")
    assert "Invalid value for '--workers'" in call.err
