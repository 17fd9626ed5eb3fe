"""`bidibeam rerank` on lists that are as they should be."""

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
from tests.unit.cli.calls import called, lines_of, refused, write_lines

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


def test_t_is_what_makes_it_prefer_long_replies(lists: Path) -> None:
    assert called("rerank", lists, "--max-length", "3").replies == ["At work.", "Not now."]
    assert called("rerank", lists, "--similarity", "bleu").replies == ["At work.", "Not now."]
    option = ("--similarity-option", "max_length=3")
    assert called("rerank", lists, *option).replies == ["At work.", "Not now."]


def test_either_direction_may_answer(lists: Path) -> None:
    assert called("rerank", lists, "--answer", "either", "--similarity", "token_f1").replies == [
        "At work.",
        "Not now.",
    ]
    either = called("rerank", lists, "--answer", "either", "--max-length", "5").replies
    assert either == ["I'm at home now.", "Not now."]


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


def test_the_ranking_stands_beside_the_lists(tmp_path: Path) -> None:
    line = {
        "id": 7,
        "source": "where?",
        "regular": [{"text": "I know"}, {"text": "At home"}, {"text": "at", "finished": False}],
        "reverse": [{"text": "no"}, {"text": "at home now", "score": -1}],
    }
    out = tmp_path / "deep" / "out.jsonl"

    call = called(
        "rerank", write_lines(tmp_path / "l.jsonl", line), "--similarity", "token_f1", "--n-best", out
    )

    unknown = {"log_prob": None, "other_log_prob": None}
    assert lines_of(out) == [
        {
            "id": "7",
            "source": "where?",
            "reference": None,
            "regular": [
                {
                    "text": "I know",
                    "tokens": ["i", "know"],
                    **unknown,
                    "length": 3,
                    "score": None,
                    "finished": True,
                },
                {
                    "text": "At home",
                    "tokens": ["at", "home"],
                    **unknown,
                    "length": 3,
                    "score": None,
                    "finished": True,
                },
                {"text": "at", "tokens": ["at"], **unknown, "length": 1, "score": None, "finished": False},
            ],
            "reverse": [
                {"text": "no", "tokens": ["no"], **unknown, "length": 2, "score": None, "finished": True},
                {
                    "text": "at home now",
                    "tokens": ["at", "home", "now"],
                    **unknown,
                    "length": 4,
                    "score": -1.0,
                    "finished": True,
                },
            ],
            "ranking": {
                "signature": call.signature,
                "replies": [
                    {"text": "At home", "score": 0.8, "direction": "regular", "place": 1, "partner": 1},
                    {"text": "I know", "score": 0.0, "direction": "regular", "place": 0, "partner": 0},
                    {"text": "at", "score": 0.5, "direction": "regular", "place": 2, "partner": 1},
                ],
            },
        }
    ]
    assert call.out == "At home\n"
    assert [path.name for path in out.parent.iterdir()] == ["out.jsonl"]


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


SCORED = {"log_prob": -2.0, "score": -1.0}
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
