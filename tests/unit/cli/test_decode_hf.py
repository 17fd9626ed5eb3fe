"""`bidibeam decode --regular MODEL --reverse MODEL`."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WORDS
from tests.unit.cli.calls import called, lines_of, refused, write_lines, write_vectors
from tests.unit.models.huggingface.folders import SOURCES, write_joint, write_pair

QUICK = ("--beam-size", "6", "--max-length", "7")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    regular, reverse = write_pair(tmp_path_factory.mktemp("pair"), "bart")
    return "--regular", str(regular), "--reverse", str(reverse)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    path = tmp_path / "sources.txt"
    path.write_text("".join(f"{source}\n" for source in SOURCES))
    return path


def test_replies_are_those_of_the_api_from_a_file_and_from_stdin(
    pair: tuple[str, ...], sources: Path
) -> None:
    from bidibeam.hf import load_hf_decoder
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(beam_size=6, max_length=7)
    expected = [
        nbest.best.text for nbest in load_hf_decoder(pair[1], pair[3], settings=settings).decode(SOURCES)
    ]

    written = called("decode", *pair, sources, *QUICK)
    typed = called("decode", *pair, *QUICK, typed=sources.read_bytes())

    assert (
        written.replies
        == typed.replies
        == called("decode", *pair, "-", *QUICK, typed=sources.read_bytes()).replies
    )
    assert written.replies == expected
    assert "regular:bart-regular@" in written.signature
    assert "reverse:bart-reverse@" in written.signature


@pytest.mark.parametrize(
    "choice",
    [
        ("vbs",),
        ("bidis", "--lambda", "0.5"),
        ("bidia", "--similarity", "bleu_t"),
        ("bidia wmd_t either",),
        ("reverse-vbs",),
        ("longest",),
        ("random", "--seed", "3"),
        ("vbs-tuned", "--length-exponent", "1", "--word-reward", "0.2"),
    ],
    ids=lambda choice: choice[0],
)
def test_live_and_from_a_file_it_is_the_same(
    pair: tuple[str, ...], sources: Path, tmp_path: Path, choice: tuple[str, ...]
) -> None:
    out = tmp_path / "out.jsonl"
    strategy = ["--strategy", *choice]
    if "wmd_t" in choice[0]:
        strategy += ["--vectors", str(write_vectors(tmp_path / "toy.vec", WORDS[2:]))]
    live = called("decode", *pair, sources, *QUICK, *strategy, "--n-best", out)

    again = called("rerank", out, *strategy, "--max-length", "7")

    assert again.replies == live.replies == called("decode", *pair, sources, *QUICK, *strategy).replies
    for line in lines_of(out):
        assert all(one["other_log_prob"] is not None for one in line["regular"] + line["reverse"])


def test_what_a_kill_left_is_gone_on_with(pair: tuple[str, ...], sources: Path, tmp_path: Path) -> None:
    out, cut = tmp_path / "out.jsonl", tmp_path / "cut.jsonl.partial"
    call = ("decode", *pair, sources, *QUICK, "--n-best")
    whole = called(*call, out)
    lines = out.read_text().splitlines(keepends=True)
    cut.write_text("".join(lines[:2]) + lines[2][:30])

    again = called(*call, tmp_path / "cut.jsonl", "--resume")

    assert again.replies == whole.replies
    assert "2 were done already." in again.told
    assert (tmp_path / "cut.jsonl").read_text().splitlines()[:2] == out.read_text().splitlines()[:2]
    texts = [
        [[one["text"] for one in line["regular"]] for line in lines_of(path)]
        for path in (out, tmp_path / "cut.jsonl")
    ]
    assert texts[0] == texts[1]


def test_other_weights_are_not_gone_on_with(sources: Path, tmp_path: Path) -> None:
    regular, reverse = write_pair(tmp_path / "first", "gpt2")
    _, other = write_pair(tmp_path / "second", "gpt2", initializer_range=0.2)
    out = tmp_path / "out.jsonl"
    assert (
        called("decode", "--regular", regular, "--reverse", reverse, sources, *QUICK, "--n-best", out).status
        == 0
    )

    said = refused(
        "decode", "--regular", regular, "--reverse", other, sources, *QUICK, "--n-best", out, "--resume"
    )

    assert "it was written with other settings: reverse:gpt2-reverse@" in said


def test_a_shared_encoder_needs_one_name(sources: Path, tmp_path: Path) -> None:
    folder = write_joint(tmp_path / "joint")

    alone = called("decode", "--regular", folder, sources, *QUICK)
    twice = called("decode", "--regular", folder, "--reverse", folder, sources, *QUICK)

    assert alone.replies == twice.replies
    assert alone.signature == twice.signature


def test_references_and_ids_come_along(pair: tuple[str, ...], tmp_path: Path) -> None:
    given = write_lines(tmp_path / "in.jsonl", {"id": "a", "source": "red cat", "reference": "cat"})
    out = tmp_path / "out.jsonl"

    assert len(called("decode", *pair, given, *QUICK, "--strategy", "oracle", "--n-best", out).replies) == 1

    (line,) = lines_of(out)
    assert (line["id"], line["reference"]) == ("a", "cat")


def test_what_does_not_go_together_is_said(pair: tuple[str, ...], sources: Path, toy_run: Path) -> None:
    call = called("decode", toy_run, sources, *pair)
    assert call.status == 2
    assert "With --regular and --reverse only INPUT may stand alone, not both" in call.told
    call = called("decode", toy_run, sources, "--dtype", "float32")
    assert (call.status, "--dtype goes with --regular and --reverse." in call.told) == (2, True)
    said = refused("decode", *pair[:2], sources, "--strategy", "bidia")
    assert said.startswith(
        "The strategy bidia needs a reverse model: give --reverse MODEL, or choose another"
    )
    said = refused("decode", "--regular", toy_run, sources)
    assert said.startswith(f"{toy_run} is one of bidibeam's own runs, not a Hugging Face model")
    assert refused("decode", *pair, "no-such.txt").startswith("no-such.txt cannot be read")


def test_without_transformers_the_way_to_install_it_is_told(
    pair: tuple[str, ...], sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("bidibeam.models.huggingface.")]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def missing(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "transformers":
            raise ModuleNotFoundError("No module named 'transformers'", name="transformers")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)

    said = refused("decode", *pair, sources)

    assert (
        said == "A Hugging Face model needs transformers, which is not installed: pip install 'bidibeam[hf]'"
    )
