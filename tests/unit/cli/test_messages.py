"""What commands say where somebody could be misled: notes, refusals and their grammar."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bidibeam.assembly import load_decoder, load_run
from bidibeam.cli import chat as chat_module
from bidibeam.cli import console as console_module
from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams
from bidibeam.search.settings import SearchSettings
from bidibeam.selection import STRATEGIES
from tests.unit.cli.calls import Call, called, lines_of, refused, write_lines
from tests.unit.cli.evaluations import FEW, REFERENCES, line, written_beams, written_texts
from tests.unit.cli.test_analyse import written


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    return written_texts(tmp_path)


@pytest.fixture
def beams(tmp_path: Path) -> Path:
    return written_beams(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Sources and references, as `decode` reads them."""
    return write_lines(tmp_path / "t.tsv", *(f"source {at}\t{each}" for at, each in enumerate(REFERENCES)))


def tuned_for(path: Path, weights: str) -> Path:
    """A tuned.json of a model."""
    options = {"bidis": {"lambda_": 0.5}, "vbs-tuned": {"length_exponent": 1.0, "word_reward": 0.3}}
    path.write_text(json.dumps({"format_version": 1, "weights": weights, "options": options}))
    return path


# References and replies


def test_a_table_of_references_is_read_as_decode_reads_it(
    texts: dict[str, Path], beams: Path, table: Path
) -> None:
    plain = called("evaluate", texts["good"], *FEW, "--references", texts["references"])

    assert called("evaluate", texts["good"], *FEW, "--references", table).err == plain.err
    converted = called("convert", beams, "--references", table)
    assert [json.loads(each)["reference"] for each in converted.out.splitlines()] == REFERENCES


def test_a_tab_in_plain_references_is_refused(texts: dict[str, Path], table: Path, tmp_path: Path) -> None:
    renamed = table.rename(tmp_path / "t.txt")

    assert refused("evaluate", texts["good"], "--references", renamed) == (
        f"{renamed}, line 1 holds a tab, so it may be more than a reference. Of a file whose name ends in "
        ".tsv the second column is read; otherwise give the references alone: cut -f2 takes them out of "
        "a table."
    )


def test_a_tab_in_a_reply_is_noted(texts: dict[str, Path], tmp_path: Path) -> None:
    odd = write_lines(tmp_path / "odd.txt", *REFERENCES[:3], "so?\tYes.")

    call = called("evaluate", odd, *FEW, "--references", texts["references"])

    assert call.status == 0
    assert f"Note: {odd}, line 4 holds a tab; the whole line counts as the reply." in call.told
    assert "holds a tab" not in called("evaluate", texts["good"], "--references", texts["references"]).told


# Tests and their few sources


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


# What was tuned for another model


def named_model(path: Path, beams: Path, model: str) -> Path:
    """The lists, and who wrote them."""
    signature = {"signature": f"strategy:vbs|model:{model}|bidibeam:1", "replies": []}
    return write_lines(path, *({**each, "ranking": signature} for each in lines_of(beams)))


COMMANDS: dict[str, tuple[str, ...]] = {
    "rerank": ("--strategy", "bidis"),
    "evaluate": ("--strategy", "bidis"),
    "analyse": ("--analysis", "ranks"),
}


@pytest.mark.parametrize(("command", "flags"), COMMANDS.items())
def test_what_was_tuned_for_another_model_is_noted(
    command: str, flags: tuple[str, ...], beams: Path, tmp_path: Path
) -> None:
    tuned = tuned_for(tmp_path / "tuned.json", "ab12")

    def told(lists: Path, *more: object) -> str:
        call = called(command, lists, *flags, *more)
        assert call.status == 0, call.err
        return call.told

    ours, others = (named_model(tmp_path / f"{name}.jsonl", beams, name) for name in ("ab12", "cd34"))
    note = f"Note: {tuned} was tuned for another model (ab12) than the one that wrote {others} (cd34)."
    assert note in told(others, "--tuned", tuned)
    for silent in (told(others), told(ours, "--tuned", tuned), told(beams, "--tuned", tuned)):
        assert "tuned for another model" not in silent


def test_tuned_settings_that_no_strategy_uses_are_not_judged(beams: Path, tmp_path: Path) -> None:
    tuned, lists = (
        tuned_for(tmp_path / "tuned.json", "ab12"),
        named_model(tmp_path / "l.jsonl", beams, "cd34"),
    )

    for command in ("rerank", "evaluate"):
        call = called(command, lists, "--strategy", "vbs", "--tuned", tuned)
        assert call.status == 0
        assert "another model" not in call.told


# Systems and what is left out


def test_what_systems_leaves_out_is_not_blamed_on_the_lists(beams: Path) -> None:
    assert refused("analyse", beams, "--systems", "vbs", "--analysis", "ranks") == (
        "It needs the system 'bidia bleu_t', and --systems leaves it out."
    )
    assert refused("analyse", beams, "--systems", "vbs", "--analysis", "headroom") == (
        "It needs the system 'vbs-tuned', and --systems leaves it out."
    )
    told = called("analyse", beams, "--systems", "vbs").told
    assert (
        "Left out the analyses ranks, sensitivity and examples: They need the system 'bidia bleu_t', and "
        in told
    )


def test_a_system_by_its_shorter_name_is_the_same_system(beams: Path) -> None:
    flags = ("--analysis", "ranks", "--systems")

    short, full = (called("analyse", beams, *flags, name) for name in ("bidia", "bidia  bleu_t"))

    assert (short.status, short.err) == (0, full.err)
    assert "bidia bleu_t" in short.told


def test_what_is_left_out_for_the_same_reason_is_told_in_one_line(lists: Path, tmp_path: Path) -> None:
    call = called("analyse", lists, "--out", tmp_path / "out")

    left_out = json.loads((tmp_path / "out" / "analyses.json").read_text())["left_out"]
    told = [row for row in call.err.splitlines() if row.startswith("Left out")]
    for name in (*left_out["systems"], *left_out["analyses"]):
        assert sum(name in row.partition(": ")[0] for row in told) >= 1, name
    assert len(told) < len(left_out["systems"]) + len(left_out["analyses"])
    reasons = [row.partition(": ")[2] for row in told]
    assert len(set(reasons)) == len(reasons)
    for sentence in (
        "Left out the system vbs: source '1', regular[0] has no \"score\", and vbs needs it.",
        "Left out the systems bidis and bidia bleu_t expected: source '1', regular[0] has no \"log_prob\", ",
        "and each of them needs it",
        "Left out the systems vbs-tuned, bidia bleu_t tuned and bidia wmd_t tuned: They need tuned settings",
        "Left out the analyses diversity and sensitivity: Source '1' has no reference, ",
    ):
        assert sentence in call.told


def test_a_p_value_names_its_test(tmp_path: Path) -> None:
    call = called(
        "analyse", written(tmp_path / "both.jsonl", regular=3, reverse=3), "--analysis", "diversity"
    )

    assert "p, approximate" in call.told
    assert "randomisation" in call.told


# Strategies


def test_a_lambda_of_nothing_is_explained(copied_run: Path) -> None:
    def switched(value: float, *flags: object) -> str:
        weights = json.loads((copied_run / "tuned.json").read_text())["weights"]
        tuned_for(copied_run / "tuned.json", weights)
        content = json.loads((copied_run / "tuned.json").read_text())
        content["options"]["bidis"]["lambda_"] = value
        (copied_run / "tuned.json").write_text(json.dumps(content))
        return called("chat", copied_run, "--beam-size", 3, *flags, typed="/strategy bidis\n").told

    tuned_for(copied_run / "tuned.json", load_run(copied_run).fingerprint)
    told = switched(0.0, "--strategy", "vbs")
    assert (
        "From now on bidis answers (lambda 0). Lambda 0 was tuned, so it answers as vbs does; above 0 the "
        "reverse score counts too: start chat, or decode, with --strategy bidis --lambda 0.5." in told
    )
    assert "answers as vbs" not in switched(0.5, "--strategy", "vbs")
    given = switched(0.5, "--strategy", "bidis", "--lambda", 0)
    assert "(lambda 0). So it answers as vbs does; above 0" in given


@pytest.mark.parametrize("quote", ['"', "'", "“”"])
def test_a_strategy_may_be_quoted_in_a_conversation(toy_run: Path, quote: str) -> None:
    typed = f"/strategy {quote[0]}bidia token_f1 either{quote[-1]}\n"

    told = called("chat", toy_run, "--beam-size", "4", typed=typed).told

    assert "From now on bidia answers (similarity token_f1," in told


def test_a_conversation_offers_no_strategy_that_it_refuses(toy_run: Path) -> None:
    told = called("chat", toy_run, "--beam-size", "4", typed="/strategy bidi\n").told
    usable = [name for name in STRATEGIES.names() if name != "oracle"]

    assert f"Unknown strategy 'bidi'. Did you mean 'bidis'? Choose one of: {', '.join(usable)}." in told
    assert chat_module.usable() == usable
    shown = " ".join(called("chat", "--help").out.split())
    assert f"Who answers: {', '.join(usable)}." in shown
    assert "oracle" not in shown
    assert "oracle" in called("decode", "--help").out
    assert "oracle" not in refused("chat", toy_run, "--strategy", "bidi").partition("Choose")[2]


UNQUOTED: dict[str, tuple[tuple[object, ...], str]] = {
    "rerank": (("rerank", "L", "--strategy", "bidia", "bleu_t", "either"), "bidia bleu_t either"),
    "rerank, first": (("rerank", "--strategy", "bidia", "bleu_t", "L"), "bidia bleu_t"),
    "evaluate": (("evaluate", "L", "--strategy", "vbs", "--strategy", "bidia", "mean"), "bidia mean"),
    "decode": (("decode", "R", "L", "--strategy", "bidia", "wmd_t", "tuned"), "bidia wmd_t tuned"),
    "decode, first": (("decode", "--strategy", "bidia", "token_f1", "L"), "bidia token_f1"),
    "chat": (("chat", "R", "--strategy", "bidia", "either"), "bidia either"),
    "glued": (("rerank", "L", "--strategy=bidia", "bleu_t"), "bidia bleu_t"),
}


@pytest.mark.parametrize("case", UNQUOTED)
def test_a_name_that_lacks_its_quotes_is_told_so(case: str, lists: Path, toy_run: Path) -> None:
    arguments, name = UNQUOTED[case]
    files = {"L": lists, "R": toy_run}

    call = called(*(files.get(str(each), each) for each in arguments))

    assert (call.status, call.out) == (2, "")
    assert f'put the name in quotes: --strategy "{name}".' in call.told


def test_other_words_too_many_are_not_taken_for_a_strategy(lists: Path, tmp_path: Path) -> None:
    assert "quotes" not in called("rerank", lists, "--strategy", "bidia", "more").told
    assert "quotes" not in called("rerank", lists, "bleu_t").told  # where no strategy is named
    named = lists.rename(tmp_path / "bleu_t")
    assert called("rerank", "--strategy", "bidia", named).status == 0


# From Python


def test_what_is_no_text_is_refused_in_a_sentence(toy_run: Path) -> None:
    decoder = load_decoder(toy_run, "vbs", settings=SearchSettings(beam_size=2))

    with pytest.raises(InputError, match=r"^Source 2 must be a string, not 3\.$"):
        decoder.decode(["red cat", 3])  # type: ignore[list-item]
    assert len(decoder.decode(each for each in ("red cat", "white"))) == 2  # type: ignore[arg-type]


def test_a_choice_by_references_is_refused_in_words_that_fit_python(toy_run: Path) -> None:
    decoder = load_decoder(toy_run, "oracle", settings=SearchSettings(beam_size=2))

    with pytest.raises(InputError, match=r"the oracle chooses by it.*choose another strategy\.$") as error:
        decoder.decode(["red cat"])
    assert "--" not in str(error.value)
    assert [answer.text for answer in decoder.answers([Beams("1", "red cat", "red cat!")])] == ["red cat!"]


# What is written, and what is lost


def replaced(call: Call) -> bool:
    assert call.status == 0, call.err
    return "is there already" in call.told


def test_an_n_best_file_that_is_replaced_is_named_first(lists: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    assert not replaced(called("rerank", lists, "--n-best", out))
    again = called("rerank", lists, "--n-best", out)
    assert (
        f"Note: {out} is there already and is replaced once all is done; with --resume it would be gone on "
        "with." in again.told
    )
    assert not replaced(called("rerank", lists, "--n-best", out, "--resume"))
    assert not replaced(called("rerank", lists, "--n-best", "/dev/null"))
    assert not replaced(called("rerank", lists))


def test_what_a_killed_call_left_is_named_before_it_is_done_again(lists: Path, tmp_path: Path) -> None:
    partial = tmp_path / "out.jsonl.partial"
    partial.write_text("{}\n")

    call = called("rerank", lists, "--n-best", tmp_path / "out.jsonl")

    assert f"Note: {partial} is there already and is done again; with --resume" in call.told


def test_convert_says_that_it_replaced_a_file(lists: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    first, second = (called("convert", lists, "-o", out) for _ in range(2))

    assert "Replaced" not in first.told
    assert f"Replaced {out}, which was there already." in second.told


KEPT: dict[str, tuple[str, ...]] = {
    "jsonl": (),
    "moses": ("id", "source", "reference"),
    "mbrs": ("id", "source", "reference"),
    "fairseq": ("id",),
    "openai": ("source", "reference"),
}


@pytest.mark.parametrize(("to", "lost"), KEPT.items())
def test_convert_tells_what_a_format_has_no_place_for(to: str, lost: tuple[str, ...], tmp_path: Path) -> None:
    def told(**more: Any) -> str:
        lists = write_lines(tmp_path / "l.jsonl", line("Yes.", ["No."], [], **more))
        call = called("convert", lists, "--to", to)
        assert call.status == 0
        return call.told

    for key in ("id", "source", "reference"):
        assert (f"{key}" in told(id="x", source="so?").partition("has no place for ")[2]) == (key in lost)
    assert "id" not in told(source="so?").partition("has no place for ")[2]  # a number of its own will do


def test_work_that_was_not_counted_is_not_told(lists: Path) -> None:
    assert "Work" not in called("rerank", lists, "--strategy", "random").told
    assert "Work: 8 pairs compared." in called("rerank", lists).told


# Progress and counts


def test_progress_that_never_began_leaves_no_empty_line(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(console_module, "console", Console(file=file, width=80, color_system=None))

    with console_module.progress():
        pass
    assert file.getvalue() == ""
    with console_module.progress() as progress:
        progress.add_task("reading", total=1)
    assert file.getvalue().startswith("reading")


@pytest.mark.parametrize("command", ["prepare", "reproduce"])
def test_an_error_is_the_first_line(command: str, tmp_path: Path) -> None:
    name = ("jsonl",) if command == "prepare" else ("--corpus", "jsonl")

    call = called(command, *name, "--source", tmp_path / "none.jsonl", "--out", tmp_path / "out")

    assert call.status == 1
    *_, before, sentence = ["heading", *call.err.splitlines()]
    assert sentence.startswith("Error: ")
    assert before.strip()


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (1, ("source",), "1 source"),
        (0, ("source",), "0 sources"),
        (1234, ("source",), "1,234 sources"),
        (1, ("reply", "replies"), "1 reply"),
        (2, ("reply", "replies"), "2 replies"),
    ],
)
def test_a_count_has_its_noun_in_the_right_number(number: int, words: tuple[str, ...], told: str) -> None:
    assert console_module.counted(number, *words) == told
