"""`bidibeam decode` with the model that is named: a run, the one that comes along, Hugging Face models."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import bidibeam
from bidibeam.api import load_decoder
from bidibeam.search.settings import SearchSettings
from tests.unit.cli.calls import QUICK, VBS, called, refused, write_lines
from tests.unit.models.huggingface.folders import SOURCES


def test_the_longest_reply_is_by_default_as_long_as_the_data_were_prepared_for(
    toy_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(toy_run, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["data"]["settings"]["max_response_length"] = 3  # too few words to repeat "red cat dog fish"
    (run / "config.json").write_text(json.dumps(config))

    call = called("decode", run, *VBS, typed="red cat dog fish\n")

    assert "|max_length:4|" in call.signature  # the end token is one more
    assert "hypotheses were cut off at --max-length 4." in call.told
    assert "cut off" not in called("decode", toy_run, *VBS, "--max-length", "20", typed="red cat\n").told


def test_what_was_tuned_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = open

    def counting(file: Any, *args: Any, **options: Any) -> Any:
        opened.append(Path(str(file)).name)
        return real(file, *args, **options)

    for name in ("builtins.open", "io.open"):
        monkeypatch.setattr(name, counting)

    call = called("decode", typed="hello\n")  # by the model in the box, which is tuned

    assert "recommended by tuned.json" in call.told
    assert opened.count("tuned.json") == 1


def test_a_run_without_a_reverse_decoder_does_what_it_can(regular_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    assert called("decode", regular_run, "--strategy", "longest", "--n-best", out, typed="red\n").replies

    said = refused("rerank", out, "--strategy", "bidis")
    assert said.startswith(f"{out}, line 1: source '1', regular[0] has no \"other_log_prob\"")
    assert "`bidibeam score` adds it" in said
    for strategy in ("bidia", "bidis", "reverse-vbs"):
        assert refused("decode", regular_run, "--strategy", strategy, typed="red\n") == (
            f"The strategy {strategy} needs the reverse direction, and run has only: regular. Give a "
            "Hugging Face model for --reverse, train a run in both directions, or choose another --strategy."
        )


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    path = tmp_path / "sources.txt"
    path.write_text("red cat\nblue dog fish\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("is_named", [True, False])
def test_the_model_that_is_named_answers_or_the_one_that_comes_along(
    toy_run: Path, sources: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    """A file, stdin, and a pipe as a shell's <(...) gives one: neither a file nor a directory."""
    monkeypatch.setattr("bidibeam.models.loading.bundled_path", lambda: toy_run)
    model = (toy_run,) if is_named else ()
    reader, writer = os.pipe()
    os.write(writer, b"red cat\n")
    os.close(writer)
    pipe = f"/dev/fd/{reader}"
    for named, typed in (((sources,), ""), ((), "red cat\n\n"), (("-",), "red cat\n"), ((pipe,), "")):
        call = called("decode", *model, *named, *VBS, typed=typed)
        assert call.replies[0] == "red cat!"
        assert call.err.startswith("No model was named") != is_named
        assert f"|model:{bidibeam.load(toy_run).fingerprint}|" in call.signature
    os.close(reader)


def test_a_name_that_is_nothing_and_one_too_many_are_told(toy_run: Path, sources: Path) -> None:
    assert "name the input too: - for stdin" in refused("decode", "no.txt", typed="red\n")
    call = called("decode", toy_run, sources, sources)
    assert (call.status, call.out) == (2, "")
    assert "unexpected extra argument" in call.err


def test_a_pair_replies_as_the_library_does(pair: tuple[Path, Path], hf_sources: Path) -> None:
    regular, reverse = pair
    settings = SearchSettings(beam_size=6, max_length=7)
    expected = load_decoder(regular, reverse=reverse, settings=settings).decode(SOURCES)

    for arguments, typed in (
        ((regular, "--reverse", reverse, hf_sources), ""),
        ((regular, hf_sources, "--reverse", reverse, "--trust-remote-code", "--dtype", "float32"), ""),
        ((regular, hf_sources, "--reverse", reverse, "--device-map", "auto"), ""),
        ((regular, "--reverse", reverse), hf_sources.read_text()),
        (("--regular", regular, "--reverse", reverse, hf_sources), ""),
        (("--regular", regular, "--reverse", reverse), hf_sources.read_text()),
    ):
        call = called("decode", *arguments, *QUICK, typed=typed)
        assert call.replies == [nbest.best.text for nbest in expected]
        assert "regular:bart-regular@" in call.signature
        assert "reverse:bart-reverse@" in call.signature


def test_what_does_not_go_together_is_said(pair: tuple[Path, Path], hf_sources: Path, toy_run: Path) -> None:
    regular, reverse = pair
    for beside in ((toy_run,), (toy_run, hf_sources)):
        call = called("decode", *beside, "--regular", regular)
        assert call.status == 2
        assert f"--regular stands instead of MODEL, not beside {toy_run}." in call.told
    for given, has, lacks in (
        ((regular,), "regular", "reverse"),
        (("--reverse", reverse), "reverse", "regular"),
    ):
        assert (
            f"bidis needs the {lacks} direction, and bart-{has} has only: {has}. Give a Hugging Face "
        ) in refused("decode", *given, hf_sources, "--strategy", "bidis")
    assert refused("decode", regular, "--reverse", reverse, "no-such.txt").startswith("no-such.txt cannot be")
    twice = (regular, hf_sources, "--device", "cpu", "--device-map", "auto")
    told = "--device is 'cpu', and --device-map spreads a model over devices: give one of the two."
    assert told in refused("decode", *twice)


def test_a_model_of_one_direction_answers_by_its_plain_beam_and_says_so(
    pair: tuple[Path, Path], hf_sources: Path, tmp_path: Path
) -> None:
    regular, reverse = (
        shutil.copytree(folder, tmp_path / "models" / folder.name, dirs_exist_ok=True) for folder in pair
    )
    for given, name, lacks in (
        ((regular,), "vbs", "reverse"),
        (("--reverse", reverse), "reverse-vbs", "regular"),
    ):
        call = called("decode", *given, hf_sources)
        assert f"Strategy: {name} (the default without a {lacks} model; `bidibeam tune` finds" in call.told
        assert call.replies == called("decode", *given, hf_sources, "--strategy", name).replies

    weights = [bidibeam.load(folder).fingerprint for folder in (regular, reverse)]
    cases: list[tuple[str, tuple[object, ...], str]] = [
        (
            "+".join(weights),
            (regular,),
            "Strategy: vbs (the default without a reverse model; bidia edit, which",
        ),
        (
            weights[0],
            (regular, "--reverse", reverse),
            "Strategy: bidis lambda=1 (the default; tuned.json is of one of the two models alone: run",
        ),
    ]
    for tuned_for, models, told in cases:
        content = {"format_version": 2, "weights": tuned_for, "options": {}, "recommended": "bidia edit"}
        write_lines(regular / "tuned.json", content)
        call = called("decode", *models, hf_sources)
        assert (call.status, told in call.told) == (0, True), call.told


def test_without_transformers_the_way_to_get_it_is_told(
    pair: tuple[Path, Path], hf_sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("adapter", "loading", "opening"):
        monkeypatch.delitem(sys.modules, f"bidibeam.models.huggingface.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)

    assert refused("decode", pair[0], hf_sources) == (
        "A Hugging Face model needs transformers, which is not installed: pip install 'bidibeam[hf]'"
    )
