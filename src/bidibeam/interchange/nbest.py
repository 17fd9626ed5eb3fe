"""The n-best format: JSON lines, one object a source. `docs/nbest.md` describes it for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.data import words
from bidibeam.errors import InputError
from bidibeam.files import create_text, replacing
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.fields import identifier, nullable
from bidibeam.interchange.lines import LineSource, describe, name_of, numbered_lines, parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bidibeam.hypotheses import Ranked, Ranking
    from bidibeam.scores import Signature

LONGEST = 1_000_000


def to_json(beams: Beams, ranking: Ranking | None = None, signature: Signature | None = None) -> str:
    """One line of an n-best file, without its end.

    Args:
        beams: What was found, written as it is.
        ranking: What a strategy made of it, if that is to be written too.
        signature: How the ranking came about.

    Raises:
        InputError: If a number in it is not finite, which JSON cannot say.
    """
    value: dict[str, object] = {
        "id": beams.id,
        "source": beams.source,
        "reference": beams.reference,
        "regular": [_hypothesis_to_mapping(hypothesis) for hypothesis in beams.regular],
        "reverse": [_hypothesis_to_mapping(hypothesis) for hypothesis in beams.reverse],
    }
    if ranking is not None:
        value["ranking"] = {
            "signature": None if signature is None else str(signature),
            "replies": [_ranked_to_mapping(entry) for entry in ranking],
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


def write(beams: Iterable[Beams], path: Path) -> None:
    """Write an n-best file in one step, compressed if its name ends in .gz or .xz."""
    with replacing(path) as partial, create_text(partial, named=path) as stream:
        stream.writelines(f"{to_json(each)}\n" for each in beams)


def read(source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:
    """Read an n-best file one source at a time; see `read_numbered`."""
    return (beams for _, beams in read_numbered(source, allow_empty=allow_empty))


def read_numbered(source: LineSource, *, allow_empty: bool = False) -> Iterator[tuple[int, Beams]]:
    """Read an n-best file one source at a time, with the numbers of their lines; blank ones are passed over.

    Args:
        source: The file.
        allow_empty: Whether a source may have no hypotheses at all, as where a search found nothing.

    Raises:
        InputError: With file and line, if a line is not JSON or not such an object, if two have the same id,
            if a source has no hypotheses, or if some hypotheses of the file have tokens and others do not.
    """
    name = name_of(source)
    line_of_id: dict[str, int] = {}
    first_place: dict[bool, str] = {}
    for number, line in numbered_lines(source):
        if not line.strip():
            continue
        place = f"{name}, line {number}"
        value = parse_object(line, place)
        beams = from_object(value, number, place)
        earlier = line_of_id.setdefault(beams.id, number)
        if earlier != number:
            raise InputError(
                f"{place}: the id {_quoted(beams.id)} stands on line {earlier} already. "
                "Give every source an id of its own, or leave all ids out."
            )
        if not (allow_empty or beams.regular or beams.reverse):
            raise InputError(
                f"{place}: the source with the id {_quoted(beams.id)} has no hypotheses. "
                "Give it at least one, or leave the line out."
            )
        _check_alike(value, name, number, first_place)
        yield number, beams


def from_json(line: str, place: str = "The n-best line") -> Beams:
    """Read one line by itself; `place` is what a message calls it."""
    return from_object(parse_object(line, place), 1, place)


def from_object(value: Mapping[str, Any], number: int, place: str) -> Beams:
    """What the object on a line says.

    Args:
        value: The object.
        number: The number of its line, which is its id if it has no other.
        place: What a message calls it.

    Raises:
        InputError: If a field is missing or of another type.
    """
    if all(value.get(direction) is None for direction in Direction):
        raise InputError(
            f'{place}: the fields "regular" and "reverse" are both missing; '
            "one of them must be there, a list of hypotheses."
        )
    return Beams(
        id=identifier(value, number, place),
        source=nullable(value, "source", str, place) or "",
        reference=nullable(value, "reference", str, place),
        regular=_read_nbest(value, "regular", place),
        reverse=_read_nbest(value, "reverse", place),
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _hypothesis_to_mapping(hypothesis: Hypothesis) -> dict[str, object]:
    return {
        "text": hypothesis.text,
        "tokens": list(hypothesis.tokens),
        "log_prob": hypothesis.log_prob,
        "other_log_prob": hypothesis.other_log_prob,
        "length": hypothesis.length,
        "score": hypothesis.score,
        "finished": hypothesis.finished,
    }


def _ranked_to_mapping(entry: Ranked) -> dict[str, object]:
    return {
        "text": entry.hypothesis.text,
        "score": entry.score,
        "direction": entry.direction.value,
        "place": entry.place,
        "partner": entry.partner,
    }


def _read_nbest(value: Mapping[str, Any], key: str, place: str) -> NBest:
    items: list[object] = nullable(value, key, list, place) or []
    return NBest(tuple(_read_hypothesis(item, f"{place}, {key}[{i}]") for i, item in enumerate(items)))


def _read_hypothesis(value: object, place: str) -> Hypothesis:
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a hypothesis object, received {describe(value)}.")
    text, tokens = nullable(value, "text", str, place), _read_tokens(value, place)
    if text is None and tokens is None:
        raise InputError(
            f'{place}: the fields "text" and "tokens" are both missing; one of them must be there.'
        )
    if tokens is None:
        tokens = tuple(words.split(text or ""))
    finished = nullable(value, "finished", bool, place) is not False
    length = nullable(value, "length", int, place)
    if length is not None and not 0 <= length <= LONGEST:
        raise InputError(
            f'{place}: "length" must lie between 0 and {LONGEST:,}, received {describe(length)}.'
        )
    return Hypothesis(
        text=" ".join(tokens) if text is None else text,
        tokens=tokens,
        log_prob=nullable(value, "log_prob", float, place),
        other_log_prob=nullable(value, "other_log_prob", float, place),
        length=len(tokens) + finished if length is None else length,
        score=nullable(value, "score", float, place),
        finished=finished,
    )


def _read_tokens(value: Mapping[str, Any], place: str) -> tuple[str, ...] | None:
    tokens: list[object] | None = nullable(value, "tokens", list, place)
    if tokens is None:
        return None
    strings = tuple(token for token in tokens if isinstance(token, str))
    if len(strings) < len(tokens):
        odd = next(token for token in tokens if not isinstance(token, str))
        raise InputError(f'{place}: every one of "tokens" must be a string, received {describe(odd)}.')
    return strings


def _check_alike(value: Mapping[str, Any], name: str, number: int, first_place: dict[bool, str]) -> None:
    """Refuse tokens here and none there: similarities would compare subwords with words.

    `first_place` keeps where the file first had a hypothesis with tokens, and where one without.
    """
    for direction in Direction:
        for index, hypothesis in enumerate(value.get(direction) or ()):
            has_tokens = hypothesis.get("tokens") is not None
            here = f"line {number}, {direction}[{index}]"
            first_place.setdefault(has_tokens, here)
            there = first_place.get(not has_tokens)
            if there is not None:
                raise InputError(
                    f'{name}, {here}: this hypothesis has {"" if has_tokens else "no "}"tokens", unlike that '
                    f"of {there}. Give tokens to every hypothesis of a file, or to none."
                )
