"""Our own format, JSON lines, as one of many; `interchange.nbest` reads and writes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange import nbest
from bidibeam.interchange.fields import field
from bidibeam.interchange.formats import Format
from bidibeam.interchange.formats.single import check_found
from bidibeam.interchange.lines import LineSource, describe, name_of, numbered_lines, parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Jsonl(Format):
    """JSON lines with both directions, one object a source; docs/nbest.md.

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
        value = first_object(lines)
        return value is not None and any(direction in value for direction in Direction)

    def read_numbered(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[tuple[int, Beams]]:
        """Read a file one source at a time; see `nbest.read_numbered`."""
        if self.ranked:
            return _read_rankings(source, allow_empty=allow_empty)
        return nbest.read_numbered(source, allow_empty=allow_empty)

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write all sources, with all that is known of them."""
        stream.writelines(f"{nbest.to_json(each)}\n" for each in beams)


def first_object(lines: Sequence[str]) -> dict[str, Any] | None:
    """The JSON object that a file begins with, if it begins with one."""
    if not lines or not lines[0].lstrip().startswith("{"):
        return None
    try:
        value = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read_rankings(source: LineSource, *, allow_empty: bool) -> Iterator[tuple[int, Beams]]:
    name, line_of_id = name_of(source), dict[str, int]()
    for number, line in numbered_lines(source):
        if not line.strip():
            continue
        place = f"{name}, line {number}"
        value = parse_object(line, place)
        beams = nbest.from_object(value, number, place)
        earlier = line_of_id.setdefault(beams.id, number)
        if earlier != number:
            raise InputError(f"{place}: the id {beams.id!r} stands on line {earlier} already.")
        order = NBest(tuple(_ranked(value, beams, place)))
        check_found(order or allow_empty, beams.id, place)
        yield number, Beams(beams.id, beams.source, beams.reference, order)


def _ranked(value: Mapping[str, Any], beams: Beams, place: str) -> Iterator[Hypothesis]:
    """The hypotheses in the order of the ranking, with the scores it gave them."""
    ranking = value.get("ranking")
    replies = ranking.get("replies") if isinstance(ranking, dict) else None
    if not isinstance(replies, list):
        raise InputError(f'{place}: there is no "ranking"; `bidibeam rerank --n-best FILE` writes one.')
    for index, reply in enumerate(replies):
        where = f"{place}, replies[{index}]"
        if not isinstance(reply, dict):
            raise InputError(f"{where}: expected an object, received {describe(reply)}.")
        direction, rank = field(reply, "direction", str, where), field(reply, "place", int, where)
        if direction not in list(Direction) or not 0 <= rank < len(beams.of(Direction(direction))):
            raise InputError(f"{where}: there is no hypothesis {direction}[{rank}] on this line.")
        found = beams.of(Direction(direction))[rank]._replace(score=field(reply, "score", float, where))
        if direction == Direction.REVERSE:  # what was its own direction is the other one in a regular list
            found = found._replace(log_prob=found.other_log_prob, other_log_prob=found.log_prob)
        yield found
