"""`bidibeam decode`: the reply of every strategy, options and refusals, what is read and what is written."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES
from tests.unit.cli.calls import QUICK, VBS, called, fill, lines_of, refused, write_lines

SEARCH = ("--beam-size", "6", "--max-length", "5")
COMMAND = [sys.executable, "-m", "bidibeam", "decode"]
ENVIRONMENT = {**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"}

Line = dict[str, Any]


def token_f1s(one: Line, others: list[Line]) -> list[float]:
    counts = [(Counter(one["tokens"]) & Counter(other["tokens"])).total() for other in others]
    lengths = [len(one["tokens"]) + len(other["tokens"]) for other in others]
    return [2 * count / length for count, length in zip(counts, lengths, strict=True)]


def expected_f1(one: Line, others: list[Line]) -> float:
    values = zip(others, token_f1s(one, others), strict=True)
    return sum(math.exp(other["log_prob"]) * value for other, value in values)


def bidis(one: Line, _: list[Line]) -> float:
    penalty = one["log_prob"] / one["score"]
    return float(one["score"] + 0.5 * one["other_log_prob"] / penalty)


def vbs_tuned(one: Line, _: list[Line]) -> float:
    return float(one["log_prob"] / (5 + one["length"]) ** 2 * 6**2 + 0.3 * one["length"])


RULES: dict[str, Callable[[Line, list[Line]], float]] = {
    "vbs": lambda one, _: float(one["score"]),
    "reverse-vbs": lambda one, _: float(one["score"]),
    "longest": lambda one, _: len(one["tokens"]),
    "bidis --lambda 0.5": bidis,
    "vbs-tuned --length-exponent 2 --word-reward 0.3": vbs_tuned,
    "bidia --similarity token_f1": lambda one, others: max(token_f1s(one, others)),
    "bidia --similarity token_f1 --agreement mean": lambda one, others: sum(token_f1s(one, others)),
    "bidia --similarity token_f1 --agreement expected": expected_f1,
}
"""What the reply has the most of, given the reverse beam."""


def reply_by_rule(strategy: str, line: Line) -> str:
    """The first of the highest; those that were cut off only if all were."""
    hypotheses = line["reverse" if strategy == "reverse-vbs" else "regular"]
    finished = [hypothesis for hypothesis in hypotheses if hypothesis["finished"]]
    best = max(finished or hypotheses, key=lambda one: RULES[strategy](one, line["reverse"]))
    return str(best["text"])


@pytest.mark.parametrize("strategy", RULES)
def test_every_strategy_replies_by_its_rule(
    unsure_run: Path, toy_data: PreparedData, tmp_path: Path, strategy: str
) -> None:
    out = tmp_path / "out.jsonl"
    arguments = ("decode", unsure_run, toy_data.path / "test.jsonl", *SEARCH, "--strategy", *strategy.split())

    wide, alone = called(*arguments, "--n-best", out), called(*arguments)

    lines = lines_of(out)
    hypotheses = [one for line in lines for one in (*line["regular"], *line["reverse"])]
    cut_off = sum(not one["finished"] for one in hypotheses)
    assert cut_off
    assert f"Note: {cut_off:,} of {len(hypotheses):,} hypotheses were cut off at --max-length 5." in wide.told
    assert wide.replies == alone.replies == [reply_by_rule(strategy, line) for line in lines]


@pytest.mark.parametrize(("strategy", "searched"), [("vbs", 1), ("reverse-vbs", 1), ("bidia", 2)])
def test_every_hypothesis_is_written_with_the_scores_of_both_directions(
    toy_run: Path, toy_data: PreparedData, tmp_path: Path, strategy: str, searched: int
) -> None:
    out, sources = tmp_path / "out.jsonl", toy_data.path / "test.jsonl"

    assert called("decode", toy_run, sources, *SEARCH, "--strategy", strategy, "--n-best", out).replies

    examples, lines = list(toy_data.examples("test")), lines_of(out)
    for key in ("id", "source", "reference"):
        assert [line[key] for line in lines] == [example[key] for example in examples]
    for line in lines:
        beams = [line[direction] for direction in ("regular", "reverse") if line[direction]]
        assert [len(beam) for beam in beams] == [6 // searched] * searched
        for one in (one for beam in beams for one in beam):
            assert one["log_prob"] < 0
            assert one["other_log_prob"] < 0
            assert one["score"] == pytest.approx(one["log_prob"] / ((5 + one["length"]) / 6) ** 0.6, rel=1e-5)


def test_a_file_of_one_beam_is_noted_where_the_model_has_two(
    toy_run: Path, regular_run: Path, tmp_path: Path
) -> None:
    def told(run: Path, strategy: str) -> str:
        out = tmp_path / "out.jsonl"
        return called("decode", run, "--strategy", strategy, "--n-best", out, typed="red cat\n").told

    note = "out.jsonl has one beam alone, as the strategy needs it: --strategy bidia writes both."
    assert note in told(toy_run, "bidis")
    assert note not in told(toy_run, "bidia")
    assert note not in told(regular_run, "vbs")


def test_the_oracle_replies_with_what_is_nearest_to_the_reference(toy_run: Path, tmp_path: Path) -> None:
    out, sources = tmp_path / "out.jsonl", tmp_path / "sources.tsv"
    assert called("decode", toy_run, "--strategy", "vbs", "--n-best", out, typed="red cat\n").status == 0
    wanted = lines_of(out)[0]["regular"][-1]["text"]
    sources.write_text(f"red cat\t{wanted}\n")

    assert called("decode", toy_run, sources, "--strategy", "oracle").replies == [wanted]


def test_random_replies_depend_on_seed_and_source_alone(toy_run: Path, toy_data: PreparedData) -> None:
    def replies(*flags: str) -> list[str]:
        sources = toy_data.path / "test.jsonl"
        return called("decode", toy_run, sources, "--strategy", "random", *flags).replies

    assert replies() == replies("--seed", "0", "--batch-size", "1") != replies("--seed", "1")


def test_count_work_and_signature_go_to_stderr(toy_run: Path) -> None:
    call = called("decode", toy_run, *SEARCH, "--strategy", "bidia", typed="red cat\nwhite\n")

    assert re.search(
        r"2 sources in \d+\.\d s\. Work: \d+ rows projected, 18 pairs compared\.\n"
        r"Signature: strategy:bidia\|similarity:bleu_t\|.*T:4\|answer:regular\|agreement:closest\|"
        r"beam_size:6\|max_length:5\|.*model:[0-9a-f]{12}\|bidibeam:[0-9.]+\n",
        call.err,
    )
    assert len(call.replies) == 2
    assert "1 source in" in called("decode", toy_run, typed="white\n").err


def test_how_many_were_tied_is_told_where_all_were_ranked(toy_run: Path, tmp_path: Path) -> None:
    flags = ("--strategy", "longest", "--n-best", tmp_path / "o")

    call = called("decode", toy_run, *flags, typed="red\nred cat dog\n")

    ranked = [[reply["score"] for reply in line["ranking"]["replies"]] for line in lines_of(tmp_path / "o")]
    tied = sum(scores.count(scores[0]) for scores in ranked) / 2
    assert f"For the first place {tied:.2f} hypotheses were tied on average." in call.told


@pytest.mark.parametrize("strategy", ["vbs", "bidis", "bidia"])
def test_where_nothing_is_finished_and_kept_replies_are_empty(
    toy_run: Path, tmp_path: Path, strategy: str
) -> None:
    flags = ("--strategy", strategy, "--beam-size", "2", "--unfinished", "drop", "--max-length", "2")
    typed = "red cat dog bird fish\nwhite dog fish cat\n"

    call = called("decode", toy_run, *flags, "--n-best", tmp_path / "o", typed=typed)

    assert call.replies == called("decode", toy_run, *flags, typed=typed).replies == ["", ""]
    assert [(line["regular"], line["reverse"]) for line in lines_of(tmp_path / "o")] == [([], [])] * 2


REFUSED = {
    # In the library's own tests the sentences stand whole; here flags stand in place of parameters.
    "--beam-size 0": "--beam-size must be at least 1, not 0.",
    "--max-length 0": "--max-length must be at least 1, not 0.",
    "--length-penalty nan": "--length-penalty must be a finite number, not nan.",
    "--no-repeat-ngram-size -1": "--no-repeat-ngram-size must be at least 0, not -1.",
    "--repetition-penalty 0": "--repetition-penalty must be a finite number above 0, not 0.0.",
    "--repetition-penalty nan": "--repetition-penalty must be a finite number above 0, not nan.",
    "--bad-words red --bad-words xyzzy": "--bad-words has 'xyzzy', which the tokenizer of run cannot spell",
    "--beam-size 1 --strategy bidia": "--beam-size must be at least 2 for bidia",
    "--strategy bidis --lambda=-inf": "lambda must be a finite number, not -inf.",
    "--strategy vbs-tuned --word-reward inf --length-exponent 1": "--word-reward must be a finite number",
    "--strategy longets": f"'longest'? Choose one of: {', '.join(STRATEGIES.names())}.",
    "--similarity blue_t": f"'bleu_t'? Choose one of: {', '.join(SIMILARITIES.names())}.",
    "--strategy bidis --vectors x": "bidis compares no hypotheses, so it has no --vectors.",
    "--strategy vbs --similarity-option order=2": "so it has no --similarity-option.",
    "--strategy bidis --answer either": "bidis has no option answer. It has: --lambda.",
    "--strategy bidia --lambda 1": "bidia has no option --lambda. It has: similarity, answer, agreement.",
    "--strategy vbs-tuned": "needs --length-exponent and --word-reward; `bidibeam tune` finds good values",
    "--similarity-option order": "--similarity-option must be NAME=VALUE, not 'order'.",
    "--similarity-option =2": "--similarity-option must be NAME=VALUE, not '=2'.",
    "--similarity-option order=[": "The value of --similarity-option order, line 1: this is not YAML: ",
    "--similarity-option order=2024-13-45": ", not '2024-13-45'.",
    "--similarity-option order=!!binary": "order is not YAML for settings: the tag 'binary' stands for no",
    "--similarity wmd_t --vectors {vec}": "{vec} holds none of the words wanted. Is it for another language?",
    "--vectors no-such.vec": "The similarity bleu_t uses no word vectors: leave --vectors out.",
    "--strategy oracle": "Source '1' has no reference, and the oracle chooses by it. Add one, or choose "
    "another --strategy.",
    "--dtype bfloat16": "computes in float32, not bfloat16.",
    "--reverse other": "holds its directions itself: give it as the model, and leave out --reverse.",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_what_cannot_be_done_is_said_in_one_sentence(toy_run: Path, tmp_path: Path, flags: str) -> None:
    files = {"vec": write_lines(tmp_path / "other.vec", "1 2", "horsefly 1 2")}

    said = refused("decode", toy_run, "-", *fill(flags, files).split(), typed="red cat\n")

    assert fill(REFUSED[flags], files) in said


def test_replies_follow_options_of_repetition_and_bad_words(toy_run: Path, tmp_path: Path) -> None:
    def tokens(*flags: str) -> list[list[str]]:
        out = tmp_path / "out.jsonl"
        out.unlink(missing_ok=True)
        call = called("decode", toy_run, *QUICK, *flags, "--n-best", out, typed="red red red\nblue cat\n")
        facts = {"--no-repeat-ngram-size": "no_repeat_ngram_size:1", "--bad-words": "bad_words:cat,red red"}
        assert [fact in call.signature for fact in facts.values()] == [flag in flags for flag in facts]
        assert ("repetition_penalty:10000|" in call.signature) == ("--repetition-penalty" in flags)
        found = [one for line in lines_of(out) for one in (*line["regular"], *line["reverse"])]
        return [one["tokens"] for one in found]

    assert ["red", "red", "red", "!"] in tokens()
    assert ["blue", "cat", "!"] in tokens()
    assert all(len({*each}) == len(each) for each in tokens("--no-repeat-ngram-size", "1"))
    assert ["red", "red", "red", "!"] not in tokens("--repetition-penalty", "1e4")
    for each in tokens("--bad-words", "cat", "--bad-words", "red red"):
        assert "cat" not in each
        assert "red red" not in " ".join(each)


def test_a_missing_input_file_is_named_before_anything_is_loaded(
    toy_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bidibeam.models.loading.load", lambda *_, **__: pytest.fail("loaded"))

    assert refused("decode", toy_run, "no.txt") == "no.txt cannot be read: No such file or directory."


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


@pytest.mark.parametrize("suffix", ["", ".partial"])
def test_the_input_is_never_overwritten(toy_run: Path, tmp_path: Path, suffix: str) -> None:
    sources = write_lines(tmp_path / f"beams.jsonl{suffix}", {"source": "red"})

    for run in ((toy_run,), ()):
        said = refused("decode", *run, sources, "--n-best", tmp_path / "beams.jsonl")
        assert said == f"--n-best would overwrite the input, {sources}. Name another file."
    assert lines_of(sources) == [{"source": "red"}]


def test_what_was_answered_before_a_broken_source_stays_for_resume(toy_run: Path, tmp_path: Path) -> None:
    """An input is read once, as it is answered, so what is broken is found on the way."""
    sources, out = write_lines(tmp_path / "s.jsonl", {"source": "red"}, {"source": 7}), tmp_path / "o" / "b"
    flags = ("--n-best", out, "--batch-size", "1", *VBS)

    for given, typed in ((sources, b""), ("-", b"red\n\xff\n")):
        call = called("decode", toy_run, given, *flags, typed=typed)
        assert (call.status, call.out) == (1, "red!\n")
        assert "line 2" in call.err.splitlines()[-1]
        assert [path.name for path in out.parent.iterdir()] == ["b.partial"]
        assert [line["source"] for line in lines_of(tmp_path / "o" / "b.partial")] == ["red"]

    write_lines(sources, {"source": "red"}, {"source": "blue dog"})
    again = called("decode", toy_run, sources, *flags, "--resume")
    assert again.replies == ["red!", "blue dog!"]
    assert "1 was done already." in again.told


def test_replies_go_to_stdout_even_if_a_terminal_shows_progress(toy_run: Path, terminal: io.StringIO) -> None:
    """rich takes stdout over while a bar is shown on a terminal, unless it is told not to."""
    call = called("decode", toy_run, *VBS, typed="red cat\nwhite\n")

    assert call.replies == ["red cat!", "white!"]
    assert "decoding" in terminal.getvalue()


def test_line_buffered_answers_each_line_before_it_reads_the_next(toy_run: Path) -> None:
    """As another program talks to it: over pipes, a line at a time."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    command = [*COMMAND, str(toy_run), *VBS, "--line-buffered"]
    with (
        subprocess.Popen(command, **pipes, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT) as process,
        ThreadPoolExecutor(1) as reader,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            replies = []
            for source in ("", "red cat", "", "blue dog fish"):
                process.stdin.write(f"{source}\n")
                process.stdin.flush()
                replies.append(reader.submit(process.stdout.readline).result(timeout=300))
            process.stdin.close()
            assert process.wait(timeout=300) == 0
        finally:
            process.kill()

    assert replies[1::2] == ["red cat!\n", "blue dog fish!\n"]


def test_a_note_says_when_t_decides_more_than_agreement(tmp_path: Path) -> None:
    lines = ["how are you?", "i have an exam tomorrow.", "goodbye!"]
    sources, few = (write_lines(tmp_path / f"{count}.txt", *lines * count) for count in (4, 3))
    call = ("decode", sources, "--strategy", "bidia bleu_t", "--beam-size", "20", "--similarity-option")

    long, fitting = (called(*call, f"max_length={length}").told for length in (60, 1))

    assert "by bidia bleu_t (T 60) would be others without T: length decides more than agreement" in long
    assert "Try another T by --similarity-option max_length=N" in long  # --max-length is of the search
    assert "without T" not in fitting
    assert "without T" not in called("decode", few, *call[2:], "max_length=60").told  # on so few
