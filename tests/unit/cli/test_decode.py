"""`bidibeam decode`."""

from __future__ import annotations

import math
import os
import pty
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES
from tests.unit.cli.calls import called, lines_of, refused, write_lines

SEARCH = ("--beam-size", "6", "--max-length", "5")
KNOWN = [", ".join(registry.names()) for registry in (STRATEGIES, SIMILARITIES)]

Line = dict[str, Any]


def bidis(hypothesis: Line) -> float:
    penalty = hypothesis["log_prob"] / hypothesis["score"]
    return float(hypothesis["score"] + 0.5 * hypothesis["other_log_prob"] / penalty)


def vbs_tuned(hypothesis: Line) -> float:
    length = hypothesis["length"]
    return float(hypothesis["log_prob"] / (5 + length) ** 2 * 6**2 + 0.3 * length)


def token_f1s(one: Line, others: list[Line]) -> list[float]:
    counts = [(Counter(one["tokens"]) & Counter(other["tokens"])).total() for other in others]
    lengths = [len(one["tokens"]) + len(other["tokens"]) for other in others]
    return [2 * count / length for count, length in zip(counts, lengths, strict=True)]


def best(hypotheses: list[Line], value: Callable[[Line], float]) -> str:
    """The first of the highest; those that were cut off only if all were."""
    finished = [hypothesis for hypothesis in hypotheses if hypothesis["finished"]]
    return str(max(finished or hypotheses, key=value)["text"])


RULES: dict[tuple[str, ...], Callable[[Line], str]] = {
    ("vbs",): lambda line: best(line["regular"], lambda hypothesis: float(hypothesis["score"])),
    ("reverse-vbs",): lambda line: best(line["reverse"], lambda hypothesis: float(hypothesis["score"])),
    ("longest",): lambda line: best(line["regular"], lambda hypothesis: len(hypothesis["tokens"])),
    ("bidis", "--lambda", "0.5"): lambda line: best(line["regular"], bidis),
    ("vbs-tuned", "--length-exponent", "2", "--word-reward", "0.3"): lambda line: best(
        line["regular"], vbs_tuned
    ),
    ("bidia", "--similarity", "token_f1"): lambda line: best(
        line["regular"], lambda hypothesis: max(token_f1s(hypothesis, line["reverse"]))
    ),
    ("bidia", "--similarity", "token_f1", "--agreement", "mean"): lambda line: best(
        line["regular"], lambda hypothesis: sum(token_f1s(hypothesis, line["reverse"]))
    ),
    ("bidia", "--similarity", "token_f1", "--agreement", "expected"): lambda line: best(
        line["regular"],
        lambda hypothesis: sum(
            math.exp(other["log_prob"]) * value
            for other, value in zip(line["reverse"], token_f1s(hypothesis, line["reverse"]), strict=True)
        ),
    ),
}


@pytest.mark.parametrize("strategy", RULES, ids=" ".join)
@pytest.mark.parametrize("writes", [False, True], ids=["replies alone", "all"])
def test_every_strategy_replies_by_its_rule(
    unsure_run: Path, toy_data: PreparedData, tmp_path: Path, strategy: tuple[str, ...], writes: bool
) -> None:
    sources, out = toy_data.path / "test.jsonl", tmp_path / "out.jsonl"
    arguments = ("decode", unsure_run, sources, *SEARCH, "--strategy", *strategy)

    wide = called(*arguments, "--n-best", out)
    call = wide if writes else called(*arguments)

    lines = lines_of(out)
    assert any(not one["finished"] for line in lines for one in (*line["regular"], *line["reverse"]))
    assert call.replies == [RULES[strategy](line) for line in lines]


@pytest.mark.parametrize(("strategy", "searched"), [("vbs", 1), ("reverse-vbs", 1), ("bidia", 2)])
def test_every_hypothesis_is_written_with_both_opinions(
    toy_run: Path, toy_data: PreparedData, tmp_path: Path, strategy: str, searched: int
) -> None:
    out = tmp_path / "out.jsonl"

    assert called(
        "decode", toy_run, toy_data.path / "test.jsonl", *SEARCH, "--strategy", strategy, "--n-best", out
    ).replies

    examples, lines = list(toy_data.examples("test")), lines_of(out)
    for key in ("id", "source", "reference"):
        assert [line[key] for line in lines] == [example[key] for example in examples]
    for line in lines:
        beams = [line[direction] for direction in ("regular", "reverse") if line[direction]]
        assert [len(beam) for beam in beams] == [6 // searched] * searched
        for hypothesis in (hypothesis for beam in beams for hypothesis in beam):
            assert hypothesis["log_prob"] < 0
            assert hypothesis["other_log_prob"] < 0
            assert hypothesis["score"] == pytest.approx(
                hypothesis["log_prob"] / ((5 + hypothesis["length"]) / 6) ** 0.6, rel=1e-5
            )


def test_the_oracle_replies_with_what_is_nearest_to_the_reference(toy_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert called("decode", toy_run, "--strategy", "vbs", "--n-best", out, typed="red cat\n").status == 0
    wanted = lines_of(out)[0]["regular"][-1]["text"]

    sources = tmp_path / "sources.tsv"
    sources.write_text(f"red cat\t{wanted}\n")

    assert called("decode", toy_run, sources, "--strategy", "oracle").replies == [wanted]


def test_random_replies_depend_on_seed_and_source_alone(toy_run: Path, toy_data: PreparedData) -> None:
    sources = toy_data.path / "test.jsonl"

    def replies(*flags: str) -> list[str]:
        return called("decode", toy_run, sources, "--strategy", "random", *flags).replies

    assert replies() == replies("--seed", "0", "--batch-size", "1") != replies("--seed", "1")


def test_stdin_is_answered_line_by_line(toy_run: Path) -> None:
    call = called("decode", toy_run, "--strategy", "vbs", typed="red cat\n\nblue dog fish\n")

    assert len(call.replies) == 3
    assert (call.replies[0], call.replies[2]) == ("red cat!", "blue dog fish!")


def test_count_work_and_signature_go_to_stderr(toy_run: Path) -> None:
    call = called("decode", toy_run, *SEARCH, typed="red cat\nwhite\n")

    assert re.fullmatch(
        r"(Compiling .*\n)?2 sources in \d+\.\d s\. Work: \d+ rows projected, 18 pairs compared\.\n"
        r"Signature: strategy:bidia\|similarity:bleu_t\|.*T:5\|answer:regular\|agreement:closest\|"
        r"beam_size:6\|max_length:5\|.*model:[0-9a-f]{12}\|bidibeam:[0-9.]+\n",
        call.err,
    )
    assert len(call.replies) == 2
    assert "1 source in" in called("decode", toy_run, typed="white\n").err


def test_how_many_were_tied_is_told_where_all_were_ranked(toy_run: Path, tmp_path: Path) -> None:
    call = called(
        "decode", toy_run, "--strategy", "longest", "--n-best", tmp_path / "o", typed="red\nred cat dog\n"
    )

    ranked = [[reply["score"] for reply in line["ranking"]["replies"]] for line in lines_of(tmp_path / "o")]
    tied = sum(scores.count(scores[0]) for scores in ranked) / 2
    assert f"For the first place {tied:.2f} hypotheses were tied on average." in call.told


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--beam-size 0", "--beam-size must be at least 1, not 0."),
        ("--max-length 0", "--max-length must be at least 1, not 0."),
        ("--length-penalty nan", "--length-penalty must be a finite number, not nan."),
        ("--length-penalty -50000", "--length-penalty must lie between -10 and 10, not -50000.0."),
        ("--beam-size 100000000000", "--beam-size must be at most 100,000, not 100,000,000,000."),
        (
            "--beam-size 1",
            "--beam-size must be at least 2 for bidia, which shares it out among the directions, not 1.",
        ),
        ("--strategy bidis --lambda nan", "lambda must be a finite number, not nan."),
        ("--strategy bidis --lambda=-inf", "lambda must be a finite number, not -inf."),
        (
            "--strategy vbs-tuned --word-reward inf --length-exponent 1",
            "word_reward must be a finite number, not inf.",
        ),
        (
            "--strategy longets",
            f"Unknown strategy 'longets'. Did you mean 'longest'? Choose one of: {KNOWN[0]}.",
        ),
        (
            "--similarity blue_t",
            f"Unknown similarity 'blue_t'. Did you mean 'bleu_t'? Choose one of: {KNOWN[1]}.",
        ),
        (
            "--strategy vbs --similarity bleu",
            "The strategy vbs compares no hypotheses, so it has no --similarity.",
        ),
        (
            "--strategy bidis --vectors x",
            "The strategy bidis compares no hypotheses, so it has no --vectors.",
        ),
        (
            "--strategy vbs --similarity-option order=2",
            "The strategy vbs compares no hypotheses, so it has no --similarity-option.",
        ),
        (
            "--strategy bidis --answer either",
            "The strategy bidis has no option answer. It has: lambda_.",
        ),
        (
            "--lambda 1",
            "The strategy bidia has no option lambda_. It has: similarity, answer, agreement.",
        ),
        ("--strategy vbs --seed 0", "The strategy vbs has no option seed. It has: none."),
        (
            "--strategy vbs-tuned",
            (
                "The strategy vbs-tuned needs length_exponent and "
                "word_reward; `bidibeam tune` finds good "
                "values, for a run or for Hugging Face models: decode then uses them, and rerank takes them "
                "as tuned."
            ),
        ),
        ("--similarity-option order", "--similarity-option must be NAME=VALUE, not 'order'."),
        ("--similarity-option =2", "--similarity-option must be NAME=VALUE, not '=2'."),
        (
            "--similarity-option order=[",
            "--similarity-option order has a value that cannot be read: '['.",
        ),
        (
            "--similarity-option odor=2",
            "The similarity bleu_t has no option odor. It has: order, weights, smoothing, max_length.",
        ),
        ("--similarity-option order=0", "order must be a whole number from 1 to 16, not 0."),
        (
            "--similarity wmd_t --vectors no-such.vec",
            "There is no vector file no-such.vec. Give a .vec file, plain, .gz or .xz.",
        ),
        ("--resume", "--resume needs --n-best FILE: what is done is read from that file."),
        (
            "--strategy oracle",
            "Source '1' has no reference, and the oracle chooses by it. Choose another strategy.",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(toy_run: Path, flags: str, message: str) -> None:
    assert refused("decode", toy_run, *flags.split(), typed="red cat\n") == message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--stopping shrink", "Unknown stopping rule 'shrink'. Did you mean 'shrinking'?"),
        ("--device toaster", "There is no device 'toaster' here"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_that_begins(
    toy_run: Path, flags: str, message: str
) -> None:
    assert refused("decode", toy_run, *flags.split(), typed="red cat\n").startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2 3\nred 1 2 3\ncat 1 2\n", ", line 3 has 2 numbers, but the first line promises 3."),
        ("1 2\nred 1 x\n", ", line 2 holds something that is not a number"),
        ("1 2\nhorsefly 1 2\n", " holds none of the words wanted. Is it for another language?"),
    ],
)
def test_vectors_that_are_damaged_are_named(
    toy_run: Path, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "bad.vec"
    path.write_text(content)

    said = refused("decode", toy_run, "--similarity", "wmd_t", "--vectors", path, typed="red cat\n")

    assert said.startswith(f"{path}{message}")


def test_options_of_the_similarity_and_its_vectors_stand_in_the_signature(
    toy_run: Path, vectors: Path
) -> None:
    def signature(*flags: object) -> str:
        return called("decode", toy_run, *flags, typed="red cat\n").signature

    assert "|similarity:wmd_t|vectors:model|word_weights:count|" in signature("--similarity", "wmd_t")
    log = ("--similarity", "wmd", "--vectors", vectors, "--similarity-option", "weights=log")
    assert re.search(r"\|similarity:wmd\|vectors:toy\.vec@[0-9a-f]{8}\|word_weights:log\|", signature(*log))
    two = ("--similarity-option", "order=2", "--similarity-option", "weights=[0.25, 0.75]")
    assert "|similarity:bleu_t|order:2|order_weights:0.25,0.75|" in signature(*two)
    assert "|T:9|answer:either|agreement:mean|" in signature(
        "--answer", "either", "--agreement", "mean", "--similarity-option", "max_length=9"
    )


@pytest.mark.parametrize("strategy", ["bidia", "bidis", "reverse-vbs"])
def test_a_run_without_a_reverse_decoder_says_so(regular_run: Path, strategy: str) -> None:
    assert refused("decode", regular_run, "--strategy", strategy, typed="red\n") == (
        "This run has no reverse decoder, only: regular. Train one with both directions, or choose a "
        "--strategy that does without."
    )


def test_a_run_without_a_reverse_decoder_does_what_it_can(regular_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    assert called("decode", regular_run, "--strategy", "longest", "--n-best", out, typed="red\n").replies

    said = refused("rerank", out, "--strategy", "bidis")
    assert said == (
        f"{out}, line 1: source '1', regular[0] has no \"other_log_prob\", and bidis needs it; `bidibeam "
        "decode` writes it into n-best lists for a model of both directions, and `bidibeam score` adds it, "
        "given the reverse model."
    )


@pytest.mark.parametrize("suffix", ["", ".partial"])
def test_the_input_is_never_overwritten(toy_run: Path, tmp_path: Path, suffix: str) -> None:
    sources = write_lines(tmp_path / f"beams.jsonl{suffix}", {"source": "red"})

    said = refused("decode", toy_run, sources, "--n-best", tmp_path / "beams.jsonl")

    assert said == f"--n-best would overwrite the input, {sources}. Name another file."
    assert lines_of(sources) == [{"source": "red"}]


def test_a_broken_source_leaves_no_file_but_what_was_done_before_it(toy_run: Path, tmp_path: Path) -> None:
    broken, out = write_lines(tmp_path / "s.jsonl", {"source": "red"}, {"source": 7}), tmp_path / "o" / "b"

    at_once = called("decode", toy_run, broken, "--n-best", out, "--batch-size", "1")
    assert (at_once.status, at_once.out, out.parent.exists()) == (1, "", False)
    assert "line 2" in at_once.err

    flags = ("--n-best", out, "--batch-size", "1")
    one_by_one = called("decode", toy_run, "-", *flags, typed=b"red\n\xff\n")
    assert one_by_one.status == 1
    assert [path.name for path in out.parent.iterdir()] == ["b.partial"]
    assert [line["source"] for line in lines_of(tmp_path / "o" / "b.partial")] == ["red"]


def test_a_missing_input_file_is_named_before_anything_is_loaded(
    toy_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bidibeam.api.load_run", lambda *_, **__: pytest.fail("loaded"))

    assert refused("decode", toy_run, "no.txt") == "no.txt cannot be read: No such file or directory."


def test_replies_go_to_stdout_even_if_a_terminal_shows_progress(toy_run: Path, tmp_path: Path) -> None:
    """rich takes stdout over while a bar is shown on a terminal, unless it is told not to."""
    sources, replies = tmp_path / "sources.txt", tmp_path / "replies.txt"
    sources.write_text("red cat\nwhite\n")
    main_end, terminal = pty.openpty()
    with replies.open("wb") as out:
        command = [sys.executable, "-m", "bidibeam.cli.main", "decode", str(toy_run), str(sources)]
        environment = {**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [*command, "--strategy", "vbs"], stdout=out, stderr=terminal, env=environment, check=True
        )
    os.close(terminal)
    os.close(main_end)

    assert replies.read_text() == "red cat!\nwhite!\n"


def test_a_reader_that_leaves_early_is_no_error(toy_run: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources.txt"
    sources.write_text("red cat\n" * 400)
    command = f"{sys.executable} -m bidibeam.cli.main decode {toy_run} {sources} --strategy vbs | head -n 1"

    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert done.stdout == "red cat!\n"
    assert "Traceback" not in done.stderr
