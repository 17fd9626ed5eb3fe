"""The n-best format: JSON lines, one object a source. `docs/nbest.md` describes it for other programs."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bidibeam.errors import InputError
from bidibeam.files import create_text, replacing
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.interchange.lines import LineSource, describe, name_of, numbered_lines, parse_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

T = TypeVar("T")


def to_json(beams: Beams) -> str:
    """One line of an n-best file, without its end.

    Raises:
        InputError: If a number in it is not finite, which JSON cannot say.
    """
    value = {
        "id": beams.id,
        "source": beams.source,
        "reference": beams.reference,
        "regular": [_to_mapping(hypothesis) for hypothesis in beams.regular],
        "reverse": [_to_mapping(hypothesis) for hypothesis in beams.reverse],
    }
    try:
        line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise InputError(
            f"The hypotheses for source {beams.id!r} hold a number that is not finite; "
            "an n-best file has no way to write one."
        ) from error
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair: only an escape can carry it
        return json.dumps(value, allow_nan=False)
    return line


@contextmanager
def writing(path: Path) -> Iterator[Callable[[Beams], None]]:
    """Yield a function that writes one source; the file appears under its name only once it is whole.

    A name that ends in .gz or .xz is compressed.
    """
    with replacing(path) as partial, create_text(partial, named=path) as stream:
        yield lambda beams: print(to_json(beams), file=stream)


def write(beams: Iterable[Beams], path: Path) -> None:
    """Write an n-best file; see `writing`."""
    with writing(path) as write_one:
        for each in beams:
            write_one(each)


def read(source: LineSource) -> Iterator[Beams]:
    """Read an n-best file one source at a time; blank lines are passed over.

    Raises:
        InputError: With file and line, if a line is not JSON, or a field is missing or of another type.
    """
    for number, line in numbered_lines(source):
        if line.strip():
            yield from_json(line, f"{name_of(source)}, line {number}")


def from_json(line: str, place: str = "The n-best line") -> Beams:
    """Read one line; `place` is what a message calls it."""
    value = parse_object(line, place)
    return Beams(
        id=_field(value, "id", str, place),
        source=_field(value, "source", str, place),
        reference=_nullable(value, "reference", str, place),
        regular=_read_nbest(value, "regular", place),
        reverse=_read_nbest(value, "reverse", place),
    )


def _to_mapping(hypothesis: Hypothesis) -> dict[str, object]:
    return {
        "text": hypothesis.text,
        "tokens": list(hypothesis.tokens),
        "log_prob": hypothesis.log_prob,
        "other_log_prob": hypothesis.other_log_prob,
        "length": hypothesis.length,
        "score": hypothesis.score,
        "finished": hypothesis.finished,
    }


def _read_nbest(value: Mapping[str, Any], key: str, place: str) -> NBest:
    items: list[object] = _field(value, key, list, place)
    return NBest(tuple(_read_hypothesis(item, f"{place}, {key}[{i}]") for i, item in enumerate(items)))


def _read_hypothesis(value: object, place: str) -> Hypothesis:
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a hypothesis object, received {describe(value)}.")
    tokens: list[object] = _field(value, "tokens", list, place)
    strings = tuple(token for token in tokens if isinstance(token, str))
    if len(strings) < len(tokens):
        odd = next(token for token in tokens if not isinstance(token, str))
        raise InputError(f'{place}: every one of "tokens" must be a string, received {describe(odd)}.')
    length = _field(value, "length", int, place)
    if length < 0:
        raise InputError(f'{place}: "length" must not be negative, received {describe(length)}.')
    return Hypothesis(
        text=_field(value, "text", str, place),
        tokens=strings,
        log_prob=_field(value, "log_prob", float, place),
        other_log_prob=_nullable(value, "other_log_prob", float, place),
        length=length,
        score=_field(value, "score", float, place),
        finished=_field(value, "finished", bool, place),
    )


EXPECTED = {
    str: "a string",
    list: "a list",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
}


def _nullable(value: Mapping[str, Any], key: str, kind: type[T], place: str) -> T | None:
    return None if value.get(key) is None else _field(value, key, kind, place)


def _field(value: Mapping[str, Any], key: str, kind: type[T], place: str) -> T:
    if key not in value:
        raise InputError(f'{place}: the field "{key}" is missing; it must be {EXPECTED[kind]}.')
    item = value[key]
    if kind is float and type(item) is int and abs(item) < 2**1023:
        item = float(item)
    if type(item) is not kind or (isinstance(item, float) and not math.isfinite(item)):
        raise InputError(f'{place}: "{key}" must be {EXPECTED[kind]}, received {describe(item)}.')
    return item
