"""The n-best format: JSON lines, one object a source. `docs/nbest.md` describes it for other programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

from bidibeam.errors import InputError
from bidibeam.files import create_text, replacing
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.formats import LONGEST, Format, check_found, make_hypothesis, not_finite
from bidibeam.interchange.text_lines import (
    LineSource,
    describe,
    get_field,
    get_id,
    get_optional,
    guess_object,
    name_of,
    numbered_objects,
    parse_object,
    to_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bidibeam.hypotheses import Ranked, Ranking
    from bidibeam.scores import Signature


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
        return to_line(value)
    except ValueError as error:
        raise not_finite(beams) from error


def write(beams: Iterable[Beams], path: Path) -> None:
    """Write an n-best file in one step, compressed if its name ends in .gz or .xz."""
    with replacing(path) as partial, create_text(partial, named=path) as stream:
        stream.writelines(f"{to_json(each)}\n" for each in beams)


def read(source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:
    """Read an n-best file one source at a time; see `read_numbered`."""
    return (beams for _, beams in read_numbered(source, allow_empty=allow_empty))


def read_numbered(source: LineSource, *, allow_empty: bool = False) -> Iterator[tuple[int, Beams]]:
    """Read an n-best file one source at a time, with the numbers of their lines; blank ones are skipped.

    Args:
        source: The file.
        allow_empty: Whether a source may have no hypotheses at all, as where a search found nothing.

    Raises:
        InputError: With file and line, if a line is not JSON or not such an object, if two have the same id,
            if a source has no hypotheses, or if some hypotheses of the file have tokens and others do not.
    """
    line_of_id: dict[str, int] = {}
    first_place: dict[bool, str] = {}
    for number, place, value in numbered_objects(source):
        beams = from_object(value, number, place)
        earlier = line_of_id.setdefault(beams.id, number)
        if earlier != number:
            raise InputError(
                f"{place}: the id {_quote(beams.id)} stands on line {earlier} already. "
                "Give every source an id of its own, or leave all ids out."
            )
        if not (allow_empty or beams.regular or beams.reverse):
            raise InputError(
                f"{place}: the source with the id {_quote(beams.id)} has no hypotheses. "
                "Give it at least one, or leave the line out."
            )
        _check_tokens_alike(value, name_of(source), number, first_place)
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
        id=get_id(value, number, place),
        source=get_optional(value, "source", str, place) or "",
        reference=get_optional(value, "reference", str, place),
        regular=_read_nbest(value, "regular", place),
        reverse=_read_nbest(value, "reverse", place),
    )


@dataclass(frozen=True)
class Jsonl(Format):
    """The format of this module as one of many.

    Args:
        ranked: Whether to read what a strategy made of the lists, in its order and with its scores, instead
            of the lists themselves; all of it becomes the regular list.
    """

    ranked: bool = False

    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    has_tokens: ClassVar[bool | None] = None

    @staticmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether the first line is an object with a list of one of the directions."""
        value = guess_object(lines)
        return any(direction in value for direction in Direction)

    def read_numbered(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[tuple[int, Beams]]:
        """Read a file one source at a time; see `nbest.read_numbered`."""
        if self.ranked:
            return _read_rankings(source, allow_empty=allow_empty)
        return read_numbered(source, allow_empty=allow_empty)

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write all sources, with all that is known of them."""
        stream.writelines(f"{to_json(each)}\n" for each in beams)


def _quote(text: str) -> str:
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
    items: list[object] = get_optional(value, key, list, place) or []
    return NBest(tuple(_read_hypothesis(item, f"{place}, {key}[{i}]") for i, item in enumerate(items)))


def _read_hypothesis(value: object, place: str) -> Hypothesis:
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a hypothesis object, received {describe(value)}.")
    text = get_optional(value, "text", str, place)
    items: list[Any] | None = get_optional(value, "tokens", list, place)
    odd = [item for item in items or () if not isinstance(item, str)]
    if odd:
        raise InputError(f'{place}: every one of "tokens" must be a string, received {describe(odd[0])}.')
    if text is None and items is None:
        raise InputError(
            f'{place}: the fields "text" and "tokens" are both missing; one of them must be there.'
        )
    length = get_optional(value, "length", int, place)
    if length is not None and not 0 <= length <= LONGEST:
        raise InputError(
            f'{place}: "length" must lie between 0 and {LONGEST:,}, received {describe(length)}.'
        )
    return make_hypothesis(
        " ".join(items or ()) if text is None else text,
        tokens=None if items is None else tuple(items),
        log_prob=get_optional(value, "log_prob", float, place),
        other_log_prob=get_optional(value, "other_log_prob", float, place),
        length=length,
        score=get_optional(value, "score", float, place),
        finished=get_optional(value, "finished", bool, place) is not False,
    )


def _check_tokens_alike(
    value: Mapping[str, Any], name: str, number: int, first_place: dict[bool, str]
) -> None:
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


def _read_rankings(source: LineSource, *, allow_empty: bool) -> Iterator[tuple[int, Beams]]:
    line_of_id: dict[str, int] = {}
    for number, place, value in numbered_objects(source):
        beams = from_object(value, number, place)
        earlier = line_of_id.setdefault(beams.id, number)
        if earlier != number:
            raise InputError(f"{place}: the id {beams.id!r} stands on line {earlier} already.")
        order = NBest(tuple(_read_ranking(value, beams, place)))
        check_found(order or allow_empty, beams.id, place)
        yield number, Beams(beams.id, beams.source, beams.reference, order)


def _read_ranking(value: Mapping[str, Any], beams: Beams, place: str) -> Iterator[Hypothesis]:
    """The hypotheses in the order of the ranking, with the scores it gave them."""
    ranking = value.get("ranking")
    replies = ranking.get("replies") if isinstance(ranking, dict) else None
    if not isinstance(replies, list):
        raise InputError(f'{place}: there is no "ranking"; `bidibeam rerank --n-best FILE` writes one.')
    for index, reply in enumerate(replies):
        where = f"{place}, replies[{index}]"
        if not isinstance(reply, dict):
            raise InputError(f"{where}: expected an object, received {describe(reply)}.")
        direction, rank = get_field(reply, "direction", str, where), get_field(reply, "place", int, where)
        if direction not in list(Direction) or not 0 <= rank < len(beams.of(Direction(direction))):
            raise InputError(f"{where}: there is no hypothesis {direction}[{rank}] on this line.")
        found = beams.of(Direction(direction))[rank]._replace(score=get_field(reply, "score", float, where))
        if direction == Direction.REVERSE:  # what was its own direction is the other one in a regular list
            found = found._replace(log_prob=found.other_log_prob, other_log_prob=found.log_prob)
        yield found
