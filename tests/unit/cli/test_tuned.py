"""The tuned.json that `bidibeam tune` writes: who uses it and says so, and what of it is kept or replaced."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from bidibeam.cli import tune
from bidibeam.data.prepared import PreparedData
from tests.conftest import copied
from tests.unit.cli.calls import Call, called, lines_of, write_lines
from tests.unit.cli.tunings import FEW, SEARCH, TUNED, check_bleu, tuned_of


def replace_tuned(run: Path, **options: dict[str, float]) -> None:
    """Put other values into a run's tuned.json."""
    content = tuned_of(run)
    (run / "tuned.json").write_text(json.dumps({**content, "options": {**content["options"], **options}}))


@pytest.fixture(scope="module")
def tuned_once(toy_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = copied(toy_run, tmp_path_factory.mktemp("tuned") / "run")
    assert called("tune", run, *FEW).status == 0
    return run


@pytest.fixture
def tuned_run(tuned_once: Path, tmp_path: Path) -> Path:
    """A run with a tuned.json, to write into."""
    return copied(tuned_once, tmp_path / "run")


def test_decode_and_chat_use_what_is_recommended_and_say_so(tuned_run: Path) -> None:
    content = tuned_of(tuned_run)
    content["recommended"] = "loglinear edit both"
    content["options"]["loglinear edit both"] = {"agreement_weight": 2.5}
    (tuned_run / "tuned.json").write_text(json.dumps(content))

    call = called("decode", tuned_run, *SEARCH, typed="red\n")

    assert "Strategy: loglinear edit both (recommended by tuned.json)" in call.told
    assert "strategy:loglinear|" in call.signature
    assert "|agreement_weight:2.5|" in call.signature
    assert "Strategy: loglinear edit both (recommended by tuned.json)" in called("chat", tuned_run).told
    asked = called("decode", tuned_run, *SEARCH, "--strategy", "vbs", typed="red\n")
    assert "Strategy:" not in asked.told
    assert "strategy:vbs|" in asked.signature
    (tuned_run / "tuned.json").unlink()
    for command in ("decode", "chat"):
        told = called(command, tuned_run, typed="red\n").told
        assert "Strategy: bidis lambda=1 (the default; `bidibeam tune` finds the best)" in told


def test_it_searches_as_it_was_tuned_unless_flags_say_otherwise(copied_run: Path) -> None:
    given = ("--no-repeat-ngram-size", "2", "--bad-words", "cat", "--min-length", "2")
    assert called("tune", copied_run, *FEW, *given).status == 0

    def facts(*flags: str) -> dict[str, str]:
        signature = called("decode", copied_run, *flags, typed="red\n").signature
        return dict(fact.split(":", 1) for fact in signature.split("|"))

    as_tuned, other = facts(), facts("--beam-size", "3", "--no-repeat-ngram-size", "0", "--bad-words", "dog")
    assert (as_tuned["beam_size"], other["beam_size"]) == ("4", "3")
    assert as_tuned["min_length"] == other["min_length"] == "2"
    assert (as_tuned["no_repeat_ngram_size"], as_tuned["bad_words"]) == ("2", "cat")
    assert "no_repeat_ngram_size" not in other
    assert other["bad_words"] == "dog"
    assert called("tune", copied_run, "--sources", "3", "--no-repeat-ngram-size", "0").status == 0
    assert (facts()["beam_size"], facts()["min_length"], facts()["bad_words"]) == ("4", "2", "cat")
    assert "no_repeat_ngram_size" not in facts()
    for command in ("decode", "chat"):
        content = tuned_of(copied_run)
        (copied_run / "tuned.json").write_text(json.dumps({**content, "recommended": "bidia edit"}))
        told = called(command, copied_run, "--beam-size", "1", typed="red\n").told
        assert "(the default; bidia edit, which tuned.json recommends, needs a wider beam)" in told


def test_flags_say_whose_they_are(copied_run: Path) -> None:
    for flags, strategy in (
        (("--lambda", "2"), "bidis|lambda:2"),
        (("--similarity", "edit"), "bidia|similarity:edit"),
        (("--answer", "either"), "bidia|"),
        (("--length-exponent", "1", "--word-reward", "0"), "vbs-tuned|length_exponent:1"),
    ):
        call = called("decode", copied_run, *flags, typed="red\n")
        assert call.signature.startswith(f"strategy:{strategy}")
        assert "Strategy:" not in call.told


def test_its_bleu_is_that_of_the_replies_that_decode_writes(
    copied_unsure_run: Path, toy_data: PreparedData
) -> None:
    assert called("tune", copied_unsure_run, *SEARCH).status == 0
    assert {"bidia wmd_t", "bidia wmd_t tuned"} < set(tuned_of(copied_unsure_run)["values"])

    check_bleu(
        (copied_unsure_run,), copied_unsure_run, toy_data.path / "validation.jsonl", SEARCH, is_lowered=True
    )


def test_decoding_uses_it_and_says_so(tuned_run: Path) -> None:
    tuned = {"bidis": {"lambda_": 7.5}, "vbs-tuned": {"length_exponent": 0.5, "word_reward": 4.0}}
    replace_tuned(tuned_run, **tuned, **{"bidia bleu_t": {"T": 3.0}, "bidia wmd_t": {"T": 40.0}})

    def decode(*flags: str) -> Call:
        return called("decode", tuned_run, "--beam-size", "10", *flags, typed="white\n")

    for flags, told in (
        (("bidis",), "strategy:bidis|lambda:7.5|"),
        (("vbs-tuned", "--word-reward", "1"), "|length_exponent:0.5|word_reward:1|"),
        (("bidia tuned",), "|T:3|"),
        (("bidia wmd_t tuned",), "|T:40|"),
    ):
        signature = decode("--strategy", *flags).signature
        assert told in signature
        assert re.search(r"\|tuned:tuned\.json@[0-9a-f]{8}\|model:", signature)
    own = decode("--strategy", "bidia bleu_t tuned", "--similarity-option", "max_length=7").signature
    assert "|T:7|" in own
    untuned = (("bidis", "--lambda", "2"), ("vbs",), ("bidia bleu_t",), ("bidia",))
    others = [decode("--strategy", *flags).signature for flags in untuned]
    assert not any("tuned.json" in signature for signature in (own, *others))

    long = decode("--strategy", "vbs-tuned")
    replace_tuned(tuned_run, **{"vbs-tuned": {"length_exponent": 0.0, "word_reward": -50.0}})
    short = decode("--strategy", "vbs-tuned")
    assert len(short.out) < len(long.out)
    assert short.signature.split("tuned:")[1] != long.signature.split("tuned:")[1]


@pytest.mark.usefixtures("drawn")
def test_tuning_twice_finds_the_same(tuned_run: Path) -> None:
    def written(*flags: str) -> list[bytes]:
        assert called("tune", tuned_run, *FEW, *flags).status == 0
        return [(tuned_run / name).read_bytes() for name in ("tuned.json", tune.PLOT_FILE)]

    assert written() == written("--batch-size", "2")


def test_decoding_says_so_if_it_was_tuned_for_another_search(tuned_run: Path) -> None:
    told = "Note: the strategy's settings were tuned with --beam-size 4 and --max-length 9."

    def is_told(*flags: str) -> bool:
        return told in called("decode", tuned_run, *flags, typed="red\n").told

    for name in ("bidis", "bidia bleu_t tuned"):
        assert is_told("--strategy", name, "--beam-size", "6")
        assert not is_told("--strategy", name, *SEARCH)
    assert not is_told("--strategy", "bidis", "--lambda", "1")
    assert not is_told("--strategy", "vbs")


def test_only_what_is_named_is_tuned_and_the_rest_is_kept(copied_run: Path) -> None:
    def tuned(*flags: str) -> dict[str, Any]:
        assert called("tune", copied_run, *FEW, *flags).status == 0
        return tuned_of(copied_run)

    first = tuned("--strategy", "bidia  either bleu_t tuned")
    assert list(first["options"]) == ["bidia bleu_t either"]
    assert list(first["values"]) == ["bidia bleu_t either tuned"]
    assert first["recommended"] is None  # it was compared with nothing
    assert called("decode", copied_run, "--strategy", "bidia bleu_t either tuned", typed="red\n").replies
    second = tuned("--strategy", "vbs-tuned")
    assert list(second["options"]) == ["bidia bleu_t either", "vbs-tuned"]
    assert second["options"]["bidia bleu_t either"] == first["options"]["bidia bleu_t either"]
    assert second["curves"][0] == first["curves"][0]
    assert len(second["curves"]) == 3
    assert second["recommended"] == first["recommended"]
    assert {"bidia bleu_t either", *TUNED} < set(tuned()["options"])

    call = called("tune", copied_run, *SEARCH, "--sources", "4", "--strategy", "bidis")
    assert list(tuned_of(copied_run)["options"]) == ["bidis"]
    assert "what tuned.json had for bidia bleu_t either, vbs-tuned, " in call.told
    assert " is gone: it was tuned for another number of sources." in call.told


def test_what_an_earlier_call_recommends_is_not_starred_among_others(copied_unsure_run: Path) -> None:
    every = ["--strategy", "vbs", "--strategy", "reverse-vbs", "--strategy", "bidis lambda=1"]
    first = called("tune", copied_unsure_run, *SEARCH, *every, "--metric", "cer")
    recommended = tuned_of(copied_unsure_run)["recommended"]
    assert f" * {recommended} " in first.told
    assert "of an earlier call" not in first.told
    others = [name for name in every[1::2] if name != recommended]

    again = called(
        "tune",
        copied_unsure_run,
        *SEARCH,
        "--strategy",
        others[0],
        "--strategy",
        others[1],
        "--metric",
        "cer",
    )

    assert tuned_of(copied_unsure_run)["recommended"] == recommended
    assert " * " not in again.told
    assert "Low and high are 95 % bootstrap intervals." in again.told
    assert f"Recommended: {recommended}" in again.told
    assert "Note: tuned.json keeps the comparison of an earlier call, and what it recommends: " in again.told


def test_what_is_lost_with_other_weights_is_said_to_be(tuned_run: Path) -> None:
    content = tuned_of(tuned_run)
    (tuned_run / "tuned.json").write_text(json.dumps({**content, "weights": "0123456789ab"}))

    call = called("tune", tuned_run, *FEW, "--strategy", "bidis")

    assert " is gone: it was tuned for other weights." in call.told
    assert "beside" not in call.told  # nothing stands beside a single system


def test_the_next_command_repeats_what_decode_takes_and_works(copied_run: Path, tmp_path: Path) -> None:
    search = "--device cpu --beam-size 4 --max-length 9 --min-length 2 --length-penalty 0.8 --no-count-end "
    search += "--allow-unknown --no-repeat-ngram-size 2 --repetition-penalty 1.5 --bad-words red --bad-words "
    search += "'blue dog' --batch-size 3"

    others = ("--sources", "3", "--strategy", "bidis", "--tokenize", "words")
    call = called("tune", copied_run, *others, *shlex.split(search))

    command = call.told.rpartition("Next: bidibeam ")[2].strip()
    assert command == f"decode {shlex.quote(str(copied_run))} FILE {search}"
    typed = write_lines(tmp_path / "FILE", "red", "blue")
    again = called(*(str(typed) if word == "FILE" else word for word in shlex.split(command)))
    assert (again.status, len(again.replies)) == (0, 2)
    assert "were tuned with" not in again.told


@pytest.mark.parametrize("command", ["rerank", "evaluate", "analyse"])
def test_what_was_tuned_for_another_model_is_noted_where_it_is_used(
    command: str, beams: Path, tmp_path: Path
) -> None:
    options = {"bidis": {"lambda_": 0.5}}
    tuned = write_lines(tmp_path / "tuned.json", {"format_version": 2, "weights": "ab12", "options": options})
    flags = ("--analysis", "ranks") if command == "analyse" else ("--strategy", "bidis")

    def written_by(model: str) -> Path:
        ranking = {"signature": f"strategy:vbs|model:{model}|bidibeam:1", "replies": []}
        lines = ({**each, "ranking": ranking} for each in lines_of(beams))
        return write_lines(tmp_path / f"{model}.jsonl", *lines)

    def told(*arguments: object) -> str:
        call = called(command, *arguments)
        assert call.status == 0, call.err
        return call.told

    others = written_by("cd34")
    note = f"Note: {tuned} was tuned for another model (ab12) than the one that wrote {others} (cd34)."
    assert note in told(others, *flags, "--tuned", tuned)
    silent = [(others, *flags), *((lists, *flags, "--tuned", tuned) for lists in (written_by("ab12"), beams))]
    if command != "analyse":
        silent.append((others, "--strategy", "vbs", "--tuned", tuned))  # which uses nothing of it
    assert not any("another model" in told(*arguments) for arguments in silent)
    if command == "rerank":  # what it recommends is as good as what it tuned
        write_lines(tuned, {"format_version": 2, "weights": "ab12", "options": {}, "recommended": "bidia"})
        assert note in told(others, "--tuned", tuned)


@pytest.mark.parametrize("command", ["rerank", "evaluate"])
def test_a_t_that_is_not_that_of_the_lists_own_ranking_is_noted(
    command: str, beams: Path, tmp_path: Path
) -> None:
    ranking = {"signature": "strategy:bidia|similarity:bleu_t|T:7|answer:regular", "replies": []}
    ranked = write_lines(tmp_path / "a.jsonl", *({**each, "ranking": ranking} for each in lines_of(beams)))
    note = f"Note: {ranked} was ranked with T 7, and here T is the median of what a hypothesis"

    assert note in called(command, ranked, "--strategy", "bidia bleu_t").told
    for file, *flags in (
        (beams, "--strategy", "bidia bleu_t"),
        (ranked, "--strategy", "bidia bleu_t", "--max-length", "7"),
        (ranked, "--strategy", "bidia edit"),
        (ranked, "--strategy", "vbs"),
    ):
        call = called(command, file, *flags)
        assert (call.status, "was ranked with T" in call.told) == (0, False)


def test_what_was_tuned_for_other_weights_is_told_of(tuned_once: Path, tmp_path: Path) -> None:
    run = shutil.copytree(tuned_once, tmp_path / "run")
    content = json.loads((run / "tuned.json").read_text())
    (run / "tuned.json").write_text(json.dumps({**content, "weights": "0123456789ab"}))

    told = called("decode", run, typed="red cat\n").err

    assert "(the default; tuned.json is of other weights: run `bidibeam tune` again)" in told


def test_decode_says_that_a_lambda_of_nothing_was_tuned(tuned_run: Path) -> None:
    command, told = ("decode", tuned_run, *SEARCH, "--strategy", "bidis"), "so it answers as vbs does"
    replace_tuned(tuned_run, bidis={"lambda_": 0.0})

    assert f"Note: lambda 0 was tuned for bidis, {told}" in called(*command, typed="red\n").told
    assert told not in called(*command, "--lambda", "0", typed="red\n").told
    replace_tuned(tuned_run, bidis={"lambda_": 0.5})
    assert told not in called(*command, typed="red\n").told
