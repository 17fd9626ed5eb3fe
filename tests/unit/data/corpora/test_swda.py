from __future__ import annotations

import csv
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora.swda import SwdaReader, clean
from bidibeam.errors import CorpusError

HEADER = (
    "swda_filename,ptb_basename,conversation_no,transcript_index,act_tag,caller,utterance_index,"
    "subutterance_index,text,pos,trees,ptb_treenumbers"
)
ROWS = [
    ("o", "A", "Okay. /"),
    ("qw", "A", "{D So, } [ what, + what ] kind of {F uh, } music, -/"),
    ("x", "B", "<laughter>. /"),
    ("b", "B", "Uh-huh. /"),
    ("+", "A", "do you like? /"),
    ("sd", "B", 'I said, "{F um, } jazz" -- /'),
]


def table(rows: list[tuple[str, str, str]] = ROWS, number: str = "4325") -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for index, (act, caller, said) in enumerate(rows):
        writer.writerow(
            [f"sw_0001_{number}.utt", "x", number, index, act, caller, index, 1, said, "", "", ""]
        )
    return f"{HEADER}\r\n{text.getvalue()}".encode()


def test_the_csv_release_in_its_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "swda.zip", "w") as archive:
        archive.writestr("swda/swda-metadata.csv", "conversation_no,name\r\n4325,sw_0001_4325\r\n")
        archive.writestr("swda/sw00utt/sw_0001_4325.utt.csv", table())
    reader = SwdaReader()

    read = list(reader.read(tmp_path / "swda.zip"))

    said = (
        Utterance("A", "Okay."),
        Utterance("A", "So, what, what kind of uh, music, do you like?"),
        Utterance("B", "Uh-huh."),
        Utterance("B", 'I said, "um, jazz"'),
    )
    assert read == [Conversation("4325", said)]
    assert reader.lines.bad == 0


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_the_text_release_in_a_tar(mode: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "swda.tar", mode) as tape:  # type: ignore[call-overload]
        for name, content in {
            "text/train/2005.txt": b"A|Okay.|o\nB|Hi, you.|fp\n",
            "text/train_set.txt": b"A|Okay.|o\nB|Hi, you.|fp\n",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tape.addfile(member, io.BytesIO(content))

    read = list(SwdaReader().read(tmp_path / "swda.tar"))

    assert read == [Conversation("2005", (Utterance("A", "Okay."), Utterance("B", "Hi, you.")))]


def test_one_text_file_is_one_conversation(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("A|Okay.|o\n")

    assert list(SwdaReader().read(tmp_path / "mine.txt")) == [
        Conversation("mine", (Utterance("A", "Okay."),))
    ]


@pytest.mark.parametrize(
    ("annotated", "plain"),
    [
        ("{F Uh, } [ I, + I ] was -- <laughter> {D you know, } there. /", "Uh, I, I was you know, there."),
        ("{C And } [ [ the, + the, ] + they ] left -/", "And the, the, they left"),
        ("((Well)) it's wh- what I *[[sic]] said <<faint>> #yes# /", "Well it's wh- what I said yes"),
        ("{F Um, } , {D well } .", "Um, well."),
        ("either/or, and a T V /", "either/or, and a T V"),
        ("<laughter>", ""),
        ("", ""),
    ],
)
def test_annotation_goes_and_words_stay(annotated: str, plain: str) -> None:
    assert clean(annotated) == plain


LARGE = table([("sd", "A", "x" * 200_000), ("sd", "B", "Yes. /")])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("1.txt", b"A|Okay.|o\nA|a|b|c\n", r"^1 of 2 lines .* line 2 of 1\.txt \(4 fields instead of 3\)"),
        ("s.csv", table() + b"too,few\r\n", r"^1 of 7 lines .* line 8 of s\.csv \(2 fields instead of 12\)"),
        ("s.csv", LARGE, r"^1 of 2 lines .* line 2 of s\.csv \(field larger than"),
        (
            "other.csv",
            b"a,b\n1,2\n",
            r"holds no conversation: the corpus 'swda' is read from the folder, zip",
        ),
    ],
    ids=["text", "row", "large", "nothing"],
)
def test_what_is_malformed_is_counted_and_named(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CorpusError, match=message):
        list(SwdaReader().read(tmp_path))


def test_an_empty_file_is_no_conversation(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"")
    (tmp_path / "sw.utt.csv").write_bytes(table())
    (tmp_path / "silent.utt.csv").write_bytes(table([("x", "A", "<laughter>")]))
    reader = SwdaReader()

    assert [conversation.id for conversation in reader.read(tmp_path)] == ["4325"]
    assert reader.lines.total == len(ROWS) + 1
