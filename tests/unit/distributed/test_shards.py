"""One shard: its rows are those of a file, what cannot be read is put aside, and answers are n-best files."""

from __future__ import annotations

import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.distributed.shards import (
    Rejected,
    ShardError,
    TooManyRejectedError,
    kind_of,
    read_columns,
    read_shard,
    stem_of,
    write_answers,
)
from bidibeam.distributed.storage import Storage
from bidibeam.distributed.tasks import RankTask
from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams
from bidibeam.interchange.lists import ListReader
from bidibeam.interchange.nbest import parse_beams
from bidibeam.interchange.reading import parse_source, read_sources
from bidibeam.strategies.settings import StrategySettings

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
MANY = 99


def read(
    path: Path, parse: Callable[[Any], Beams] = parse_source, most: int = MANY
) -> tuple[list[Beams], Rejected]:
    rejected = Rejected(path.name, most)
    return [*read_shard(Storage(str(path.parent)), path.name, parse, rejected)], rejected


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


texts = st.text(st.characters(exclude_characters="\n\r\t", exclude_categories=["Cs"])).filter(
    lambda text: not text.startswith("\ufeff")
)
sources = st.lists(
    st.fixed_dictionaries(
        {"source": texts},
        optional={
            "reference": st.none() | texts,
            "references": st.lists(texts, min_size=1),
            "response": texts,
        },
    )
)
hypotheses = st.fixed_dictionaries(
    {"text": texts, "log_prob": st.none() | st.floats(-1e9, 0), "length": st.none() | st.integers(0, 99)},
    optional={"finished": st.booleans(), "score": st.floats(-9, 9), "other_log_prob": st.floats(-9, 9)},
)
lists = st.lists(
    st.fixed_dictionaries(
        {"source": texts, "regular": st.lists(hypotheses, min_size=1)},
        optional={"reverse": st.none() | st.lists(hypotheses)},
    )
)


def with_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every other row has an id, a string or a number, which is nobody's line."""
    ids = [None, "x", None, -1]
    return [
        {**row, "id": ids[place]} if place < len(ids) and ids[place] else row
        for place, row in enumerate(rows)
    ]


@given(rows=sources, packing=st.sampled_from([*PACK]), end=st.sampled_from(["\n", "\r\n", "\n \n\u3000\n"]))
def test_rows_of_json_lines_are_those_of_a_file(
    rows: list[dict[str, Any]], packing: str, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("json") / f"a.jsonl{packing}"
    text = "\ufeff" + "".join(f"{json.dumps(row, ensure_ascii=False)}{end}" for row in with_ids(rows))
    path.write_bytes(PACK[packing](text.encode()))

    found, rejected = read(path)

    assert (found, rejected.rows) == ([*read_sources(path)], [])


@given(
    lines=st.lists(texts | st.builds("{}\t{}\t{}".format, texts, texts, texts) | st.just("\ufeff")),
    ending=st.sampled_from([".txt", ".tsv", ".tsv.gz", ".txt.xz"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_rows_of_text_and_tables_are_those_of_a_file(
    lines: list[str], ending: str, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("text") / f"a{ending}"
    path.write_bytes(PACK.get(path.suffix, bytes)("".join(f"{line}{end}" for line in lines).encode()))

    found, rejected = read(path)

    assert (found, rejected.rows) == ([*read_sources(path)], [])


@given(rows=lists)
def test_lists_are_those_of_a_file(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lists") / "a.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in with_ids(rows)))

    found, rejected = read(path, parse_beams)

    assert (found, rejected.rows) == ([*ListReader(str(path))], [])


@given(rows=sources.filter(bool))
def test_rows_of_parquet_are_those_of_json_lines(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    keys = [*dict.fromkeys(key for row in rows for key in row)]
    rows = [{key: row.get(key) for key in keys} for row in rows]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    assert read(write_parquet(folder / "a.parquet", rows)) == (
        read(folder / "a.jsonl")[0],
        Rejected("a.parquet", MANY),
    )


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", b'{"source": }', "this is not JSON"),
        ("a.jsonl", b"[1]", "expected a JSON object, received a list"),
        ("a.jsonl", b'{"source": NaN}', "NaN is not a number in JSON"),
        ("a.jsonl", b'{"text": "x"}', 'the field "source" is missing'),
        ("a.jsonl", b'{"source": 1}', '"source" must be a string, received the number 1'),
        ("a.jsonl", b'{"source": "x", "id": 1.5}', '"id" must be a string or a whole number'),
        ("a.jsonl", b'{"source": "x", "id": 1}', "the id '1' stands on line 1 already"),
        ("a.jsonl", b'{"source": "\xff"}', "byte 13 (0xff) is not UTF-8"),
        ("a.txt", b"\xff", "byte 1 (0xff) is not UTF-8"),
        ("a.tsv.gz", b"x\t\xff", "byte 3 (0xff) is not UTF-8"),
    ],
)
def test_a_row_that_cannot_be_read_is_put_aside_with_the_reason_and_its_line(
    name: str, content: bytes, reason: str, tmp_path: Path
) -> None:
    good = b'{"source": "good"}' if "json" in name else b"good"
    path = tmp_path / name
    path.write_bytes(PACK.get(path.suffix, bytes)(b"\n".join([good, content, good, b""])))

    found, rejected = read(path)

    assert [(beams.id, beams.source) for beams in found] == [("1", "good"), ("3", "good")]
    (row,) = rejected.rows
    assert (row["shard"], row["line"]) == (name, 2)
    assert row["reason"].startswith(f"{name}, line 2: ")
    assert reason in row["reason"]
    assert row["row"] == content.decode(errors="backslashreplace")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"source": None}, '"source" must be a string, received null'),
        ({"source": "x", "id": 1.5}, '"id" must be a string or a whole number, received the number 1.5'),
        ({"source": b"x"}, '"source" must be a string, received a value of the type bytes'),
        ({"text": "x"}, 'the field "source" is missing'),
    ],
)
def test_a_row_of_parquet_that_cannot_be_read_is_put_aside(
    row: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    found, rejected = read(write_parquet(tmp_path / "a.parquet", [row]))

    assert found == []
    assert reason in rejected.rows[0]["reason"]
    assert rejected.rows[0]["row"] == row


def test_of_parquet_no_other_columns_are_read(tmp_path: Path) -> None:
    """Such as times, which Python may not have."""
    table = pa.table({"source": ["x"], "at": pa.array([1], pa.timestamp("ns"))})
    parquet.write_table(table, tmp_path / "a.parquet")

    assert [beams.source for beams in read(tmp_path / "a.parquet")[0]] == ["x"]


def test_more_rejected_rows_than_allowed_end_the_shard(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n" * 3)

    assert len(read(tmp_path / "a.jsonl", most=3)[1].rows) == 3
    with pytest.raises(TooManyRejectedError, match='the field "source" is missing'):
        read(tmp_path / "a.jsonl", most=2)


def damaged(name: str) -> bytes:
    if name.endswith(".parquet"):
        buffer = io.BytesIO()
        parquet.write_table(pa.table({"source": ["x" * 100] * 9}), buffer, compression="none")
        content = bytearray(buffer.getvalue())
        content[10:60] = b"\xff" * 50
        return bytes(content)
    packed = PACK[Path(name).suffix](b"".join(b"%d\n" % number**9 for number in range(9999)))
    return packed[: len(packed) // 2]


@pytest.mark.parametrize(
    ("name", "content"),
    [(name, damaged(name)) for name in ("a.txt.gz", "a.txt.xz", "a.parquet")]
    + [("a.txt.gz", b"plain"), ("a.txt.xz", b"plain"), ("a.parquet", b"plain"), ("a.parquet", b"")],
)
def test_a_damaged_shard_is_told_from_a_damaged_row(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(ShardError, match=f"^{name} cannot be read after (line|row) .+\\.$"):
        read(tmp_path / name)


def test_text_of_parquet_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    column = pa.array([b"\xff"]).view(pa.string())
    parquet.write_table(pa.table({"source": column}), tmp_path / "a.parquet")

    with pytest.raises(ShardError, match="utf-8"):
        read(tmp_path / "a.parquet")


def test_a_shard_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match=r"^a\.txt cannot be opened: No such file or directory\.$"):
        read(tmp_path / "a.txt")
    with pytest.raises(ShardError, match=r"^a\.parquet cannot be read"):
        read_columns(Storage(str(tmp_path)), "a.parquet")


@pytest.mark.parametrize(
    ("name", "kind", "stem"),
    [
        ("a.jsonl", "jsonl", "a"),
        ("a.json.gz", "jsonl", "a"),
        ("a.jsonl.json", "jsonl", "a.jsonl"),
        ("x.txt/part-0.tsv.xz", "tsv", "x.txt/part-0"),
        ("a.b.txt", "text", "a.b"),
        ("a.parquet", "parquet", "a"),
        ("a.parquet.gz", None, None),
        ("a.csv", None, None),
        ("a", None, None),
    ],
)
def test_the_kind_of_a_shard_is_told_by_its_ending(name: str, kind: str | None, stem: str | None) -> None:
    assert kind_of(name) == kind
    if stem is not None:
        assert stem_of(name) == stem


ROWS: list[dict[str, Any]] = [
    {"id": "a", "regular": [{"text": "b c", "log_prob": -1.5, "length": 3}], "reverse": [{"text": "b d"}]},
    {
        "id": 7,
        "source": "s",
        "regular": [{"tokens": ["é"]}],
        "reverse": [{"tokens": ["z"], "finished": False}],
    },
]
REFERENCED = {**ROWS[0], "references": ["one", "two"]}


@pytest.mark.parametrize("replies_only", [False, True])
@pytest.mark.parametrize("rows", [ROWS[:1], ROWS[1:], [REFERENCED], []])
def test_rows_of_parquet_are_those_of_json(
    rows: list[dict[str, Any]], tmp_path: Path, *, replies_only: bool
) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    answerer = RankTask(StrategySettings.named("bidia")).build()
    streams = {"jsonl": io.BytesIO(), "parquet": io.BytesIO()}
    for name, stream in streams.items():
        beams, _ = read(tmp_path / "a.jsonl", answerer.begin_shard())
        answers = answerer.answers(beams)
        count = write_answers(answers, answerer, stream, format_name=name, replies_only=replies_only)
        assert count == len(rows)

    lines = [json.loads(line) for line in streams["jsonl"].getvalue().splitlines()]
    table = parquet.read_table(io.BytesIO(streams["parquet"].getvalue()))
    assert [without_nulls(row) for row in table.to_pylist()] == [without_nulls(line) for line in lines]
    assert [set(row) for row in table.to_pylist()] >= [set(line) for line in lines]
    if not replies_only:  # what one job wrote, the next one reads
        (tmp_path / "b.parquet").write_bytes(streams["parquet"].getvalue())
        found, _ = read(tmp_path / "b.parquet", parse_beams)
        (tmp_path / "b.jsonl").write_bytes(streams["jsonl"].getvalue())
        assert found == [*ListReader(str(tmp_path / "b.jsonl"))] if rows else found == []


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [*map(without_nulls, value)] if isinstance(value, list) else value


def test_half_a_surrogate_pair_is_escaped_in_json_and_refused_in_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"regular": [{"text": "\\ud800"}], "reverse": [{"text": "b"}]}\n')
    answerer = RankTask(StrategySettings.named("bidia")).build()
    beams, rejected = read(tmp_path / "a.jsonl", answerer.begin_shard())
    stream = io.BytesIO()
    write_answers(answerer.answers(beams), answerer, stream)

    assert not rejected.rows
    assert b"\\ud800" in stream.getvalue()
    with pytest.raises(InputError, match="half a surrogate pair"):
        write_answers(answerer.answers(beams), answerer, io.BytesIO(), format_name="parquet")


def test_a_rejected_list_does_not_decide_whether_the_others_have_tokens(tmp_path: Path) -> None:
    mixed = {"regular": [{"text": "a"}, {"tokens": ["a"]}], "reverse": [{"text": "a"}]}
    plain = {"regular": [{"text": "a"}], "reverse": [{"text": "a"}]}
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in (mixed, plain, plain)))

    found, rejected = read(
        tmp_path / "a.jsonl", RankTask(StrategySettings.named("bidia")).build().begin_shard()
    )

    assert [beams.id for beams in found] == ["2", "3"]
    assert len(rejected.rows) == 1


def test_a_list_that_lacks_what_the_strategy_needs_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"regular": [{"text": "a"}]}\n')

    found, rejected = read(
        tmp_path / "a.jsonl", RankTask(StrategySettings.named("bidia")).build().begin_shard()
    )

    assert found == []
    assert "a.jsonl, line 1: source '1' has no reverse hypotheses" in rejected.rows[0]["reason"]
