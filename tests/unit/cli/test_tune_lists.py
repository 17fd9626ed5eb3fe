"""`bidibeam tune LISTS`: n-best lists of any decoder, tuned on as `evaluate` measures, `rerank` chooses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.golden.calls import DATA
from tests.unit.cli.calls import called, lines_of, refused, write_lines

BOTH = ("regular", "reverse")
FEW = ("--samples", "20", "--trials", "20")


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Lists of both directions, each scored by the other."""
    return Path(shutil.copy(DATA / "both.jsonl", tmp_path / "lists.jsonl"))


def test_what_is_tuned_on_lists_is_what_evaluate_measures_and_rerank_takes(
    lists: Path, tmp_path: Path
) -> None:
    out, scores = tmp_path / "found" / "tuned.json", tmp_path / "scores.json"

    call = called("tune", lists, "--metric", "chrf", "--out", out)

    assert call.status == 0, call.err
    assert call.told.endswith(f"Next: bidibeam rerank FILE --tuned {out}")
    content = json.loads(out.read_text())
    assert content["metric"].startswith("metric:chrf|")
    assert out.with_suffix(".svg").is_file()
    alone, both = ("vbs", "vbs-tuned", "bidis", "mbr edit"), ("bidia bleu_t tuned", "loglinear edit both")
    systems = (*alone, *both)
    named = [word for name in systems for word in ("--strategy", name)]
    measured = called("evaluate", lists, *named, "--metric", "chrf", "--tuned", out, "--out", scores, *FEW)
    assert measured.status == 0, measured.err
    found = json.loads(scores.read_text())["systems"]
    for name in systems:
        assert found[name]["scores"]["chrf"]["value"] == pytest.approx(content["values"][name]), name
    answered = called("rerank", lists, "--tuned", out)
    assert f"Strategy: {content['recommended']} (recommended by tuned.json)" in answered.told
    again = called("rerank", lists, "--tuned", out, "--strategy", content["recommended"])
    assert answered.replies == again.replies

    called("tune", lists, "--metric", "chrf", "--out", out, "--strategy", "bidis")
    kept = json.loads(out.read_text())
    assert (kept["ranking"], kept["options"].keys()) == (content["ranking"], content["options"].keys())


def test_what_lists_lack_is_left_out_and_their_network_is_known(lists: Path, tmp_path: Path) -> None:
    ranking = {"signature": "strategy:vbs|regular:bart@ab12|reverse:trab@cd34", "replies": []}
    texts = [
        {
            **{key: line[key] for key in ("id", "source", "reference")},
            **{way: [{"text": one["text"]} for one in line[way]] for way in BOTH},
            "ranking": ranking,
        }
        for line in lines_of(lists)
    ]
    bare, out = write_lines(tmp_path / "bare.jsonl", *texts), tmp_path / "tuned.json"

    call = called("tune", bare, "--out", out, "--quick", "--tokenize", "char")

    assert call.status == 0, call.err
    content = json.loads(out.read_text())
    names = {"bidia bleu_t", "bidia edit", "bidia bleu_t tuned"}
    names |= {f"{strategy} {name} mean" for strategy in ("mbr", "bidia") for name in ("bleu_t", "edit")}
    assert {each["system"] for each in content["ranking"]} == names
    assert "Left out the systems vbs-tuned, mbr bleu_t, mbr edit and 8 others: source" in call.told
    assert content["weights"] == "ab12+cd34"
    assert 'regular[0] has no "log_prob"' in refused("tune", bare, "--out", out, "--strategy", "vbs-tuned")
    assert (
        "tuned.json" in called("rerank", bare, "--strategy", "bidia bleu_t tuned", "--tuned", out).signature
    )


def test_what_was_found_on_other_lists_is_not_kept(lists: Path, tmp_path: Path) -> None:
    out, lines = tmp_path / "tuned.json", lines_of(lists)
    others = tmp_path / "b.jsonl"
    rescored = [[{**one, "other_log_prob": -1.0} for one in line["regular"]] for line in lines]
    write_lines(others, *({**line, "regular": new} for line, new in zip(lines, rescored, strict=True)))
    first = called("tune", lists, "--metric", "chrf", "--out", out, "--quick")
    assert first.status == 0, first.err

    call = called("tune", others, "--out", out, "--strategy", "bidia edit", "--strategy", "bidis")

    assert call.status == 0, call.err
    assert "what tuned.json had for vbs-tuned, bidia bleu_t, loglinear, " in call.told
    assert "is gone: it was tuned for other lists." in call.told  # and for chrf, as here
    content = json.loads(out.read_text())
    assert {each["system"] for each in content["ranking"]} == {"bidia edit", "bidis"}
    assert content["metric"].startswith("metric:chrf|")


@pytest.mark.parametrize(
    ("kept", "served"),
    [
        (("text", "score"), {"vbs", "mbr edit mean", "bidia edit", "bidia edit mean"}),
        (("text", "log_prob", "length"), {"vbs-tuned", "mbr edit", "bidia edit", "bidia edit expected"}),
    ],
)
def test_agreement_weighs_all_alike_where_there_are_no_probabilities(
    kept: tuple[str, ...], served: set[str], lists: Path, tmp_path: Path
) -> None:
    fewer = [
        {**line, **{way: [{key: one[key] for key in kept} for one in line[way]] for way in BOTH}}
        for line in lines_of(lists)
    ]
    bare, out = write_lines(tmp_path / "bare.jsonl", *fewer), tmp_path / "tuned.json"

    assert called("tune", bare, "--out", out).status == 0

    named = {each["system"] for each in json.loads(out.read_text())["ranking"]}
    assert served <= named
    assert any(name.endswith("mean") for name in named) == ("log_prob" not in kept)


def test_what_is_printed_of_a_recommended_system_is_what_rerank_takes(tmp_path: Path) -> None:
    """T is tuned for the system whose name says so, and for no other."""
    pairs = [("I am at work.", "I'm at work.", "At work."), ("Yes, at eight.", "Yes, around eight.", "At 8.")]
    lists = write_lines(
        tmp_path / "lists.jsonl",
        *(
            {"reference": said, "regular": [{"text": "No."}, {"text": good}], "reverse": [{"text": other}]}
            for said, good, other in pairs
        ),
    )
    out = tmp_path / "tuned.json"

    call = called("tune", lists, "--out", out, "--strategy", "bidia bleu_t", "--strategy", "mbr edit mean")

    recommended = json.loads(out.read_text())["recommended"]
    told = f"Recommended: {recommended}"
    assert told in call.told
    signature = called("rerank", lists, "--tuned", out).signature
    is_told = f"{told} (T " in call.told
    assert is_told == ("|T:median|" not in signature and "|T:" in signature)


def test_a_t_that_makes_no_difference_is_that_of_the_lists(tmp_path: Path) -> None:
    line = {"reference": "we leave at six", "regular": [{"text": "at six we leave"}]}
    lists = write_lines(tmp_path / "a.jsonl", {**line, "reverse": [{"text": "we will leave at six today"}]})

    told = called("tune", lists, "--out", tmp_path / "t.json", "--strategy", "bidia bleu_t").told

    assert "what was tried nearest to it, is kept: T of bidia bleu_t (5)." in told  # the median of 4 and 6


def test_a_metric_that_is_0_for_all_decides_nothing(lists: Path, tmp_path: Path) -> None:
    lines = [{**line, "reference": "nobody says this"} for line in lines_of(lists)]
    foreign = write_lines(tmp_path / "foreign.jsonl", *lines)

    call = called("tune", foreign, "--metric", "exact_match", "--out", tmp_path / "tuned.json", "--quick")

    assert call.status == 0, call.err
    assert "Note: no exact_match was above 0, so hardly anything was decided. Use more sources," in call.told
    assert "Nothing is recommended: on these sources no system is better than another." in call.told


def test_what_is_wrong_with_lists_is_one_sentence(lists: Path, tmp_path: Path, toy_run: Path) -> None:
    out = ("--out", tmp_path / "tuned.json")
    lines = lines_of(lists)
    for each in lines:
        each.pop("reference")
    unanswered, empty = write_lines(tmp_path / "no.jsonl", *lines), write_lines(tmp_path / "empty.jsonl")
    for arguments, told in (
        ((lists,), f"{lists} is a file of lists: name by --out the tuned.json to be written."),
        ((lists, *out, "--beam-size", "4"), f"--beam-size is for a model, and {lists} is a file of lists."),
        ((lists, "--out", lists), f"--out would overwrite the input, {lists}. Name another file."),
        (
            (unanswered, *out),
            "line 1: there is no reference to compare replies with. `bidibeam convert --references FILE`",
        ),
        ((empty, *out), "is empty"),
        ((lists, *out, "--metric", "distinct-1"), "is known only for all replies together"),
        ((toy_run, *out), "--out is for lists: tuned.json of a model goes into its folder."),
        (("nowhere.jsonl", *out), "--out is for lists: there is no file nowhere.jsonl."),
        ((lists, "--out", tmp_path / "tuned.svg"), "--out is the tuned.json; the curves are drawn beside it"),
        ((write_lines(tmp_path / "flat.txt", "a b"), *out), "flat.txt is not in the n-best format"),
        ((write_lines(tmp_path / "a.nbest", "0 ||| a b ||| x= 1 ||| -1"), *out), "`bidibeam convert"),
    ):
        call = called("tune", *arguments)
        assert call.status != 0
        assert told in " ".join(call.err.split()), call.err
    assert not (tmp_path / "tuned.json").exists()
