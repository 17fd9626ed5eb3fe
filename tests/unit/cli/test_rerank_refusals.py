"""`bidibeam rerank` on what it cannot use: one sentence, and nothing is written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.unit.cli.calls import called, refused, write_lines

GOOD = '{"regular": [{"text": "a"}], "reverse": [{"text": "b"}]}'

LINES = {
    "{oops": "this is not JSON: Expecting property name enclosed in double quotes at column 2.",
    "[1]": "expected a JSON object, received a list.",
    '{"regular": [{"text": "a"}]}': (
        "source '2' has no reverse hypotheses, and bidia needs them; add a list \"reverse\", or choose "
        "another strategy."
    ),
    '{"id": "x", "regular": [], "reverse": [{"text": "a"}]}': (
        "source 'x' has no regular hypotheses, and bidia needs them; add a list \"regular\", or choose "
        "another strategy."
    ),
    '{"regular": [], "reverse": []}': (
        'the source with the id "2" has no hypotheses. Give it at least one, or leave the line out.'
    ),
    '{"source": "a"}': (
        'the fields "regular" and "reverse" are both missing; one of them must be there, a list of '
        "hypotheses."
    ),
    '{"id": "1", "regular": [{"text": "a"}], "reverse": [{"text": "a"}]}': (
        'the id "1" stands on line 1 already. Give every source an id of its own, or leave all ids out.'
    ),
    '{"regular": [{"text": "a", "score": NaN}], "reverse": [{"text": "a"}]}': (
        "this is not usable JSON: NaN is not a number in JSON."
    ),
}
HYPOTHESES = {
    '{"regular": [{"text": "a"}, {}], "reverse": [{"text": "a"}]}': (
        'regular[1]: the fields "text" and "tokens" are both missing; one of them must be there.'
    ),
    '{"regular": [{"text": "a"}], "reverse": [{"tokens": ["a"]}]}': (
        'reverse[0]: this hypothesis has "tokens", unlike that of line 1, regular[0]. Give tokens to every '
        "hypothesis of a file, or to none."
    ),
    '{"regular": [{"text": "a"}], "reverse": [{"text": "a", "score": "high"}]}': (
        'reverse[0]: "score" must be a finite number, received the string "high".'
    ),
}


def refused_file(content: Path, *flags: str) -> str:
    """What is said of a file, the name taken out; nothing else may be in its directory afterwards."""
    before = content.read_bytes()
    said = refused("rerank", content, "--n-best", content.parent / "out.jsonl", *flags)
    assert [path.name for path in content.parent.iterdir()] == [content.name]
    assert content.read_bytes() == before
    assert said.startswith(f"{content}, ")
    return said.removeprefix(f"{content}, ")


@pytest.mark.parametrize(("line", "message"), LINES.items())
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, line: str, message: str) -> None:
    assert refused_file(write_lines(tmp_path / "in.jsonl", GOOD, line)) == f"line 2: {message}"


@pytest.mark.parametrize(("line", "message"), HYPOTHESES.items())
def test_a_hypothesis_that_does_not_fit_is_named(tmp_path: Path, line: str, message: str) -> None:
    assert refused_file(write_lines(tmp_path / "in.jsonl", GOOD, line)) == f"line 2, {message}"


def test_nothing_is_written_though_the_wrong_line_is_far_down(tmp_path: Path) -> None:
    """Far enough down that many batches come before it."""
    said = refused_file(write_lines(tmp_path / "in.jsonl", *[GOOD] * 700, "", '{"regular": [{"text": "a"}]}'))

    assert said.startswith("line 702: source '702' has no reverse hypotheses")


def test_a_line_through_a_pipe_is_named_too() -> None:
    """`-` has no name but <stdin>, which a replaced stdin does not know."""
    said = refused("rerank", "-", typed=f"{GOOD}\n{{oops\n")

    assert ", line 2: this is not JSON" in said


ADD = "`bidibeam score` adds it, given the model"
SCORES = '"log_prob": -1, "score": -1'


@pytest.mark.parametrize(
    ("flags", "hypothesis", "missing"),
    [
        (
            "--strategy vbs",
            "",
            f'"score", and vbs needs it; {ADD}, or choose a strategy without, such as longest.',
        ),
        (
            "--strategy vbs-tuned --length-exponent 1 --word-reward 0",
            '"score": -1',
            f'"log_prob", and vbs-tuned needs it; {ADD}.',
        ),
        ("--agreement expected", '"score": -1', f'"log_prob", and bidia needs it; {ADD}.'),
        (
            "--strategy bidis",
            SCORES,
            (
                '"other_log_prob", and bidis needs it; `bidibeam decode` writes it into n-best lists for a '
                "model of both directions, and `bidibeam score` adds it, given the reverse model."
            ),
        ),
        (
            "--strategy bidis",
            '"score": -1, "other_log_prob": -1',
            f'"log_prob", and bidis needs it; {ADD}.',
        ),
    ],
)
def test_a_score_that_is_missing_is_named(tmp_path: Path, flags: str, hypothesis: str, missing: str) -> None:
    full = f'{{"text": "a", {SCORES}, "other_log_prob": -1}}'
    lacking = f'{{"text": "a", {hypothesis}}}'.replace(", }", "}")
    line = f'{{"id": "x", "regular": [{full}, {lacking}], "reverse": [{full}]}}'

    said = refused_file(write_lines(tmp_path / "in.jsonl", "", line), *flags.split())

    assert said == f"line 2: source 'x', regular[1] has no {missing}"


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


def test_vectors_of_words_are_not_for_subwords(tmp_path: Path, vectors: Path) -> None:
    pieces = [{"tokens": ["\u0120the", "\u0120cat", "s"]}]
    path = write_lines(tmp_path / "in.jsonl", {"regular": pieces, "reverse": pieces})

    assert refused("rerank", path, "--similarity", "wmd", "--vectors", vectors) == (
        "The lists hold subwords, such as '\u0120cat', and --vectors are vectors of words. Leave \"tokens\" "
        "out of the file, so that texts are split into words, or use another similarity."
    )


def test_a_strategys_own_option_may_be_given_by_name(lists: Path) -> None:
    assert refused("rerank", lists, "--strategy-option", "answer") == (
        "--strategy-option must be NAME=VALUE, not 'answer'."
    )
    assert refused("rerank", lists, "--strategy-option", "answer=both") == (
        "--answer must be one of regular, either, not 'both'."
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing, torn = tmp_path / "no.jsonl", tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(b"x" * 100_000)[:60])

    assert refused("rerank", missing) == f"{missing} cannot be read: No such file or directory."
    assert refused("rerank", tmp_path) == f"{tmp_path} cannot be read: Is a directory."
    assert refused("rerank", torn).startswith(f"{torn} cannot be unpacked after line 0: ")


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
