"""`bidibeam rerank` on lists as other tools write them, without a conversion first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.calls import called, lines_of, refused, write_lines, write_vectors

FILES = Path(__file__).parents[1] / "interchange" / "formats" / "files"
COUNT = ("--per-source", "4")


@pytest.mark.parametrize(
    ("name", "flags", "replies"),
    [
        ("fairseq-generate.txt", ["vbs"], ["i n't know.", "no, i n't know.", "i do n't.", "i do n't know."]),
        ("moses.nbest", ["vbs"], ["i am at work .", "yes ."]),
        ("marian.nbest", ["vbs"], ["I'm at work.", "Yes."]),
        ("marian.nbest", ["longest"], ["I'm at work.", "Yes."]),
        (
            "mbrs-decode.txt",
            ["longest", *COUNT],
            [". now . . . . where where", ". . . now . . will .", ". . . . . . know ."],
        ),
        ("openai-chat.jsonl", ["vbs-tuned", "--length-exponent", "1", "--word-reward", "0"], None),
    ],
)
def test_a_list_of_another_tool_is_ranked(name: str, flags: list[str], replies: list[str] | None) -> None:
    call = called("rerank", FILES / name, "--strategy", *flags)

    if replies is None:
        assert (
            "line 2: source 'chatcmpl-B2', regular[0] has no \"log_prob\", and vbs-tuned needs it"
            in call.told
        )
    else:
        assert call.replies == replies
    assert called("rerank", "-", "--strategy", *flags, typed=(FILES / name).read_bytes()).out == call.out


def test_both_directions_come_from_two_files(tmp_path: Path) -> None:
    (tmp_path / "a.nbest").write_text(
        "0 ||| I don't know. ||| ||| -1\n0 ||| At work. ||| ||| -2\n"
        "1 ||| Yes. ||| ||| -1\n1 ||| No. ||| ||| -2\n"
    )
    (tmp_path / "b.nbest").write_text("1 ||| No! ||| ||| -1\n0 ||| At work! ||| ||| -1\n")
    joined, ranked = tmp_path / "joined.jsonl", tmp_path / "ranked.jsonl"
    files = (tmp_path / "a.nbest", "--reverse", tmp_path / "b.nbest")

    call = called("rerank", *files, "--similarity", "token_f1", "--n-best", ranked)

    assert call.replies == ["At work.", "No."]
    assert called("convert", *files, "-o", joined).status == 0
    assert called("rerank", joined, "--similarity", "token_f1").out == call.out
    assert [line["reverse"][0]["text"] for line in lines_of(ranked)] == ["At work!", "No!"]
    again = called("rerank", *files, "--similarity", "token_f1", "--n-best", ranked, "--resume")
    assert "2 were done already." in again.told
    assert refused("rerank", *files, "--similarity", "token_f1", "--n-best", tmp_path / "b.nbest") == (
        f"--n-best would overwrite the input, {tmp_path / 'b.nbest'}. Name another file."
    )


def test_a_feature_is_the_log_probability_and_references_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("at home .\nyes .\n")
    tuned = ("--strategy", "vbs-tuned", "--length-exponent", "0", "--word-reward", "0")

    assert called("rerank", FILES / "marian.nbest", "--log-prob", "F0", *tuned).replies == [
        "I'm at work.",
        "",
    ]
    oracle = ("--strategy", "oracle", "--references", tmp_path / "r.txt")
    assert called("rerank", FILES / "marian.nbest", *oracle).replies == ["At home.", "Yes."]
    assert refused("rerank", FILES / "marian.nbest", *oracle[:3], FILES / "moses.nbest") == (
        f"{FILES / 'moses.nbest'} has 3 references, but {FILES / 'marian.nbest'} has lists for 2. There must "
        "be one for each of them, in the same order."
    )


def test_the_reverse_direction_alone_can_be_ranked() -> None:
    flags = ("--strategy", "reverse-vbs", "--direction", "reverse")

    assert called("rerank", FILES / "moses.nbest", *flags).replies == ["i am at work .", "yes ."]
    assert refused("rerank", FILES / "moses.nbest", *flags[:2]) == (
        f"{FILES / 'moses.nbest'}, line 1: source '0' has no reverse hypotheses, and reverse-vbs needs them; "
        'add a list "reverse", or choose another strategy.'
    )


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
