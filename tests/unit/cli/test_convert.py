"""`bidibeam convert`: any format into any other, and what is lost on the way."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from bidibeam.interchange import nbest
from tests.unit.cli.calls import called, fill, lines_of, refused, refused_line, write_lines

FILES = Path(__file__).parents[1] / "interchange" / "formats" / "files"

HELLO = {"text": "Hello.", "tokens": ["hello", "."], "log_prob": -2.5, "length": 3, "score": -1.25}

BYE = {"text": "Bye.", "tokens": ["bye", "."], "log_prob": -3.5, "length": 3, "score": -2.0}


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """Two sources with everything, two regular and one reverse hypothesis each."""
    lines = (
        {
            "id": id_,
            "source": "hi",
            "reference": "ho",
            "regular": [{**HELLO, "other_log_prob": -4.0}, {**BYE, "finished": False}],
            "reverse": [BYE],
        }
        for id_ in ("x", "y")
    )
    return write_lines(tmp_path / "ours.jsonl", *lines)


def test_stdout_and_json_lines_are_the_defaults() -> None:
    call = called("convert", "-", typed="3 ||| a b ||| ||| -1\n3 ||| c ||| ||| -2\n")

    (line,) = call.out.splitlines()
    value = json.loads(line)
    assert (value["id"], value["reverse"]) == ("3", [])
    assert [(found["text"], found["score"]) for found in value["regular"]] == [("a b", -1.0), ("c", -2.0)]
    assert call.told == "1 source, 2 hypotheses, from moses to jsonl."


def test_files_may_be_packed_and_the_ending_tells_how_to_write(ours: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.jsonl.xz"
    packed.write_bytes(lzma.compress(ours.read_bytes()))

    assert called("convert", packed, "-o", tmp_path / "deep" / "out.nbest.gz").status == 0

    lines = gzip.decompress((tmp_path / "deep" / "out.nbest.gz").read_bytes()).decode().splitlines()
    assert lines[0] == ("0 ||| Hello. ||| LogProb= -2.5 OtherLogProb= -4.0 Length= 3 Finished= 1 ||| -1.25")
    assert [line.split(" ||| ")[0] for line in lines] == ["0", "0", "1", "1"]
    assert called("convert", tmp_path / "deep" / "out.nbest.gz", "-o", tmp_path / "out.jsonl.gz").status == 0
    assert [beams.regular[1].finished for beams in nbest.read(tmp_path / "out.jsonl.gz")] == [False, False]


def test_ours_is_copied_with_everything_but_a_ranking_which_is_an_order_of_its_own(
    ours: Path, tmp_path: Path
) -> None:
    ranked, plain = tmp_path / "ranked.jsonl", tmp_path / "plain.jsonl"
    assert called("rerank", ours, "--strategy", "bidia", "--n-best", ranked).status == 0
    replies = lines_of(ranked)[0]["ranking"]["replies"]

    assert called("convert", ranked, "-o", plain).status == 0
    lines = called("convert", ranked, "--ranked", "--to", "moses").out.splitlines()[:2]

    assert list(nbest.read(plain)) == list(nbest.read(ours))
    assert all("ranking" not in line for line in lines_of(plain))
    assert [line.split(" ||| ")[1] for line in lines] == [reply["text"] for reply in replies]
    assert [float(line.split(" ||| ")[3]) for line in lines] == [reply["score"] for reply in replies]
    assert [line.split(" ||| ")[1] for line in lines] == ["Hello.", "Bye."]  # Bye. is not finished


def test_one_of_the_directions_is_written(ours: Path) -> None:
    regular = called("convert", ours, "--to", "mbrs")
    reverse = called("convert", ours, "--to", "mbrs", "--direction", "reverse")

    assert regular.replies == ["Hello.", "Bye."] * 2
    assert regular.told == (
        "2 sources, 4 hypotheses, from jsonl to mbrs. Note: 2 of the sources have reverse hypotheses too, "
        "but mbrs holds one list per source; --direction reverse writes those. Note: mbrs has no place for "
        "id, source, reference, log_prob, other_log_prob, score and finished; that was dropped."
    )
    assert reverse.replies == ["Bye."] * 2
    one = called("convert", "-", "--to", "mbrs", typed=ours.read_bytes().splitlines()[0])
    assert "Note: 1 of the sources has reverse hypotheses too," in one.told


def test_what_has_no_place_for_several_references_says_so(tmp_path: Path) -> None:
    line = {"id": "0", "source": "hi", "references": ["ho", "hey"], "regular": [HELLO], "reverse": []}
    path = write_lines(tmp_path / "several.jsonl", line)

    call = called("convert", path, "--to", "fairseq")
    assert "T-0\tho\n" in call.out
    assert call.told.endswith("fairseq has no place for other references; that was dropped.")
    assert json.loads(called("convert", path).out)["references"] == ["ho", "hey"]


def test_formats_are_told_apart_for_each_direction(tmp_path: Path) -> None:
    """Ids of a batch and of fairseq, once with texts and once with tokens."""
    (tmp_path / "a.jsonl").write_text('{"id": 0, "choices": [{"text": "I\'m here."}]}\n')
    (tmp_path / "b.out").write_text("S-0\twhere ?\nH-0\t-1\ti 'm he@@ re .\nD-0\t-1\tI'm here.\n")
    files = (tmp_path / "a.jsonl", "--reverse", tmp_path / "b.out")

    assert refused("convert", *files) == (
        f"One of {tmp_path / 'a.jsonl'} (openai) and {tmp_path / 'b.out'} (fairseq) gives tokens and the "
        "other does not, so that subwords would be compared with words. Say --words to split the texts of "
        "both."
    )
    line = json.loads(called("convert", *files, "--words").out)
    assert line["source"] == "where ?"
    assert line["regular"][0]["tokens"] == line["reverse"][0]["tokens"] == ["i", "'m", "here", "."]


def test_a_source_without_hypotheses_is_copied_too(tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "e.jsonl", {"id": "x", "regular": [], "reverse": []})

    assert called("convert", empty).out.startswith('{"id": "x"')
    assert json.loads(called("convert", empty, "--to", "openai").out)["choices"] == []
    assert called("convert", empty, "--to", "moses").out == ""
    assert called("convert", empty, "--to", "fairseq").out == "S-0\t\n"


@pytest.fixture
def given(ours: Path, tmp_path: Path) -> dict[str, object]:
    """Files that can be converted, and such that cannot."""
    texts = {"sources": "hi\n", "moses": "0 ||| a ||| ||| 1\n", "objects": "{}\n"}
    files = {name: tmp_path / f"{name}.txt" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text)
    (tmp_path / "link.jsonl").symlink_to(ours)
    more = {"ours": ours, "link": tmp_path / "link.jsonl", "csv": tmp_path / "o.csv"}
    return {
        **files,
        **more,
        "generated": FILES / "fairseq-generate.txt",
        "typed": FILES / "fairseq-interactive.out",
    }


WRONG = {
    "{ours} --to mose": "Unknown n-best format 'mose'. Did you mean 'moses'? Choose one of: jsonl, moses, "
    "fairseq, mbrs, openai.",
    "{ours} --direction reverse": "The format jsonl has no --direction; that is for moses, fairseq, mbrs, "
    "openai.",
    "{ours} --log-prob F0": "The format jsonl has no --log-prob; that is for moses.",
    "{ours} --per-source 2": "The format jsonl has no --per-source; that is for mbrs.",
    "{ours} --from moses --ranked": "The format moses has no --ranked; that is for jsonl.",
    "{ours} --sources - --references -": "Only one file can come from stdin, and - is given more than once.",
    "{ours} --to mbrs --per-source 3": "Source 'x' has 2 regular hypotheses, but --per-source says 3; in "
    "mbrs' flat text every source has the same number of lines.",
    "{ours} --sources {sources}": "{sources} has 1 source, but {ours} has lists for 2. There must be one for "
    "each of them, in the same order.",
    "{ours} --reverse {moses} --direction reverse": "With --reverse {moses} the lists of {ours} are the "
    "regular ones: leave out --direction reverse.",
    "{moses} --reverse {ours}": "{ours} has no source with the id '0', but {moses} has, on line 1. Both must "
    "have the same sources, by id.",
    "{sources}": "{sources}: neither its name nor its first lines tell what format this is. Say it by "
    "--from: jsonl, moses, fairseq, mbrs, openai; flat text, mbrs, needs --per-source too.",
    "{ours} --from fairseq": "{ours} has no line of fairseq's (H-0, D-0, ...) but such as the string",
    "{ours} -o {csv}": "{csv}: its name",
    "{ours} --out {link}": "--out would overwrite the input, {ours}. Name another file.",
    "{ours} --sources {objects} -o {objects}": "--out would overwrite the input, {objects}. Name another",
    "{generated} --reverse {typed}": '{generated}, line 19: the source is the string "where are you?", but '
    'that of {typed}, line 1, with the same id, is the string "where are you ?".',
}


@pytest.mark.parametrize("line", WRONG)
def test_what_cannot_be_converted_is_one_sentence(line: str, ours: Path, given: dict[str, object]) -> None:
    before = ours.read_bytes()

    assert refused_line(f"convert {line}", given).startswith(fill(WRONG[line], given))

    assert ours.read_bytes() == before


def test_nothing_is_written_unless_all_of_it_can_be(tmp_path: Path) -> None:
    """Though the line at fault is far down, neither stdout nor the file gets those before it."""
    good = "".join(f"{number} ||| a ||| ||| -1\n" for number in range(5000))
    lists, out = tmp_path / "in.moses", tmp_path / "out.jsonl"
    lists.write_text(f"{good}oops\n")
    out.write_text("as it was\n")

    said = refused("convert", lists)  # which also makes sure that stdout is empty
    assert said == f"{lists}, line 5001: expected `id ||| text ||| features ||| score`, received 1 field."
    assert refused("convert", lists, "-o", out) == said
    assert out.read_text() == "as it was\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.moses", "out.jsonl"]


def test_sources_that_were_tokenised_in_two_ways_are_joined_once_they_are_given(tmp_path: Path) -> None:
    files = (FILES / "fairseq-generate.txt", "--reverse", FILES / "fairseq-interactive.out")
    (tmp_path / "s.txt").write_text("a\nb\nc\nd\n")

    call = called("convert", *files, "--sources", tmp_path / "s.txt")
    lines = [json.loads(line) for line in call.out.splitlines()]
    assert [(line["id"], line["source"], len(line["reverse"])) for line in lines] == [
        (str(number), source, 3) for number, source in enumerate("abcd")
    ]


EVERYTHING: dict[str, Any] = {
    "text": "hello you",
    "tokens": ["hel@@", "lo", "you"],
    "log_prob": -2.5,
    "other_log_prob": -4.0,
    "length": 7,
    "score": -1.25,
    "finished": False,
}

DROPPED = {
    "jsonl": "",
    "moses": "tokens",
    "fairseq": "other_log_prob and finished",
    "mbrs": "tokens, log_prob, other_log_prob, length, score and finished",
    "openai": "tokens, log_prob, other_log_prob, length and score",
}


def note_of(folder: Path, to: str, *flags: object, regular: Any = (), reverse: Any = ()) -> str:
    """What is told to be dropped of a source of which nothing else is known."""
    lists = write_lines(folder / "l.jsonl", {"regular": list(regular), "reverse": list(reverse)})
    call = called("convert", lists, "--to", to, *flags)
    assert call.status == 0, call.err
    return call.told.partition("has no place for ")[2].removesuffix("; that was dropped.")


@pytest.mark.parametrize(("to", "dropped"), DROPPED.items())
def test_convert_tells_what_of_a_hypothesis_a_format_has_no_place_for(
    to: str, dropped: str, tmp_path: Path
) -> None:
    assert note_of(tmp_path, to, regular=[EVERYTHING]) == dropped


@pytest.mark.parametrize(("to", "dropped"), DROPPED.items())
def test_what_is_told_to_be_dropped_is_what_does_not_come_back(to: str, dropped: str, tmp_path: Path) -> None:
    first, there = write_lines(tmp_path / "l.jsonl", {"regular": [EVERYTHING]}), tmp_path / "there"
    counts = ("--per-source", "1") if to == "mbrs" else ()
    assert called("convert", first, "--to", to, "-o", there).status == 0

    (back,) = json.loads(called("convert", there, "--from", to, *counts).out)["regular"]

    for key in ("log_prob", "score"):
        if back[key] == pytest.approx(EVERYTHING[key], rel=1e-6):  # fairseq's logarithms are in base 2
            back[key] = EVERYTHING[key]
    changed = {key for key, value in EVERYTHING.items() if back.get(key) != value}
    assert changed == set(dropped.replace(" and ", ", ").split(", ")) - {""}


@pytest.mark.parametrize("to", DROPPED)
def test_nothing_is_told_of_what_a_text_says_itself_or_nobody_knows(to: str, tmp_path: Path) -> None:
    words: dict[str, Any] = {"text": "Hello you!", "tokens": ["hello", "you", "!"], "length": 4}
    scored = {**words, "score": -1.0} if to == "fairseq" else words  # its lines need one

    assert note_of(tmp_path, to, regular=[scored]) == ""


def test_only_what_would_have_been_written_is_told_to_be_dropped(tmp_path: Path) -> None:
    bare, scored = {"text": "a"}, {"text": "b", "score": -1.0}

    assert note_of(tmp_path, "mbrs", regular=[bare], reverse=[scored]) == ""
    assert note_of(tmp_path, "mbrs", "--direction", "reverse", regular=[bare], reverse=[scored]) == "score"
    assert note_of(tmp_path, "mbrs", "--per-source", "2", regular=[bare, scored]) == "score"
