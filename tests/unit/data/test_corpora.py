"""Corpus readers in the forms that corpora come in, and what they say of a line that they cannot use."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.corpora import CORPORA
from bidibeam.data.corpora.convokit import Reply, order_branches
from bidibeam.data.corpora.files import LineErrors, SourceFile, find_file, hash_texts, make_pair
from bidibeam.data.corpora.swda import clean
from bidibeam.data.corpora.tsv import TsvReader
from bidibeam.errors import CorpusError
from tests.unit.data.made_corpora import make_folder, make_tar, make_zip, read

COMPRESS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
FILES = {"b/two.txt": b"two", "a/one.txt": b"one", "__MACOSX/a/._one.txt": b"junk", "a/.hidden": b"junk"}


def conversation(identifier: str, *said: tuple[str, str]) -> Conversation:
    return Conversation(identifier, tuple(Utterance(speaker, text) for speaker, text in said))


@pytest.mark.parametrize("make", [make_folder, make_zip, make_tar])
def test_the_same_files_are_found_wherever_they_lie(make: Any, tmp_path: Path) -> None:
    contents = []
    with TsvReader().open(make(tmp_path, FILES)) as files:
        for file in files:
            with file.open() as stream:
                contents.append((file.name, stream.read()))

    assert contents == [("one.txt", b"one"), ("two.txt", b"two")]


@pytest.mark.parametrize("ending", COMPRESS)
def test_endings_say_how_to_unpack_and_the_outermost_file_is_found(ending: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for folder, content in ((tmp_path / "a", b"inner"), (tmp_path, b"text")):
        (folder / f"x.txt{ending}").write_bytes(COMPRESS[ending](content))

    with TsvReader().open(tmp_path) as files:
        outermost = find_file(files, "x.txt")
        assert outermost is not None
        with outermost.open() as stream:
            assert stream.read() == b"text"
        assert find_file(files, "y.txt") is None


def test_a_source_is_needed_and_a_damaged_archive_says_so(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^The corpus 'tsv' needs a source: a \.tsv file"):
        read("tsv", None)
    path = make_zip(tmp_path, FILES)
    path.write_bytes(path.read_bytes().replace(b"one", b"eno", 1).replace(b"two", b"owt", 1))

    with (
        pytest.raises(CorpusError, match=r"files.zip cannot be unpacked \(.+\): fetch it again\.$"),
        TsvReader().open(path) as files,
        files[0].open() as stream,
    ):
        stream.read()


def test_a_line_that_no_memory_holds_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bidibeam.data.corpora.files.LONGEST_LINE", 10)

    assert lines(b"ten bytes\n"[1:], LineErrors()) == ["en bytes"]
    with pytest.raises(CorpusError, match=r"^Line 2 of file\.txt is longer than 10 bytes"):
        lines(b"short\n" + b"x" * 11, LineErrors())


def lines(raw: bytes, errors: LineErrors, name: str = "file.txt") -> list[str]:
    return [line.text for line in errors.read(SourceFile(name, lambda: io.BytesIO(raw)))]


def test_only_a_line_feed_ends_a_line_and_a_byte_order_mark_is_not_text() -> None:
    errors = LineErrors()

    assert lines("\ufeffa\u0085b\x0cc\u2028d\r\n\nlast".encode(), errors) == ["a\u0085b\x0cc\u2028d", "last"]
    assert (errors.total, errors.bad) == (2, 0)


def test_the_first_bad_line_is_shown_in_part_and_truncated_compression_is_named() -> None:
    errors = LineErrors()
    lines(b"b\xe9d" + b"x" * 1_000_000, errors)

    assert errors.first.startswith(r"line 1 of file.txt (not utf-8 at byte 2): 'b\\xe9dxx")
    assert len(errors.first) < 200
    with pytest.raises(CorpusError, match=r"^file.xz cannot be read to its end \(.+\): fetch or unpack"):
        lines(lzma.compress(b"line\n" * 1000)[:-9], LineErrors(), "file.xz")


@given(st.lists(st.sampled_from([b"good", b"\xff\xff", b""]), max_size=300))
def test_every_line_is_read_and_one_bad_in_a_hundred_is_allowed(given_lines: list[bytes]) -> None:
    errors = LineErrors()

    kept = lines(b"\n".join(given_lines), errors)

    assert len(kept) == given_lines.count(b"good")
    assert errors.bad == given_lines.count(b"\xff\xff")
    assert errors.total == len(given_lines) - given_lines.count(b"")
    if errors.bad > errors.total / 100:
        with pytest.raises(CorpusError, match=rf"^{errors.bad} of {errors.total} lines"):
            errors.check()
    else:
        errors.check()


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_hashes_differ_exactly_as_the_texts_do(one: list[str], other: list[str]) -> None:
    one, other = [[text.replace("\0", "") for text in texts] for texts in (one, other)]

    assert (hash_texts(one) == hash_texts(other)) == (one == other)


CORNELL_LINES = b"""L1 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++ They do <u>not</u>!
L2 +++$+++ u2 +++$+++ m0 +++$+++ CAMERON +++$+++ They do\x85 to \x93caf\xe9s\x94 &amp; bars
L3 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++\x20
L4 +++$+++ u2 +++$+++ m0 +++$+++ CAMERON +++$+++ na\xc3\xafve \x0c\x1c quiet
L5 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++ undefined \x81 byte
L6 +++$+++ u0 +++$+++ m0 +++$+++ BIANCA +++$+++
"""
CORNELL_CONVERSATIONS = b"""u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L1', 'L2', 'L3']
u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L4', 'L5', 'L6']
"""


@pytest.mark.parametrize("ending", [*COMPRESS, ".zip"])
def test_cornell_however_packed(ending: str, tmp_path: Path) -> None:
    files = {"movie_lines.txt": CORNELL_LINES, "movie_conversations.txt": CORNELL_CONVERSATIONS}
    if ending == ".zip":  # as distributed: a nested folder whose name has a space, and what macOS adds
        packed = {f"cornell movie-dialogs corpus/{name}": content for name, content in files.items()}
        source = make_zip(tmp_path, {"__MACOSX/x/._movie_lines.txt": b"\0\5\26\7", **packed})
    else:
        packed = {f"{name}{ending}": COMPRESS[ending](content) for name, content in files.items()}
        source = make_folder(tmp_path, packed)

    assert read("cornell", source) == [
        conversation("L1", ("u0", "They do not!"), ("u2", "They do… to “cafés” & bars"), ("u0", "")),
        conversation("L4", ("u2", "naïve \x0c\x1c quiet"), ("u0", "undefined \x81 byte"), ("u0", "")),
    ]


def test_a_few_bad_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    bad = b"u0 +++$+++ u2 +++$+++ m0 +++$+++ ['L1', 'L9']\nonly one field\n"
    (tmp_path / "movie_lines.txt").write_bytes(CORNELL_LINES * 200 + b"L9 +++$+++ too few\n")
    (tmp_path / "movie_conversations.txt").write_bytes(CORNELL_CONVERSATIONS + bad)
    reader = CORPORA.create("cornell")

    assert [each.id for each in reader.read(tmp_path)] == ["L1", "L4"]
    assert reader.line_errors.bad == 3
    told = "line 1201 of movie_lines.txt (2 fields instead of 5): 'L9 +++$+++ too few'"
    assert reader.line_errors.first == told


def said(identifier: str, reply_to: str | None, **fields: Any) -> dict[str, Any]:
    spoken = {"speaker": f"s{identifier}", "text": f"text {identifier}", "conversation_id": "c"}
    return {"id": identifier, "reply-to": reply_to, **spoken, **fields}


def test_convokit_puts_conversations_in_order_and_knows_older_field_names(tmp_path: Path) -> None:
    entries = [
        *(said("3", "2"), said("2", "1"), said("1", None), said("9", None, conversation_id="d")),
        {"id": 1, "root": 7, "user": "ann", "reply_to": None, "text": "Hi"},
        {"id": 2, "root": 7, "speaker": {"id": "bob"}, "reply_to": 1, "text": None},
    ]
    written = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    files = {"movie-corpus/utterances.jsonl": written, "movie-corpus/speakers.json": b"{}"}

    expected = [
        conversation("c", ("s1", "text 1"), ("s2", "text 2"), ("s3", "text 3")),
        conversation("d", ("s9", "text 9")),
        conversation("7", ("ann", "Hi"), ("bob", "")),
    ]
    folder = make_folder(tmp_path, files)
    for source in (folder, make_zip(tmp_path, files), folder / "movie-corpus" / "utterances.jsonl"):
        assert read("convokit", source) == expected


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([("a", None), ("b", "a"), ("c", "a"), ("d", "b"), ("e", "c")], ["abd", "ace"]),  # each is read once
        ([("b", None), ("a", None)], ["ba"]),  # without replies the file order stands
        ([("b", "gone"), ("c", "b")], ["bc"]),  # a reply to something absent starts a conversation
        ([("a", None), ("x", "y"), ("y", "x")], ["a"]),  # a circle ends
    ],
)
def test_branches_are_put_in_order(links: list[tuple[str, str | None]], expected: list[str]) -> None:
    replies = [Reply(identifier, reply_to, Utterance("s", "")) for identifier, reply_to in links]

    assert ["".join(reply.id for reply in branch) for branch in order_branches(replies)] == expected


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_a_chain_comes_out_in_order_however_it_is_shuffled(length: int, random: Any) -> None:
    names = [chr(97 + index) for index in range(length)]
    chain = [Reply(*link, Utterance("s", "")) for link in zip(names, [None, *names], strict=False)]
    shuffled = random.sample(chain, length)

    assert order_branches(shuffled) == [chain]


COLUMNS = "swda_filename,ptb_basename,conversation_no,transcript_index,act_tag,caller,utterance_index,"
HEADER = f"{COLUMNS}subutterance_index,text,pos,trees,ptb_treenumbers\r\n"
ROWS = [
    ("o", "A", "Okay. /"),
    ("qw", "A", "{D So, } [ what, + what ] kind of {F uh, } music, -/"),
    ("x", "B", "<laughter>. /"),
    ("b", "B", "Uh-huh. /"),
    ("+", "A", "do you like? /"),
    ("sd", "B", 'I said, "{F um, } jazz" -- /'),
]


def table(rows: list[tuple[str, str, str]] = ROWS) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(
        ["sw.utt", "x", "4325", index, act, caller, index, 1, said, "", "", ""]
        for index, (act, caller, said) in enumerate(rows)
    )
    return (HEADER + text.getvalue()).encode()


def test_the_csv_release_of_swda(tmp_path: Path) -> None:
    silent = table([("x", "A", "<laughter>")])
    files = {"swda/swda-metadata.csv": b"conversation_no,name\r\n4325,sw_0001_4325\r\n", "swda/a.csv": b""}
    files |= {"swda/sw00utt/silent.utt.csv": silent, "swda/sw00utt/sw_0001_4325.utt.csv": table()}
    reader = CORPORA.create("swda")

    assert list(reader.read(make_zip(tmp_path, files))) == [
        conversation(
            "4325",
            ("A", "Okay."),
            ("A", "So, what, what kind of uh, music, do you like?"),
            ("B", "Uh-huh."),
            ("B", 'I said, "um, jazz"'),
        )
    ]
    assert reader.line_errors.bad == 0


def test_the_text_release_of_swda(tmp_path: Path) -> None:
    text = b"A|Okay.|o\nB|Hi, you.|fp\n"
    packed = make_tar(tmp_path, {"text/train/2005.txt": text, "text/train_set.txt": text})
    (tmp_path / "mine.txt").write_bytes(text)

    assert read("swda", packed) == [conversation("2005", ("A", "Okay."), ("B", "Hi, you."))]
    assert read("swda", tmp_path / "mine.txt") == [conversation("mine", ("A", "Okay."), ("B", "Hi, you."))]


@pytest.mark.parametrize(
    ("annotated", "plain"),
    [
        ("{F Uh, } [ I, + I ] was -- <laughter> {D you know, } there. /", "Uh, I, I was you know, there."),
        ("{C And } [ [ the, + the, ] + they ] left -/", "And the, the, they left"),
        ("((Well)) it's wh- what I *[[sic]] said <<faint>> #yes# /", "Well it's wh- what I said yes"),
        ("{F Um, } , {D well } .", "Um, well."),
        ("either/or, and a T V /", "either/or, and a T V"),
        ("<laughter>", ""),
    ],
)
def test_annotation_goes_and_words_stay(annotated: str, plain: str) -> None:
    assert clean(annotated) == plain


def test_speakers_of_chitchat_alternate_by_turn_and_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [[{"text": "Hello", "sender": "x"}, {"text": "Tea?", "sender": "x"}], [{"text": "Please é"}]]
    source = tmp_path / "dataset.json"
    source.write_text(json.dumps({"c1": {"messages": turns, "start": "2018"}}), encoding="utf-8")

    expected = [conversation("c1", ("A", "Hello"), ("A", "Tea?"), ("B", "Please é"))]
    assert read("chitchat", source) == read("chitchat", tmp_path) == expected
    monkeypatch.setattr("bidibeam.data.corpora.chitchat.find_spec", lambda _: None)
    with pytest.raises(CorpusError, match=r"not installed: pip install chitchat-dataset, or name a copy"):
        read("chitchat", None)


def test_jsonl_messages_and_pairs(tmp_path: Path) -> None:
    roles = {"system": "Be kind.", "user": "Tea?", "assistant": "Yes\u2028please"}
    messages = [{"role": role, "content": content} for role, content in roles.items()]
    entries = [{"id": 7, "messages": messages}, {"source": "Hi", "response": "Hello", "id": "p"}]
    text = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "a.jsonl").write_text('{"source": "Hi", "response": "You"}')
    (tmp_path / "notes.md").touch()

    assert read("jsonl", tmp_path) == [
        make_pair("Hi", "You"),
        conversation("7", ("user", "Tea?"), ("assistant", "Yes\u2028please")),
        conversation("p", ("source", "Hi"), ("response", "Hello")),
    ]


def test_tsv_pairs_with_or_without_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text('Hi\tHello "you\r\nTea?\tYes\tdialogue 7\n', newline="")

    assert read("tsv", tmp_path) == [
        make_pair("Hi", 'Hello "you'),
        conversation("dialogue 7", ("source", "Tea?"), ("response", "Yes")),
    ]


LARGE = table([("sd", "A", "x" * 200_000), ("sd", "B", "Yes. /")]).decode()
MOVIE = "u0 +++$+++ u2 +++$+++ m0 +++$+++ "
FILM, LISTED = {"movie_lines.txt": CORNELL_LINES.decode("latin-1")}, "movie_conversations.txt"


@pytest.mark.parametrize(
    ("corpus", "files", "fragment"),
    [
        ("chitchat", {"dataset.json": "{"}, "dataset.json is not the JSON that chitchat-dataset ships ("),
        ("chitchat", {"dataset.json": "[]"}, "ships (an object is needed, not list)"),
        ("chitchat", {"dataset.json": '{"c1": {"messages": [[{}]]}}'}, "conversation c1 (not a list"),
        ("convokit", {"utterances.jsonl": "{"}, "line 1 of utterances.jsonl (not JSON: Expecting property"),
        ("convokit", {"utterances.jsonl": '{"id": 1, "speaker": "s", "root": 1}'}, "(no field text)"),
        ("convokit", {"utterances.jsonl": '{"id": 1, "text": "t"}'}, "(no field speaker or user)"),
        ("convokit", {"utterances.jsonl": '{"text": "", "speaker": "s", "id": 1}'}, "ation_id or root)"),
        ("convokit", {"utterances.jsonl": '{"text": 5, "speaker": "s", "root": 1}'}, "text is not a string)"),
        ("convokit", {"utterances.jsonl": "[1]"}, "list"),
        ("convokit", {"other.json": ""}, "holds no utterances.jsonl: the corpus 'convokit' is read from"),
        ("cornell", {LISTED: f"{MOVIE}['L1']"}, "holds no movie_lines.txt: the corpus"),
        ("cornell", {"other.txt": ""}, "holds no movie_lines.txt and movie_conversations.txt: the corpus"),
        ("jsonl", {"x.jsonl": "{"}, "line 1 of x.jsonl (Expecting property name"),
        ("jsonl", {"x.jsonl": "[]"}, "(not a JSON object)"),
        ("jsonl", {"x.jsonl": "[" * 100_000}, "(maximum recursion depth"),
        ("jsonl", {"x.jsonl": "{}"}, '(not one of lines of {"messages"'),
        ("jsonl", {"x.jsonl": '{"messages": 5}'}, "(messages is not a list)"),
        ("jsonl", {"x.jsonl": '{"messages": [{"role": "a"}]}'}, "(a message without role and content)"),
        ("jsonl", {"x.jsonl": '{"messages": [{"role": "a", "content": []}]}'}, "(content is not a string)"),
        ("jsonl", {"x.jsonl": '{"source": "a", "response": null}'}, "(neither response nor references)"),
        ("jsonl", {"x.jsonl": '{"source": "a", "response": 1}'}, "(response is not a string)"),
        ("jsonl", {"x.jsonl": '{"source": "a"}'}, "(neither response nor references)"),
        ("jsonl", {"x.jsonl": '{"source": "a", "references": "b"}'}, "(references is not a list)"),
        (
            "jsonl",
            {"x.jsonl": '{"source": "a", "references": ["b", 1]}'},
            "(one of references is not a string",
        ),
        ("jsonl", {"x.jsonl": '{"source": "a", "response": "b", "split": 1}'}, "(split is not a string)"),
        (
            "jsonl",
            {"x.jsonl": '{"source": "a", "response": "b", "split": "trial"}'},
            "Line 1 of x.jsonl has the split 'trial', which is none. Write train, validation or test.",
        ),
        (
            "jsonl",
            {"x.jsonl": '{"source": "a", "response": 5, "split": "test"}'},
            "Line 1 of x.jsonl cannot be used (response is not a string), and held-out files must",
        ),
        ("e2e", {"train.jsonl": '{"name": "a"}'}, '(not one of lines of {"mr", "refs": [...]})'),
        ("dailydialog", {"train.txt": ""}, "holds no dialogues_train.txt: the corpus 'dailydialog' is read"),
        ("dailydialog", {"dialogues_train.txt": "a"}, "(not turns that each end in __eou__)"),
        (
            "dailydialog",
            {"dialogues_train.txt": "a __eou__", "train_clean_lines.txt": "1.5"},
            "line 1 of train_clean_lines.txt (not the number of a line): '1.5'",
        ),
        *(
            (
                "dailydialog",
                {"dialogues_train.txt": "a __eou__", "multireftest.json": text},
                "Line 1 of multireftest.json cannot be used (not a dialogue of texts with responses)",
            )
            for text in ("{", "[]", '{"dialogue": [{"text": 1, "responses": ["a"]}]}', '{"dialogue": [5]}')
        ),
        ("jsonl", {"x.json": ""}, "holds no .jsonl file: the corpus 'jsonl' is read from a .jsonl file"),
        ("tsv", {"x.tsv": "\nonly one"}, "line 2 of x.tsv (1 fields instead of 2 or 3): 'only one'"),
        ("tsv", {"x.csv": ""}, "holds no .tsv file: the corpus 'tsv' is read from a .tsv file"),
        ("swda", {"1.txt": "A|Okay.|o\nA|a|b|c\n"}, "line 2 of 1.txt (4 fields instead of 3)"),
        ("swda", {"s.csv": table().decode() + "too,few\r\n"}, "line 8 of s.csv (2 fields instead of 12)"),
        ("swda", {"s.csv": "a\rb,c\n"}, "line 1 of s.csv (new-line character seen"),
        ("swda", {"s.csv": LARGE}, "line 2 of s.csv (field larger than"),
        ("swda", {"s.csv": "a,b\n1,2\n"}, "holds no conversation: the corpus 'swda' is read from the folder"),
        (
            "cornell",
            {**FILM, LISTED: "u0 +++$+++ u2 +++$+++ ['L1']"},
            f"line 1 of {LISTED} (3 fields instead of",
        ),
        ("cornell", {**FILM, LISTED: f"{MOVIE}[]"}, f"line 1 of {LISTED} (no line ids in the last field)"),
        ("cornell", {**FILM, LISTED: f"{MOVIE}['L1', 'L77']"}, f"{LISTED} (movie_lines.txt has no line L77)"),
    ],
)
def test_what_is_wrong_is_said(corpus: str, files: dict[str, str], fragment: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")

    with pytest.raises(CorpusError, match=re.escape(fragment)):
        read(corpus, tmp_path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["x.tsv", "x.jsonl", "x.tsv.gz"])
def test_a_file_in_utf_16_is_refused_with_the_way_out(name: str, encoding: str, tmp_path: Path) -> None:
    """Its lines but the first would be UTF-8 too, with two fields each."""
    text = "Hi\tHello\nTea?\tYes\n" * 200
    (tmp_path / name).write_bytes(COMPRESS[".gz" if name.endswith(".gz") else ""](text.encode(encoding)))

    with pytest.raises(CorpusError, match=rf"^{name} is not UTF-8 but UTF-16, it seems: .* iconv -f utf-16"):
        read(name.split(".")[1], tmp_path)
