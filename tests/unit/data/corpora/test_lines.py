from __future__ import annotations

import io
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.corpora.lines import LineErrors, content_id
from bidibeam.errors import CorpusError


def read(raw: bytes, errors: LineErrors) -> list[str]:
    return [line.text for line in errors.read("file.txt", io.BytesIO(raw))]


def test_only_a_line_feed_ends_a_line() -> None:
    errors = LineErrors()

    assert read("a\u0085b\x0cc\u2028d\r\n\nlast".encode(), errors) == ["a\u0085b\x0cc\u2028d", "last"]
    assert (errors.total, errors.bad) == (2, 0)


def test_a_byte_order_mark_is_not_text() -> None:
    assert read("\ufeffa\nb".encode(), LineErrors()) == ["a", "b"]


def test_a_line_that_cannot_be_decoded_is_counted_and_skipped() -> None:
    errors = LineErrors()

    assert read(b"good\nb\xe9d\ngood\n", errors) == ["good", "good"]
    assert (errors.total, errors.bad) == (3, 1)
    assert errors.first == r"line 2 of file.txt (not utf-8 at byte 2): 'b\\xe9d'"


def test_too_many_bad_lines_stop_with_the_first_of_them() -> None:
    errors = LineErrors()
    read(b"good\n" * 97 + b"b\xe9d\nw\xf6rse\n" + b"good\n", errors)

    with pytest.raises(CorpusError) as caught:
        errors.check()

    assert str(caught.value) == (
        r"2 of 100 lines (2.0 %) are malformed; 1 % may be. The first is line 98 of file.txt "
        r"(not utf-8 at byte 2): 'b\\xe9d'. Is this the right corpus for the file?"
    )


def test_a_long_bad_line_is_shown_in_part() -> None:
    errors = LineErrors()
    read(b"\xff" + b"x" * 1_000_000, errors)

    assert len(errors.first) < 200
    assert errors.first.endswith("x…'")


def test_truncated_compression_names_the_file() -> None:
    cut_off = lzma.compress(b"line\n" * 1000)[:-9]

    with (
        pytest.raises(CorpusError, match=r"^file.xz cannot be read to its end \(.+\): fetch or unpack"),
        lzma.LZMAFile(io.BytesIO(cut_off)) as damaged,
    ):
        list(LineErrors().read("file.xz", damaged))


@given(st.lists(st.sampled_from([b"good", b"\xff\xff", b""]), max_size=300))
def test_every_line_is_either_read_bad_or_blank(lines: list[bytes]) -> None:
    errors = LineErrors()

    kept = read(b"\n".join(lines), errors)

    assert len(kept) == lines.count(b"good")
    assert errors.bad == lines.count(b"\xff\xff")
    assert errors.total == len(lines) - lines.count(b"")
    if errors.bad > errors.total / 100:
        with pytest.raises(CorpusError, match=rf"^{errors.bad} of {errors.total} lines"):
            errors.check()
    else:
        errors.check()


def test_one_bad_line_in_a_hundred_is_allowed() -> None:
    errors = LineErrors()
    read(b"good\n" * 99 + b"\xff", errors)

    errors.check()


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_content_ids_differ_exactly_as_the_texts_do(one: list[str], other: list[str]) -> None:
    one, other = [[text.replace("\0", "") for text in texts] for texts in (one, other)]

    assert (content_id(one) == content_id(other)) == (one == other)
